"""One accepted connection of the scripted HTTP backend: reading requests, sending bytes, ending."""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Dict, Optional, Tuple

if TYPE_CHECKING:
    import ssl

__all__ = ["Connection", "ConnectionOver", "Head"]

#: Longer than any test: "for ever", for a socket that refuses an infinite time-out.
FOR_EVER = 86_400.0


class ConnectionOver(Exception):
    """The client closed the connection, or the backend is closing."""


@dataclass
class Head:
    """The head of a request, and the body behind it."""

    method: str
    path: str
    headers: Tuple[Tuple[str, str], ...]
    body: bytes = field(repr=False)

    @property
    def keeps_alive(self) -> bool:
        """Whether the client wants to use the connection again."""
        return ("connection", "close") not in [(k.lower(), v.lower()) for k, v in self.headers]


class Connection:
    """A socket and what is known about it. Only its own thread uses it, except for :meth:`shut`."""

    def __init__(self, number: int, sock: socket.socket) -> None:
        self.number = number
        self.opened_at = time.monotonic()
        self.closed_at: Optional[float] = None
        #: Who ended it: "client", "backend", or None while it is open.
        self.closed_by: Optional[str] = None
        self.served = 0
        self.peer_certificate: Optional[Dict[str, Any]] = None
        self._sock = sock
        self._buffer = b""
        #: Whether the backend ends it from outside.
        self.is_shut = False
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def handshake(self, context: ssl.SSLContext) -> None:
        """Do the server's part of a TLS handshake; :class:`ConnectionOver` if it fails."""
        try:
            wrapped = context.wrap_socket(
                self._sock, server_side=True, do_handshake_on_connect=False
            )
            self._sock = wrapped
            if self.is_shut:
                raise ConnectionOver
            wrapped.do_handshake()
            self.peer_certificate = wrapped.getpeercert()
        except OSError as error:
            raise ConnectionOver from error

    def read_request(self) -> Optional[Head]:
        """Return the next request, or None if the client ends the connection instead."""
        while b"\r\n\r\n" not in self._buffer:
            if not self._receive():
                return None
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        method, _, rest = first.partition(" ")
        pairs = (line.partition(":") for line in lines)
        headers = tuple((name, value.strip()) for name, _, value in pairs)
        length = next(
            (int(value) for name, value in headers if name.lower() == "content-length"), 0
        )
        pieces, missing = [self._buffer], length - len(self._buffer)
        while missing > 0:
            piece = self._receive(keep=False)
            if not piece:
                return None
            pieces.append(piece)
            missing -= len(piece)
        whole = b"".join(pieces)
        self._buffer = whole[length:]
        return Head(method, rest.rpartition(" ")[0], headers, whole[:length])

    def _receive(self, *, keep: bool = True) -> bytes:
        try:
            piece = self._sock.recv(1 << 16)
        except socket.timeout:
            raise
        except OSError as error:
            raise ConnectionOver from error
        if keep:
            self._buffer += piece
        return piece

    def send(self, data: bytes) -> None:
        """Send all of ``data``; :class:`ConnectionOver` once the client is gone."""
        try:
            self._sock.sendall(data)
        except OSError as error:
            raise ConnectionOver from error

    def pause(self, seconds: float) -> None:
        """Wait ``seconds``; :class:`ConnectionOver` as soon as the client is gone."""
        until = time.monotonic() + seconds
        try:
            while True:
                left = until - time.monotonic()
                if left <= 0:
                    return
                self._sock.settimeout(left)
                if not self._receive():
                    raise ConnectionOver
        except socket.timeout:
            pass
        finally:
            with contextlib.suppress(OSError):
                self._sock.settimeout(None)

    def until_gone(self) -> None:
        """Wait until the client is gone, and raise :class:`ConnectionOver`."""
        self.pause(FOR_EVER)

    def reset(self) -> None:
        """End the connection with a TCP reset."""
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close("backend")

    def close(self, by: str) -> None:
        """Close the socket; ``by`` says who wanted it ("client" or "backend"). Repeatable."""
        if self.closed_by is None:
            self.closed_by = by
            self.closed_at = time.monotonic()
            self._sock.close()

    def shut(self) -> None:
        """Wake the thread that is blocked on this connection: for the backend's close only."""
        self.is_shut = True
        with contextlib.suppress(OSError):
            # Not SSLSocket.shutdown(), which takes the TLS state from under the other thread.
            socket.socket.shutdown(self._sock, socket.SHUT_RDWR)
