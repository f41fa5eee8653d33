"""The time a call has left: one monotonic deadline, handed down every layer as an argument.

A :class:`Budget` is made once, where a call enters the library, and every layer below takes its
waits from it. It tells two ends apart: it *expired* (time ran out) or it was *cancelled* (somebody
asked for the end). Nothing in here runs a timer: whoever waits on behalf of a budget notices the
expiry and calls :meth:`Budget.abort`, whose callbacks shut the sockets and end the processes that
others are blocked on.

The class takes no lock. Every change is a single dictionary operation, which the interpreter makes
atomic, so a budget can be cancelled from any thread, from a signal handler, and in a forked child
(failure semantics: "Enclosing operation budgets and shutdown").
"""

from __future__ import annotations

import itertools
import logging
import math
import threading
import time
import weakref
from typing import Callable, Optional

__all__ = ["Budget", "BudgetEnded", "positive_seconds"]

_log = logging.getLogger("ahp_sync")

# A lock, a selector or a socket refuses a time-out of many years; no wait of ours needs one.
LONGEST_WAIT = 86_400.0


class BudgetEnded(Exception):
    """Raised inside the library where work meets the end of its budget. Never reaches the host."""


def positive_seconds(seconds: object, name: str) -> float:
    """Return ``seconds`` as a float if it is a positive, finite number; the unit is seconds.

    Raises :class:`TypeError` for anything but an int or a float (``True`` is refused) and
    :class:`ValueError` for zero, negatives, NaN and infinities. ``name`` is what the message calls
    the value.
    """
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise TypeError(f"{name} must be a number of seconds, not {type(seconds).__name__}")
    try:
        number = float(seconds)
    except OverflowError:
        number = math.inf
    if not (math.isfinite(number) and number > 0):
        raise ValueError(f"{name} must be a positive, finite number of seconds, not {number!r}")
    return number


class Budget:
    """A deadline on the monotonic clock, with cancellation. All times are in seconds.

    :param seconds: how long from now, a positive finite number (:class:`ValueError` and
        :class:`TypeError` as in :func:`positive_seconds`).
    :param clock: the monotonic clock, for tests that move it by hand.

    A call given a budget ends by its deadline: queue waits, credentials, connection, sending,
    backend time, parsing, acceptance, retries and observers all consume it (AHP-FAIL-002, R-DL-02).
    Budgets may be shared between threads and between calls.
    """

    __slots__ = (
        "__weakref__",
        "_aborted",
        "_callbacks",
        "_cancelled",
        "_children",
        "_clock",
        "_deadline",
        "_keys",
        "_parent",
        "doing",
    )

    #: What the work under this budget is at, where that matters to who has to say why it ended.
    doing: Optional[str]

    def __init__(self, seconds: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._begin(clock() + positive_seconds(seconds, "a budget"), clock, None)

    def _begin(self, deadline: float, clock: Callable[[], float], parent: Optional[Budget]) -> None:
        self._clock = clock
        self._deadline = deadline
        self._parent = parent
        self.doing = None
        self._cancelled = False
        self._aborted = False
        self._keys = itertools.count()
        self._callbacks: dict[int, Callable[[], object]] = {}
        self._children: dict[int, weakref.ref[Budget]] = {}

    @classmethod
    def open_ended(cls, *, clock: Callable[[], float] = time.monotonic) -> Budget:
        """Return a budget without a deadline, which only cancellation ends.

        It is for a call whose host gave no budget: each wait below it has a limit of its own
        (``timeoutMs``, the observe time-out), so nothing is unlimited by it.
        """
        budget = cls.__new__(cls)
        budget._begin(math.inf, clock, None)
        return budget

    def child(self, seconds: Optional[float] = None) -> Budget:
        """Return a budget inside this one: it ends ``seconds`` from now, or with it.

        Cancelling or aborting the parent does the same to the child, never the other way round.
        Raises :class:`TypeError` and :class:`ValueError` as the constructor does.
        """
        deadline = self._deadline
        if seconds is not None:
            deadline = min(deadline, self._clock() + positive_seconds(seconds, "a budget"))
        child = Budget.__new__(Budget)
        child._begin(deadline, self._clock, self)
        children, key = self._children, next(self._keys)
        children[key] = weakref.ref(child, lambda _: children.pop(key, None))
        # The parent may have ended while the child was being entered: then nobody tells the child.
        if self._aborted:
            child._aborted = True
            child._cancelled = self._cancelled
        return child

    def remaining(self) -> float:
        """Return the seconds left, never negative; 0.0 once expired, cancelled or aborted."""
        if self._aborted or self.cancelled:
            return 0.0
        return max(0.0, self._deadline - self._clock())

    @property
    def expired(self) -> bool:
        """Whether the deadline has passed. A cancelled budget is not expired until then."""
        return self._clock() >= self._deadline

    @property
    def cancelled(self) -> bool:
        """Whether this budget, or one around it, was cancelled."""
        return self._cancelled or (self._parent is not None and self._parent.cancelled)

    @property
    def ended(self) -> bool:
        """Whether no work may begin any more: expired, cancelled or aborted."""
        return self._aborted or self.cancelled or self._clock() >= self._deadline

    def check(self) -> None:
        """Raise :class:`BudgetEnded` if the budget has ended."""
        if self.ended:
            raise BudgetEnded

    def cancel(self) -> None:
        """End the budget now, wake every wait under it and shut what others are blocked on.

        Safe to repeat, from any thread and from a signal handler. It does not wait.
        """
        self._end(cancelled=True)

    def abort(self) -> None:
        """Run the abort callbacks of this budget and its children, without calling it cancelled.

        Called by whoever waits, when the wait is over without an answer.
        """
        self._end(cancelled=False)

    def _end(self, *, cancelled: bool) -> None:
        if cancelled:
            self._cancelled = True
        self._aborted = True
        while self._callbacks:
            try:
                _, callback = self._callbacks.popitem()
            except KeyError:  # another thread took the last one
                break
            _run(callback)
        for reference in list(self._children.values()):
            child = reference()
            if child is not None:
                child._end(cancelled=cancelled)

    def on_abort(self, callback: Callable[[], object]) -> int:
        """Have ``callback`` called, once, when this budget is aborted or cancelled.

        Returns a key for :meth:`off_abort`. If the budget was aborted already, the callback runs
        before this returns. It must not block; what it raises is logged and goes no further.
        """
        key = next(self._keys)
        self._callbacks[key] = callback
        if self._aborted and self._callbacks.pop(key, None) is not None:
            _run(callback)
        return key

    def off_abort(self, key: int) -> None:
        """Forget the callback that :meth:`on_abort` returned ``key`` for."""
        self._callbacks.pop(key, None)

    def sleep(self, seconds: float) -> bool:
        """Sleep ``seconds``, but no longer than the budget lives; an end of the budget wakes it.

        Returns whether the whole time was slept.
        """
        pause = min(seconds, self.remaining())
        if pause > 0:
            # A bare lock: a signal handler that cancels would wait for ever for the lock inside an
            # Event, where the thread that it interrupted is just setting about to wait.
            gate = threading.Lock()
            gate.acquire()
            key = self.on_abort(gate.release)
            try:
                gate.acquire(timeout=min(pause, LONGEST_WAIT))
            finally:
                self.off_abort(key)
        return pause >= seconds and not self._aborted

    def __repr__(self) -> str:
        state = "cancelled" if self.cancelled else "expired" if self.expired else "running"
        return f"<Budget {state}, {self.remaining():.3f} s left>"


def _run(callback: Callable[[], object]) -> None:
    try:
        callback()
    except Exception:
        _log.exception("an abort callback failed")
