"""The deadline-aware adapter: ``requests`` and ``urllib3``, with a budget under every socket step.

The budget travels from the transport to the socket inside the ``timeout`` argument, which both
libraries pass through (:class:`Attempt`). It bounds the connection, the TLS handshake, sending and
*each* receive, so that a drip of bytes can't restart the clock (field bugs F02, F53, trap T-04).
When the budget is aborted from outside, the socket is shut, which wakes the blocked worker.

No ``requests.Session`` is involved, hence no cookies, no ``.netrc``, no environment proxies and no
redirects (R-HTTP-06; field bugs F23, F25, F69).
"""

from __future__ import annotations

import functools
import http.client
import io
import queue
import re
import socket
import ssl
import struct
from collections import deque
from typing import Any, Optional

import urllib3
from requests import PreparedRequest, Response
from requests.adapters import HTTPAdapter
from requests.structures import CaseInsensitiveDict
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

from ahp_sync.budget import LONGEST_WAIT, Budget, BudgetEnded
from ahp_sync.failure import FailureClass, OperationalFailure
from ahp_sync.transports.base import RESPONSE_CAP
from ahp_sync.transports.dial import Permit, dial

__all__ = ["Attempt", "DeadlineAdapter"]

# Status line, headers and chunk framing of an answer, beside its body.
_FRAMING_CAP = 1 << 18
# How much of a request is gathered before it is sent; a body in pieces goes out piece by piece.
_HELD = 1 << 16
_AT_ONCE = struct.pack("ii", 1, 0)


class Attempt(urllib3.Timeout):
    """One attempt: its budget, as the time-out that ``requests`` and ``urllib3`` hand down."""

    def __init__(self, budget: Budget) -> None:
        super().__init__()
        self.budget = budget
        self.answer: Optional[http.client.HTTPResponse] = None
        #: Whether the answer was read to its end, set by who reads it; only then may the connection
        #: serve again. (That the answer is closed says nothing: urllib3 closes what it gives up.)
        self.complete = False
        #: Whether it went out on a connection that had served before.
        self.reused = False
        #: Whether the request was sent to its end, and whether it was the backend that ended it.
        self.sent = self.cut_short = False
        self._connection: Optional[_Connection] = None
        self.pool: Optional[_Pool] = None
        self._key = 0

    def clone(self) -> Attempt:
        """Return this very attempt: the time left is one and the same for every step."""
        return self

    def left(self) -> float:
        """Return the seconds for the next blocking step, or raise ``BudgetEnded``."""
        seconds = self.budget.remaining()
        if seconds <= 0:
            raise BudgetEnded
        return min(seconds, LONGEST_WAIT)

    def uses(self, connection: _Connection, pool: _Pool) -> None:
        """Bind ``connection`` to this attempt: an abort of the budget shuts it."""
        connection.attempt = self
        connection.timeout = self.left()
        self.reused = not connection.is_closed
        self._connection = connection
        self.pool = pool
        self._key = self.budget.on_abort(connection.abort)

    def release(self) -> None:
        """Give the connection back if its answer was read to the end in time, else close it.

        An abort may come from another thread at any moment. It marks the budget before it shuts
        the connection, so a connection that passes the test below can't be shut under its next user
        (R-HTTP-07, trap T-03).
        """
        connection, self._connection = self._connection, None
        if connection is None or self.pool is None:
            return
        self.budget.off_abort(self._key)
        connection.attempt = None
        if self.answer is not None:
            self.answer.close()  # one that ends with the connection outlives it otherwise
        if self.complete and not (self.cut_short or self.budget.ended):
            self.pool.give_back(connection)
        else:
            if not self.sent:
                connection.discard()
            connection.close()


class _Reader(io.RawIOBase):
    """The receiving side of a socket: every receive gets what is left of the budget, no more."""

    def __init__(self, sock: socket.socket, attempt: Attempt) -> None:
        self._socket = sock
        self._file: Any = sock.makefile("rb", buffering=0)
        self._attempt = attempt
        self._room = RESPONSE_CAP + _FRAMING_CAP
        self.ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> Optional[int]:
        if self._room <= 0:
            raise OperationalFailure(
                FailureClass.MALFORMED, "too_large", f"the answer exceeds {RESPONSE_CAP} bytes"
            )
        self._socket.settimeout(self._attempt.left())
        count: Optional[int] = self._file.readinto(buffer)
        self._room -= count or 0
        self.ended = count == 0
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


class _Source:
    """What ``http.client`` takes for a socket when it builds a response."""

    def __init__(self, reader: _Reader) -> None:
        self.reader = reader

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(self.reader)


def _response(source: Any, _: socket.socket, **kwargs: Any) -> http.client.HTTPResponse:
    return http.client.HTTPResponse(source, **kwargs)


