"""Payloads of ``turn.*`` events."""

from __future__ import annotations

from typing import Literal, Sequence

from ahp_sync.protocol.payloads.content import Message
from ahp_sync.protocol.payloads.objects import (
    ErrorInfo,
    Item,
    Payload,
    PayloadWithParts,
    Turn,
    TurnOutcome,
    TurnUsage,
)

__all__ = ["TurnEnd", "TurnFinishBefore", "TurnProgress", "TurnStart", "TurnTrigger"]

#: What made a turn begin.
TurnTrigger = Literal["user", "continuation", "hook", "external"]


class _TurnStart(Payload):
    turn: Turn
    trigger: TurnTrigger
    items: Sequence[Message]


class TurnStart(_TurnStart, total=False):
    """``turn.start``: a turn begins; ``items`` are the messages it begins with.

    ``expandedFrom`` is the host's own word for what was expanded into them, such as a command.

    Interceptable: deny, modify(prompt), flow(stop), inject.
    """

    expandedFrom: str


class _Ending(Payload):
    turn: Turn
    outcome: TurnOutcome
    continuationCount: int
    items: Sequence[Message]


class TurnFinishBefore(_Ending, total=False):
    """``turn.finish.before``: a turn is about to end; ``items`` are the messages it ends with.

    ``continuationCount``: how often it was continued already, from 0. ``lastAssistantItem`` is the
    last message of the assistant. ``usage`` is that of the whole turn.

    Interceptable: modify(response), flow(stop, continue).
    """

    lastAssistantItem: Item
    usage: TurnUsage


class TurnEnd(_Ending, total=False):
    """``turn.end``: a turn ended. As :class:`TurnFinishBefore`.

    ``error`` may be there unless the outcome is ``completed``.

    Only observed.
    """

    lastAssistantItem: Item
    usage: TurnUsage
    error: ErrorInfo


class TurnProgress(PayloadWithParts):
    """``turn.progress``: something more of the message ``item``, namely ``delta``.

    ``final``: nothing more comes of it.

    Only observed.
    """

    turn: Turn
    item: Item
    delta: Message
    final: bool
