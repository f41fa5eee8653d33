"""A receiver of attachments on loopback that checks how they are framed, and fails on request.

::

    with Receiver(413, "accept") as receiver:
        subscription["upload"] = receiver.route(timeoutMs=2000)

Each upload takes the next step; the last one repeats. A step is a status, a name of
:data:`NAMED`, or a function of the :class:`Exchange`, which it reads from and answers to.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import socket
import ssl
import struct
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Callable, Optional, Union

__all__ = [
    "NAMED",
    "Exchange",
    "Receiver",
    "Step",
    "Upload",
    "accept",
    "dripping",
    "early",
    "hang_up",
    "paced",
    "receipt",
    "redirect",
    "reset",
    "silent",
    "stalled",
    "status",
    "truncated",
    "waiting",
]

#: How long :meth:`Receiver.close` waits for its threads, in seconds.
CLOSE_TIMEOUT = 5.0
_KEPT = 1 << 20


class Gone(Exception):
    """The client closed the connection, or the receiver is closing."""


@dataclass
class Upload:
    """What came in one request: ``size`` octets so far, and what they hash to.

    ``body`` has them where they are few. ``faults`` says what is wrong with the framing; ``status``
    is what was answered, and ``ref`` what a receipt called the octets, after ``number``.
    """

    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    connection: int
    number: int
    body: bytes = field(default=b"", repr=False)
    size: int = 0
    sha256: str = hashlib.sha256().hexdigest()
    faults: list[str] = field(default_factory=list)
    status: Optional[int] = None
    ref: Optional[str] = None
    complete: bool = False

    def header(self, name: str) -> Optional[str]:
        """Return the value of a header; of several the first."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)


