"""Forms of elicitations and what fits them (R-ELI-03, T-16)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from elicitations import NAME, answers_to, form, form_params, forms
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from referencing import Registry

from ahp_sync.protocol.elicitation_form import misfit
from ahp_sync.protocol.validation import elicitation_problem


@pytest.mark.parametrize(
    ("field", "good", "bad"),
    [
        (NAME, ["", "x"], [1, True, ["x"]]),
        ({"type": "string", "minLength": 2, "maxLength": 3}, ["ab", "äöü", "😀😀"], ["a", "abcd"]),
        ({"type": "string", "minLength": 1.5}, ["ab"], ["a"]),
        ({"type": "integer"}, [0, -1, 1.0, 10**300, 1e300], [1.5, True, "1", ["1"]]),
        ({"type": "number", "minimum": 0, "maximum": 1.5}, [0, -0.0, 1.5], [-0.1, 2, False, "1"]),
        ({"type": "number", "maximum": 1e300}, [10**299], [10**400]),
        ({"type": "boolean"}, [True, False], [0, 1, "true", []]),
        ({"type": "string", "enum": ["a", "b"]}, ["a"], ["", "c", "A", ["a"]]),
        ({"type": "string", "enum": ["a"], "enumNames": ["An A"]}, ["a"], ["An A"]),
        ({"type": "string", "enum": []}, [], ["", "a"]),
        ({"type": "string", "oneOf": [{"const": "a", "title": "An A"}]}, ["a"], ["An A", "b"]),
        ({"type": "string", "oneOf": [{"const": "a", "title": t} for t in "xy"]}, [], ["a", "b"]),
        (
            {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "minItems": 1},
            [["a"], ["b", "a"], ["a", "a"]],
            [[], ["c"], "a", ["a", "c"], True],
        ),
        (
            {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}, "maxItems": 1},
            [[], ["a"]],
            [["A"], ["a", "a"]],
        ),
        ({"type": "string", "format": "email"}, ["a@b.example"], ["a.b.example", ""]),
        (
            {"type": "string", "format": "date"},
            ["2024-02-29"],
            ["2023-02-29", "2024-2-9", "2024-02-29\n", "٢٠٢٤-٠٢-٢٩", "2024-W09", "0000-01-01"],
        ),
        (
            {"type": "string", "format": "date-time"},
            ["2024-02-29T23:59:59Z", "2024-02-29t00:00:00.123456789+14:30"],
            [
                "2024-02-29 00:00:00Z",
                "2024-02-29T00:00:00",
                "2024-02-29T24:00:00Z",
                "2024-02-29T00:00:60Z",
                "2023-02-29T00:00:00Z",
                "2024-02-29T00:00:00Z\n",
                "2024-02-29",
            ],
        ),
        (
            {"type": "string", "format": "uri"},
            ["https://a.example/x?y#z", "urn:isbn:1"],
            ["/x", "https://a b", "", "https://a.example/%zz", "https://a.example\n"],
        ),
    ],
)
def test_fields(field: dict[str, Any], good: list[Any], bad: list[Any]) -> None:
    """Each kind of field takes what it should: 1.0 is an integer, true is no number (T-16)."""
    schema = form(x=field)
    assert elicitation_problem("request", form_params(schema)) is None
    for value in good:
        assert misfit(schema, {"x": value}) is None, value
    for value in bad:
        assert misfit(schema, {"x": value}) is not None, value


@settings(max_examples=250)
@given(st.data())
def test_forms_mean_what_the_schema_library_says(data: st.DataObject) -> None:
    """A form's verdict is that of JSON Schema 2020-12, without a registry (R-ELI-03)."""
    schema = data.draw(forms(formats=False))
    answers = data.draw(answers_to(schema))
    library = Draft202012Validator(schema, registry=Registry())
    assert (misfit(schema, answers) is None) == library.is_valid(answers)


@pytest.mark.parametrize("titled", [False, True])
def test_many_options_and_many_answers_take_little_time(titled: bool) -> None:
    """The time is linear in the form and in the answer, which come from two strangers."""
    words = [f"option {number}" for number in range(20_000)]
    items: dict[str, Any] = {"type": "string", "enum": words}
    if titled:
        items = {"anyOf": [{"const": word, "title": word} for word in words]}
    schema = form(x={"type": "array", "items": items})
    assert misfit(schema, {"x": words * 3}) is None
    assert misfit(schema, {"x": [*words, "none"]}) is not None


NO_IO = """
import sys
from ahp_sync.protocol import validation
from ahp_sync.protocol.elicitation import check_pair, answered
from elicitations import accepted, form, form_params, request_event, result_event, returning
validation.prepare(["elicitation:request", "elicitation:result"])
hostile = "http://127.0.0.1:9/schema"
fields = {"$ref": {"type": "string"}, "$id": {"type": "string", "title": hostile}, "x": {"type":
          "string", "default": hostile, "description": "$ref"}}
asked = request_event(form_params({"$schema": hostile, **form(**fields)}, **{"$ref": hostile}))
content = {"$ref": hostile, "$id": hostile, "x": hostile, "$schema": hostile}
check_pair(result_event(accepted(**content)), asked)  # whatever is loaded late is loaded now
seen = []
sys.addaudithook(lambda event, arguments: seen.append(event))
check_pair(result_event({**accepted(**content), "$ref": hostile}), asked)
assert answered(asked, [returning(accepted(**content))], {"form"}) == accepted(**content)
touched = [e for e in seen if e.startswith(("socket.", "urllib.", "open", "import", "subprocess"))]
assert not touched, touched
import socket
socket.socket().close()
assert "socket.__new__" in seen  # or the hook would prove nothing
"""


def test_nothing_is_fetched() -> None:
    """References and dialects inside a form, an answer or the bodies are text, never addresses."""
    tests = str(Path(__file__).parent)
    subprocess.run([sys.executable, "-c", NO_IO], cwd=tests, check=True, timeout=60)
