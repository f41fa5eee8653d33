"""Tiny backend processes for the stdio tests, and ways to look for what they left behind."""

from __future__ import annotations

import json
import os
import sys
import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any, Callable, Optional

from ahp_sync.budget import Budget
from ahp_sync.failure import OperationalFailure
from ahp_sync.registration import Lifecycle, StdioCommand
from ahp_sync.transports.base import Message, Reply
from ahp_sync.transports.stdio import StdioTransport

#: A wait that should be over at once, and one that must never be over.
GENEROUS = 10.0
#: How much later than its deadline a caller may come back on a busy machine.
SLACK = 0.25

MARK = "AHP_SYNC_TEST"
LINUX = sys.platform.startswith("linux")

_PRELUDE = """
import json, os, signal, subprocess, sys, time
sys.stdin = open(0, encoding="utf-8", closefd=False)
def read():
    line = sys.stdin.readline()
    return json.loads(line) if line else sys.exit()
def say(text):
    sys.stdout.write(text + "\\n"); sys.stdout.flush()
def answer(request, **more):
    say(json.dumps(dict(more, id=request.get("id"), pid=os.getpid())))
def grandchild(code="time.sleep(60)"):
    return subprocess.Popen([sys.executable, "-S", "-c", "import signal, time; " + code])
"""

#: Answers every request with its own id and the process's pid.
ECHO = "\nwhile True: answer(read())"


def python(
    code: str,
    *,
    lifecycle: Lifecycle = Lifecycle.PERSISTENT,
    cwd: Optional[str] = None,
    env: tuple[tuple[str, str], ...] = (),
) -> StdioCommand:
    """Return a command that runs ``code``, with the helpers above, in this interpreter."""
    return StdioCommand(
        command=sys.executable,
        args=("-S", "-c", _PRELUDE + code),
        lifecycle=lifecycle,
        cwd=cwd,
        env=env,
    )


def request(rpc_id: str = "ev-1", padding: int = 0) -> Message:
    body = {"jsonrpc": "2.0", "id": rpc_id, "method": "hooks/intercept", "padding": "x" * padding}
    return Message(json.dumps(body).encode(), rpc_id)


def notification(padding: int = 0, **more: object) -> Message:
    return Message(json.dumps(dict(more, jsonrpc="2.0", padding="x" * padding)).encode(), None)


def decoded(reply: Optional[Reply]) -> Any:
    assert reply is not None
    return json.loads(reply.body)


def failure_of(call: Callable[[], object]) -> OperationalFailure:
    """Return the failure that ``call`` raises."""
    try:
        found = call()
    except OperationalFailure as failure:
        return failure
    raise AssertionError(f"no failure, but {found!r}")


def eventually(condition: Callable[[], object], seconds: float = GENEROUS) -> None:
    """Wait until ``condition`` holds; fail if it does not within ``seconds``."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it never came about"
        time.sleep(0.005)


class Stage:
    """Makes transports and looks at what is left of them."""

    def __init__(self) -> None:
        self._token = uuid.uuid4().hex
        self._transports: list[StdioTransport] = []
        self._descriptors = descriptors()

    def __call__(self, command: StdioCommand, **options: Any) -> StdioTransport:
        marked = StdioCommand(
            command=command.command,
            args=command.args,
            lifecycle=command.lifecycle,
            cwd=command.cwd,
            env=(*command.env, (MARK, self._token)),
        )
        transport = StdioTransport(marked, **options)
        self._transports.append(transport)
        return transport

    def pids(self) -> set[int]:
        """The living processes of all transports, grandchildren included."""
        mark = f"{MARK}={self._token}".encode()
        return {pid for pid in _all_pids() if mark in _environment(pid).split(b"\0")}

    def dismantle(self) -> None:
        """Close everything, and see that nothing at all is left."""
        for transport in self._transports:
            transport.close(Budget(GENEROUS))
        if LINUX:
            eventually(lambda: not self.pids())
            assert not zombies()
            eventually(lambda: descriptors() == self._descriptors)


def descriptors() -> set[str]:
    """Our open descriptors and what they are, but for the one that lists them."""
    found = set()
    for number in os.listdir("/proc/self/fd") if LINUX else ():
        with suppress(OSError):
            found.add(f"{number} {os.readlink(f'/proc/self/fd/{number}')}")
    return {name for name in found if "/proc/" not in name}


def zombies() -> list[int]:
    """Children of ours that nobody has reaped."""
    return [pid for pid in _all_pids() if _stat(pid)[:2] == ["Z", str(os.getpid())]]


def is_alive(pid: int) -> bool:
    """Whether the process runs; a zombie does not."""
    return _stat(pid)[:1] not in ([], ["Z"])


def _all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()] if LINUX else []


def _stat(pid: int) -> list[str]:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return []


def _environment(pid: int) -> bytes:
    with suppress(OSError):
        return Path(f"/proc/{pid}/environ").read_bytes()
    return b""
