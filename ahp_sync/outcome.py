"""What a hook call tells the host."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any, NoReturn, Optional

from ahp_sync.failure import Failure

__all__ = ["Decision", "Outcome"]


class Decision(str, enum.Enum):
    """How a hook call ended. Only ``PROCEED`` lets the host go on by itself."""

    #: The chain is complete and nothing speaks against the operation.
    PROCEED = "proceed"
    #: A backend denied, or a fail-closed subscription failed (then ``synthetic`` is true).
    DENY = "deny"
    #: The user has to approve first.
    ASK = "ask"
    #: A backend supplied the result; the operation itself is skipped.
    SUPPLIED = "supplied"
    #: A backend ended the flow.
    STOP = "stop"
    #: The call was cancelled or the client closed before the chain was complete.
    INTERRUPTED = "interrupted"
    #: The call's budget ended before the chain was complete.
    EXPIRED = "expired"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Outcome:
    """The result of one hook call.

    Ask :attr:`may_execute`; an outcome has no truth value, so that ``if outcome:`` can't pass for
    it. ``reason`` is text for the model: a backend's own words for an explicit denial, a generic
    sentence for a synthetic one. ``failures`` are the operational failures met on the way, and
    ``failed_open`` tells that the chain went on over one of them (AHP-FAIL-001).
    """

    decision: Decision
    event: dict[str, Any]
    reason: Optional[str] = None
    synthetic: bool = False
    has_result: bool = False
    result: Any = None
    messages: tuple[str, ...] = ()
    injections: tuple[dict[str, Any], ...] = ()
    flow: str = "none"
    instructions: tuple[str, ...] = ()
    failures: tuple[Failure, ...] = ()
    failed_open: bool = field(default=False)

    @property
    def may_execute(self) -> bool:
        """Whether the operation may run now: the chain is complete and permits it."""
        return self.decision is Decision.PROCEED

    @property
    def input(self) -> dict[str, Any]:
        """The effective tool input to run with. Raises :class:`AttributeError` without a tool."""
        tool = self.event.get("tool")
        if tool is None:
            raise AttributeError(f"an event of type {self.event['type']!r} has no tool input")
        effective: dict[str, Any] = tool["input"]
        return effective

    def __bool__(self) -> NoReturn:
        raise TypeError("an Outcome is neither true nor false: ask outcome.may_execute")
