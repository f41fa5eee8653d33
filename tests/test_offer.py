"""What one interceptor is offered of a grant, for what it sees and for what is left (R-CAP-02)."""

from __future__ import annotations

from typing import Any, Optional

import pytest
from answering import INTERCEPTED, event_of
from contents import SELECTIONS, events
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ahp_sync import Elicitation, Flow, Grant, Modify
from ahp_sync.offer import offered
from ahp_sync.protocol.content import ContentSelection, project
from ahp_sync.protocol.edits import at
from ahp_sync.protocol.events import EVENTS, Shape
from ahp_sync.protocol.merging import withholds_text
from ahp_sync.protocol.validation import capabilities_problem, event_problem
from ahp_sync.settlement import State

Json = dict[str, Any]
ASKED = event_of("user.elicitation.request", id="asked")


def offer(event: Json, grant: Optional[Grant] = None, level: str = "body", **more: Any) -> Json:
    """Return the capabilities for a receiver that sees content at this level."""
    view = project(event, ContentSelection(level), include_native=False)
    request = more.pop("request", ASKED if event["type"] == "user.elicitation.result" else None)
    state = State(event, **more)
    shown = offered(grant or Grant.whole(event["type"]), state, view, request)
    assert shown.view is view
    return dict(shown.capabilities)


@pytest.mark.parametrize("event_type", INTERCEPTED)
def test_who_sees_everything_is_offered_everything(event_type: str) -> None:
    """And what is offered is the grant, block by block."""
    assert offer(event_of(event_type)) == Grant.whole(event_type).to_json(event_type)


@pytest.mark.parametrize("event_type", INTERCEPTED)
@pytest.mark.parametrize("level", ["metadata", "omit"])
def test_what_needs_no_content_is_offered_to_everybody(event_type: str, level: str) -> None:
    """Only what changes or stands for a content depends on the view (R-EFF-03, R-CON-07)."""
    whole = Grant.whole(event_type).to_json(event_type)
    blind = offer(event_of(event_type), level=level)
    missing = set(whole["effects"]) - set(blind["effects"])
    assert missing <= {"modify", "return"}
    event = EVENTS[event_type]
    if event.target is not None and event.target.shape in (Shape.OBJECT, Shape.WORKSPACE):
        assert missing == set()
    for name in ("flow", "inject", "elicitation"):
        assert blind.get(name) == whole.get(name)


@settings(max_examples=150)
@given(st.sampled_from(INTERCEPTED), SELECTIONS, st.data())
def test_an_offer_is_valid_and_promises_nothing_that_is_hidden(
    event_type: str, selection: ContentSelection, data: st.DataObject
) -> None:
    """R-EFF-03: whatever the event and the view are like."""
    drawn = data.draw(events(event_type))
    names = ("items", "instructions", "summary")
    event = {**event_of(event_type), **{name: drawn[name] for name in names if name in drawn}}
    assume(event_problem(event_type, event) is None)
    view = project(event, selection, include_native=False)
    block = offered(Grant.whole(event_type), State(event), view, ASKED).capabilities
    assert capabilities_problem(event_type, block) is None
    target = EVENTS[event_type].target
    if target is not None and target.shape in (Shape.MESSAGES, Shape.TEXT):
        hidden = withholds_text(at(view, target.path) or [])
        modes = block.get("modify", {}).get(target.name, {"replace": False, "merge": False})
        assert not (hidden and modes["replace"])
        if target.shape is Shape.MESSAGES:
            assert modes["merge"]
            assert modes["replace"] is not hidden
        else:
            assert modes["merge"] is (target.name in view and not hidden)


def test_an_offer_is_no_more_than_the_grant() -> None:
    """A receiver that could replace is offered what the host grants, and that may be an append."""
    grant = Grant(("deny",), Modify(replace=False))
    assert offer(event_of("turn.start"), grant)["modify"]["prompt"]["replace"] is False
    assert offer(event_of("turn.start"), Grant()) == {"effects": []}


@pytest.mark.parametrize("left", [0, 1, 5])
def test_what_is_left_to_continue_with_is_the_chains(left: int) -> None:
    """R-CAP-03: the declared number is where a chain begins, the state has what is left of it."""
    grant = Grant(flow=Flow(("continue",), max_continuations=9, continuation_count=4))
    block = offer(event_of("turn.finish.before"), grant, remaining=left)
    assert block["flow"] == {
        "operations": ["continue"],
        "maxContinuations": 9,
        "continuationCount": 4,
        "remainingContinuations": left,
    }
    stops = Grant(flow=Flow(("stop",)))
    assert offer(event_of("turn.finish.before"), stops)["flow"] == {"operations": ["stop"]}


# --- elicitation (R-ELI-04) -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("modes", "answers"),
    [
        (Elicitation(), True),
        (Elicitation(form=False, url=True), False),
        (Elicitation(form=False), False),
        (None, False),
    ],
)
def test_an_answer_needs_its_mode(modes: Optional[Elicitation], answers: bool) -> None:
    """A ``return``, or an edit of the answers, is offered where the form is; a ``deny`` always."""
    asks = Grant(("deny", "return", "message"), elicitation=modes)
    effects = offer(event_of("user.elicitation.request"), asks)["effects"]
    assert effects == (["deny", "return", "message"] if answers else ["deny", "message"])
    tells = Grant(("message",), Modify(), elicitation=modes)
    block = offer(event_of("user.elicitation.result"), tells)
    assert ("modify" in block["effects"]) is ("modify" in block) is answers


@pytest.mark.parametrize("request_", [None, event_of("user.elicitation.request", id="x")])
def test_answers_are_edited_where_the_form_is_known(request_: Any) -> None:
    """Without the request, or with one whose text is not there, nothing could be checked."""
    if request_ is not None:
        request_["elicitation"]["request"] = {
            **{name: request_["elicitation"]["request"][name] for name in ("id", "kind")},
            "mediaType": "text/plain",
            "selection": "omit",
        }
    block = offer(event_of("user.elicitation.result"), request=request_)
    assert block["effects"] == ["message"]


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_a_result_without_answers_has_none_to_edit(action: str) -> None:
    """R-ELI-03: only an accepted form has content."""
    event = event_of("user.elicitation.result")
    event["elicitation"]["action"] = action
    event["elicitation"]["result"]["text"] = f'{{"action": "{action}"}}'
    assert offer(event)["effects"] == ["message"]
