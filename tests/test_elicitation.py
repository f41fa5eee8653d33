"""Elicitation: bodies inside text, pairs of request and result, and hooks that answer (R-ELI)."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any, Optional

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from referencing import Registry
from strategies import TEXT, near

from ahp_sync.errors import InvalidEvent
from ahp_sync.failure import FailureClass, OperationalFailure
from ahp_sync.protocol.effects import admitted_effects
from ahp_sync.protocol.elicitation import (
    answerable,
    answered,
    check_event,
    check_pair,
    edited,
    rewritten,
)
from ahp_sync.protocol.elicitation_form import misfit
from ahp_sync.protocol.equality import json_equal
from ahp_sync.protocol.validation import elicitation_problem, event_problem

FORM = {"form"}
TEXT_PATH = "$.elicitation.result"
FIXTURES = Path(__file__).parents[2] / "shared" / "conformance" / "fixtures"

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

# --- the bodies of a host's events (R-ELI-01, R-ELI-02) -------------------------------------------


@pytest.mark.parametrize(
    "event",
    [
        ASKED,
        ASKED_URL,
        request_event(form_params(form(), mode="form", _meta={"progressToken": 1}, own=[None])),
        result_event({"action": "accept", "content": {}, "_meta": {"x": 1}, "own": {}}),
        result_event({"action": "decline"}, action="decline"),
        result_event({"action": "cancel"}, "url", "cancel"),
        {"type": "tool.before", "elicitation": "not one of these"},
    ],
)
def test_complete_bodies_pass(event: dict[str, Any]) -> None:
    """Params and results pass with whatever else they hold; other events are none of its business
    (R-ELI-01).
    """
    check_event(event)


@pytest.mark.parametrize("selection", ["metadata", "omit"])
def test_what_is_not_there_is_not_checked(selection: str) -> None:
    """A text that is not selected as body can't be wrong; nor one that is absent or a gap."""
    for event in (
        request_event("", selection=selection),
        result_event("", selection=selection),
    ):
        check_event(event)
    absent, gap = request_event(""), request_event("")
    del absent["elicitation"]["request"]
    del gap["elicitation"]["request"]["text"]
    gap["elicitation"]["request"]["gap"] = {"reason": "too large"}
    check_event(absent)
    check_event(gap)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        '{"action": "accept", "action": "accept"}',
        '{"action": "accept", "content": {"n": 1, "n": 2}}',
        '{"action": "accept", "content": {"n": NaN}}',
        '{"action": "accept", "content": {"n": -Infinity}}',
        '{"action": "accept", "content": {"n": 1e999}}',
        '{"action": "accept"} trailing',
        '\ufeff{"action": "accept"}',
        '{"action": "accept", "own": "\\ud800"}',
        '{"action": "accept", "own": ' + "[" * 200 + "]" * 200 + "}",
        '{"jsonrpc": "2.0", "id": 1, "result": {"action": "accept"}}',
    ],
)
def test_bodies_are_read_strictly(text: str) -> None:
    """A body is one strict JSON object, and no envelope around one (R-ELI-01)."""
    with pytest.raises(InvalidEvent) as caught:
        check_event(result_event(text))
    assert caught.value.path == TEXT_PATH


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"message": "Hi"},
        {"requestedSchema": form()},
        form_params({"type": "object"}),
        form_params({**form(), "additionalProperties": False}),
        form_params({**form(), "$id": "https://forms.example/"}),
        form_params({**form(), "$ref": "https://forms.example/"}),
        form_params(form(x={"type": "object", "properties": {}})),
        form_params(form(x={"type": "array", "items": {"type": "number"}})),
        form_params(form(x={"type": ["string", "null"]})),
        form_params(form(x={"$ref": "https://forms.example/"})),
        form_params(form(x={"type": "string", "$ref": "#"})),
        form_params(form(x={"type": "string", "pattern": "(a+)+$"})),
        form_params(form(x={"type": "string", "oneOf": [{"const": "a"}]})),
        form_params(form(), mode=None),
        form_params(form(), mode="voice"),
        {**URL_PARAMS, "mode": "form"},
    ],
)
def test_forms_are_closed(body: Any) -> None:
    """A form knows primitives and choices only: no nesting, no reference, no pattern (R-ELI-02)."""
    with pytest.raises(InvalidEvent) as caught:
        check_event(request_event(body))
    assert caught.value.path == "$.elicitation.request"


