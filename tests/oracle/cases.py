"""One case of the oracle: an event, what is granted, who is asked, and what each answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Optional

from oracle.content import Payload
from oracle.strategies import full_event

__all__ = [
    "EVENT_ID",
    "GRANTS",
    "NEUTRAL",
    "SPOILT",
    "Answer",
    "Case",
    "Granted",
    "Subscription",
    "answered",
    "whole_grant",
]

EVENT_ID = "event-1"


@dataclass(frozen=True)
class Granted:
    """What an event can be granted at most: section 4 of the reference, read once more.

    ``target`` is the name of what ``modify`` changes, ``shape`` the form of its value and
    ``returns`` that of a supplied result.
    """

    effects: tuple[str, ...]
    target: Optional[str] = None
    shape: Optional[str] = None
    flow: tuple[str, ...] = ()
    returns: Optional[str] = None


#: By event type, for all that can be intercepted; ``message`` goes everywhere.
GRANTS: dict[str, Granted] = {
    "session.start": Granted(("inject",)),
    "config.change.before": Granted(("deny",)),
    "turn.start": Granted(
        ("deny", "modify", "flow", "inject"), "prompt", "messages", flow=("stop",)
    ),
    "turn.finish.before": Granted(
        ("modify", "flow"), "response", "messages", flow=("stop", "continue")
    ),
    "model.request.before": Granted(
        ("deny", "modify", "return", "flow", "inject"),
        "request",
        "messages",
        flow=("stop",),
        returns="messages",
    ),
    "model.response.after": Granted(("modify", "flow"), "response", "messages", flow=("stop",)),
    "model.switch.before": Granted(("deny", "flow"), flow=("stop",)),
    "tool.before": Granted(
        ("deny", "allow", "ask", "modify", "return", "flow", "inject"),
        "input",
        "object",
        flow=("stop",),
        returns="json",
    ),
    "tool.after": Granted(
        ("modify", "flow", "inject"), "output", "messages", flow=("stop", "continue")
    ),
    "tool.permission.request": Granted(
        ("deny", "allow", "modify", "flow"), "input", "object", flow=("stop",)
    ),
    "tool.batch.after": Granted(("flow", "inject"), flow=("stop",)),
    "context.compact.before": Granted(
        ("deny", "modify", "return", "inject"), "instructions", "text", returns="text"
    ),
    "context.compact.after": Granted(("modify", "inject"), "summary", "text"),
    "task.change.before": Granted(("deny",)),
    "user.elicitation.request": Granted(("deny", "return"), returns="elicitation"),
    "user.elicitation.result": Granted(("modify",), "content", "answers"),
    "user.message.inbound": Granted(("deny", "modify"), "prompt", "messages"),
    "user.message.outbound": Granted(("deny", "modify"), "content", "messages"),
    "workspace.change.before": Granted(("deny", "modify"), "workspace", "workspace"),
}


def whole_grant(event: str) -> Payload:
    """Return the capabilities of a host that does everything that there is at this event."""
    granted = GRANTS[event]
    block: Payload = {"effects": [*granted.effects, "message"]}
    if granted.target is not None:
        block["modify"] = {granted.target: {"replace": True, "merge": True}}
    if granted.flow:
        block["flow"] = {"operations": list(granted.flow)}
    if "continue" in granted.flow:
        counters = ("remainingContinuations", "continuationCount", "maxContinuations")
        block["flow"].update(dict.fromkeys(counters, 9))
    if "inject" in granted.effects:
        block["inject"] = {"context": {"append": True, "deliverAt": ["now", "next_turn"]}}
    if "elicitation" in event:
        block["elicitation"] = {"form": {}, "url": {}}
    return block


@dataclass(frozen=True)
class Answer:
    """What a backend sends: a JSON value, or that value with its bytes ``spoilt`` in some way.

    The ways are those of :meth:`body`. ``kind`` tells how it was made, for the statistics only.
    """

    message: Any
    spoilt: str = ""
    kind: str = field(default="", compare=False)

    @property
    def effects(self) -> list[Any]:
        """The effects in the message, as far as there are any."""
        result = self.message.get("result") if isinstance(self.message, dict) else None
        effects = result.get("effects") if isinstance(result, dict) else None
        return effects if isinstance(effects, list) else []

    def body(self) -> bytes:
        """Return the bytes that are sent."""
        whole = json.dumps(self.message).encode()
        return _SPOILT[self.spoilt](whole)


def _inserted(member: bytes) -> Any:
    return lambda whole: whole[:-1] + b", " + member + b"}"


_DENIAL = b'{"type": "deny", "reason": "hidden"}'
_SPOILT: dict[str, Any] = {
    "": lambda whole: whole,
    "byte order mark": lambda whole: b"\xef\xbb\xbf" + whole,
    "utf-16": lambda whole: whole.decode().encode("utf-16"),
    "duplicate id": _inserted(b'"id": "event-1"'),
    "hidden deny": lambda whole: whole.replace(
        b'"effects": [', b'"effects": [' + _DENIAL + b'], "effects": [', 1
    ),
    "NaN": _inserted(b'"x-unknown": NaN'),
    "infinity": _inserted(b'"x-unknown": -Infinity'),
    "overflow": _inserted(b'"x-unknown": 1e999'),
    "long number": _inserted(b'"x-unknown": ' + b"9" * 2000),
    "lone surrogate": _inserted(b'"x-unknown": "\\ud800"'),
    "deep": _inserted(b'"x-unknown": ' + b"[" * 150 + b"]" * 150),
    "bottomless": _inserted(b'"x-unknown": ' + b"[" * 100_000 + b"]" * 100_000),
    "not utf-8": _inserted(b'"x-unknown": "\xff"'),
    "trailing comma": lambda whole: whole[:-1] + b",}",
    "trailing object": lambda whole: whole + b"\n{}",
    "trailing space": lambda whole: b" \n" + whole + b"\r\n",
    "cut off": lambda whole: whole[:-1],
    "batch": lambda whole: b"[" + whole + b"]",
    "page": lambda whole: b"<html>" + whole,
    "nothing": lambda whole: b"",
}
SPOILT = tuple(name for name in _SPOILT if name)


def answered(*effects: Mapping[str, Any], **members: Any) -> Answer:
    """Return a success with these effects; ``members`` go into its result."""
    result = {"protocolVersion": "draft", "effects": [dict(effect) for effect in effects]}
    return Answer({"jsonrpc": "2.0", "id": EVENT_ID, "result": {**result, **members}})


NEUTRAL = answered()


@dataclass(frozen=True)
class Subscription:
    """One subscription: of a backend of its own, or of the same one as the subscription before it.

    Without an ``answer`` it observes.
    """

    answer: Optional[Answer] = None
    content: Payload = field(default_factory=lambda: {"default": "body"})
    policy: str = "fail-open"
    native: bool = False
    scope: Optional[str] = None
    joined: bool = False

    def to_json(self, event: str) -> Payload:
        """Return its entry in a registration."""
        entry: Payload = {"events": [event], "mode": "observe", "content": self.content}
        if self.answer is not None:
            entry.update(mode="intercept", timeoutMs=30_000, failurePolicy=self.policy)
        if self.native:
            entry["includeNative"] = True
        if self.scope is not None:
            entry.update(scope=self.scope, disableable=self.scope != "managed")
        return entry


@dataclass(frozen=True)
class Case:
    """A whole case. ``capabilities`` and ``state`` are as they go over the wire.

    ``narrowed`` grants everything to the host and less to the call, instead of the same to both.
    ``request`` is the payload of the elicitation whose result the event brings.
    """

    event: str
    payload: Payload
    capabilities: Payload
    subscriptions: tuple[Subscription, ...]
    state: Optional[Payload] = None
    request: Optional[Payload] = None
    native: Any = None
    narrowed: bool = False

    @property
    def declared(self) -> Payload:
        """What the host declares for its whole life."""
        if not self.narrowed:
            return self.capabilities
        whole, flow = whole_grant(self.event), self.capabilities.get("flow", {})
        if "maxContinuations" in flow:
            whole["flow"]["maxContinuations"] = 9
        return whole

    @property
    def whole_event(self) -> Payload:
        """The event as both clients are to send it."""
        event = full_event(self.event, self.payload)
        return event if self.native is None else {**event, "native": self.native}

    @property
    def request_event(self) -> Optional[Payload]:
        """The event of the elicitation's request, in the session of its result."""
        if self.request is None:
            return None
        event = full_event("user.elicitation.request", self.request)
        shared = {name: self.payload[name] for name in ("session",) if name in self.payload}
        return {**event, "id": "asked-1", **shared, **self.request}

    @property
    def backends(self) -> list[tuple[str, list[Subscription]]]:
        """The backends in order, each with its id and its subscriptions."""
        found: list[tuple[str, list[Subscription]]] = []
        for subscription in self.subscriptions:
            if subscription.joined and found:
                found[-1][1].append(subscription)
            else:
                found.append((f"com.example.b{len(found)}", [subscription]))
        return found

    def registration(self) -> Payload:
        """Return the registration document of the case."""
        return {
            "protocolVersion": "draft",
            "hooks": [
                {
                    "id": backend,
                    "transport": {"type": "http", "url": "http://127.0.0.1:9/ahp"},
                    "subscriptions": [one.to_json(self.event) for one in subscriptions],
                }
                for backend, subscriptions in self.backends
            ],
        }

    def __repr__(self) -> str:
        """Return it to be read by people, and as short as it can be."""
        lines = [f"{self.event} {_short(self.payload)}", f"granted {_short(self.capabilities)}"]
        for name in ("state", "request", "native"):
            value = getattr(self, name)
            if value is not None:
                lines.append(f"{name} {_short(value)}")
        if self.narrowed:
            lines.append("narrowed for the call")
        for subscription in self.subscriptions:
            entry = subscription.to_json(self.event)
            entry = {name: entry[name] for name in entry if name not in ("events", "timeoutMs")}
            if subscription.joined:
                entry["of"] = "the same backend"
            lines.append(f"subscription {_short(entry)}")
            if subscription.answer is not None:
                spoilt = f" ({subscription.answer.spoilt})" if subscription.answer.spoilt else ""
                lines.append(f"    answers {_short(subscription.answer.message)}{spoilt}")
        return "Case:\n  " + "\n  ".join(lines)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Return the same to Hypothesis, which would print every field otherwise."""
        printer.text(repr(self))


def _short(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
