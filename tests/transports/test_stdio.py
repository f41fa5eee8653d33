"""The persistent stdio transport against real processes."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Callable, Iterator, Optional

import pytest
from stdio_children import (
    ECHO,
    GENEROUS,
    LINUX,
    SLACK,
    Stage,
    decoded,
    eventually,
    failure_of,
    is_alive,
    notification,
    python,
    request,
)

from ahp_sync.budget import Budget, BudgetEnded
from ahp_sync.failure import FailureClass
from ahp_sync.registration import Lifecycle, StdioCommand
from ahp_sync.transports.base import RESPONSE_CAP, Message
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


def ends_in_time(transport: StdioTransport, message: Message, seconds: float) -> None:
    """Assert that the exchange ends with its budget, not later, and without an answer."""
    began = time.monotonic()
    with pytest.raises(BudgetEnded):
        transport.exchange(message, Budget(seconds))
    assert seconds - 0.01 <= time.monotonic() - began < seconds + SLACK


# Answers


def test_the_answer_is_the_line_without_its_newline(stage: Stage) -> None:
    """R-STD-01: one line out, one line in."""
    transport = stage(python("request = read(); say('[1,  2]')"))
    reply = transport.exchange(request(), Budget(GENEROUS))
    assert reply is not None
    assert reply.body == b"[1,  2]"
    assert reply.stderr is None


def test_one_process_serves_one_caller_for_ever(stage: Stage) -> None:
    """A backend that keeps state sees all events in one process."""
    transport = stage(python(ECHO), processes=4)
    replies = [
        decoded(transport.exchange(request(f"ev-{number}"), Budget(GENEROUS)))
        for number in range(50)
    ]
    assert [reply["id"] for reply in replies] == [f"ev-{number}" for number in range(50)]
    assert len({reply["pid"] for reply in replies}) == 1


def test_a_notification_is_written_and_not_waited_for(stage: Stage) -> None:
    """A notification has no answer, and comes before the next request."""
    transport = stage(python("note = read(); answer(read(), seen=note['name'])"))
    assert transport.exchange(notification(name="after"), Budget(GENEROUS)) is None
    assert decoded(transport.exchange(request(), Budget(GENEROUS)))["seen"] == "after"


def test_a_large_notification_is_written_whole(stage: Stage) -> None:
    """What does not fit into the pipe at once is written as the process reads."""
    transport = stage(python("note = read(); answer(read(), size=len(note['padding']))"))
    assert transport.exchange(notification(padding=3_000_000), Budget(GENEROUS)) is None
    assert decoded(transport.exchange(request(), Budget(GENEROUS)))["size"] == 3_000_000


def test_an_answer_just_under_the_cap_is_accepted(stage: Stage) -> None:
    """F36: honest large answers work."""
    transport = stage(python(f"read(); say('x' * {RESPONSE_CAP}); {ECHO}"))
    reply = transport.exchange(request(), Budget(GENEROUS))
    assert reply is not None
    assert len(reply.body) == RESPONSE_CAP
    assert decoded(transport.exchange(request("ev-2"), Budget(GENEROUS)))["id"] == "ev-2"


def test_a_message_with_a_newline_is_refused(stage: Stage) -> None:
    """It would be two messages to the backend."""
    transport = stage(python(ECHO))
    with pytest.raises(ValueError, match="newline"):
        transport.exchange(Message(b'{\n"id": "a"}', "a"), Budget(GENEROUS))


# Launch

PLAIN = ("PATH", "USER", "LOGNAME", "SHELL", "TZ", "TMPDIR", "TEMP", "TMP")


def test_the_environment_is_an_allow_list_and_what_is_explicit(stage: Stage) -> None:
    """R-ENV-01, F27: no secret of the host reaches a process; explicit values win, literally."""
    host = {
        **{name: name for name in (*PLAIN, "HOME")},
        "LANG": "C.UTF-8",
        "LC_TIME": "C",
        "OPENAI_API_KEY": "secret",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "LD_PRELOAD": "",
        "PYTHONPATH": "",
    }
    explicit = (("HOME", "$USER"), ("AHP_TOKEN", "mine"))
    code = "answer(read(), env=dict(os.environ))"
    transport = stage(python(code, env=explicit), environ=host)
    seen = decoded(transport.exchange(request(), Budget(GENEROUS)))["env"]
    seen = {
        name: value for name, value in seen.items() if name not in ("AHP_SYNC_TEST", "LC_CTYPE")
    }
    expected = {**{name: name for name in PLAIN}, "LANG": "C.UTF-8", "LC_TIME": "C"}
    assert seen == {**expected, **dict(explicit)}


def test_the_command_runs_without_a_shell_in_its_directory(stage: Stage, tmp_path: Path) -> None:
    """R-STD-02: arguments arrive as they are, in the registered directory."""
    script = tmp_path / "hook"
    script.write_text(
        f"#!{sys.executable}\nimport json, os, sys\nsys.stdin.readline()\n"
        "print(json.dumps([sys.argv[1:], os.getcwd()]), flush=True)\n"
    )
    script.chmod(0o755)
    arguments = ("$HOME", "a b", "; exit 1", "*")
    transport = stage(StdioCommand("./hook", arguments, Lifecycle.PERSISTENT, str(tmp_path), ()))
    seen = decoded(transport.exchange(request(), Budget(GENEROUS)))
    assert seen == [list(arguments), str(tmp_path.resolve())]


def test_a_process_leads_a_session_of_its_own(stage: Stage) -> None:
    """Ctrl-C in the host's terminal does not hit the backend, and its group can be ended."""
    code = "answer(read(), session=os.getsid(0), group=os.getpgrp())"
    transport = stage(python(code))
    seen = decoded(transport.exchange(request(), Budget(GENEROUS)))
    assert seen["session"] == seen["group"] == seen["pid"]


