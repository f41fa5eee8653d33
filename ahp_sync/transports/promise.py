"""Something one thread waits for, within a budget, and another one settles."""

from __future__ import annotations

import threading
from typing import Generic, Optional, TypeVar

from ahp_sync.budget import LONGEST_WAIT, Budget, BudgetEnded
from ahp_sync.failure import OperationalFailure

__all__ = ["Promise"]

T = TypeVar("T")


class Promise(Generic[T]):
    """A result that is still to come: a value or an ``OperationalFailure``."""

    def __init__(self) -> None:
        self._woken = threading.Event()
        self._outcome: Optional[tuple[Optional[T], Optional[OperationalFailure]]] = None

    @property
    def is_settled(self) -> bool:
        """Whether the result has come."""
        return self._outcome is not None

    def settle(self, value: Optional[T] = None) -> None:
        """Give the result, and wake who waits for it."""
        self._outcome = (value, None)
        self._woken.set()

    def fail(self, failure: OperationalFailure) -> None:
        """Give a failure as the result."""
        self._outcome = (None, failure)
        self._woken.set()

    def wait(self, budget: Budget, *, spare: float = 0.0) -> bool:
        """Wait until it is settled, or ``budget`` has ``spare`` seconds left or is aborted.

        Returns whether it is settled.
        """
        key = budget.on_abort(self._woken.set)
        try:
            while not (self._woken.is_set() or budget.remaining() <= spare):
                self._woken.wait(min(budget.remaining() - spare, LONGEST_WAIT))
        finally:
            budget.off_abort(key)
        return self.is_settled

    def peek(self) -> Optional[T]:
        """Return the value if it has come, and None otherwise."""
        return None if self._outcome is None else self._outcome[0]

    def result(self) -> Optional[T]:
        """Return the value, or raise the failure; :class:`BudgetEnded` if nothing came."""
        if self._outcome is None:
            raise BudgetEnded
        value, failure = self._outcome
        if failure is not None:
            raise failure
        return value
