"""Every fault on every transport where it can occur, under both policies.

A cell asks twice. The first answer is the fault: the decision is the policy's, the class the
table's, the audit has one record of it, the caller is back in time, and worker, socket and process
are free again. The second one shows that nothing of it is left in the client.
"""

from __future__ import annotations

import contextlib
import shlex
import shutil
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Callable, Union

import pytest
import trustme
from watching import SLACK, descriptors, eventually, workers_are_free

from ahp_sync import (
    GENERIC_REASON,
    AuditRecord,
    Client,
    Decision,
    Outcome,
    RetryPolicy,
    TLSIdentity,
    ToolDenied,
)
from ahp_sync.testing import (
    FAULTS,
    AuditLog,
    FaultCase,
    HttpBackend,
    StdioBackend,
    Step,
    assert_denied,
    assert_failed_open,
    assert_proceeds,
    assert_synthetic_denial,
    fault_cases,
    step,
)

Backend = Union[HttpBackend, StdioBackend]

POLICIES = ("fail-closed", "fail-open")
TRANSPORTS = ("http", "persistent", "per_event")
#: Milliseconds: what a fault runs into, and what it must not come near on a busy machine.
SHORT, LONG = 300, 5000
ONCE = RetryPolicy(max_attempts=1)
#: What a backend does with the whole listener, so that it can't be one step of several.
LISTENER = ("refused", "noaccept")
#: What a readable answer to the right request may be refused for.
READABLE = ("rpc_error", "unsupported", "missing_result", "effects")
TLS = ("silent_tls", "drip_tls", "not_tls")
LAUNCH = ("missing_command", "not_executable", "directory_command", "bad_shebang", "cwd_gone")


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    """A certificate authority."""
    return trustme.CA()


@pytest.fixture
def identity(authority: trustme.CA, tmp_path: Path) -> TLSIdentity:
    """What makes a client trust ``authority``."""
    path = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return TLSIdentity(ca_file=path)


@pytest.fixture
def nothing_is_left() -> Iterator[None]:
    """See that every descriptor is closed once client and backends are."""
    before = descriptors()
    yield
    assert eventually(lambda: descriptors() <= before), descriptors() - before


# The client is closed before the backends, and they before the descriptors are counted.
pytestmark = pytest.mark.usefixtures("nothing_is_left", "ahp_http_backend", "ahp_stdio_backend")


@pytest.fixture
def start(
    ahp_http_backend: Callable[..., HttpBackend],
    ahp_stdio_backend: Callable[..., StdioBackend],
    authority: trustme.CA,
) -> Callable[..., Backend]:
    """``start(transport, script)`` starts a backend; https where its fault needs that."""

    def start(transport: str, script: Any, *, tls: bool = False) -> Backend:
        if transport != "http":
            return ahp_stdio_backend(script, lifecycle=transport)
        context = None
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            authority.issue_cert("127.0.0.1").configure_cert(context)
        return ahp_http_backend(script, tls=context)

    return start


# --- the faults ------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("case", fault_cases(), ids=str)
def test_a_fault_is_settled_by_the_policy_and_leaves_nothing(
    case: FaultCase,
    policy: str,
    start: Callable[..., Backend],
    identity: TLSIdentity,
    ahp_client: Callable[..., Client],
    ahp_audit: AuditLog,
) -> None:
    """AHP-FAIL-001, AHP-FAIL-002, R-FAIL-04: one cell of the matrix."""
    tls = case.name in TLS
    alone = case.name in LISTENER or case.name in LAUNCH
    backend = start(case.transport, case.name if alone else [case.name, "ok"], tls=tls)
    timeout_ms = SHORT if case.failure_class == "deadline_exceeded" else LONG
    client = ahp_client(
        backend.registration(timeout_ms=timeout_ms, policy=policy),
        retry=ONCE,
        tls={backend.default_id: identity} if tls else None,
    )

    began = time.monotonic()
    outcome, was_run = gated_call(client, policy)
    elapsed = time.monotonic() - began

    assert elapsed <= timeout_ms / 1000 + SLACK
    check_decision(outcome, was_run, policy, case.failure_class)
    (record,) = ahp_audit.records
    check_record(record, policy, case.failure_class, timeout_ms)
    assert workers_are_free(client)
    check_what_is_left(backend, case)
    check_that_it_recovers(client, backend, case)
    client.close()
    check_that_all_is_gone(backend)


