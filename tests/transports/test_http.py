"""The HTTP transport over real sockets: what is sent, what counts, which connections stay."""

from __future__ import annotations

import json
import socket
import threading
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Callable

import pytest
from watching import SLACK, descriptors, eventually, host, timed

from ahp_sync import AuditKind, Client, Outcome, RegistrationError, RetryPolicy
from ahp_sync.testing import (
    ANSWERS,
    AuditLog,
    HttpBackend,
    ReceivedRequest,
    assert_audit,
    assert_denied,
    assert_failed_open,
    assert_proceeds,
    assert_synthetic_denial,
    hooks,
    intercept,
    observe,
    step,
)
from ahp_sync.transports.base import RESPONSE_CAP

Backends = Callable[..., HttpBackend]
Clients = Callable[..., Client]

ONCE = RetryPolicy(max_attempts=1)
QUICKLY = RetryPolicy(initial_backoff=0.001, jitter=0)


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """See that every descriptor is closed once clients and backends are."""
    before = descriptors()
    yield
    assert eventually(lambda: descriptors() <= before), descriptors() - before


def ask(client: Client, **more: Any) -> Outcome:
    return client.tool_before(name="Bash", input={"command": "ls"}, **more)


# --- what is sent -----------------------------------------------------------------------------


def test_a_message_is_one_post_of_one_json_object(
    ahp_http_backend: Backends, ahp_client: Clients
) -> None:
    """R-HTTP-01: nothing but what the message needs stands in the request."""
    backend = ahp_http_backend("ok")
    outcome = ask(ahp_client(backend.registration()))
    [request] = backend.requests
    assert (request.method, request.path) == ("POST", "/ahp")
    assert request.event == outcome.event
    assert {name.lower(): value for name, value in request.headers} == {
        "host": f"127.0.0.1:{backend.port}",
        "content-type": "application/json",
        "content-length": str(len(request.body)),
        "accept": "application/json",
        "accept-encoding": "identity",
        "user-agent": "ahp-sync",
    }
    assert len(request.headers) == 6


def test_path_and_query_arrive_as_registered(
    ahp_http_backend: Backends, ahp_client: Clients
) -> None:
    """Nothing is decoded, normalised or dropped."""
    backend = ahp_http_backend("ok")
    path = "/a%2Fb/../c;d=1/?x=%20%2B&y=a+b&&z"
    ask(ahp_client(backend.registration(url=backend.base_url + path)))
    assert backend.requests[0].path == path


def test_localhost_is_reached_over_either_family(
    ahp_http_backend: Backends, ahp_client: Clients
) -> None:
    """F55: where the first address of a name refuses, the next one is used."""
    backend = ahp_http_backend("ok")
    url = f"http://localhost:{backend.port}/"
    assert_proceeds(ask(ahp_client(backend.registration(url=url))))
    assert backend.requests[0].header("host") == f"localhost:{backend.port}"


def test_a_large_message_arrives_whole(ahp_http_backend: Backends, ahp_client: Clients) -> None:
    """More than any socket buffer holds."""
    backend = ahp_http_backend("ok")
    client = ahp_client(backend.registration(timeout_ms=10_000))
    text = "ü" * 3_000_000
    assert_proceeds(client.tool_before(name="Write", input={"text": text}))
    assert backend.requests[0].event["tool"]["input"]["text"] == text


def test_a_backend_that_does_not_read_costs_the_deadline_and_no_more(ahp_client: Clients) -> None:
    """AHP-FAIL-002: sending counts as well as receiving."""
    entry = {"id": "com.example.deaf", "subscriptions": [intercept(timeout_ms=300)]}
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}/"
        client = ahp_client(hooks({**entry, "transport": {"type": "http", "url": url}}))
        text = "x" * 20_000_000
        outcome, seconds = timed(lambda: client.tool_before(name="Write", input={"text": text}))
    assert_synthetic_denial(outcome, failure_class="deadline_exceeded")
    assert seconds < 0.3 + 2 * SLACK  # the message itself takes a while to build


def test_every_attempt_sends_the_same_bytes(
    ahp_http_backend: Backends, ahp_client: Clients
) -> None:
    """AHP-CORE-004, R-RETRY-01: one serialisation, used again."""
    backend = ahp_http_backend(["status_503", "eof", "deny"])
    assert_denied(ask(ahp_client(backend.registration(), retry=QUICKLY)))
    first, second, third = backend.requests
    assert first.body == second.body == third.body
    assert first.headers == second.headers == third.headers