@pytest.mark.parametrize(
    "more", [{"url": "not a url"}, {"url": "/relative"}, {"url": 1}, {"elicitationId": None}]
)
def test_a_url_has_to_be_one(more: dict[str, Any]) -> None:
    """``format`` is not left inert: a URL request has a URL, and an id (R-ELI-02, T-16)."""
    with pytest.raises(InvalidEvent):
        check_event(request_event({**URL_PARAMS, **more}, "url"))


@pytest.mark.parametrize(
    ("event", "path"),
    [
        (request_event(form_params(form()), "url"), "$.elicitation.mode"),
        (request_event(URL_PARAMS, "form"), "$.elicitation.mode"),
        (result_event({"action": "decline"}, action="cancel"), "$.elicitation.action"),
        (result_event({"action": "decline", "content": {}}, "form", "decline"), TEXT_PATH),
        (result_event({"action": "accept", "content": {}}, "url"), TEXT_PATH),
    ],
)
def test_an_event_says_what_its_text_says(event: dict[str, Any], path: str) -> None:
    """Mode and action are those of the text, and only an accepted form has content (R-ELI-02,
    R-ELI-03).
    """
    with pytest.raises(InvalidEvent) as caught:
        check_event(event)
    assert caught.value.path == path


@pytest.mark.parametrize("value", [None, {}, [1], ["a", None], {"x": "y"}])
def test_answers_are_primitives_and_lists_of_strings(value: Any) -> None:
    """Whatever the form says, an answer is a string, number, boolean or string list (R-ELI-03)."""
    with pytest.raises(InvalidEvent):
        check_event(result_event(accepted(extra=value)))
    assert misfit(form(), {"extra": value}) is not None


# --- pairs (R-ELI-03, R-ELI-04) -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "change"),
    [
        ("$.parentEventId", {"parentEventId": "ev-9"}),
        ("$.source", {"source": "urn:example:others"}),
        ("$.session.id", {"session": {"id": "s-2"}}),
        ("$.elicitation.server", {"elicitation": {"server": "other"}}),
        ("$.elicitation.mode", {"elicitation": {"mode": "url", "action": "decline"}}),
    ],
)
def test_a_result_belongs_to_its_request(path: str, change: dict[str, Any]) -> None:
    """Source, session, parent, server and mode tie a result to its request (R-ELI-04)."""
    result = result_event(accepted(name="Ada"))
    check_pair(result, ASKED)
    change = {
        name: {**result[name], **value} if isinstance(value, dict) else value
        for name, value in change.items()
    }
    hidden = result_event("", selection="omit")  # so that nothing but the change is wrong
    change.setdefault("elicitation", result["elicitation"])
    change["elicitation"] = {**change["elicitation"], "result": hidden["elicitation"]["result"]}
    with pytest.raises(InvalidEvent) as caught:
        check_pair({**hidden, **change}, ASKED)
    assert caught.value.path == path
    refused = refusal(lambda: edited({**result, **change}, ASKED, [editing("merge")], FORM))
    assert refused.code == "unadvertised_effect"


def test_a_session_on_one_side_is_a_mismatch() -> None:
    """No session and some session are different; none on both sides is the same (R-ELI-04)."""
    result, asked = result_event(accepted(name="Ada")), deepcopy(ASKED)
    del asked["session"]
    with pytest.raises(InvalidEvent, match=r"\$\.session\.id"):
        check_pair(result, asked)
    del result["session"]
    check_pair(result, asked)
    del result["parentEventId"]
    with pytest.raises(InvalidEvent, match=r"\$\.parentEventId: found no value"):
        check_pair(result, asked)


