"""Which transport a backend gets, from its registration and the client's arguments."""

from __future__ import annotations

import ssl
from collections import Counter
from typing import TYPE_CHECKING, Mapping, Optional

from ahp_sync.registration import Backend, HttpEndpoint, Mode, Registration
from ahp_sync.tls import TLSIdentity, client_context
from ahp_sync.transports.base import Transport

if TYPE_CHECKING:
    from ahp_sync.registration import StdioCommand

__all__ = ["TransportFactory"]


class TransportFactory:
    """Makes a process's transports; everything that can be checked is checked at construction.

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
            if what != "proxies" and not known.issuperset(mapping):
                strangers = ", ".join(repr(name) for name in mapping if name not in known)
                raise ValueError(f"{what}: the registration has no backend {strangers}")
        for backend_id, transport in injected.items():
            if isinstance(transport, type) or not callable(getattr(transport, "exchange", None)):
                raise TypeError(f"transports: that of {backend_id!r} has no exchange method")
        for backend_id, identity in tls.items():
            if not isinstance(identity, TLSIdentity):
                raise TypeError(f"tls: {backend_id!r} needs a TLSIdentity")
        if not all(isinstance(text, str) for pair in proxies.items() for text in pair):
            raise TypeError("proxies must map strings to strings")
        self._backends = registration.backends
        self._injected = injected
        self._stdio_processes = stdio_processes
        self._contexts = {backend.id: _context(backend, tls) for backend in self._backends}
        self._proxies = {
            backend.id: _proxy(backend, proxies, trust_env) for backend in self._backends
        }

    def make(self) -> tuple[dict[str, Transport], list[Transport]]:
        """Return the transports by backend id, and those that the client owns."""
        transports = dict(self._injected)
        owned = []
        for backend in self._backends:
            if backend.id not in transports:
                transports[backend.id] = transport = self._make(backend)
                owned.append(transport)
        return transports, owned

    def _make(self, backend: Backend) -> Transport:
        if isinstance(backend.transport, HttpEndpoint):
            return self._http(backend)
        return self._stdio(backend, backend.transport)

    # Each transport is imported where it is needed: both are heavy, and most hosts have one kind.

    def _http(self, backend: Backend) -> Transport:
        from ahp_sync.transports.http import HttpTransport

        return HttpTransport(
            backend, context=self._contexts[backend.id], proxy=self._proxies[backend.id]
        )

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


def _context(backend: Backend, tls: Mapping[str, TLSIdentity]) -> Optional[ssl.SSLContext]:
    endpoint = backend.transport
    if isinstance(endpoint, HttpEndpoint) and endpoint.url.startswith("https:"):
        return client_context(tls.get(backend.id))
    if backend.id in tls:
        raise ValueError(f"tls: the backend {backend.id!r} is not reached over https")
    return None


def _proxy(backend: Backend, proxies: Mapping[str, str], trust_env: bool) -> Optional[str]:
    endpoint = backend.transport
    if not isinstance(endpoint, HttpEndpoint) or not (proxies or trust_env):
        return None
    from requests.utils import get_environ_proxies, select_proxy

    named = dict(proxies)
    if trust_env:
        named = {**get_environ_proxies(endpoint.url, no_proxy=None), **named}
    proxy: Optional[str] = select_proxy(endpoint.url, named)
    if not proxy:
        return None
    if "://" not in proxy:
        proxy = f"http://{proxy}"
    if not proxy.lower().startswith(("http://", "https://")):
        raise ValueError("proxies: a proxy's URL must begin with http:// or https://")
    return proxy
