"""Schemas of ``tool.*`` events. ``tool.before`` is the one that is on every call's way."""

from __future__ import annotations

from ahp_sync.protocol.content_schema import MESSAGE, MESSAGES, PART, SYNTHESIZED
from ahp_sync.protocol.event_schema import ERROR, EXECUTION, IDENTITY, event
from ahp_sync.protocol.mcp_schema import MCP
from ahp_sync.protocol.schema_forms import (
    BOOLEAN,
    NAME,
    OBJECT,
    QUANTITY,
    Schema,
    array,
    closed,
    constant,
    one_of,
    when,
    without,
)

__all__ = ["TOOL_EVENTS"]

_TOOL: Schema = {
    **closed(
        {"name": NAME, "input": OBJECT, "origin": one_of("native", "mcp")},
        {"kind": NAME, "mcp": MCP},
    ),
    **when("origin", ["native"], without("mcp"), {"required": ["mcp"]}),
}
_CALL = {"call": IDENTITY, "tool": _TOOL, "path": NAME}
_BATCH = {
    "batch": closed({"id": NAME, "callIds": array(NAME, minItems=1, uniqueItems=True)}, SYNTHESIZED)
}
_TURN = {"turn": IDENTITY}
_RESULT: dict[str, Schema] = {
    "outcome": one_of("ok", "error", "denied", "cancelled", "timeout"),
    "execution": EXECUTION,
}
_BY_POLICY = {"status": constant("skipped"), "reason": constant("policy")}
_DENIED = when("outcome", ["denied"], {"properties": {"execution": {"properties": _BY_POLICY}}})
_FILE_CHANGE: Schema = {
    **closed(
        {"path": NAME, "change": one_of("created", "modified", "deleted", "moved")},
        {"previousPath": NAME, "before": PART, "after": PART},
    ),
    "allOf": [
        when("change", ["moved"], {"required": ["previousPath"]}),
        when("change", ["created"], without("before")),
        when("change", ["deleted"], without("after")),
    ],
}
_ONLY_IF_RUN = {"durationMs": QUANTITY, "fileChanges": array(_FILE_CHANGE)}
_SKIPPED = {"properties": {"execution": {"properties": {"status": constant("skipped")}}}}

TOOL_EVENTS: dict[str, Schema] = {
    "tool.before": event(_CALL, _BATCH, absent=["outcome", "execution", *_ONLY_IF_RUN]),
    "tool.after": event(
        {**_CALL, **_RESULT, "items": MESSAGES},
        {**_BATCH, "error": ERROR, **_ONLY_IF_RUN},
        rules=[
            when("outcome", ["error"], {"required": ["error"]}, without("error")),
            _DENIED,
            {"if": _SKIPPED, "then": without(*_ONLY_IF_RUN)},
        ],
    ),
    "tool.permission.request": event(
        {**_CALL, "suggestions": array(OBJECT), "sandboxBypass": BOOLEAN},
        {**_TURN, **_BATCH},
        absent=["decision", "decidedBy", "outcome", "execution"],
    ),
    "tool.permission.resolved": event(
        {
            **_CALL,
            "decision": one_of("allow", "deny"),
            "decidedBy": one_of("user", "policy", "hook", "auto", "classifier"),
        },
        {**_TURN, **_BATCH},
    ),
    "tool.progress": event(
        {**_CALL, "partialOutput": MESSAGE, "backgrounded": BOOLEAN},
        {**_TURN, **_BATCH},
        absent=["outcome", "execution"],
    ),
    "tool.batch.after": event(
        {
            "batch": IDENTITY,
            "calls": array({**closed({**_CALL, **_RESULT}, _BATCH), **_DENIED}, minItems=1),
        },
        _TURN,
    ),
}
