"""What acquires tokens in a client, by itself: no registration and no delivery around it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Callable, Optional

import pytest
from authorization_server import APP, SERVICE, AuthorizationServer
from certificates import Authority
from protected_backend import SECRET_REF
from watching import GENEROUS

from ahp_sync import Budget, TLSIdentity
from ahp_sync.auth.access import AccessToken
from ahp_sync.auth.oauth import OAuthPolicy
from ahp_sync.auth.provider import OAuthEndpoint, OAuthProvider
from ahp_sync.failure import FailureClass, OperationalFailure
from ahp_sync.registration import OAuthBinding, OAuthFlow
from ahp_sync.tls import client_context
from ahp_sync.workers import DeliveryExecutor

__all__ = ["RESOURCE_URL", "Side", "at_once", "refused", "value_of"]

#: An endpoint on loopback, as the authorization server is. Nothing listens there.
RESOURCE_URL = "https://127.0.0.1:9/ahp"


class Side:
    """A provider of tokens with the threads that it runs on; a context manager.

    ``policy`` are the options of an ``OAuthPolicy``; ``secret`` finds the service's secret.
    """

    def __init__(
        self,
        authority: Authority,
        server: AuthorizationServer,
        *,
        secret: Optional[Callable[[str, Budget], str]] = None,
        **policy: Any,
    ) -> None:
        self.server = server
        self.executor = DeliveryExecutor(16, name="acquiring")
        self.lender = DeliveryExecutor(1, name="delivering")
        context = client_context(TLSIdentity(ca_file=authority.ca_file))
        self.provider = OAuthProvider(
            OAuthPolicy(**policy),
            secret=secret or (lambda ref, budget: SERVICE.secret or ""),
            context=lambda url, backend: context,
            executor=self.executor,
            lender=self.lender,
        )

    def service(self, url: str = RESOURCE_URL, **more: Any) -> OAuthEndpoint:
        """Return an endpoint whose tokens are the service's, by a binding."""
        return self.bound(url, OAuthFlow.CLIENT_CREDENTIALS, **more)

    def app(self, url: str = RESOURCE_URL, **more: Any) -> OAuthEndpoint:
        """Return likewise one that asks a user of the app."""
        more = {"client_id": APP.client_id, "client_secret_ref": None, **more}
        return self.bound(url, OAuthFlow.AUTHORIZATION_CODE_PKCE, **more)

    def bound(
        self, url: str, flow: OAuthFlow, *, upload: bool = False, **changes: Any
    ) -> OAuthEndpoint:
        """Return an endpoint with a binding of ``flow``."""
        binding: dict[str, Any] = {
            "resource": url,
            "issuer": self.server.issuer,
            "client_id": SERVICE.client_id,
            "scopes": ("deliver",),
            "client_secret_ref": SECRET_REF,
            **changes,
        }
        return self.endpoint(url, OAuthBinding(flow=flow, **binding), upload=upload)

    def endpoint(
        self, url: str, binding: Optional[OAuthBinding] = None, *, upload: bool = False
    ) -> OAuthEndpoint:
        """Return an endpoint, without a binding unless one is given."""
        return self.provider.endpoint(
            url, backend="com.example.backend", binding=binding, upload=upload, proxy=None
        )

    def __enter__(self) -> Side:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.provider.close()
        for executor in (self.executor, self.lender):
            executor.shutdown(cancel_futures=True)


def value_of(token: Optional[AccessToken]) -> str:
    """Return what a token looks like on the wire; fail where there is none."""
    assert token is not None
    return token.value


def refused(call: Callable[[], Any], code: str) -> OperationalFailure:
    """Assert that ``call`` fails with ``code``, as a failure of credentials, and return that."""
    with pytest.raises(OperationalFailure) as caught:
        call()
    assert caught.value.code == code, str(caught.value)
    assert caught.value.failure_class is FailureClass.AUTHENTICATION
    assert not caught.value.retryable
    return caught.value


def at_once(calls: Sequence[Callable[[], Any]]) -> list[Any]:
    """Make all calls at the same time, and return what they return or raise, in order."""
    barrier = threading.Barrier(len(calls))

    def call(one: Callable[[], Any]) -> Any:
        barrier.wait(GENEROUS)
        try:
            return one()
        except Exception as error:
            return error

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(call, calls))
