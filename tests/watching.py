"""What a client must not leave behind, and host programs in a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Optional, TypeVar

import ahp_sync
from ahp_sync import Client
from ahp_sync.workers import WorkerStatistics

__all__ = [
    "GENEROUS",
    "SLACK",
    "Finished",
    "descriptors",
    "eventually",
    "host",
    "launch",
    "statistics",
    "timed",
    "workers_are_free",
]

#: Seconds for a wait that should be over at once, and for how late a busy machine may be.
GENEROUS, SLACK = 10.0, 0.25

T = TypeVar("T")

ROOT = Path(ahp_sync.__file__).parent.parent


def descriptors() -> set[str]:
    """Return our open descriptors and what they are, but for the one that lists them."""
    found = set()
    with suppress(FileNotFoundError):  # no /proc: nothing can be said
        for number in os.listdir("/proc/self/fd"):
            with suppress(OSError):
                found.add(f"{number} {os.readlink(f'/proc/self/fd/{number}')}")
    return {name for name in found if "/proc/" not in name}


def statistics(client: Client) -> WorkerStatistics:
    """Return the counters of the client's workers."""
    return client._runtime()._executor.statistics()


def workers_are_free(client: Client) -> bool:
    """Wait until no worker is busy or written off, and return whether that came about."""

    def free() -> bool:
        now = statistics(client)
        return (now.load, now.written_off) == (0, 0)

    return eventually(free)


def eventually(condition: Callable[[], object], seconds: float = GENEROUS) -> bool:
    """Wait up to ``seconds`` for ``condition`` and return whether it came about."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= until:
            return False
        time.sleep(0.005)
    return True


def timed(call: Callable[[], T]) -> tuple[T, float]:
    """Return what ``call()`` returns, and the seconds it took."""
    began = time.monotonic()
    found = call()
    return found, time.monotonic() - began


@dataclass(frozen=True)
class Finished:
    """A host program that ended: its status, what it printed, and how long it took in seconds."""

    status: int
    stdout: str
    stderr: str
    seconds: float


_PRELUDE = """
import os, signal, sys, threading, time
from ahp_sync import *
from ahp_sync.testing import *
def client(registration, **options):
    options.setdefault("source", "urn:example:host")
    return Client(registration, harness=Harness("host", "1"), **options)
def ask(hooks, **options):
    return hooks.tool_before(name="Bash", input={"command": "ls"}, **options)
"""


def launch(
    code: str, *arguments: str, flags: tuple[str, ...] = (), env: Optional[Mapping[str, str]] = None
) -> subprocess.Popen[str]:
    """Start a host program, whose ``client(…)`` and ``ask(hooks)`` stand ready.

    What stands above a line ``# ---`` in ``code`` comes before any import of the library.
    """
    first, mark, rest = textwrap.dedent(code).rpartition("# ---\n")
    program = f"{first}{mark}{_PRELUDE}{rest}"
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **(env or {})}
    environment["PYTHONPATH"] = str(ROOT)
    return subprocess.Popen(
        [sys.executable, *flags, "-c", program, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def host(
    code: str,
    *arguments: str,
    flags: tuple[str, ...] = (),
    env: Optional[Mapping[str, str]] = None,
    seconds: float = 30.0,
) -> Finished:
    """Run a host program as :func:`launch` does, to its end; fail if that does not come."""
    began = time.monotonic()
    with launch(code, *arguments, flags=flags, env=env) as process:
        try:
            stdout, stderr = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    return Finished(process.returncode, stdout, stderr, time.monotonic() - began)
