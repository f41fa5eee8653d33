"""Every document of ours accepts and refuses what the official bundle does.

The bundle's schemas are asked by the engine and with the format checks that the SDK has. Where the
two differ, ``known_differences.py`` says why.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
from known_differences import DIFFERENCES

from ahp_sync.failure import OperationalFailure
from ahp_sync.grants import Grant
from ahp_sync.protocol.effects import admitted_effects
from ahp_sync.protocol.events import EVENTS, Shape
from ahp_sync.protocol.schemas import EFFECT_SCHEMAS, EVENT_SCHEMAS, SCHEMAS
from ahp_sync.protocol.validation import (
    capabilities_problem,
    effect_problem,
    elicitation_problem,
    event_problem,
    extensions_problem,
    fast_check,
    manifest_problem,
    message_problem,
    part_problem,
    state_problem,
)
from schemas.compare import DEFAULT, NIGHTLY, compare, told
from schemas.instances import Draw, neighbours

official = pytest.importorskip("schemas.official")

Check = Callable[[Any], bool]


@dataclass(frozen=True)
class Root:
    """One schema of ours, the ones in the bundle, and how one instance stands for both.

    ``bare`` makes ours of an instance of theirs, ``whole`` theirs of ours.
    """

    name: str
    schema: Any
    references: tuple[str, ...]
    ours: Check
    bare: Callable[[Any], Any] = lambda instance: instance
    whole: Callable[[Any], Any] = lambda instance: instance

    def draw(self, random: Random) -> Any:
        """Return an instance for either, near to what one of the two would accept."""
        draw = Draw(random, official.names(), official.resolve())
        theirs = {"$ref": random.choice(self.references)}
        return self.bare(draw.near(random.choice([self.schema, theirs])))

    def rich(self, random: Random) -> Any:
        """Return an instance that both accept, with most of what can be in it."""
        draw = Draw(random, official.names(), official.resolve(), share=0.8)
        for _ in range(50):
            schema = random.choice([self.schema, {"$ref": random.choice(self.references)}])
            instance = self.bare(draw.instance(schema))
            if self.ours(instance) and self.theirs(instance):
                return instance
        raise AssertionError("no instance is accepted by both")

    def theirs(self, instance: Any) -> bool:
        """Return what the official schema says of it."""
        return official.check(*self.references)(self.whole(instance))

    def quickly(self, instance: Any) -> bool:
        """Return nearly always the same, sooner."""
        return official.quick_check(*self.references)(self.whole(instance))


# --- the roots ------------------------------------------------------------------------------------

OWN = {
    "source": "urn:example:tests",
    "time": "2026-03-01T10:00:00Z",
    "harness": {"name": "tests", "version": "1"},
}
FAMILIES = ("tool.before", "tool.after", "session.start", "session.end")


def event_root(name: str) -> Root:
    """The client adds what is its own; a call can't bring that along."""
    file = name.replace(".", "-") if name in FAMILIES else "catalogue-event"
    pointer = "" if name in FAMILIES else f"#/$defs/{name}"

    def bare(event: Any) -> Any:
        if not isinstance(event, dict):
            return event
        return {member: one for member, one in event.items() if member not in {*OWN, "type"}}

    def whole(event: Any) -> Any:
        return {"id": "e", **event, **OWN, "type": name} if isinstance(event, dict) else event

    return Root(
        f"event:{name}",
        EVENT_SCHEMAS[name],
        (f"{file}.schema.json{pointer}",),
        lambda event: event_problem(name, event) is None,
        bare,
        whole,
    )


EFFECTS = {
    "deny": ("DenyEffect",),
    "allow": ("AllowEffect",),
    "ask": ("AskEffect",),
    "message": ("MessageEffect",),
    "inject": ("InjectEffect",),
    "flow": ("StopFlowEffect", "ContinueFlowEffect"),
    "modify.object": ("ModifyInputEffect",),
    "modify.workspace": ("ModifyWorkspaceEffect",),
    "modify.messages": ("ModifyMessagesEffect",),
    "modify.text": ("ModifyTextEffect",),
    "modify.answers": ("ModifyFormEffect",),
    "return.json": ("ReturnToolEffect",),
    "return.messages": ("ReturnMessagesEffect",),
    "return.text": ("ReturnTextEffect",),
    "return.elicitation": ("ReturnElicitResultEffect",),
}


def effect_root(key: str) -> Root:
    """The document that the event's target, or its result, makes the right one."""
    references = tuple(f"effect.schema.json#/$defs/{name}" for name in EFFECTS[key])
    return Root(
        f"effect:{key}",
        EFFECT_SCHEMAS[key],
        ("deny-effect.schema.json",) if key == "deny" else references,
        lambda effect: effect_problem(key, effect) is None,
    )


