"""Edits and results, staged on what a receiver saw and on what the host has (R-CON-06)."""

from __future__ import annotations

import copy
import json
from typing import Any, Optional

import pytest
from answering import event_of, inject, message, modify, part, returning
from contents import CANARY, SELECTIONS, events, parts_in
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ahp_sync import Grant
from ahp_sync.failure import FailureClass, OperationalFailure
from ahp_sync.protocol.content import ContentSelection, project
from ahp_sync.protocol.edits import Edit, Shown, Supplied, edited, supplied
from ahp_sync.protocol.events import EVENTS, Shape
from ahp_sync.protocol.validation import event_problem

Json = dict[str, Any]

PICTURE: Json = {
    "id": "pic-1",
    "kind": "attachment",
    "mediaType": "image/png",
    "selection": "body",
    "body": {"ref": "blob-1"},
}


def shown(event: Json, view: Optional[Json] = None, request: Optional[Json] = None) -> Shown:
    """Return what a receiver was sent, with everything granted."""
    event_type = event["type"]
    return Shown(view or event, Grant.whole(event_type).to_json(event_type), request)


def edit(event: Json, *effects: Json, **more: Any) -> Edit:
    return edited(event, effects, shown(event, **more))


def refusal(event: Json, *effects: Json, **more: Any) -> str:
    """Return the code that edits and result are refused with."""
    with pytest.raises(OperationalFailure) as raised:
        what = shown(event, **more)
        edited(event, effects, what)
        supplied(effects, what)
    assert raised.value.failure_class is FailureClass.EFFECTS
    assert not raised.value.retryable
    return raised.value.code


# --- edits ----------------------------------------------------------------------------------------


def test_without_an_edit_the_event_is_the_very_one() -> None:
    """Nothing is copied, and nothing is different."""
    event = event_of("turn.start")
    assert edit(event, returning(1), inject()) == Edit(event, changed=False)
    assert edit(event).event is event


def test_edits_apply_in_their_order() -> None:
    """Each to what the one before it left (R-SET-04)."""
    event = event_of("turn.start")
    one, two = message("m-8", "one"), message("m-9", "two")
    effects = (
        modify("prompt", "replace", [one]),
        modify("prompt", "merge", [two]),
        modify("prompt", "merge", [two]),
    )
    assert edit(event, *effects).event["items"] == [one, two, two]
    backwards = (modify("prompt", "merge", [two]), modify("prompt", "replace", [one]))
    assert edit(event, *backwards).event["items"] == [one]


def test_only_the_target_is_another() -> None:
    """The rest of the event is shared, and the event before is as it was."""
    event = event_of("tool.before")
    kept = copy.deepcopy(event)
    new = edit(event, modify("input", "merge", {"x": 1})).event
    assert event == kept
    assert {name: value for name, value in new.items() if name != "tool"} == {
        name: value for name, value in event.items() if name != "tool"
    }
    assert new["tool"] == {**event["tool"], "input": {"command": "ls", "x": 1}}


def test_a_long_list_of_edits_is_given_up_when_time_is_over() -> None:
    """What is asked before each of them may raise, and nothing is left of the rest."""

    class Over(Exception):
        pass

    asked: list[None] = []

    def check() -> None:
        asked.append(None)
        if len(asked) > 3:
            raise Over

    event = event_of("turn.start")
    effects = [modify("prompt", "merge", [message(f"m-{n}")]) for n in range(100)]
    with pytest.raises(Over):
        edited(event, effects, shown(event), check)
    assert len(asked) == 4


# --- content that a receiver does not see ---------------------------------------------------------


def project_(event: Json, default: str) -> Json:
    return project(event, ContentSelection(default), include_native=False)


CONTENT_TARGETS = sorted(
    name
    for name, event in EVENTS.items()
    if event.target is not None and event.target.shape in (Shape.MESSAGES, Shape.TEXT)
)


@pytest.mark.parametrize("event_type", CONTENT_TARGETS)
def test_putting_the_view_back_changes_nothing(event_type: str) -> None:
    """R-CON-06: what a receiver leaves as it was shown stands for the host's own."""
    target = EVENTS[event_type].target
    assert target is not None

    @settings(max_examples=30)
    @given(SELECTIONS, st.data())
    def check(selection: ContentSelection, data: st.DataObject) -> None:
        event = {**event_of(event_type), **_content(data.draw(events(event_type)))}
        assume(event_problem(event_type, event) is None)
        view = project(event, selection, include_native=False)
        assume(target.shape is Shape.MESSAGES or "text" in json.dumps(_at(view, target.path)))
        if target.shape is Shape.TEXT and any("text" not in p for p in _at(view, target.path)):
            return  # that is not offered at all (R-CON-07)
        effect = modify(target.name, "replace", _at(view, target.path))
        try:
            made = edit(event, effect, view=view)
        except OperationalFailure as failure:
            assert "identities" in failure.detail  # which the host's own event breaks already
            return
        assert made == Edit(event, changed=False)

    check()


