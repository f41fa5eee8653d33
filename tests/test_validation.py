"""Our schema documents, what they say of a value, and the engines (design decision 6).

``tests/schemas`` compares all of them with the official bundle, and the engines with each other.
"""

from __future__ import annotations

import copy
import time
from typing import Any, Optional

import pytest
from answering import PAYLOADS, part
from good_instances import GOOD, MESSAGE, PARTS, SHA, modify
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from strategies import JSON

from ahp_sync.protocol import validation
from ahp_sync.protocol.events import EVENTS
from ahp_sync.protocol.schemas import EFFECT_SCHEMAS, EVENT_SCHEMAS, SCHEMAS
from ahp_sync.protocol.validation import (
    Problem,
    capabilities_problem,
    effect_problem,
    elicitation_problem,
    event_problem,
    extensions_problem,
    fast_check,
    manifest_problem,
    message_problem,
    part_problem,
    prepare,
    slow_check,
    state_problem,
)

INSTANCES = [(key, instance) for key, instances in GOOD.items() for instance in instances]


def fast(key: str, instance: Any) -> Optional[bool]:
    """Return what jsonschema-rs says; None where it can't take the value at all."""
    check = fast_check(key)
    assert check is not None
    try:
        return check(instance)
    except Exception:
        return None


# --- the documents --------------------------------------------------------------------------------


def test_there_is_a_document_for_everything() -> None:
    """For each event, for each effect that one can have, for what else there is to check."""
    assert set(EVENT_SCHEMAS) == set(EVENTS)
    wanted = {"message"}
    for event in EVENTS.values():
        wanted.update(name for name in event.effects if name not in ("modify", "return"))
        wanted.update([f"modify.{event.target.shape}"] if event.target else [])
        wanted.update([f"return.{event.returns}"] if event.returns else [])
    assert set(EFFECT_SCHEMAS) == wanted
    assert {key for key in GOOD if key.startswith("effect:")} == {f"effect:{n}" for n in wanted}
    granted = {f"capabilities:{event.name}" for event in EVENTS.values() if event.interceptable}
    assert {key for key in SCHEMAS if key.startswith("capabilities:")} == granted


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
def test_each_document_is_a_schema_without_references(schema: dict[str, Any]) -> None:
    """Nothing is resolved, so nothing can be fetched (F62); ``format`` is not relied on (F64).

    Alternatives are chosen, not tried, so that an error speaks of the one that was meant.
    """
    Draft202012Validator.check_schema(schema)
    unwanted = {"$ref", "$dynamicRef", "$schema", "$id", "format", "oneOf", "anyOf"}
    assert not unwanted & set(_keywords(schema))


def _keywords(schema: Any) -> list[str]:
    """Return the keywords of a schema, those inside of it too; not the names of members."""
    if isinstance(schema, list):
        return [name for inner in schema for name in _keywords(inner)]
    if not isinstance(schema, dict):
        return []
    members = schema.get("properties", {})
    rest = [one for name, one in schema.items() if name not in ("properties", "const", "enum")]
    return [*schema, *_keywords(list(members.values())), *_keywords(rest)]


@pytest.mark.parametrize(("key", "instance"), INSTANCES)
def test_the_good_instances_are_good(key: str, instance: Any) -> None:
    """Every member of the wire reference has its place."""
    kind, _, name = key.partition(":")
    problem = (event_problem if kind == "event" else effect_problem)(name, instance)
    assert problem is None


# --- the engines ----------------------------------------------------------------------------------

needs_both = pytest.mark.skipif(
    validation.engine() == "jsonschema", reason="jsonschema-rs is not installed"
)


@needs_both
@given(st.sampled_from(sorted(SCHEMAS)), JSON)
def test_the_two_engines_agree_on_anything(key: str, instance: Any) -> None:
    """Also on what no schema would give; what is near one is drawn in ``tests/schemas``."""
    opinion = fast(key, instance)
    assert opinion is None or opinion == (slow_check(key)(instance) is None)


def _both(key: str, instance: Any) -> set[bool]:
    opinions = {slow_check(key)(instance) is None}
    if validation.engine() != "jsonschema":
        opinions |= {one for one in [fast(key, instance)] if one is not None}
    return opinions


EFFECT = GOOD["effect:deny"][0]
BEFORE = GOOD["event:tool.before"][0]


