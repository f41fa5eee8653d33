"""All hook methods by one measure: there is one for each event, and what it builds is valid."""

from __future__ import annotations

import inspect
import re
from typing import Any, Callable

import pytest
from every_call import METHODS, OPTIONAL, REQUIRED, calls, maximal, minimal, parameters
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from recording_hooks import RecordingHooks

from ahp_sync import payloads
from ahp_sync.hooks import Hooks
from ahp_sync.protocol.events import EVENTS

EVERY = pytest.mark.parametrize("event_type", EVENTS)
#: Events are large for what is drawn at random, and slow to check for the official validator.
FEW = settings(
    max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None
)


Judge = Callable[[dict[str, Any]], None]


@pytest.fixture(scope="module", params=["our rules", "the official rules"])
def judge(request: pytest.FixtureRequest) -> Judge:
    """Raises for an event that is not valid; our own rules have let it pass already."""
    if request.param == "our rules":
        return lambda event: None
    runtime = pytest.importorskip(
        "agenthooksprotocol.runtime",
        reason="the official SDK is not installed (it needs Python 3.11)",
    )
    validator = runtime.Validator()

    def check(event: dict[str, Any]) -> None:
        params = {"protocolVersion": "draft", "event": event}
        message = {"jsonrpc": "2.0", "method": "hooks/observe", "params": params}
        validator.validate("observe-notification", message)

    return check


def build(event_type: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Make the call; return the event, which the client's own rules have let pass."""
    hooks = RecordingHooks()
    getattr(hooks, METHODS[event_type])(**arguments)
    assert hooks.event_type == event_type
    return hooks.event


# --- the methods ----------------------------------------------------------------------------------


def test_there_is_one_method_for_each_event_and_no_other() -> None:
    """Named as the event, with underscores for dots."""
    public = {name for name in dir(Hooks) if not name.startswith("_")}
    assert public == {*METHODS.values(), "dispatch"}


@EVERY
def test_a_method_takes_keywords_only(event_type: str) -> None:
    """What one argument of many means has to be read off the call."""
    kinds = {one.kind for one in parameters(event_type).values()}
    assert kinds == {inspect.Parameter.KEYWORD_ONLY}


@EVERY
def test_a_method_tells_its_event_and_its_payload(event_type: str) -> None:
    """And whether anything can come of it but an observation."""
    text = inspect.getdoc(getattr(Hooks, METHODS[event_type]))
    assert text is not None
    assert f"(``{event_type}``)" in text.splitlines()[0]
    assert f"~ahp_sync.payloads.{payloads.PAYLOADS[event_type].__name__}`" in text
    assert ("It is only observed." in text) is not EVENTS[event_type].interceptable
    for effect in EVENTS[event_type].effects:
        word = {"ask": "ask for the user", "flow": "stop the flow"}.get(effect, effect)
        assert re.search(rf"\b{word}\b", " ".join(text.split())), effect


@EVERY
def test_the_calls_of_these_tests_leave_no_parameter_out(event_type: str) -> None:
    """What is not drawn here is not tested here."""
    required = {name for one in REQUIRED[event_type] for name in re.split(r"[|+]", one)}
    drawn = {*required, *(name for one in OPTIONAL[event_type] for name in re.split(r"[|+]", one))}
    own = parameters(event_type)
    needed = {name for name, one in own.items() if one.default is one.empty}
    assert needed <= required
    # Some only go together with others, which are drawn under the other's name.
    together = {
        "user.elicitation.result": {"part", "request"},
        "tool.after": {"error", "duration_ms", "file_changes"},
        "model.response.after": {"latency_ms"},
        "task.change.after": {"prior"},
    }
    assert set(own) - drawn - together.get(event_type, set()) == set()


@EVERY
def test_the_least_is_valid(event_type: str, judge: Judge) -> None:
    """The arguments that have no default are enough."""

    @FEW
    @given(minimal(event_type))
    def check(arguments: dict[str, Any]) -> None:
        judge(build(event_type, arguments))

    check()


@EVERY
def test_the_most_is_valid(event_type: str, judge: Judge) -> None:
    """Everything that can be said, said at once."""

    @FEW
    @given(maximal(event_type))
    def check(arguments: dict[str, Any]) -> None:
        judge(build(event_type, arguments))

    check()


@settings(FEW, max_examples=150)
@given(st.sampled_from(sorted(EVENTS)).flatmap(lambda one: st.tuples(st.just(one), calls(one))))
def test_what_lies_between_is_valid(judge: Judge, call: tuple[str, dict[str, Any]]) -> None:
    """Any of the optional arguments, in any combination that makes sense."""
    judge(build(*call))


# --- ids that are made up (R-EVT-04) --------------------------------------------------------------


def made_up(value: Any) -> list[str]:
    """Return all ids within a payload that say that they were made up."""
    if isinstance(value, dict):
        mine = [value["id"]] if value.get("synthesized") is True else []
        return [*mine, *(one for inner in value.values() for one in made_up(inner))]
    if isinstance(value, (list, tuple)):
        return [one for inner in value for one in made_up(inner)]
    return []


TEXTS: dict[str, dict[str, Any]] = {
    "turn.start": {"turn": "t", "prompt": "x"},
    "turn.finish.before": {"turn": "t", "response": "x"},
    "turn.end": {"turn": "t", "response": "x"},
    "turn.progress": {"turn": "t", "item": "m", "text": "x"},
    "model.response.after": {
        "model": {"id": "m", "provider": "p"},
        "attempt": "a",
        "finish_reason": "stop",
        "response": "x",
    },
    "tool.after": {"name": "n", "input": {}, "call_id": "c", "output": "x"},
    "tool.progress": {"name": "n", "input": {}, "call_id": "c", "output": "x"},
    "context.compact.before": {"trigger": "auto", "instructions": "x"},
    "context.compact.after": {"summary": "x"},
    "user.attention": {"kind": "k", "message": "x", "title": "x"},
    "user.elicitation.request": {"server": "s", "params": {"message": "x"}},
    "user.elicitation.result": {"server": "s", "result": {"action": "decline"}},
    "user.message.inbound": {"channel": "c", "sender": "s", "text": "x"},
    "user.message.outbound": {"channel": "c", "text": "x"},
}


@pytest.mark.parametrize("event_type", TEXTS)
def test_content_made_of_text_is_the_same_when_an_event_is_raised_again(event_type: str) -> None:
    """With the same event id all ids are the same, each once, and each says that it was made up."""
    hooks = RecordingHooks()
    first, second = (
        hooks.sent(METHODS[event_type], **TEXTS[event_type], event_id="ev-1") for _ in range(2)
    )
    assert first == second
    ids = made_up(first)
    assert ids
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("event_type", TEXTS)
def test_content_of_other_events_has_other_ids(event_type: str) -> None:
    """Unless the content is that of a turn, an attempt or a call, whose id it is named after."""
    hooks = RecordingHooks()
    first, second = (
        made_up(hooks.sent(METHODS[event_type], **TEXTS[event_type])) for _ in range(2)
    )
    owned = {"turn.start", "turn.finish.before", "turn.end", "model.response.after", "tool.after"}
    assert (first == second) is (event_type in owned)
    assert set(first).isdisjoint(second) is (event_type not in owned)
