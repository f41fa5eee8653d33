"""The payloads of the events, from the arguments of the client's typed methods."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Sequence

from ahp_sync.errors import InvalidEvent
from ahp_sync.protocol.content import text_message
from ahp_sync.protocol.events import EVENTS
from ahp_sync.protocol.occurrence import new_id

__all__ = ["manifest", "session_end", "session_start", "tool_after", "tool_before"]


def _given(**members: Any) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


def tool_before(
    *,
    name: str,
    input: Mapping[str, Any],
    call_id: Optional[str],
    origin: str,
    kind: Optional[str],
    mcp: Optional[Mapping[str, Any]],
    path: str,
    batch: Optional[Mapping[str, Any]],
) -> dict[str, Any]:
    """Return the payload of ``tool.before``: the call, the tool and its path."""
    # An id that is made up here says so, and stays the call's for its life (R-EVT-04).
    call = {"id": new_id(), "synthesized": True} if call_id is None else {"id": call_id}
    tool = {"name": name, "origin": origin, "input": input, **_given(kind=kind, mcp=mcp)}
    return {"call": call, "tool": tool, "path": path, **_given(batch=batch)}


def tool_after(
    *,
    outcome: str,
    output: Optional[str],
    items: Optional[Sequence[Mapping[str, Any]]],
    error: Optional[Mapping[str, Any]],
    execution: Optional[Mapping[str, Any]],
    duration_ms: Optional[float],
    file_changes: Optional[Sequence[Mapping[str, Any]]],
    **call: Any,
) -> dict[str, Any]:
    """Return the payload of ``tool.after``; ``call`` is what :func:`tool_before` takes."""
    payload = tool_before(**call)
    if items is not None and output is not None:
        raise InvalidEvent("$.items", "both output and items", "one of the two")
    if items is None:
        prefix = f"{payload['call']['id']}-output"
        items = [] if output is None else [text_message(output, role="tool", prefix=prefix)]
    if execution is None:
        execution = _NOT_RUN if outcome == "denied" else {"status": "executed"}
    return {
        **payload,
        "outcome": outcome,
        "execution": execution,
        "items": items,
        **_given(error=error, durationMs=duration_ms, fileChanges=file_changes),
    }


# What "denied" implies where the host says nothing else.
_NOT_RUN = {"status": "skipped", "reason": "policy"}


def session_start(
    *,
    trigger: str,
    permission_mode: str,
    items: Sequence[Mapping[str, Any]],
    host_manifest: Optional[Mapping[str, Any]],
    resumed_from: Optional[str],
) -> dict[str, Any]:
    """Return the payload of ``session.start``; the manifest says what this version serves."""
    resumed = None if resumed_from is None else {"id": resumed_from}
    return {
        "trigger": trigger,
        "permissionMode": permission_mode,
        "manifest": manifest() if host_manifest is None else host_manifest,
        "items": items,
        **_given(resumedFrom=resumed),
    }


def session_end(
    *, outcome: str, reason: str, counters: Optional[Mapping[str, int]]
) -> dict[str, Any]:
    """Return the payload of ``session.end``."""
    return {"outcome": outcome, "reason": reason, **_given(counters=counters)}


def manifest() -> dict[str, Any]:
    """Return what this harness can do, derived from the event table (R-CAP-06)."""
    events = []
    for event in EVENTS.values():
        if not event.declared:
            continue
        entry: dict[str, Any] = {"event": event.name, "modes": ["observe"]}
        if event.intercept_effects:
            entry["modes"].append("intercept")
            entry["capabilities"] = {"effects": list(event.intercept_effects)}
        events.append(entry)
    return {
        "events": events,
        "gaps": [],
        "transports": ["http", "stdio"],
        "authentication": ["bearer"],
        "toolPaths": ["native"],
        "contentCategories": ["text", "images", "audio", "video", "files"],
        "limits": {},
        "managedPolicy": {"scopes": ["user", "project", "managed"], "disableable": False},
        "correlationIdentityFields": ["id", "session.id", "call.id"],
    }
