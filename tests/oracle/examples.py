"""Short ways to write cases by hand."""

from __future__ import annotations

import json
from typing import Any, Optional

from oracle.cases import Case, Subscription, answered, whole_grant

__all__ = [
    "ALLOWED",
    "ASK_AGAIN",
    "COMPACT",
    "DENY",
    "FINISH",
    "IMAGE",
    "MESSAGE",
    "TEXT",
    "asked",
    "case",
    "each",
    "message",
    "modify",
    "part",
    "told",
    "tool",
    "turn",
]

TEXT = {"id": "t0", "kind": "text", "mediaType": "text/plain", "selection": "body", "text": "hello"}
IMAGE = {
    "id": "a0",
    "kind": "attachment",
    "mediaType": "image/png",
    "selection": "body",
    "body": {"ref": "ref-1"},
}
DENY = {"type": "deny", "reason": "no"}
MESSAGE = {"type": "message", "text": "note"}
ALLOWED = {"permission": "allow", "candidate": {"value": 1}}
ASK_AGAIN = (Subscription(answered()),)
COMPACT = {"trigger": "auto", "items": []}
FINISH = {"turn": {"id": "turn-1"}, "outcome": "completed", "continuationCount": 0, "items": []}
PARAMS = {"message": "Sure?", "requestedSchema": {"type": "object", "properties": {}}}
RESULT = {"action": "accept", "content": {}}


def message(*parts: Any, id: str = "m0", role: str = "user") -> dict[str, Any]:
    """Return a message of these parts."""
    return {"id": id, "role": role, "parts": list(parts)}


def turn(*parts: Any) -> dict[str, Any]:
    """Return the payload of a turn's start, with one message of these parts."""
    return {"turn": {"id": "turn-1"}, "trigger": "user", "items": [message(*parts)]}


def modify(target: str, value: Any, operation: str = "replace") -> dict[str, Any]:
    """Return an edit."""
    return {"type": "modify", "target": target, "operation": operation, "value": value}


def case(
    event: str,
    payload: dict[str, Any],
    *effects: Any,
    content: Optional[dict[str, Any]] = None,
    then: tuple[Subscription, ...] = (),
    **more: Any,
) -> Case:
    """Return a case of one interceptor that answers so; others may come after it."""
    first = Subscription(answered(*effects), content=content or {"default": "body"})
    more.setdefault("capabilities", whole_grant(event))
    return Case(event, payload, subscriptions=(first, *then), **more)


def tool(*effects: Any, input: Any = None, **more: Any) -> Case:
    """Return a case about a tool call."""
    called = {"name": "run", "origin": "native", "input": {"a": 1} if input is None else input}
    payload = {"call": {"id": "call-1"}, "tool": called, "path": "native"}
    return case("tool.before", payload, *effects, **more)


def part(value: Any) -> dict[str, Any]:
    """Return the text part of an elicitation."""
    return {**TEXT, "text": value if isinstance(value, str) else json.dumps(value)}


def asked(request: Any = PARAMS) -> dict[str, Any]:
    """Return the payload of an elicitation's request, with this text in it."""
    return {"elicitation": {"server": "s", "mode": "form", "request": part(request)}}


def told(result: Any = RESULT) -> dict[str, Any]:
    """Return the payload of the result."""
    block = {"server": "s", "mode": "form", "action": "accept", "result": part(result)}
    return {"elicitation": block, "parentEventId": "asked-1"}


def each(table: dict[str, list[Case]]) -> list[tuple[str, Case]]:
    """Return the cases of a table, each with its name."""
    return [(name, one) for name, cases in table.items() for one in cases]
