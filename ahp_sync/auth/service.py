"""What resolves and keeps the credentials of one client in one process."""

from __future__ import annotations

import hashlib
import hmac
import os
import ssl
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Callable, Hashable, Optional

from ahp_sync.auth.credentials import Credentials
from ahp_sync.auth.oauth import OAuthPolicy
from ahp_sync.auth.resolvers import Tokens, TokenSource
from ahp_sync.budget import Budget
from ahp_sync.registration import BearerBinding, Binding, Header, OAuthBinding
from ahp_sync.workers import DeliveryExecutor

if TYPE_CHECKING:
    from ahp_sync.auth.provider import OAuthEndpoint, OAuthProvider

__all__ = ["AuthService", "Secrets"]


class Secrets:
    """Finds the secrets behind references, for whoever needs one within a budget.

    :param tokens: what the host resolves them with.
    :param lender: the executor whose workers wait in here, and lend their place meanwhile.
    """

    def __init__(self, tokens: Tokens, lender: DeliveryExecutor) -> None:
        self._tokens = tokens
        self._lender = lender
        self._salt = os.urandom(16)

    def resolve(self, ref: str, budget: Budget) -> str:
        """Return the secret that the host knows as ``ref``; see :meth:`Tokens.resolve`."""
        with self._lender.away():
            return self._tokens.resolve(ref, budget)

    def fingerprint(self, values: Iterable[object]) -> Hashable:
        """Return what is the same for the same values, in this process, and tells none of them."""
        return hmac.digest(self._salt, repr(list(values)).encode(), hashlib.sha256().name)


class AuthService:
    """Makes the :class:`Credentials` of endpoints, and owns the threads that acquire them.

    :param tokens: the host's resolver, ``policy`` what it allows of OAuth.
    :param context: returns the TLS context for a URL that is asked on behalf of a backend.
    :param lender: the executor of the deliveries.
    :param max_workers: how many acquisitions and resolutions may be under way at once.
    """

    def __init__(
        self,
        tokens: Optional[TokenSource],
        policy: OAuthPolicy,
        *,
        context: Callable[[str, str], Optional[ssl.SSLContext]],
        lender: DeliveryExecutor,
        max_workers: int,
    ) -> None:
        self._policy = policy
        self._context = context
        self._executor = DeliveryExecutor(max_workers, name="ahp-sync-auth")
        self._lender = lender
        self._secrets = Secrets(Tokens(tokens, self._executor), lender)
        # One at most, made when it is needed, by whichever thread is first.
        self._provider: dict[str, OAuthProvider] = {}

    def credentials(
        self,
        url: str,
        headers: Sequence[Header],
        binding: Optional[Binding],
        *,
        backend: str,
        proxy: Optional[str],
        upload: bool = False,
        fixed: Iterable[str] = (),
    ) -> Credentials:
        """Return the credentials of the endpoint ``url`` of a backend. Does no I/O."""
        bearer = binding if isinstance(binding, BearerBinding) else None
        oauth = None
        if bearer is None and (binding is not None or self._policy.issuers):
            preset = binding if isinstance(binding, OAuthBinding) else None
            oauth = self._oauth(url, preset, backend=backend, proxy=proxy, upload=upload)
        return Credentials(headers, bearer, oauth, self._secrets, fixed=tuple(fixed))

    def _oauth(
        self,
        url: str,
        preset: Optional[OAuthBinding],
        *,
        backend: str,
        proxy: Optional[str],
        upload: bool,
    ) -> OAuthEndpoint:
        provider = self._provider.get("oauth")
        if provider is None:
            from ahp_sync.auth.provider import OAuthProvider

            made = OAuthProvider(
                self._policy,
                secret=self._secrets.resolve,
                context=self._context,
                executor=self._executor,
                lender=self._lender,
            )
            provider = self._provider.setdefault("oauth", made)
        return provider.endpoint(url, backend=backend, binding=preset, upload=upload, proxy=proxy)

    def close(self, budget: Budget) -> None:
        """Call off what is being acquired, and join the threads within ``budget``."""
        for provider in list(self._provider.values()):
            provider.close()
        self._executor.shutdown(cancel_futures=True, timeout=budget.remaining())