def _at(event: Json, path: tuple[str, ...]) -> Any:
    for name in path:
        event = event.get(name, {})
    return event


def _content(drawn: Json) -> Json:
    names = ("items", "instructions", "summary", "message")
    return {
        name: drawn[name]
        for name in names
        if name in drawn and not (name == "message" and "channel" not in drawn[name])
    }


@given(st.sampled_from(["metadata", "omit"]), st.data())
def test_an_edit_lays_nothing_open(level: str, data: st.DataObject) -> None:
    """R-CON-06: whatever a receiver writes, hidden text stays where it was, or goes.

    Each text of the host's event has a part and a message that it belongs to; after any edit of
    what was shown, it still belongs to those.
    """
    event = {**event_of("turn.start"), "items": data.draw(events("turn.start")).get("items", [])}
    assume(event_problem("turn.start", event) is None)
    view = project_(event, level)
    entries = data.draw(st.lists(st.sampled_from([*view["items"], message("m-new", "mine")])))
    try:
        made = edit(event, modify("prompt", "replace", entries), view=view)
    except OperationalFailure:
        return
    homes = _homes(event["items"])
    for text, where in _homes(made.event["items"]).items():
        assert text not in homes or where == homes[text]


def _homes(messages: list[Json]) -> dict[str, tuple[str, str]]:
    return {
        json.dumps(one.get("text", one.get("body"))): (message_["id"], one["id"])
        for message_ in messages
        for one in parts_in(message_)
        if CANARY in json.dumps(one.get("text", one.get("body", "")))
    }


def test_a_removed_message_takes_its_hidden_text_along() -> None:
    """It is the receiver's to take out what it can't read."""
    event = event_of("turn.start", items=[message("m-1", "secret"), message("m-2", "other")])
    view = project_(event, "omit")
    made = edit(event, modify("prompt", "replace", view["items"][1:]), view=view)
    assert made.event["items"] == event["items"][1:]


# --- attachments (R-EFF-02) -----------------------------------------------------------------------


def test_an_attachment_may_be_carried_over_as_it_is() -> None:
    """R-EFF-02: into an edit, a result and an injection, by its whole part."""
    event = event_of("model.request.before", items=[message("m-1", "look", PICTURE)])
    again = [message("m-1", PICTURE)]
    assert edit(event, modify("request", "merge", again)).changed
    assert edit(event, modify("request", "replace", again)).changed
    assert supplied([returning(again)], shown(event)) == Supplied(again)
    assert supplied([inject(*again)], shown(event)) is None


def test_a_part_stays_with_its_message() -> None:
    """R-EVT-03: an edit that moves it to another one breaks its identity."""
    event = event_of("model.request.before", items=[message("m-1", "look", PICTURE)])
    for moved in (PICTURE, part("m-1-1", "look")):
        effect = modify("request", "merge", [message("m-2", moved)])
        assert refusal(event, effect) == "invalid_edit"


@pytest.mark.parametrize(
    "other",
    [
        {**PICTURE, "body": {"ref": "blob-2"}},
        {**PICTURE, "id": "pic-2"},
        {**PICTURE, "mediaType": "image/gif"},
        {**PICTURE, "category": "images"},
    ],
)
def test_an_attachment_that_was_not_shown_is_refused(other: Json) -> None:
    """R-EFF-02: not another reference, and not the same under another identity."""
    event = event_of("model.request.before", items=[message("m-1", "look", PICTURE)])
    again = [message("m-2", other)]
    for effect in (modify("request", "merge", again), modify("request", "replace", again)):
        assert refusal(event, effect) == "unknown_reference"
    assert refusal(event, returning(again)) == "unknown_reference"
    assert refusal(event, inject(*again)) == "unknown_reference"


def test_an_attachment_that_is_hidden_from_the_receiver_is_unknown_to_it() -> None:
    """R-EFF-02: a reference that it guessed opens nothing."""
    event = event_of("turn.start", items=[message("m-1", "look", PICTURE)])
    view = project_(event, "metadata")
    again = modify("prompt", "merge", [message("m-2", PICTURE)])
    assert refusal(event, again, view=view) == "unknown_reference"
    assert refusal(event, inject(message("m-2", PICTURE)), view=view) == "unknown_reference"


