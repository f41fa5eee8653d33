"""Uses the public API as a typed host would. Checked by mypy, never run.

Each ``type: ignore`` is a mistake that the types must find: one that is not found is an error.
"""

from __future__ import annotations

from pathlib import Path
from typing import Optional

from ahp_sync import (
    GENERIC_REASON,
    AHPError,
    AuditKind,
    AuditRecord,
    AuditSink,
    Budget,
    Client,
    ClientClosed,
    Decision,
    Failure,
    FailureClass,
    FailurePolicy,
    Harness,
    InvalidEvent,
    JsonLinesSink,
    LoggingSink,
    Outcome,
    Registration,
    RegistrationError,
    RetryPolicy,
    TLSIdentity,
    ToolDenied,
    __version__,
)
from ahp_sync.testing import AuditLog, HttpBackend, assert_proceeds, step


class Sink:
    """An audit sink by its shape alone."""

    def write(self, record: AuditRecord) -> None:
        kind: AuditKind = record.kind
        failure_class: Optional[str] = record.failure_class
        print(kind.value, failure_class, record.to_json()["time"])


sink: AuditSink = Sink()
hooks = Client(
    Path("hooks.json"),
    source="urn:example:agent",
    harness=Harness("agent", "1.0"),
    retry=RetryPolicy(max_attempts=2, jitter=0),
    audit=[sink, LoggingSink(), JsonLinesSink("audit.jsonl")],
    tls={"com.example.one": TLSIdentity(ca_file="ca.pem")},
    proxies={"http": "http://proxy.example"},
)
Client(Registration.load({"protocolVersion": "draft", "hooks": []}), source="urn:x:y")  # type: ignore[call-arg]


@hooks.tool(name="Add")
def add(a: int, b: int = 2) -> int:
    """Add."""
    return a + b


total: int = add(1)
add("1")  # type: ignore[arg-type]
guarded = hooks.guard(len, seconds=1.5)
length: int = guarded("text")


def gate(command: str) -> str:
    """Ask before a command is run."""
    budget = Budget(5)
    try:
        outcome: Outcome = hooks.tool_before(
            name="Bash", input={"command": command}, session={"id": "s-1"}, budget=budget
        )
    except (InvalidEvent, ClientClosed) as error:
        return str(error)
    if not outcome.may_execute:
        return outcome.reason or GENERIC_REASON
    failures: tuple[Failure, ...] = outcome.failures
    for failure in failures:
        policy: Optional[FailurePolicy] = failure.policy
        if policy is FailurePolicy.FAIL_OPEN and failure.failure_class is FailureClass.SATURATED:
            return failure.code
    hooks.tool_after(name="Bash", input=outcome.input, call_id="c-1", output="done", budget=5)  # type: ignore[arg-type]
    return __version__


def run() -> Decision:
    """Hold a session."""
    with hooks as client:
        client.session_start(session="s-1")
        try:
            add(1, 2)
        except ToolDenied as denied:
            return denied.outcome.decision
        except RegistrationError as error:
            print(error.problems[0].path)
        except AHPError:
            raise
        return client.session_end(session="s-1", counters={"calls": 1}).decision


def own_test() -> None:
    """Test a harness, as the plugin's users do."""
    log = AuditLog()
    with HttpBackend(step("late", seconds=0.4)) as backend:
        client = Client(
            backend.registration(timeout_ms=300),
            source="urn:example:tests",
            harness=Harness("tests", "1"),
            audit=log,
        )
        assert_proceeds(client.dispatch("tool.before", {}))
