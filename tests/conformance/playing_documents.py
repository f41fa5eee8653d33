"""Plays single wire documents in their role: what a harness sends, and what a backend answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from compare import Mismatch, check_equal, check_message, differences, plain
from from_wire import WHOLE, grant, occurrence
from playing import open_client, tell
from wires import Arrival, Wire

from ahp_sync import FailureClass, InvalidEvent, Outcome
from ahp_sync.protocol.edits import at
from ahp_sync.protocol.events import EVENTS
from ahp_sync.testing import intercept, observe

__all__ = ["check_answer", "check_manifest_sent", "check_message_sent"]

Json = dict[str, Any]
SOURCE = "urn:example:fixtures"


# --- what a harness sends -------------------------------------------------------------------------


class _Refused(Exception):
    """The API did not take what would have had to be sent."""


def check_message_sent(body: bytes, valid: bool, wire: Wire) -> None:
    """Check that a valid message is sent as it is, and that an invalid one can't be sent.

    That is so because the API refuses what would make it so, by its error; or because nothing that
    a host can say does: then the message that goes out for the same event is another one.
    """
    document = json.loads(body)
    try:
        received = _sent(document, wire)
    except _Refused as refusal:
        if valid:
            raise Mismatch(f"refused: {refusal}") from refusal
        check_equal("messages", len(wire.arrivals), 0)
        return
    if valid:
        check_message(received.message, document)
        return
    places = {
        place.split(" ")[0] for place in differences(plain(received.message), plain(document))
    }
    if b"\n" in body.strip() and b"\n" not in received.body:
        places.add("framing")
    # What no host can bring about: it does not choose these.
    if not places or not places <= {"$.id", "$.params.capabilities.effects", "framing"}:
        raise Mismatch(f"an invalid message was sent, or another one: {sorted(places)}")


def _sent(document: Json, wire: Wire) -> Arrival:
    """Have a host's client send the message for this event, and return what arrived."""
    params, is_request = document["params"], document["method"] == "hooks/intercept"
    event = params["event"]
    options: Json = {}
    if is_request:
        try:
            options["capabilities"] = grant(params["capabilities"], event["type"])
        except (TypeError, ValueError) as error:
            raise _Refused(f"grant: {error}") from error
    subscribed = [event["type"]]
    subscription = intercept(subscribed) if is_request else observe(subscribed)
    try:
        client = open_client(wire, {"receiver": [subscription]}, event)
    except ValueError as error:
        raise _Refused(f"client: {error}") from error
    with client:
        try:
            tell(client, event, **options)
        except InvalidEvent as error:
            raise _Refused(f"event: {error}") from error
        [received] = wire.wait_arrivals(1)
    return received


def check_manifest_sent(manifest: Json, wire: Wire) -> None:
    """Check that a manifest goes out as it is, with the one event that has one (R-CAP-06)."""
    details = {"session": {"id": "session-1"}, "trigger": "startup", "permissionMode": "default"}
    event = {**_common("session.start", "start-1"), **details, "manifest": manifest, "items": []}
    params = {"protocolVersion": "draft", "event": event}
    document = {"jsonrpc": "2.0", "method": "hooks/observe", "params": params}
    check_message_sent(json.dumps(document).encode(), True, wire)


def _common(event_type: str, event_id: str) -> Json:
    """Return what every event has."""
    return {
        "id": event_id,
        "source": SOURCE,
        "type": event_type,
        "time": "2026-01-01T00:00:00Z",
        "harness": {"name": "fixtures", "version": "1"},
    }


# --- what a backend answers -----------------------------------------------------------------------

_TEXT = {"kind": "text", "mediaType": "text/plain", "selection": "body"}
_TOOL = {"name": "run", "origin": "native", "input": {}}
_CALL: Json = {"call": {"id": "call-1"}, "path": "native", "tool": _TOOL}
#: An event of each kind that a document answers, without what every event has.
_EVENTS: Mapping[str, Json] = {
    "tool.before": _CALL,
    "tool.after": {**_CALL, "outcome": "ok", "execution": {"status": "executed"}, "items": []},
    "turn.start": {"turn": {"id": "turn-1"}, "trigger": "user", "items": []},
    "model.request.before": {
        "model": {"id": "model-1", "provider": "example"},
        "attempt": {"id": "attempt-1", "number": 1},
        "params": {},
        "items": [],
    },
    "context.compact.before": {
        "trigger": "auto",
        "items": [],
        "instructions": [{"id": "instructions-1", **_TEXT, "text": "keep the names"}],
    },
    "user.message.outbound": {"message": {"channel": "chat", "messages": []}},
    "user.elicitation.result": {},
}
#: The event that a target is at, where a document does not say.
_EVENT_OF_TARGET = {
    "prompt": "turn.start",
    "instructions": "context.compact.before",
    "content": "user.message.outbound",
    "output": "tool.after",
}
_FORM = {"name": {"type": "string"}, "keep": {"type": "boolean"}}