@pytest.mark.parametrize(
    ("key", "instance"),
    [
        ("effect:deny", {**EFFECT, "code": "a.b\n"}),
        ("effect:deny", {**EFFECT, "code": "\na.b"}),
        ("effect:deny", {**EFFECT, "code": "a.b\nc.d"}),
        ("effect:deny", {**EFFECT, "code": "a.b\r"}),
        ("effect:deny", {**EFFECT, "code": "a.b\u2028"}),
        ("effect:deny", {**EFFECT, "code": "ä.b"}),
        ("effect:deny", {**EFFECT, "code": "a.b٣"}),
        ("effect:deny", {**EFFECT, "extensions": {"a.b\n": 1}}),
        ("event:tool.before", {**BEFORE, "extensions": {"a.b\n": 1}}),
        ("event:tool.before", {**BEFORE, "items": [{**PARTS[1], "sha256": f"{SHA}\n"}]}),
        ("event:tool.before", {**BEFORE, "items": [{**PARTS[1], "sha256": SHA.upper()}]}),
        ("event:tool.before", {**BEFORE, "items": [{**PARTS[1], "mediaType": "x/json\n"}]}),
    ],
)
def test_a_pattern_covers_the_whole_text(key: str, instance: Any) -> None:
    """A trailing newline passes ``$`` in Python, and letters are more than ASCII; not here."""
    assert _both(key, instance) == {False}


@pytest.mark.parametrize(
    ("size", "good"),
    [
        (0, True),
        (2.0, True),
        (10**30, True),
        (1.5, False),
        (-1, False),
        (True, False),
        ("1", False),
        (None, False),
    ],
)
def test_what_is_a_count(size: Any, good: bool) -> None:
    """2.0 is an integer in JSON schema, ``true`` and 1.5 are not (T-16)."""
    assert _both("event:tool.before", {**BEFORE, "items": [{**PARTS[1], "size": size}]}) == {good}


@pytest.mark.parametrize(
    ("media_type", "good"),
    [
        ("image/png", True),
        ("image/svg+xml", True),
        ("application/jsonl", True),
        ("application/octet-stream", True),
        ("", False),
        ("text/plain", False),
        ("TEXT/html", False),
        ("application/json", False),
        ("application/JSON; charset=utf-8", False),
        ("application/vnd.x+json", False),
        ("application/vnd.x+Json;q=1", False),
    ],
)
def test_what_an_attachment_may_be(media_type: str, good: bool) -> None:
    """Neither text nor JSON, in any spelling (R-CON-01)."""
    part = {**PARTS[1], "mediaType": media_type}
    assert _both("event:tool.before", {**BEFORE, "items": [part]}) == {good}


def test_equal_numbers_and_booleans_are_told_apart() -> None:
    """``uniqueItems`` and ``const`` do not take ``true`` for 1 (T-06)."""
    batch = {"id": "b", "callIds": ["c", "c"]}
    assert _both("event:tool.before", {**BEFORE, "batch": batch}) == {False}
    assert _both("event:tool.before", {**BEFORE, "synthesized": 1}) == {False}
    assert _both("event:tool.before", {**BEFORE, "synthesized": True}) == {True}


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"path": 1}, "$.path"),
        ({"call": {}}, "$.call"),
        ({"items": [PARTS[0], {**PARTS[0], "text": 1}]}, "$.items[1].text"),
        ({"session": {"id": "s", "counters": {"a b": -1}}}, "$.session.counters"),
    ],
)
def test_the_message_does_not_depend_on_the_engine(change: dict[str, Any], path: str) -> None:
    """A refused value is looked at by the pure-Python engine, whatever is installed."""
    problem = event_problem("tool.before", {**BEFORE, **change})
    assert problem is not None
    assert problem.path.startswith(path)
    assert problem.wanted
    assert problem == slow_check("event:tool.before")({**BEFORE, **change})


# --- what is said of a value ----------------------------------------------------------------------

START = GOOD["event:session.start"][0]
STATE = {"permission": "none", "candidate": None}
RESPONSE = {
    "model": {"id": "m", "provider": "p"},
    "attempt": {"id": "a", "number": 1},
    "items": [],
    "finishReason": "stop",
    "execution": {"status": "executed"},
}


