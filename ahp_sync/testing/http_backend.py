"""A scripted HTTP backend on loopback, with every fault by name.

::

    with HttpBackend("deny") as backend:
        client = Client(backend.registration(timeout_ms=300), …)

It serves real sockets from plain daemon threads, one a connection, and remembers what it received.
The steps a script may name are in :mod:`ahp_sync.testing.http_steps` and
:mod:`ahp_sync.testing.answers`.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Tuple, Union

from ahp_sync.testing import http_steps
from ahp_sync.testing.http_wire import Connection, ConnectionOver, Head
from ahp_sync.testing.received import ReceivedRequest, read_message
from ahp_sync.testing.registrations import Registrable
from ahp_sync.testing.steps import Script, Step, Steps, as_step, as_steps, check

if TYPE_CHECKING:
    import ssl
    import types

__all__ = ["ConnectionFacts", "HttpBackend"]

#: How long :meth:`HttpBackend.close` waits for its threads, in seconds.
CLOSE_TIMEOUT = 5.0

_STEPS: Mapping[str, Callable[..., None]] = {
    **http_steps.REQUEST_STEPS,
    **http_steps.CONNECTION_STEPS,
    **http_steps.LISTENER_STEPS,
}


@dataclass(frozen=True)
class ConnectionFacts:
    """One accepted connection: its number (from 1), when it came and went, and who ended it.

    The times are of ``time.monotonic()``; ``closed_by`` is "client" or "backend"; both ends are
    None while it is open. ``served`` counts its requests, ``peer_certificate`` is what the client
    showed under TLS (as ``ssl.SSLSocket.getpeercert()`` gives it).
    """

    number: int
    opened_at: float
    closed_at: Optional[float]
    closed_by: Optional[str]
    served: int
    peer_certificate: Optional[Mapping[str, Any]]


class HttpBackend(Registrable):
    """An HTTP backend on 127.0.0.1 that does what its script says. Starts at once; close it.

    :param script: a step (a name such as ``"deny"`` or ``"blackhole"``, ``step("late",
        seconds=0.4)``, an effect or a list of effects), or a sequence of steps: one a request, the
        last repeats. Or a function of the :class:`ReceivedRequest` that returns a step. Unknown
        names raise :class:`ValueError`.
    :param tls: a server-side :class:`ssl.SSLContext` to serve https with.

    It may be used from several threads. :meth:`close` ends every connection and thread in bounded
    time; the class is a context manager that closes.
    """

    default_id = "com.example.http"

    def __init__(
        self,
        script: Union[Script, Callable[[ReceivedRequest], Any]] = "ok",
        *,
        tls: Optional[ssl.SSLContext] = None,
    ) -> None:
        self._tls = tls
        self._changed = threading.Condition()
        self._requests: List[ReceivedRequest] = []
        self._attempts: Counter[Any] = Counter()
        self._connections: List[Connection] = []
        self._threads: List[threading.Thread] = []
        self._listening: Optional[socket.socket] = None
        self._started = False
        self._steps: Optional[Steps] = None
        self._function: Optional[Callable[[ReceivedRequest], Any]] = None
        self.play(script)
        self._started = True
        first = self._steps.peek().name if self._steps else ""
        self._scheme = "https" if tls or first in http_steps.TLS_STEPS else "http"
        self._fillers: List[socket.socket] = []
        self._listener = _bind(0)
        self._address: Tuple[str, int] = self._listener.getsockname()
        if first == "noaccept":
            self._fillers = _fill(self._listener)
        elif first != "refused":
            self.up()

    # --- what it does ---

    def play(self, script: Union[Script, Callable[[ReceivedRequest], Any]]) -> None:
        """Follow ``script`` from the next request on."""
        if callable(script):
            self._function, self._steps = script, None
            return
        steps = as_steps(script)
        for one in steps:
            check(one, _STEPS, "HTTP", http_steps.REQUEST_STEPS)
            if one.name in http_steps.LISTENER_STEPS and (len(steps) > 1 or self._started):
                raise ValueError(f"{one.name!r} stands alone, from the start; see also down()")
        self._function, self._steps = None, Steps(steps)

    def up(self) -> None:
        """Listen (again), on the port that the backend has had from the start."""
        if self._listener.fileno() < 0:
            self._listener = _bind(self._address[1])
        self._listener.listen(512)
        self._listening = self._listener
        self._start(self._accept, self._listener)

    def down(self) -> None:
        """Close the listener and every connection: from now on connections are refused."""
        self._stop_listening()
        self._listener.close()
        self._shut_connections()
        self._listener = _bind(self._address[1])

    def close(self) -> None:
        """End everything; repeatable. Raises :class:`RuntimeError` if a thread does not end."""
        self._stop_listening()
        for sock in (self._listener, *self._fillers):
            sock.close()
        self._shut_connections()
        until = time.monotonic() + CLOSE_TIMEOUT
        # The accepting thread may add one more while this waits for it.
        while any(alive := [thread for thread in self._threads if thread.is_alive()]):
            if time.monotonic() >= until:
                raise RuntimeError("the scripted HTTP backend did not end: does its script block?")
            alive[0].join(max(0.0, until - time.monotonic()))

    def __enter__(self) -> HttpBackend:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[types.TracebackType],
    ) -> None:
        self.close()

    # --- where it is ---

    @property
    def port(self) -> int:
        """The TCP port."""
        return self._address[1]

    @property
    def url(self) -> str:
        """The address to post to."""
        return f"{self.base_url}/ahp"

    @property
    def base_url(self) -> str:
        """Scheme, host and port of :attr:`url`."""
        return f"{self._scheme}://127.0.0.1:{self.port}"

    def transport(self) -> Dict[str, Any]:
        """Return the ``transport`` object of the backend's entry."""
        return {"type": "http", "url": self.url}

    # --- what it saw ---

    @property
    def requests(self) -> List[ReceivedRequest]:
        """The requests received so far, in order."""
        with self._changed:
            return list(self._requests)

    @property
    def connections(self) -> int:
        """How many connections were accepted."""
        return len(self._connections)

    @property
    def open_connections(self) -> int:
        """How many connections are open now."""
        return sum(connection.closed_by is None for connection in list(self._connections))

    @property
    def connection_log(self) -> List[ConnectionFacts]:
        """What is known of each accepted connection, in order."""
        return [
            ConnectionFacts(
                c.number, c.opened_at, c.closed_at, c.closed_by, c.served, c.peer_certificate
            )
            for c in list(self._connections)
        ]

    def wait_requests(self, count: int = 1, timeout: float = 10.0) -> bool:
        """Wait up to ``timeout`` seconds for ``count`` requests; return whether they came."""
        return self.wait(lambda: len(self._requests) >= count, timeout)

    def wait_connections(self, count: int = 1, timeout: float = 10.0) -> bool:
        """Wait likewise until ``count`` connections were accepted."""
        return self.wait(lambda: self.connections >= count, timeout)

    def wait_closed(self, timeout: float = 10.0) -> bool:
        """Wait likewise until there was a connection and none is open any more."""
        return self.wait(lambda: self.connections > 0 and self.open_connections == 0, timeout)

    def wait(self, condition: Callable[[], bool], timeout: float = 10.0) -> bool:
        """Wait likewise for ``condition()``, looked at when requests or connections come or end."""
        with self._changed:
            return self._changed.wait_for(condition, timeout)

    def __repr__(self) -> str:
        return (
            f"<HttpBackend {self.base_url}, {len(self._requests)} requests, "
            f"{self.open_connections} of {self.connections} connections open>"
        )

    # --- inside ---

    def _start(self, function: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(
            target=function, args=arguments, name=f"ahp-http-backend-{self.port}", daemon=True
        )
        self._threads = [*(t for t in self._threads if t.is_alive()), thread]
        thread.start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            with self._changed:
                wanted = listener is self._listening
                if wanted:
                    connection = Connection(len(self._connections) + 1, sock)
                    self._connections.append(connection)
                    self._changed.notify_all()
            if not wanted:
                sock.close()
                return
            self._start(self._serve, connection)

    def _stop_listening(self) -> None:
        """Let the thread that accepts see that it is over."""
        with self._changed:
            self._listening = None
        try:
            self._listener.shutdown(socket.SHUT_RDWR)
        except OSError:  # not listening, or a system that shuts no listeners (macOS)
            with contextlib.suppress(OSError), socket.socket() as sock:
                sock.settimeout(1.0)
                sock.connect(self._address)

    def _shut_connections(self) -> None:
        for connection in list(self._connections):
            connection.shut()

    def _serve(self, connection: Connection) -> None:
        try:
            if self._at_accept(connection):
                self._answer_all(connection)
        except ConnectionOver:
            pass
        finally:
            connection.close("backend" if connection.is_shut else "client")
            with self._changed:
                self._changed.notify_all()

    def _at_accept(self, connection: Connection) -> bool:
        """Do what the script wants done before a request; return whether requests may come."""
        steps = self._steps
        if steps is not None and steps.peek().name in http_steps.CONNECTION_STEPS:
            one = steps.take()
            http_steps.CONNECTION_STEPS[one.name](connection, **one.arguments)
            return False
        if self._tls is not None:
            connection.handshake(self._tls)
        return True

    def _answer_all(self, connection: Connection) -> None:
        while connection.closed_by is None:
            head = connection.read_request()
            if head is None:
                return
            request, one = self._record(connection, head)
            http_steps.play(http_steps.Exchange(connection, request, self.base_url), one)
            if not head.keeps_alive:
                connection.close("backend")

    def _record(self, connection: Connection, head: Head) -> Tuple[ReceivedRequest, Step]:
        message = read_message(head.body)
        rpc_id = message.get("id") if isinstance(message, dict) else None
        with self._changed:
            if isinstance(rpc_id, (str, int)):
                self._attempts[rpc_id] += 1
            request = ReceivedRequest(
                body=head.body,
                message=message,
                time=time.monotonic(),
                method=head.method,
                path=head.path,
                headers=head.headers,
                connection=connection.number,
                served=connection.served,
                attempt=self._attempts[rpc_id] if isinstance(rpc_id, (str, int)) else 0,
            )
            connection.served += 1
            self._requests.append(request)
            function, steps = self._function, self._steps
            one = steps.take() if steps is not None else None
            self._changed.notify_all()
        if one is None and function is not None:
            one = as_step(function(request))
            check(one, http_steps.REQUEST_STEPS, "HTTP", http_steps.REQUEST_STEPS)
        assert one is not None
        return request, one


def _bind(port: int) -> socket.socket:
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", port))
    return sock


def _fill(listener: socket.socket) -> List[socket.socket]:
    """Listen with the smallest backlog and fill it, so that the next connection hangs."""
    listener.listen(0)
    fillers = [socket.socket() for _ in range(4)]
    for sock in fillers:
        sock.setblocking(False)
        sock.connect_ex(listener.getsockname())
    return fillers
