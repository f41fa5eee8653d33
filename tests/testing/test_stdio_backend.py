"""The scripted stdio backend, started by hand and not by ahp_sync."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from typing import Any, Iterator, Optional

import pytest

from ahp_sync.registration import Registration
from ahp_sync.testing import ANSWERS, FAULTS, StdioBackend, step
from ahp_sync.testing.stdio_backend import LAUNCH_STEPS
from ahp_sync.testing.stdio_child import REQUEST_STEPS, START_STEPS

GENEROUS = 10.0
# Long enough for a process to start and answer, even on a busy machine, and no longer.
A_WHILE = 0.3


def request(rpc_id: str = "ev-1", padding: int = 0) -> bytes:
    """A request as one line."""
    params = {"protocolVersion": "draft", "event": {"id": rpc_id}, "padding": "x" * padding}
    message = {"jsonrpc": "2.0", "id": rpc_id, "method": "hooks/intercept", "params": params}
    return json.dumps(message).encode() + b"\n"


NOTIFICATION = b'{"jsonrpc":"2.0","method":"hooks/observe","params":{"protocolVersion":"draft"}}\n'


class Process:
    """A process of the backend in a group of its own."""

    def __init__(self, backend: StdioBackend) -> None:
        pipe = subprocess.PIPE
        self._popen = subprocess.Popen(
            backend.argv, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
        )
        self.pid = self._popen.pid
        assert self._popen.stdin and self._popen.stdout and self._popen.stderr
        self.stdin, self.stdout, self.stderr = (
            self._popen.stdin,
            self._popen.stdout,
            self._popen.stderr,
        )
        self.unread = b""

    def send(self, *lines: bytes) -> None:
        for line in lines:
            self.stdin.write(line)
        self.stdin.flush()

    def line(self, timeout: float = GENEROUS) -> bytes:
        """The next line, without its end. Fails if none comes in time."""
        until = time.monotonic() + timeout
        while b"\n" not in self.unread:
            left = until - time.monotonic()
            assert left > 0 and self.has_output(left), "no line in time"
            piece = os.read(self.stdout.fileno(), 1 << 16)
            assert piece, "stdout ended"
            self.unread += piece
        line, _, self.unread = self.unread.partition(b"\n")
        return line

    def has_output(self, timeout: float) -> bool:
        return bool(select.select([self.stdout], [], [], timeout)[0])

    def finish(self, *lines: bytes) -> tuple[bytes, bytes, int]:
        """Send lines and the end of stdin; return stdout, stderr and the exit status."""
        try:
            out, err = self._popen.communicate(b"".join(lines), timeout=GENEROUS)
        except BrokenPipeError:
            out, err = b"", b""
        return out, err, self._popen.wait(GENEROUS)

    def runs(self) -> bool:
        return self._popen.poll() is None

    def exit_status(self) -> int:
        return self._popen.wait(GENEROUS)

    def end(self) -> None:
        """Kill the group, and reap."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._popen.wait(GENEROUS)
        for pipe in (self.stdin, self.stdout, self.stderr):
            try:
                pipe.close()
            except BrokenPipeError:
                pass


@pytest.fixture
def start() -> Iterator[Any]:
    """``start(script)`` starts one more process of a backend with that script."""
    backends: dict[str, StdioBackend] = {}
    processes = []

    def one(script: Any = "ok") -> tuple[StdioBackend, Process]:
        if repr(script) not in backends:
            backends[repr(script)] = StdioBackend(script)
        processes.append(Process(backends[repr(script)]))
        return backends[repr(script)], processes[-1]

    yield one
    for process in processes:
        process.end()
    for backend in backends.values():
        backend.close()


# --- answers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ok", "deny", "wrong_id", "utf16", "deep", "empty", "rpc_error"])
def test_answers_are_those_of_every_transport(name: str, start: Any) -> None:
    """The line is the answer's bytes and one line end."""
    _, process = start(name)
    out, _, status = process.finish(request())
    assert (out, status) == (ANSWERS[name]("ev-1") + b"\n", 0)


@pytest.mark.parametrize("name", sorted(ANSWERS))
def test_every_answer_fits_in_a_line(name: str) -> None:
    """A fault of the JSON is not one of the framing as well."""
    assert b"\n" not in ANSWERS[name]("ev-1")