@pytest.mark.parametrize(
    ("asked", "path"),
    [
        ({}, "request.type"),
        (result_event(accepted()), "request.type"),
        ({"type": "user.elicitation.request"}, "request.elicitation"),
        ({**ASKED, "elicitation": None}, "request.elicitation"),
        ({**ASKED, "elicitation": {}}, "$.elicitation.mode"),
        ({**ASKED, "session": None}, "$.session.id"),
        (request_event("{"), "request.elicitation.request"),
        (request_event(URL_PARAMS), "request.elicitation.mode"),
    ],
)
def test_the_request_is_checked_as_well(asked: dict[str, Any], path: str) -> None:
    """What a host passes for the request's event has to be one; the path says which is wrong."""
    with pytest.raises(InvalidEvent) as caught:
        check_pair(result_event(accepted(name="Ada")), asked)
    assert caught.value.path == path


def test_answers_fit_the_form() -> None:
    """The content of an accepted form meets the form; the message never shows it (R-ELI-03)."""
    with pytest.raises(InvalidEvent) as caught:
        check_pair(result_event(accepted(name="Ada", age="secret")), ASKED)
    assert (caught.value.path, caught.value.wanted) == ("$.elicitation.result", "an integer")
    assert "content.age" in str(caught.value) and "secret" not in str(caught.value)
    check_pair(result_event(accepted(name="Ada", hobby=["tea", "chess"])), ASKED)  # undeclared
    check_pair(result_event({"action": "decline"}, action="decline"), ASKED)


def test_defaults_answer_nothing() -> None:
    """A required field with a default still has to be answered (R-ELI-03)."""
    asked = request_event(form_params(form(["name"], name={"type": "string", "default": "Ada"})))
    for body in ({"action": "accept"}, accepted(), accepted(other="x")):
        with pytest.raises(InvalidEvent, match=r"content\.name; wanted an answer"):
            check_pair(result_event(body), asked)


def test_a_hidden_side_leaves_the_correlation() -> None:
    """Where one of the texts is not there, only the pair itself can be checked (R-CON-07)."""
    for result, asked in (
        (result_event(accepted(age="odd")), request_event("", selection="omit")),
        (result_event("", selection="metadata"), ASKED),
    ):
        check_pair(result, asked)


def test_odd_field_names_stay_out_of_messages() -> None:
    """A field's name is a stranger's text; only a plain one is repeated."""
    odd = "x\nFAKE LOG LINE"
    for schema, answers in ((form(**{odd: AGE}), {odd: 3}), (form([odd]), {})):
        with pytest.raises(InvalidEvent) as caught:
            check_pair(result_event(accepted(**answers)), request_event(form_params(schema)))
        assert "FAKE" not in str(caught.value)


# --- what a hook may do (R-ELI-04, R-ELI-05, R-CON-07, R-PAY-01, D-16) ----------------------------


@pytest.mark.parametrize(
    ("view", "modes", "request_", "expected"),
    [
        (ASKED, {"form"}, None, True),
        (ASKED, {"form": {}}, None, True),
        (ASKED, {"url"}, None, False),
        (ASKED, (), None, False),
        (ASKED_URL, {"url"}, None, True),
        (ASKED_URL, {"form"}, None, False),
        (request_event("", selection="metadata"), FORM, None, False),
        (result_event(accepted(name="A")), FORM, ASKED, True),
        (result_event({"action": "accept"}), FORM, ASKED, True),
        (result_event(accepted(name="A")), {"url"}, ASKED, False),
        (result_event(accepted(name="A")), FORM, None, False),
        (result_event(accepted(name="A")), FORM, request_event("", selection="omit"), False),
        (result_event("", selection="omit"), FORM, ASKED, False),
        (result_event({"action": "decline"}, action="decline"), FORM, ASKED, False),
        (result_event({"action": "accept"}, "url"), {"url"}, ASKED_URL, False),
    ],
)
def test_what_can_be_answered_is_what_would_be_accepted(
    view: dict[str, Any], modes: Any, request_: Optional[dict[str, Any]], expected: bool
) -> None:
    """Where no answer and no edit could be accepted, none is to be advertised (R-CAP-02)."""
    assert answerable(view, modes, request_) is expected
    if view["type"] == "user.elicitation.request":
        value = {"action": "decline"}

        def attempt() -> Any:
            return answered(view, [returning(value)], modes)

    else:

        def attempt() -> Any:
            return edited(view, request_, [editing("replace", name="Eve")], modes)

    if expected:
        assert attempt() is not None
    else:
        refusal(attempt)


