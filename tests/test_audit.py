"""Audit records and where they go."""

from __future__ import annotations

import dataclasses
import json
import logging
import re
import stat
import threading
from pathlib import Path
from typing import Any, Callable, Optional

import pytest
from answering import ALLOW, modify, note, says, stop
from inprocess import Backend, deny, fails, intercept, observe, ok, refused
from watching import launch

from ahp_sync import (
    AuditKind,
    AuditRecord,
    Capabilities,
    Client,
    JsonLinesSink,
    LoggingSink,
    Outcome,
)
from ahp_sync.audit import Auditor
from ahp_sync.testing import AuditLog, assert_proceeds

Clients = Callable[..., Client]

RECORD = AuditRecord(
    kind=AuditKind.SYNTHETIC_DENIAL,
    event_id="e-1",
    event_type="tool.before",
    backend="com.example.one",
    subscription=0,
    mode="intercept",
)
GOOD = (AuditKind.ACCEPTED, AuditKind.NOT_CALLED)


def ask(client: Client, **more: Any) -> Outcome:
    return client.tool_before(name="Bash", input={"command": "ls"}, **more)


def lines(path: Path) -> list[dict[str, Any]]:
    text = path.read_text(encoding="ascii")
    assert text == "" or text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


# --- records ----------------------------------------------------------------------------------