def test_a_process_serves_many_requests_in_turn(start: Any) -> None:
    """One step a request, the last repeats; a notification takes a step but gets no answer."""
    backend, process = start(["deny", "ok", step("deny", reason="late"), "ok"])
    process.send(request("a"))
    assert process.line() == ANSWERS["deny"]("a")
    process.send(NOTIFICATION, request("b"), request("c"), request("d"))
    assert process.line() == ANSWERS["deny"]("b", "late")
    assert process.line() == ANSWERS["ok"]("c")
    assert process.line() == ANSWERS["ok"]("d")
    assert [line.rpc_id for line in backend.requests] == ["a", None, "b", "c", "d"]


def test_processes_share_the_script(start: Any) -> None:
    """Whoever gets the next request does the next step; each notes whose it was."""
    script = ["deny", "ok"]
    backend, first = start(script)
    first.send(request("a"))
    assert first.line() == ANSWERS["deny"]("a")
    _, second = start(script)
    second.send(request("b"))
    assert second.line() == ANSWERS["ok"]("b")
    assert [line.pid for line in backend.requests] == [first.pid, second.pid] == backend.pids()


def test_effects_are_steps() -> None:
    """As for the HTTP backend; an unknown step, argument or function is refused."""
    with StdioBackend([{"type": "allow"}]) as backend:
        assert '"allow"' in backend.argv[-1]
    for script in ("silnt", step("late", secs=1), step("late", then="banner"), ["ok", "cwd_gone"]):
        with pytest.raises(ValueError, match=r"stdio backend|stands alone"):
            StdioBackend(script)
    with pytest.raises(TypeError):
        StdioBackend(lambda received: "ok")  # type: ignore[arg-type]


# --- the ledger ----------------------------------------------------------------------------------


def test_a_request_is_recorded_as_it_came(start: Any) -> None:
    """Line, message, process and time are kept."""
    backend, process = start()
    before = time.monotonic()
    process.send(request())
    assert backend.wait_requests(1, GENEROUS)
    (received,) = backend.requests
    assert received.body + b"\n" == request()
    assert received.event == {"id": "ev-1"}
    assert received.pid == process.pid
    assert before <= received.time <= time.monotonic()


def test_the_living_the_zombies_and_the_gone_are_told_apart(start: Any) -> None:
    """A process that ended is a zombie until its parent reaps it."""
    backend, process = start("exit_mid")
    assert backend.wait_processes(1, GENEROUS)
    assert (backend.alive(), backend.zombies()) == ([process.pid], [])
    process.send(request())
    assert backend.wait(lambda: backend.zombies() == [process.pid], GENEROUS)
    assert backend.alive() == []
    assert not backend.wait_until_gone(0.01)
    assert process.exit_status() == 3
    assert backend.wait_until_gone(GENEROUS)
    assert backend.pids() == [process.pid]


def test_a_later_process_of_the_same_number_is_none_of_ours(start: Any) -> None:
    """The ledger knows when each process began."""
    backend, process = start()
    assert backend.wait_processes(1, GENEROUS)
    entry = backend._ledger / f"pid-{process.pid}"
    if not entry.read_text():
        pytest.skip("this system does not tell when a process began")
    entry.write_text("1")
    assert backend.alive() == []


def test_close_kills_what_is_left(start: Any) -> None:
    """Also what ignores SIGTERM and the end of stdin, and grandchildren; twice is fine."""
    backend, process = start("grandchild")
    process.send(request())
    process.line()
    assert backend.wait_processes(2, GENEROUS)
    backend.close()
    backend.close()
    assert process.exit_status() == -signal.SIGKILL
    assert backend.pids() == []


# --- faults --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["silent", "never_reads", "ignores_sigterm", "grandchild_waiting", "no_newline"]
)
def test_silence_lasts(name: str, start: Any) -> None:
    """No line comes, and the process runs on."""
    _, process = start(name)
    process.send(request())
    with pytest.raises(AssertionError, match="no line"):
        process.line(A_WHILE)
    assert process.runs()


