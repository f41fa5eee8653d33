"""Certificates for the tests over TLS, from authorities that nobody trusts otherwise."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any, Optional

import trustme

__all__ = ["Authority"]


class Authority:
    """A certificate authority, and files of what it issued, below ``folder``."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self._ca = trustme.CA()
        self.ca_file = folder / "ca.pem"
        self._ca.cert_pem.write_to_path(str(self.ca_file))

    def server(self, *names: str, asks: Optional[Authority] = None, **more: Any) -> ssl.SSLContext:
        """Return a server's context; with ``asks`` it demands client certificates of that."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._ca.issue_cert(*(names or ("127.0.0.1", "localhost")), **more).configure_cert(context)
        if asks is not None:
            context.load_verify_locations(asks.ca_file)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def client(self, name: str) -> tuple[Path, Path]:
        """Return the files of a client's certificate and of its key."""
        issued = self._ca.issue_cert(f"{name}@example.com", common_name=name)
        cert, key = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        issued.private_key_pem.write_to_path(str(key))
        for index, blob in enumerate(issued.cert_chain_pems):
            blob.write_to_path(str(cert), append=index > 0)
        return cert, key
