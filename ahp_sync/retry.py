"""Trying a delivery again, by tenacity, while and only while the same budget lives.

Whether a fault may be tried again is written on the :class:`OperationalFailure` by the layer that
met it; a decision, an empty success, a malformed answer and an authentication failure never are
(AHP-CORE-004, R-RETRY-01 to R-RETRY-03).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Callable, TypeVar

from ahp_sync.budget import Budget, positive_seconds
from ahp_sync.failure import OperationalFailure

if TYPE_CHECKING:
    import tenacity

__all__ = ["RetryPolicy", "prepare", "with_retries"]

T = TypeVar("T")


@dataclass(frozen=True)
class RetryPolicy:
    """How often, and how far apart, a delivery is tried. All times are in seconds.

    :param max_attempts: attempts altogether, at least 1 (1 means no retry).
    :param initial_backoff: the first pause; each further one is twice as long.
    :param max_backoff: the longest pause of ours. A backend's ``Retry-After`` may ask for more; it
        is honoured where it fits into the deadline and ends the retries where it does not.
    :param jitter: up to so much is added to each pause, at random; 0 for none.

    No attempt and no pause begins that can't end inside the deadline of the delivery. Raises
    :class:`TypeError` and :class:`ValueError` for values that make no sense.
    """

    max_attempts: int = 3
    initial_backoff: float = 0.05
    max_backoff: float = 1.0
    jitter: float = 0.02

    def __post_init__(self) -> None:
        attempts = self.max_attempts
        if isinstance(attempts, bool) or not isinstance(attempts, int):
            raise TypeError(f"max_attempts must be an integer, not {type(attempts).__name__}")
        if attempts < 1:
            raise ValueError(f"max_attempts must be at least 1, not {attempts}")
        positive_seconds(self.initial_backoff, "initial_backoff")
        positive_seconds(self.max_backoff, "max_backoff")
        if isinstance(self.jitter, bool) or self.jitter != 0:
            positive_seconds(self.jitter, "jitter")


def prepare() -> None:
    """Load tenacity, so that no call has to, and no fork meets it half loaded."""
    import tenacity

    assert tenacity


def with_retries(attempt: Callable[[int], T], budget: Budget, policy: RetryPolicy) -> T:
    """Call ``attempt(number)``, numbers from 1, until it succeeds or may not be tried again.

    Returns what it returns and raises what its last call raised. Blocks in ``budget.sleep``.
    """
    try:
        return attempt(1)  # most deliveries end here, and need none of the machinery below
    except OperationalFailure as failure:
        if not failure.retryable or policy.max_attempts == 1:
            raise
        first = failure
    return _retrying(attempt, first, budget, policy)


def _retrying(
    attempt: Callable[[int], T], first: OperationalFailure, budget: Budget, policy: RetryPolicy
) -> T:
    import tenacity

    # Not wait_exponential_jitter: its first argument has another name in each version of tenacity.
    backoff = tenacity.wait_exponential(
        multiplier=policy.initial_backoff, max=policy.max_backoff
    ) + tenacity.wait_random(0, policy.jitter)
    number = 0

    def pause(state: tenacity.RetryCallState) -> float:
        asked = _failure(state).retry_after
        return min(float(backoff(state)), policy.max_backoff) if asked is None else asked

    def enough(state: tenacity.RetryCallState) -> bool:
        used_up = state.attempt_number >= policy.max_attempts
        return used_up or state.upcoming_sleep >= budget.remaining()

    def sleep(seconds: float) -> None:
        budget.sleep(seconds)
        budget.check()

    def again() -> T:
        nonlocal number
        number += 1
        if number == 1:
            raise first
        return attempt(number)

    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception(
            lambda error: isinstance(error, OperationalFailure) and error.retryable
        ),
        wait=pause,
        stop=enough,
        sleep=sleep,
        reraise=True,
    )
    return retrying(again)


def _failure(state: tenacity.RetryCallState) -> OperationalFailure:
    assert state.outcome is not None
    error = state.outcome.exception()
    assert isinstance(error, OperationalFailure)
    return error
