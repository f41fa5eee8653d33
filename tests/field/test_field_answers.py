"""Field bugs of answers that are no decision: broken, oversized, ambiguous, or no answer at all.

A test names the row of the list of field bugs that it belongs to, and does what the row says.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Callable

import pytest
from watching import SLACK, host, statistics, timed, workers_are_free

from ahp_sync import Client, Harness, InvalidEvent, Outcome, RegistrationError, RetryPolicy
from ahp_sync.protocol import registration_schema, schemas
from ahp_sync.testing import (
    AuditLog,
    HttpBackend,
    assert_audit,
    assert_failed_open,
    assert_proceeds,
    assert_synthetic_denial,
    hooks,
    intercept,
    step,
)

ONCE = RetryPolicy(max_attempts=1)
TRANSPORTS = ("http", "persistent", "per_event")
POLICIES = ("fail-closed", "fail-open")
Clients = Callable[..., Client]

each_transport = pytest.mark.parametrize("transport", TRANSPORTS)
each_policy = pytest.mark.parametrize("policy", POLICIES)


@pytest.fixture
def start(
    ahp_http_backend: Callable[..., Any], ahp_stdio_backend: Callable[..., Any]
) -> Callable[..., Any]:
    """``start(transport, script)`` starts a backend."""

    def start(transport: str, script: Any) -> Any:
        if transport == "http":
            return ahp_http_backend(script)
        return ahp_stdio_backend(script, lifecycle=transport)

    return start


def ask(client: Client, **more: Any) -> Outcome:
    return client.tool_before(name="Bash", **{"input": {"command": "ls"}, **more})


def make_client(registration: Any) -> Client:
    return Client(registration, source="urn:example:test", harness=Harness("tests", "1"))


def check(outcome: Outcome, policy: str, failure_class: str) -> None:
    __tracebackhide__ = True
    if policy == "fail-closed":
        assert_synthetic_denial(outcome, failure_class=failure_class)
    else:
        assert_failed_open(outcome, failure_class=failure_class)


# --- F40, F41, F70: JSON that readers differ about -----------------------------------------------


@each_policy
@each_transport
@pytest.mark.parametrize("answer", ["dup_keys", "dup_keys_nested"])
def test_f40_a_repeated_key_is_never_resolved(
    answer: str,
    transport: str,
    policy: str,
    start: Callable[..., Any],
    ahp_client: Clients,
    ahp_audit: AuditLog,
) -> None:
    """F40: deny first and allow last, at the top or within: malformed, and nothing else."""
    client = ahp_client(start(transport, answer).registration(timeout_ms=5000, policy=policy))
    check(ask(client), policy, "malformed")
    assert_audit(ahp_audit, code="duplicate_key")


def test_f40_a_repeated_key_of_the_configuration_is_refused(tmp_path: Path) -> None:
    """F40: both policies stand in the file; none of them is taken."""
    path = tmp_path / "hooks.json"
    entry = {
        "id": "com.example.one",
        "transport": {"type": "http", "url": "http://127.0.0.1:9/ahp"},
        "subscriptions": [intercept(policy="fail-closed")],
    }
    text = json.dumps(hooks(entry))
    doubled = text.replace(
        '"failurePolicy": "fail-closed"',
        '"failurePolicy": "fail-closed", "failurePolicy": "fail-open"',
    )
    assert doubled != text
    path.write_text(doubled)
    with pytest.raises(RegistrationError, match=r"subscriptions\[0\]\.failurePolicy"):
        make_client(path)


@pytest.mark.parametrize("transport", ["http", "persistent"])
def test_f41_big_numbers_and_deep_nesting_end_no_reader(
    transport: str, start: Callable[..., Any], ahp_client: Clients, ahp_audit: AuditLog
) -> None:
    """F41: 5,000 digits, 200,000 arrays; malformed each, and the next message is served."""
    backend = start(transport, ["ok", "big_int", "ok", "deep", "ok"])
    client = ahp_client(backend.registration(timeout_ms=5000), max_workers=1)
    for code in (None, "number_too_long", None, "nested_too_deep", None):
        outcome = ask(client)
        if code is None:
            assert_proceeds(outcome)
        else:
            assert_synthetic_denial(outcome, failure_class="malformed")
            assert outcome.failures[0].code == code
    assert statistics(client).threads == 1


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [int("7" * 4000), -int("7" * 4000), nested(200_000), float("nan"), float("inf"), "\ud800"],
    ids=["digits", "negative", "nesting", "nan", "infinity", "surrogate"],
)
def test_f41_the_same_is_refused_on_the_way_out(
    value: Any, start: Callable[..., Any], ahp_client: Clients, ahp_audit: AuditLog
) -> None:
    """F41: the host gets an error that names the place, and nothing is sent."""
    backend = start("http", "ok")
    client = ahp_client(backend.registration(timeout_ms=5000))
    with pytest.raises(InvalidEvent, match=r"^\$\.tool\.input"):
        ask(client, input={"number": value})
    assert not backend.connections
    assert_proceeds(ask(client))


@pytest.mark.parametrize(
    ("answer", "code"), [("bom", "byte_order_mark"), ("utf16", "not_utf8")], ids=str
)
def test_f70_other_encodings_mean_the_same_on_every_transport(
    answer: str,
    code: str,
    start: Callable[..., Any],
    ahp_client: Clients,
    ahp_audit: AuditLog,
) -> None:
    """F70: a denial with a byte-order mark or in UTF-16 is malformed, and never lost silently."""
    for policy in POLICIES:
        for transport in TRANSPORTS:
            backend = start(transport, answer)
            client = ahp_client(backend.registration(timeout_ms=5000, policy=policy))
            outcome = ask(client)
            check(outcome, policy, "malformed")
            assert outcome.failures[0].code == code, transport
    assert_audit(ahp_audit, failure_class="malformed", code=code, count=len(ahp_audit))


# --- F44, F45, F52: HTTP answers that are none ---------------------------------------------------

MEASURED = """
import json, resource
warm, measured = json.loads(sys.argv[1]), json.loads(sys.argv[2])
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with client(warm) as hooks:
    assert ask(hooks).may_execute
