"""Events that can be intercepted, with content in them, and what backends answer to them."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import Any, Optional

from inprocess import Act, Backend, answer

from ahp_sync import Budget, Grant
from ahp_sync.protocol.edits import Shown
from ahp_sync.protocol.effects import admitted_effects
from ahp_sync.protocol.events import EVENTS
from ahp_sync.settlement import State, settle

__all__ = [
    "ALLOW",
    "ASK",
    "DENY",
    "INTERCEPTED",
    "PAYLOADS",
    "after",
    "event_of",
    "go_on",
    "in_turn",
    "inject",
    "message",
    "modify",
    "note",
    "part",
    "returning",
    "says",
    "stop",
]

Json = dict[str, Any]

#: The events that backends may decide about.
INTERCEPTED = tuple(name for name, event in EVENTS.items() if event.interceptable)


# --- content ------------------------------------------------------------------------------------


def part(id: str, text: str, **more: Any) -> Json:
    """Return a text part that may be read."""
    whole = {"id": id, "kind": "text", "mediaType": "text/plain", "selection": "body", "text": text}
    return {**whole, **more}


def message(id: str, *content: Any, role: str = "user") -> Json:
    """Return a message; a string is a text part of it, whose id is made of the message's."""
    parts = [
        part(f"{id}-{number}", one) if isinstance(one, str) else one
        for number, one in enumerate(content, 1)
    ]
    return {"id": id, "role": role, "parts": parts}


# --- events -------------------------------------------------------------------------------------

_MODEL = {"id": "model", "provider": "vendor"}
_TOOL = {
    "call": {"id": "call-1"},
    "tool": {"name": "Bash", "origin": "native", "input": {"command": "ls"}},
    "path": "native",
}
_EXECUTED = {"status": "executed"}
_ASKED = {
    "message": "Who are you?",
    "requestedSchema": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 18}},
        "required": ["name"],
    },
}
_ANSWERED = {"action": "accept", "content": {"name": "Ada", "age": 36}}
_FORM = {"server": "forms", "mode": "form"}
_EMPTY_MANIFEST: Json = {
    "events": [],
    "gaps": [],
    "transports": [],
    "authentication": [],
    "toolPaths": [],
    "contentCategories": [],
    "limits": {},
    "managedPolicy": {"scopes": [], "disableable": False},
    "correlationIdentityFields": [],
}

#: A payload of each event that can be intercepted, with content wherever it can have some.
PAYLOADS: dict[str, Json] = {
    "session.start": {
        "session": {"id": "session-1"},
        "trigger": "startup",
        "permissionMode": "default",
        "manifest": _EMPTY_MANIFEST,
        "items": [message("m-1", "Be brief.", role="system")],
    },
    "config.change.before": {
        "change": {"source": "user", "scope": "project", "settings": ["model"], "summary": "other"}
    },
    "turn.start": {
        "turn": {"id": "turn-1"},
        "trigger": "user",
        "items": [message("m-1", "Hello", "there")],
    },
    "turn.finish.before": {
        "turn": {"id": "turn-1"},
        "outcome": "completed",
        "continuationCount": 0,
        "items": [message("m-1", "Done.", role="assistant")],
    },
    "model.request.before": {
        "model": _MODEL,
        "attempt": {"id": "attempt-1", "number": 1},
        "params": {},
        "items": [message("m-1", "Hello")],
    },
    "model.response.after": {
        "model": _MODEL,
        "attempt": {"id": "attempt-1", "number": 1},
        "execution": _EXECUTED,
        "finishReason": "stop",
        "items": [message("m-1", "Hi!", role="assistant")],
    },
    "model.switch.before": {"current": _MODEL, "proposed": _MODEL, "reason": "cost"},
    "tool.before": _TOOL,
    "tool.after": {
        **_TOOL,
        "outcome": "ok",
        "execution": _EXECUTED,
        "items": [message("m-1", "key.pem", role="tool")],
    },
    "tool.permission.request": {**_TOOL, "suggestions": [], "sandboxBypass": False},
    "tool.batch.after": {
        "batch": {"id": "batch-1"},
        "calls": [{**_TOOL, "outcome": "ok", "execution": _EXECUTED}],
    },
    "context.compact.before": {
        "trigger": "auto",
        "items": [message("m-1", "Hello")],
        "instructions": [part("p-1", "Keep the plan.")],
    },
    "context.compact.after": {
        "summary": [part("p-1", "They said hello.")],
        "removed": [{"id": "m-1"}],
        "execution": _EXECUTED,
        "items": [],
    },
    "task.change.before": {"task": {"id": "task-1", "operation": "create", "change": {"a": 1}}},
    "user.elicitation.request": {
        "session": {"id": "session-1"},
        "elicitation": {**_FORM, "request": part("p-1", json.dumps(_ASKED))},
    },
    "user.elicitation.result": {
        "session": {"id": "session-1"},
        "parentEventId": "asked",
        "elicitation": {**_FORM, "action": "accept", "result": part("p-2", json.dumps(_ANSWERED))},
    },
    "user.message.inbound": {
        "message": {"channel": "chat", "sender": "ada", "messages": [message("m-1", "Hello")]}
    },
    "user.message.outbound": {
        "message": {"channel": "chat", "messages": [message("m-1", "Hi!", role="assistant")]}
    },
    "workspace.change.before": {"workspace": {"kind": "cwd", "change": {"cwd": "/srv"}}},
}


