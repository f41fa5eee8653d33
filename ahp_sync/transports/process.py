"""One backend process behind a daemon thread of its own, and the roster of those not yet gone.

The thread starts the process, does all its I/O but the first, non-blocking part of a write, notices
its exit, ends it and reaps it. So nobody who calls in here ever waits: not for a program on a
hanging file system to start, not for one that ignores SIGTERM to go (F28). There is a second reason
to start it there: a program with a parent-death signal dies with the *thread* that started it.
"""

from __future__ import annotations

import logging
import threading
from typing import Callable, Optional, Protocol

from ahp_sync.budget import Budget
from ahp_sync.failure import FailureClass, OperationalFailure
from ahp_sync.transports import pump
from ahp_sync.transports.child import Launch
from ahp_sync.transports.pump import GRACE, Forked, Pump

__all__ = ["BackendProcess", "Listener", "Roster", "closed_failure", "lost_failure"]

_log = logging.getLogger("ahp_sync")

# Processes that neither SIGTERM nor SIGKILL has ended yet. So many don't come together by
# themselves: the machine is in trouble, and each of them costs a thread.
_MOST_ENDING = 128

_JOIN_SLICE = 0.1


def closed_failure() -> OperationalFailure:
    """Return the failure of a delivery that met the closing of its transport."""
    return OperationalFailure(FailureClass.CONNECTION, "closed", "the transport was closed")


def lost_failure() -> OperationalFailure:
    """Return the failure of a delivery whose process ended for no reason that was seen."""
    return OperationalFailure(FailureClass.PROCESS, "lost", "the backend process was lost")


class Listener(pump.Listener, Protocol):
    """Who is told what happens to a process: on its thread, without a lock. Must not block."""

    def not_started(self, failure: OperationalFailure) -> None:
        """It could not be started; only ``ended`` comes after this."""

    def closed(self) -> None:
        """The transport is closing, and the process is about to be ended. Told on any thread."""

    def ended(self) -> None:
        """It and its group are gone, and every descriptor is closed. Always told, and the last."""


class BackendProcess:
    """A process of a backend, from before its start until after its end. Safe between threads."""

    def __init__(self, launch: Launch, listener: Listener) -> None:
        self._launch = launch
        self._listener = listener
        self._pump: Optional[Pump] = None
        self._grace: Optional[float] = None
        self._thread = threading.Thread(
            target=self._run, name=f"ahp_sync-stdio-{launch.name}", daemon=True
        )

    @property
    def name(self) -> str:
        """The command's name, for diagnostics."""
        return self._launch.name

    @property
    def is_ending(self) -> bool:
        """Whether its end was asked for."""
        return self._grace is not None

    def start(self, on_gone: Callable[[], None]) -> None:
        """Start the thread, which starts the process; ``on_gone`` is called after everything else.

        Raises :class:`RuntimeError` where the system has no thread to spare.
        """
        self._on_gone = on_gone
        self._thread.start()

    @property
    def pump(self) -> Pump:
        """The pump of a process that has started."""
        assert self._pump is not None, "the process has not started"
        return self._pump

    def end(self, grace: float = GRACE) -> None:
        """Have the process and its group ended: SIGTERM, ``grace`` seconds, SIGKILL.

        Returns at once; safe to repeat.
        """
        self._grace = grace if self._grace is None else min(grace, self._grace)
        if self._pump is not None:
            self._pump.end(grace)

    def close(self, grace: float) -> None:
        """End the process because the transport closes, and fail what waits for it."""
        self._listener.closed()
        self.end(grace)

    def join(self, seconds: float) -> bool:
        """Wait up to ``seconds`` for the process to be gone; return whether it is."""
        if self._thread.ident is not None:
            self._thread.join(seconds)
        return not self._thread.is_alive()

    def abandon(self) -> None:
        """In a forked child: let go of the parent's process without touching it."""
        if self._pump is not None:
            self._pump.abandon()

    def _run(self) -> None:
        try:
            self._live()
        except Forked:
            # A copy of the parent's greenlet, which is to do and to tell nothing. It can't return
            # either: threading forgot it at the fork, and would complain. Without a timer, this
            # wait does not keep gevent's loop alive.
            threading.Event().wait()
        except Exception:  # a thread of ours must not end with a traceback on stderr
            _log.exception("the thread of backend process %r failed", self.name)
        self._listener.ended()
        self._on_gone()

    def _live(self) -> None:
        try:
            self._pump = self._launched()
        except OperationalFailure as failure:
            self._listener.not_started(failure)
            return
        if self._grace is not None:  # asked for while there was no pump to tell
            self._pump.end(self._grace)
        self._pump.run()

    def _launched(self) -> Pump:
        if self._grace is not None:
            raise closed_failure()
        return Pump(self._launch, self._listener)


class Roster:
    """The processes of one transport that are not yet gone. Nothing is started past it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._processes: set[BackendProcess] = set()
        self._closed = False

    def __len__(self) -> int:
        return len(self._processes)

    def start(self, process: BackendProcess) -> None:
        """Start ``process`` and keep track of it.

        Raises :class:`OperationalFailure` after :meth:`close`, and when the processes that should
        be gone already are too many, or the system gives no thread (``saturated``).
        """
        with self._lock:
            if self._closed:
                raise closed_failure()
            if sum(other.is_ending for other in self._processes) >= _MOST_ENDING:
                raise _saturated("processes_ending", "too many backend processes refuse to end")
            self._processes.add(process)
        try:
            process.start(lambda: self._leave(process))
        except RuntimeError as error:
            self._leave(process)
            raise _saturated("no_thread", "no thread can be started") from error

    def _leave(self, process: BackendProcess) -> None:
        with self._lock:
            self._processes.discard(process)

    def close(self, budget: Budget) -> None:
        """Refuse further starts, end every process, and wait for that as long as ``budget`` lasts.

        What the budget does not cover goes on on the processes' own threads.
        """
        with self._lock:
            self._closed = True
            processes = list(self._processes)
        # SIGKILL must come, and be waited for, inside the budget too.
        grace = min(GRACE, budget.remaining() / 2)
        for process in processes:
            process.close(grace)
        for process in processes:
            while not process.join(min(budget.remaining(), _JOIN_SLICE)) and not budget.ended:
                pass

    def abandon(self) -> None:
        """In a forked child: let go of the parent's processes; take no lock."""
        self._lock = threading.Lock()
        self._closed = True
        for process in list(self._processes):
            process.abandon()
        self._processes.clear()


def _saturated(code: str, detail: str) -> OperationalFailure:
    return OperationalFailure(FailureClass.SATURATED, code, detail)