with client(measured) as hooks:
    before = peak()
    outcomes = [ask(hooks) for _ in range(3)]
    codes = {f"{one.failure_class}/{one.code}" for o in outcomes for one in o.failures}
    print(json.dumps([sorted({o.decision for o in outcomes}), sorted(codes), peak() - before]))
"""


@pytest.mark.parametrize(
    ("script", "code"),
    [
        (step("gzip_bomb"), "content_encoding"),
        (step("gzip_bomb", times=2), "content_encoding"),
        (step("huge"), "too_large"),
        (step("huge_length"), "too_large"),
        (step("huge_header"), "bad_http"),
        (step("huge_header_line"), "bad_http"),
    ],
    ids=str,
)
def test_f44_a_bomb_does_not_go_off(
    script: Any, code: str, ahp_http_backend: Callable[..., HttpBackend]
) -> None:
    """F44: 200 MiB behind gzip, once or twice over, or without end: refused, and let go.

    The memory of a host grows by less than 20 MB, and no such connection serves again.
    """
    backend = ahp_http_backend(script)
    registrations = [
        each.registration(timeout_ms=10_000) for each in (ahp_http_backend("ok"), backend)
    ]
    done = host(MEASURED, *map(json.dumps, registrations))
    assert (done.status, done.stderr) == (0, ""), done.stderr
    decisions, codes, growth = json.loads(done.stdout)
    assert (decisions, codes) == (["deny"], [f"malformed/{code}"])
    assert growth < 20_000
    assert backend.wait_closed()
    assert [one.served for one in backend.connection_log] == [1, 1, 1]
    assert {one.closed_by for one in backend.connection_log} == {"client"}


NOT_DECISIONS: Mapping[str, tuple[Any, str, str]] = {
    "500": ("status_500", "http_status", "http_500"),
    "503": ("status_503", "http_status", "http_503"),
    "429": ("status_429", "http_status", "http_429"),
    "401": ("status_401", "authentication", "unauthorized"),
    "403-empty": (step("status", code=403, answer=b""), "http_status", "http_403"),
    "404": ("status_404", "http_status", "http_404"),
    "204": ("no_content", "malformed", "empty"),
    "200-empty": ("empty", "malformed", "empty"),
    "200-html": (step("status", code=200, answer="html"), "malformed", "not_json"),
    "200-html-label": (
        step("status", code=200, answer="html", content_type="text/html"),
        "malformed",
        "content_type",
    ),
    "200-null": ("json_null", "malformed", "not_an_object"),
    "200-list": ("json_array", "malformed", "batch"),
    "200-object": ("json_object", "malformed", "not_json_rpc"),
    "103": (step("raw", pieces=[b"HTTP/1.1 103 Early Hints\r\n\r\n"]), "http_status", "http_103"),
    "304": (step("status", code=304, answer=b""), "http_status", "http_304"),
}


@each_policy
@pytest.mark.parametrize("name", NOT_DECISIONS)
def test_f45_each_such_reply_has_its_class(
    name: str,
    policy: str,
    start: Callable[..., Any],
    ahp_client: Clients,
    ahp_audit: AuditLog,
) -> None:
    """F45: nothing proceeds under fail-closed, and every continuation is recorded."""
    script, failure_class, code = NOT_DECISIONS[name]
    backend = start("http", script)
    client = ahp_client(backend.registration(timeout_ms=5000, policy=policy), retry=ONCE)
    check(ask(client), policy, failure_class)
    kind = "synthetic_denial" if policy == "fail-closed" else "failed_open"
    assert_audit(ahp_audit, kind=kind, failure_class=failure_class, code=code)
    assert len(ahp_audit) == 1


def test_f45_a_refusal_under_an_error_status_does_not_count(
    start: Callable[..., Any], ahp_client: Clients
) -> None:
    """F45, R-HTTP-04: neither a permission nor a denial is read from under a 500."""
    for answer in ("ok", "deny"):
        backend = start("http", step("status", code=500, answer=answer))
        client = ahp_client(backend.registration(timeout_ms=5000, policy="fail-open"), retry=ONCE)
        assert_failed_open(ask(client), failure_class="http_status")


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
SHORT = {
    "declared": HEAD + b"Content-Length: 200\r\n\r\n%b",
    "chunked": HEAD + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n",
}


@each_policy
@pytest.mark.parametrize("framing", SHORT)
def test_f52_a_short_body_is_no_permission_even_if_it_is_valid_json(
    framing: str, policy: str, start: Callable[..., Any], ahp_client: Clients
) -> None:
    """F52: a whole valid answer, but less than was declared, or without the last chunk."""

    def script(request: Any) -> Any:
        result = {"protocolVersion": "draft"}
        body = json.dumps({"jsonrpc": "2.0", "id": request.rpc_id, "result": result}).encode()
        head = SHORT[framing]
        return step("raw", pieces=[head % ((len(body), body) if framing == "chunked" else body)])

    client = ahp_client(
        start("http", script).registration(timeout_ms=5000, policy=policy), retry=ONCE
    )
    outcome = ask(client)
    check(outcome, policy, "connection")
    assert outcome.failures[0].code == "truncated"
    assert workers_are_free(client)


# --- F62, F64: schemas ---------------------------------------------------------------------------


def test_f62_no_schema_is_fetched(
    ahp_http_backend: Callable[..., HttpBackend], ahp_client: Clients, ahp_audit: AuditLog
) -> None:
    """F62: a reference in the registration or in an answer is a member like any other.

    One names a recorder and one a black hole: nobody asks them, and no time is lost.
    """
    recorder, hole = ahp_http_backend("ok"), ahp_http_backend("blackhole")
    for url in (recorder.url, hole.url):
        effect = {"type": "deny", "reason": "no", "$ref": url}
        backend = ahp_http_backend([effect])
        document = backend.registration(timeout_ms=5000)
        document["$schema"] = document["$ref"] = url
        document["hooks"][0]["$ref"] = url
        document["hooks"][0]["subscriptions"][0]["$ref"] = url
        began = time.monotonic()
        client = ahp_client(document)
        outcome, _ = timed(lambda: ask(client))  # noqa: B023
        assert time.monotonic() - began <= 0.5 + SLACK
        assert_synthetic_denial(outcome, failure_class="effects")
    # A reference in the place of a value is no value.
    document["hooks"][0]["subscriptions"] = {"$ref": hole.url}
    with pytest.raises(RegistrationError, match=r"subscriptions"):
        make_client(document)
    assert recorder.connections == hole.connections == 0


def test_f64_nothing_relies_on_the_keyword_format() -> None:
    """F64: no schema of ours has it, since validators differ in whether they look."""
    shown = json.dumps(
        [schemas.EVENT_SCHEMAS, schemas.EFFECT_SCHEMAS, registration_schema.REGISTRATION]
    )
    assert '"format"' not in shown


def test_f64_ids_uris_and_times_are_checked_all_the_same(
    start: Callable[..., Any], ahp_client: Clients
) -> None:
    """F64: by our own code, with the declared dependencies alone."""
    backend = start("http", "wrong_type_id")
    client = ahp_client(backend.registration(timeout_ms=5000))
    assert_synthetic_denial(ask(client), failure_class="id_mismatch")
    with pytest.raises(ValueError, match="URI"):
        ahp_client(backend.registration(), source="not a uri")
    with pytest.raises(RegistrationError, match=r"transport\.url"):
        make_client(backend.registration(url="http://exa mple/"))
    with pytest.raises(InvalidEvent, match=r"\$\.time"):
        ask(client, time=datetime(2024, 1, 1))
    with pytest.raises(InvalidEvent, match=r"\$\.id"):
        ask(client, event_id="")