def gated_call(client: Client, policy: str) -> tuple[Outcome, bool]:
    """Call a tool through the client; return the outcome and whether the tool was run."""
    runs: list[str] = []

    def tool(command: str) -> None:
        runs.append(command)

    if policy == "fail-open":  # the guard keeps the outcome of a call that may run to itself
        outcome = client.tool_before(name="tool", input={"command": "ls"})
        if outcome.may_execute:
            tool(**outcome.input)
        return outcome, bool(runs)
    with pytest.raises(ToolDenied) as denied:
        client.guard(tool)(command="ls")
    return denied.value.outcome, bool(runs)


def check_decision(outcome: Outcome, was_run: bool, policy: str, failure_class: str) -> None:
    __tracebackhide__ = True
    if policy == "fail-closed":
        assert_synthetic_denial(outcome, failure_class=failure_class)
        assert outcome.reason == GENERIC_REASON
        assert not was_run
    else:
        assert_failed_open(outcome, failure_class=failure_class)
        assert was_run
    assert len(outcome.failures) == 1


def check_record(record: AuditRecord, policy: str, failure_class: str, timeout_ms: int) -> None:
    """The one record of a failure names its class and code, and is no explicit denial."""
    __tracebackhide__ = True
    closed = policy == "fail-closed"
    assert record.kind.value == ("synthetic_denial" if closed else "failed_open"), record
    assert record.synthetic is closed
    assert record.failure_class == failure_class, record
    assert record.code
    assert record.detail
    assert record.policy == policy
    assert (record.attempts, record.timeout_ms) == (1, timeout_ms), record
    assert "reason" not in record.untrusted


def check_what_is_left(backend: Backend, case: FaultCase) -> None:
    """Nothing that a late word could still come through outlives a failed exchange.

    That is every process and connection but those that gave a whole, readable answer which was not
    to the point.
    """
    __tracebackhide__ = True
    if isinstance(backend, StdioBackend):
        if case.transport == "per_event" or case.failure_class not in READABLE:
            assert backend.wait_until_gone(), backend
    elif is_incomplete(case):
        assert backend.wait(lambda: backend.open_connections == 0), backend
        assert all(one.closed_by == "client" for one in backend.connection_log)


def is_incomplete(case: FaultCase) -> bool:
    """Whether an HTTP backend is still sending, or silent, when the client has enough of it."""
    too_much = ("huge", "huge_length", "huge_header", "huge_header_line", "gzip_bomb")
    return case.failure_class == "deadline_exceeded" or case.name in too_much


def check_that_it_recovers(client: Client, backend: Backend, case: FaultCase) -> None:
    """The same client gets the right answer of a backend that behaves again (F48).

    It may ask a few times: on a busy machine a process can need its whole ``timeoutMs`` to start.
    """
    __tracebackhide__ = True
    with repaired(backend, case.name):
        for _ in range(20):
            outcome = client.tool_before(name="tool", input={})
            if outcome.decision is Decision.PROCEED and not outcome.failed_open:
                break
        assert_proceeds(outcome)


@contextlib.contextmanager
def repaired(backend: Backend, fault: str) -> Iterator[None]:
    """Make a backend that could not even be reached behave; the others do by themselves."""
    if isinstance(backend, HttpBackend):
        if fault in LISTENER:
            backend.down()  # with the connections that fill the backlog
            backend.play("ok")
            backend.up()
        yield
        return
    # A process that was ended before it read the request has left the fault to the next one.
    (backend._ledger / "taken-000000").touch()
    if fault == "cwd_gone":
        Path(backend.transport()["cwd"]).mkdir()
        yield
    elif fault in LAUNCH:
        command = Path(backend.transport()["command"])
        with StdioBackend("ok") as good:
            if command.is_dir():
                shutil.rmtree(command)
            command.write_text(f"#!/bin/sh\nexec {shlex.join(good.argv)}\n")
            command.chmod(0o700)
            yield
            command.unlink()
    else:
        yield