@pytest.mark.parametrize(
    ("view", "modes", "value"),
    [
        (ASKED, {"form"}, accepted(name="Ada")),
        (ASKED, {"form"}, {**accepted(name="Ada", age=18.0, extra=True), "_meta": {}, "own": 1}),
        (ASKED, {"form"}, {"action": "decline"}),
        (ASKED, {"form"}, {"action": "cancel", "_meta": {"by": "hook"}}),
        (ASKED_URL, {"url"}, {"action": "accept"}),
    ],
)
def test_a_complete_result_is_supplied(view: Any, modes: Any, value: dict[str, Any]) -> None:
    """A ``return`` supplies the result as it is: no default, no human behind it (R-PAY-01)."""
    before = deepcopy(view)
    message = {"type": "message", "text": "answered by policy"}
    assert answered(view, [message, returning(deepcopy(value)), message], modes) == value
    assert view == before


@pytest.mark.parametrize(
    ("view", "modes", "value"),
    [
        (ASKED, {"form"}, accepted()),
        (ASKED, {"form"}, {"action": "accept"}),
        (ASKED, {"form"}, accepted(name=1)),
        (ASKED, {"form"}, accepted(name="Ada", age=17)),
        (ASKED, {"form"}, accepted(name="Ada", extra={"nested": 1})),
        (ASKED, {"form"}, {"action": "decline", "content": {"name": "Ada"}}),
        (ASKED, {"form"}, {"action": "agree"}),
        (ASKED, {"form"}, {"content": {"name": "Ada"}}),
        (ASKED, {"form"}, None),
        (ASKED, {"form"}, []),
        (ASKED_URL, {"url"}, accepted()),
    ],
)
def test_an_unfit_result_is_refused(view: Any, modes: Any, value: Any) -> None:
    """A result that is none, or does not answer this request, is refused (R-ELI-03, R-PAY-01)."""
    assert refusal(lambda: answered(view, [returning(value)], modes)).code == "invalid_answer"


@pytest.mark.parametrize("modes", [(), {"url"}, FORM])
@pytest.mark.parametrize("selection", ["body", "metadata", "omit"])
def test_a_denial_needs_no_body_and_no_mode(modes: Any, selection: str) -> None:
    """An advertised ``deny`` stands by itself (R-ELI-05, D-16)."""
    view = request_event(form_params(form()), selection=selection)
    assert answered(view, [DENY, {"type": "message", "text": "no"}], modes) is None
    assert answered(view, [], modes) is None


@pytest.mark.parametrize("modes", [(), FORM])
def test_terminals_conflict(modes: Any) -> None:
    """Of ``return`` and ``deny`` one response may have one, once (R-ELI-05)."""
    supply = returning({"action": "decline"})
    for effects in ([supply, supply], [DENY, supply], [supply, DENY], [DENY, DENY]):
        assert refusal(lambda e=effects: answered(ASKED, e, modes)).code == "conflicting_effects"


