"""Hooks that answer an elicitation, or edit the answer to one (R-ELI-04, R-ELI-05, D-16)."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any, Optional

import pytest
from elicitations import (
    ASKED,
    ASKED_URL,
    DENY,
    NAME,
    accepted,
    editing,
    form,
    form_params,
    refusal,
    request_event,
    result_event,
    returning,
)

from ahp_sync.protocol.effects import admitted_effects
from ahp_sync.protocol.elicitation import (
    answerable,
    answered,
    check_event,
    check_pair,
    edited,
    rewritten,
)
from ahp_sync.protocol.validation import event_problem

FORM = {"form"}
FIXTURES = Path(__file__).parents[2] / "shared" / "conformance" / "fixtures"


WITHHELD = deepcopy(ASKED)
WITHHELD["elicitation"]["request"]["selection"] = "metadata"


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
        (WITHHELD, FORM, None, False),
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
        assert without_text(new) == without_text(event)
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


@pytest.mark.parametrize("name", ["id", "source", "session"])
def test_edits_need_the_original_request(name: str) -> None:
    """The form is that of the very request that was answered (R-ELI-04)."""
    event, effects = result_event(accepted(name="Ada")), [editing("merge", age=40)]
    assert edited(event, ASKED, effects, FORM) is not None
    refusal(lambda: edited(event, {**ASKED, name: {"id": "other"}}, effects, FORM))


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


def without_text(event: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of the event of a result without its text."""
    copy = deepcopy(event)
    del copy["elicitation"]["result"]["text"]
    return copy


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
