"""A WSGI application served over TLS on loopback, one thread a connection, that ends in time."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import ssl
import sys
import threading
import time
from typing import Any, Callable
from wsgiref.handlers import SimpleHandler
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

__all__ = ["CONNECTION", "PEER_CERTIFICATE", "TLSService"]

#: Where an application finds its connection, and what the client showed, in its environment.
CONNECTION, PEER_CERTIFICATE = "tests.connection", "tests.peer_certificate"

#: How long :meth:`TLSService.close` waits for the threads, in seconds.
CLOSE_TIMEOUT = 5.0


class TLSService(WSGIServer):
    """Serves ``app`` with the server-side ``context`` on a port of its own, from at once to close.

    The handshake is done on the thread of the connection, so that a client that says nothing keeps
    nobody else waiting.
    """

    request_queue_size = 256

    def __init__(self, app: Callable[..., Any], context: ssl.SSLContext) -> None:
        self._context = context
        self._lock = threading.Lock()
        self._connections: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        super().__init__(("127.0.0.1", 0), _Handler)
        self.set_app(app)
        self._accepting = threading.Thread(
            target=self.serve_forever, args=(0.01,), name="tls-service", daemon=True
        )
        self._accepting.start()

    @property
    def port(self) -> int:
        """The TCP port."""
        return int(self.server_address[1])

    def server_bind(self) -> None:
        """Bind without asking the resolver what this machine is called."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "127.0.0.1", self.server_address[1]
        self.setup_environ()
        self.base_environ.update({"HTTPS": "on", "REMOTE_HOST": ""})

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection on a thread of its own."""
        thread = threading.Thread(
            target=self._serve, args=(request, client_address), name="tls-service", daemon=True
        )
        with self._lock:
            self._threads = [*(t for t in self._threads if t.is_alive()), thread]
        thread.start()

    def _serve(self, sock: socket.socket, client_address: Any) -> None:
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock = self._context.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
            with self._lock:
                self._connections.add(sock)
            sock.do_handshake()
            self.finish_request(sock, client_address)
        except OSError:
            pass  # SSLError among them: the client is gone, or was refused
        finally:
            with self._lock:
                self._connections.discard(sock)
            with contextlib.suppress(OSError):
                socket.socket.shutdown(sock, socket.SHUT_WR)
            sock.close()

    def close(self) -> None:
        """End the service, its connections and threads. Raises :class:`RuntimeError` if one stays.

        Whatever makes the application wait has to be ended before.
        """
        self.shutdown()
        self.server_close()
        until = time.monotonic() + CLOSE_TIMEOUT
        while True:
            with self._lock:
                alive = [t for t in (self._accepting, *self._threads) if t.is_alive()]
                for sock in self._connections:
                    with contextlib.suppress(OSError):
                        # Not SSLSocket.shutdown(), which takes the TLS state from the thread.
                        socket.socket.shutdown(sock, socket.SHUT_RDWR)
            if not alive:
                return
            if time.monotonic() >= until:
                raise RuntimeError(f"{len(alive)} threads of the service did not end")
            alive[0].join(0.05)


class _Handler(WSGIRequestHandler):
    """One request, then the end of the connection."""

    wbufsize = -1
    disable_nagle_algorithm = True

    def address_string(self) -> str:
        return str(self.client_address[0])

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def handle(self) -> None:
        self.raw_requestline = self.rfile.readline(65537)
        if not self.raw_requestline or not self.parse_request():
            return
        environ = self.get_environ()
        environ[CONNECTION] = self.connection
        environ[PEER_CERTIFICATE] = self.connection.getpeercert()
        # An exception of the application's is for the log of Flask, which answers 500.
        _Answer(self.rfile, self.wfile, sys.stderr, environ, multithread=True).run(
            self.server.get_app()
        )

    def finish(self) -> None:
        # Both, whatever one of them says, since an open file keeps the socket open.
        for file in (self.wfile, self.rfile):
            with contextlib.suppress(OSError, ValueError):
                file.close()


class _Answer(SimpleHandler):
    """The answer, and nothing said about a client that did not wait for it."""

    def run(self, application: Callable[..., Any]) -> None:
        try:
            self.setup_environ()
            self.result = application(self.environ, self.start_response)
            self.finish_response()
        except OSError:
            self.close()