def test_cookies_are_not_kept(ahp_http_backend: Backends, ahp_client: Clients) -> None:
    """R-HTTP-06: what one answer sets is not in the next request."""
    backend = ahp_http_backend(step("status", code=200, headers={"Set-Cookie": "a=b; Path=/"}))
    client = ahp_client(backend.registration())
    for _ in range(2):
        assert_proceeds(ask(client))
    assert [request.header("cookie") for request in backend.requests] == [None, None]


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_redirects_are_not_followed(
    ahp_http_backend: Backends, ahp_client: Clients, ahp_audit: AuditLog, code: int
) -> None:
    """F25: the other server gets nothing, and its answer would not count either."""
    other = ahp_http_backend("ok")
    backend = ahp_http_backend(step("redirect", code=code, location=other.url))
    outcome = ask(ahp_client(backend.registration(policy="fail-open")))
    assert_failed_open(outcome, failure_class="http_status")
    assert_audit(ahp_audit, kind="failed_open", http_status=code, attempts=1)
    assert len(backend.requests) == 1
    assert other.connections == 0


@pytest.mark.parametrize("entry", ["machine 127.0.0.1", "machine localhost", "default"])
def test_netrc_is_not_read(
    ahp_http_backend: Backends,
    ahp_client: Clients,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    entry: str,
) -> None:
    """F23: a configured bearer stays, and without one there is no Authorization at all."""
    netrc = tmp_path / "netrc"
    netrc.write_text(f"{entry} login somebody password secret\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("GUARD_TOKEN", "t0ken")
    backend = ahp_http_backend("ok")
    url = f"http://localhost:{backend.port}/" if "localhost" in entry else backend.url
    ask(ahp_client(backend.registration(url=url)))
    ask(ahp_client(backend.registration(url=url, authentication=BEARER)))
    found = [request.header_values("authorization") for request in backend.requests]
    assert found == [[], ["Bearer t0ken"]]


# --- headers and credentials ------------------------------------------------------------------

BEARER = {"type": "bearer", "tokenEnv": "GUARD_TOKEN"}


def test_registered_headers_go_before_ours(ahp_http_backend: Backends, ahp_client: Clients) -> None:
    """R-HDR-01: names are compared without regard to case, and the last of equal names wins."""
    backend = ahp_http_backend("ok")
    headers = {
        "ACCEPT": "application/x-mine",
        "content-type": "application/json; charset=utf-8",
        "User-Agent": "mine",
        "X-Team": "blue",
        "x-team": "red",
        "X-Empty": "",
    }
    assert_proceeds(ask(ahp_client(backend.registration(headers=headers))))
    [request] = backend.requests
    expected = {**headers, "X-Team": "red"}
    for name, value in expected.items():
        assert request.header_values(name) == [value], name


def test_a_registered_authorization_takes_the_place_of_the_binding(
    ahp_http_backend: Backends, ahp_client: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-HDR-02: the binding is off, so that its missing token is no failure."""
    monkeypatch.delenv("GUARD_TOKEN", raising=False)
    backend = ahp_http_backend("ok")
    registration = backend.registration(
        headers={"authorization": "Basic abc"}, authentication=BEARER
    )
    assert_proceeds(ask(ahp_client(registration)))
    assert backend.requests[0].header_values("authorization") == ["Basic abc"]


def test_a_header_is_read_from_the_environment_at_each_delivery(
    ahp_http_backend: Backends, ahp_client: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-HDR-03: a rotated secret needs no new client."""
    backend = ahp_http_backend("ok")
    client = ahp_client(backend.registration(headers={"X-Key": {"valueEnv": "GUARD_KEY"}}))
    for value in ("first", "second", "caf\u00e9"):
        monkeypatch.setenv("GUARD_KEY", value)
        assert_proceeds(ask(client))
    assert [request.header("x-key") for request in backend.requests] == ["first", "second", "café"]


@pytest.mark.parametrize("value", [None, "", "two\nlines", "nul\x1f", " blanks ", "€"])
def test_a_header_that_cannot_be_sent_sends_nothing(
    ahp_http_backend: Backends,
    ahp_client: Clients,
    ahp_audit: AuditLog,
    monkeypatch: pytest.MonkeyPatch,
    value: str | None,
) -> None:
    """R-HDR-03: an authentication failure, under the policy, tried once."""
    set_or_unset(monkeypatch, "GUARD_KEY", value)
    backend = ahp_http_backend("ok")
    registration = backend.registration(headers={"X-Key": {"valueEnv": "GUARD_KEY"}})
    assert_synthetic_denial(ask(ahp_client(registration)), failure_class="authentication")
    assert_audit(ahp_audit, failure_class="authentication", attempts=1)
    assert backend.connections == 0


def test_headers_are_those_of_one_backend(
    ahp_http_backend: Backends, ahp_client: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-HDR-04, R-AUTH-06: no other backend gets them."""
    monkeypatch.setenv("GUARD_TOKEN", "t0ken")
    first, second = ahp_http_backend("ok"), ahp_http_backend("ok")
    client = ahp_client(
        hooks(
            first.entry(id="com.example.a", headers={"X-Key": "k"}, authentication=BEARER),
            second.entry(id="com.example.b"),
        )
    )
    assert_proceeds(ask(client))
    assert first.requests[0].header("x-key") == "k"
    assert second.requests[0].header("x-key") is None
    assert second.requests[0].header("authorization") is None


@pytest.mark.parametrize(
    "name",
    [
        *("Host", "content-length", "Transfer-Encoding", "Connection", "Keep-Alive", "Upgrade"),
        *("TE", "Trailer", "Expect", "Accept-Encoding", "Content-Encoding", "Proxy-Authorization"),
        *("X Key", "X:Key", "X-Key\r\nX-Other", ""),
    ],
)
def test_headers_that_frame_a_message_are_refused(
    ahp_http_backend: Backends, ahp_client: Clients, name: str
) -> None:
    """T-10: a registration can't change how a message is carried."""
    backend = ahp_http_backend("ok")
    with pytest.raises(RegistrationError, match="headers"):
        ahp_client(backend.registration(headers={name: "1"}))


def test_a_bearer_token_is_read_at_each_delivery(
    ahp_http_backend: Backends, ahp_client: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-AUTH-01: exactly one header, for requests and for notifications."""
    backend = ahp_http_backend("ok")
    client = ahp_client(
        backend.registration(subscriptions=[intercept(), observe()], authentication=BEARER)
    )
    for token in ("first", "A-._~+/z9=="):
        monkeypatch.setenv("GUARD_TOKEN", token)
        assert_proceeds(ask(client))
    found = [request.header_values("authorization") for request in backend.requests]
    assert found == [["Bearer first"]] * 2 + [["Bearer A-._~+/z9=="]] * 2


@pytest.mark.parametrize("token", [None, "", "a b", "=a", "tök", "a\n", "Bearer a", 'a"b', "a,b"])
@pytest.mark.parametrize("policy", ["fail-closed", "fail-open"])
def test_without_a_usable_token_nothing_is_sent(
    ahp_http_backend: Backends,
    ahp_client: Clients,
    ahp_audit: AuditLog,
    monkeypatch: pytest.MonkeyPatch,
    token: str | None,
    policy: str,
) -> None:
    """R-AUTH-01, R-AUTH-02, R-FAIL-03: fail-open is no permission to ask without credentials."""
    set_or_unset(monkeypatch, "GUARD_TOKEN", token)
    backend = ahp_http_backend("ok")
    registration = backend.registration(policy=policy, authentication=BEARER)
    outcome = ask(ahp_client(registration))
    check = assert_failed_open if policy == "fail-open" else assert_synthetic_denial
    check(outcome, failure_class="authentication")
    assert_audit(ahp_audit, failure_class="authentication", attempts=1)
    assert backend.connections == 0


def set_or_unset(monkeypatch: pytest.MonkeyPatch, name: str, value: str | None) -> None:
    if value is None:
        monkeypatch.delenv(name, raising=False)
    else:
        monkeypatch.setenv(name, value)


# --- what is accepted -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "failure_class", "code"),
    [
        ("status_400", "http_status", "http_400"),
        ("status_401", "authentication", "unauthorized"),
        ("status_403", "http_status", "http_403"),
        ("status_404", "http_status", "http_404"),
        ("status_413", "http_status", "http_413"),
        ("status_429", "http_status", "http_429"),
        ("status_500", "http_status", "http_500"),
        ("status_502", "http_status", "http_502"),
        ("status_503", "http_status", "http_503"),
        ("status_504", "http_status", "http_504"),
        (step("status", code=302), "http_status", "http_302"),
        (step("status", code=418, answer=b""), "http_status", "http_418"),
        (step("status", code=999, answer=b""), "http_status", "http_999"),
        ("no_content", "malformed", "empty"),
        ("empty", "malformed", "empty"),
        (step("status", code=200, answer="html", content_type="text/html"), "malformed", None),
        ("html", "malformed", "not_json"),
        ("json_null", "malformed", "not_an_object"),
        ("json_array", "malformed", "batch"),
        ("json_object", "malformed", "not_json_rpc"),
        ("bom", "malformed", "byte_order_mark"),
        ("utf16", "malformed", "not_utf8"),
        ("bad_utf8", "malformed", "not_utf8"),
        ("not_http", "malformed", "bad_http"),
    ],
    ids=str,
)
@pytest.mark.parametrize("policy", ["fail-closed", "fail-open"])
def test_what_is_no_answer_is_a_failure(
    ahp_http_backend: Backends,
    ahp_client: Clients,
    ahp_audit: AuditLog,
    script: Any,
    failure_class: str,
    code: str | None,
    policy: str,
) -> None:
    """F45, F70: each has one class and code; nothing proceeds but a flagged fail-open."""
    backend = ahp_http_backend(script)
    outcome = ask(ahp_client(backend.registration(policy=policy), retry=ONCE))
    check = assert_failed_open if policy == "fail-open" else assert_synthetic_denial
    check(outcome, failure_class=failure_class)
    [record] = assert_audit(ahp_audit, failure_class=failure_class)
    assert code is None or record.code == code


@pytest.mark.parametrize("code", [200, 201, 203, 206, 299])
def test_any_success_with_a_valid_body_counts(
    ahp_http_backend: Backends, ahp_client: Clients, code: int
) -> None:
    """R-HTTP-02: a deny is not lost over an unusual status of success."""
    backend = ahp_http_backend(step("status", code=code, answer="deny"))
    assert_denied(ask(ahp_client(backend.registration())))


def test_an_error_response_under_a_failing_status_is_a_remote_error(
    ahp_http_backend: Backends, ahp_client: Clients, ahp_audit: AuditLog
) -> None:
    """R-HTTP-04: it correlates, so it says more than the status; a success never counts there."""
    backend = ahp_http_backend(step("status", code=500, answer="unsupported_event"))
    assert_synthetic_denial(ask(ahp_client(backend.registration())), failure_class="unsupported")
    assert_audit(ahp_audit, http_status=500, rpc_code=-32002, code="unsupported_event")


@pytest.mark.parametrize(
    "label",
    [
        *("application/json", "application/json; charset=utf-8", "APPLICATION/JSON;a=b"),
        *("application/json ;charset=utf-8", "application/vnd.ahp+json"),
    ],
)
def test_a_json_label_is_accepted(
    ahp_http_backend: Backends, ahp_client: Clients, label: str
) -> None:
    """R-HTTP-03: any JSON media type, parameters or not."""
    backend = ahp_http_backend(step("status", code=200, answer="deny", content_type=label))
    assert_denied(ask(ahp_client(backend.registration())))


@pytest.mark.parametrize(
    "label",
    [
        *("text/plain", "text/html; charset=utf-8", "text/json", "application/jsonl", "json", ""),
        *("application/octet-stream; a=application/json", "application/json, text/html"),
    ],
)
def test_another_label_is_a_failure(
    ahp_http_backend: Backends, ahp_client: Clients, ahp_audit: AuditLog, label: str
) -> None:
    """D-11: a page that happens to hold JSON is not taken for an answer."""
    backend = ahp_http_backend(step("text", content_type=label))
    assert_synthetic_denial(ask(ahp_client(backend.registration())), failure_class="malformed")
    assert_audit(ahp_audit, code="content_type", http_status=200, attempts=1)


def test_an_answer_without_a_label_is_a_failure(
    ahp_http_backend: Backends, ahp_client: Clients, ahp_audit: AuditLog
) -> None:
    """D-11: silence is not a JSON media type either."""
    backend = ahp_http_backend(lambda request: raw(request, "ok", label=None))
    assert_synthetic_denial(ask(ahp_client(backend.registration())), failure_class="malformed")
    assert_audit(ahp_audit, code="content_type")


def raw(
    request: ReceivedRequest,
    answer: str,
    *,
    version: str = "1.1",
    label: str | None = "application/json",
    length: bool = True,
    after: bytes = b"",
) -> Any:
    """Return a step that sends an answer byte for byte and then closes the connection."""
    body = ANSWERS[answer](request.rpc_id)
    lines = [f"HTTP/{version} 200 OK"]
    lines += [f"Content-Type: {label}"] if label else []
    lines += [f"Content-Length: {len(body)}"] if length else []
    head = "\r\n".join([*lines, "", ""]).encode()
    return step("raw", pieces=[head + body + after])


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_an_answer_may_end_with_the_connection(
    ahp_http_backend: Backends, ahp_client: Clients, version: str
) -> None:
    """Old servers do that; the JSON itself tells whether it is whole."""
    backend = ahp_http_backend(lambda one: raw(one, "deny", version=version, length=False))
    client = ahp_client(backend.registration())
    for _ in range(2):
        assert_denied(ask(client))
    assert backend.connections == 2


def test_a_chunked_answer_is_read(ahp_http_backend: Backends, ahp_client: Clients) -> None:
    """Chunks of a few bytes, with an extension and a trailer."""

    def chunked(request: ReceivedRequest) -> Any:
        body = ANSWERS["deny"](request.rpc_id)
        pieces = [b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"]
        pieces.append(b"Transfer-Encoding: chunked\r\n\r\n")
        for start in range(0, len(body), 7):
            piece = body[start : start + 7]
            pieces.append(b"%x;a=b\r\n%s\r\n" % (len(piece), piece))
        return step("raw", pieces=[*pieces, b"0\r\nX-Trailer: 1\r\n\r\n"])

    backend = ahp_http_backend(chunked)
    assert_denied(ask(ahp_client(backend.registration())))


@pytest.mark.parametrize(
    "head",
    [
        *("HTTP/2 200 OK", "HTTP/1.1 abc OK", "HTTP/1.1 99 OK", "ICY 200 OK"),
        "HTTP/1.1 200 OK\nContent-Length: 9\nContent-Length: 10",
        *(f"HTTP/1.1 200 OK\nContent-Length: {length}" for length in ("-9", "+9", "9, 9", "x", "")),
        *(f"HTTP/1.1 200 OK\n{line}" for line in ("no colon", "X-A : b", " X-A: b", ": b")),
        "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\nzz",
    ],
)
def test_an_answer_that_is_no_good_http_is_malformed_at_once(
    ahp_http_backend: Backends, ahp_client: Clients, ahp_audit: AuditLog, head: str
) -> None:
    """F45: nothing is guessed about where it ends, and nothing waited for that can't come."""
    label = "Content-Type: application/json"
    lines = [*head.partition("\n\n")[0].split("\n"), label, "", *head.split("\n\n")[1:], "{}" * 5]
    answer = "\r\n".join(lines)
    backend = ahp_http_backend(step("raw", pieces=[answer, 30.0]))
    client = ahp_client(backend.registration(timeout_ms=10_000))
    outcome, seconds = timed(lambda: ask(client))
    assert_synthetic_denial(outcome, failure_class="malformed")
    assert_audit(ahp_audit, code="bad_http", attempts=1)
    assert seconds < 5
    assert backend.wait_closed()


def test_an_interim_answer_is_not_the_answer(
    ahp_http_backend: Backends, ahp_client: Clients
) -> None:
    """100 Continue comes from some servers though nobody asked."""

    def answer(request: ReceivedRequest) -> Any:
        body = ANSWERS["deny"](request.rpc_id)
        head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
        return step("raw", pieces=["HTTP/1.1 100 Continue\r\n\r\n", f"{head}\r\n\r\n", body])

    assert_denied(ask(ahp_client(ahp_http_backend(answer).registration())))


@pytest.mark.parametrize("answer", ["status_500", "blackhole", "eof"])
def test_a_failed_notification_is_recorded_and_changes_nothing(
    ahp_http_backend: Backends, ahp_client: Clients, ahp_audit: AuditLog, answer: str
) -> None:
    """R-OBS-05: the failure of an observer is a diagnostic."""
    backend = ahp_http_backend(answer)
    client = ahp_client(
        backend.registration(subscriptions=[observe()]), retry=ONCE, observe_timeout=0.2
    )
    assert_proceeds(ask(client))
    assert_audit(ahp_audit, kind=AuditKind.OBSERVATION_FAILED, attempts=1)


@pytest.mark.parametrize(
    ("code", "body"),
    [
        (200, "deny"),
        (200, "html"),
        (200, "bad_json"),
        (201, "rpc_error"),
        (202, b""),
        (200, b"x" * 60_000),
        (200, b"x" * 300_000),
    ],
    ids=["denial", "html", "bad JSON", "error", "empty", "much", "too much"],
)
def test_what_comes_back_to_a_notification_is_discarded(
    ahp_http_backend: Backends, ahp_client: Clients, ahp_audit: AuditLog, code: int, body: Any
) -> None:
    """R-OBS-05, R-HTTP-02: any 2xx will do, and its body is nobody's decision."""
    backend = ahp_http_backend(step("status", code=code, answer=body, content_type="text/plain"))
    client = ahp_client(backend.registration(subscriptions=[observe()]), retry=ONCE)
    for _ in range(2):
        assert_proceeds(ask(client))
    assert len(backend.requests) == 2
    assert backend.connections == (2 if len(body) > 1 << 16 else 1)
    assert len(ahp_audit) == 0


@pytest.mark.parametrize("length", [b"Content-Length: 9", b"Transfer-Encoding: chunked"])
def test_what_is_wrong_with_a_body_does_not_change_its_status(
    ahp_http_backend: Backends, ahp_client: Clients, ahp_audit: AuditLog, length: bytes
) -> None:
    """R-RETRY-02: a cut-off 401 is a 401, and a notification that was taken is not sent again."""

    def cut_off(request: ReceivedRequest) -> Any:
        status = b"200 OK" if request.rpc_id is None else b"401 Unauthorized"
        return step("raw", pieces=[b"HTTP/1.1 " + status + b"\r\n" + length + b"\r\n\r\n1"])

    backend = ahp_http_backend(cut_off)
    client = ahp_client(backend.registration(subscriptions=[intercept(), observe()]))
    assert_synthetic_denial(ask(client), failure_class="authentication")
    assert_audit(ahp_audit, http_status=401, attempts=1)
    assert len(ahp_audit) == 1
    assert len(backend.requests) == 2


# --- too little and too much ------------------------------------------------------------------


@pytest.mark.parametrize("answer", ["truncated", "truncated_chunked", "truncated_header", "reset"])
@pytest.mark.parametrize("policy", ["fail-closed", "fail-open"])
def test_a_short_answer_is_not_accepted(
    ahp_http_backend: Backends, ahp_client: Clients, answer: str, policy: str
) -> None:
    """F52: the JSON may be whole, the answer is not."""
    backend = ahp_http_backend(answer)
    outcome = ask(ahp_client(backend.registration(policy=policy), retry=ONCE))
    check = assert_failed_open if policy == "fail-open" else assert_synthetic_denial
    check(outcome, failure_class="connection")


def test_an_answer_of_just_the_cap_is_accepted(
    ahp_http_backend: Backends, ahp_client: Clients
) -> None:
    """4 MiB to the byte; one more is too large."""
    backend = ahp_http_backend(
        [step("padded", size=RESPONSE_CAP), step("padded", size=RESPONSE_CAP + 1)]
    )
    client = ahp_client(backend.registration(timeout_ms=10_000))
    assert_denied(ask(client))
    assert_synthetic_denial(ask(client), failure_class="malformed")


def test_a_long_reason_reaches_the_host_whole_and_the_record_in_part(
    ahp_http_backend: Backends, ahp_client: Clients, ahp_audit: AuditLog
) -> None:
    """Design decision 8: an audit record is bounded, whatever a backend says."""
    reason = "no " * 100_000
    client = ahp_client(ahp_http_backend(step("deny", reason=reason)).registration())
    assert_denied(ask(client), reason)
    [record] = ahp_audit
    assert len(record.untrusted["reason"]) < 5000
    assert record.untrusted["reason"].endswith("(cut)")


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ("huge", "too_large"),
        ("huge_length", "too_large"),
        ("huge_header", "bad_http"),
        ("huge_header_line", "bad_http"),
        ("gzip", "content_encoding"),
        ("gzip_bomb", "content_encoding"),
        (step("gzip_bomb", times=2), "content_encoding"),
    ],
    ids=str,
)
def test_an_answer_that_is_too_much_is_dropped(
    ahp_http_backend: Backends, ahp_client: Clients, ahp_audit: AuditLog, answer: Any, code: str
) -> None:
    """F44: a malformed message long before the deadline; the connection is not used again."""
    backend = ahp_http_backend([answer, "ok"])
    client = ahp_client(backend.registration(timeout_ms=10_000))
    outcome, seconds = timed(lambda: ask(client))
    assert_synthetic_denial(outcome, failure_class="malformed")
    assert_audit(ahp_audit, code=code, attempts=1)
    assert seconds < 5
    assert_proceeds(ask(client))
    assert backend.connections == 2
    assert backend.wait(lambda: backend.connection_log[0].closed_by == "client")


@pytest.mark.parametrize("answer", ["huge", "huge_length", "huge_header", "gzip_bomb"])
def test_an_answer_that_is_too_much_takes_little_memory(
    ahp_http_backend: Backends, ahp_client: Clients, answer: str
) -> None:
    """F44: a few times the cap of 4 MiB at most, whatever is sent."""
    client = ahp_client(ahp_http_backend(answer).registration(timeout_ms=10_000))
    ask(client)  # what is loaded at first use does not count
    tracemalloc.start()
    try:
        ask(client)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("answer", ["blackhole", "drip_header", "drip_body", "endless_continue"])
def test_a_slow_answer_costs_the_deadline_and_no_more(
    ahp_http_backend: Backends, ahp_client: Clients, answer: str
) -> None:
    """F02: no byte starts the clock again, and the socket is closed at once."""
    backend = ahp_http_backend(answer)
    outcome, seconds = timed(lambda: ask(ahp_client(backend.registration(timeout_ms=300))))
    assert_synthetic_denial(outcome, failure_class="deadline_exceeded")
    assert 0.3 <= seconds < 0.3 + SLACK
    assert backend.wait_closed(0.5)
    assert backend.wait(lambda: backend.connection_log[0].closed_by == "client")


# --- connections ------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", ["ok", "status_500", "status_404", "bad_json", "wrong_id"])
def test_a_connection_serves_again_once_its_answer_was_read(
    ahp_http_backend: Backends, ahp_client: Clients, answer: str
) -> None:
    """Keep-alive, whatever the answer says."""
    backend = ahp_http_backend(answer)
    client = ahp_client(backend.registration(), retry=ONCE)
    for _ in range(5):
        ask(client)
    assert len(backend.requests) == 5
    assert backend.connections == 1


def test_a_backend_may_close_the_connection(
    ahp_http_backend: Backends, ahp_client: Clients, ahp_audit: AuditLog
) -> None:
    """``Connection: close`` costs a new connection, not an attempt."""
    backend = ahp_http_backend(step("status", code=200, headers={"Connection": "close"}))
    client = ahp_client(backend.registration())
    for _ in range(2):
        assert_proceeds(ask(client))
    assert backend.connections == 2
    assert_audit(ahp_audit, kind="accepted", attempts=1, count=2)


def test_a_connection_that_was_closed_meanwhile_is_not_used(
    ahp_http_backend: Backends, ahp_client: Clients, ahp_audit: AuditLog
) -> None:
    """F22: an idle connection that is seen to be closed costs no attempt."""
    backend = ahp_http_backend("close_after_answer")
    client = ahp_client(backend.registration())
    for _ in range(3):
        assert_proceeds(ask(client))
        assert backend.wait_closed()
    assert_audit(ahp_audit, kind="accepted", attempts=1, count=3)


@pytest.mark.parametrize("answer", ["close_on_reuse", "reset_on_reuse"])
def test_a_stale_connection_is_replaced(
    ahp_http_backend: Backends, ahp_client: Clients, ahp_audit: AuditLog, answer: str
) -> None:
    """F22: closed at the second request; that goes out again, the same, over a new one."""
    backend = ahp_http_backend(step(answer, then="deny"))
    client = ahp_client(backend.registration())
    assert_denied(ask(client))
    assert_denied(ask(client))
    assert [record.attempts for record in ahp_audit] == [1, 2]
    _, stale, fresh = backend.requests
    assert (stale.rpc_id, stale.body) == (fresh.rpc_id, fresh.body)
    assert (stale.connection, fresh.connection) == (1, 2)


def test_a_stale_connection_whose_replacement_fails_is_one_failure(
    ahp_http_backend: Backends, ahp_client: Clients, ahp_audit: AuditLog
) -> None:
    """F22: there is an end to it."""
    backend = ahp_http_backend(["ok", "eof"])
    client = ahp_client(backend.registration(), retry=QUICKLY)
    assert_proceeds(ask(client))
    assert_synthetic_denial(ask(client), failure_class="connection")
    assert_audit(ahp_audit, failure_class="connection", attempts=3)


def test_the_connection_of_an_aborted_exchange_is_never_used_again(
    ahp_http_backend: Backends, ahp_client: Clients
) -> None:
    """R-HTTP-07, T-03: a late denial of the first call can't settle the second."""
    backend = ahp_http_backend(["ok", step("late", seconds=0.3), "ok"])
    client = ahp_client(backend.registration(timeout_ms=150), retry=ONCE)
    assert_proceeds(ask(client))
    assert_synthetic_denial(ask(client), failure_class="deadline_exceeded")
    assert_proceeds(ask(client))
    assert [request.connection for request in backend.requests] == [1, 1, 2]
    assert backend.wait(lambda: backend.connection_log[0].closed_by == "client")


@pytest.mark.parametrize("size", [0, 1 << 14, 1 << 20])
def test_bytes_beyond_an_answer_are_nobodys_answer(
    ahp_http_backend: Backends, ahp_client: Clients, size: int
) -> None:
    """T-03: a second answer behind the first one is not taken for the next call's."""

    def answer(request: ReceivedRequest) -> Any:
        if request.served:
            return "ok"
        body = ANSWERS["ok"](request.rpc_id)
        second = ANSWERS["deny"]("ev-2")
        head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n"
        both = b"".join(head.format(len(one)).encode() + one for one in (body, second))
        return step("raw", pieces=[both + b" " * size, 0.1])

    backend = ahp_http_backend(answer)
    client = ahp_client(backend.registration())
    assert_proceeds(ask(client, event_id="ev-1"))
    assert_proceeds(ask(client, event_id="ev-2"))


def test_threads_over_many_backends_get_their_own_answers(
    ahp_http_backend: Backends, ahp_client: Clients
) -> None:
    """F60: no answer is swapped, no connection closed under a user, none left over."""
    backends = [ahp_http_backend(echo) for _ in range(6)]
    clients = [ahp_client(backend.registration(timeout_ms=10_000)) for backend in backends]

    def call(number: int) -> str:
        outcome = ask(clients[number % 6], call_id=f"call-{number}")
        return f"{outcome.reason} {len(outcome.failures)}"

    with ThreadPoolExecutor(12) as threads:
        found = list(threads.map(call, range(600)))
    assert found == [f"call-{number} 0" for number in range(600)]
    assert sum(backend.connections for backend in backends) <= 6 * 12


def echo(request: ReceivedRequest) -> dict[str, str]:
    return {"type": "deny", "reason": request.event["call"]["id"]}


def test_concurrent_calls_have_connections_of_their_own(
    ahp_http_backend: Backends, ahp_client: Clients
) -> None:
    """None waits for another's answer, and all stay for the next calls."""
    together = threading.Barrier(8)

    def answer(request: ReceivedRequest) -> dict[str, str]:
        together.wait(10)
        return echo(request)

    backend = ahp_http_backend(answer)
    client = ahp_client(backend.registration(timeout_ms=10_000))
    for _ in range(2):
        with ThreadPoolExecutor(8) as threads:
            outcomes = list(threads.map(lambda one: ask(client, call_id=str(one)), range(8)))
        assert [outcome.reason for outcome in outcomes] == [str(one) for one in range(8)]
    assert backend.connections == 8


def test_closing_the_client_closes_its_connections(
    ahp_http_backend: Backends, ahp_client: Clients
) -> None:
    """R-SHUT-01: the idle ones at once, and those of calls in flight."""
    backend = ahp_http_backend(["ok", "blackhole"])
    before = descriptors()
    client = ahp_client(backend.registration(timeout_ms=10_000))
    ask(client)
    with ThreadPoolExecutor(1) as threads:
        hung = threads.submit(ask, client)
        assert backend.wait_requests(2)
        assert backend.open_connections == 1
        client.close()
        assert hung.result(5).decision == "interrupted"
    assert backend.wait_closed(1)
    assert eventually(lambda: descriptors() <= before)


def test_a_forked_child_has_connections_of_its_own(ahp_http_backend: Backends) -> None:
    """F16: parent and children never write to one socket."""
    backend = ahp_http_backend(echo)
    done = host(
        """
        import json
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)  # about forking beside threads
        hooks = client(json.loads(sys.argv[1]), audit=AuditLog())
        def post(count):
            for number in range(count):
                call = f"{os.getpid()}-{number}"
                outcome = hooks.tool_before(name="x", input={}, call_id=call, session="s")
                assert outcome.reason == call, outcome
        post(1)
        children = []
        for _ in range(2):
            pid = os.fork()
            if pid == 0:
                post(50)
                hooks.close()
                os._exit(0)
            children.append(pid)
        post(50)
        print([os.waitpid(pid, 0)[1] for pid in children])
        hooks.close()
        """,
        json.dumps(backend.registration(timeout_ms=10_000)),
    )
    assert (done.status, done.stdout.strip(), done.stderr) == (0, "[0, 0]", "")
    users: dict[int, set[str]] = {}
    for request in backend.requests:
        pid = request.event["call"]["id"].partition("-")[0]
        users.setdefault(request.connection, set()).add(pid)
    assert len(backend.requests) == 151
    assert all(len(pids) == 1 for pids in users.values())