def check_that_all_is_gone(backend: Backend) -> None:
    __tracebackhide__ = True
    if isinstance(backend, StdioBackend):
        assert backend.wait_until_gone(), backend
    elif backend.connections:
        assert backend.wait_closed(), backend


# --- retries ---------------------------------------------------------------------------------

#: Faults that may go away by themselves, which the default policy tries three times.
RETRYABLE = {
    "http": ("refused", "eof", "reset", "truncated", "status_503", "backend_unavailable"),
    "persistent": ("exit_mid", "eof", "backend_unavailable"),
    "per_event": ("exit_mid", "eof", "backend_unavailable"),
}
#: Faults that are an answer of a kind, and final.
FINAL = ("status_500", "status_401", "wrong_id", "bad_json", "unknown_effect", "rpc_error")


def cells(table: Mapping[str, Sequence[str]]) -> list[Any]:
    return [
        pytest.param(transport, name, id=f"{transport}-{name}")
        for transport, names in table.items()
        for name in names
    ]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("transport", "fault"), cells(RETRYABLE))
def test_a_fault_that_stays_is_one_failure_after_three_attempts(
    transport: str,
    fault: str,
    policy: str,
    start: Callable[..., Backend],
    ahp_client: Callable[..., Client],
    ahp_audit: AuditLog,
) -> None:
    """R-FAIL-01: the policy is applied once for all attempts, and so is the audit."""
    backend = start(transport, fault)
    client = ahp_client(backend.registration(timeout_ms=LONG, policy=policy))
    outcome = client.tool_before(name="tool", input={})
    expected = FAULTS[fault].expected[transport]
    check_decision(outcome, outcome.may_execute, policy, expected)
    (record,) = ahp_audit.records
    assert (record.attempts, record.failure_class) == (3, expected)
    assert workers_are_free(client)


@pytest.mark.parametrize(
    ("transport", "fault"), cells({**RETRYABLE, "http": RETRYABLE["http"][1:]})
)
def test_a_fault_that_goes_away_is_no_failure(
    transport: str,
    fault: str,
    start: Callable[..., Backend],
    ahp_client: Callable[..., Client],
    ahp_audit: AuditLog,
) -> None:
    """R-RETRY-01: the second attempt sends the same bytes, and its answer counts."""
    backend = start(transport, [fault, "deny"])
    client = ahp_client(backend.registration(timeout_ms=LONG, policy="fail-open"))
    assert_denied(client.tool_before(name="tool", input={}))
    (record,) = ahp_audit.records
    assert (record.kind.value, record.attempts) == ("explicit_denial", 2)
    first, second = backend.requests
    assert first.body == second.body


@pytest.mark.parametrize("fault", FINAL)
def test_a_final_fault_is_not_tried_again(
    fault: str,
    start: Callable[..., Backend],
    ahp_client: Callable[..., Client],
    ahp_audit: AuditLog,
) -> None:
    """A malformed answer, an authentication failure and the like come back as they are."""
    backend = start("http", [fault, "ok"])
    client = ahp_client(backend.registration(timeout_ms=LONG))
    assert_synthetic_denial(client.tool_before(name="tool", input={}))
    assert len(backend.requests) == ahp_audit.records[0].attempts == 1


def test_retries_stay_within_the_deadline(
    start: Callable[..., Backend], ahp_client: Callable[..., Client], ahp_audit: AuditLog
) -> None:
    """AHP-FAIL-002: a first attempt that eats the time leaves none for another."""
    backend = start("http", step("late", seconds=0.25, then="eof"))
    client = ahp_client(backend.registration(timeout_ms=SHORT))
    began = time.monotonic()
    assert_synthetic_denial(client.tool_before(name="tool", input={}))
    assert time.monotonic() - began <= SHORT / 1000 + SLACK
    assert len(backend.requests) <= 2
    assert len(ahp_audit) == 1


