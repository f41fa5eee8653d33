"""Running the gated command: its streams, its signals, its end."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from dataclasses import dataclass
from typing import Any, Optional, Sequence

from ahp_sync.cli.signals import Relay, in_foreground

__all__ = ["Ended", "run"]

_NOT_FOUND, _NOT_STARTED = 127, 126
_KEYBOARD = (signal.SIGINT, getattr(signal, "SIGQUIT", None))


@dataclass(frozen=True)
class Ended:
    """How a command ended: the exit code to pass on, and what ``tool.after`` says.

    ``trouble`` is set where it could not be started.
    """

    code: int
    after: dict[str, Any]
    trouble: Optional[str] = None


def run(argv: Sequence[str], relay: Relay) -> Ended:
    """Run a command to its end, with this process's streams, descriptors and process group.

    Signals that reach ``relay`` meanwhile go to the command.
    """
    started = time.monotonic()
    try:
        # Not close_fds: like an exec, this passes on what the caller passed in, such as the
        # descriptors of make's job server. None of ours is inheritable.
        process = subprocess.Popen(argv, close_fds=False)
    except OSError as error:
        return _not_started(error)
    with relay.to(lambda signum: _pass_on(process, signum)):
        status = process.wait()
    return _ended(status, round((time.monotonic() - started) * 1000, 3))


def _pass_on(process: subprocess.Popen[bytes], signum: int) -> None:
    if os.name != "posix":
        return  # the console has told every process
    # A key at the terminal is told to the whole group, and twice is not once: many programs take
    # a second Ctrl-C for "at once".
    if not (signum in _KEYBOARD and in_foreground()):
        process.send_signal(signum)


def _ended(status: int, duration_ms: float) -> Ended:
    after: dict[str, Any] = {"outcome": "ok", "duration_ms": duration_ms}
    code = status if status >= 0 else 128 - status
    if status > 0:
        message, kind = f"exit status {status}", "ExitStatus"
    elif status < 0:
        message, kind = f"killed by {_signal_name(-status)}", "Signal"
    if status:
        error = {"message": message, "class": kind, "status": code}
        after.update(outcome="error", error=error)
    return Ended(code, after)


def _not_started(error: OSError) -> Ended:
    reason = os.strerror(error.errno) if error.errno else type(error).__name__
    after = {
        "outcome": "error",
        "error": {"message": f"not started: {reason}", "class": type(error).__name__},
        "execution": {"status": "skipped", "reason": "other", "detail": "not started"},
    }
    code = _NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_STARTED
    return Ended(code, after, trouble=reason)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