@pytest.mark.parametrize(
    ("script", "status"),
    [
        ("exit_at_start", 3),
        (step("exit_at_start", code=0), 0),
        (step("exit_at_start", code=-9), -9),
        ("exit_mid", 3),
        (step("exit_mid", code=127), 127),
        ("killed_mid", -9),
        ("traceback", 1),
        ("eof", 0),
    ],
    ids=str,
)
def test_a_process_ends_without_an_answer(script: Any, status: int, start: Any) -> None:
    """With the status it was told."""
    _, process = start(script)
    out, err, got = process.finish(request())
    assert (out, got) == (b"", status)
    assert (b"Traceback" in err) == (script == "traceback")


@pytest.mark.parametrize("code", [0, 1, 2, 127, -9])
@pytest.mark.parametrize("answer", ["ok", "deny", "oops"])
def test_exit_status_and_answer_are_free_to_choose(answer: str, code: int, start: Any) -> None:
    """The matrix of field bug F08."""
    _, process = start(step("answer_then_exit", code=code, then=answer))
    out, _, status = process.finish(request())
    assert status == code
    assert out == (b"oops\n" if answer == "oops" else ANSWERS[answer]("ev-1") + b"\n")


def test_a_start_that_fails_uses_up_its_turn(start: Any) -> None:
    """The next process does the next step."""
    script = ["exit_at_start", "deny"]
    _, first = start(script)
    assert first.finish()[2] == 3
    backend, second = start(script)
    assert second.finish(request())[0] == ANSWERS["deny"]("ev-1") + b"\n"
    assert len(backend.requests) == 1


def test_late_answers_do_not_stop_the_reading(start: Any) -> None:
    """Several requests are served at once, as ``slow`` and ``late`` promise."""
    backend, process = start([step("late", seconds=0.4), step("slow", seconds=0.01, then="deny")])
    process.send(request("a"), request("b"))
    assert process.line() == ANSWERS["deny"]("b")
    assert process.line() == ANSWERS["deny"]("a")
    assert len(backend.requests) == 2


def test_an_answer_may_come_twice(start: Any) -> None:
    """At once, or later."""
    _, process = start([step("duplicate_answer", then="deny", seconds=0.05), "duplicate_answer"])
    process.send(request("a"))
    assert [process.line(), process.line()] == [ANSWERS["deny"]("a")] * 2
    process.send(request("b"))
    assert [process.line(), process.line()] == [ANSWERS["ok"]("b")] * 2


@pytest.mark.parametrize(
    ("script", "before"),
    [("banner", b"shell ready"), ("noise", b"shell ready"), (step("noise", text="hm"), b"hm")],
    ids=str,
)
def test_noise_comes_before_the_answer(script: Any, before: bytes, start: Any) -> None:
    """On stdout, in a line of its own."""
    _, process = start(script)
    process.send(request())
    assert process.line() == before
    assert json.loads(process.line())["id"] == "ev-1"


def test_a_banner_comes_without_a_request(start: Any) -> None:
    """And noise only with one."""
    _, process = start("banner")
    assert process.line() == b"shell ready"
    _, other = start("noise")
    assert not other.has_output(A_WHILE)


def test_two_lines_and_half_a_line(start: Any) -> None:
    """The answer is followed by more, or by nothing at all."""
    _, process = start("two_lines")
    out, _, status = process.finish(request())
    assert (out.count(b"\n"), status) == (2, 0)
    _, process = start("no_newline")
    assert process.finish(request())[::2] == (ANSWERS["ok"]("ev-1"), 0)


def test_stderr_is_flooded_before_the_answer(start: Any) -> None:
    """A harness that does not drain it never sees the answer."""
    _, process = start(step("floods_stderr", size=1 << 20))
    process.send(request())
    assert not process.has_output(A_WHILE)
    out, err, _ = process.finish()
    assert out == ANSWERS["ok"]("ev-1") + b"\n"
    assert len(err) == 1 << 20


@pytest.mark.parametrize("name", ["floods_stdout", "endless_start"])
def test_a_line_without_end(name: str, start: Any) -> None:
    """More than any cap, and no newline."""
    _, process = start(name)
    process.send(request())
    size = 0
    while size < 8 << 20:
        piece = os.read(process.stdout.fileno(), 1 << 20)
        assert b"\n" not in piece
        size += len(piece)


