"""Payloads of ``tool.*`` events."""

from __future__ import annotations

from typing import Literal, Sequence, TypedDict

from ahp_sync.protocol.payloads.content import Message
from ahp_sync.protocol.payloads.objects import (
    Batch,
    Call,
    ErrorInfo,
    Execution,
    FileChange,
    Identity,
    Json,
    Payload,
    PayloadWithParts,
    Tool,
    ToolOutcome,
    Turn,
)

__all__ = [
    "BatchCall",
    "DecidedBy",
    "PermissionDecision",
    "ToolAfter",
    "ToolBatchAfter",
    "ToolBefore",
    "ToolPermissionRequest",
    "ToolPermissionResolved",
    "ToolProgress",
]

#: What was decided about a tool call, and by whom.
PermissionDecision = Literal["allow", "deny"]
DecidedBy = Literal["user", "policy", "hook", "auto", "classifier"]


class _ToolCall(TypedDict):
    call: Call
    tool: Tool
    path: str


class _ToolCallMore(_ToolCall, total=False):
    batch: Batch
    turn: Turn


class ToolBefore(_ToolCallMore, PayloadWithParts):
    """``tool.before``: a tool call is about to run; its name and input are final.

    ``path`` is how the tool is reached, such as ``native``; ``batch`` what the call belongs to. A
    ``return`` brings the result, any JSON, null too (R-PAY-01).

    Interceptable: deny, allow, ask, modify(input), return, flow(stop), inject.
    """


class _ToolAfter(_ToolCallMore, Payload):
    outcome: ToolOutcome
    execution: Execution
    items: Sequence[Message]


class ToolAfter(_ToolAfter, total=False):
    """``tool.after``: what became of a tool call, once for each, denied ones too (R-PAY-04).

    ``items`` are the messages of its output. ``error`` is there if and only if that is the outcome.
    ``denied`` is skipped by policy. ``durationMs``, milliseconds from 0, and ``fileChanges`` are
    not there for what was skipped.

    Interceptable: modify(output), flow(stop, continue), inject.
    """

    error: ErrorInfo
    durationMs: float
    fileChanges: Sequence[FileChange]


class ToolPermissionRequest(_ToolCallMore, PayloadWithParts):
    """``tool.permission.request``: the host is about to ask for a permission.

    ``suggestions`` are rules of the host's own that would settle it. ``sandboxBypass``: the call
    wants out of the sandbox.

    Interceptable: deny, allow, modify(input), flow(stop).
    """

    suggestions: Sequence[Json]
    sandboxBypass: bool


class ToolPermissionResolved(_ToolCallMore, PayloadWithParts):
    """``tool.permission.resolved``: a permission was given or refused, and by whom.

    Only observed.
    """

    decision: PermissionDecision
    decidedBy: DecidedBy


class ToolProgress(_ToolCallMore, PayloadWithParts):
    """``tool.progress``: what a call that still runs has said.

    ``backgrounded``: the host does not wait for it any more.

    Only observed.
    """

    partialOutput: Message
    backgrounded: bool


class _BatchCall(_ToolCall):
    outcome: ToolOutcome
    execution: Execution


class BatchCall(_BatchCall, total=False):
    """One call of a batch and what became of it; ``denied`` is skipped by policy."""

    batch: Batch


class _ToolBatch(PayloadWithParts):
    batch: Identity
    calls: Sequence[BatchCall]


class ToolBatchAfter(_ToolBatch, total=False):
    """``tool.batch.after``: all calls of a batch are resolved; there is at least one.

    Interceptable: flow(stop), inject.
    """

    turn: Turn
