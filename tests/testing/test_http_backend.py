"""The scripted HTTP backend, seen by clients that have nothing to do with ahp_sync."""

from __future__ import annotations

import gzip
import http.client
import json
import socket
import ssl
import threading
import time
import zlib
from typing import Any, Iterator, Optional

import pytest

from ahp_sync.registration import Registration
from ahp_sync.testing import ANSWERS, FAULTS, HttpBackend, intercept, observe, step
from ahp_sync.testing.http_steps import REQUEST_STEPS

GENEROUS = 10.0


def request(rpc_id: str = "ev-1") -> bytes:
    """A request as bytes; just enough of one for the backend."""
    params = {"protocolVersion": "draft", "event": {"id": rpc_id, "type": "tool.before"}}
    return json.dumps(
        {"jsonrpc": "2.0", "id": rpc_id, "method": "hooks/intercept", "params": params}
    ).encode()


NOTIFICATION = b'{"jsonrpc":"2.0","method":"hooks/observe","params":{"protocolVersion":"draft"}}'


class Line:
    """One kept-alive connection of an ordinary HTTP client."""

    def __init__(self, backend: HttpBackend) -> None:
        self._http = http.client.HTTPConnection("127.0.0.1", backend.port, timeout=GENEROUS)

    def post(
        self, body: bytes = request(), headers: Optional[dict[str, str]] = None
    ) -> tuple[int, dict[str, str], bytes]:
        """Return status, headers and body of the answer."""
        self._http.request("POST", "/ahp", body, headers or {})
        response = self._http.getresponse()
        return response.status, dict(response.getheaders()), response.read()

    def close(self) -> None:
        self._http.close()


def post(backend: HttpBackend, body: bytes = request(), headers: Any = None) -> Any:
    """Post once over a connection of its own."""
    line = Line(backend)
    try:
        return line.post(body, headers or {})
    finally:
        line.close()


@pytest.fixture
def raw() -> Iterator[Any]:
    """``raw(backend)`` posts over a plain socket and returns the socket."""
    sockets = []

    def connect(backend: HttpBackend, body: bytes = request()) -> socket.socket:
        sock = socket.create_connection(("127.0.0.1", backend.port), GENEROUS)
        sockets.append(sock)
        head = f"POST /ahp HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n"
        sock.sendall(head.encode() + body)
        return sock

    yield connect
    for sock in sockets:
        sock.close()


def read_all(sock: socket.socket) -> bytes:
    """Everything until the backend closes."""
    pieces = []
    while piece := sock.recv(1 << 16):
        pieces.append(piece)
    return b"".join(pieces)


# --- what it records -----------------------------------------------------------------------------


def test_a_request_is_recorded_as_it_came() -> None:
    """Method, path, headers in order, body, message and connection number are kept."""
    with HttpBackend() as backend:
        before = time.monotonic()
        post(backend, headers={"X-Team": "blue"})
        (received,) = backend.requests
    assert (received.method, received.path) == ("POST", "/ahp")
    assert received.body == request()
    assert received.rpc_id == received.event["id"] == "ev-1"
    assert received.header("x-team") == "blue"
    assert received.header("absent") is None
    assert received.headers[0][0] == "Host"
    assert (received.connection, received.served, received.attempt) == (1, 0, 1)
    assert before <= received.time <= time.monotonic()


def test_a_body_that_is_no_json_is_recorded_without_a_message() -> None:
    """The body is kept; message and id are None."""
    with HttpBackend() as backend:
        post(backend, b"\xff")
        assert backend.requests[0].body == b"\xff"
        assert backend.requests[0].message is backend.requests[0].rpc_id is None


def test_attempts_and_reuse_are_counted() -> None:
    """``attempt`` counts an id over all connections, ``served`` the requests of one connection."""
    with HttpBackend() as backend:
        line = Line(backend)
        line.post()
        line.post()
        line.close()
        post(backend)
        post(backend, request("ev-2"))
        seen = [(r.connection, r.served, r.attempt) for r in backend.requests]
        assert seen == [(1, 0, 1), (1, 1, 2), (2, 0, 3), (3, 0, 1)]
        assert backend.connections == 3


