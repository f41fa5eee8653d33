"""A clock that tests move by hand."""

from __future__ import annotations

__all__ = ["Clock"]


class Clock:
    """A monotonic clock in seconds that stands still until it is moved."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        """Move on by ``seconds``."""
        self.now += seconds
