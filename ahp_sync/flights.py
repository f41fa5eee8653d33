"""Work that is done once for all who wait for it (single flight).

It has a budget of its own. Who waits does so within another, and takes nothing along when leaving;
a flight that does not end by its own budget is abandoned, and its worker written off.
"""

from __future__ import annotations

import contextvars
import logging
import threading
from typing import Callable, Generic, Optional, TypeVar, Union

from ahp_sync.budget import LONGEST_WAIT, Budget, BudgetEnded
from ahp_sync.failure import OperationalFailure
from ahp_sync.workers import DeliveryExecutor, Job

__all__ = ["Flight"]

_log = logging.getLogger("ahp_sync")

T = TypeVar("T")


class Flight(Generic[T]):
    """One piece of work under way.

    :param executor: what it runs on; :meth:`begin` starts it.
    :param limit: its own budget.
    :param late: returns the failure of one that did not end in time.
    """

    def __init__(
        self,
        executor: DeliveryExecutor,
        limit: Budget,
        late: Callable[[], OperationalFailure],
    ) -> None:
        self.limit = limit
        self._executor = executor
        self._late = late
        # The first one counts. A result is in a tuple, since it may be None.
        self._outcomes: list[Union[tuple[T], OperationalFailure]] = []
        # A gate for each who waits, so that the end of one budget wakes nobody else.
        self._gates: dict[int, threading.Lock] = {}
        self._job: Optional[Job] = None

    def begin(self, work: Callable[[], T]) -> None:
        """Start the work, in a context of nobody's own: it is done for everybody.

        What it raises becomes the failure of all who wait; ``BudgetEnded`` the one of being late.
        """
        try:
            self._job = contextvars.Context().run(
                self._executor.start, self.limit, lambda: self._do(work)
            )
        except OperationalFailure as failure:
            self._settle(failure.with_traceback(None))
        except (BudgetEnded, RuntimeError):  # the client is being closed
            self._settle(self._late())

    def wait(self, budget: Budget, lender: DeliveryExecutor) -> T:
        """Return the result, waiting within ``budget``.

        :param lender: the executor whose worker may be waiting here, and lends its place.

        Raises what the work came to, and ``BudgetEnded`` where it was ``budget`` that ended.
        """
        if not self._outcomes:
            with lender.away():
                self._watch(budget)
        if not self._outcomes:
            budget.check()
            self.abandon()
        outcome = self._outcomes[0]
        if isinstance(outcome, OperationalFailure):  # everybody gets one of his own
            raise OperationalFailure(outcome.failure_class, outcome.code, outcome.detail) from None
        return outcome[0]

    def abandon(self) -> None:
        """End it now, leave the worker if it hangs, and tell who waits."""
        self.limit.abort()
        if self._job is not None:
            try:
                self._executor.finish(self._job, self.limit)
            except (OperationalFailure, BudgetEnded):
                pass
        self._settle(self._late())

    def _do(self, work: Callable[[], T]) -> None:
        try:
            result = work()
        except OperationalFailure as failure:
            self._settle(failure.with_traceback(None))
        except BudgetEnded:
            self._settle(self._late())
        except BaseException as error:  # ours to mend; nobody is to wait for it meanwhile
            _log.error("work for all who wait failed: %s", type(error).__name__)
            self._settle(self._late())
        else:
            self._settle((result,))

    def _watch(self, budget: Budget) -> None:
        """Wait until there is an outcome, or ``budget`` or the flight's own has ended."""
        # A bare lock, as in Budget.sleep: a signal handler may cancel the budget at any point.
        gate = threading.Lock()
        gate.acquire()
        me = id(gate)
        self._gates[me] = gate
        keys = [(one, one.on_abort(lambda: _open(gate))) for one in (budget, self.limit)]
        try:
            while not self._outcomes:
                left = min(budget.remaining(), self.limit.remaining(), LONGEST_WAIT)
                if left <= 0:
                    return
                gate.acquire(timeout=left)
        finally:
            self._gates.pop(me, None)
            for one, key in keys:
                one.off_abort(key)

    def _settle(self, outcome: Union[tuple[T], OperationalFailure]) -> None:
        self._outcomes.append(outcome)
        # Who enters a gate later than this sees the outcome before waiting at it.
        for gate in list(self._gates.values()):
            _open(gate)


def _open(gate: threading.Lock) -> None:
    try:
        gate.release()
    except RuntimeError:
        pass  # it is open already