def test_edits_replace_and_merge() -> None:
    """Edits apply in order to the content alone; everything else of the result stays (R-ELI-04)."""
    body = {**accepted(name="Ada", age=36), "_meta": {"k": 1}, "own": [1]}
    event = result_event(body)
    before = deepcopy(event)
    for effects, content in (
        ([editing("merge", age=40)], {"name": "Ada", "age": 40}),
        ([editing("replace", name="Eve")], {"name": "Eve"}),
        ([editing("replace", name="Eve"), editing("merge", x=["y"])], {"name": "Eve", "x": ["y"]}),
        ([editing("merge")], {"name": "Ada", "age": 36}),
    ):
        result = edited(event, ASKED, effects, FORM)
        assert result == {**body, "content": content}
        new = rewritten(event, result)
        assert json.loads(new["elicitation"]["result"]["text"]) == result
        check_pair(new, ASKED)
        assert event_problem(new["type"], members(new)) is None
        new["elicitation"]["result"].pop("text")
        unedited = deepcopy(before)
        unedited["elicitation"]["result"].pop("text")
        assert new == unedited
    assert event == before
    assert edited(event, ASKED, [{"type": "message", "text": "fine"}], FORM) is None


def test_an_accepted_form_without_content_can_be_filled() -> None:
    """Merging into no content begins with none."""
    asked = request_event(form_params(form(name=NAME)))
    result = edited(result_event({"action": "accept"}), asked, [editing("merge", name="A")], FORM)
    assert result == accepted(name="A")


@pytest.mark.parametrize(
    "effects",
    [
        [editing("replace")],
        [editing("merge", age=1)],
        [editing("merge", name=None)],
        [editing("merge", extra={"nested": 1})],
        [editing("merge", age="old"), editing("merge", age=40)],
    ],
)
def test_each_edit_has_to_fit(effects: list[dict[str, Any]]) -> None:
    """The answers meet the form after every single edit, not only in the end (R-ELI-04)."""
    event = result_event(accepted(name="Ada"))
    assert refusal(lambda: edited(event, ASKED, effects, FORM)).code == "invalid_answer"


def test_long_lists_of_edits_can_be_stopped() -> None:
    """The check is called once an edit, and what it raises comes through."""
    calls = []
    event = result_event(accepted(name="Ada"))
    edited(event, ASKED, [editing("merge")] * 5, FORM, lambda: calls.append(None))
    assert len(calls) == 5

    def stop() -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        edited(event, ASKED, [editing("merge")], FORM, stop)


def test_a_rewritten_text_is_in_step() -> None:
    """The action of the event follows the result, and an equal result leaves the text (R-ELI-04,
    R-SET-06).
    """
    event = result_event('{ "action" : "accept", "content": {"n": 1} }')
    assert rewritten(event, accepted(n=1.0)) == event
    assert rewritten(event, accepted(n=True)) != event  # a boolean is no number
    new = rewritten(event, {"action": "decline", "_meta": {"note": "ü"}})
    assert new["elicitation"]["action"] == "decline"
    assert new["elicitation"]["result"]["text"] == '{"action":"decline","_meta":{"note":"ü"}}'
    check_event(new)


def members(event: dict[str, Any]) -> dict[str, Any]:
    """Return what a call brings along: the event without the members of the client's own."""
    own = ("source", "type", "time", "harness")
    return {name: value for name, value in event.items() if name not in own}


@pytest.mark.parametrize("name", ["decline", "list", "nested", "object", "url"])
def test_published_edits(name: str) -> None:
    """The published answers to an elicitation result are accepted or refused as they should be."""
    if not FIXTURES.is_dir():
        pytest.skip("the public conformance data is not there")
    (case,) = (
        case
        for case in json.loads((FIXTURES / "index.json").read_text())["cases"]
        if case["path"].startswith(f"http/contextual-elicitation-content-{name}.")
    )
    answer = json.loads((FIXTURES / "verbatim" / case["path"]).read_text())
    context = case["editContext"]
    body = {"action": context["action"]}
    if context["mode"] == "form" and context["action"] == "accept":
        body["content"] = context["current"]["content"]
    event = result_event(body, context["mode"], context["action"])
    keep = {"type": "boolean"}
    asked = request_event(form_params(form(name=NAME, keep=keep)))
    if context["mode"] == "url":
        asked = ASKED_URL
    check_pair(event, asked)
    capabilities = {
        "effects": ["modify"],
        "modify": {"content": {"replace": True, "merge": True}},
        "elicitation": {"form": {}, "url": {}},
    }

    def settle() -> Any:
        effects = admitted_effects(answer["result"], event["type"], capabilities)
        return edited(event, asked, effects, capabilities["elicitation"])

    if case["contextualExpectedValid"]:
        assert settle() == accepted(name="new", keep=True)
    else:
        refusal(settle)


