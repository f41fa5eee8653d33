"""The 32 events at random, and what they are made of.

Everything here is valid, as JSON values. An event is its members without the client's own (``id``,
``source``, ``type``, ``time``, ``harness``): ``PAYLOADS[name]`` for one event type. Parts and
messages are those of ``content``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Optional

from hypothesis import strategies as st

from oracle.content import (
    COUNTS,
    EXTENSIONS,
    FLAGS,
    JSON,
    OBJECTS,
    REFERENCES,
    ROLES,
    TEXT,
    WORDS,
    Payload,
    attachment_parts,
    members,
    message,
    messages,
    often,
    part,
    parts,
    text_part_forms,
    text_parts,
)
from oracle.elicitations import requests, results, written

__all__ = [
    "EXTENSIONS",
    "JSON",
    "OBJECTS",
    "PAYLOADS",
    "REFERENCES",
    "ROLES",
    "SESSION",
    "TEXT",
    "WORDS",
    "Payload",
    "attachment_parts",
    "elicitation_pairs",
    "full_event",
    "message",
    "messages",
    "often",
    "parts",
    "text_parts",
]

# --- objects that several events share ------------------------------------------------------------


def entity(name: str) -> st.SearchStrategy[Payload]:
    """Return ``{id, synthesized?}``."""
    return members({"id": name}, {"synthesized": FLAGS})


SESSION = members(
    {"id": "session-1"},
    {
        "cwd": TEXT,
        "workspaceRoots": st.lists(TEXT, max_size=2),
        "model": TEXT,
        "agent": members({"id": WORDS}, {"type": TEXT}),
        "synthesized": FLAGS,
        "counters": st.dictionaries(WORDS, COUNTS | st.just(2.0), max_size=2),
    },
)
CALL = entity("call-1")
TURN = entity("turn-1")
MODEL = members({"id": WORDS, "provider": WORDS})
ATTEMPT = members({"id": WORDS, "number": st.sampled_from([1, 2])}, {"synthesized": FLAGS})
ERROR = members(
    {"message": WORDS, "class": WORDS},
    {"code": WORDS, "status": WORDS | st.integers(-1, 600), "native": JSON},
)
EXECUTED = members({"status": "executed"})
SUPPLIED = members({"status": "skipped", "reason": "supplied_result"})
POLICY = members({"status": "skipped", "reason": "policy"}, {"detail": WORDS})
OTHER = members(
    {"status": "skipped", "reason": st.sampled_from(["cancelled", "timeout", "other"])},
    {"detail": WORDS},
)
EXECUTIONS = EXECUTED | SUPPLIED | POLICY | OTHER
BATCH = members(
    {"id": "batch-1", "callIds": st.lists(WORDS, min_size=1, max_size=3, unique=True)},
    {"synthesized": FLAGS},
)
CURRENCIES = st.sampled_from(["EUR", "USD"])
PRICES = st.sampled_from([0, 0.25, 12])


def _usage(kind: str, scope: str, provenance: Sequence[str]) -> st.SearchStrategy[Payload]:
    bases = st.sampled_from(["billed", "reported", "estimated"])
    tokens = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens")
    return members(
        {
            "kind": kind,
            "scope": scope,
            "completeness": st.sampled_from(["complete", "partial", "unknown"]),
            "provenance": st.sampled_from(provenance),
        },
        {
            **dict.fromkeys(tokens, COUNTS),
            "cost": members({"amount": PRICES, "currency": CURRENCIES, "basis": bases}),
        },
    )


ATTEMPT_USAGE = _usage("amount", "attempt", ["provider", "estimate"])
TURN_USAGE = _usage("total", "turn", ["provider", "estimate", "mixed"])


def _gap_list(*paths: str) -> st.SearchStrategy[Any]:
    return st.just([{"path": path, "reason": "unknown"} for path in paths])


_REMOTE = st.sampled_from(["http", "sse"])
CONNECTIONS = (
    members({"transport": _REMOTE, "url": st.sampled_from(["https://a.example/x", "http://b"])})
    | members({"transport": _REMOTE, "gaps": _gap_list("url")})
    | members(
        {"transport": "stdio", "command": WORDS, "args": st.lists(TEXT, max_size=2), "cwd": WORDS}
    )
    | members({"transport": "stdio", "command": WORDS, "gaps": _gap_list("args", "cwd")})
    | members({"transport": "_pipe", "addressForm": WORDS, "address": WORDS})
    | members({"transport": "_pipe", "gaps": _gap_list("address", "addressForm")})
)
MCP = members(
    {
        "server": members({"id": WORDS}, {"name": WORDS}),
        "toolName": WORDS,
        "provenance": st.sampled_from(["runtime", "inferred"]),
        "connection": CONNECTIONS,
    }
)
TOOL_BASE = {"name": WORDS, "input": OBJECTS}
TOOLS = often(
    members({**TOOL_BASE, "origin": "native"}, {"kind": WORDS}),
    members({**TOOL_BASE, "origin": "mcp", "mcp": MCP}, {"kind": WORDS}),
)
TOOL_CALL = {"call": CALL, "tool": TOOLS, "path": st.sampled_from(["native", "code", "mcp"])}
WORKSPACES = members(
    {"cwd": WORDS}, {"workspaceRoots": st.lists(WORDS, max_size=2, unique=True)}
) | members({"workspaceRoots": st.lists(WORDS, max_size=2, unique=True)})
CHANGE = {
    "source": WORDS,
    "scope": WORDS,
    "settings": st.lists(WORDS, max_size=2),
    "summary": WORDS,
}
OPERATIONS = st.sampled_from(["create", "update", "remove"])
MODES = st.sampled_from(["form", "form", "form", "url"])
OUTCOMES = ("ok", "error", "denied", "cancelled", "timeout")


def _file_changes() -> st.SearchStrategy[Payload]:
    before, after = part("file-before"), part("file-after")
    return (
        members({"path": WORDS, "change": "created"}, {"after": after})
        | members({"path": WORDS, "change": "modified"}, {"before": before, "after": after})
        | members({"path": WORDS, "change": "deleted"}, {"before": before, "previousPath": WORDS})
        | members(
            {"path": WORDS, "change": "moved", "previousPath": WORDS},
            {"before": before, "after": after},
        )
    )


def _completions() -> st.SearchStrategy[Payload]:
    """Return what ``tool.after`` adds to a call: outcome and execution that fit together."""
    ran = {"durationMs": PRICES, "fileChanges": st.lists(_file_changes(), max_size=1)}
    calm = st.sampled_from(["ok", "cancelled", "timeout"])
    return (
        members({"outcome": calm, "execution": EXECUTED}, ran)
        | members({"outcome": calm, "execution": SUPPLIED | OTHER})
        | members({"outcome": "error", "execution": EXECUTED, "error": ERROR}, ran)
        | members({"outcome": "error", "execution": OTHER, "error": ERROR})
        | members({"outcome": "denied", "execution": POLICY})
    )


def _batch_calls() -> st.SearchStrategy[list[Payload]]:
    calm = st.sampled_from([name for name in OUTCOMES if name != "denied"])
    optional = {"batch": BATCH}
    one = members({**TOOL_CALL, "outcome": calm, "execution": EXECUTIONS}, optional) | members(
        {**TOOL_CALL, "outcome": "denied", "execution": POLICY}, optional
    )
    return st.lists(one, min_size=1, max_size=2)


def _merged(*alternatives: Any) -> st.SearchStrategy[Payload]:
    """Return the objects of the strategies put together."""
    return st.tuples(*alternatives).map(
        lambda drawn: {name: value for one in drawn for name, value in one.items()}
    )


# --- the events -----------------------------------------------------------------------------------

# Every event may have these, too.
_COMMON = {
    "parentEventId": "event-0",
    "gaps": st.lists(members({"path": WORDS, "reason": WORDS}), max_size=1),
    "extensions": EXTENSIONS,
    "synthesized": FLAGS,
    "x-unknown": JSON,
}
_IN_SESSION = {**_COMMON, "session": SESSION, "turn": TURN}
_WITH_PARTS = {**_IN_SESSION, "items": parts("i")}


def _event(
    required: Mapping[str, Any], optional: Optional[Mapping[str, Any]] = None, *, items: bool = True
) -> st.SearchStrategy[Payload]:
    common = _WITH_PARTS if items else _IN_SESSION
    rest = {name: value for name, value in common.items() if name not in required}
    return members(required, {**rest, **(optional or {})})


def _session_start() -> st.SearchStrategy[Payload]:
    base = {"session": SESSION, "permissionMode": WORDS, "items": messages()}
    resumed = {"resumedFrom": entity("session-0")}
    free = {**base, "trigger": st.sampled_from(["startup", "resume", "compact"])}
    bound = {**base, **resumed, "trigger": st.sampled_from(["clear", "fork"])}
    return _event(free, resumed, items=False) | _event(bound, items=False)


def _turn_over() -> dict[str, Any]:
    return {
        "turn": TURN,
        "outcome": st.sampled_from(["completed", "failed", "cancelled", "max_iterations"]),
        "continuationCount": st.sampled_from([0, 1, 3]),
        "items": messages(),
    }


_TURN_EXTRAS = {"lastAssistantItem": entity("m0"), "usage": TURN_USAGE}
_ATTEMPT = {"model": MODEL, "attempt": ATTEMPT}
_MEASURED = {"usage": ATTEMPT_USAGE, "latencyMs": PRICES}


def _model_response() -> st.SearchStrategy[Payload]:
    base = {**_ATTEMPT, "items": messages(), "finishReason": WORDS}
    return _event({**base, "execution": EXECUTED}, _MEASURED, items=False) | _event(
        {**base, "execution": SUPPLIED}, items=False
    )


def _task(required: Mapping[str, Any]) -> st.SearchStrategy[Payload]:
    optional = {"description": TEXT, "synthesized": FLAGS}
    base = {"id": "task-1", "operation": OPERATIONS, **required}
    return members({"task": members(base, optional)})


def _workspace(kinds: Mapping[str, Any]) -> st.SearchStrategy[Payload]:
    kind = st.sampled_from(["cwd", "roots", "switch"])
    return members({"workspace": members({"kind": kind, **kinds}, {"reason": TEXT})})


@st.composite
def _elicitation_request(draw: st.DrawFn) -> Payload:
    mode = draw(MODES)
    text = written(draw(requests(mode)))
    return {"elicitation": {"server": "s", "mode": mode, **_selected(draw, "request", text)}}


@st.composite
def elicitation_pairs(draw: st.DrawFn) -> tuple[Payload, Payload]:
    """Return the payloads of an elicitation's request and of its result, which belong together.

    The result's parent is the event ``asked-1``; the request is always there in full.
    """
    mode = draw(MODES)
    asked = draw(requests(mode))
    result = draw(results(asked))
    request = {"id": "request-part", "kind": "text", "mediaType": "text/plain", "selection": "body"}
    elicitation = {"server": "s", "mode": mode, "action": result["action"]}
    selected = _selected(draw, "result", written(result))
    return (
        {
            "elicitation": {
                "server": "s",
                "mode": mode,
                "request": {**request, "text": written(asked)},
            }
        },
        {"elicitation": {**elicitation, **selected}, "parentEventId": "asked-1"},
    )


def _selected(draw: st.DrawFn, name: str, text: str) -> Payload:
    body, withheld = text_part_forms(f"{name}-part")
    how = draw(st.sampled_from(["body"] * 6 + ["withheld", "absent"]))
    if how == "absent":
        return {}
    return {name: draw(withheld) if how == "withheld" else {**draw(body), "text": text}}


#: By event type: its members, without the client's own. ``session.start`` lacks its manifest.
PAYLOADS: dict[str, st.SearchStrategy[Payload]] = {
    "session.start": _session_start(),
    "session.end": _event(
        {
            "session": SESSION,
            "outcome": st.sampled_from(["completed", "cancelled", "error", "unknown"]),
            "reason": WORDS,
        },
        {"counters": st.dictionaries(WORDS, COUNTS, max_size=2)},
    ),
    "config.change.before": _event({"change": members(CHANGE, {"path": WORDS})}),
    "config.change.after": _event(
        {"change": members(CHANGE, {"path": WORDS, "mcpServers": st.lists(OBJECTS, max_size=2)})}
    ),
    "turn.start": _event(
        {
            "turn": TURN,
            "trigger": st.sampled_from(["user", "continuation", "hook", "external"]),
            "items": messages(),
        },
        {"expandedFrom": WORDS},
        items=False,
    ),
    "turn.finish.before": _event(_turn_over(), _TURN_EXTRAS, items=False),
    "turn.end": _event(_turn_over(), _TURN_EXTRAS, items=False)
    | _event({**_turn_over(), "outcome": "failed"}, {**_TURN_EXTRAS, "error": ERROR}, items=False),
    "turn.progress": _event(
        {"turn": TURN, "item": entity("m0"), "delta": message("m0"), "final": FLAGS}
    ),
    "model.request.before": _event(
        {**_ATTEMPT, "params": OBJECTS, "items": messages()}, items=False
    ),
    "model.response.after": _model_response(),
    "model.error": _event(
        {**_ATTEMPT, "execution": EXECUTED, "error": ERROR}, {**_MEASURED, "recovery": WORDS}
    ),
    "model.switch.before": _event(
        {"current": MODEL, "proposed": MODEL, "reason": WORDS},
        {
            "pricing": members(
                {"currency": CURRENCIES},
                {"inputPerMillionTokens": PRICES, "outputPerMillionTokens": PRICES},
            )
        },
    ),
    "model.switch.after": _event({"previous": MODEL, "current": MODEL, "reason": WORDS}),
    "tool.before": _event(TOOL_CALL, {"batch": BATCH}),
    "tool.after": _merged(
        _event({**TOOL_CALL, "items": messages("m", ("tool",))}, {"batch": BATCH}, items=False),
        _completions(),
    ),
    "tool.permission.request": _event(
        {**TOOL_CALL, "suggestions": st.lists(OBJECTS, max_size=2), "sandboxBypass": FLAGS},
        {"batch": BATCH},
    ),
    "tool.permission.resolved": _event(
        {
            **TOOL_CALL,
            "decision": st.sampled_from(["allow", "deny"]),
            "decidedBy": st.sampled_from(["user", "policy", "hook", "auto", "classifier"]),
        },
        {"batch": BATCH},
    ),
    "tool.progress": _event(
        {**TOOL_CALL, "partialOutput": message("m0", ("tool",)), "backgrounded": FLAGS},
        {"batch": BATCH},
    ),
    "tool.batch.after": _event({"batch": entity("batch-1"), "calls": _batch_calls()}),
    "context.compact.before": _event(
        {"trigger": st.sampled_from(["auto", "manual", "hook"]), "items": messages()},
        {"instructions": text_parts("t"), "tokenCounts": members({}, {"before": COUNTS})},
        items=False,
    ),
    "context.compact.after": _event(
        {
            "summary": text_parts("t"),
            "removed": st.lists(members({"id": WORDS}), max_size=2),
            "execution": EXECUTED | SUPPLIED,
        },
        {
            "items": messages(),
            "tokenCounts": members({}, {"before": COUNTS, "after": COUNTS}),
        },
        items=False,
    ),
    "task.change.before": _merged(
        _event({}), _task({"change": OBJECTS}) | _task({"change": OBJECTS, "prior": OBJECTS})
    ),
    "task.change.after": _merged(
        _event({}),
        _task({"change": members({"done": True}), "prior": members({}, {"done": False})}),
    ),
    "user.attention": _event(
        {
            "attention": members(
                {"kind": WORDS, "message": text_parts("t"), "title": text_parts("u")}
            )
        }
    ),
    "user.elicitation.request": _merged(_event({}), _elicitation_request()),
    "user.elicitation.result": _merged(_event({}), elicitation_pairs().map(lambda pair: pair[1])),
    "user.message.inbound": _event(
        {
            "message": members(
                {"channel": WORDS, "sender": WORDS, "messages": messages("m", ("user",))}
            )
        }
    ),
    "user.message.outbound": _event(
        {"message": members({"channel": WORDS, "messages": messages("m", ("assistant",))})}
    ),
    "workspace.change.before": _merged(
        _event({}),
        _workspace({"change": WORKSPACES})
        | _workspace({"change": WORKSPACES, "prior": WORKSPACES}),
    ),
    "workspace.change.after": _merged(
        _event({}),
        _workspace(
            {"change": members({"cwd": "/new"}), "prior": members({}, {"cwd": "/old"})}
        ).filter(lambda event: event["workspace"]["prior"]),
    ),
    "file.changed": _event(
        {
            "changes": st.lists(
                members(
                    {"path": WORDS, "operation": OPERATIONS, "agentCaused": FLAGS},
                    {"before": part("before"), "after": part("after")},
                ),
                min_size=1,
                max_size=2,
                unique_by=lambda change: change["path"],
            )
        }
    ),
    "hook.failure": _event(
        {
            "failure": members(
                {
                    "backendId": WORDS,
                    "reason": WORDS,
                    "policy": st.sampled_from(["fail-open", "fail-closed"]),
                }
            ),
            "parentEventId": "event-0",
        }
    ),
}


def full_event(name: str, payload: Payload) -> Payload:
    """Return the whole event of a payload, with an envelope that is the same every time."""
    return {
        **payload,
        "id": "event-1",
        "source": "urn:example:oracle",
        "type": name,
        "time": "2026-03-01T10:00:00.000+00:00",
        "harness": {"name": "oracle", "version": "1"},
    }