@pytest.mark.parametrize(
    ("problem", "path", "wanted"),
    [
        (event_problem("tool.before", {}), "$", "with the missing call, tool, path"),
        (
            event_problem("tool.before", {**BEFORE, "tool": {**BEFORE["tool"], "origin": "mcp"}}),
            "$.tool",
            "with the missing mcp",
        ),
        (event_problem("tool.before", {**BEFORE, "outcome": "ok"}), "$.outcome", "absent"),
        (
            event_problem("tool.before", {**BEFORE, "items": [{**PARTS[0], "size": 1}]}),
            "$.items[0].size",
            "absent",
        ),
        (
            event_problem("tool.before", {**BEFORE, "items": [{**PARTS[4], "body": {}}]}),
            "$.items[0].body",
            "with the missing ref",
        ),
        (
            event_problem("tool.before", {**BEFORE, "items": [{**PARTS[4], "kind": "text"}]}),
            "$.items[0]",
            "without that member",
        ),
        (
            event_problem("tool.before", {**BEFORE, "items": [{**PARTS[4], "kind": "image"}]}),
            "$.items[0].kind",
            "one of text, attachment",
        ),
        (
            event_problem("turn.finish.before", {"turn": {"id": "t"}, "items": []}),
            "$",
            "with the missing outcome, continuationCount",
        ),
        (
            event_problem("model.response.after", {**RESPONSE, "execution": {"status": "skipped"}}),
            "$.execution",
            "with the missing reason",
        ),
        (
            event_problem("model.response.after", {**RESPONSE, "finishReason": ""}),
            "$.finishReason",
            "a non-empty string",
        ),
        (
            event_problem("workspace.change.before", {"workspace": {"kind": "cwd", "change": {}}}),
            "$.workspace.change",
            "at least 1 members",
        ),
        (
            event_problem(
                "user.message.inbound",
                {"message": {"channel": "c", "sender": "s", "messages": [MESSAGE]}},
            ),
            "$.message.messages[0].role",
            "one of user",
        ),
        (event_problem("file.changed", {"changes": []}), "$.changes", "at least 1 items"),
        (
            event_problem("session.start", {**START, "trigger": "fork", "resumedFrom": None}),
            "$.resumedFrom",
            "of type object",
        ),
        (effect_problem("deny", {"type": "deny"}), "$", "with the missing reason"),
        (
            effect_problem("flow", {"type": "flow", "operation": "stop"}),
            "$",
            "with the missing reason",
        ),
        (
            effect_problem("flow", {"type": "flow", "operation": "pause"}),
            "$.operation",
            "one of stop, continue",
        ),
        (
            effect_problem("modify.object", modify("output", {})),
            "$.target",
            "one of input",
        ),
        (effect_problem("return.json", {"type": "return"}), "$", "with the missing value"),
        (
            effect_problem("return.text", {"type": "return", "value": [PARTS[2]]}),
            "$.value[0]",
            "with the missing text",
        ),
        (state_problem("tool.before", {"permission": "none"}), "$", "with the missing candidate"),
        (
            state_problem("model.request.before", {**STATE, "candidate": {"value": None}}),
            "$.candidate.value",
            "of type array",
        ),
        (
            state_problem("tool.after", {**STATE, "flow": None}),
            "$.flow",
            "of type string",
        ),
        (
            capabilities_problem("tool.before", {"effects": ["modify"]}),
            "$",
            "with the missing modify",
        ),
        (
            capabilities_problem("config.change.before", {"effects": ["allow"]}),
            "$.effects[0]",
            "one of deny, message",
        ),
        (manifest_problem({**START["manifest"], "identity": 1}), "$.identity", "absent"),
        (message_problem({**MESSAGE, "role": "user "}), "$.role", None),
        (part_problem({**PARTS[1], "mediaType": "text/html"}), "$.mediaType", None),
        (extensions_problem({"nodots": 1}), "$", "with reverse-DNS names only"),
        (
            elicitation_problem("request", {"message": "m", "requestedSchema": {}}),
            "$.requestedSchema",
            "with the missing type, properties",
        ),
        (
            elicitation_problem("request", {"mode": "url", "message": "m"}),
            "$",
            "with the missing url, elicitationId",
        ),
        (
            elicitation_problem("result", {"action": "accept", "content": {"a": {}}}),
            "$.content.a",
            "of type string, number, boolean, array",
        ),
    ],
)
def test_a_problem_is_named(problem: Optional[Problem], path: str, wanted: Optional[str]) -> None:
    """Where it is and what is right there, of the alternative that was meant."""
    assert problem is not None
    assert problem.path == path
    assert problem.wanted == wanted or (wanted is None and problem.wanted)


@pytest.mark.parametrize("key", ["event:tool.befor", "effect:retry", "effect:modify", "nothing"])
def test_what_has_no_document_is_a_mistake(key: str) -> None:
    """Nothing passes for want of a schema."""
    with pytest.raises(KeyError):
        slow_check(key)
    with pytest.raises(KeyError):
        event_problem(key, {})


# --- values that are meant to take long -----------------------------------------------------------

ODD = [[], {}, 0, "x", None, True] * 20_000
MANY = range(len(ODD))


@pytest.mark.parametrize(
    ("key", "instance"),
    [
        ("effect:modify.workspace", modify("workspace", {"workspaceRoots": ODD})),
        ("effect:modify.messages", modify("prompt", ODD)),
        ("effect:modify.text", modify("summary", ODD)),
        ("effect:modify.answers", modify("content", {"a": ODD})),
        ("effect:inject", {**GOOD["effect:inject"][0], "value": ODD}),
        (
            "effect:deny",
            {"type": "deny", "reason": "r", "extensions": dict.fromkeys(map(str, ODD))},
        ),
        ("effect:allow", {f"x{i}": i for i in MANY}),
        ("effect:return.messages", {"type": "return", "value": [{**MESSAGE, "parts": ODD}] * 2}),
    ],
)
def test_a_hostile_value_is_refused_soon(key: str, instance: Any) -> None:
    """Not all that is wrong with it is looked at, and nothing is compared with all the rest."""
    started = time.perf_counter()
    assert slow_check(key)(instance) is not None
    assert time.perf_counter() - started < 10