STATES = {
    Shape.JSON: ("tool.before", "ToolState"),
    Shape.MESSAGES: ("model.request.before", "MessagesState"),
    Shape.TEXT: ("context.compact.before", "TextState"),
    Shape.ELICITATION: ("user.elicitation.request", "ElicitResultState"),
}


def state_root(shape: Shape) -> Root:
    """``params.state``, by the form of a candidate."""
    event_type, name = STATES[shape]
    return Root(
        f"state:{shape}",
        SCHEMAS[f"state:{shape}"],
        (f"intercept-request.schema.json#/$defs/{name}",),
        lambda state: state_problem(event_type, state) is None,
    )


def capabilities_root(name: str) -> Root:
    """``params.capabilities`` of one event."""
    return Root(
        f"capabilities:{name}",
        SCHEMAS[f"capabilities:{name}"],
        (f"capabilities.schema.json#/$defs/{name}",),
        lambda capabilities: capabilities_problem(name, capabilities) is None,
    )


def response_root(name: str) -> Root:
    """A whole result, for a request that grants all there is: what a schema can say of it."""
    words = "".join(word.title() for word in name.split("."))
    event = EVENTS[name]
    keys = [one for one in event.effects if one not in ("modify", "return")]
    keys += [f"modify.{event.target.shape}"] if event.target else []
    keys += [f"return.{event.returns}"] if event.returns else []
    granted = Grant.whole(name).to_json(name)

    def ours(result: Any) -> bool:
        try:
            admitted_effects(result, name, granted)
        except OperationalFailure:
            return False
        return True

    return Root(
        f"response:{name}",
        {
            "type": "object",
            "required": ["protocolVersion"],
            "properties": {
                "protocolVersion": {"const": "draft"},
                "effects": {
                    "type": "array",
                    "items": {"anyOf": [EFFECT_SCHEMAS[key] for key in (*keys, "message")]},
                },
                "extensions": SCHEMAS["extensions"],
            },
        },
        (
            f"intercept-response.schema.json#/$defs/{words}InterceptResponse"
            "/allOf/1/properties/result",
        ),
        ours,
        # Whether the result is an object at all is looked at before.
        lambda result: result if isinstance(result, dict) else {"result": result},
    )


def other_roots() -> Iterator[Root]:
    """What stands inside of others, or for itself."""
    for name, reference, problem in (
        (
            "manifest",
            "capabilities-response.schema.json#/allOf/1/properties/result/properties/manifest",
            manifest_problem,
        ),
        ("message", "content-item.schema.json#/$defs/message", message_problem),
        ("part", "content-item.schema.json", part_problem),
        ("extensions", "extensions.schema.json", extensions_problem),
        (
            "elicitation:request",
            "mcp-elicitation.schema.json#/$defs/request",
            lambda params: elicitation_problem("request", params),
        ),
        (
            "elicitation:result",
            "mcp-elicitation.schema.json#/$defs/result",
            lambda result: elicitation_problem("result", result),
        ),
    ):
        yield Root(
            name, SCHEMAS[name], (reference,), lambda one, problem=problem: problem(one) is None
        )


INTERCEPTED = [name for name, event in EVENTS.items() if event.interceptable]
ROOTS = {
    root.name: root
    for root in (
        *map(event_root, EVENTS),
        *map(effect_root, EFFECTS),
        *map(state_root, STATES),
        *map(capabilities_root, INTERCEPTED),
        *map(response_root, INTERCEPTED),
        *other_roots(),
    )
}

# --- what differs ---------------------------------------------------------------------------------


def without_newlines(value: Any) -> Any:
    """Return the value, with no text in it that ends in a line break."""
    if isinstance(value, str):
        return value.rstrip("\n")
    if isinstance(value, dict):
        return {without_newlines(name): without_newlines(one) for name, one in value.items()}
    return [without_newlines(one) for one in value] if isinstance(value, list) else value


def newline_behind_a_name(root: Root, instance: Any) -> bool:
    """Without line breaks at the end of texts there is no difference."""
    cleaned = without_newlines(instance)
    return not root.ours(instance) and root.ours(cleaned) == root.theirs(cleaned)