# --- texts (R-CON-07, D-21) -----------------------------------------------------------------------

GAP = {
    "id": "p-2",
    "kind": "text",
    "mediaType": "text/plain",
    "selection": "body",
    "gap": {"reason": "too_large"},
}


@pytest.mark.parametrize(
    ("event_type", "target"),
    [("context.compact.before", "instructions"), ("context.compact.after", "summary")],
)
@pytest.mark.parametrize("operation", ["replace", "merge"])
def test_a_text_is_edited_by_whoever_sees_all_of_it(
    event_type: str, target: str, operation: str
) -> None:
    """R-CON-07: and it is given whole; neither a gap nor a part without text is one."""
    event = event_of(event_type)
    good = modify(target, operation, [part("p-2", "x")])
    assert edit(event, good).changed
    assert refusal(event, modify(target, operation, [GAP])) == "malformed_effect"
    assert refusal(event, good, view=project_(event, "metadata")) == "malformed_effect"
    assert refusal({**event, target: [GAP]}, good) == "malformed_effect"


def test_a_compaction_is_supplied_in_whole_text() -> None:
    """R-PAY-01: every part of it inline."""
    event = event_of("context.compact.before")
    value = [part("p-2", ""), part("p-3", "x")]
    assert supplied([returning(value)], shown(event)) == Supplied(value)
    assert refusal(event, returning([GAP])) == "malformed_effect"


def test_the_last_result_is_the_one() -> None:
    """R-ADM-03; and null is one (T-07)."""
    event = event_of("tool.before")
    assert supplied([returning(1), returning(None)], shown(event)) == Supplied(None)
    assert supplied([], shown(event)) is None


# --- elicitation (R-ELI-03 to R-ELI-05) -----------------------------------------------------------

ASKED = event_of("user.elicitation.request", id="asked")
TOLD = event_of("user.elicitation.result")


def accepts(**content: Any) -> Json:
    return returning({"action": "accept", "content": content})


@pytest.mark.parametrize(
    ("effects", "result"),
    [
        ([accepts(name="Ada")], {"action": "accept", "content": {"name": "Ada"}}),
        (
            [accepts(name="Ada", extra=1)],
            {"action": "accept", "content": {"name": "Ada", "extra": 1}},
        ),
        ([returning({"action": "decline"})], {"action": "decline"}),
        ([{"type": "deny", "reason": "no"}], None),
    ],
)
def test_a_request_is_answered(effects: list[Json], result: Optional[Json]) -> None:
    """By a result that fits the form; nothing is filled in (R-ELI-03)."""
    found = supplied(effects, shown(ASKED))
    assert (found and found.value) == result


@pytest.mark.parametrize(
    ("effects", "code"),
    [
        ([accepts(age=40)], "invalid_answer"),
        ([accepts(name="Ada", age=17)], "invalid_answer"),
        ([accepts(name=5)], "invalid_answer"),
        ([returning({"action": "decline", "content": {}})], "invalid_answer"),
        ([accepts(name="A"), accepts(name="B")], "conflicting_effects"),
        ([accepts(name="A"), {"type": "deny", "reason": "no"}], "conflicting_effects"),
        ([{"type": "deny", "reason": "a"}, {"type": "deny", "reason": "b"}], "conflicting_effects"),
    ],
)
def test_an_answer_that_does_not_fit_is_refused(effects: list[Json], code: str) -> None:
    """R-ELI-03, R-ELI-05: the whole response with it."""
    assert refusal(ASKED, *effects) == code


def test_answers_are_edited_within_the_form() -> None:
    """R-ELI-04: after each edit they have to fit; the host's text is written anew."""
    effect = modify("content", "merge", {"age": 40})
    made = edit(TOLD, effect, request=ASKED)
    assert made.changed
    assert json.loads(made.event["elicitation"]["result"]["text"])["content"]["age"] == 40
    too_young = modify("content", "merge", {"age": 3})
    assert refusal(TOLD, too_young, effect, request=ASKED) == "invalid_answer"
    assert refusal(TOLD, effect) == "unadvertised_effect"  # the request is not known


def test_answers_that_stay_the_same_are_no_edit() -> None:
    """R-SET-06: the text keeps its very form."""
    made = edit(TOLD, modify("content", "replace", {"age": 36.0, "name": "Ada"}), request=ASKED)
    assert not made.changed
    assert made.event["elicitation"] == TOLD["elicitation"]