# --- forms (R-ELI-03, T-16) -----------------------------------------------------------------------


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


OPTIONS = st.lists(st.sampled_from(["a", "b", "c", ""]), max_size=4)
TITLED = OPTIONS.map(lambda words: [{"const": word, "title": word.upper()} for word in words])
# Halves, since the official reader takes the numbers of a text for decimals.
BOUND = st.integers(-3, 3) | st.integers(-6, 6).map(lambda n: n / 2)


def a_field(*, formats: bool) -> st.SearchStrategy[dict[str, Any]]:
    """Return a strategy of form fields."""

    def of(kind: str, optional: Mapping[str, Any], **required: Any) -> Any:
        words = {"title": TEXT, "description": TEXT}
        needed = {"type": st.just(kind), **required}
        return st.fixed_dictionaries(needed, optional={**words, **optional})

    lengths: dict[str, Any] = {"minLength": BOUND, "maxLength": BOUND, "default": TEXT}
    if formats:
        lengths["format"] = st.sampled_from(["date", "date-time", "email", "uri"])
    bounds = {"minimum": BOUND, "maximum": BOUND, "default": BOUND}
    counts = {"minItems": BOUND, "maxItems": BOUND, "default": OPTIONS}
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


ANSWERS = st.dictionaries(NAMES, ANSWER, max_size=3)


@settings(max_examples=400)
@given(forms(formats=False), ANSWERS)
def test_forms_mean_what_the_schema_library_says(
    schema: dict[str, Any], answers: dict[str, Any]
) -> None:
    """A form's verdict is that of JSON Schema 2020-12, without a registry (R-ELI-03)."""
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
from test_elicitation import form, form_params, request_event, result_event, accepted, returning
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


# --- the official SDK -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def official() -> Any:
    """The official SDK's elicitation module, with a validator of its own."""
    module = pytest.importorskip("agenthooksprotocol._elicitation")
    pytest.importorskip("rfc3987")  # or its ``format`` is inert
    pytest.importorskip("rfc3339_validator")
    runtime = pytest.importorskip("agenthooksprotocol.runtime")
    return module, runtime.Validator().validate


def accepts(action: Any) -> bool:
    """Return whether ``action()`` raises nothing."""
    try:
        action()
    except Exception:
        return False
    return True


@st.composite
def results(draw: st.DrawFn) -> Any:
    """Draw a result: mostly an accepted form, sometimes nearly one."""
    action = draw(st.sampled_from(["accept", "accept", "accept", "decline", "cancel"]))
    result: dict[str, Any] = {"action": action}
    if draw(st.booleans()) or action == "accept":
        result["content"] = draw(ANSWERS)
    if draw(st.booleans()):
        result["_meta"] = {}
    return near(draw, result) if draw(st.booleans()) else result


@settings(max_examples=300)
@given(st.data())
def test_answers_as_the_official_sdk_has_it(official: Any, data: st.DataObject) -> None:
    """Ours and the official SDK's verdict on an answer are one (R-ELI-03)."""
    module, validate = official
    params = data.draw(forms(formats=True).map(form_params) | st.just(URL_PARAMS))
    result = data.draw(results())
    mode = params.get("mode", "form")
    view = request_event(params, mode)
    ours = accepts(lambda: answered(view, [returning(result)], {mode}))
    theirs = accepts(lambda: module.validate_answer(params, result, validate))
    assert ours == theirs


@settings(max_examples=300)
@given(st.data())
def test_bodies_as_the_official_sdk_has_it(official: Any, data: st.DataObject) -> None:
    """Ours and the official SDK's reading of a body are one (R-ELI-01, R-ELI-02)."""
    module, validate = official
    mode = data.draw(st.sampled_from(["form", "form", "url"]))
    if data.draw(st.booleans()):
        params = data.draw(forms(formats=True).map(form_params)) if mode == "form" else URL_PARAMS
        event = request_event(near(data.draw, params), mode)
    else:
        event = result_event(data.draw(results()), mode)
    stage = event["type"].rpartition(".")[2]
    ours = accepts(lambda: check_event(event))
    theirs = accepts(
        lambda: module.read_selected(event["elicitation"], stage, None, validate) is not None
    )
    assert ours == theirs


