"""TLS trust and identity of a backend, made and checked before the first call."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Optional, Union

if TYPE_CHECKING:
    import ssl

__all__ = ["TLSIdentity", "client_context"]

Path = Union[str, "os.PathLike[str]"]


@dataclass(frozen=True)
class TLSIdentity:
    """Whom to trust, and who to be, at one backend.

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