class _Connection(HTTPConnection):
    """A connection whose every step is bounded by the attempt it serves just now."""

    attempt: Optional[Attempt] = None
    _lifeline: Optional[socket.socket] = None
    _held: Optional[list[bytes]] = None
    _room = 0

    def _new_conn(self) -> socket.socket:
        attempt = self._serving()
        pool = attempt.pool
        assert pool is not None
        self._cut()
        sock = dial(
            self.host.strip("[]"),
            self.port or self.default_port,
            attempt.budget,
            self.socket_options or (),
            pool.family,
            pool.permit,
        )
        pool.family = sock.family
        try:
            sock.settimeout(attempt.left())
            # A duplicate, since a TLS handshake takes the socket away before we could shut it.
            self._lifeline = sock.dup() if isinstance(self, HTTPSConnection) else sock
            attempt.budget.check()  # it may have been aborted before there was anything to shut
        except BaseException:
            sock.close()
            raise
        return sock

    def _serving(self) -> Attempt:
        if self.attempt is None:
            raise BudgetEnded
        return self.attempt

    def abort(self) -> None:
        """Wake whoever is blocked on this connection; called from another thread."""
        lifeline = self._lifeline
        if lifeline is not None:
            try:
                lifeline.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # it is gone already

    def discard(self) -> None:
        """Have the close throw away what was not sent yet, and tell the peer.

        Otherwise the system would go on sending it, and keep it for a peer that does not read.
        """
        if self.sock is not None:
            try:
                self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
            except OSError:
                pass  # it is gone already

    def close(self) -> None:
        super().close()
        # An answer that ends with the connection is read after http.client closed it: until the
        # attempt is over, an abort must still find something to shut.
        if self.attempt is None:
            self._cut()

    def _cut(self) -> None:
        lifeline, self._lifeline = self._lifeline, None
        if lifeline is not None:
            lifeline.close()

    def request(self, *args: Any, **kwargs: Any) -> None:
        # Head and body leave in one segment: fewer wake-ups on both sides.
        self._held, self._room = [], _HELD
        try:
            super().request(*args, **kwargs)
            self._flush()
        finally:
            self._held = None

    def send(self, data: Any) -> None:
        if self._held is None:
            super().send(data)
            return
        if self.sock is None:
            self.connect()
        self._held.append(data)
        self._room -= len(data)
        if self._room < 0:
            self._flush()

    def _flush(self) -> None:
        held, self._held = self._held, None
        if held:
            self.sock.settimeout(self._serving().left())
            self.send(held[0] if len(held) == 1 else b"".join(held))
        self._held, self._room = [], _HELD

    def getresponse(self) -> urllib3.HTTPResponse:  # type: ignore[override]
        attempt = self._serving()
        source: Any = _Source(_Reader(self.sock, attempt))
        factory: Any = functools.partial(_response, source)
        self.response_class = factory
        try:
            # Not urllib3's own, which logs the URL, and so a token in its query, over a bad header.
            answer = http.client.HTTPConnection.getresponse(self)
        finally:
            del self.response_class
        attempt.answer = answer
        if source.reader.ended:  # http.client takes the end of the stream for that of the header
            raise http.client.IncompleteRead(b"")
        if answer.msg.defects or not _is_framed(answer.msg):
            answer.close()
            raise OperationalFailure(
                FailureClass.MALFORMED, "bad_http", "the answer's header is malformed"
            )
        return urllib3.HTTPResponse(
            body=answer,
            headers=urllib3.HTTPHeaderDict(answer.msg.items()),
            status=answer.status,
            reason=answer.reason,
            version=answer.version,
            preload_content=False,
            decode_content=False,
            original_response=answer,
            enforce_content_length=True,
            request_method="POST",
        )


def _is_framed(header: http.client.HTTPMessage) -> bool:
    """Whether the body's length can be told; http.client waits for the end of time otherwise."""
    lengths = header.get_all("Content-Length", ())
    return all(length.strip(" \t").isdecimal() and length.isascii() for length in lengths)


class _SecureConnection(_Connection, HTTPSConnection):
    pass


class _Idle:
    """A stack of idle connections without a lock, which a fork could leave taken for ever."""

    def __init__(self, maxsize: int) -> None:
        self._stack: deque[Any] = deque()

    def get(self, block: bool = True, timeout: Optional[float] = None) -> Any:
        try:
            return self._stack.pop()
        except IndexError:
            raise queue.Empty from None

    def put(self, connection: Any, block: bool = True) -> None:
        if connection is not None:
            self._stack.append(connection)

    def qsize(self) -> int:
        return len(self._stack)


