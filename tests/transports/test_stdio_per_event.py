"""The per-event lifecycle of the stdio transport: one process, one message, one exit status."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Iterator, Optional

import pytest
from stdio_children import (
    GENEROUS,
    SLACK,
    Stage,
    decoded,
    eventually,
    failure_of,
    notification,
    python,
    request,
)

from ahp_sync.budget import Budget, BudgetEnded
from ahp_sync.failure import FailureClass
from ahp_sync.registration import Lifecycle
from ahp_sync.transports.base import RESPONSE_CAP
from ahp_sync.transports.stdio import StdioTransport


@pytest.fixture
def stage() -> Iterator[Stage]:
    stage = Stage()
    yield stage
    stage.dismantle()


@pytest.fixture(params=["pidfd", "no pidfd", "no waitid"])
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Systems with fewer and fewer ways to notice the exit of a process."""
    if request.param != "pidfd":
        monkeypatch.delattr(os, "pidfd_open", raising=False)
    if request.param == "no waitid":
        monkeypatch.delattr(os, "waitid", raising=False)


def per_event(stage: Stage, code: str) -> StdioTransport:
    return stage(python(code, lifecycle=Lifecycle.PER_EVENT))


def test_every_message_gets_a_process_with_a_closed_stdin(stage: Stage, system: None) -> None:
    """R-STD-05, D-12: a backend that reads to the end of its input is served."""
    code = "request = json.loads(sys.stdin.read()); answer(request, size=len(request['padding']))"
    transport = per_event(stage, code)
    replies = [
        decoded(transport.exchange(request("same", padding=size), Budget(GENEROUS)))
        for size in (0, 10, 3_000_000)
    ]
    assert [reply["size"] for reply in replies] == [0, 10, 3_000_000]
    assert len({reply["pid"] for reply in replies}) == 3


BODIES = {
    "answer": "answer(request)",
    "nothing": "pass",
    "two lines": "answer(request); answer(request)",
    "no newline": "sys.stdout.write('{}'); sys.stdout.flush()",
}
EXITS = {0: "os._exit(0)", 1: "os._exit(1)", 2: "os._exit(2)", 127: "os._exit(127)"}
EXITS[-9] = "os.kill(os.getpid(), 9)"


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("status", EXITS)
def test_only_status_0_with_one_whole_line_is_an_answer(
    stage: Stage, status: int, body: str
) -> None:
    """F08: every other cell is a failure, whatever the body says, and tells both facts."""
    transport = per_event(stage, f"request = read(); {BODIES[body]}; {EXITS[status]}")
    if status == 0 and body == "answer":
        reply = transport.exchange(request(), Budget(GENEROUS))
        assert decoded(reply)["id"] == "ev-1"
        assert reply is not None
        assert reply.facts == {"exit_status": 0}
        return
    failure = failure_of(lambda: transport.exchange(request(), Budget(GENEROUS)))
    if status != 0:
        assert (failure.failure_class, failure.code) == (FailureClass.PROCESS, "exit_status")
        assert failure.exit_status == status
        assert failure.retryable == (body == "nothing")
        assert (failure.sample is None) == (body == "nothing")
    else:
        assert (failure.failure_class, failure.code, failure.retryable) == {
            "nothing": (FailureClass.CONNECTION, "no_answer", True),
            "two lines": (FailureClass.MALFORMED, "trailing_junk", False),
            "no newline": (FailureClass.MALFORMED, "no_newline", False),
        }[body]


def test_stderr_comes_with_the_answer_and_with_the_failure(stage: Stage) -> None:
    """F01, F34: what a hook complains about is kept for the audit."""
    code = "request = read(); print('careful', file=sys.stderr); answer(request); sys.exit({})"
    reply = per_event(stage, code.format(0)).exchange(request(), Budget(GENEROUS))
    assert reply is not None
    assert reply.stderr == "careful\n"
    transport = per_event(stage, code.format(1))
    failure = failure_of(lambda: transport.exchange(request(), Budget(GENEROUS)))
    assert failure.stderr == "careful\n"


@pytest.mark.parametrize("code", ["answer(read()); time.sleep(60)", "time.sleep(60)"])
def test_a_process_that_still_runs_at_the_deadline_has_not_answered(
    stage: Stage, code: str
) -> None:
    """Section 18: the exit status belongs to the answer."""
    transport = per_event(stage, code)
    began = time.monotonic()
    with pytest.raises(BudgetEnded):
        transport.exchange(request(padding=1_000_000), Budget(0.3))
    assert time.monotonic() - began < 0.3 + SLACK
    eventually(lambda: not stage.pids())


def test_a_grandchild_with_the_pipes_delays_nothing(stage: Stage, system: None) -> None:
    """F03: the answer counts once the hook itself has exited; then its group is ended."""
    transport = per_event(stage, "answer(read()); grandchild(); os._exit(0)")
    began = time.monotonic()
    assert decoded(transport.exchange(request(), Budget(GENEROUS)))["id"] == "ev-1"
    assert time.monotonic() - began < GENEROUS / 2
    eventually(lambda: not stage.pids(), 1.0 + SLACK)


