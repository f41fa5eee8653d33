"""What a hook call tells the host."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn, Optional

from ahp_sync.failure import Failure
from ahp_sync.settlement import Candidate, Denial

if TYPE_CHECKING:
    from ahp_sync.uploads import Attachment

__all__ = ["Decision", "Outcome"]


class Decision(str, enum.Enum):
    """How a hook call ended. Only ``PROCEED`` lets the host go on by itself."""

    #: The chain is complete and nothing speaks against the operation.
    PROCEED = "proceed"
    #: A backend denied, or a fail-closed subscription failed (then ``synthetic`` is true).
    DENY = "deny"
    #: The user has to approve first: the operation, or the result that waits in ``candidate``.
    ASK = "ask"
    #: A backend supplied the result, and somebody said yes to it; the operation itself is skipped.
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
    it. It is the word of the backends, and of the client's ``authorize`` and ``approve``: that
    nobody objected grants nothing which the host itself has not (R-ROLE-01). A result that was
    supplied in the operation's place is not even delivered unless a backend allowed it or one of
    the two said yes; else the decision is ``ASK`` (R-SET-09).

    :ivar decision: how the call ended, all things considered.
    :ivar event: the effective event, with every accepted edit in it.
    :ivar reason: text for the model: a backend's own words for an explicit denial or a stop, a
        generic sentence for everything else.
    :ivar denial: a backend's explicit denial, with its ``reason`` and, if it gave any, ``code`` and
        ``extensions``; None for every other one.
    :ivar synthetic: whether the denial is that of a fail-closed policy, and no backend's.
    :ivar permission: what the backends and the host's own state came to: ``"none"``, ``"allow"``,
        ``"ask"`` or ``"deny"`` (R-SET-07).
    :ivar candidate: the supplied result, deliverable or not; with ``ASK`` the host may deliver it
        once it has approved of it.
    :ivar messages: notes for the user, in order.
    :ivar injections: what to add to the context, as whole effects, in order.
    :ivar flow: ``"none"``, ``"stop"`` or ``"continue"``.
    :ivar instructions: what to go on with after ``"continue"``, in order.
    :ivar remaining_continuations: how many are left; None where none were granted.
    :ivar typed_input: what the call's ``input_codec`` made of the effective input.
    :ivar typed_result: what its ``result_codec`` made of the candidate's value.
    :ivar attachments: those that the host brought with the event, by the ``ref`` that the body of
        their parts has in ``event``.
    :ivar failures: the operational failures met on the way.
    :ivar failed_open: whether the chain went on over one of them (AHP-FAIL-001).
    """

    decision: Decision
    event: dict[str, Any]
    reason: Optional[str] = None
    synthetic: bool = False
    denial: Optional[Denial] = None
    permission: str = "none"
    candidate: Optional[Candidate] = None
    messages: tuple[str, ...] = ()
    injections: tuple[dict[str, Any], ...] = ()
    flow: str = "none"
    instructions: tuple[str, ...] = ()
    remaining_continuations: Optional[int] = None
    typed_input: Any = None
    typed_result: Any = None
    failures: tuple[Failure, ...] = ()
    failed_open: bool = False
    attachments: Mapping[str, Attachment] = field(default_factory=dict)

    @property
    def may_execute(self) -> bool:
        """Whether the operation may run now: the chain is complete and permits it."""
        return self.decision is Decision.PROCEED

    @property
    def has_result(self) -> bool:
        """Whether :attr:`result` stands in for running the operation."""
        return self.decision is Decision.SUPPLIED

    @property
    def result(self) -> Any:
        """The supplied result. Raises :class:`AttributeError` where there is none to deliver."""
        if not self.has_result or self.candidate is None:
            raise AttributeError(f"a call that ended in {self.decision.value!r} has no result")
        return self.candidate.value

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
