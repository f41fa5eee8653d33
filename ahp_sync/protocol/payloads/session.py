"""Payloads of ``session.*``, ``config.*`` and ``hook.*`` events."""

from __future__ import annotations

from typing import Literal, Mapping, Sequence, TypedDict

from ahp_sync.protocol.payloads.content import Message
from ahp_sync.protocol.payloads.objects import (
    Identity,
    Json,
    Payload,
    PayloadWithParts,
    SessionInfo,
)

__all__ = [
    "ConfigChange",
    "ConfigChangeAfter",
    "ConfigChangeBefore",
    "ConfigChanged",
    "FailurePolicyName",
    "HookFailure",
    "HookFailureInfo",
    "SessionEnd",
    "SessionOutcome",
    "SessionStart",
    "SessionTrigger",
]

#: Why a session begins.
SessionTrigger = Literal["startup", "resume", "clear", "compact", "fork"]

#: How a session ended.
SessionOutcome = Literal["completed", "cancelled", "error", "unknown"]


class _SessionStart(Payload):
    session: SessionInfo
    trigger: SessionTrigger
    permissionMode: str
    items: Sequence[Message]


class SessionStart(_SessionStart, total=False):
    """``session.start``: a session begins.

    ``permissionMode`` is the host's own word. ``items`` are the messages it begins with. The
    triggers ``clear`` and ``fork`` need ``resumedFrom``, the earlier session. ``manifest`` says
    what the host can do (R-CAP-06); the client fills it in.

    Interceptable: inject.
    """

    resumedFrom: Identity
    manifest: Json


class _SessionEnd(PayloadWithParts):
    session: SessionInfo
    outcome: SessionOutcome
    reason: str


class SessionEnd(_SessionEnd, total=False):
    """``session.end``: a session ended; ``reason`` says why, in words.

    ``counters`` are totals by name, integers from 0; one that is missing is unknown.

    Only observed.
    """

    counters: Mapping[str, int]


class _ConfigChange(TypedDict):
    source: str
    scope: str
    settings: Sequence[str]
    summary: str


class ConfigChange(_ConfigChange, total=False):
    """Which settings change: where it comes from, for whom it counts, which ones, and in words.

    ``path`` is the file that holds them.
    """

    path: str


class ConfigChanged(ConfigChange, total=False):
    """As :class:`ConfigChange`; ``mcpServers`` are the servers found now, as the host has them."""

    mcpServers: Sequence[Json]


class ConfigChangeBefore(PayloadWithParts):
    """``config.change.before``: the host's configuration is about to change.

    Interceptable: deny.
    """

    change: ConfigChange


class ConfigChangeAfter(PayloadWithParts):
    """``config.change.after``: the host's configuration has changed.

    Only observed.
    """

    change: ConfigChanged


#: What was declared for a failing interceptor.
FailurePolicyName = Literal["fail-open", "fail-closed"]


class HookFailureInfo(TypedDict):
    """Which backend failed, why (no secret, no text of the backend's), and what that led to."""

    backendId: str
    reason: str
    policy: FailurePolicyName


class HookFailure(PayloadWithParts):
    """``hook.failure``: an interceptor failed at the event ``parentEventId`` (R-FAIL-05).

    The client tells this by itself where the host declares the event.

    Only observed.
    """

    failure: HookFailureInfo
    parentEventId: str