def missing(directory: Path) -> StdioCommand:
    return _command(directory / "missing-hook")


def not_executable(directory: Path) -> StdioCommand:
    return _command(_file(directory, "#!/bin/sh\n", 0o644))


def a_directory(directory: Path) -> StdioCommand:
    return _command(directory)


def bad_interpreter(directory: Path) -> StdioCommand:
    return _command(_file(directory, "#!/no/such/interpreter\n"))


def neither_script_nor_program(directory: Path) -> StdioCommand:
    return _command(_file(directory, "some text\n"))


def directory_gone(directory: Path) -> StdioCommand:
    return _command(_file(directory, "#!/bin/sh\n"), cwd=str(directory / "gone"))


def directory_is_a_file(directory: Path) -> StdioCommand:
    good = _file(directory, "#!/bin/sh\n")
    return _command(good, cwd=str(good))


def nul_in_an_argument(directory: Path) -> StdioCommand:
    return _command(_file(directory, "#!/bin/sh\n"), args=("a\0b",))


def _file(directory: Path, content: str, mode: int = 0o755) -> Path:
    path = directory / "hook"
    path.write_text(content)
    path.chmod(mode)
    return path


def _command(path: Path, args: tuple[str, ...] = (), cwd: Optional[str] = None) -> StdioCommand:
    return StdioCommand(str(path), args, Lifecycle.PERSISTENT, cwd, ())


UNSTARTABLE = [
    (missing, "ENOENT"),
    (not_executable, "EACCES"),
    (a_directory, "EACCES"),
    (bad_interpreter, "ENOENT"),
    (neither_script_nor_program, "ENOEXEC"),
    (directory_gone, "working directory: ENOENT"),
    (directory_is_a_file, "working directory: ENOTDIR"),
    (nul_in_an_argument, "ValueError"),
]


@pytest.mark.parametrize("lifecycle", list(Lifecycle))
@pytest.mark.parametrize(("make", "cause"), UNSTARTABLE)
def test_what_can_not_be_started_is_a_process_failure(
    stage: Stage,
    tmp_path: Path,
    make: Callable[[Path], StdioCommand],
    cause: str,
    lifecycle: Lifecycle,
) -> None:
    """F11: one class and code for every reason; names, but no paths; no descriptor is left."""
    transport = stage(dataclasses.replace(make(tmp_path), lifecycle=lifecycle))
    for _ in range(3):
        failure = failure_of(lambda: transport.exchange(request(), Budget(GENEROUS)))
        assert failure.failure_class is FailureClass.PROCESS
        assert failure.code == "launch_failed"
        assert not failure.retryable
        assert failure.detail.endswith(cause)
        assert str(tmp_path.parent) not in failure.detail


