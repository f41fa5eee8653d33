"""Elicitation events, the effects that answer them, and forms at random."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Optional

import pytest
from hypothesis import strategies as st
from strategies import TEXT

from ahp_sync.failure import FailureClass, OperationalFailure

NAME = {"type": "string"}
AGE = {"type": "integer", "minimum": 18}


def form(required: Optional[list[str]] = None, **fields: Any) -> dict[str, Any]:
    """Return a requestedSchema."""
    schema = {"type": "object", "properties": fields}
    return schema if required is None else {**schema, "required": required}


def form_params(schema: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Return the params of a form request."""
    return {"message": "Who are you?", "requestedSchema": schema, **more}


URL_PARAMS = {
    "mode": "url",
    "message": "Sign in",
    "url": "https://login.example/start",
    "elicitationId": "e-1",
}


def part(body: Any, selection: str = "body") -> dict[str, Any]:
    """Return a text part that holds ``body``: a text, or a value to serialise."""
    shown = {"id": "p-1", "kind": "text", "mediaType": "text/plain", "selection": selection}
    if selection != "body":
        return shown
    return {**shown, "text": body if isinstance(body, str) else json.dumps(body)}


def request_event(body: Any, mode: str = "form", selection: str = "body") -> dict[str, Any]:
    """Return the event of a request."""
    return {
        "id": "ev-1",
        "source": "urn:example:tests",
        "type": "user.elicitation.request",
        "time": "2026-03-01T10:00:00Z",
        "harness": {"name": "tests", "version": "1"},
        "session": {"id": "s-1"},
        "elicitation": {"server": "forms", "mode": mode, "request": part(body, selection)},
    }


def result_event(
    body: Any, mode: str = "form", action: str = "accept", selection: str = "body"
) -> dict[str, Any]:
    """Return the event of a result."""
    return {
        **request_event(""),
        "id": "ev-2",
        "type": "user.elicitation.result",
        "parentEventId": "ev-1",
        "elicitation": {
            "server": "forms",
            "mode": mode,
            "action": action,
            "result": part(body, selection),
        },
    }


def accepted(**content: Any) -> dict[str, Any]:
    """Return the result of an accepted form."""
    return {"action": "accept", "content": content}


DENY = {"type": "deny", "reason": "not asked here"}


def returning(value: Any) -> dict[str, Any]:
    """Return the effect that supplies a result."""
    return {"type": "return", "value": value}


def editing(operation: str, **value: Any) -> dict[str, Any]:
    """Return the effect that edits the answers."""
    return {"type": "modify", "target": "content", "operation": operation, "value": value}


def refusal(action: Any) -> OperationalFailure:
    """Return the failure that ``action()`` is refused with."""
    with pytest.raises(OperationalFailure) as caught:
        action()
    assert caught.value.failure_class is FailureClass.EFFECTS
    return caught.value


ASKED = request_event(form_params(form(["name"], name=NAME, age=AGE)))
ASKED_URL = request_event(URL_PARAMS, "url")


# --- at random ----------------------------------------------------------------------------------

OPTIONS = st.lists(st.sampled_from(["a", "b", "c", ""]), max_size=4)
TITLED = OPTIONS.map(lambda words: [{"const": word, "title": word.upper()} for word in words])
# Halves, since the official reader takes the numbers of a text for decimals.
BOUND = st.integers(-3, 3) | st.integers(-6, 6).map(lambda n: n / 2)
LEAST = st.sampled_from([-1, 0, 0.5, 1, 2])
MOST = st.sampled_from([0, 1, 2.5, 3, 20, 50])


def a_field(*, formats: bool) -> st.SearchStrategy[dict[str, Any]]:
    """Return a strategy of form fields."""

    def of(kind: str, optional: Mapping[str, Any], **required: Any) -> Any:
        words = {"title": TEXT, "description": TEXT}
        needed = {"type": st.just(kind), **required}
        return st.fixed_dictionaries(needed, optional={**words, **optional})

    lengths: dict[str, Any] = {"minLength": LEAST, "maxLength": MOST, "default": TEXT}
    if formats:
        lengths["format"] = st.sampled_from(["date", "date-time", "email", "uri"])
    bounds = {"minimum": LEAST, "maximum": MOST, "default": BOUND}
    counts = {"minItems": LEAST, "maxItems": MOST, "default": OPTIONS}
    plain = st.fixed_dictionaries({"type": st.just("string"), "enum": OPTIONS})
    return st.one_of(
        of("string", lengths),
        of("integer", bounds),
        of("number", bounds),
        of("boolean", {"default": st.booleans()}),
        of("string", {"enumNames": OPTIONS, "default": TEXT}, enum=OPTIONS),
        of("string", {"default": TEXT}, oneOf=TITLED),
        of("array", counts, items=plain),
        of("array", counts, items=st.fixed_dictionaries({"anyOf": TITLED})),
    )


NAMES = st.sampled_from(["a", "b", "$ref", "$id", "type", "properties"])
DIALECTS = st.sampled_from(
    [
        "https://json-schema.org/draft/2020-12/schema",
        "http://json-schema.org/draft-03/schema#",
        "https://forms.example/own",
        "",
    ]
)
LIKELY_TEXTS = st.sampled_from(
    [
        *("2024-02-29", "2024-02-30", "2024-02-29T10:00:00Z", "2024-02-29T10:00:60Z", "a@b", "@"),
        *("https://a.example/", "urn:x", "a:", "x", "http://[::1]/", "http://a/ b", "%41:", "a:%4"),
    ]
)
ANSWER = (
    st.sampled_from(["a", "b", "c", "", "aa", True, False, 1.0, 0])
    | LIKELY_TEXTS
    | BOUND
    | OPTIONS
    | TEXT
)


def forms(*, formats: bool) -> st.SearchStrategy[dict[str, Any]]:
    """Return a strategy of forms."""
    return st.fixed_dictionaries(
        {
            "type": st.just("object"),
            "properties": st.dictionaries(NAMES, a_field(formats=formats), max_size=3),
        },
        optional={"required": st.lists(NAMES, max_size=2), "$schema": DIALECTS},
    )


def _likely(field: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    items = field.get("items", field)
    titled = items.get("oneOf", items.get("anyOf", ()))
    options = [*items.get("enum", ()), *(option["const"] for option in titled)] or ["none"]
    if field["type"] == "array":
        return st.lists(st.sampled_from(options), max_size=3)
    if field["type"] == "string":
        return st.just("abc") | LIKELY_TEXTS if options == ["none"] else st.sampled_from(options)
    return st.booleans() if field["type"] == "boolean" else BOUND


@st.composite
def answers_to(draw: st.DrawFn, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Draw answers to a form: many of them fit, and many all but fit."""
    fields = schema["properties"]
    answers: dict[str, Any] = {}
    for name in [*fields, *schema.get("required", ())]:
        if draw(st.integers(0, 7)):
            answers[name] = draw(_likely(fields[name]) if name in fields else ANSWER)
    if draw(st.integers(0, 2)) == 0:
        answers.update(draw(st.dictionaries(NAMES, ANSWER, max_size=2)))
    return answers