def check_answer(body: bytes, data: Json, valid: bool, wire: Wire) -> None:
    """Check that a valid answer to a fitting request takes effect, and nothing of another does."""
    document = json.loads(body)
    # One message is one line there, and these are printed over several.
    line = body.strip() if b"\n" not in body.strip() else json.dumps(document).encode()
    event, request = _question(document, data.get("editContext", {}))
    wire.clear(lambda arrival: line)
    policy = intercept([event["type"]], policy="fail-open", timeout_ms=10_000)
    with open_client(wire, {"answerer": [policy]}, event) as client:
        outcome = tell(client, event, request=request)
    if "error" in document:
        _check_error(outcome, valid)
    elif valid:
        check_equal("failures", [str(failure) for failure in outcome.failures], [])
        for effect in document["result"].get("effects", []):
            _check_effect(effect, event, outcome, document["result"]["effects"])
    else:
        _check_nothing_kept(outcome, event)


def _question(document: Json, context: Json) -> tuple[Json, Any]:
    """Return the event that a document answers, and that of the request, where one has to be."""
    name = context.get("event") or _boundary(document.get("result", {}).get("effects", []))
    event = {**_common(name, document["id"]), **json.loads(json.dumps(_EVENTS[name]))}
    current = context.get("current", {})
    if name == "user.elicitation.result":
        return _elicitation(event, context)
    if name == "user.message.outbound":
        event["message"]["messages"] = current.get("content", [])
    elif name == "tool.after":
        event["items"] = current.get("output", [])
    return event, None


def _boundary(effects: list[Json]) -> str:
    """Return the event at which all the effects of a document can be had."""
    for effect in effects:
        if effect["type"] == "modify":
            return _EVENT_OF_TARGET.get(effect["target"], "turn.start")
        if effect["type"] == "return" and isinstance(effect["value"], list):
            is_message = "role" in effect["value"][0]
            return "model.request.before" if is_message else "context.compact.before"
        if effect.get("operation") == "continue":
            return "tool.after"
    return "tool.before"


def _elicitation(event: Json, context: Json) -> tuple[Json, Json]:
    mode, action = context["mode"], context["action"]
    is_answered = mode == "form" and action == "accept"
    result = {"action": action, **(context["current"] if is_answered else {})}
    form = {"requestedSchema": {"type": "object", "properties": _FORM}}
    url = {"url": "https://example.com/", "elicitationId": "elicitation-1"}
    params = {"mode": mode, "message": "?", **(form if mode == "form" else url)}
    block = {"server": "server-1", "mode": mode}
    asked = {
        **event,
        "id": f"{event['id']}-asked",
        "type": "user.elicitation.request",
        "elicitation": {**block, "request": _text("asked", params)},
    }
    block["action"] = action
    answered = {
        **event,
        "parentEventId": asked["id"],
        "elicitation": {**block, "result": _text("answered", result)},
    }
    return answered, asked


def _text(name: str, value: Json) -> Json:
    return {"id": name, **_TEXT, "text": json.dumps(value)}


# --- what came of an answer -----------------------------------------------------------------------


def _check_error(outcome: Outcome, valid: bool) -> None:
    """A good error is told from a malformed message; both are failures."""
    [failure] = outcome.failures
    understood = (FailureClass.RPC_ERROR, FailureClass.UNSUPPORTED)
    if valid is not (failure.failure_class in understood):
        raise Mismatch(f"an error response was met with {failure}")


def _check_nothing_kept(outcome: Outcome, event: Json) -> None:
    if not outcome.failures:
        raise Mismatch(f"an invalid answer was accepted: {outcome}")
    refused = (FailureClass.EFFECTS, FailureClass.MALFORMED, FailureClass.UNSUPPORTED)
    assert [one.failure_class in refused for one in outcome.failures] == [True], outcome.failures
    assert (outcome.failed_open, outcome.may_execute) == (True, True)
    kept = (outcome.messages, outcome.injections, outcome.instructions, outcome.candidate)
    assert kept == ((), (), (), None)
    _, payload, _ = occurrence(event)
    check_equal("event", {name: outcome.event[name] for name in payload}, payload)


def _check_effect(effect: Json, event: Json, outcome: Outcome, effects: list[Json]) -> None:
    kind = effect["type"]
    if kind == "deny":
        first = next(one for one in effects if one["type"] == "deny")
        assert (str(outcome.decision), outcome.synthetic) == ("deny", False)
        check_equal("reason", outcome.reason, first["reason"])
    elif kind == "message":
        assert effect["text"] in outcome.messages
    elif kind == "inject":
        check_equal("injections", list(outcome.injections), [effect])
    elif kind == "flow":
        assert outcome.flow == ("stop" if {"stop"} & _operations(effects) else "continue")
    elif kind == "return":
        assert outcome.candidate is not None
        check_equal("candidate", outcome.candidate.value, effect["value"])
    else:
        assert kind == "modify", kind
        _check_edit(effect, event, outcome)


def _operations(effects: list[Json]) -> set[str]:
    return {effect["operation"] for effect in effects if effect["type"] == "flow"}


def _check_edit(effect: Json, event: Json, outcome: Outcome) -> None:
    target = EVENTS[event["type"]].target
    assert target is not None and target.name == effect["target"]
    before, after = at(event, target.path), at(outcome.event, target.path)
    wanted = effect["value"]
    if event["type"] == "user.elicitation.result":
        before, after = (json.loads(part["text"])["content"] for part in (before, after))
    if effect["operation"] == "merge":
        wanted = {**before, **wanted} if isinstance(before, dict) else [*before, *wanted]
    check_equal(f"{event['type']} after the edit", after, wanted)


assert all(name in WHOLE.intercept for name in _EVENTS)