class Exchange:
    """One request on its connection."""

    def __init__(self, receiver: Receiver, sock: socket.socket, upload: Upload, rest: bytes):
        self.receiver = receiver
        self.upload = upload
        self._sock = sock
        self._rest = rest
        self._digest = hashlib.sha256()
        self._declared = _framing_faults(upload)

    def read(self, octets: Optional[int] = None, *, pause: float = 0.0, piece: int = 65536) -> None:
        """Read so many octets of the body, or all that is left of it."""
        left = self._declared - self.upload.size
        left = left if octets is None else min(octets, left)
        while left > 0:
            if pause:
                self.receiver.ending.wait(pause)
            got = self._rest[:left] or self._received(min(piece, left))
            self._rest = self._rest[len(got) :]
            left -= len(got)
            self._count(got)
        if self.upload.size == self._declared:
            self.upload.complete = True
            if self.upload.sha256 != self.upload.header("AHP-Content-SHA256"):
                self.upload.faults.append("AHP-Content-SHA256 is not that of the octets")

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        """Answer. The length is given unless ``Content_Length`` is among the headers."""
        headers.setdefault("Content_Length", str(len(body)))
        self.receiver.ending.wait(self.receiver.delay)
        lines = [f"HTTP/1.1 {status} {'Created' if status == 201 else 'Answer'}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.upload.status = status
        self.send("\r\n".join([*lines, "", ""]).encode("latin-1") + body)

    def receipt(self, **changes: Any) -> bytes:
        """Return the receipt for what was read, with members changed; None leaves one out."""
        self.upload.ref = f"ref-{self.upload.number}"
        right = {"ref": self.upload.ref, "size": self.upload.size, "sha256": self.upload.sha256}
        members = {k: v for k, v in {**right, **changes}.items() if v is not None}
        return json.dumps(members).encode()

    def send(self, data: bytes) -> None:
        """Send raw octets."""
        try:
            self._sock.sendall(data)
        except OSError:
            raise Gone from None

    def end(self) -> None:
        """Close the connection in the ordinary way, whatever was not read."""
        raise Gone

    def reset(self) -> None:
        """End the connection with a TCP reset."""
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raise Gone

    def until_gone(self) -> None:
        """Neither read nor answer, until the client is gone."""
        while not self.receiver.ending.is_set():
            # What is there to be read stays there, to hold the client up.
            if _is_hung_up(self._sock):
                raise Gone
            self.receiver.ending.wait(0.005)
        raise Gone

    def _received(self, count: int) -> bytes:
        try:
            got = self._sock.recv(count)
        except OSError:
            got = b""
        if not got:
            raise Gone
        return got

    def _count(self, got: bytes) -> None:
        self._digest.update(got)
        self.upload.size += len(got)
        self.upload.sha256 = self._digest.hexdigest()
        if self.upload.size <= _KEPT:
            self.upload.body += got


def _is_hung_up(sock: socket.socket) -> bool:
    import select

    poll = select.poll()
    poll.register(sock.fileno(), select.POLLRDHUP)
    return bool(poll.poll(0))


def _framing_faults(upload: Upload) -> int:
    """Note what section 14 does not allow, and return the length that is declared."""
    named: dict[str, list[str]] = {}
    for name, value in upload.headers:
        named.setdefault(name.lower(), []).append(value)
    wanted = {
        "content-type": r"application/octet-stream",
        "content-length": r"0|[1-9][0-9]*",
        "ahp-content-sha256": r"[0-9a-f]{64}",
    }
    faults = upload.faults
    if upload.method != "POST":
        faults.append(f"the method is {upload.method}")
    for name, form in wanted.items():
        values = named.get(name, [])
        if len(values) != 1 or not re.fullmatch(form, values[0]):
            faults.append(f"{name}: {values}")
    for name in ("content-encoding", "transfer-encoding", "expect", "trailer"):
        faults += [f"{name}: {value}" for value in named.get(name, [])]
    length = named.get("content-length", ["0"])[0]
    return int(length) if length.isdecimal() else 0


# --- steps ----------------------------------------------------------------------------------------

Step = Callable[[Exchange], None]


def accept() -> Step:
    """Answer as section 14 asks: 201 with the receipt, or 400, 401, 403 or 413."""

    def step(one: Exchange) -> None:
        refused = one.receiver.refuses(one.upload)
        one.read()
        if refused or one.upload.faults:
            one.answer(refused or 400, json.dumps(one.upload.faults).encode())
        else:
            one.answer(201, one.receipt(), Content_Type="application/json")

    return step


def receipt(body: Optional[bytes] = None, **changes: Any) -> Step:
    """Read everything and answer 201 with ``body``, or with a receipt with members changed."""

    def step(one: Exchange) -> None:
        one.read()
        one.answer(201, one.receipt(**changes) if body is None else body)

    return step


def status(code: int, body: bytes = b"", **headers: str) -> Step:
    """Read everything and answer with ``code``."""

    def step(one: Exchange) -> None:
        one.read()
        one.answer(code, body, **headers)

    return step


def redirect(location: str, code: int = 307) -> Step:
    """Read everything and send the client elsewhere."""
    return status(code, Location=location)


def early(code: int, *, octets: int = 0, body: bytes = b"") -> Step:
    """Answer with ``code`` after so many octets, and close without reading the rest."""

    def step(one: Exchange) -> None:
        one.read(octets)
        one.answer(code, body, Connection="close")
        one.end()

    return step


def reset(*, octets: int = 0) -> Step:
    """Reset the connection after so many octets."""

    def step(one: Exchange) -> None:
        one.read(octets)
        one.reset()

    return step


def hang_up(*, octets: Optional[int] = None) -> Step:
    """Close the connection without an answer, after so many octets or all of them."""

    def step(one: Exchange) -> None:
        one.read(octets)
        one.end()

    return step


def stalled(*, octets: int = 0) -> Step:
    """Read no more than so many octets, and answer nothing."""

    def step(one: Exchange) -> None:
        one.read(octets)
        one.until_gone()

    return step


def silent() -> Step:
    """Read everything and answer nothing."""
    return stalled(octets=1 << 62)


def paced(pause: float, piece: int = 65536) -> Step:
    """Accept, but rest ``pause`` seconds before each piece."""

    def step(one: Exchange) -> None:
        one.read(pause=pause, piece=piece)
        accept()(one)

    return step


def waiting(gate: Any) -> Step:
    """Read everything, then wait at ``gate`` (an event, a barrier) before accepting."""

    def step(one: Exchange) -> None:
        one.read()
        with contextlib.suppress(threading.BrokenBarrierError):
            gate.wait(10.0)
        accept()(one)

    return step


def truncated() -> Step:
    """Read everything, and close amidst the receipt."""

    def step(one: Exchange) -> None:
        one.read()
        body = one.receipt()
        one.answer(201, body[: len(body) // 2], Content_Length=str(len(body)))
        one.end()

    return step


def dripping(pause: float = 0.02) -> Step:
    """Read everything, and send the receipt octet by octet."""

    def step(one: Exchange) -> None:
        one.read()
        body = one.receipt()
        one.answer(201, b"", Content_Length=str(len(body)))
        for octet in body:
            one.receiver.ending.wait(pause)
            one.send(bytes([octet]))

    return step


def _sha256_in_capitals(one: Exchange) -> None:
    one.read()
    one.answer(201, one.receipt(sha256=one.upload.sha256.upper()))


def _twice(one: Exchange) -> None:
    one.read()
    one.answer(201, one.receipt()[:-1] + b', "size": 1}')


def _redirect_to_itself(one: Exchange) -> None:
    redirect(one.receiver.endpoint)(one)


#: Steps by name; also every status stands for itself.
NAMED: dict[str, Step] = {
    "accept": accept(),
    # no receipts
    "no-ref": receipt(ref=None),
    "empty-ref": receipt(ref=""),
    "number-ref": receipt(ref=7),
    "wrong-size": receipt(size=1),
    "true-size": receipt(size=True),
    "text-size": receipt(size="3000"),
    "no-size": receipt(size=None),
    "wrong-sha256": receipt(sha256="0" * 64),
    "upper-sha256": _sha256_in_capitals,
    "no-sha256": receipt(sha256=None),
    "extra": receipt(more=1),
    "list": receipt(b"[]"),
    "not-json": receipt(b"fine"),
    "not-utf-8": receipt(b'{"ref": "\xff"}'),
    "empty": receipt(b""),
    "twice": _twice,
    "huge": receipt(ref="r" * 100_000),
    "truncated": truncated(),
    # other ends
    "redirect": _redirect_to_itself,
    "early": early(413, octets=1000),
    "reset": reset(octets=1000),
    "hang-up": hang_up(),
    "stall": stalled(),
    "deaf": silent(),
    "drip": dripping(),
}


# --- the receiver ---------------------------------------------------------------------------------


class Receiver:
    """A receiver on 127.0.0.1, one thread a connection. Starts at once; close it.

    :param steps: what it does; by default it accepts.
    :param token: the bearer token without which it answers 401.
    :param tls: a server-side context to serve https with.
    :param path: path and query of the endpoint.

    Knobs, at any time: ``answer``, the step from now on; ``delay``, seconds before each answer;
    and of "accept": ``authorize``, a function of the ``Authorization`` header (None without one)
    that returns 201, 401 or 403; ``max_bytes``.
    """

    def __init__(
        self,
        *steps: Union[Step, str, int],
        token: Optional[str] = None,
        tls: Optional[ssl.SSLContext] = None,
        path: str = "/in?tenant=7",
    ) -> None:
        self.ending = threading.Event()
        wanted = None if token is None else f"Bearer {token}"
        self.authorize: Callable[[Optional[str]], int] = lambda shown: (
            201 if wanted is None or shown == wanted else 401
        )
        self.max_bytes = 1 << 40
        self.delay = 0.0
        #: All requests so far, in the order of their heads.
        self.received: list[Upload] = []
        #: How many there were, and how many of them at the same time.
        self.attempts = self.most_active = self._active = 0
        self.connections = 0
        self._path = path
        self._tls = tls
        self._changed = threading.Condition()
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self.play(*(steps or ("accept",)))
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port: int = self._listener.getsockname()[1]
        self._start(self._accepting)

    def play(self, *steps: Union[Step, str, int]) -> None:
        """Follow these steps from the next upload on."""
        with self._changed:
            self._steps = [_step(one) for one in steps]

    @property
    def answer(self) -> Step:
        """The next step."""
        return self._steps[0]

    @answer.setter
    def answer(self, step: Union[Step, str, int]) -> None:
        self.play(step)

    @property
    def endpoint(self) -> str:
        """The URL to post to."""
        return f"{'http' if self._tls is None else 'https'}://127.0.0.1:{self.port}{self._path}"

    def route(self, **changes: Any) -> dict[str, Any]:
        """Return the ``upload`` object of a subscription, with members changed or added."""
        route = {"endpoint": self.endpoint, "timeoutMs": 5000, "maxBytes": 1 << 30}
        return {**route, **changes}

    @property
    def kept(self) -> dict[str, Upload]:
        """What was confirmed, by reference."""
        return {one.ref: one for one in list(self.received) if one.ref and one.status == 201}

    @property
    def open_connections(self) -> int:
        """How many connections are open now."""
        with self._changed:
            return len(self._sockets)

    def wait(self, condition: Callable[[], object], seconds: float = 10.0) -> bool:
        """Wait for ``condition()``; return whether it came about."""
        until = time.monotonic() + seconds
        while not condition():
            if time.monotonic() >= until:
                return False
            time.sleep(0.002)
        return True

    def refuses(self, upload: Upload) -> int:
        """Return the status of a refusal, or 0."""
        code = self.authorize(upload.header("Authorization"))
        too_large = int(upload.header("Content-Length") or 0) > self.max_bytes
        return code if code != 201 else 413 if too_large else 0

    def close(self) -> None:
        """End everything; repeatable. Raises :class:`RuntimeError` if a thread does not end."""
        self.ending.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        until = time.monotonic() + CLOSE_TIMEOUT
        for thread in list(self._threads):
            while thread.is_alive():
                with self._changed:
                    for sock in self._sockets:
                        with contextlib.suppress(OSError):
                            # Not SSLSocket.shutdown(), which takes the TLS state from the thread.
                            socket.socket.shutdown(sock, socket.SHUT_RDWR)
                thread.join(0.02)
                if time.monotonic() >= until:
                    raise RuntimeError("the receiver did not end: does a step block?")

    def __enter__(self) -> Receiver:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _start(self, function: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=function, args=arguments, name="receiver", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accepting(self) -> None:
        while not self.ending.is_set():
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._start(self._serve, sock, self.connections)

    def _serve(self, sock: socket.socket, number: int) -> None:
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                sock = self._tls.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
            with self._changed:
                self._sockets.append(sock)
            if isinstance(sock, ssl.SSLSocket):
                sock.do_handshake()
            while not self.ending.is_set():
                self._one(sock, number)
        except (Gone, OSError):
            pass  # SSLError among them: the client is gone, or the step wanted an end
        finally:
            sock.close()  # before it counts as closed, or its end may not have gone out yet
            with self._changed:
                self._sockets = [one for one in self._sockets if one is not sock]

    def _one(self, sock: socket.socket, number: int) -> None:
        buffer = b""
        while b"\r\n\r\n" not in buffer:
            got = sock.recv(65536)
            if not got:
                raise Gone
            buffer += got
        head, _, rest = buffer.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        method, path, _ = first.split(" ")
        pairs = (line.partition(":") for line in lines)
        headers = tuple((name, value.strip()) for name, _, value in pairs)
        with self._changed:
            upload = Upload(method, path, headers, number, len(self.received) + 1)
            self.received.append(upload)
            self.attempts += 1
            self._active += 1
            self.most_active = max(self.most_active, self._active)
            step = self._steps.pop(0) if len(self._steps) > 1 else self._steps[0]
        try:
            step(Exchange(self, sock, upload, rest))
        finally:
            with self._changed:
                self._active -= 1


def _step(one: Union[Step, str, int]) -> Step:
    if isinstance(one, int):
        return status(one)
    return NAMED[one] if isinstance(one, str) else one
