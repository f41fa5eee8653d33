"""Payloads of ``model.*`` and ``context.*`` events."""

from __future__ import annotations

from typing import Literal, Sequence, TypedDict

from ahp_sync.protocol.payloads.content import Message, TextPart
from ahp_sync.protocol.payloads.objects import (
    Attempt,
    AttemptUsage,
    ErrorInfo,
    Executed,
    Json,
    Model,
    Payload,
    PayloadWithParts,
    Pricing,
    ResultExecution,
    Turn,
)

__all__ = [
    "CompactTrigger",
    "ContextCompactAfter",
    "ContextCompactBefore",
    "ModelError",
    "ModelRequestBefore",
    "ModelResponseAfter",
    "ModelSwitchAfter",
    "ModelSwitchBefore",
    "RemovedItem",
    "TokenCounts",
    "TokensBefore",
]


class _InTurn(TypedDict, total=False):
    turn: Turn


class _Request(Payload, _InTurn):
    model: Model
    attempt: Attempt


class ModelRequestBefore(_Request):
    """``model.request.before``: a request is about to go to a model; ``items`` are its messages.

    ``params`` is what goes with them, as the host has it: temperature, limits, tools. A ``return``
    brings the answer, a list of messages (R-PAY-01).

    Interceptable: deny, modify(request), return, flow(stop), inject.
    """

    params: Json
    items: Sequence[Message]


class _ModelResponse(_Request):
    execution: ResultExecution
    items: Sequence[Message]
    finishReason: str


class ModelResponseAfter(_ModelResponse, total=False):
    """``model.response.after``: a model has answered; ``items`` are the messages of its answer.

    ``latencyMs``: milliseconds from 0. ``execution`` is skipped only as ``supplied_result``, and
    there is no ``usage`` and no ``latencyMs`` then.

    Interceptable: modify(response), flow(stop).
    """

    usage: AttemptUsage
    latencyMs: float


class _ModelError(PayloadWithParts, _InTurn):
    model: Model
    attempt: Attempt
    execution: Executed
    error: ErrorInfo


class ModelError(_ModelError, total=False):
    """``model.error``: a request failed; ``execution`` is always ``executed``.

    ``latencyMs``: milliseconds from 0. ``recovery`` says what the host does about it, in words.

    Only observed.
    """

    usage: AttemptUsage
    latencyMs: float
    recovery: str


class _ModelSwitch(PayloadWithParts, _InTurn):
    current: Model
    proposed: Model
    reason: str


class ModelSwitchBefore(_ModelSwitch, total=False):
    """``model.switch.before``: ``proposed`` is about to take the place of ``current``.

    ``pricing`` is that of the proposed model.

    Interceptable: deny, flow(stop).
    """

    pricing: Pricing


class ModelSwitchAfter(PayloadWithParts, _InTurn):
    """``model.switch.after``: ``current`` has taken the place of ``previous``.

    Only observed.
    """

    previous: Model
    current: Model
    reason: str


# --- compaction -----------------------------------------------------------------------------------

#: What made a compaction begin.
CompactTrigger = Literal["auto", "manual", "hook"]


class TokensBefore(TypedDict, total=False):
    """How many tokens the context has ``before`` a compaction, from 0."""

    before: int


class TokenCounts(TokensBefore, total=False):
    """As :class:`TokensBefore`, and how many it is to have ``after`` it."""

    after: int


class RemovedItem(TypedDict):
    """A message that the summary stands for."""

    id: str


class _CompactBefore(Payload, _InTurn):
    trigger: CompactTrigger
    items: Sequence[Message]


class ContextCompactBefore(_CompactBefore, total=False):
    """``context.compact.before``: ``items``, the context, is about to be summed up.

    ``instructions`` tell the model how. A ``return`` brings the summary, a list of text parts
    (R-PAY-01).

    Interceptable: deny, modify(instructions), return, inject.
    """

    instructions: Sequence[TextPart]
    tokenCounts: TokensBefore


class _CompactAfter(Payload, _InTurn):
    summary: Sequence[TextPart]
    removed: Sequence[RemovedItem]
    execution: ResultExecution


class ContextCompactAfter(_CompactAfter, total=False):
    """``context.compact.after``: there is a summary, which the context does not hold yet.

    ``removed`` are the messages that it is to replace, ``items`` those that the host wants to
    show. ``execution`` is skipped only as ``supplied_result``.

    Interceptable: modify(summary), inject.
    """

    items: Sequence[Message]
    tokenCounts: TokenCounts