# --- the engines, once more -----------------------------------------------------------------------


@pytest.mark.parametrize("key", SCHEMAS)
def test_a_document_can_be_made_ready(key: str) -> None:
    """So that the first call that needs it does not wait for that."""
    for cached in (fast_check, slow_check):
        cached.cache_clear()
    prepare([key])
    prepare([key])
    assert fast_check.cache_info().misses == slow_check.cache_info().misses == 1


def test_without_the_fast_engine_all_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default install has the pure-Python engine only."""
    monkeypatch.setattr(validation, "_fast_factory", lambda: None)
    validation.fast_check.cache_clear()
    try:
        assert validation.engine() == "jsonschema"
        assert effect_problem("deny", EFFECT) is None
        assert effect_problem("deny", {**EFFECT, "reason": ""}) is not None
    finally:
        validation.fast_check.cache_clear()


# --- long histories -------------------------------------------------------------------------------


def history(length: int) -> dict[str, Any]:
    """Return the members of a ``model.request.before`` with so many messages."""
    items: list[dict[str, Any]] = [
        {"id": f"m{i}", "role": "user", "parts": []} for i in range(length)
    ]
    return {
        "model": {"id": "m", "provider": "p"},
        "attempt": {"id": "a", "number": 1},
        "params": {},
        "items": items,
    }


@pytest.mark.parametrize("place", [0, 63, 64, 130, 199])
def test_the_path_in_a_long_list_is_that_of_the_whole(place: int) -> None:
    """It is checked in pieces, which nobody has to know."""
    event = history(200)
    event["items"][place]["role"] = "nobody"
    problem = validation.event_problem("model.request.before", event, lambda: True)
    assert problem == validation.event_problem("model.request.before", event)
    assert problem is not None
    assert problem.path == f"$.items[{place}].role"


@pytest.mark.parametrize("place", [0, 63, 64, 65, 129, 199])
@pytest.mark.parametrize(
    ("event_type", "path"),
    [
        ("context.compact.after", ("summary",)),
        ("context.compact.before", ("instructions",)),
        ("user.message.outbound", ("message", "messages", 0, "parts")),
        ("model.response.after", ("items", 0, "parts")),
    ],
)
def test_other_long_lists_are_checked_in_pieces_too(
    event_type: str, path: tuple[Any, ...], place: int
) -> None:
    """Texts, the messages of a user, and the parts of one message; each with a long one beside."""
    event = copy.deepcopy(PAYLOADS[event_type])
    event.setdefault("items", []).extend(history(100)["items"] if path[0] != "message" else [])
    parts = [part(f"p{i}", "x") for i in range(200)]
    parts[place]["text"] = 5
    owner = event
    for name in path[:-1]:
        owner = owner[name]
    owner[path[-1]] = parts
    looks: list[None] = []

    def wanted() -> bool:
        looks.append(None)
        return True

    problem = validation.event_problem(event_type, event, wanted)
    assert problem == validation.event_problem(event_type, event)
    assert problem is not None
    where = "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in (*path, place))
    assert problem.path == f"${where}.text"
    parts[place]["text"] = "x"
    looks.clear()
    assert validation.event_problem(event_type, event, wanted) is None
    assert len(looks) > 2


@pytest.mark.parametrize("place", [0, 64, 199])
def test_a_long_value_of_an_effect_is_checked_in_pieces(place: int) -> None:
    """And its path is that of the whole."""
    value = history(200)["items"]
    effect = {"type": "modify", "target": "request", "operation": "replace", "value": value}
    value[place]["role"] = "nobody"
    problem = effect_problem("modify.messages", effect, lambda: True)
    assert problem == effect_problem("modify.messages", effect)
    assert problem is not None
    assert problem.path == f"$.value[{place}].role"
    later = effect_problem("modify.messages", effect, lambda: False)
    assert (later is None) is (place >= 64)


def test_a_long_list_is_left_when_nobody_waits_for_it() -> None:
    """The time is looked at between the pieces."""
    event, looks = history(1000), []
    event["items"][500]["role"] = "nobody"

    def wanted() -> bool:
        looks.append(None)
        return len(looks) < 3

    assert validation.event_problem("model.request.before", event, wanted) is None
    assert len(looks) == 3
    assert validation.event_problem("model.request.before", event, lambda: True) is not None