# --- good behaviour --------------------------------------------------------------------------

GOOD: dict[str, tuple[Union[str, Step], ...]] = {
    "http": ("ok", "neutral", "slow"),
    "persistent": (
        *("ok", "neutral", "slow", "slow_start", "floods_stderr", "grandchild", "wrapper"),
        "ignores_eof",
    ),
    "per_event": ("ok", "neutral", "slow", "slow_start", "floods_stderr", "grandchild"),
}
#: Backends that are healthy, but for a connection or process that ends between two calls.
DROPPED = {
    "http": ("close_after_answer", "close_on_reuse", "reset_on_reuse", "flaky"),
    "persistent": (step("answer_then_exit", then="ok"),),
}
DENIALS: dict[str, tuple[Union[str, Step], ...]] = {
    "http": ("deny", "padded", "many_effects", step("slow", then="deny")),
    "persistent": (
        *("deny", "padded", "many_effects", "answers_before_reading"),
        *(step("answer_then_exit", then="deny"), step("floods_stderr", then="deny")),
    ),
    "per_event": (
        *("deny", "padded", "many_effects", "answers_before_reading"),
        step("floods_stderr", then="deny"),
    ),
}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("transport", "script"), cells(GOOD))
def test_a_backend_with_nothing_against_it_lets_the_tool_run(
    transport: str,
    script: Union[str, Step],
    policy: str,
    start: Callable[..., Backend],
    ahp_client: Callable[..., Client],
    ahp_audit: AuditLog,
) -> None:
    """Whatever else it does: twice on one client, unflagged, and audited as accepted."""
    backend = start(transport, script)
    client = ahp_client(backend.registration(timeout_ms=LONG, policy=policy), retry=ONCE)
    runs: list[str] = []
    tool = client.guard(runs.append)
    tool("first")
    tool("second")
    assert runs == ["first", "second"]
    assert [(one.kind.value, one.failure_class) for one in ahp_audit] == [("accepted", None)] * 2
    assert workers_are_free(client)
    client.close()
    check_that_all_is_gone(backend)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("transport", "script"), cells(DROPPED))
def test_what_was_dropped_between_two_calls_is_made_up_for(
    transport: str,
    script: Union[str, Step],
    policy: str,
    start: Callable[..., Backend],
    ahp_client: Callable[..., Client],
    ahp_audit: AuditLog,
) -> None:
    """F22: with the default retries a healthy backend never looks ill."""
    backend = start(transport, script)
    client = ahp_client(backend.registration(timeout_ms=LONG, policy=policy))
    for _ in range(3):
        assert_proceeds(client.tool_before(name="tool", input={}))
    assert [one.kind.value for one in ahp_audit] == ["accepted"] * 3


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("transport", "script"), cells(DENIALS))
def test_an_explicit_denial_denies_under_both_policies(
    transport: str,
    script: Union[str, Step],
    policy: str,
    start: Callable[..., Backend],
    ahp_client: Callable[..., Client],
    ahp_audit: AuditLog,
) -> None:
    """R-FAIL-02: in the backend's own words, not synthetic, and not a failure."""
    backend = start(transport, script)
    client = ahp_client(backend.registration(timeout_ms=LONG, policy=policy), retry=ONCE)
    runs: list[str] = []
    with pytest.raises(ToolDenied) as denied:
        client.guard(runs.append)("never")
    assert_denied(denied.value.outcome, "denied by the scripted backend")
    assert not runs
    assert not denied.value.outcome.failures
    (record,) = ahp_audit.records
    assert (record.kind.value, record.synthetic) == ("explicit_denial", False)
    assert (record.failure_class, record.code) == (None, None)
    assert record.untrusted["reason"] == "denied by the scripted backend"
    assert workers_are_free(client)
