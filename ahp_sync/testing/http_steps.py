"""What the scripted HTTP backend can do with a request, or with a connection: one step an entry.

:data:`REQUEST_STEPS` maps names to functions of the :class:`Exchange` and the step's arguments;
:data:`CONNECTION_STEPS` holds what happens before a request is read, if one ever is. The docstrings
describe the entries. Whoever reads :mod:`ahp_sync.testing.answers` knows the rest: each answer is a
step too, sent under status 200 (a notification gets 204 instead).
"""

from __future__ import annotations

import functools
import json
import struct
import zlib
from http import HTTPStatus
from typing import Any, Callable, Dict, Iterable, Mapping, Optional, Tuple, Union

from ahp_sync.testing.answers import ANSWERS, deny
from ahp_sync.testing.http_wire import Connection
from ahp_sync.testing.received import ReceivedRequest
from ahp_sync.testing.steps import Step, as_step

__all__ = ["CONNECTION_STEPS", "LISTENER_STEPS", "REQUEST_STEPS", "TLS_STEPS", "Exchange", "play"]

JSON = "application/json"
Headers = Union[Mapping[str, str], Iterable[Tuple[str, str]]]

REQUEST_STEPS: Dict[str, Callable[..., None]] = {}
CONNECTION_STEPS: Dict[str, Callable[..., None]] = {}


class Exchange:
    """One request and the way to answer it."""

    def __init__(self, connection: Connection, request: ReceivedRequest, base_url: str) -> None:
        self.connection = connection
        self.request = request
        self.base_url = base_url
        self.send = connection.send
        self.pause = connection.pause
        self.until_gone = connection.until_gone
        self.reset = connection.reset

    @property
    def rpc_id(self) -> Any:
        """The JSON-RPC id of the request, or None."""
        return self.request.rpc_id

    def close(self) -> None:
        """Close the connection in order."""
        self.connection.close("backend")

    def answer(
        self, body: bytes, status: int = 200, headers: Headers = (), content_type: str = JSON
    ) -> None:
        """Send a whole response with its right Content-Length."""
        more = dict(headers)
        if body or status != 204:
            more = {"Content-Type": content_type, "Content-Length": str(len(body)), **more}
        self.send(head(status, more) + body)


def head(status: int = 200, headers: Headers = ()) -> bytes:
    """Return the head of a response, the empty line included."""
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "Unknown"
    lines = [f"HTTP/1.1 {status} {phrase}", *(f"{k}: {v}" for k, v in dict(headers).items())]
    return "".join(f"{line}\r\n" for line in [*lines, ""]).encode("latin-1")


def play(exchange: Exchange, one: Union[Step, str]) -> None:
    """Do a step."""
    one = as_step(one)
    REQUEST_STEPS[one.name](exchange, **one.arguments)


def _request(function: Callable[..., None]) -> Callable[..., None]:
    REQUEST_STEPS[function.__name__] = function
    return function


def _connection(function: Callable[..., None]) -> Callable[..., None]:
    CONNECTION_STEPS[function.__name__] = function
    return function


# --- answers -----------------------------------------------------------------------------------


def _sends(answer: Callable[..., bytes]) -> Callable[..., None]:
    @functools.wraps(answer)
    def send(exchange: Exchange, **arguments: Any) -> None:
        if exchange.rpc_id is None:
            exchange.answer(b"", 204)
        else:
            exchange.answer(answer(exchange.rpc_id, **arguments))

    return send


REQUEST_STEPS.update({name: _sends(answer) for name, answer in ANSWERS.items()})


@_request
def status(
    exchange: Exchange,
    code: int = 500,
    answer: Union[str, bytes] = "ok",
    headers: Headers = (),
    content_type: str = JSON,
) -> None:
    """Status ``code``, with an answer by name (a success by default) or a body as given."""
    body = answer if isinstance(answer, bytes) else ANSWERS[answer](exchange.rpc_id)
    exchange.answer(body, code, headers, content_type)


@_request
def no_content(exchange: Exchange) -> None:
    """204, which is for notifications only."""
    exchange.answer(b"", 204)


@_request
def text(exchange: Exchange, content_type: str = "text/plain") -> None:
    """The right answer under ``text/plain``."""
    exchange.answer(ANSWERS["ok"](exchange.rpc_id), content_type=content_type)


@_request
def redirect(exchange: Exchange, code: int = 302, location: Optional[str] = None) -> None:
    """A redirect to ``location``, by default another path of this backend."""
    exchange.answer(b"", code, {"Location": location or f"{exchange.base_url}/elsewhere"})


def _fixed(name: str, doc: str, function: Callable[..., None], **fixed: Any) -> None:
    def step(exchange: Exchange, **arguments: Any) -> None:
        function(exchange, **{**fixed, **arguments})

    step.__doc__ = doc
    REQUEST_STEPS[name] = step