def test_the_end_of_a_connection_is_known() -> None:
    """``wait_closed`` wakes when the client leaves, and the log says who ended it."""
    with HttpBackend() as backend:
        line = Line(backend)
        line.post()
        assert backend.open_connections == 1
        assert not backend.wait_closed(0.01)
        line.close()
        assert backend.wait_closed(GENEROUS)
        (facts,) = backend.connection_log
        assert (facts.closed_by, facts.served, facts.number) == ("client", 1, 1)
        assert facts.closed_at is not None and facts.closed_at >= facts.opened_at


# --- scripts -------------------------------------------------------------------------------------


def test_a_sequence_gives_one_step_a_request_and_repeats_the_last() -> None:
    """Names, steps and effects may be mixed."""
    with HttpBackend(["deny", step("status", code=503), {"type": "allow"}]) as backend:
        bodies = [post(backend) for _ in range(4)]
    assert bodies[0][2] == ANSWERS["deny"]("ev-1")
    assert bodies[1][0] == 503
    assert bodies[2][2] == bodies[3][2] == ANSWERS["effects"]("ev-1", [{"type": "allow"}])


def test_a_function_decides_by_the_request() -> None:
    """It gets what was received and returns a step or effects."""

    def script(received: Any) -> Any:
        return [] if received.header("x-ok") else step("deny", reason=received.path)

    with HttpBackend(script) as backend:
        assert post(backend)[2] == ANSWERS["deny"]("ev-1", "/ahp")
        assert post(backend, headers={"X-Ok": "1"})[2] == ANSWERS["ok"]("ev-1")


def test_a_script_may_change() -> None:
    """``play`` holds from the next request on, on open connections too."""
    with HttpBackend("ok") as backend:
        line = Line(backend)
        assert line.post()[2] == ANSWERS["ok"]("ev-1")
        backend.play("deny")
        assert line.post()[2] == ANSWERS["deny"]("ev-1")
        line.close()


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("blackhol", "did you mean blackhole"),
        (["ok", "huuge"], "huuge"),
        (step("late", secs=1), "secs"),
        (step("late", then="nonsense"), "nonsense"),
        (step("late", then="silent_tls"), "silent_tls"),
        (["ok", "refused"], "stands alone"),
    ],
)
def test_what_is_unknown_is_refused(script: Any, message: str) -> None:
    """A script is checked when it is set, nested steps too."""
    with pytest.raises(ValueError, match=message):
        HttpBackend(script)


def test_what_is_no_step_is_refused() -> None:
    """Neither numbers nor None are steps."""
    with pytest.raises(TypeError, match="a step is"):
        HttpBackend(7)  # type: ignore[arg-type]


def test_a_running_backend_is_not_told_to_refuse() -> None:
    """Listener steps stand at the start; ``down`` is for later."""
    with HttpBackend("ok") as backend, pytest.raises(ValueError, match="down"):
        backend.play("refused")


# --- answers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(ANSWERS))
def test_every_answer_can_be_sent(name: str) -> None:
    """The body is the answer's, under 200 and a JSON label, with its right length."""
    with HttpBackend(name) as backend:
        status, headers, body = post(backend)
    assert status == 200
    assert headers["Content-Type"] == "application/json"
    assert body == ANSWERS[name]("ev-1")


@pytest.mark.parametrize("name", ["ok", "deny", "wrong_id"])
def test_a_notification_gets_204(name: str) -> None:
    """Nothing is answered to a message without an id."""
    with HttpBackend(name) as backend:
        status, _, body = post(backend, NOTIFICATION)
    assert (status, body) == (204, b"")


def test_a_status_carries_body_and_headers() -> None:
    """Retry-After and the like are free to choose."""
    one = step("status", code=503, answer=b"no", headers={"Retry-After": "3600"})
    with HttpBackend(one) as backend:
        status, headers, body = post(backend)
    assert (status, headers["Retry-After"], body) == (503, "3600", b"no")


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_redirects_point_elsewhere(code: int) -> None:
    """By default to another path of the same backend; ``location`` says otherwise."""
    with HttpBackend([f"redirect_{code}", step("redirect", code=code, location="x:y")]) as backend:
        status, headers, _ = post(backend)
        assert (status, headers["Location"]) == (code, f"{backend.base_url}/elsewhere")
        assert post(backend)[1]["Location"] == "x:y"