CAPABILITIES = {"elicitation": {"form": {}, "url": {}}}


def envelope(event: dict[str, Any]) -> dict[str, Any]:
    """Return the request that carries the event."""
    if event["type"].endswith(".request"):
        granted: dict[str, Any] = {"effects": ["return", "deny"]}
    else:
        granted = {
            "effects": ["modify"],
            "modify": {"content": {"replace": True, "merge": True}},
        }
    return {
        "jsonrpc": "2.0",
        "id": event["id"],
        "method": "hooks/intercept",
        "params": {
            "protocolVersion": "draft",
            "event": event,
            "capabilities": {**granted, **CAPABILITIES},
        },
    }


def official_settled(official: Any, asked: Any, told: Any, effects: Any) -> Any:
    """Return the result that the official SDK settles, as plain JSON; None where it refuses."""
    module, validate = official
    try:
        settled = module.apply_effects(
            envelope(asked), told and envelope(told), None, validate, "hook", deepcopy(effects)
        )
    except Exception:
        return None
    return json.loads(json.dumps(settled["result"], default=float))


@settings(max_examples=60)
@given(st.data())
def test_edits_as_the_official_sdk_has_it(official: Any, data: st.DataObject) -> None:
    """Ours and the official SDK's edited result are one (R-ELI-04)."""
    fields = form(["a"], a=AGE, b={"type": "string", "enum": ["x", "y"]})
    asked = request_event(form_params(fields))
    content = data.draw(
        st.fixed_dictionaries({"a": st.integers(16, 40)}, optional={"b": st.sampled_from("xyz")})
    )
    told = result_event(accepted(**content))
    edits = st.builds(
        lambda operation, value: {
            "type": "modify",
            "target": "content",
            "operation": operation,
            "value": value,
        },
        st.sampled_from(["merge", "replace"]),
        st.fixed_dictionaries(
            {},
            optional={
                "a": st.sampled_from([17, 18, 20, True, "20"]),
                "b": st.sampled_from(["x", "z", 1]),
                "c": st.sampled_from(["more", False, ["x"], [1]]),
            },
        ),
    )
    effects = data.draw(st.lists(edits, min_size=1, max_size=3))
    theirs = official_settled(official, asked, told, effects)

    def ours() -> Any:
        check_pair(told, asked)
        grants = envelope(told)["params"]["capabilities"]
        answer = {"protocolVersion": "draft", "effects": effects}
        return edited(told, asked, admitted_effects(answer, told["type"], grants), FORM)

    try:
        result = ours()
    except (OperationalFailure, InvalidEvent):
        assert theirs is None
    else:
        assert json_equal(result, theirs)


def test_known_differences_from_the_official_sdk(official: Any) -> None:
    """Where we differ on purpose, the official SDK does so still; else the list is out of date."""
    module, validate = official
    # A denial without body or mode (D-16).
    hidden = request_event("", selection="omit")
    assert official_settled(official, hidden, None, [DENY]) is None
    assert answered(hidden, [DENY], ()) is None
    # 1.0 in a text is an integer like any other (T-16): the official reader makes it a decimal.
    told = result_event(accepted(name="Ada", age=20.0))
    check_pair(told, ASKED)
    assert not accepts(
        lambda: module.validate_exchange(envelope(ASKED), envelope(told), None, validate, "host")
    )
    # A number beyond every float is not finite (R-ELI-01): there it is a decimal, and passes.
    large = result_event('{"action": "accept", "content": {"n": 1e999}}')
    assert module.read_selected(large["elicitation"], "result", None, validate)
    with pytest.raises(InvalidEvent):
        check_event(large)