def test_a_grandchild_that_talks_on_is_not_listened_to(stage: Stage) -> None:
    """Its output belongs to nobody; without an end, it must not hold up the verdict."""
    code = """
request = read()
subprocess.Popen(["sh", "-c", "sleep 0.2; yes"])
answer(request)
os._exit(0)
"""
    transport = per_event(stage, code)
    assert decoded(transport.exchange(request(), Budget(GENEROUS)))["id"] == "ev-1"


def test_input_that_is_not_read_does_not_matter(stage: Stage) -> None:
    """What counts is the answer: a hook that knows enough may leave the rest."""
    transport = per_event(stage, "os.close(0); answer({'id': 'ev-1'})")
    reply = transport.exchange(request(padding=1_000_000), Budget(GENEROUS))
    assert decoded(reply)["id"] == "ev-1"


def test_an_endless_answer_is_malformed(stage: Stage) -> None:
    """F36: with newlines or without, it ends at the cap."""
    for text in ("x" * 65536, "x\\n" * 32768):
        transport = per_event(stage, f"read()\nwhile True: sys.stdout.write('{text}')")
        failure = failure_of(lambda t=transport: t.exchange(request(), Budget(GENEROUS)))  # type: ignore[misc]
        assert (failure.failure_class, failure.code) == (FailureClass.MALFORMED, "too_large")
        eventually(lambda: not stage.pids())


def test_an_answer_just_under_the_cap_is_accepted(stage: Stage) -> None:
    """F36: honest large answers work."""
    transport = per_event(stage, f"read(); say('x' * {RESPONSE_CAP})")
    reply = transport.exchange(request(), Budget(GENEROUS))
    assert reply is not None
    assert len(reply.body) == RESPONSE_CAP


def test_a_lot_in_and_out_does_not_deadlock(stage: Stage) -> None:
    """F33, F34: all three pipes are served side by side."""
    code = """
sys.stderr.write("noise" * 1_000_000); sys.stderr.flush()
sys.stdout.write(" " * 1_000_000); sys.stdout.flush()
answer(json.loads(sys.stdin.read()))
"""
    reply = per_event(stage, code).exchange(request(padding=8_000_000), Budget(GENEROUS))
    assert decoded(reply)["id"] == "ev-1"
    assert reply is not None
    assert (reply.stderr or "").startswith("[cut]")


# Notifications


@pytest.mark.parametrize("status", [0, 3])
def test_the_status_of_an_observer_is_diagnostic(
    stage: Stage, tmp_path: Path, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    """R-STD-06: it is logged, and its output is dropped, of whatever size."""
    caplog.set_level("INFO", "ahp_sync")
    note = tmp_path / "note"
    code = f"""
name = json.loads(sys.stdin.read())["name"]
sys.stdout.write("x" * 9_000_000)
sys.stdout.flush()
open({str(note)!r}, "w").write(name)
os._exit({status})
"""
    assert per_event(stage, code).exchange(notification(name="n"), Budget(GENEROUS)) is None
    assert note.read_text() == "n"
    assert ("status 3" in caplog.text) == (status == 3)


def test_an_observer_is_waited_for_within_the_budget_only(stage: Stage) -> None:
    """R-STD-06, D-12: then its process is ended."""
    transport = per_event(stage, "time.sleep(60)")
    began = time.monotonic()
    with pytest.raises(BudgetEnded):
        transport.exchange(notification(), Budget(0.3))
    assert time.monotonic() - began < 0.3 + SLACK
    eventually(lambda: not stage.pids())


# Who else reaps


def unknown_status(stage: Stage) -> Optional[int]:
    transport = per_event(stage, "answer(read()); os._exit(0)")
    failure = failure_of(lambda: transport.exchange(request(), Budget(GENEROUS)))
    assert (failure.failure_class, failure.code) == (FailureClass.PROCESS, "exit_status")
    assert "unknown" in failure.detail
    return failure.exit_status


def test_a_host_that_ignores_sigchld_gets_failures(stage: Stage, system: None) -> None:
    """The kernel throws the statuses away, and subprocess would make 0 of that."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert unknown_status(stage) is None
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_a_host_that_reaps_everything_gets_failures(stage: Stage) -> None:
    """A status that somebody else took is no status 0."""

    def reap(*_: object) -> None:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass

    before = signal.signal(signal.SIGCHLD, reap)
    try:
        for _ in range(10):
            transport = per_event(stage, "answer(read()); os._exit(7)")
            failure = failure_of(lambda t=transport: t.exchange(request(), Budget(GENEROUS)))  # type: ignore[misc]
            assert failure.failure_class is FailureClass.PROCESS
            assert failure.exit_status in (None, 7)
    finally:
        signal.signal(signal.SIGCHLD, before)
