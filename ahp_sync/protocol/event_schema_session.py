"""Schemas of ``session.*``, ``config.*`` and ``hook.*`` events."""

from __future__ import annotations

from ahp_sync.protocol.content_schema import MESSAGES
from ahp_sync.protocol.event_schema import COUNTERS, IDENTITY, SESSION, event
from ahp_sync.protocol.manifest_schema import MANIFEST
from ahp_sync.protocol.schema_forms import NAME, OBJECT, Schema, array, closed, one_of, when

__all__ = ["SESSION_EVENTS"]

_CHANGE = {"source": NAME, "scope": NAME, "settings": array(NAME), "summary": NAME}

SESSION_EVENTS: dict[str, Schema] = {
    "session.start": event(
        {
            "session": SESSION,
            "trigger": one_of("startup", "resume", "clear", "compact", "fork"),
            "permissionMode": NAME,
            "manifest": MANIFEST,
            "items": MESSAGES,
        },
        {"resumedFrom": IDENTITY},
        absent=["tool", "outcome"],
        rules=[when("trigger", ["clear", "fork"], {"required": ["resumedFrom"]})],
    ),
    "session.end": event(
        {
            "session": SESSION,
            "outcome": one_of("completed", "cancelled", "error", "unknown"),
            "reason": NAME,
        },
        {"counters": COUNTERS},
        absent=["tool"],
    ),
    "config.change.before": event({"change": closed(_CHANGE, {"path": NAME})}),
    "config.change.after": event(
        {"change": closed(_CHANGE, {"path": NAME, "mcpServers": array(OBJECT)})}
    ),
    "hook.failure": event(
        {
            "failure": closed(
                {
                    "backendId": NAME,
                    "reason": NAME,
                    "policy": one_of("fail-open", "fail-closed"),
                }
            ),
            "parentEventId": NAME,
        }
    ),
}