@pytest.mark.parametrize("name", ["writes_before_reading", "answers_before_reading"])
def test_stdout_must_be_drained_before_stdin_is_read(name: str, start: Any) -> None:
    """Field bug F33: a harness that writes first and reads then is stuck; the other is served."""
    _, process = start(name)
    assert process.unread == b""
    out, _, status = process.finish(request(padding=4 << 20))
    assert status == 0
    assert len(out) >= 1 << 20
    assert json.loads(out.splitlines()[-1])["id"] == "ev-1"


def test_a_grandchild_keeps_the_pipes_open(start: Any) -> None:
    """The process exits without an answer, and stdout does not end."""
    backend, process = start("grandchild_silent")
    process.send(request())
    assert process.exit_status() == 0
    assert not process.has_output(A_WHILE)
    assert len(backend.pids()) == 2
    (left,) = backend.alive()
    assert left != process.pid


def test_a_wrapper_starts_the_real_server(start: Any) -> None:
    """The real server answers, and lives on when stdin ends; so does the wrapper."""
    backend, process = start("wrapper")
    process.send(request())
    assert process.line() == ANSWERS["ok"]("ev-1")
    process.stdin.close()
    assert not backend.wait(lambda: len(backend.alive()) < 2, A_WHILE)
    assert backend.requests[0].pid != process.pid
    backend.kill()
    assert process.exit_status() != 0


@pytest.mark.parametrize("name", ["ignores_sigterm", "ignores_eof"])
def test_the_end_of_stdin_may_be_ignored(name: str, start: Any) -> None:
    """Only a signal ends the process, and perhaps only SIGKILL."""
    backend, process = start([name])
    process.send(request())
    assert backend.wait_requests(1, GENEROUS)
    process.stdin.close()
    os.kill(process.pid, signal.SIGTERM)
    if name == "ignores_sigterm":
        time.sleep(0.05)  # nothing shows that a signal was ignored
        assert process.runs()
    else:
        assert process.exit_status() == -signal.SIGTERM


def test_stdout_may_be_closed_alone(start: Any) -> None:
    """The stream ends, the process does not."""
    _, process = start("closes_stdout")
    process.send(request())
    assert process.stdout.read() == b""
    assert process.runs()


def test_the_environment_is_dumped(start: Any) -> None:
    """As the reason of a denial, in JSON (field bug F27)."""
    _, process = start("env_dump")
    out, _, _ = process.finish(request())
    reason = json.loads(out)["result"]["effects"][0]["reason"]
    assert json.loads(reason)["PATH"] == os.environ["PATH"]


@pytest.mark.parametrize("name", sorted(LAUNCH_STEPS))
def test_some_commands_can_not_be_started(name: str) -> None:
    """Field bug F11; the registration of each is a valid one."""
    with StdioBackend(name) as backend:
        registration = backend.registration()
        Registration.load(registration)
        transport = registration["hooks"][0]["transport"]
        command = [transport["command"], *transport["args"]]
        with pytest.raises(OSError):
            subprocess.run(command, cwd=transport.get("cwd"), check=False)
        assert backend.pids() == []


# --- registration --------------------------------------------------------------------------------


@pytest.mark.parametrize("lifecycle", ["persistent", "per_event"])
def test_its_registration_loads(lifecycle: str) -> None:
    """With its lifecycle, and with what else a transport object may hold."""
    with StdioBackend(lifecycle=lifecycle) as backend:
        (entry,) = Registration.load(backend.registration(env={"MODE": "strict"})).backends
    transport: Optional[Any] = entry.transport
    assert transport is not None
    assert transport.lifecycle.value == lifecycle
    assert entry.id == "com.example.stdio"


def test_every_step_says_what_it_does() -> None:
    """One line of documentation each, for the steps and for the table of faults."""
    tables = (START_STEPS, REQUEST_STEPS, LAUNCH_STEPS)
    assert all(function.__doc__ for table in tables for function in table.values())
    for fault in FAULTS.values():
        assert bool(fault.stdio) or set(fault.expected) <= {"http"}