def test_a_record_does_not_change() -> None:
    """It is frozen."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        RECORD.synthetic = True  # type: ignore[misc]


def test_the_members_of_a_record_are_stable() -> None:
    """Names and order are what readers of the file rely on; every value is plain JSON."""
    assert list(RECORD.to_json()) == [
        *("kind", "event_id", "event_type", "backend", "subscription", "mode", "session", "call"),
        *("tool", "policy", "timeout_ms", "elapsed_ms", "attempts", "effects", "failure_class"),
        *("code", "detail", "http_status", "rpc_code", "exit_status", "synthetic", "untrusted"),
        "time",
    ]
    assert json.loads(json.dumps(RECORD.to_json())) == RECORD.to_json()
    assert type(RECORD.to_json()["kind"]) is str
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", RECORD.time)


def test_the_kinds_are_stable() -> None:
    """Explicit and synthetic denials have kinds of their own (AHP-FAIL-001, R-FAIL-04)."""
    assert [kind.value for kind in AuditKind] == [
        *("accepted", "explicit_denial", "synthetic_denial", "failed_open"),
        *("not_called", "interrupted", "expired", "host_denial", "observation_failed"),
    ]
    assert str(AuditKind.ACCEPTED) == "accepted"


def test_a_record_says_whose_it_is(open_client: Clients, records: AuditLog) -> None:
    """Event, session, call, tool, backend, subscription, policy and times, all in one place."""
    backend = Backend(fails(refused), intercept(policy="fail-open", timeout_ms=700))
    ask(open_client(backend), event_id="e-1", session="s-1", call_id="c-1")
    (record,) = records
    expected = {
        "kind": "failed_open",
        "event_id": "e-1",
        "event_type": "tool.before",
        "session": "s-1",
        "call": "c-1",
        "tool": "Bash",
        "backend": backend.id,
        "subscription": 0,
        "mode": "intercept",
        "policy": "fail-open",
        "timeout_ms": 700,
        "attempts": 1,
        "failure_class": "connection",
        "code": "connect_refused",
        "synthetic": False,
        "untrusted": {},
    }
    found = record.to_json()
    assert {name: found[name] for name in expected} == expected
    assert 0 <= found["elapsed_ms"] < 700


def test_a_record_names_the_effects_that_were_accepted(
    open_client: Clients, records: AuditLog
) -> None:
    """Their types, in the order in which they came; of a refused answer none is named."""
    good = Backend(says(note("x"), modify("input", "merge", {}), ALLOW, note("y")))
    bad = Backend(says(note("x"), {"type": "retry"}), id="com.example.two")
    ask(open_client(good, bad, capabilities=Capabilities.whole()))
    accepted, denied = records
    assert accepted.kind is AuditKind.ACCEPTED
    assert accepted.effects == ("message", "modify", "allow", "message")
    assert accepted.to_json()["effects"] == ["message", "modify", "allow", "message"]
    assert (denied.kind, denied.effects) == (AuditKind.SYNTHETIC_DENIAL, ())


@pytest.mark.parametrize(("count", "named"), [(256, 256), (257, 257), (5000, 257)])
def test_a_backend_does_not_decide_how_long_a_record_is(
    count: int, named: int, open_client: Clients, records: AuditLog
) -> None:
    """Beyond 256 effects the record says that there were more."""
    client = open_client(Backend(says(*[note("x")] * count)), capabilities=Capabilities.whole())
    assert len(ask(client).messages) == count
    (record,) = records
    assert len(record.effects) == named
    assert (record.effects[-1] == "… (cut)") is (count > 256)


def test_a_stop_has_the_backends_words_and_is_no_denial(
    open_client: Clients, records: AuditLog
) -> None:
    """They are untrusted, as those of a denial are."""
    ask(open_client(Backend(says(stop("three failures"))), capabilities=Capabilities.whole()))
    (record,) = records
    assert (record.kind, record.effects) == (AuditKind.ACCEPTED, ("flow",))
    assert dict(record.untrusted) == {"reason": "three failures"}


def test_a_refusal_of_the_host_is_the_hosts(
    open_client: Clients, records: AuditLog, caplog: pytest.LogCaptureFixture
) -> None:
    """No backend and no subscription stand there, in the record and in the log."""
    client = open_client(Backend(), audit=[records, LoggingSink()], authorize=lambda _: False)
    with caplog.at_level(logging.INFO, "ahp_sync.audit"):
        ask(client, event_id="e-1", session="s-1")
    record = records.records[-1]
    assert (record.kind, record.backend, record.subscription) == (AuditKind.HOST_DENIAL, None, None)
    assert (record.who, record.session, record.tool) == ("host", "s-1", "Bash")
    assert not record.synthetic
    assert caplog.records[-1].getMessage() == "host_denial host tool.before e-1"
    assert caplog.records[-1].levelno == logging.WARNING


def test_a_failure_that_is_told_has_a_record_of_its_own(
    open_client: Clients, records: AuditLog
) -> None:
    """Where it could not be told: under the id of the ``hook.failure`` event itself."""
    failing = Backend(fails(refused), intercept(policy="fail-open"))
    deaf = Backend(fails(refused), observe(["hook.failure"]), id="com.example.deaf")
    ask(open_client(failing, deaf), event_id="e-1", session="s-1")
    failed, untold = records
    assert (failed.event_type, failed.event_id) == ("tool.before", "e-1")
    assert (untold.event_type, untold.backend) == ("hook.failure", deaf.id)
    assert (untold.session, untold.tool, untold.call) == ("s-1", None, None)


def test_an_observers_record_has_no_policy(open_client: Clients, records: AuditLog) -> None:
    """Only the ones that were not told have a record at all."""
    good = Backend(ok, observe(), id="com.example.good")
    bad = Backend(fails(refused), observe(), id="com.example.bad")
    open_client(good, bad).session_end(session="s-1")
    (record,) = records
    assert (record.backend, record.mode, record.policy) == (bad.id, "observe", None)
    assert (record.timeout_ms, record.call, record.tool) == (None, None, None)


# --- the file ---------------------------------------------------------------------------------


def test_each_record_is_a_line(tmp_path: Path, open_client: Clients) -> None:
    """Appended to what is there; whatever a backend says, a line it stays."""
    path = tmp_path / "audit.jsonl"
    reason = "first\nsecond\r\u2028third\u00fc"
    for _ in range(2):
        with JsonLinesSink(path) as sink:
            ask(open_client(Backend(deny(reason)), audit=sink))
    assert len(path.read_text(encoding="ascii").splitlines()) == 2
    assert [record["untrusted"] for record in lines(path)] == [{"reason": reason}] * 2


def test_the_file_is_its_owners(tmp_path: Path) -> None:
    """Mode 0600: reasons and tool names are nobody else's business."""
    path = tmp_path / "audit.jsonl"
    with JsonLinesSink(str(path)) as sink:
        assert sink.path == str(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_path_that_can_not_be_opened_is_an_error(tmp_path: Path) -> None:
    """At once, not at the first record."""
    with pytest.raises(OSError, match=r"audit\.jsonl"):
        JsonLinesSink(tmp_path / "missing" / "audit.jsonl")


def test_a_closed_file_takes_no_record(tmp_path: Path) -> None:
    """Closing is safe to repeat."""
    sink = JsonLinesSink(tmp_path / "audit.jsonl")
    sink.close()
    sink.close()
    with pytest.raises(ValueError, match="the audit file is closed"):
        sink.write(RECORD)


APPENDER = """
sink, me = JsonLinesSink(sys.argv[1]), sys.argv[2]
def write(thread):
    for number in range(100):
        event = f"{me}-{thread}-{number}"
        sink.write(AuditRecord(kind=AuditKind.ACCEPTED, event_id=event, event_type="tool.before",
            backend="com.example.one", subscription=0, mode="intercept",
            untrusted={"reason": str(number) * 2000}))
threads = [threading.Thread(target=write, args=(n,)) for n in range(4)]
print("ready", flush=True)
while not os.path.exists(sys.argv[3]):
    time.sleep(0.001)
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""


def test_threads_and_processes_append_at_once(tmp_path: Path) -> None:
    """Three processes with four threads each: every line is whole, none is lost."""
    path, go = tmp_path / "audit.jsonl", tmp_path / "go"
    hosts = [launch(APPENDER, str(path), str(n), str(go)) for n in range(3)]
    for host in hosts:
        assert host.stdout is not None
        assert host.stdout.readline() == "ready\n"
    go.touch()
    for host in hosts:
        stdout, stderr = host.communicate(timeout=30)
        assert (host.returncode, stdout, stderr) == (0, "", "")
    found = lines(path)
    expected = {f"{p}-{t}-{n}" for p in range(3) for t in range(4) for n in range(100)}
    assert len(found) == len(expected)
    assert {record["event_id"] for record in found} == expected


# --- the logger -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", list(AuditKind), ids=str)
def test_levels_tell_trouble_from_routine(
    kind: AuditKind, caplog: pytest.LogCaptureFixture
) -> None:
    """INFO for what went well, WARNING for the rest; the record itself is ``audit``."""
    record = dataclasses.replace(RECORD, kind=kind)
    with caplog.at_level(logging.DEBUG, "ahp_sync.audit"):
        LoggingSink().write(record)
    (entry,) = caplog.records
    assert entry.name == "ahp_sync.audit"
    assert entry.levelno == (logging.INFO if kind in GOOD else logging.WARNING)
    assert entry.audit is record  # type: ignore[attr-defined]
    assert entry.getMessage() == f"{kind.value} com.example.one[0] tool.before e-1"


def test_the_message_holds_no_text_of_a_backend(
    open_client: Clients, caplog: pytest.LogCaptureFixture
) -> None:
    """A reason could forge lines of the log; the class of a failure could not."""
    forged = "no\nWARNING ahp_sync.audit accepted"
    failing = Backend(fails(refused(sample=forged)), intercept(), id="com.example.failing")
    with caplog.at_level(logging.INFO, "ahp_sync.audit"):
        ask(open_client(Backend(deny(forged)), audit=None))
        ask(open_client(failing, audit=None))
    denial, failure = caplog.records
    assert "\n" not in denial.getMessage() + failure.getMessage()
    assert denial.audit.untrusted == {"reason": forged}  # type: ignore[attr-defined]
    assert failure.getMessage().endswith(" connection/connect_refused")


def test_a_logging_sink_wants_what_is_enabled(caplog: pytest.LogCaptureFixture) -> None:
    """A record that nobody would see is not made; the logger's name may be the host's own."""
    sink = LoggingSink("host.audit")
    with caplog.at_level(logging.WARNING, "host.audit"):
        assert [kind for kind in AuditKind if not sink.wants(kind)] == list(GOOD)
        sink.write(dataclasses.replace(RECORD, kind=AuditKind.ACCEPTED))
        assert caplog.records == []
        sink.write(RECORD)
    assert [entry.name for entry in caplog.records] == ["host.audit"]


# --- several sinks ----------------------------------------------------------------------------


class Picky(AuditLog):
    """A sink that wants denials only."""

    def wants(self, kind: AuditKind) -> bool:
        return kind is AuditKind.EXPLICIT_DENIAL


class Broken:
    """A sink that raises at every record, or already when it is asked what it wants."""

    def __init__(self, error: Exception, *, at_wants: bool = False) -> None:
        self._error = error
        if at_wants:
            self.wants = self.write

    def write(self, record: object) -> bool:
        raise self._error


def test_every_sink_gets_what_it_wants(open_client: Clients, records: AuditLog) -> None:
    """One without ``wants`` gets everything."""
    picky = Picky()
    denier = Backend(deny(), id="com.example.denier")
    ask(open_client(Backend(), denier, audit=[picky, records]))
    assert [record.kind for record in picky] == [AuditKind.EXPLICIT_DENIAL]
    assert [record.kind.value for record in records] == ["accepted", "explicit_denial"]
    assert picky.records[0] is records.records[1]


def test_nothing_is_made_that_nobody_wants() -> None:
    """The auditor says so beforehand."""
    assert not Auditor((Picky(),)).wants(AuditKind.ACCEPTED)
    assert not Auditor(()).wants(AuditKind.EXPLICIT_DENIAL)
    assert Auditor((Picky(), AuditLog())).wants(AuditKind.ACCEPTED)


@pytest.mark.parametrize("at_wants", [False, True], ids=["write", "wants"])
@pytest.mark.parametrize("act", [ok, deny("no"), fails(refused)], ids=["ok", "deny", "failure"])
def test_a_failing_sink_changes_nothing(
    act: Any,
    at_wants: bool,
    open_client: Clients,
    records: AuditLog,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The outcome is the same, the others have their record, and the log has the error."""
    broken = Broken(OSError(28, "No space left on device"), at_wants=at_wants)
    plain = ask(open_client(Backend(act)))
    records.clear()
    outcome = ask(open_client(Backend(act), audit=[broken, records]))
    assert (outcome.decision, outcome.reason) == (plain.decision, plain.reason)
    assert len(records) == 1
    assert "an audit sink " in caplog.text
    assert "No space left on device" in caplog.text


def test_sinks_are_served_in_their_order(open_client: Clients) -> None:
    """Record by record, on the thread of the caller, before the call returns."""
    order: list[tuple[str, Optional[str], threading.Thread]] = []

    class Sink:
        def __init__(self, name: str) -> None:
            self._name = name

        def write(self, record: AuditRecord) -> None:
            order.append((self._name, record.backend, threading.current_thread()))

    second = Backend(ok, id="com.example.two")
    assert_proceeds(ask(open_client(Backend(), second, audit=(Sink("a"), Sink("b")))))
    here = threading.current_thread()
    assert order == [(s, b, here) for b in ("com.example.one", second.id) for s in ("a", "b")]


def test_without_sinks_nothing_is_written(
    open_client: Clients, capfd: pytest.CaptureFixture[str]
) -> None:
    """An empty list is none; and the default logger prints nothing of itself."""
    assert_proceeds(ask(open_client(Backend(), audit=[])))
    assert_proceeds(ask(open_client(Backend(), audit=None)))
    assert capfd.readouterr() == ("", "")