for _code in (400, 401, 403, 404, 413, 429, 500, 502, 503, 504):
    _fixed(f"status_{_code}", f"Status {_code} over a success.", status, code=_code)
for _code in (301, 302, 303, 307, 308):
    _fixed(f"redirect_{_code}", f"A redirect with status {_code}.", redirect, code=_code)


@_request
def echo_headers(exchange: Exchange) -> None:
    """A denial whose reason is the request's headers, as a JSON list of pairs."""
    exchange.answer(deny(exchange.rpc_id, json.dumps(exchange.request.headers)))


@_request
def echo_headers_raw(exchange: Exchange, code: int = 200) -> None:
    """The request's headers as the body: unreadable, and full of secrets."""
    exchange.answer(repr(exchange.request.headers).encode(), code)


@_request
def raw(exchange: Exchange, pieces: Iterable[Union[bytes, str, float]] = ()) -> None:
    """The given pieces: bytes or text are sent as they are, a number is a pause in seconds."""
    for piece in pieces:
        if isinstance(piece, (int, float)):
            exchange.pause(piece)
        else:
            exchange.send(piece.encode() if isinstance(piece, str) else piece)
    exchange.close()


# --- time --------------------------------------------------------------------------------------


@_request
def blackhole(exchange: Exchange) -> None:
    """Reads the request and never answers."""
    exchange.until_gone()


@_request
def late(exchange: Exchange, seconds: float = 1.0, then: Union[Step, str] = "deny") -> None:
    """Answers after ``seconds``."""
    exchange.pause(seconds)
    play(exchange, then)


@_request
def slow(exchange: Exchange, seconds: float = 0.05, then: Union[Step, str] = "ok") -> None:
    """Answers after 50 ms."""
    late(exchange, seconds, then)


def _drip(exchange: Exchange, data: bytes, tick: float) -> None:
    for byte in data:
        exchange.send(bytes([byte]))
        exchange.pause(tick)


@_request
def drip_header(exchange: Exchange, tick: float = 0.05) -> None:
    """A header line that arrives byte by byte, one each 50 ms, without end."""
    _drip(exchange, b"HTTP/1.1 200 OK\r\nX-Slow: " + b"a" * 100_000, tick)


@_request
def drip_body(exchange: Exchange, tick: float = 0.05) -> None:
    """A body that arrives byte by byte, one each 50 ms, without end."""
    exchange.send(head(headers={"Content-Type": JSON, "Content-Length": "100000"}))
    _drip(exchange, b" " * 100_000, tick)


@_request
def endless_continue(exchange: Exchange, tick: float = 0.01) -> None:
    """``100 Continue`` again and again, and never a final status."""
    while True:
        exchange.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        exchange.pause(tick)


# --- connections that end ----------------------------------------------------------------------


@_request
def eof(exchange: Exchange) -> None:
    """Closes the connection without a byte."""
    exchange.close()


@_request
def reset(exchange: Exchange) -> None:
    """A TCP reset in the middle of the body."""
    body = ANSWERS["ok"](exchange.rpc_id)
    exchange.send(head(headers={"Content-Type": JSON, "Content-Length": str(len(body))}))
    exchange.send(body[:20])
    exchange.pause(0.02)  # a reset overtakes bytes the client has not read yet
    exchange.reset()


@_request
def reset_at_once(exchange: Exchange) -> None:
    """A TCP reset in place of an answer."""
    exchange.reset()


@_request
def truncated(exchange: Exchange) -> None:
    """The whole answer, but a Content-Length of 100 more; then the end."""
    body = ANSWERS["ok"](exchange.rpc_id)
    exchange.send(head(headers={"Content-Type": JSON, "Content-Length": str(len(body) + 100)}))
    exchange.send(body)
    exchange.close()


@_request
def truncated_chunked(exchange: Exchange) -> None:
    """The whole answer as one chunk; then the end, without the last chunk."""
    body = ANSWERS["ok"](exchange.rpc_id)
    exchange.send(head(headers={"Content-Type": JSON, "Transfer-Encoding": "chunked"}))
    exchange.send(b"%x\r\n%s\r\n" % (len(body), body))
    exchange.close()


@_request
def truncated_header(exchange: Exchange) -> None:
    """The end in the middle of the headers."""
    exchange.send(b"HTTP/1.1 200 OK\r\nContent-Type: appl")
    exchange.close()


@_request
def close_after_answer(exchange: Exchange, then: Union[Step, str] = "ok") -> None:
    """Answers as if the connection would stay, then closes it."""
    play(exchange, then)
    exchange.close()


@_request
def close_on_reuse(exchange: Exchange, then: Union[Step, str] = "ok") -> None:
    """Answers the first request of a connection, closes it at the second without a byte."""
    if exchange.request.served:
        exchange.close()
    else:
        play(exchange, then)


@_request
def reset_on_reuse(exchange: Exchange, then: Union[Step, str] = "ok") -> None:
    """Answers the first request of a connection, resets it at the second."""
    if exchange.request.served:
        exchange.reset()
    else:
        play(exchange, then)


