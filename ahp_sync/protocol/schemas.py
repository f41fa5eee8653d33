"""Our own JSON schema documents: one per event type and one per effect type, picked by name.

They are small and hold no reference, so that the pure-Python validator stays cheap (design
decision 6). An event's document covers what a call brings along; ``id``, ``source``, ``type``,
``time`` and ``harness`` are made or checked by the client itself. ``format`` is not relied on
(field bug F64).
"""

from __future__ import annotations

from ahp_sync.protocol.manifest_schema import MANIFEST
from ahp_sync.protocol.mcp_schema import MCP
from ahp_sync.protocol.schema_forms import (
    BOOLEAN,
    COUNT,
    END,
    NAME,
    OBJECT,
    REVERSE_DNS,
    TEXT,
    Schema,
    array,
    closed,
    forbidden,
    one_of,
    opened,
    when,
    without,
)

__all__ = ["EFFECT_SCHEMAS", "EVENT_SCHEMAS"]

SYNTHESIZED = {"synthesized": BOOLEAN}
COUNTERS: Schema = {"type": "object", "additionalProperties": COUNT}
EXTENSIONS: Schema = {"type": "object", "propertyNames": {"pattern": REVERSE_DNS}}
IDENTITY = closed({"id": NAME}, SYNTHESIZED)

# --- content (R-CON-01, R-CON-02) -----------------------------------------------------------------

MEDIA_TYPE: Schema = {
    "type": "string",
    "minLength": 1,
    "not": {"pattern": "^(?:[Tt][Ee][Xx][Tt]/|[^/]+/(?:[^;]+\\+)?[Jj][Ss][Oo][Nn](?:;|\\n?$))"},
}
GAP = closed({"reason": NAME}, {"path": NAME})
MEASURES = {"size": COUNT, "sha256": {"type": "string", "pattern": f"^[a-f0-9]{{64}}{END}"}}


def _part(kind: str, media_type: Schema, selection: str, **own: Schema) -> Schema:
    required = {
        "id": NAME,
        "kind": {"const": kind},
        "mediaType": media_type,
        "selection": {"const": selection},
        **own,
    }
    measures = {} if "text" in own else MEASURES
    return closed(required, {"category": NAME, **SYNTHESIZED, **measures})


def _parts(kind: str, media_type: Schema) -> list[Schema]:
    return [
        _part(kind, media_type, "body", gap=GAP),
        _part(kind, media_type, "metadata"),
        _part(kind, media_type, "omit"),
    ]


# An attachment's bytes need an upload, which this version does not do: no body form for it here.
PART: Schema = {
    "oneOf": [
        _part("text", {"const": "text/plain"}, "body", text=TEXT),
        *_parts("text", {"const": "text/plain"}),
        *_parts("attachment", MEDIA_TYPE),
    ]
}
ROLE = one_of("system", "developer", "user", "assistant", "tool")
MESSAGE = closed({"id": NAME, "role": ROLE, "parts": array(PART)}, SYNTHESIZED)

# --- what events share (sections 3 and 5 of the wire reference) -----------------------------------

