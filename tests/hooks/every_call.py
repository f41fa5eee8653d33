"""Calls of all hook methods: what each needs, and what it takes besides, to be drawn from.

Arguments that exclude each other stand in one place, as alternatives under a name with a ``|``, and
so do arguments that only go together, under a name with a ``+``.
"""

from __future__ import annotations

import inspect
from typing import Any

from hypothesis import strategies as st

from ahp_sync.hooks import Hooks
from ahp_sync.protocol.events import EVENTS

__all__ = ["METHODS", "OPTIONAL", "REQUIRED", "calls", "maximal", "minimal", "parameters"]

#: The method of each event.
METHODS = {name: name.replace(".", "_") for name in EVENTS}

Members = dict[str, st.SearchStrategy[Any]]

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NAME = TEXT.filter(bool)
COUNT = st.integers(0, 10**12)
QUANTITY = COUNT | st.floats(0, 1e9)
FLAG = st.booleans()
OBJECT = st.dictionaries(TEXT, TEXT | COUNT | FLAG | st.none() | st.lists(COUNT), max_size=2)


def obj(required: Members, **optional: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """An object of these members."""
    return st.fixed_dictionaries(required, optional=optional)


def one(*words: str) -> st.SearchStrategy[str]:
    """One of these words."""
    return st.sampled_from(words)


# Ids are unique over one call, or a part might be said to be of two messages (R-EVT-03).
UNIQUE = st.uuids().map(str)
IDENTITY = obj({"id": NAME}, synthesized=FLAG)
ID = NAME | IDENTITY
GAP = obj({"reason": NAME}, path=NAME)
LABELS: Members = {"category": NAME, "synthesized": FLAG}
MEASURES: Members = {**LABELS, "size": COUNT, "sha256": st.just("0a" * 32)}


def part_of(kind: str, media_type: str, **body: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """A part in one of its forms."""
    head = {"id": UNIQUE, "kind": st.just(kind), "mediaType": st.just(media_type)}
    whole = {**head, "selection": st.just("body")}
    return (
        obj({**whole, **body}, **LABELS)
        | obj({**whole, "gap": GAP}, **MEASURES)
        | obj({**head, "selection": one("metadata", "omit")}, **MEASURES)
    )


TEXT_PART = part_of("text", "text/plain", text=TEXT)
PART = TEXT_PART | part_of("attachment", "image/png", body=obj({"ref": NAME}))
PARTS = st.lists(PART, max_size=2)
TEXTS = TEXT | st.lists(TEXT_PART, max_size=2)


def message(*roles: str) -> st.SearchStrategy[Any]:
    """A message of one of these roles."""
    return obj({"id": UNIQUE, "role": one(*roles), "parts": PARTS}, synthesized=FLAG)


MESSAGE = message("system", "developer", "user", "assistant", "tool")
MESSAGES = st.lists(MESSAGE, max_size=2)

ERROR = obj({"message": NAME, "class": NAME}, code=NAME, status=NAME | st.integers(), native=OBJECT)
EXECUTED = st.just({"status": "executed"})
SUPPLIED = st.just({"status": "skipped", "reason": "supplied_result"})
SKIPPED = SUPPLIED | obj(
    {"status": st.just("skipped"), "reason": one("policy", "cancelled", "timeout", "other")},
    detail=NAME,
)
MCP = obj(
    {
        "server": obj({"id": NAME}, name=NAME),
        "toolName": NAME,
        "provenance": one("runtime", "inferred"),
        "connection": obj(
            {"transport": st.just("stdio"), "command": NAME, "args": st.just([]), "cwd": NAME}
        )
        | st.just({"transport": "http", "gaps": [{"path": "url", "reason": "unknown"}]}),
    }
)
BATCH = obj({"id": NAME, "callIds": st.lists(NAME, min_size=1, unique=True)}, synthesized=FLAG)
MODEL = obj({"id": NAME, "provider": NAME})
ATTEMPT = NAME | obj({"id": NAME, "number": st.integers(1, 9)}, synthesized=FLAG)
COST = obj(
    {"amount": QUANTITY, "currency": one("EUR"), "basis": one("billed", "reported", "estimated")}
)


def usage(kind: str, scope: str, *provenance: str) -> st.SearchStrategy[Any]:
    """How much was used."""
    completeness = one("complete", "partial", "unknown")
    head = {"kind": st.just(kind), "scope": st.just(scope), "completeness": completeness}
    tokens = dict.fromkeys(
        ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens"), COUNT
    )
    return obj({**head, "provenance": one(*provenance)}, **tokens, cost=COST)


ATTEMPT_USAGE = usage("amount", "attempt", "provider", "estimate")
TURN_USAGE = usage("total", "turn", "provider", "estimate", "mixed")

TOOL: Members = {"name": NAME, "input": OBJECT}
ONE_CALL: Members = {**TOOL, "call_id": ID}
TOOL_MORE: Members = {
    "kind": NAME,
    "path": NAME,
    "batch": BATCH,
    "origin+mcp": st.just({"origin": "native"})
    | MCP.map(lambda mcp: {"origin": "mcp", "mcp": mcp}),
}
TOOL_FACTS = obj({"name": NAME, "input": OBJECT, "origin": st.just("native")}, kind=NAME)
BATCH_CALL = obj(
    {
        "call": IDENTITY,
        "tool": TOOL_FACTS,
        "path": NAME,
        "outcome": one("ok", "error", "cancelled", "timeout"),
        "execution": EXECUTED | SKIPPED,
    },
    batch=BATCH,
) | obj(
    {
        "call": IDENTITY,
        "tool": TOOL_FACTS,
        "path": NAME,
        "outcome": st.just("denied"),
        "execution": st.just({"status": "skipped", "reason": "policy"}),
    }
)
FILE_CHANGE = obj(
    {"path": NAME, "change": st.just("moved"), "previousPath": NAME}, before=PART, after=PART
) | obj({"path": NAME, "change": st.just("created")}, after=PART)
ENDED: Members = {
    "outcome+execution": obj(
        {
            "outcome": one("ok", "cancelled", "timeout"),
            "execution": EXECUTED,
            "duration_ms": QUANTITY,
            "file_changes": st.lists(FILE_CHANGE, max_size=2),
        }
    )
    | obj({"outcome": st.just("error"), "error": ERROR}, duration_ms=QUANTITY)
    | st.just({"outcome": "denied"})
    | obj({"outcome": one("ok", "cancelled", "timeout"), "execution": SKIPPED}),
}


def either(**alternatives: st.SearchStrategy[Any]) -> Members:
    """Arguments of which only one is passed."""
    chosen = st.one_of(*(obj({name: strategy}) for name, strategy in alternatives.items()))
    return {"|".join(alternatives): chosen}


ITEMS: Members = {"items": PARTS}
CHANGE: Members = {"source": NAME, "scope": NAME, "settings": st.lists(NAME), "summary": NAME}
TURN_ENDED: Members = {
    **either(response=TEXT, items=MESSAGES),
    "continuation_count": COUNT,
    "last_assistant_item": ID,
    "usage": TURN_USAGE,
}
TURN_OUTCOMES = ("failed", "cancelled", "max_iterations")
TASK: Members = {"task_id": ID, "operation": one("create", "update", "remove"), "change": OBJECT}
TASK_MORE: Members = {**ITEMS, "description": TEXT}
PLACE = obj({"cwd": NAME}, workspaceRoots=st.lists(NAME, unique=True, max_size=2))
WORKSPACE: Members = {"kind": one("cwd", "roots", "switch"), "change": PLACE}
WORKSPACE_MORE: Members = {**ITEMS, "reason": TEXT}
FORM = {
    "message": "Who are you?",
    "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
    "_meta": {"x": 1.5},
}
URL = {"mode": "url", "message": "Look", "url": "https://example.com/", "elicitationId": "e"}
ACTION = one("accept", "decline", "cancel")
WITHHELD = st.just(
    {"id": "p", "kind": "text", "mediaType": "text/plain", "selection": "metadata", "size": 9}
)
RESULTS = st.sampled_from(
    [
        {"action": "accept", "content": {"name": "Jo", "count": 2}},
        {"action": "decline"},
        {"action": "cancel", "_meta": {}},
    ]
)

REQUIRED: dict[str, Members] = {
    "session.start": {"session": ID},
    "session.end": {"session": ID},
    "config.change.before": CHANGE,
    "config.change.after": CHANGE,
    "turn.start": {"turn": ID},
    "turn.finish.before": {"turn": ID},
    "turn.end": {"turn": ID},
    "turn.progress": {"turn": ID, "item": ID, **either(text=TEXT, delta=MESSAGE)},
    "model.request.before": {"model": MODEL, "attempt": ATTEMPT, "items": MESSAGES},
    "model.response.after": {"model": MODEL, "attempt": ATTEMPT, "finish_reason": NAME},
    "model.error": {"model": MODEL, "attempt": ATTEMPT, "error": ERROR},
    "model.switch.before": {"current": MODEL, "proposed": MODEL, "reason": NAME},
    "model.switch.after": {"previous": MODEL, "current": MODEL, "reason": NAME},
    "tool.before": TOOL,
    "tool.after": TOOL,
    "tool.permission.request": ONE_CALL,
    "tool.permission.resolved": {
        **ONE_CALL,
        "decision": one("allow", "deny"),
        "decided_by": one("user", "policy", "hook", "auto", "classifier"),
    },
    "tool.progress": {**ONE_CALL, **either(output=TEXT, partial_output=MESSAGE)},
    "tool.batch.after": {"batch": ID, "calls": st.lists(BATCH_CALL, min_size=1, max_size=2)},
    "context.compact.before": {"trigger": one("auto", "manual", "hook")},
    "context.compact.after": {"summary": TEXTS},
    "task.change.before": TASK,
    "task.change.after": TASK,
    "user.attention": {"kind": NAME, "message": TEXTS, "title": TEXTS},
    "user.elicitation.request": {"server": NAME},
    "user.elicitation.result": {
        "server": NAME,
        "action|result": obj({"action": ACTION}, part=WITHHELD) | obj({"result": RESULTS}),
    },
    "user.message.inbound": {
        "channel": NAME,
        "sender": NAME,
        **either(text=TEXT, messages=st.lists(message("user"), max_size=2)),
    },
    "user.message.outbound": {
        "channel": NAME,
        **either(text=TEXT, messages=st.lists(message("assistant"), max_size=2)),
    },
    "workspace.change.before": WORKSPACE,
    "workspace.change.after": WORKSPACE,
    "file.changed": {
        "changes": st.lists(
            obj(
                {
                    "path": NAME,
                    "operation": one("create", "update", "remove"),
                    "agentCaused": FLAG,
                },
                before=PART,
                after=PART,
            ),
            min_size=1,
            max_size=2,
        )
    },
    "hook.failure": {
        "backend_id": NAME,
        "reason": NAME,
        "policy": one("fail-open", "fail-closed"),
        "parent_event_id": NAME,
    },
}

OPTIONAL: dict[str, Members] = {
    "session.start": {
        "trigger+resumed_from": obj({"trigger": one("clear", "fork"), "resumed_from": ID})
        | obj({"trigger": one("startup", "resume", "compact")}),
        "permission_mode": NAME,
        "items": MESSAGES,
        "manifest": st.nothing(),
    },
    "session.end": {
        **ITEMS,
        "outcome": one("completed", "cancelled", "error", "unknown"),
        "reason": NAME,
        "counters": st.dictionaries(TEXT, COUNT, max_size=2),
    },
    "config.change.before": {**ITEMS, "path": NAME},
    "config.change.after": {**ITEMS, "path": NAME, "mcp_servers": st.lists(OBJECT, max_size=2)},
    "turn.start": {
        **either(prompt=TEXT, items=MESSAGES),
        "trigger": one("user", "continuation", "hook", "external"),
        "expanded_from": NAME,
    },
    "turn.finish.before": {**TURN_ENDED, "outcome": one("completed", *TURN_OUTCOMES)},
    "turn.end": {
        **TURN_ENDED,
        "outcome+error": obj({"outcome": one(*TURN_OUTCOMES)}, error=ERROR)
        | st.just({"outcome": "completed"}),
    },
    "turn.progress": {**ITEMS, "final": FLAG},
    "model.request.before": {"params": OBJECT},
    "model.response.after": {
        **either(response=TEXT, items=MESSAGES),
        "execution+usage": obj({"execution": SUPPLIED})
        | obj({"execution": EXECUTED, "usage": ATTEMPT_USAGE, "latency_ms": QUANTITY}),
    },
    "model.error": {
        **ITEMS,
        "usage": ATTEMPT_USAGE,
        "latency_ms": QUANTITY,
        "recovery": NAME,
    },
    "model.switch.before": {
        **ITEMS,
        "pricing": obj(
            {"currency": one("EUR")},
            inputPerMillionTokens=QUANTITY,
            outputPerMillionTokens=QUANTITY,
        ),
    },
    "model.switch.after": ITEMS,
    "tool.before": {**ITEMS, **TOOL_MORE, "call_id": ID},
    "tool.after": {
        **TOOL_MORE,
        **either(output=TEXT, items=MESSAGES),
        **ENDED,
        "call_id": ID,
    },
    "tool.permission.request": {
        **ITEMS,
        **TOOL_MORE,
        "suggestions": st.lists(OBJECT, max_size=2),
        "sandbox_bypass": FLAG,
    },
    "tool.permission.resolved": {**ITEMS, **TOOL_MORE},
    "tool.progress": {**ITEMS, **TOOL_MORE, "backgrounded": FLAG},
    "tool.batch.after": ITEMS,
    "context.compact.before": {"items": MESSAGES, "instructions": TEXTS, "tokens_before": COUNT},
    "context.compact.after": {
        "items": MESSAGES,
        "removed": st.lists(NAME, max_size=2),
        "execution": EXECUTED | SUPPLIED,
        "tokens_before": COUNT,
        "tokens_after": COUNT,
    },
    "task.change.before": {**TASK_MORE, "prior": OBJECT},
    # What it was before differs in any case.
    "task.change.after": {**TASK_MORE, "prior+": st.just({"prior": {}, "change": {"new": 1}})},
    "user.attention": ITEMS,
    "user.elicitation.request": {
        **ITEMS,
        **either(params=st.sampled_from([FORM, URL]), part=WITHHELD, mode=one("form", "url")),
    },
    "user.elicitation.result": {**ITEMS, "mode": one("form")},
    "user.message.inbound": ITEMS,
    "user.message.outbound": ITEMS,
    "workspace.change.before": {**WORKSPACE_MORE, "prior": PLACE},
    "workspace.change.after": {
        **WORKSPACE_MORE,
        "prior+": st.just({"prior": {"workspaceRoots": []}, "change": {"cwd": "/new"}}),
    },
    "file.changed": ITEMS,
    "hook.failure": {**ITEMS, "session": ID, "turn": ID},
}


def _flat(drawn: dict[str, Any]) -> dict[str, Any]:
    single = {name: value for name, value in drawn.items() if not set(name) & set("|+")}
    grouped = [value for name, value in drawn.items() if name not in single]
    return {**single, **{name: value for group in grouped for name, value in group.items()}}


def minimal(event_type: str) -> st.SearchStrategy[dict[str, Any]]:
    """The arguments that the method of this event needs, and no more."""
    return st.fixed_dictionaries(REQUIRED[event_type]).map(_flat)


def maximal(event_type: str) -> st.SearchStrategy[dict[str, Any]]:
    """Arguments for everything that the method takes, as far as they go together."""
    members = {**REQUIRED[event_type], **OPTIONAL[event_type]}
    there = {name: one for name, one in members.items() if not one.is_empty}
    return st.fixed_dictionaries(there).map(_flat)


def calls(event_type: str) -> st.SearchStrategy[dict[str, Any]]:
    """Any arguments in between."""
    more = {name: one for name, one in OPTIONAL[event_type].items() if not one.is_empty}
    return st.fixed_dictionaries(REQUIRED[event_type], optional=more).map(_flat)


def parameters(event_type: str) -> dict[str, inspect.Parameter]:
    """The method's own parameters by name, the options not among them."""
    method = getattr(Hooks, METHODS[event_type])
    own = dict(inspect.signature(method).parameters)
    del own["self"], own["options"]
    return own
