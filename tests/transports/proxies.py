"""A tiny proxy: it forwards plain requests and opens tunnels, and remembers what it was asked."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Optional

__all__ = ["Proxy"]

TUNNEL = b"HTTP/1.1 200 Connection established\r\n\r\n"


class Proxy:
    """Listens on 127.0.0.1. Close it, or use it as a context manager.

    :param refuses: the whole response to give to every request, instead of serving it.
    :param silent: accept and read, and say nothing.
    """

    def __init__(self, *, refuses: Optional[bytes] = None, silent: bool = False) -> None:
        self.heads: list[str] = []
        self._refuses = refuses
        self._silent = silent
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = [self._listener]
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    @property
    def address(self) -> str:
        """Host and port."""
        return "127.0.0.1:{1}".format(*self._listener.getsockname())

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    def header(self, number: int, name: str) -> Optional[str]:
        """Return the value of a header in the head that came as ``number``, or None."""
        for line in self.heads[number].split("\r\n")[1:]:
            found, _, value = line.partition(":")
            if found.lower() == name.lower():
                return value.strip()
        return None

    def close(self) -> None:
        for sock in list(self._sockets):
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for thread in list(self._threads):
            thread.join(5)
        for sock in list(self._sockets):
            sock.close()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _start(self, function: object, *arguments: object) -> None:
        thread = threading.Thread(target=function, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._sockets.append(client)
                self._start(self._serve, client)

    def _serve(self, client: socket.socket) -> None:
        with suppress(OSError), client:
            while True:
                head, rest = self._read_head(client)
                if not head:
                    return
                self.heads.append(head.decode("latin-1"))
                if self._silent:
                    continue
                if self._refuses is not None:
                    client.sendall(self._refuses)
                    return
                if head.startswith(b"CONNECT "):
                    self._tunnel(client, head.split(b" ")[1].decode())
                    return
                self._forward(client, head, rest)

    @staticmethod
    def _read_head(client: socket.socket) -> tuple[bytes, bytes]:
        data = b""
        while b"\r\n\r\n" not in data:
            piece = client.recv(1 << 16)
            if not piece:
                return b"", b""
            data += piece
        head, _, rest = data.partition(b"\r\n\r\n")
        return head, rest

    def _forward(self, client: socket.socket, head: bytes, body: bytes) -> None:
        """Pass one request on, and its answer back; the backend's connection ends with it."""
        first, *lines = head.split(b"\r\n")
        method, url, version = first.split(b" ")
        host, _, path = url.partition(b"://")[2].partition(b"/")
        lengths = [line for line in lines if line.lower().startswith(b"content-length:")]
        missing = int(lengths[0].partition(b":")[2]) - len(body)
        while missing > 0:
            piece = client.recv(missing)
            body, missing = body + piece, missing - len(piece)
        kept = [line for line in lines if not line.lower().startswith(b"proxy-")]
        request = b"\r\n".join([method + b" /" + path + b" " + version, *kept, b"", body])
        with self._connect(host.decode()) as backend:
            backend.sendall(request)
            client.sendall(backend.recv(1 << 16))

    def _tunnel(self, client: socket.socket, target: str) -> None:
        with self._connect(target) as backend:
            client.sendall(TUNNEL)
            back = threading.Thread(target=_pump, args=(backend, client), daemon=True)
            back.start()
            _pump(client, backend)
            back.join(5)

    def _connect(self, target: str) -> socket.socket:
        host, _, port = target.partition(":")
        backend = socket.create_connection((host, int(port)), 5)
        backend.settimeout(None)
        self._sockets.append(backend)
        return backend


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while piece := source.recv(1 << 16):
            sink.sendall(piece)
    for sock in (source, sink):
        with suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)
