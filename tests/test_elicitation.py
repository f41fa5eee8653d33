"""Elicitation events: bodies inside text, and pairs of a request and its result (R-ELI)."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from elicitations import (
    AGE,
    ASKED,
    ASKED_URL,
    URL_PARAMS,
    accepted,
    form,
    form_params,
    request_event,
    result_event,
)

from ahp_sync.errors import InvalidEvent
from ahp_sync.protocol.elicitation import check_event, check_pair
from ahp_sync.protocol.elicitation_form import misfit

TEXT_PATH = "$.elicitation.result"

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
    result = result_event("", selection="omit")  # so that nothing but the change is wrong
    check_pair(result, ASKED)
    if "elicitation" in change:
        change = {"elicitation": {**result["elicitation"], **change["elicitation"]}}
    with pytest.raises(InvalidEvent) as caught:
        check_pair({**result, **change}, ASKED)
    assert caught.value.path == path


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
        ("ev-1", "request.type"),
        (result_event(accepted()), "request.type"),
        ({"type": "user.elicitation.request"}, "request.elicitation"),
        ({**ASKED, "elicitation": None}, "request.elicitation"),
        ({**ASKED, "elicitation": {}}, "$.elicitation.mode"),
        ({**ASKED, "session": None}, "$.session.id"),
        (request_event("{"), "request.elicitation.request"),
        (request_event(URL_PARAMS), "request.elicitation.mode"),
    ],
)
def test_the_request_is_checked_as_well(asked: Any, path: str) -> None:
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
