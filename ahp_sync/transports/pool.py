"""Which process of a backend takes which message, and when another one is started."""

from __future__ import annotations

import enum
import logging
import threading
from typing import Callable, Optional

from ahp_sync.budget import Budget
from ahp_sync.failure import FailureClass, OperationalFailure
from ahp_sync.transports.child import Launch
from ahp_sync.transports.persistent import PersistentProcess
from ahp_sync.transports.process import Roster, closed_failure
from ahp_sync.transports.promise import Promise

__all__ = ["Pool"]

_log = logging.getLogger("ahp_sync")

# Who has waited until so little was left stops: the failure should say what ate the time, and has
# to be there before the deadline to be heard.
_TELL_BEFORE = 0.005

# Something decided under the lock and done outside it; what it brings about is to be done as well.
_Step = Callable[[], "list[_Step]"]


class _Slot(enum.Enum):
    STARTING = "starting"
    IDLE = "idle"
    BUSY = "busy"


class _Waiter(Promise[PersistentProcess]):
    def __init__(self, rpc_id: Optional[str]) -> None:
        super().__init__()
        self.rpc_id = rpc_id


class Pool:
    """The persistent processes of one backend.

    A message takes the oldest idle process that has not seen its JSON-RPC id: one id never goes
    twice down one process, so that no answer given twice can be taken for another's (T-01, T-02),
    and a backend that keeps state sees everything in one process while nothing runs side by side.
    ``processes`` bounds the ones that work on different ids at once, ``processes * lanes`` all.
    """

    def __init__(self, launch: Launch, roster: Roster, *, processes: int, lanes: int) -> None:
        self._launch = launch
        self._roster = roster
        self._processes = processes
        self._limit = processes * lanes
        self._lock = threading.Lock()
        self._slots: dict[PersistentProcess, _Slot] = {}  # the oldest first
        self._waiters: list[_Waiter] = []  # the longest waiting first
        self._closed = False

    def __repr__(self) -> str:
        slots = list(self._slots.values())
        counts = ", ".join(f"{slots.count(slot)} {slot.value}" for slot in _Slot)
        return f"<Pool {counts}, {len(self._waiters)} waiting>"

    def acquire(self, rpc_id: Optional[str], budget: Budget) -> PersistentProcess:
        """Return a process that has not seen ``rpc_id``, for the caller alone until it is released.

        Waits for one as long as ``budget`` lasts. Raises ``OperationalFailure`` if none can be
        started, none was free in time (``saturated``), or the pool closes; ``BudgetEnded``.
        """
        waiter = _Waiter(rpc_id)
        with self._lock:
            if self._closed:
                raise closed_failure()
            self._waiters.append(waiter)
            steps = self._plan()
        self._carry_out(steps)
        self._wait(waiter, budget)
        self._stop_waiting(waiter)
        process = waiter.result()
        assert process is not None
        return process

    def release(self, process: PersistentProcess) -> None:
        """Give a process back, unless it has been retired meanwhile."""
        self._now(process, _Slot.IDLE)

    def close(self) -> None:
        """Hand out nothing any more, and fail those who wait."""
        with self._lock:
            self._closed = True
            waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter.fail(closed_failure())

    def abandon(self) -> None:
        """In a forked child: forget everything; take no lock."""
        self._lock = threading.Lock()
        self._closed = True
        self._slots, self._waiters = {}, []

    # What the processes tell

    def ready(self, process: PersistentProcess) -> None:
        self._now(process, _Slot.IDLE)

    def not_started(self, process: PersistentProcess, failure: OperationalFailure) -> None:
        self._carry_out(self._after_failed_start(process, failure))

    def gone(self, process: PersistentProcess) -> None:
        with self._lock:
            self._slots.pop(process, None)
            steps = self._plan()
        self._carry_out(steps)

    def _now(self, process: PersistentProcess, slot: _Slot) -> None:
        with self._lock:
            if process in self._slots:
                self._slots[process] = slot
            steps = self._plan()
        self._carry_out(steps)

    def _after_failed_start(
        self, process: PersistentProcess, failure: OperationalFailure
    ) -> list[_Step]:
        with self._lock:
            self._slots.pop(process, None)
            # It was started for the longest waiting; if that one got another, for the next.
            waiter = self._waiters.pop(0) if self._waiters else None
            steps = self._plan()
        if waiter is None:
            _log.info("%s", failure)
        else:
            waiter.fail(failure)
        return steps

    # Decisions, under the lock

    def _plan(self) -> list[_Step]:
        """Hand idle processes to waiters and return what else is to be done, outside the lock."""
        steps: list[_Step] = []
        if self._closed:
            return steps
        on_their_way = sum(slot is _Slot.STARTING for slot in self._slots.values())
        for waiter in list(self._waiters):
            process = self._idle_for(waiter.rpc_id)
            if process is not None:
                self._hand_over(process, waiter)
            elif on_their_way > 0:
                on_their_way -= 1
            else:
                steps += self._start_for(waiter.rpc_id)
        return steps

    def _idle_for(self, rpc_id: Optional[str]) -> Optional[PersistentProcess]:
        for process, slot in self._slots.items():
            if slot is _Slot.IDLE and not process.has_seen(rpc_id):
                return process
        return None

    def _hand_over(self, process: PersistentProcess, waiter: _Waiter) -> None:
        self._slots[process] = _Slot.BUSY
        process.remember(waiter.rpc_id)
        self._waiters.remove(waiter)
        waiter.settle(process)

    def _start_for(self, rpc_id: Optional[str]) -> list[_Step]:
        steps: list[_Step] = []
        if sum(not process.has_seen(rpc_id) for process in self._slots) >= self._processes:
            return steps
        if len(self._slots) >= self._limit:
            spare = self._newest_idle()
            if spare is None:
                return steps
            del self._slots[spare]
            steps.append(lambda: _retire(spare))
        process = PersistentProcess(self._launch, self)
        self._slots[process] = _Slot.STARTING
        steps.append(lambda: self._start(process))
        return steps

    def _newest_idle(self) -> Optional[PersistentProcess]:
        idle = [process for process, slot in self._slots.items() if slot is _Slot.IDLE]
        return idle[-1] if idle else None

    # Deeds, outside the lock

    def _carry_out(self, steps: list[_Step]) -> None:
        while steps:
            steps.extend(steps.pop(0)())

    def _start(self, process: PersistentProcess) -> list[_Step]:
        try:
            process.start(self._roster)
        except OperationalFailure as failure:
            return self._after_failed_start(process, failure)
        return []

    def _wait(self, waiter: _Waiter, budget: Budget) -> None:
        try:
            if not (waiter.is_settled or waiter.wait(budget, spare=_TELL_BEFORE)):
                self._give_up_if_busy(waiter, budget)
                waiter.wait(budget)
        except BaseException:  # an interrupt of the host, who will not take the process any more
            self._stop_waiting(waiter)
            if (process := waiter.peek()) is not None:
                self.release(process)
            raise

    def _give_up_if_busy(self, waiter: _Waiter, budget: Budget) -> None:
        with self._lock:
            is_busy = _Slot.BUSY in self._slots.values()
            if waiter.is_settled or budget.cancelled or not is_busy:
                return
            self._waiters.remove(waiter)
        waiter.fail(
            OperationalFailure(
                FailureClass.SATURATED,
                "process_busy",
                "every process of the backend was busy until the deadline",
            )
        )

    def _stop_waiting(self, waiter: _Waiter) -> None:
        """From here on nobody hands ``waiter`` a process; it may have got one already."""
        with self._lock:
            if waiter in self._waiters:
                self._waiters.remove(waiter)


def _retire(process: PersistentProcess) -> list[_Step]:
    process.retire()
    return []