class _Pool(HTTPConnectionPool):
    """One backend's connections. As many as there are workers may be open; none is waited for."""

    ConnectionCls = _Connection
    QueueCls = _Idle  # type: ignore[assignment]
    #: The address family that answered last: the next connection tries it first (F55).
    family: Optional[int] = None
    #: Which addresses may be connected to; None for all.
    permit: Optional[Permit] = None

    def urlopen(
        self,
        method: str,
        url: str,
        body: Any = None,
        headers: Any = None,
        *args: Any,
        timeout: Any = None,
        **kwargs: Any,
    ) -> urllib3.HTTPResponse:
        """Send one request once. urllib3's own adds retries, redirects and a log of the URL."""
        attempt: Attempt = timeout
        connection: Any = self._get_conn()
        attempt.uses(connection, self)
        if self.proxy is not None and self.scheme == "https" and connection.is_closed:
            self._prepare_proxy(connection)
        try:
            connection.request(method, url, body=body, headers=headers)
            attempt.sent = True
        except (BrokenPipeError, ConnectionResetError, ssl.SSLEOFError):
            if body is None or isinstance(body, bytes):
                raise
            attempt.cut_short = True  # its answer may be there already: 413, for instance
        response: urllib3.HTTPResponse = connection.getresponse()
        return response

    def give_back(self, connection: _Connection) -> None:
        """Keep an idle connection for the next request, unless the pool is closed."""
        pool = self.pool
        if pool is None or connection.is_closed:
            connection.close()
        else:
            pool.put(connection)


class _SecurePool(_Pool, HTTPSConnectionPool):
    ConnectionCls = _SecureConnection


class DeadlineAdapter(HTTPAdapter):
    """A ``requests`` adapter for one endpoint, whose ``timeout`` must be an :class:`Attempt`.

    ``send`` itself is inherited, so that users' ``responses`` mocks take its place as usual.

    :param url: the endpoint; every request goes there.
    :param proxy: the proxy to use, or None.
    :param context: TLS trust and identity, made once.
    :param permit: says of each address whether a connection may be made to it; a proxy is the
        host's own and not asked about.
    """

    def __init__(
        self,
        url: str,
        proxy: Optional[str],
        context: Optional[ssl.SSLContext],
        permit: Optional[Permit] = None,
    ) -> None:
        self._url = url
        self._proxy = proxy
        self._context = context
        super().__init__(pool_connections=1)
        self._pool.permit = permit if proxy is None else None

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """Make the one connection pool there is."""
        tls: dict[str, Any] = {} if self._context is None else {"ssl_context": self._context}
        manager: urllib3.PoolManager
        self._proxy_headers: dict[str, str] = {}
        if self._proxy is None:
            manager = urllib3.PoolManager(num_pools=1, **tls)
        else:
            credentials = self.proxy_headers(self._proxy)
            manager = urllib3.ProxyManager(
                self._proxy, num_pools=1, proxy_headers=credentials, **tls
            )
            if self._url.startswith("http:"):  # no tunnel: the request itself goes to the proxy
                self._proxy_headers = credentials
        manager.pool_classes_by_scheme = {"http": _Pool, "https": _SecurePool}
        self.poolmanager = manager
        self._pool: Any = manager.connection_from_url(self._url)
        forwarded = self._proxy is not None and self._url.startswith("http:")
        self._target = self._url if forwarded else _path_and_query(self._url)

    def get_connection_with_tls_context(self, *args: Any, **kwargs: Any) -> Any:
        """Return the pool of the endpoint."""
        return self._pool

    def cert_verify(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing: the TLS context was made and checked once, at construction."""

    def add_headers(self, request: PreparedRequest, **kwargs: Any) -> None:
        """Add what a forwarding proxy asks for."""
        request.headers.update(self._proxy_headers)

    def request_url(self, *args: Any, **kwargs: Any) -> str:
        """Return what stands in the request line."""
        return self._target

    def build_response(self, req: PreparedRequest, resp: Any) -> Response:
        """Wrap urllib3's response; there are no cookies, no history and no encoding to guess."""
        response = Response()
        response.status_code = resp.status
        response.headers = CaseInsensitiveDict(resp.headers)
        response.raw = resp
        response.reason = resp.reason
        response.url = self._url
        response.request = req
        return response

    def close(self) -> None:
        """Close the idle connections; those in use are closed by whoever uses them."""
        self._pool.close()
        self.poolmanager.clear()


def _path_and_query(url: str) -> str:
    """Return what comes behind the authority, as it is written: a signature may depend on it."""
    behind = re.sub(r"\A[^:]*://[^/?#]*|#.*", "", url)
    return behind if behind.startswith("/") else f"/{behind}"