SESSION = opened(
    {"id": NAME},
    {
        "cwd": TEXT,
        "workspaceRoots": array(TEXT),
        "model": TEXT,
        "agent": opened({"id": NAME}, {"type": TEXT}),
        "counters": COUNTERS,
        **SYNTHESIZED,
    },
)
ENVELOPE: dict[str, Schema] = {
    "id": NAME,
    "session": SESSION,
    "turn": opened({"id": NAME}, SYNTHESIZED),
    "parentEventId": NAME,
    "gaps": array(opened({"path": NAME, "reason": NAME})),
    "extensions": EXTENSIONS,
    **SYNTHESIZED,
}
# The origin decides about ``mcp``; the branch for native tools is tried first and is the cheap one.
TOOL: Schema = {
    "anyOf": [
        closed({"name": NAME, "input": OBJECT, "origin": {"const": "native"}}, {"kind": NAME}),
        closed(
            {"name": NAME, "input": OBJECT, "origin": {"const": "mcp"}, "mcp": MCP},
            {"kind": NAME},
        ),
    ]
}
CALL = {"call": IDENTITY, "tool": TOOL, "path": NAME}
BATCH = {
    "batch": closed({"id": NAME, "callIds": array(NAME, minItems=1, uniqueItems=True)}, SYNTHESIZED)
}
SKIPPED = {"detail": NAME}
EXECUTION: Schema = {
    "oneOf": [
        closed({"status": {"const": "executed"}}),
        closed({"status": {"const": "skipped"}, "reason": {"const": "supplied_result"}}),
        closed(
            {
                "status": {"const": "skipped"},
                "reason": one_of("policy", "cancelled", "timeout", "other"),
            },
            SKIPPED,
        ),
    ]
}
ERROR = closed(
    {"message": NAME, "class": NAME},
    {"code": NAME, "status": {"type": ["string", "integer"], "minLength": 1}, "native": {}},
)
FILE_CHANGE: Schema = {
    **closed(
        {"path": NAME, "change": one_of("created", "modified", "deleted", "moved")},
        {"previousPath": NAME, "before": PART, "after": PART},
    ),
    "allOf": [
        when("change", ["moved"], {"required": ["previousPath"]}, without("previousPath")),
        when("change", ["created"], without("before")),
        when("change", ["deleted"], without("after")),
    ],
}

# --- the tables -----------------------------------------------------------------------------------

EVENT_SCHEMAS: dict[str, Schema] = {
    "tool.before": {
        **opened(
            CALL,
            {
                **ENVELOPE,
                **BATCH,
                "items": array(PART),
                **forbidden("outcome", "execution", "durationMs", "fileChanges"),
            },
        ),
    },
    "tool.after": {
        **opened(
            {
                **CALL,
                "outcome": one_of("ok", "error", "denied", "cancelled", "timeout"),
                "execution": EXECUTION,
                "items": array(MESSAGE),
            },
            {
                **ENVELOPE,
                **BATCH,
                "error": ERROR,
                "durationMs": {"type": "number", "minimum": 0},
                "fileChanges": array(FILE_CHANGE),
            },
        ),
        "allOf": [
            when("outcome", ["error"], {"required": ["error"]}, without("error")),
            when(
                "outcome",
                ["denied"],
                {
                    "properties": {
                        "execution": {
                            "properties": {
                                "status": {"const": "skipped"},
                                "reason": {"const": "policy"},
                            }
                        }
                    }
                },
            ),
            {
                "if": {
                    "properties": {"execution": {"properties": {"status": {"const": "skipped"}}}}
                },
                "then": without("durationMs", "fileChanges"),
            },
        ],
    },
    "session.start": {
        **opened(
            {
                "session": SESSION,
                "trigger": one_of("startup", "resume", "clear", "compact", "fork"),
                "permissionMode": NAME,
                "manifest": MANIFEST,
                "items": array(MESSAGE),
            },
            {**ENVELOPE, "resumedFrom": IDENTITY, **forbidden("tool", "outcome")},
        ),
        "allOf": [when("trigger", ["clear", "fork"], {"required": ["resumedFrom"]})],
    },
    "session.end": {
        **opened(
            {
                "session": SESSION,
                "outcome": one_of("completed", "cancelled", "error", "unknown"),
                "reason": NAME,
            },
            {**ENVELOPE, "counters": COUNTERS, "items": array(PART), **forbidden("tool")},
        ),
    },
}

EFFECT_SCHEMAS: dict[str, Schema] = {
    "deny": closed(
        {"type": {"const": "deny"}, "reason": NAME},
        {"code": {"type": "string", "pattern": REVERSE_DNS}, "extensions": EXTENSIONS},
    ),
}