def test_headers_are_echoed() -> None:
    """Once as the reason of a denial, once as an unreadable body."""
    with HttpBackend(["echo_headers", "echo_headers_raw"]) as backend:
        body = json.loads(post(backend, headers={"X-Secret": "canary"})[2])
        assert ["X-Secret", "canary"] in json.loads(body["result"]["effects"][0]["reason"])
        assert b"canary" in post(backend, headers={"X-Secret": "canary"})[2]


def test_raw_pieces_are_sent_as_they_are(raw: Any) -> None:
    """Text, bytes and pauses in turn; then the end."""
    pieces = [b"HTTP/1.1 200 OK\r\n", 0.01, "Content-Length: 0\r\n\r\n"]
    with HttpBackend(step("raw", pieces=pieces)) as backend:
        assert read_all(raw(backend)) == b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


def test_the_compressed_answer_is_a_good_one() -> None:
    """A client that inflates it finds a valid answer, so that only refusing it is right."""
    with HttpBackend("gzip") as backend:
        _, headers, body = post(backend)
    assert headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(body) == ANSWERS["ok"]("ev-1")


def test_the_bomb_is_small_on_the_wire_and_large_behind_it() -> None:
    """``size`` is what it inflates to, ``times`` how often it is compressed."""
    size = 16 << 20
    once, twice = step("gzip_bomb", size=size), step("gzip_bomb", size=size, times=2)
    with HttpBackend([once, twice]) as backend:
        body = post(backend)[2]
        _, headers, packed = post(backend)
    assert len(packed) < len(body) < size // 500
    assert headers["Content-Encoding"] == "gzip, gzip"
    assert zlib.decompress(packed, 31) == body
    inflated = zlib.decompress(body, 31)
    assert inflated.lstrip() == ANSWERS["ok"]("ev-1")
    assert len(inflated) == size + len(inflated.lstrip())


# --- time ----------------------------------------------------------------------------------------


def test_a_late_answer_comes_late() -> None:
    """After its seconds, and then as told."""
    with HttpBackend(step("late", seconds=0.2, then="deny")) as backend:
        before = time.monotonic()
        assert post(backend)[2] == ANSWERS["deny"]("ev-1")
        assert time.monotonic() - before >= 0.2


@pytest.mark.parametrize("name", ["blackhole", "late"])
def test_silence_ends_when_the_client_leaves(name: str, raw: Any) -> None:
    """The request is recorded, no byte comes, and the client's close is seen at once."""
    with HttpBackend(name) as backend:
        sock = raw(backend)
        assert backend.wait_requests(1, GENEROUS)
        sock.settimeout(0.05)
        with pytest.raises(socket.timeout):
            sock.recv(1)
        sock.close()
        assert backend.wait_closed(GENEROUS)
        assert backend.connection_log[0].closed_by == "client"


@pytest.mark.parametrize(
    "one",
    [step("drip_header", tick=0.01), step("drip_body", tick=0.01), step("endless_continue")],
    ids=str,
)
def test_a_drip_goes_on_until_the_client_leaves(one: Any, raw: Any) -> None:
    """Bytes keep coming, a few at a time, and nothing is ever complete."""
    with HttpBackend(one) as backend:
        sock = raw(backend)
        got = b"".join(sock.recv(100) for _ in range(5))
        assert got.startswith(b"HTTP/")
        assert len(got) < 1000
        sock.close()
        assert backend.wait_closed(GENEROUS)


@pytest.mark.parametrize("name", ["huge", "huge_length", "huge_header", "huge_header_line"])
def test_too_much_goes_on_until_the_client_leaves(name: str, raw: Any) -> None:
    """More than any cap comes, at full speed."""
    with HttpBackend(name) as backend:
        sock = raw(backend)
        size = 0
        while size < 8 << 20:
            size += len(sock.recv(1 << 20))
        sock.close()
        assert backend.wait_closed(GENEROUS)


# --- connections ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["reset", "reset_at_once"])
def test_a_reset_is_a_reset(name: str, raw: Any) -> None:
    """The client meets ECONNRESET, not the end of the stream."""
    with HttpBackend(name) as backend, pytest.raises(ConnectionResetError):
        read_all(raw(backend))