def event_of(event_type: str, **changes: Any) -> Json:
    """Return a whole event; ``changes`` are members of its payload."""
    event = {
        "id": "event-1",
        "source": "urn:example:tests",
        "type": event_type,
        "time": "2026-03-01T10:00:00Z",
        "harness": {"name": "tests", "version": "1"},
    }
    return {**event, **copy.deepcopy(PAYLOADS[event_type]), **changes}


# --- effects ------------------------------------------------------------------------------------

DENY: Json = {"type": "deny", "reason": "not here"}
ALLOW: Json = {"type": "allow"}
ASK: Json = {"type": "ask"}


def modify(target: str, operation: str, value: Any) -> Json:
    """Return the effect that changes the event's target."""
    return {"type": "modify", "target": target, "operation": operation, "value": value}


def returning(value: Any) -> Json:
    """Return the effect that supplies a result."""
    return {"type": "return", "value": value}


def note(text: str) -> Json:
    """Return the effect that tells the user something."""
    return {"type": "message", "text": text}


def inject(*messages: Json, deliver_at: str = "now") -> Json:
    """Return the effect that adds to the context."""
    effect = {"type": "inject", "target": "context", "operation": "append"}
    return {**effect, "deliverAt": deliver_at, "value": list(messages)}


def stop(reason: str = "enough") -> Json:
    """Return the effect that ends the flow."""
    return {"type": "flow", "operation": "stop", "reason": reason}


def go_on(instruction: Optional[str] = None) -> Json:
    """Return the effect that continues the turn."""
    effect: Json = {"type": "flow", "operation": "continue"}
    return effect if instruction is None else {**effect, "instruction": instruction}


# --- answers ------------------------------------------------------------------------------------


def says(*effects: Mapping[str, Any]) -> Act:
    """Answers every request with these effects."""
    return lambda backend, message, budget: answer(message.get("id"), *effects)


def in_turn(*acts: Act) -> Act:
    """Does one thing after another, and the last one from then on."""

    def act(backend: Backend, message: Json, budget: Budget) -> Optional[bytes]:
        return acts[min(len(backend.messages), len(acts)) - 1](backend, message, budget)

    return act


def after(
    state: State,
    *effects: Json,
    grant: Optional[Grant] = None,
    view: Optional[Json] = None,
    request: Optional[Json] = None,
) -> State:
    """Return the state after one answer, admitted and settled; everything is granted by default.

    ``view`` is the event as the receiver saw it, where that is another.
    """
    event_type = state.event["type"]
    capabilities = (grant or Grant.whole(event_type)).to_json(event_type)
    if state.remaining is not None:
        capabilities["flow"]["remainingContinuations"] = state.remaining
    result = {"protocolVersion": "draft", "effects": list(effects)}
    admitted = admitted_effects(result, event_type, capabilities)
    return settle(state, admitted, Shown(view or state.event, capabilities, request))
