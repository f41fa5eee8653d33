"""Which transport a backend gets, from its registration and the client's arguments."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Mapping, NamedTuple, Optional, Protocol, Sequence

from ahp_sync.auth.oauth import OAuthPolicy
from ahp_sync.auth.service import AuthService
from ahp_sync.budget import Budget
from ahp_sync.preparation import Uploads
from ahp_sync.registration import Backend, HttpEndpoint, Mode, Registration
from ahp_sync.tls import TLSIdentities, TLSIdentity
from ahp_sync.transports.base import Transport
from ahp_sync.workers import DeliveryExecutor

if TYPE_CHECKING:
    from ahp_sync.auth.resolvers import TokenSource
    from ahp_sync.registration import StdioCommand, UploadRoute
    from ahp_sync.transports.upload import Uploader

__all__ = ["Closable", "Made", "TransportFactory"]

# How a body is framed is not for a registration to say (section 14, T-10).
_FRAMING = ("content-type",)


class Closable(Protocol):
    """What a client gives back at its end."""

    def close(self, budget: Budget) -> None:
        """Release everything within ``budget``."""


class Made(NamedTuple):
    """A process's transports by backend id, what of them is its own, and its uploads."""

    transports: dict[str, Transport]
    owned: Sequence[Closable]
    uploads: Uploads


class TransportFactory:
    """Makes a process's transports; everything that can be checked is checked at construction.

    :param tokens: the host's resolver of references, ``oauth`` what it allows of OAuth.
    :param max_workers: how many credentials may be under way at once, in a process.

    Raises :class:`TypeError` and :class:`ValueError` for arguments that make no sense, such as a
    backend id that the registration doesn't have, and what ``TLSIdentity`` says of unusable files.
    """

    def __init__(
        self,
        registration: Registration,
        *,
        injected: Mapping[str, Transport],
        stdio_processes: int,
        tls: Mapping[str, TLSIdentity],
        proxies: Mapping[str, str],
        trust_env: bool,
        tokens: Optional[TokenSource] = None,
        oauth: Optional[OAuthPolicy] = None,
        max_workers: int = 64,
    ) -> None:
        if isinstance(stdio_processes, bool) or not isinstance(stdio_processes, int):
            raise TypeError("stdio_processes must be an integer")
        if stdio_processes < 1:
            raise ValueError("stdio_processes must be at least 1")
        if not isinstance(trust_env, bool):
            raise TypeError(f"trust_env must be True or False, not {type(trust_env).__name__}")
        known = {backend.id for backend in registration.backends}
        for what, mapping in (("transports", injected), ("tls", tls), ("proxies", proxies)):
            if not isinstance(mapping, Mapping):
                raise TypeError(f"{what} must be a mapping, not {type(mapping).__name__}")
            names = [name for name in mapping if what == "transports" or not _is_origin(name)]
            if what != "proxies" and not known.issuperset(names):
                strangers = ", ".join(repr(name) for name in names if name not in known)
                raise ValueError(f"{what}: the registration has no backend {strangers}")
        for backend_id, transport in injected.items():
            if isinstance(transport, type) or not callable(getattr(transport, "exchange", None)):
                raise TypeError(f"transports: that of {backend_id!r} has no exchange method")
        if not all(isinstance(text, str) for pair in proxies.items() for text in pair):
            raise TypeError("proxies must map strings to strings")
        self._backends = registration.backends
        self._injected = injected
        self._stdio_processes = stdio_processes
        self._tls = TLSIdentities(registration, tls)
        if any(one.upload for backend in self._backends for one in backend.subscriptions):
            import ahp_sync.transports.upload  # noqa: F401  # or a call would, on its own time
        self._proxies = proxies
        self._trust_env = trust_env
        self._proxy_of = {
            backend.id: self._proxy(backend.transport.url)
            for backend in self._backends
            if isinstance(backend.transport, HttpEndpoint)
        }
        self._by_id = {backend.id: backend for backend in self._backends}
        self._tokens = tokens
        self._oauth = OAuthPolicy() if oauth is None else oauth
        self._max_workers = max_workers

    def make(self, executor: Optional[DeliveryExecutor] = None) -> Made:
        """Return the transports of this process.

        :param executor: what the deliveries run on, if it is known already.
        """
        executor = executor or DeliveryExecutor(1)
        auth = AuthService(
            self._tokens,
            self._oauth,
            context=self._tls.for_authorization,
            lender=executor,
            max_workers=self._max_workers,
        )
        transports = dict(self._injected)
        owned: list[Closable] = []
        for backend in self._backends:
            if backend.id not in transports:
                transports[backend.id] = transport = self._make(backend, auth)
                owned.append(transport)
        uploads = Uploads(executor, lambda backend, route: self._uploader(backend, route, auth))
        return Made(transports, (*owned, uploads, auth), uploads)

    def _make(self, backend: Backend, auth: AuthService) -> Transport:
        if isinstance(backend.transport, HttpEndpoint):
            return self._http(backend, backend.transport, auth)
        return self._stdio(backend, backend.transport)

    # Each transport is imported where it is needed: both are heavy, and most hosts have one kind.

    def _http(self, backend: Backend, endpoint: HttpEndpoint, auth: AuthService) -> Transport:
        from ahp_sync.transports.http import HttpTransport

        proxy = self._proxy_of[backend.id]
        credentials = auth.credentials(
            endpoint.url,
            endpoint.headers,
            backend.authentication,
            backend=backend.id,
            proxy=proxy,
        )
        return HttpTransport(
            endpoint.url, credentials, context=self._tls.for_backend(backend.id), proxy=proxy
        )

    def _uploader(self, backend_id: str, route: UploadRoute, auth: AuthService) -> Uploader:
        from ahp_sync.transports.upload import Uploader

        backend, proxy = self._by_id[backend_id], self._proxy(route.endpoint)
        credentials = auth.credentials(
            route.endpoint,
            getattr(backend.transport, "headers", ()),
            route.auth,
            backend=backend_id,
            proxy=proxy,
            upload=True,
            fixed=_FRAMING,
        )
        context = self._tls.for_upload(route.endpoint, backend_id)
        return Uploader(route.endpoint, route.max_bytes, credentials, context=context, proxy=proxy)

    def _proxy(self, url: str) -> Optional[str]:
        return _select_proxy(url, self._proxies, self._trust_env)

    def _stdio(self, backend: Backend, command: StdioCommand) -> Transport:
        from ahp_sync.transports.stdio import StdioTransport

        asked = Counter(
            event
            for subscription in backend.subscriptions
            if subscription.mode is Mode.INTERCEPT
            for event in subscription.events
        )
        lanes = max(asked.values(), default=1)
        return StdioTransport(command, processes=self._stdio_processes, lanes=lanes)


def _is_origin(name: Any) -> bool:
    return isinstance(name, str) and name.startswith("https://")


def _select_proxy(url: str, proxies: Mapping[str, str], trust_env: bool) -> Optional[str]:
    if not (proxies or trust_env):
        return None
    from requests.utils import get_environ_proxies, select_proxy

    named = dict(proxies)
    if trust_env:
        named = {**get_environ_proxies(url, no_proxy=None), **named}
    proxy: Optional[str] = select_proxy(url, named)
    if not proxy:
        return None
    if "://" not in proxy:
        proxy = f"http://{proxy}"
    if not proxy.lower().startswith(("http://", "https://")):
        raise ValueError("proxies: a proxy's URL must begin with http:// or https://")
    return proxy