@pytest.mark.parametrize(
    ("name", "end"),
    [
        ("eof", b""),
        ("truncated_header", b"appl"),
        ("truncated", b"}"),
        ("truncated_chunked", b"}\r\n"),
        ("not_http", b"ESMTP\r\n"),
    ],
)
def test_a_broken_answer_ends_the_stream(name: str, end: bytes, raw: Any) -> None:
    """What was sent ends as told; then the backend closes."""
    with HttpBackend(name) as backend:
        got = read_all(raw(backend))
        assert got.endswith(end)
        assert bool(got) == bool(end)
        assert backend.wait_closed(GENEROUS)
        assert backend.connection_log[0].closed_by == "backend"


def test_the_truncated_answer_lacks_what_it_announced() -> None:
    """The body is whole and valid; only its length tells that something is missing."""
    with HttpBackend("truncated") as backend:
        with pytest.raises(http.client.IncompleteRead) as caught:
            post(backend)
        assert caught.value.partial == ANSWERS["ok"]("ev-1")
        assert caught.value.expected == 100


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("close_on_reuse", http.client.RemoteDisconnected),
        ("reset_on_reuse", ConnectionResetError),
    ],
)
def test_a_connection_serves_once(name: str, error: type[Exception]) -> None:
    """The first request is answered, the second on the same connection never."""
    with HttpBackend(name) as backend:
        line = Line(backend)
        assert line.post()[0] == 200
        with pytest.raises(error):
            line.post()
        line.close()
        assert post(backend)[0] == 200
        assert [r.connection for r in backend.requests] == [1, 1, 2]


def test_a_connection_may_be_closed_behind_the_answer() -> None:
    """The answer does not announce it."""
    with HttpBackend("close_after_answer") as backend:
        _, headers, body = post(backend)
        assert "Connection" not in headers
        assert body == ANSWERS["ok"]("ev-1")
        assert backend.wait_closed(GENEROUS)
        assert backend.connection_log[0].closed_by == "backend"


def test_the_first_attempt_of_each_id_is_dropped() -> None:
    """Whatever connection it comes on."""
    with HttpBackend(step("flaky", then="deny")) as backend:
        for rpc_id in ("ev-1", "ev-2"):
            with pytest.raises(http.client.RemoteDisconnected):
                post(backend, request(rpc_id))
            assert post(backend, request(rpc_id))[2] == ANSWERS["deny"](rpc_id)


@pytest.mark.parametrize("name", ["close_at_accept", "reset_at_accept"])
def test_a_connection_may_end_before_the_request(name: str) -> None:
    """Such a step uses up its turn although no request came."""
    with HttpBackend([name, "ok"]) as backend:
        with pytest.raises((ConnectionError, http.client.HTTPException)):
            post(backend)
        assert post(backend)[0] == 200
        assert (backend.connections, len(backend.requests)) == (2, 1)


def test_refused_is_refused() -> None:
    """The port is taken, and nobody listens."""
    with HttpBackend("refused") as backend, pytest.raises(ConnectionRefusedError):
        post(backend)


def test_noaccept_never_connects() -> None:
    """The backlog is full: the handshake of TCP itself does not end."""
    with HttpBackend("noaccept") as backend, socket.socket() as sock:
        sock.settimeout(0.1)
        with pytest.raises(socket.timeout):
            sock.connect(("127.0.0.1", backend.port))


def test_a_backend_goes_down_and_comes_up_again() -> None:
    """``down`` ends open connections and refuses new ones; ``up`` serves the same address."""
    with HttpBackend("ok") as backend:
        line = Line(backend)
        line.post()
        backend.down()
        with pytest.raises((ConnectionError, http.client.HTTPException)):
            line.post()
        line.close()
        with pytest.raises(ConnectionRefusedError):
            post(backend)
        assert backend.wait_closed(GENEROUS)
        assert [facts.closed_by for facts in backend.connection_log] == ["backend"]
        backend.up()
        assert post(backend)[0] == 200


# --- TLS -----------------------------------------------------------------------------------------


