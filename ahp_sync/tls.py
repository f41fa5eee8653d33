"""TLS trust and identity of a backend, made and checked before the first call."""

from __future__ import annotations

import os
import urllib.parse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Optional, Union

from ahp_sync.registration import Backend, HttpEndpoint, OAuthBinding, Registration

if TYPE_CHECKING:
    import ssl

__all__ = ["TLSIdentities", "TLSIdentity", "client_context", "urls_of"]

Path = Union[str, "os.PathLike[str]"]


@dataclass(frozen=True)
class TLSIdentity:
    """Whom to trust, and who to be, at one backend, authorization server or upload endpoint.

    :param ca_file: a PEM file of the certificate authorities to trust *instead of* the usual ones;
        no environment variable overrides it (field bug F69).
    :param cert_file: a PEM file of the client certificate and its chain.
    :param key_file: its private key, where that is not in ``cert_file``.

    The files are read when the client is constructed: :class:`OSError` or :class:`ValueError`
    there says which one is unusable.
    """

    ca_file: Optional[Path] = None
    cert_file: Optional[Path] = None
    key_file: Optional[Path] = None

    def __post_init__(self) -> None:
        if self.key_file is not None and self.cert_file is None:
            raise ValueError("key_file needs a cert_file")


class TLSIdentities:
    """The TLS context for each URL that is asked, made from the client's ``tls`` option.

    :param given: identities by backend id, or by the origin (``https://host[:port]``) of an
        authorization server or an upload endpoint. An origin of its own comes first. An upload
        endpoint shares its backend's identity otherwise; an authorization server shares whom the
        backend trusts, and its certificate only where both have one origin.

    Raises what :class:`TLSIdentity` says of unusable files, :class:`TypeError` for another value,
    and :class:`ValueError` for a backend that is not reached over https, and for a key that is no
    origin.
    """

    def __init__(self, registration: Registration, given: Mapping[str, TLSIdentity]) -> None:
        self._given: dict[str, TLSIdentity] = {}
        for name, identity in given.items():
            if not isinstance(identity, TLSIdentity):
                raise TypeError(f"tls: {name!r} needs a TLSIdentity")
            is_origin = name.startswith("https://")
            origin = _origin(name) if is_origin else name
            if is_origin and urllib.parse.urlsplit(name).path.strip("/"):
                raise ValueError(f"tls: {name!r} is no origin, such as {origin!r}")
            self._given[origin] = identity
        self._contexts: dict[Optional[TLSIdentity], ssl.SSLContext] = {}
        self._origins: dict[str, str] = {}
        for backend in registration.backends:
            secure = [url for url in urls_of(backend) if url.startswith("https:")]
            if backend.id in self._given and not secure:
                raise ValueError(f"tls: the backend {backend.id!r} is not reached over https")
            if isinstance(backend.transport, HttpEndpoint):
                self._origins[backend.id] = _origin(backend.transport.url)
        # All that are known of are made and checked now: a call has no time for it.
        for identity in self._given.values():
            self._context(identity)
        for backend in registration.backends:
            for url in _endpoints(backend):
                self.for_upload(url, backend.id)
            for url in _issuers(backend):
                self.for_authorization(url, backend.id)

    def for_backend(self, backend: str) -> Optional[ssl.SSLContext]:
        """Return the context for a backend's own URL; None for plain HTTP."""
        return self.for_upload(self._origins[backend], backend)

    def for_upload(self, url: str, backend: str) -> Optional[ssl.SSLContext]:
        """Return the context for an endpoint of a backend; None for plain HTTP."""
        if not url.startswith("https:"):
            return None
        return self._context(self._given.get(_origin(url)) or self._given.get(backend))

    def for_authorization(self, url: str, backend: str) -> Optional[ssl.SSLContext]:
        """Return the context for an authorization server that is asked on behalf of a backend."""
        origin, own = _origin(url), self._given.get(backend)
        if origin in self._given or origin == self._origins.get(backend) or own is None:
            return self.for_upload(url, backend)
        return self._context(TLSIdentity(ca_file=own.ca_file))

    def _context(self, identity: Optional[TLSIdentity]) -> ssl.SSLContext:
        context = self._contexts.get(identity)
        if context is None:
            context = self._contexts.setdefault(identity, client_context(identity))
        return context


def urls_of(backend: Backend) -> Iterator[str]:
    """Yield all URLs that a registered backend makes the client ask."""
    yield from _endpoints(backend)
    yield from _issuers(backend)


def _endpoints(backend: Backend) -> Iterator[str]:
    if isinstance(backend.transport, HttpEndpoint):
        yield backend.transport.url
    for subscription in backend.subscriptions:
        if subscription.upload is not None:
            yield subscription.upload.endpoint


def _issuers(backend: Backend) -> Iterator[str]:
    uploads = (subscription.upload for subscription in backend.subscriptions)
    bindings = [upload.auth for upload in uploads if upload is not None]
    for binding in (backend.authentication, *bindings):
        if isinstance(binding, OAuthBinding):
            yield binding.issuer


def _origin(url: str) -> str:
    parts = urllib.parse.urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    host = parts.hostname or ""
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def client_context(identity: Optional[TLSIdentity]) -> ssl.SSLContext:
    """Return a context that verifies certificates and host names, always."""
    import ssl

    from certifi import where
    from urllib3.util.ssl_ import create_urllib3_context

    identity = identity or TLSIdentity()
    context: ssl.SSLContext = create_urllib3_context(cert_reqs=ssl.CERT_REQUIRED)
    context.check_hostname = True
    ca_file = where() if identity.ca_file is None else os.fspath(identity.ca_file)
    _load("ca_file", ca_file, lambda: context.load_verify_locations(cafile=ca_file))
    if identity.cert_file is not None:
        cert = os.fspath(identity.cert_file)
        key = None if identity.key_file is None else os.fspath(identity.key_file)
        if key is not None:  # OpenSSL does not say which of the two it can't read
            _load("key_file", key, lambda: open(key, "rb").close())
        _load("cert_file", cert, lambda: context.load_cert_chain(cert, key, _no_password))
    return context


def _load(what: str, path: str, load: object) -> None:
    import ssl

    assert callable(load)
    try:
        load()
    except ssl.SSLError as error:
        raise ValueError(f"{what} {path!r} can't be used: {error.reason or 'not PEM'}") from None
    except OSError as error:
        raise type(error)(error.errno, f"{what} can't be read: {error.strerror}", path) from None


def _no_password() -> str:
    # Without this OpenSSL asks on the terminal, which a library must not.
    raise ValueError("the private key is encrypted, which is not supported")
