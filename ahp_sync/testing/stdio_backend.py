"""A scripted stdio backend: a real child process, with every fault by name, and its ledger.

::

    with StdioBackend("deny") as backend:
        client = Client(backend.registration(timeout_ms=300), …)

The harness under test starts the process; this class tells it how, and reads what the processes
left in the ledger. The steps that a script may name are in :mod:`ahp_sync.testing.stdio_child` and
:mod:`ahp_sync.testing.answers`, and :data:`LAUNCH_STEPS` here. POSIX only.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple

from ahp_sync.testing import stdio_child
from ahp_sync.testing.answers import ANSWERS
from ahp_sync.testing.received import ReceivedLine, read_message
from ahp_sync.testing.registrations import Registrable
from ahp_sync.testing.steps import Script, as_steps, check

if TYPE_CHECKING:
    import types

__all__ = ["LAUNCH_STEPS", "StdioBackend"]

# How often the ledger is looked at by those who wait, in seconds.
_LOOK = 0.01
# What a child of ours needs of its interpreter: no site packages, no PYTHON… variables.
_PYTHON = ("-S", "-E")

Members = Dict[str, Any]


# --- processes that can't be started -----------------------------------------------------------


def missing_command(folder: Path) -> Members:
    """A command that does not exist."""
    return {"command": str(folder / "no-such-backend"), "args": []}


def not_executable(folder: Path) -> Members:
    """A script without the permission to run."""
    return {"command": str(_script(folder, "#!/bin/sh\n", 0o600)), "args": []}


def directory_command(folder: Path) -> Members:
    """A command that is a directory."""
    return {"command": str(folder), "args": []}


def bad_shebang(folder: Path) -> Members:
    """A script whose interpreter does not exist."""
    return {"command": str(_script(folder, "#!/no/such/interpreter\n", 0o700)), "args": []}


def cwd_gone(folder: Path) -> Members:
    """A working directory that does not exist."""
    return {"cwd": str(folder / "gone")}


def _script(folder: Path, text: str, mode: int) -> Path:
    path = folder / "backend.sh"
    path.write_text(text)
    path.chmod(mode)
    return path


#: Name -> the members of the transport object that make a start fail; stands alone in a script.
LAUNCH_STEPS: Mapping[str, Callable[[Path], Members]] = {
    function.__name__: function
    for function in (missing_command, not_executable, directory_command, bad_shebang, cwd_gone)
}


def _requests() -> Dict[str, Callable[..., object]]:
    steps = {k: functools.partial(step, None) for k, step in stdio_child.REQUEST_STEPS.items()}
    return {**ANSWERS, **steps}


_INNER: Mapping[str, Callable[..., object]] = _requests()
_STEPS: Mapping[str, Callable[..., object]] = {
    **_INNER,
    **stdio_child.START_STEPS,
    **LAUNCH_STEPS,
}


# --- the backend -------------------------------------------------------------------------------


class StdioBackend(Registrable):
    """A stdio backend that does what its script says; close it.

    :param script: as for ``HttpBackend`` (a name, ``step(…)``, effects, or a sequence of these),
        but no function: the script goes to the child as JSON. All processes of the backend share
        it. Unknown names raise :class:`ValueError`.
    :param lifecycle: "persistent" or "per_event".

    :meth:`close` kills what is left of the processes; the class is a context manager that closes.
    """

    default_id = "com.example.stdio"

    def __init__(self, script: Script = "ok", *, lifecycle: str = "persistent") -> None:
        steps = as_steps(script)
        for one in steps:
            check(one, _STEPS, "stdio", _INNER)
            if one.name in LAUNCH_STEPS and len(steps) > 1:
                raise ValueError(f"{one.name!r} stands alone in a script")
        self._script = json.dumps([one.to_json() for one in steps])
        self._first = steps[0].name
        self._lifecycle = lifecycle
        self._folder = Path(tempfile.mkdtemp(prefix="ahp-stdio-"))
        self._ledger = self._folder / "ledger"
        self._ledger.mkdir()

    def transport(self) -> Dict[str, Any]:
        """Return the ``transport`` object of the backend's entry."""
        transport = {
            "type": "stdio",
            "command": sys.executable,
            "args": [*_PYTHON, stdio_child.__file__, str(self._ledger), self._script],
            "lifecycle": self._lifecycle,
        }
        spoil = LAUNCH_STEPS.get(self._first)
        return {**transport, **spoil(self._folder)} if spoil else transport

    @property
    def argv(self) -> List[str]:
        """The command and its arguments, for tests that start a process themselves."""
        transport = self.transport()
        return [transport["command"], *transport["args"]]

    # --- what the ledger tells ---

    @property
    def requests(self) -> List[ReceivedLine]:
        """The lines received so far by all processes, in order."""
        return [_received(path) for path in sorted(self._ledger.glob("request-*"))]

    def pids(self) -> List[int]:
        """Every process that ever ran, grandchildren included, oldest first."""
        paths = sorted(self._ledger.glob("pid-*"), key=lambda path: path.stat().st_mtime_ns)
        return [int(path.name[4:]) for path in paths]

    def alive(self) -> List[int]:
        """Those of :meth:`pids` that still run; a zombie does not."""
        return [pid for pid in self.pids() if self._state(pid) not in ("", "Z")]

    def zombies(self) -> List[int]:
        """Those of :meth:`pids` that ended and that this process, their parent, has yet to reap."""
        return [
            pid
            for pid in self.pids()
            if self._state(pid) == "Z" and _stat(pid).parent == os.getpid()
        ]

    def _state(self, pid: int) -> str:
        stat = _stat(pid)
        try:
            same = (self._ledger / f"pid-{pid}").read_text() in ("", stat.ticks)
        except FileNotFoundError:
            return ""
        return stat.state if same else ""

    def wait_requests(self, count: int = 1, timeout: float = 10.0) -> bool:
        """Wait up to ``timeout`` seconds for ``count`` requests; return whether they came."""
        return self.wait(lambda: len(list(self._ledger.glob("request-*"))) >= count, timeout)

    def wait_processes(self, count: int = 1, timeout: float = 10.0) -> bool:
        """Wait likewise until ``count`` processes have started."""
        return self.wait(lambda: len(self.pids()) >= count, timeout)

    def wait_until_gone(self, timeout: float = 10.0) -> bool:
        """Wait likewise until no process is left, neither running nor as a zombie of ours."""
        return self.wait(lambda: not self.alive() and not self.zombies(), timeout)

    def wait(self, condition: Callable[[], bool], timeout: float = 10.0) -> bool:
        """Wait likewise for ``condition()``, looked at again and again."""
        until = time.monotonic() + timeout
        while not condition():
            if time.monotonic() >= until:
                return False
            time.sleep(_LOOK)
        return True

    # --- the end ---

    def kill(self) -> List[int]:
        """Kill every process that still runs and return them. It does not wait."""
        left = self.alive()
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return left

    def close(self) -> None:
        """Kill what is left and remove the ledger; repeatable."""
        if self._ledger.exists():
            self.wait(lambda: not self.kill(), timeout=5.0)
            shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> StdioBackend:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[types.TracebackType],
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return (
            f"<StdioBackend {self._script}, {len(self.requests)} requests, "
            f"{len(self.alive())} of {len(self.pids())} processes running>"
        )


class _Stat(NamedTuple):
    """State, parent and start of a process; empty if there is none."""

    state: str = ""
    parent: int = 0
    ticks: str = ""


def _stat(pid: int) -> _Stat:
    try:
        words = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        # No such process, or no /proc at all; the latter knows no zombies.
        if Path("/proc/self/stat").exists():
            return _Stat()
        return _Stat("R") if _exists(pid) else _Stat()
    return _Stat(words[0], int(words[1]), words[19])


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def _received(path: Path) -> ReceivedLine:
    head, _, line = path.read_bytes().partition(b"\n")
    known: Tuple[int, float] = tuple(json.loads(head))
    body = line.rstrip(b"\n")
    return ReceivedLine(body=body, message=read_message(body), pid=known[0], time=known[1])