def test_it_serves_https() -> None:
    """With the context it was given; a client certificate shows in the connection log."""
    trustme = pytest.importorskip("trustme")
    authority = trustme.CA()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(server)
    authority.configure_trust(server)
    server.verify_mode = ssl.CERT_REQUIRED
    client = ssl.create_default_context()
    authority.configure_trust(client)
    authority.issue_cert("harness.example.com").configure_cert(client)
    with HttpBackend("deny", tls=server) as backend:
        assert backend.url.startswith("https://127.0.0.1:")
        line = http.client.HTTPSConnection("127.0.0.1", backend.port, context=client)
        line.request("POST", "/ahp", request())
        assert line.getresponse().read() == ANSWERS["deny"]("ev-1")
        line.close()
        assert backend.wait_closed(GENEROUS)
        certificate = backend.connection_log[0].peer_certificate
        assert certificate is not None
        assert "harness.example.com" in str(certificate["subjectAltName"])


@pytest.mark.parametrize("name", ["silent_tls", "drip_tls"])
def test_a_handshake_may_never_end(name: str) -> None:
    """The address says https; a client that times out alone is released."""
    with HttpBackend(name) as backend:
        assert backend.url.startswith("https://")
        with socket.create_connection(("127.0.0.1", backend.port), 0.3) as sock:
            context = ssl.create_default_context()
            with pytest.raises(socket.timeout):
                context.wrap_socket(sock, server_hostname="127.0.0.1")
        assert backend.wait_closed(GENEROUS)


def test_a_peer_may_not_speak_tls() -> None:
    """It answers the handshake in plain HTTP."""
    context = ssl.create_default_context()
    with HttpBackend("not_tls") as backend, socket.socket() as sock:
        sock.settimeout(GENEROUS)
        sock.connect(("127.0.0.1", backend.port))
        with pytest.raises(OSError, match=r"SSL|reset|pipe"):
            context.wrap_socket(sock, server_hostname="127.0.0.1")


# --- registration and the end --------------------------------------------------------------------


def test_its_registration_loads() -> None:
    """One intercept subscription by default, with the given members."""
    with HttpBackend() as backend:
        loaded = Registration.load(
            backend.registration(timeout_ms=250, policy="fail-open", headers={"X-Team": "blue"})
        )
    (entry,) = loaded.backends
    (subscription,) = entry.subscriptions
    assert entry.id == "com.example.http"
    assert (subscription.timeout_ms, str(subscription.policy)) == (250, "fail-open")


def test_its_registration_takes_subscriptions() -> None:
    """Several, instead of the one; their arguments go to them then."""
    with HttpBackend() as backend:
        entry = backend.entry(id="com.example.two", subscriptions=[intercept(), observe()])
        assert [one["mode"] for one in entry["subscriptions"]] == ["intercept", "observe"]
        with pytest.raises(TypeError, match="policy"):
            backend.entry(subscriptions=[observe()], policy="fail-open")


def test_close_ends_everything_at_once(raw: Any) -> None:
    """Connections in whatever state, threads and the listener; twice is fine."""
    scripts = ["blackhole", "drip_body", "huge", step("late", seconds=60), "ok"]
    before = threading.active_count()
    backend = HttpBackend(scripts)
    for count in range(len(scripts)):
        raw(backend)
        assert backend.wait_requests(count + 1, GENEROUS)
    started = time.monotonic()
    backend.close()
    backend.close()
    assert time.monotonic() - started < 2
    assert threading.active_count() == before
    assert backend.open_connections == 0
    with pytest.raises(ConnectionRefusedError):
        raw(backend)


def test_many_clients_are_served_at_once() -> None:
    """Each connection has a thread, and each answer its own id."""
    with HttpBackend("slow") as backend:
        wrong = []

        def client(number: int) -> None:
            line = Line(backend)
            for turn in range(5):
                rpc_id = f"ev-{number}-{turn}"
                if line.post(request(rpc_id))[2] != ANSWERS["ok"](rpc_id):
                    wrong.append(rpc_id)
            line.close()

        threads = [threading.Thread(target=client, args=(number,)) for number in range(16)]
        started = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(GENEROUS)
        assert not wrong
        assert len(backend.requests) == 80
        assert time.monotonic() - started < 80 * 0.05  # what one after the other would take


def test_every_step_says_what_it_does() -> None:
    """One line of documentation each, for the steps and for the table of faults."""
    assert all(function.__doc__ for function in REQUEST_STEPS.values())
    for fault in FAULTS.values():
        assert bool(fault.http) or "http" not in fault.expected