@_request
def flaky(exchange: Exchange, failures: int = 1, then: Union[Step, str] = "ok") -> None:
    """Drops the first attempt of each id, then does as told."""
    if exchange.request.attempt <= failures:
        exchange.close()
    else:
        play(exchange, then)


# --- too much, or not HTTP ---------------------------------------------------------------------


@_request
def huge(exchange: Exchange) -> None:
    """An endless chunked body of blanks."""
    exchange.send(head(headers={"Content-Type": JSON, "Transfer-Encoding": "chunked"}))
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    while True:
        exchange.send(chunk)


@_request
def huge_length(exchange: Exchange) -> None:
    """A Content-Length of 10 GiB, and blanks."""
    exchange.send(head(headers={"Content-Type": JSON, "Content-Length": str(10 << 30)}))
    while True:
        exchange.send(b" " * 0x10000)


@_request
def huge_header(exchange: Exchange) -> None:
    """Header lines without end."""
    exchange.send(b"HTTP/1.1 200 OK\r\n")
    while True:
        exchange.send(b"X-Pad: " + b"a" * 1000 + b"\r\n")


@_request
def huge_header_line(exchange: Exchange) -> None:
    """One header line without end."""
    exchange.send(b"HTTP/1.1 200 OK\r\nX-Pad: ")
    while True:
        exchange.send(b"a" * 0x10000)


@_request
def not_http(exchange: Exchange) -> None:
    """The greeting of a mail server."""
    exchange.send(b"220 mail.example.com ESMTP\r\n")
    exchange.close()


@_request
def gzip(exchange: Exchange) -> None:
    """A good answer, compressed though nobody asked for it."""
    gzip_bomb(exchange, size=0)


@_request
def gzip_bomb(exchange: Exchange, size: int = 200 << 20, times: int = 1) -> None:
    """A good answer behind 200 MiB of blanks, compressed (``times`` over) though nobody asked."""
    body = _bomb(size, ANSWERS["ok"](exchange.rpc_id))
    for _ in range(times - 1):
        squeeze = zlib.compressobj(9, zlib.DEFLATED, 31)
        body = squeeze.compress(body) + squeeze.flush()
    exchange.answer(body, headers={"Content-Encoding": ", ".join(["gzip"] * times)})


def _bomb(size: int, tail: bytes) -> bytes:
    """``size`` blanks (whole MiB) and ``tail`` as one gzip member, made of repeated blocks."""
    block, check = _blanks(size >> 20)
    squeeze = zlib.compressobj(9, zlib.DEFLATED, -15)
    end = squeeze.compress(tail) + squeeze.flush()
    length = (size >> 20 << 20) + len(tail)
    trailer = struct.pack("<II", zlib.crc32(tail, check), length & 0xFFFFFFFF)
    return b"\x1f\x8b\x08" + bytes(6) + b"\xff" + block * (size >> 20) + end + trailer


@functools.lru_cache(maxsize=4)
def _blanks(times: int) -> Tuple[bytes, int]:
    """One MiB of blanks as a deflate block that may be repeated, and the checksum of ``times``."""
    blanks = b" " * (1 << 20)
    squeeze = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = squeeze.compress(blanks) + squeeze.flush(zlib.Z_FULL_FLUSH)
    check = 0
    for _ in range(times):
        check = zlib.crc32(blanks, check)
    return block, check


# --- before a request --------------------------------------------------------------------------


@_connection
def close_at_accept(connection: Connection) -> None:
    """Accepts and closes at once."""
    connection.close("backend")


@_connection
def reset_at_accept(connection: Connection) -> None:
    """Accepts and resets at once."""
    connection.reset()


@_connection
def silent_tls(connection: Connection) -> None:
    """An https address whose server never says a word of the handshake."""
    connection.until_gone()


@_connection
def drip_tls(connection: Connection, tick: float = 0.05) -> None:
    """An https address whose server hands out its first record byte by byte, without end."""
    connection.send(b"\x16\x03\x03\x3f\xff")
    while True:
        connection.send(b"\x02")
        connection.pause(tick)


@_connection
def not_tls(connection: Connection) -> None:
    """An https address whose server speaks plain HTTP."""
    connection.send(head(400, {"Connection": "close", "Content-Length": "0"}))
    connection.close("backend")


#: The steps that need an https address, although no TLS will be spoken.
TLS_STEPS = frozenset({"silent_tls", "drip_tls", "not_tls"})


def _refused(backend: object) -> None:
    """A port that is taken but closed: connections are refused."""


def _noaccept(backend: object) -> None:
    """A listener with a full backlog: a connection is never established."""


#: What the listener does; such a step stands alone in a script.
LISTENER_STEPS: Dict[str, Callable[..., None]] = {"refused": _refused, "noaccept": _noaccept}