def returned_text_is_inline(root: Root, instance: Any) -> bool:
    """With all texts there, there would be no difference."""

    def inline(value: Any) -> Any:
        if isinstance(value, list):
            return [inline(one) for one in value]
        if not isinstance(value, dict):
            return value
        if value.get("type") == "return" and isinstance(value.get("value"), list):
            return {**value, "value": [full(part) for part in value["value"]]}
        return {name: inline(one) for name, one in value.items()}

    def full(part: Any) -> Any:
        if not isinstance(part, dict):
            return part
        kept = ("id", "kind", "mediaType", "category", "synthesized")
        return {"selection": "body", "text": "", **{n: part[n] for n in kept if n in part}}

    filled = inline(instance)
    return (
        root.name in ("effect:return.text", "response:context.compact.before")
        and not root.ours(instance)
        and root.ours(filled) == root.theirs(filled)
    )


EXCUSES: dict[str, Callable[[Root, Any], bool]] = {
    "newline-behind-a-name": newline_behind_a_name,
    "returned-text-is-inline": returned_text_is_inline,
}
HIDDEN = {"id": "p", "kind": "text", "mediaType": "text/plain", "selection": "omit"}
WITNESSES: list[tuple[str, str, Any]] = [
    ("newline-behind-a-name", "extensions", {"a.b\n": 1}),
    ("newline-behind-a-name", "effect:deny", {"type": "deny", "reason": "r", "code": "a.b\n"}),
    ("returned-text-is-inline", "effect:return.text", {"type": "return", "value": [HIDDEN]}),
]

# --- the tests ------------------------------------------------------------------------------------


def check(root: Root, examples: int) -> None:
    """Compare the two on many instances, known differences aside."""

    def excused(instance: Any) -> bool:
        return any(excuse(root, instance) for excuse in EXCUSES.values())

    compare(examples, root.draw, root.ours, root.theirs, quickly=root.quickly, excused=excused)


def check_around(root: Root, seeds: int) -> None:
    """Compare the two on everything that is one change away from what both accept."""
    fast = fast_check(root.name)
    assert fast is not None
    for seed in range(seeds):
        for instance in neighbours(root.rich(Random(seed)), official.names()):
            if fast(instance) is root.quickly(instance):
                continue
            ours, theirs = root.ours(instance), root.theirs(instance)
            if ours is not theirs and not any(one(root, instance) for one in EXCUSES.values()):
                raise AssertionError(told(instance, ours, theirs))


def test_every_document_is_compared() -> None:
    """None is left out, and none is spoken of that is not there."""
    assert set(SCHEMAS) == {name for name in ROOTS if not name.startswith("response:")}


@pytest.mark.parametrize("name", ROOTS)
def test_the_same_is_accepted(name: str) -> None:
    """Good instances, near misses and anything else get the same verdict from both."""
    check(ROOTS[name], DEFAULT)


@pytest.mark.nightly
@pytest.mark.parametrize("name", ROOTS)
def test_the_same_is_accepted_all_night(name: str) -> None:
    """The same, for longer."""
    check(ROOTS[name], NIGHTLY)


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_same_is_accepted_around_what_is_right(name: str) -> None:
    """Each member left out, each value spoiled, each name of the protocol where it may not be."""
    check_around(ROOTS[name], 2)


@pytest.mark.nightly
@pytest.mark.parametrize("name", SCHEMAS)
def test_the_same_is_accepted_around_what_is_right_all_night(name: str) -> None:
    """The same, for longer."""
    check_around(ROOTS[name], 40)


@pytest.mark.parametrize(("difference", "name", "instance"), WITNESSES)
def test_a_listed_difference_is_there(difference: str, name: str, instance: Any) -> None:
    """Ours refuses what theirs accepts; were that no longer so, the entry would have to go."""
    assert difference in DIFFERENCES
    root = ROOTS[name]
    assert (root.ours(instance), root.theirs(instance)) == (False, True)
    assert EXCUSES[difference](root, instance)


def test_every_excuse_is_listed_and_shown() -> None:
    """Nothing is excused that is not on the list, or that nobody has seen."""
    assert set(EXCUSES) == {difference for difference, _, _ in WITNESSES}
    assert set(EXCUSES) <= set(DIFFERENCES)


@pytest.mark.parametrize("name", INTERCEPTED)
def test_what_is_admitted_the_sdk_reads(name: str) -> None:
    """The SDK's own reader of answers takes what we admit: it may be laxer, never stricter."""
    from agenthooksprotocol.response import response_for_request

    root = ROOTS[f"response:{name}"]
    read = 0
    for seed in range(DEFAULT):
        result = root.draw(Random(seed))
        if root.ours(result):
            answer = {"jsonrpc": "2.0", "id": "e", "result": result}
            assert response_for_request(name, answer)["ok"], result
            read += 1
    assert read > DEFAULT / 10
