"""Our schema documents and the two engines that check them (design decision 6)."""

from __future__ import annotations

from typing import Any, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from strategies import JSON, near

from ahp_sync.protocol import validation
from ahp_sync.protocol.events import EVENTS
from ahp_sync.protocol.payloads import manifest
from ahp_sync.protocol.schemas import EFFECT_SCHEMAS, EVENT_SCHEMAS
from ahp_sync.protocol.validation import effect_problem, event_problem, fast_check, slow_check

# --- good instances of each document, with every optional member ----------------------------------

SHA = "0123456789abcdef" * 4
PARTS: list[dict[str, Any]] = [
    {"id": "p1", "kind": "text", "mediaType": "text/plain", "selection": "body", "text": ""},
    {
        "id": "p2",
        "kind": "attachment",
        "mediaType": "image/svg+xml",
        "selection": "metadata",
        "size": 3,
        "sha256": SHA,
        "category": "images",
        "synthesized": True,
    },
    {
        "id": "p3",
        "kind": "text",
        "mediaType": "text/plain",
        "selection": "body",
        "gap": {"reason": "lost", "path": "$.x"},
        "size": 0,
    },
    {"id": "p4", "kind": "attachment", "mediaType": "application/jsonl", "selection": "omit"},
]
MESSAGE: dict[str, Any] = {"id": "m", "role": "tool", "parts": PARTS, "synthesized": False}
ENVELOPE: dict[str, Any] = {
    "id": "e",
    "session": {
        "id": "s",
        "cwd": "/",
        "workspaceRoots": ["/"],
        "model": "m",
        "agent": {"id": "a", "type": "t"},
        "counters": {"calls": 1},
        "synthesized": True,
    },
    "turn": {"id": "t", "synthesized": True},
    "parentEventId": "e0",
    "gaps": [{"path": "p", "reason": "r"}],
    "extensions": {"com.example.x": None},
    "synthesized": True,
}
MCP = {
    "server": {"id": "srv", "name": "n"},
    "toolName": "t",
    "provenance": "inferred",
    "connection": {"transport": "http", "url": "https://example.com/x"},
}
CALL: dict[str, Any] = {
    "call": {"id": "c", "synthesized": True},
    "tool": {"name": "Bash", "input": {"a": [1]}, "origin": "native", "kind": "shell"},
    "path": "native",
    "batch": {"id": "b", "callIds": ["c", "d"], "synthesized": True},
}
AFTER: dict[str, Any] = {**ENVELOPE, **CALL, "items": [MESSAGE]}
GOOD: dict[str, list[Any]] = {
    "event:tool.before": [
        {**ENVELOPE, **CALL, "items": PARTS},
        {**CALL, "tool": {"name": "t", "input": {}, "origin": "mcp", "mcp": MCP}},
    ],
    "event:tool.after": [
        {
            **AFTER,
            "outcome": "ok",
            "execution": {"status": "executed"},
            "durationMs": 1.5,
            "fileChanges": [
                {"path": "a", "change": "modified", "before": PARTS[0], "after": PARTS[1]},
                {"path": "b", "change": "moved", "previousPath": "a"},
                {"path": "c", "change": "created", "after": PARTS[0]},
                {"path": "d", "change": "deleted", "before": PARTS[0]},
            ],
        },
        {
            **AFTER,
            "outcome": "error",
            "execution": {"status": "executed"},
            "error": {"message": "m", "class": "c", "code": "x", "status": 5, "native": [1]},
        },
        {**AFTER, "outcome": "denied", "execution": {"status": "skipped", "reason": "policy"}},
        {
            **AFTER,
            "outcome": "cancelled",
            "execution": {"status": "skipped", "reason": "other", "detail": "d"},
        },
    ],
    "event:session.start": [
        {
            **ENVELOPE,
            "trigger": "fork",
            "permissionMode": "default",
            "manifest": manifest(),
            "items": [MESSAGE],
            "resumedFrom": {"id": "s0"},
        }
    ],
    "event:session.end": [
        {
            **ENVELOPE,
            "outcome": "completed",
            "reason": "r",
            "counters": {"calls": 2.0},
            "items": PARTS,
        }
    ],
    "effect:deny": [
        {"type": "deny", "reason": "no", "code": "a.b", "extensions": {"com.example.x": {}}}
    ],
}
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


def test_there_is_a_document_for_everything_served() -> None:
    """And a good instance of each in this test."""
    assert set(EVENT_SCHEMAS) == {event.name for event in EVENTS.values() if event.declared}
    served = {effect for event in EVENTS.values() for effect in event.intercept_effects}
    assert set(EFFECT_SCHEMAS) == served
    keys = {f"event:{name}" for name in EVENT_SCHEMAS} | {f"effect:{name}" for name in served}
    assert set(GOOD) == keys


@pytest.mark.parametrize("schema", [*EVENT_SCHEMAS.values(), *EFFECT_SCHEMAS.values()])
def test_each_document_is_a_schema_without_references(schema: dict[str, Any]) -> None:
    """Nothing is resolved, so nothing can be fetched (F62); ``format`` is not relied on (F64)."""
    Draft202012Validator.check_schema(schema)
    assert not {"$ref", "$dynamicRef", "$schema", "$id", "format"} & set(_keywords(schema))


def _keywords(schema: Any) -> list[str]:
    if isinstance(schema, dict):
        return [*schema, *(name for inner in schema.values() for name in _keywords(inner))]
    if isinstance(schema, list):
        return [name for inner in schema for name in _keywords(inner)]
    return []


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
@pytest.mark.parametrize("key", GOOD)
@given(data=st.data())
def test_the_two_engines_agree(key: str, data: st.DataObject) -> None:
    """Near every good instance, and on anything else, both say the same (design decision 6)."""
    instance = data.draw(st.sampled_from(GOOD[key]))
    for _ in range(data.draw(st.integers(1, 3))):
        instance = data.draw(st.composite(near)(instance))
    opinion = fast(key, instance)
    assert opinion is None or opinion == (slow_check(key)(instance) is None)


@needs_both
@given(st.sampled_from(sorted(GOOD)), JSON)
def test_the_two_engines_agree_on_anything(key: str, instance: Any) -> None:
    """Also on what is not near at all."""
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