def test_a_program_that_hangs_at_its_start_costs_no_caller_more_than_its_budget(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program on a dead network drive blocks exec itself; only its own thread waits for it."""
    import subprocess

    released = threading.Event()
    real = subprocess.Popen

    def hanging(*args: object, **options: object) -> object:
        released.wait(GENEROUS)
        return real(*args, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(subprocess, "Popen", hanging)
    transport = stage(python(ECHO))
    ends_in_time(transport, request(), 0.2)
    began = time.monotonic()
    transport.close(Budget(0.2))
    assert time.monotonic() - began < 0.2 + SLACK
    released.set()


# Deadlines


def test_an_unanswered_request_ends_in_time_and_its_process_is_replaced(stage: Stage) -> None:
    """R-STD-04, F48: the next call gets a real answer of a new process."""
    code = "while True:\n request = read()\n if request['id'] != 'lost': answer(request)"
    transport = stage(python(code))
    first = decoded(transport.exchange(request("ev-1"), Budget(GENEROUS)))["pid"]
    ends_in_time(transport, request("lost"), 0.3)
    second = decoded(transport.exchange(request("ev-2"), Budget(GENEROUS)))["pid"]
    assert first != second
    eventually(lambda: not is_alive(first))


def test_a_late_answer_never_reaches_the_next_request(stage: Stage, tmp_path: Path) -> None:
    """T-02: a retry of the same id goes down another process, and only that one is heard."""
    code = f"""
is_first = not os.path.exists({str(tmp_path / "first")!r})
open({str(tmp_path / "first")!r}, "w").close()
while True:
    request = read()
    if is_first: time.sleep(0.3)
    answer(request, late=is_first)
"""
    transport = stage(python(code))
    ends_in_time(transport, request("same"), 0.2)
    reply = decoded(transport.exchange(request("same"), Budget(GENEROUS)))
    assert (reply["id"], reply["late"]) == ("same", False)


def test_sigterm_may_be_ignored(stage: Stage, system: None) -> None:
    """F28: the grace is not the caller's; SIGKILL follows it."""
    code = "signal.signal(signal.SIGTERM, signal.SIG_IGN); answer(read()); read(); time.sleep(60)"
    transport = stage(python(code))
    pid = decoded(transport.exchange(request("ev-1"), Budget(GENEROUS)))["pid"]
    ends_in_time(transport, request("ev-2"), 0.3)
    eventually(lambda: not is_alive(pid), 0.2 + 0.5 + SLACK)


def test_a_process_that_heeds_sigterm_can_tidy_up(stage: Stage, tmp_path: Path) -> None:
    """SIGKILL waits for the grace."""
    note = tmp_path / "note"
    code = f"""
def tidy(*_):
    time.sleep(0.05)
    open({str(note)!r}, "w").close()
    os._exit(0)
signal.signal(signal.SIGTERM, tidy)
answer(read())
time.sleep(60)
"""
    transport = stage(python(code))
    transport.exchange(request(), Budget(GENEROUS))
    transport.close(Budget(GENEROUS))
    assert note.exists()


@pytest.mark.parametrize("redirected", [False, True])
def test_grandchildren_go_as_well(stage: Stage, system: None, redirected: bool) -> None:
    """F03: a grandchild with our pipes delays nobody, and the whole group is ended."""
    quiet = ", stdout=-3, stderr=-3, stdin=-3" if redirected else ""
    code = f"subprocess.Popen(['sleep', '60']{quiet}); answer(read()); read(); time.sleep(60)"
    transport = stage(python(code))
    transport.exchange(request("ev-1"), Budget(GENEROUS))
    ends_in_time(transport, request("ev-2"), 0.3)
    eventually(lambda: not stage.pids(), 1.0 + SLACK)


def test_the_write_is_bounded_by_the_budget(stage: Stage) -> None:
    """F33: 8 MB for a process that never reads."""
    transport = stage(python("time.sleep(60)"))
    ends_in_time(transport, request(padding=8_000_000), 0.5)
    eventually(lambda: not stage.pids())


def test_a_half_written_notification_retires_the_process(stage: Stage) -> None:
    """The rest of it would be missing, and everything after it unreadable."""
    transport = stage(python("time.sleep(60)"))
    ends_in_time(transport, notification(padding=1_000_000), 0.3)
    eventually(lambda: not stage.pids())


@pytest.mark.parametrize("end", [Budget.cancel, Budget.abort])
def test_the_end_of_the_budget_wakes_the_caller(stage: Stage, end: object) -> None:
    """An abort from outside brings the exchange home at once."""
    transport = stage(python("read(); open(0).read()"))
    budget = Budget(GENEROUS)
    threading.Timer(0.2, end, [budget]).start()  # type: ignore[arg-type]
    began = time.monotonic()
    with pytest.raises(BudgetEnded):
        transport.exchange(request(), budget)
    assert time.monotonic() - began < 0.2 + SLACK


def test_nothing_begins_for_a_budget_that_has_ended(stage: Stage) -> None:
    """No process is started, and a good one is not spoiled."""
    transport = stage(python(ECHO))
    over = Budget(GENEROUS)
    over.cancel()
    with pytest.raises(BudgetEnded):
        transport.exchange(request("ev-0"), over)
    first = decoded(transport.exchange(request("ev-1"), Budget(GENEROUS)))["pid"]
    with pytest.raises(BudgetEnded):
        transport.exchange(request("ev-2"), over)
    assert decoded(transport.exchange(request("ev-3"), Budget(GENEROUS)))["pid"] == first


# Exits


@pytest.mark.parametrize(
    ("how", "status"), [("os._exit(0)", 0), ("os._exit(3)", 3), ("os.kill(os.getpid(), 9)", -9)]
)
@pytest.mark.parametrize("leaves", ["", "grandchild(); "])
def test_an_exit_before_the_answer_is_a_failure(
    stage: Stage, system: None, how: str, status: int, leaves: str
) -> None:
    """F01, F03: whatever the status, and at once even if a grandchild holds the pipes.

    Section 18: an abnormal exit is the process's failure; a regular one only loses the connection.
    """
    transport = stage(python(f"read(); {leaves}print('why', file=sys.stderr, flush=True); {how}"))
    began = time.monotonic()
    failure = failure_of(lambda: transport.exchange(request(), Budget(GENEROUS)))
    assert time.monotonic() - began < GENEROUS / 2
    expected = FailureClass.PROCESS if status else FailureClass.CONNECTION
    assert (failure.failure_class, failure.code) == (expected, "exited")
    assert failure.retryable
    assert failure.exit_status == status
    assert failure.stderr == "why\n"


def test_a_process_that_exits_at_its_start_tells_why(stage: Stage) -> None:
    """F01: the traceback of a broken hook is kept, bounded, for the audit."""
    transport = stage(python("raise RuntimeError('no policy file')"))
    failure = failure_of(lambda: transport.exchange(request(), Budget(GENEROUS)))
    assert failure.failure_class is FailureClass.PROCESS
    assert failure.exit_status == 1
    assert "no policy file" in (failure.stderr or "")
    assert "no policy file" not in str(failure)


def test_an_answer_of_a_dying_process_counts(stage: Stage, system: None) -> None:
    """What it wrote before it exited is read."""
    transport = stage(python("answer(read()); os._exit(1)"))
    for number in range(5):
        rpc_id = f"ev-{number}"
        assert decoded(transport.exchange(request(rpc_id), Budget(GENEROUS)))["id"] == rpc_id
        eventually(lambda: "0 processes" in repr(transport))


@pytest.mark.skipif(not LINUX, reason="only there a pipe can be made larger")
@pytest.mark.parametrize("lifecycle", list(Lifecycle))
def test_all_of_a_large_answer_of_a_dying_process_counts(
    stage: Stage, lifecycle: Lifecycle
) -> None:
    """What waits in the pipe at the exit is read to its end, grandchild or not."""
    code = """
import fcntl
request = read()
fcntl.fcntl(1, 1031, 1 << 20)
grandchild()
answer(request, text="x" * 900_000)
os._exit(0)
"""
    transport = stage(python(code, lifecycle=lifecycle))
    reply = decoded(transport.exchange(request(), Budget(GENEROUS)))
    assert len(reply["text"]) == 900_000


def test_a_process_that_died_meanwhile_is_replaced(stage: Stage) -> None:
    """An exit between two calls is noticed between them."""
    transport = stage(python(ECHO))
    first = decoded(transport.exchange(request("ev-1"), Budget(GENEROUS)))["pid"]
    os.kill(first, signal.SIGKILL)
    eventually(lambda: "0 idle" in repr(transport))
    assert decoded(transport.exchange(request("ev-2"), Budget(GENEROUS)))["pid"] != first


def test_closing_stdout_is_a_lost_connection(stage: Stage) -> None:
    """A process that can't answer any more is not waited for."""
    transport = stage(python("read(); sys.stdout.close(); os.close(1); time.sleep(60)"))
    failure = failure_of(lambda: transport.exchange(request(), Budget(GENEROUS)))
    assert (failure.failure_class, failure.code) == (FailureClass.CONNECTION, "stdout_closed")
    assert failure.retryable


def test_closing_stdin_is_a_lost_connection(stage: Stage) -> None:
    """A process that can't be asked any more is not waited for."""
    transport = stage(python("os.close(0); time.sleep(60)"))
    failure = failure_of(lambda: transport.exchange(request(padding=1_000_000), Budget(GENEROUS)))
    assert (failure.failure_class, failure.code) == (FailureClass.CONNECTION, "broken_pipe")
    assert failure.retryable


def test_an_unknown_exit_status_is_not_zero(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that reaps every child itself leaves us without a status; subprocess would say 0."""

    def reaped(*_: object) -> None:
        raise ChildProcessError

    transport = stage(python("answer(read()); read(); os._exit(0)"))
    transport.exchange(request("ev-1"), Budget(GENEROUS))
    with monkeypatch.context() as patched:
        patched.setattr(os, "waitid", reaped)
        failure = failure_of(lambda: transport.exchange(request("ev-2"), Budget(GENEROUS)))
    assert (failure.failure_class, failure.code) == (FailureClass.PROCESS, "exited")
    assert failure.exit_status is None
    assert "unknown" in failure.detail


# Floods and noise


def test_a_flood_of_stderr_blocks_nothing(stage: Stage) -> None:
    """F34: 10 MB of it before the answer; the last 64 KiB are kept and marked as cut."""
    code = "request = read(); sys.stderr.write('noise\\n' * 1_700_000); sys.stderr.write('END'); "
    transport = stage(python(code + "sys.stderr.flush(); answer(request); " + ECHO))
    reply = transport.exchange(request(), Budget(GENEROUS))
    assert reply is not None
    assert reply.stderr is not None
    assert reply.stderr.startswith("[cut]")
    assert reply.stderr.endswith("END")
    assert len(reply.stderr) < (1 << 16) + 16
    again = transport.exchange(request("ev-2"), Budget(GENEROUS))
    assert again is not None
    assert again.stderr is None


def test_an_endless_line_is_malformed_and_not_kept(stage: Stage) -> None:
    """F36: it fails well before the deadline, and the process is ended."""
    transport = stage(python("read()\nwhile True: sys.stdout.write('x' * 65536)"))
    began = time.monotonic()
    failure = failure_of(lambda: transport.exchange(request(), Budget(GENEROUS)))
    assert time.monotonic() - began < GENEROUS / 2
    assert (failure.failure_class, failure.code) == (FailureClass.MALFORMED, "too_large")
    assert not failure.retryable
    assert failure.sample is not None
    assert len(failure.sample) < 3000
    eventually(lambda: not stage.pids())


def test_output_before_the_input_is_read_does_not_deadlock(stage: Stage) -> None:
    """F33: 8 MB in, while 1 MB comes out that is part of the one answer line."""
    code = "sys.stdout.write(' ' * 1_000_000); sys.stdout.flush(); answer(read()); " + ECHO
    transport = stage(python(code))
    reply = transport.exchange(request(padding=8_000_000), Budget(GENEROUS))
    assert decoded(reply)["id"] == "ev-1"
    assert decoded(transport.exchange(request("ev-2"), Budget(GENEROUS)))["id"] == "ev-2"


def test_noise_before_the_input_is_read_is_the_answer_that_fails(stage: Stage) -> None:
    """F31, F33, D-17: the first line is the answer, and nobody waits for a better one."""
    code = "sys.stdout.write('noise\\n' * 200_000); sys.stdout.flush(); answer(read())"
    transport = stage(python(code))
    reply = transport.exchange(request(padding=8_000_000), Budget(GENEROUS))
    assert reply is not None
    assert reply.body == b"noise"
    # The rest of the request can't follow, so nothing may come after it.
    eventually(lambda: not stage.pids())


def test_a_rejected_answer_retires_its_process(stage: Stage) -> None:
    """D-17: after a banner the stream is not trusted any more."""
    transport = stage(python("read(); say('shell ready'); " + ECHO))
    reply = transport.exchange(request("ev-1"), Budget(GENEROUS))
    assert reply is not None
    assert reply.body == b"shell ready"
    assert reply.on_rejected is not None
    (pid,) = stage.pids()
    reply.on_rejected()
    reply.on_rejected()
    assert "0 idle" in repr(transport)
    eventually(lambda: not is_alive(pid))


def test_an_answer_given_twice_retires_the_process(stage: Stage) -> None:
    """T-01, R-STD-07: the second one must not meet a later request."""
    code = "while True:\n request = read()\n answer(request)\n answer(request)"
    transport = stage(python(code))
    seen = set()
    for number in range(5):
        reply = decoded(transport.exchange(request(f"ev-{number}"), Budget(GENEROUS)))
        assert reply["id"] == f"ev-{number}"
        seen.add(reply["pid"])
        eventually(lambda: "0 idle" in repr(transport))
    assert len(seen) == 5


def test_other_noise_between_requests_is_dropped(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    """R-STD-07: it is logged by size only, and the process goes on."""
    code = """
while True:
    answer(read())
    for noise in ("hello secret", "{}", '{"id": 7}', '{"id": "other"}'): say(noise)
    for noise in ('{"id":' + "[" * 200_000, '{"id":' + "9" * 99_999): say(noise)
"""
    transport = stage(python(code))
    caplog.set_level("INFO", "ahp_sync")
    first = decoded(transport.exchange(request("ev-1"), Budget(GENEROUS)))["pid"]
    noise = len("hello secret") + 2 + 9 + 15 + (6 + 200_000) + (6 + 99_999) + 6 * len("\n")
    sizes = re.compile(r"discarded (\d+) bytes")
    eventually(lambda: sum(map(int, sizes.findall(caplog.text))) == noise)
    assert decoded(transport.exchange(request("ev-2"), Budget(GENEROUS)))["pid"] == first
    assert "secret" not in caplog.text


def test_endless_noise_between_requests_retires_the_process(stage: Stage) -> None:
    """A process that talks without end would keep its thread busy for ever."""
    transport = stage(python("answer(read())\nwhile True: say('noise' * 1000)"))
    transport.exchange(request(), Budget(GENEROUS))
    eventually(lambda: not stage.pids())


def test_an_answer_before_the_whole_request_retires_the_process(stage: Stage) -> None:
    """It is handed up, but half a request in the pipe would spoil the next one."""
    transport = stage(python('sys.stdin.read(100); say(\'{"id": "ev-1"}\'); time.sleep(60)'))
    reply = transport.exchange(request(padding=1_000_000), Budget(GENEROUS))
    assert decoded(reply) == {"id": "ev-1"}
    eventually(lambda: not stage.pids())


def test_a_line_may_come_in_pieces(stage: Stage) -> None:
    """The answer is complete at its newline, however it drips in."""
    code = """
for byte in json.dumps({"id": read()["id"]}) + "\\n":
    sys.stdout.write(byte); sys.stdout.flush(); time.sleep(0.01)
"""
    transport = stage(python(code))
    assert decoded(transport.exchange(request(), Budget(GENEROUS))) == {"id": "ev-1"}


def test_the_transport_shows_its_state(stage: Stage) -> None:
    """A repr for debugging, without arguments or environment."""
    transport = stage(python(ECHO, env=(("KEY", "canary"),)))
    transport.exchange(request(), Budget(GENEROUS))
    assert "1 processes" in repr(transport)
    assert "1 idle" in repr(transport)
    assert "canary" not in repr(transport)
    assert json.dumps("import json") not in repr(transport)
