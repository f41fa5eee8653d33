"""Schemas of ``task.*``, ``workspace.*`` and ``file.*`` events."""

from __future__ import annotations

from ahp_sync.protocol.content_schema import PART, SYNTHESIZED
from ahp_sync.protocol.event_schema import event
from ahp_sync.protocol.schema_forms import (
    BOOLEAN,
    NAME,
    OBJECT,
    TEXT,
    Schema,
    array,
    closed,
    one_of,
)

__all__ = ["WORKSPACE", "WORK_EVENTS"]

# Entries of other types than text are refused as such before they are compared with each other,
# which would take long for a long list of them.
_ROOTS: Schema = {
    **array(NAME),
    "if": {"items": TEXT},
    "then": {"uniqueItems": True},
}
WORKSPACE: Schema = {**closed({}, {"cwd": NAME, "workspaceRoots": _ROOTS}), "minProperties": 1}

_OPERATION = one_of("create", "update", "remove")
_TASK = event(
    {
        "task": closed(
            {"id": NAME, "operation": _OPERATION, "change": OBJECT},
            {"prior": OBJECT, "description": TEXT, **SYNTHESIZED},
        )
    }
)
_WORKSPACE = event(
    {
        "workspace": closed(
            {"kind": one_of("cwd", "roots", "switch"), "change": WORKSPACE},
            {"prior": WORKSPACE, "reason": TEXT},
        )
    }
)
_FILE = closed(
    {"path": NAME, "operation": _OPERATION, "agentCaused": BOOLEAN},
    {"before": PART, "after": PART},
)

WORK_EVENTS: dict[str, Schema] = {
    "task.change.before": _TASK,
    "task.change.after": _TASK,
    "workspace.change.before": _WORKSPACE,
    "workspace.change.after": _WORKSPACE,
    "file.changed": event({"changes": array(_FILE, minItems=1)}),
}
