"""``ahp-sync gate`` between a terminal, a supervisor and the command."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import AHP_SYNC, PYTHON, environment, json_file, start
from watching import GENEROUS

from ahp_sync.testing import HttpBackend, intercept, observe

# Says that it is ready, counts a signal for a while, and exits with 10 more than the count.
COUNTER = """
import signal, sys, time
count = 0
def note(number, frame):
    global count
    count += 1
for name in sys.argv[1:]:
    signal.signal(getattr(signal, name), note)
print("ready", flush=True)
until = time.monotonic() + 20
while not count and time.monotonic() < until:
    time.sleep(0.01)
time.sleep(0.3)
sys.exit(10 + count)
"""


def counter(*names: str) -> list[str]:
    """Return the command that counts the signals called ``names``."""
    return [*PYTHON, "-c", COUNTER, *names]


@pytest.fixture
def backend() -> Iterator[HttpBackend]:
    """A backend that permits everything, until told otherwise."""
    with HttpBackend("ok") as backend:
        yield backend


@pytest.fixture
def config(backend: HttpBackend, tmp_path: Path) -> Path:
    """A registration by which it is asked, with a long deadline, and told."""
    subscriptions = [intercept(timeout_ms=20_000), observe(["tool.after"])]
    return json_file(tmp_path / "hooks.json", backend.registration(subscriptions=subscriptions))


def gate(config: Path, *command: Any, **options: Any) -> subprocess.Popen[str]:
    """Start the gate in a session of its own, away from the terminal of the test run."""
    return start("gate", "--config", config, "--", *command, start_new_session=True, **options)


def ready(process: subprocess.Popen[str]) -> bool:
    """Wait until the command says that it is ready."""
    assert process.stdout is not None
    return process.stdout.readline() == "ready\n"


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"])
def test_a_signal_to_the_gate_reaches_the_command(name: str, config: Path) -> None:
    """It is handed on, once, and the command's own exit code comes back."""
    with gate(config, *counter(name)) as process:
        assert ready(process)
        process.send_signal(getattr(signal, name))
        _, complaints = process.communicate(timeout=GENEROUS)
    assert (process.returncode, complaints) == (11, "")


def test_a_command_that_dies_of_a_signal(backend: HttpBackend, config: Path) -> None:
    """The gate survives it, reports, and exits as a shell would."""
    with gate(config, "sh", "-c", "echo ready; exec sleep 60") as process:
        assert ready(process)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=GENEROUS)
    assert process.returncode == 143
    assert backend.requests[-1].event["error"]["message"] == "killed by SIGTERM"


def test_an_ignored_signal_stays_ignored(config: Path) -> None:
    """Under ``nohup`` neither the gate nor the command ends at a hang-up."""
    line = 'trap "" HUP; exec "$@"'
    command = 'kill -HUP "$PPID"; kill -HUP $$; echo alive'
    result = subprocess.run(
        ["sh", "-c", line, "sh", *AHP_SYNC, "gate", "--config", config, "--", "sh", "-c", command],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=30.0,
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "alive\n", "")


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_signal_while_asking_runs_nothing(
    name: str, code: int, backend: HttpBackend, config: Path, tmp_path: Path
) -> None:
    """The gate ends at once and quietly; the observer is told that the call was cancelled."""
    backend.play(lambda request: "ok" if request.rpc_id is None else "blackhole")
    marker = tmp_path / "ran"
    with gate(config, "touch", marker) as process:
        assert backend.wait_requests(1)
        began = time.monotonic()
        process.send_signal(getattr(signal, name))
        output, complaints = process.communicate(timeout=GENEROUS)
    assert (process.returncode, output, complaints) == (code, "", "")
    assert not marker.exists()
    assert time.monotonic() - began < 3.0
    assert backend.requests[-1].event["outcome"] == "cancelled"


def test_a_second_signal_ends_the_report(backend: HttpBackend, config: Path) -> None:
    """Who can't wait for the observers needs not."""
    backend.play(lambda request: "blackhole" if request.rpc_id is None else "ok")
    with gate(config, "sh", "-c", "exit 3") as process:
        assert backend.wait_requests(2)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=GENEROUS)
    assert process.returncode == 3


# --- at a terminal --------------------------------------------------------------------------------

# Makes its stdin the terminal of a new session, as a terminal program does for a shell.
AT_TERMINAL = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


class Terminal:
    """The other end of a terminal that a command runs at."""

    def __init__(self, *command: Any) -> None:
        self._master, slave = pty.openpty()
        self.shown = b""
        self.process = subprocess.Popen(
            [sys.executable, "-c", AT_TERMINAL, *map(str, command)],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environment(),
        )
        os.close(slave)

    def type(self, keys: bytes) -> None:
        """Press keys."""
        os.write(self._master, keys)

    def wait_for(self, text: bytes) -> bool:
        """Wait until ``text`` is shown, and return whether it was."""
        until = time.monotonic() + GENEROUS
        while text not in self.shown:
            ready, _, _ = select.select([self._master], [], [], max(0.0, until - time.monotonic()))
            try:
                piece = os.read(self._master, 4096) if ready else b""
            except OSError:  # the last one at the terminal has gone
                piece = b""
            if not piece:
                return False
            self.shown += piece
        return True

    def close(self) -> None:
        """Hang up."""
        os.close(self._master)
        try:
            self.process.wait(GENEROUS)
        finally:
            self.process.kill()


def test_the_command_is_at_the_terminal(config: Path) -> None:
    """It sees a terminal on all three streams, and reads what is typed."""
    program = (
        "import os; print('terminal', [os.isatty(n) for n in (0, 1, 2)], flush=True);"
        "print('got ' + input())"
    )
    terminal = Terminal(*AHP_SYNC, "gate", "--config", config, "--", *PYTHON, "-c", program)
    try:
        assert terminal.wait_for(b"terminal [True, True, True]")
        terminal.type(b"hello\n")
        assert terminal.wait_for(b"got hello")
        assert terminal.process.wait(GENEROUS) == 0
    finally:
        terminal.close()


def test_a_key_reaches_the_command_once(config: Path) -> None:
    """Ctrl-C is told to everybody at the terminal; the gate does not tell it again."""
    terminal = Terminal(*AHP_SYNC, "gate", "--config", config, "--", *counter("SIGINT"))
    try:
        assert terminal.wait_for(b"ready")
        terminal.type(b"\x03")
        assert terminal.process.wait(GENEROUS) == 11
    finally:
        terminal.close()
