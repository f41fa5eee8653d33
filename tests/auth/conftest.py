"""Servers and clients for the tests of OAuth."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, Callable

import pytest
from authorization_server import SERVICE, AuthorizationServer
from certificates import Authority
from protected_backend import SECRET_REF, ProtectedBackend
from watching import descriptors, eventually

from ahp_sync import Client, OAuthPolicy, TLSIdentity


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls") / "ca")


@pytest.fixture
def nothing_is_left() -> Iterator[None]:
    """See that no descriptor and no thread outlives what a test has opened.

    A module asks for it in ``pytestmark``, so that it is set up first and looks last.
    """
    before, threads = descriptors(), set(threading.enumerate())
    yield
    assert eventually(lambda: descriptors() <= before), descriptors() - before
    assert eventually(lambda: set(threading.enumerate()) <= threads)


@pytest.fixture
def server(authority: Authority) -> Iterator[AuthorizationServer]:
    with AuthorizationServer(authority) as server:
        yield server


@pytest.fixture
def backend(authority: Authority, server: AuthorizationServer) -> Iterator[ProtectedBackend]:
    """A backend whose explicit denial shows that it was asked."""
    with ProtectedBackend(server, "deny", tls=authority.server()) as backend:
        yield backend


@pytest.fixture
def oauth_client(
    authority: Authority, backend: ProtectedBackend, ahp_client: Callable[..., Client]
) -> Callable[..., Client]:
    """``oauth_client(authentication, …)``: a client of ``backend`` that trusts the authority.

    ``policy`` are options of ``OAuthPolicy``, ``options`` those of ``Client``, ``failing`` is the
    failure policy; the rest is for the registration.
    """

    def make(
        authentication: Any = None,
        *,
        policy: Any = None,
        options: Any = None,
        failing: str = "fail-closed",
        timeout_ms: int = 10_000,
        **entry: Any,
    ) -> Client:
        if "subscriptions" not in entry:
            entry.update(policy=failing, timeout_ms=timeout_ms)
        options = dict(options or {})
        options.setdefault("tls", {backend.default_id: TLSIdentity(ca_file=authority.ca_file)})
        options.setdefault("tokens", {SECRET_REF: lambda ref: SERVICE.secret})
        options.setdefault("oauth", OAuthPolicy(**(policy or {})))
        document = backend.registration(authentication=authentication, **entry)
        return ahp_client(document, **options)

    return make
