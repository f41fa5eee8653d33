"""MCP elicitations at random: forms and URLs, and answers that fit a form or nearly do."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

__all__ = ["URL_RESULTS", "answers", "near_answers", "requests", "results", "written"]

Payload = dict[str, Any]

_CHOICES = ["red", "green", "blue"]
_TITLED = [{"const": name, "title": name.title()} for name in _CHOICES]
_TITLES = st.fixed_dictionaries({}, optional={"title": st.just("T"), "description": st.just("D")})

# The kinds of field: their schemas, and for each an answer that fits and some that do not.
_FIELDS: tuple[tuple[Payload, list[Any], list[Any]], ...] = (
    ({"type": "string"}, ["", "x", "héé"], [1, True, ["x"]]),
    ({"type": "string", "minLength": 2, "maxLength": 3}, ["ab", "abc", "éé"], ["a", "abcd"]),
    ({"type": "string", "format": "email"}, ["a@example.org"], ["nobody"]),
    ({"type": "string", "format": "date"}, ["2026-03-01"], ["2026-13-01", "yesterday"]),
    ({"type": "string", "default": "x"}, ["y"], [2.5]),
    ({"type": "number", "minimum": 0, "maximum": 10}, [0, 10, 2.5], [-1, 10.5, "1", True]),
    ({"type": "integer", "minimum": 1}, [1, 2, 2.0], [0, 1.5, False]),
    ({"type": "boolean", "default": False}, [True, False], [0, 1, "true"]),
    ({"type": "string", "enum": _CHOICES}, _CHOICES, ["purple", 0]),
    ({"type": "string", "oneOf": _TITLED}, _CHOICES, ["purple"]),
    ({"type": "string", "enum": _CHOICES, "enumNames": ["R", "G", "B"]}, ["red"], ["R"]),
    (
        {"type": "array", "items": {"type": "string", "enum": _CHOICES}, "minItems": 1},
        [["red"], ["red", "blue"]],
        [[], ["purple"], "red", [1]],
    ),
    (
        {"type": "array", "items": {"anyOf": _TITLED}, "maxItems": 2},
        [[], ["green"]],
        [["red", "green", "blue"], [None]],
    ),
)
_NAMES = ("one", "two", "a b")
_META = st.fixed_dictionaries(
    {}, optional={"_meta": st.just({"x/y": [1, None]}), "vendor": st.just({"kept": True})}
)


@st.composite
def _forms(draw: st.DrawFn) -> Payload:
    names = draw(st.lists(st.sampled_from(_NAMES), max_size=3, unique=True))
    properties = {
        name: {**draw(st.sampled_from([field[0] for field in _FIELDS])), **draw(_TITLES)}
        for name in names
    }
    schema: Payload = {"type": "object", "properties": properties}
    if names and draw(st.booleans()):
        schema["required"] = draw(st.lists(st.sampled_from(names), max_size=2))
    if draw(st.sampled_from([False, False, False, True])):
        schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    return schema


@st.composite
def requests(draw: st.DrawFn, mode: str) -> Payload:
    """Return complete parameters of an MCP elicitation of this mode."""
    base = {"message": draw(st.sampled_from(["Which?", ""])), **draw(_META)}
    if mode == "url":
        url = draw(st.sampled_from(["https://a.example/x?y=1", "urn:example:z"]))
        return {**base, "mode": "url", "url": url, "elicitationId": "e-1"}
    named = {"mode": "form"} if draw(st.booleans()) else {}
    return {**base, **named, "requestedSchema": draw(_forms())}


def _known(schema: Payload) -> tuple[list[Any], list[Any]]:
    bare = {name: schema[name] for name in schema if name not in ("title", "description")}
    for field, fits, misfits in _FIELDS:
        if field == bare:
            return fits, misfits
    raise AssertionError(f"no such field: {schema}")


@st.composite
def answers(draw: st.DrawFn, schema: Payload) -> Payload:
    """Return answers that fit a form, now and then with a field that the form does not have."""
    chosen: Payload = {}
    for name, field in schema["properties"].items():
        if name in schema.get("required", ()) or draw(st.booleans()):
            chosen[name] = draw(st.sampled_from(_known(field)[0]))
    if draw(st.sampled_from([False, False, False, True])):
        chosen["undeclared"] = draw(st.sampled_from(["x", 1, True, ["y"]]))
    return chosen


@st.composite
def near_answers(draw: st.DrawFn, schema: Payload) -> Payload:
    """Return answers with something wrong in them, mostly."""
    chosen = draw(answers(schema))
    how = draw(st.sampled_from(["misfit", "missing", "form"]))
    names = sorted(schema["properties"])
    if how == "form" or not names:
        return {**chosen, "undeclared": draw(st.sampled_from([None, {}, [1], [["x"]]]))}
    name = draw(st.sampled_from(names))
    if how == "missing":
        chosen.pop(name, None)
        return chosen
    return {**chosen, name: draw(st.sampled_from(_known(schema["properties"][name])[1]))}


_REFUSALS = st.sampled_from([{"action": "decline"}, {"action": "cancel"}])
#: Complete results of an elicitation by URL.
URL_RESULTS = st.sampled_from(["accept", "decline", "cancel"]).map(
    lambda action: {"action": action}
)


@st.composite
def results(draw: st.DrawFn, asked: Payload, content: Any = answers) -> Payload:
    """Return a complete MCP result for these parameters; ``content`` draws the answers."""
    if asked.get("mode", "form") == "url":
        return {**draw(URL_RESULTS), **draw(_META)}
    if draw(st.sampled_from([True, True, True, False])):
        accepted = {"action": "accept", "content": draw(content(asked["requestedSchema"]))}
        return {**accepted, **draw(_META)}
    return {**draw(_REFUSALS), **draw(_META)}


def written(value: Payload) -> str:
    """Return the text in which an event carries an MCP object."""
    return json.dumps(value)
