"""Settlement: what admitted effects make of a state, purely (section 9 of the wire reference)."""

from __future__ import annotations

import copy
import itertools
import json
import time
from typing import Any

import pytest
from answering import (
    ALLOW,
    ASK,
    DENY,
    INTERCEPTED,
    after,
    event_of,
    go_on,
    inject,
    message,
    modify,
    note,
    part,
    returning,
    stop,
)
from hypothesis import given
from hypothesis import strategies as st
from strategies import JSON

from ahp_sync import Candidate, Flow, Grant, HostState
from ahp_sync.failure import FailureClass, OperationalFailure
from ahp_sync.protocol.edits import Shown
from ahp_sync.protocol.equality import json_equal
from ahp_sync.settlement import Denial, Permission, State, settle

CANDIDATE = Candidate("earlier", {"from": "cache"})


def before(event_type: str = "tool.before", **state: Any) -> State:
    """Return a state that something was settled of already."""
    return State(event_of(event_type), **state)


def with_input(**members: Any) -> State:
    """Return the state of a call with this input, that was allowed and given a result."""
    state = before(permission=Permission.ALLOW, candidate=CANDIDATE)
    state.event["tool"]["input"] = members
    return state


def use(**members: Any) -> dict[str, Any]:
    """Return the effect that replaces the input."""
    return modify("input", "replace", members)


def add(**members: Any) -> dict[str, Any]:
    """Return the effect that merges into the input."""
    return modify("input", "merge", members)


def input_of(state: State) -> Any:
    return state.event["tool"]["input"]


def refused(state: State, *effects: dict[str, Any], **more: Any) -> str:
    """Return the code that an answer is refused with."""
    with pytest.raises(OperationalFailure) as raised:
        after(state, *effects, **more)
    assert raised.value.failure_class is FailureClass.EFFECTS
    return raised.value.code


# --- the state as a whole -------------------------------------------------------------------------


def test_nothing_changes_without_effects() -> None:
    """A neutral answer leaves the very state, which is no approval (R-ROLE-01)."""
    state = before()
    assert after(state) is state
    assert state.permission is Permission.NONE
    assert not state.ended


def test_a_state_is_frozen() -> None:
    """It is replaced as a whole, never changed."""
    with pytest.raises(AttributeError):
        before().flow = "stop"  # type: ignore[misc]


ANY_EFFECT = st.sampled_from(
    [
        DENY,
        {**DENY, "reason": "other", "code": "a.b"},
        ALLOW,
        ASK,
        returning(None),
        returning([1]),
        note("hi"),
        inject(message("i-1", "more")),
        stop(),
        use(command="ls"),
        use(command="ls", flag=True),
        add(flag=True),
        add(command=None),
    ]
)
ANY_STATE = st.builds(
    State,
    st.just(event_of("tool.before")),
    permission=st.sampled_from(Permission),
    candidate=st.sampled_from([None, CANDIDATE]),
    flow=st.sampled_from([None, "none", "stop"]),
    injections=st.sampled_from([(), (inject(),)]),
    messages=st.sampled_from([(), ("earlier",)]),
)


@given(ANY_STATE, st.lists(ANY_EFFECT, max_size=5))
def test_settling_is_pure(state: State, effects: list[dict[str, Any]]) -> None:
    """Neither the state before nor the effects nor the event are changed (R-SET-03)."""
    kept = copy.deepcopy((state, effects))
    settled = after(state, *effects)
    assert (state, effects) == kept
    assert settled == after(state, *effects)


@given(ANY_STATE, st.lists(ANY_EFFECT, max_size=4), st.data())
def test_a_response_counts_whole_or_not_at_all(
    state: State, effects: list[dict[str, Any]], data: st.DataObject
) -> None:
    """R-SET-03, R-ADM-01: one bad edit among good effects, anywhere, and nothing is settled."""
    position = data.draw(st.integers(0, len(effects)))
    bad = modify("input", "merge", {"command": "x"})
    effects = [*effects[:position], {**bad, "extra": 1}, *effects[position:]]
    kept = copy.deepcopy(state)
    assert refused(state, *effects) == "malformed_effect"
    assert state == kept


@given(st.lists(st.lists(ANY_EFFECT, max_size=3), max_size=4))
def test_what_was_said_accumulates(responses: list[list[dict[str, Any]]]) -> None:
    """R-SET-12: messages and injections are kept in order, over all accepted responses."""
    state = before()
    for effects in responses:
        state = after(state, *effects)
    said = list(itertools.chain.from_iterable(responses))
    assert list(state.messages) == [e["text"] for e in said if e["type"] == "message"]
    assert list(state.injections) == [e for e in said if e["type"] == "inject"]


def test_the_first_denial_is_the_one_that_is_told() -> None:
    """Over all responses; several are no conflict (R-ADM-03), and the chain is over (R-SET-08)."""
    first, second = {**DENY, "code": "a.b"}, {**DENY, "reason": "me too"}
    state = after(before(), note("x"), first, second)
    assert state.ended
    assert state.permission is Permission.DENY
    assert after(state, second).denial == Denial("not here", "a.b")
    assert before().denial is None


@pytest.mark.parametrize("event_type", INTERCEPTED)
def test_every_event_can_be_settled(event_type: str) -> None:
    """A message goes everywhere, and leaves the event as it is."""
    state = before(event_type)
    settled = after(state, note("seen"))
    assert settled.messages == ("seen",)
    assert settled.event is state.event
    assert not settled.ended


# --- order and invalidation (R-SET-04 to R-SET-06) ------------------------------------------------


@pytest.mark.parametrize(
    "effects", list(itertools.permutations([returning(7), use(a=1), use(b=2)]))
)
def test_a_result_belongs_to_the_operation_as_edited(effects: tuple[dict[str, Any], ...]) -> None:
    """R-SET-04: wherever it stands among the edits, which apply in their order before it."""
    settled = after(before(), *effects)
    assert settled.candidate == Candidate(7)
    last = [effect for effect in effects if effect["type"] == "modify"][-1]
    assert input_of(settled) == last["value"]


@given(st.lists(ANY_EFFECT, max_size=5))
def test_all_edits_come_first(effects: list[dict[str, Any]]) -> None:
    """R-SET-04: the list with its edits moved to the front settles the same."""
    state = before(permission=Permission.ALLOW, candidate=CANDIDATE)
    edits = [effect for effect in effects if effect["type"] == "modify"]
    others = [effect for effect in effects if effect["type"] != "modify"]
    assert after(state, *effects) == after(state, *edits, *others)


def test_an_edit_takes_back_what_was_for_the_operation_before() -> None:
    """R-SET-05: an inherited result and approval go; neither was for this input."""
    settled = after(with_input(a=1), use(a=2))
    assert settled.candidate is None
    assert settled.permission is Permission.NONE
    assert settled.advertised() == {"permission": "none", "candidate": None}


@pytest.mark.parametrize("permission", [Permission.ASK, Permission.DENY])
def test_an_edit_takes_back_no_objection(permission: Permission) -> None:
    """R-SET-05: an inherited ask or deny stays."""
    assert after(before(permission=permission), use(a=2)).permission is permission


@pytest.mark.parametrize("effects", list(itertools.permutations([ALLOW, returning(1), use(a=2)])))
def test_what_comes_with_the_edit_is_for_the_new_operation(effects: Any) -> None:
    """R-SET-05: an ``allow`` or a ``return`` in the same response is fresh, in any order."""
    settled = after(with_input(a=1), *effects)
    assert settled.permission is Permission.ALLOW
    assert settled.candidate == Candidate(1)


@pytest.mark.parametrize(
    ("old", "effects"),
    [
        ({"a": 1}, [use(a=1)]),
        ({"a": 1}, [use(a=1.0)]),
        ({"a": 1, "b": 2}, [use(b=2, a=1)]),
        ({"a": 1}, [use(a=2), use(a=1)]),
        ({"a": 1}, [add(a=1)]),
        ({"a": 1}, [add()]),
        ({"a": None}, [use(a=None)]),
        ({"a": [1, {"x": True}]}, [use(a=[1.0, {"x": True}])]),
        ({"a": 10**30}, [use(a=10**30)]),
    ],
)
def test_an_edit_that_changes_nothing_takes_nothing_back(
    old: dict[str, Any], effects: list[dict[str, Any]]
) -> None:
    """R-SET-06, T-08: what counts is the value after all edits; an equal one is no other."""
    state = with_input(**old)
    settled = after(state, *effects)
    assert settled.event is state.event
    assert (settled.permission, settled.candidate) == (Permission.ALLOW, CANDIDATE)


@pytest.mark.parametrize(
    ("old", "effect"),
    [
        ({"a": 1}, use(a=True)),
        ({"a": 0}, use(a=False)),
        ({"a": None}, use()),
        ({}, use(a=None)),
        ({"a": 1}, add(a=None)),
        ({"a": [1, 2]}, use(a=[2, 1])),
        ({"a": "\u00e9"}, use(a="e\u0301")),
        ({"a": 2**53}, use(a=2**53 + 1)),
        ({"a": {"b": 1, "c": 2}}, add(a={"b": 1})),
    ],
)
def test_an_edit_that_changes_anything_takes_it_back(
    old: dict[str, Any], effect: dict[str, Any]
) -> None:
    """R-SET-06, T-06: a boolean is no number, null is not absent, and order and exactness count."""
    settled = after(with_input(**old), effect)
    assert (settled.permission, settled.candidate) == (Permission.NONE, None)


@given(st.dictionaries(st.text(), JSON, max_size=3), st.dictionaries(st.text(), JSON, max_size=3))
def test_approval_stays_exactly_if_the_input_does(old: Any, new: Any) -> None:
    """R-SET-05, R-SET-06, R-SET-13: it is bound to the effective arguments."""
    settled = after(with_input(**old), modify("input", "replace", new))
    kept = settled.permission is Permission.ALLOW and settled.candidate is CANDIDATE
    assert kept is json_equal(old, new)


def test_a_merge_with_null_stores_null() -> None:
    """T-07: only ``replace`` takes members away; nested values are replaced whole."""
    state = with_input(a=1, b={"x": 1, "y": 2})
    assert input_of(after(state, add(a=None, b={"x": 5}))) == {"a": None, "b": {"x": 5}}
    assert input_of(after(state, use(b=1))) == {"b": 1}


# --- permission (R-SET-07) ------------------------------------------------------------------------

EFFECT_OF = {Permission.ALLOW: ALLOW, Permission.ASK: ASK, Permission.DENY: DENY}
STRENGTH = [Permission.NONE, Permission.ALLOW, Permission.ASK, Permission.DENY]


@given(
    st.sampled_from(Permission),
    st.lists(st.lists(st.sampled_from(list(EFFECT_OF)), max_size=3), max_size=3),
)
def test_the_strongest_permission_counts(
    seed: Permission, responses: list[list[Permission]]
) -> None:
    """R-SET-07: deny beats ask, ask beats allow, in any order, in one response or in several."""
    state = before(permission=seed)
    for given_ in responses:
        state = after(state, *(EFFECT_OF[permission] for permission in given_))
    everything = [seed, *itertools.chain.from_iterable(responses)]
    assert state.permission is max(everything, key=STRENGTH.index)
    assert state.ended is (Permission.DENY in everything)  # ask does not end the chain


# --- results --------------------------------------------------------------------------------------


def test_a_result_of_null_is_a_result() -> None:
    """T-07: ``return: null`` differs from no candidate, in the state and on the wire."""
    settled = after(before(), returning(None))
    assert settled.candidate == Candidate(None)
    assert settled.advertised()["candidate"] == {"value": None}


def test_the_last_result_counts() -> None:
    """R-ADM-03: over several effects and several responses; the host's provenance goes with its."""
    settled = after(before(candidate=CANDIDATE), returning(1), returning(2))
    assert settled.candidate == Candidate(2)
    assert after(settled, returning(3)).candidate == Candidate(3)


def test_a_result_stays_through_an_answer_that_has_none() -> None:
    """With its provenance."""
    assert after(before(candidate=CANDIDATE), note("x")).candidate is CANDIDATE


# --- flow (R-SET-10, R-SET-11) --------------------------------------------------------------------


def turn(remaining: int = 3, **state: Any) -> State:
    """Return the state of a turn that may be continued ``remaining`` times."""
    return before("turn.finish.before", remaining=remaining, **state)


CONTINUES = Grant(("message",), flow=Flow(("stop", "continue"), max_continuations=9))


@pytest.mark.parametrize("effects", [[stop(), go_on("a")], [go_on("a"), stop()]])
def test_stop_beats_continue(effects: list[dict[str, Any]]) -> None:
    """R-SET-10: in any order; it ends the chain, and consumes no allowance (R-SET-11)."""
    settled = after(turn(), *effects)
    assert (settled.flow, settled.stop, settled.ended) == ("stop", "enough", True)
    assert settled.remaining == 3
    assert settled.instructions == ("a",)


def test_stop_over_an_earlier_continue() -> None:
    """R-SET-10: also over several responses, whichever came first."""
    settled = after(after(turn(), go_on("a")), stop("now"))
    assert (settled.flow, settled.stop, settled.remaining) == ("stop", "now", 2)


def test_the_first_stop_gives_the_reason() -> None:
    """Several are no conflict."""
    assert after(turn(), stop("one"), stop("two")).stop == "one"


def test_instructions_accumulate_and_a_response_consumes_once() -> None:
    """R-SET-11, D-19: one allowance a response, however many continues are in it."""
    first = after(turn(), go_on("a"), go_on(), go_on("b"))
    assert (first.flow, first.instructions, first.remaining) == ("continue", ("a", "b"), 2)
    assert not first.ended
    second = after(first, go_on("c"))
    assert (second.instructions, second.remaining) == (("a", "b", "c"), 1)
    assert after(second, note("x")).remaining == 1


def test_nothing_is_left_to_continue_with() -> None:
    """R-CAP-03: at 0 a ``continue`` refuses the response, with all that is in it."""
    assert refused(turn(0), note("x"), go_on("a")) == "unadvertised_effect"
    last = after(turn(1), go_on("a"))
    assert last.remaining == 0
    assert refused(last, go_on("b")) == "unadvertised_effect"


def test_absent_and_empty_are_not_the_same() -> None:
    """T-07: without a ``flow`` effect there is no ``flow`` in the state, nor ``instructions``."""
    assert turn().advertised() == {"permission": "none", "candidate": None}
    assert after(turn(), go_on()).advertised() == {
        "permission": "none",
        "candidate": None,
        "flow": "continue",
        "instructions": [],
    }


@given(st.permutations([ALLOW, returning("x"), stop()]))
def test_stop_leaves_the_approval_readable(effects: list[dict[str, Any]]) -> None:
    """R-SET-10, T-05: the flow has to be tested first, since permission may still say allow."""
    settled = after(before(), *effects)
    assert settled.permission is Permission.ALLOW
    assert settled.candidate == Candidate("x")
    assert settled.ended


# --- the targets ----------------------------------------------------------------------------------

MORE = message("m-2", "more")
TARGETS: list[tuple[str, str, tuple[str, ...], Any, Any]] = [
    ("turn.start", "prompt", ("items",), [MORE], "append"),
    ("model.request.before", "request", ("items",), [MORE], "append"),
    ("turn.finish.before", "response", ("items",), [{**MORE, "role": "assistant"}], "append"),
    ("model.response.after", "response", ("items",), [{**MORE, "role": "assistant"}], "append"),
    ("tool.after", "output", ("items",), [{**MORE, "role": "tool"}], "append"),
    ("user.message.inbound", "prompt", ("message", "messages"), [MORE], "append"),
    (
        "user.message.outbound",
        "content",
        ("message", "messages"),
        [{**MORE, "role": "assistant"}],
        "append",
    ),
    ("context.compact.before", "instructions", ("instructions",), [part("p-9", "x")], "append"),
    ("context.compact.after", "summary", ("summary",), [part("p-9", "x")], "append"),
    ("tool.before", "input", ("tool", "input"), {"x": 1}, "members"),
    ("tool.permission.request", "input", ("tool", "input"), {"x": 1}, "members"),
    (
        "workspace.change.before",
        "workspace",
        ("workspace", "change"),
        {"workspaceRoots": ["/srv"]},
        "members",
    ),
]


def at(event: dict[str, Any], path: tuple[str, ...]) -> Any:
    for name in path:
        event = event[name]
    return event


@pytest.mark.parametrize(
    ("event_type", "target", "path", "value", "how"), TARGETS, ids=[row[0] for row in TARGETS]
)
def test_each_target_is_replaced_and_merged(
    event_type: str, target: str, path: tuple[str, ...], value: Any, how: str
) -> None:
    """Messages and texts are appended, objects merged member by member (section 4)."""
    state = before(event_type)
    old = at(state.event, path)
    assert at(after(state, modify(target, "replace", value)).event, path) == value
    both = [*old, *value] if how == "append" else {**old, **value}
    merged = after(state, modify(target, "merge", value), modify(target, "merge", value))
    again = [*both, *value] if how == "append" else both
    assert at(merged.event, path) == again
    assert at(state.event, path) == old


def test_the_answers_of_an_elicitation_are_edited_in_their_text() -> None:
    """R-ELI-04: the text is written anew, the action keeps step, and the rest stays."""
    state = before("user.elicitation.result")
    asked = event_of("user.elicitation.request", id="asked")
    settled = after(state, modify("content", "merge", {"age": 40}), request=asked)
    block = settled.event["elicitation"]
    result = json.loads(block["result"]["text"])
    assert result == {"action": "accept", "content": {"name": "Ada", "age": 40}}
    assert (block["action"], block["server"]) == ("accept", "forms")


@pytest.mark.parametrize(
    "value",
    [[{**MORE, "role": "assistant"}], [MORE, {**message("m-3"), "role": "tool"}]],
    ids=["role", "second"],
)
def test_the_edited_event_has_to_be_valid(value: list[Any]) -> None:
    """R-PAY-03: inbound messages stay the user's, so the edit is a conflict."""
    state = before("user.message.inbound")
    for operation in ("replace", "merge"):
        assert refused(state, note("x"), modify("prompt", operation, value)) == "invalid_edit"


def test_each_single_edit_has_to_be_valid() -> None:
    """R-PAY-03: a later edit does not mend an earlier one."""
    bad = modify("prompt", "replace", [{**MORE, "role": "assistant"}])
    good = modify("prompt", "replace", [MORE])
    assert refused(before("user.message.inbound"), bad, good) == "invalid_edit"
    assert refused(before("workspace.change.before"), modify("workspace", "replace", {})) in (
        "malformed_effect",
        "invalid_edit",
    )


def test_an_edit_keeps_identities() -> None:
    """T-09, R-EVT-03: a message's id stays with its role, within the event already."""
    again = {**message("m-1", "me too"), "role": "assistant"}
    assert refused(before("turn.start"), modify("prompt", "merge", [again])) == "invalid_edit"


def test_what_a_receiver_did_not_see_stays() -> None:
    """R-CON-06: its edit is made on its view, and on the host's event with what is hidden there."""
    state = before("turn.start")
    view = copy.deepcopy(state.event)
    for shown in view["items"][0]["parts"]:
        shown.pop("text")
        shown["selection"] = "metadata"
    settled = after(state, modify("prompt", "merge", [MORE]), view=view)
    assert settled.event["items"] == [*state.event["items"], MORE]


def test_a_write_through_a_metadata_view_is_an_edit() -> None:
    """T-08: the view may look the same while the host's content does not, and that is a change."""
    event = event_of("turn.start")
    hidden = {**part("m-1-1", "Hello"), "selection": "metadata"}
    del hidden["text"]
    view = {
        **event,
        "items": [{**event["items"][0], "parts": [hidden, *event["items"][0]["parts"][1:]]}],
    }
    state = State(event, permission=Permission.ALLOW)
    same = after(state, modify("prompt", "replace", view["items"]), view=view)
    assert (same.event, same.permission) == (event, Permission.ALLOW)
    for relabelled in ({**hidden, "category": "text"}, {**hidden, "selection": "omit"}):
        written = [{**view["items"][0], "parts": [relabelled]}]
        with pytest.raises(OperationalFailure, match="not shown whole"):
            after(state, modify("prompt", "replace", written), view=view)
    written = [{**view["items"][0], "parts": [part("m-1-1", "another")]}]
    settled = after(state, modify("prompt", "replace", written), view=view)
    assert settled.event["items"] == written
    assert settled.permission is Permission.NONE


# --- what the next interceptor is told ------------------------------------------------------------


def test_params_state_reports_everything() -> None:
    """R-CAP-04, R-SET-02: permission, candidate, flow, instructions and injections; no messages."""
    more = inject(message("i-1", "more"), deliver_at="next_turn")
    grant = Grant.whole("tool.after", max_continuations=2)
    state = State(event_of("tool.after"), remaining=2)
    settled = after(state, note("hi"), more, go_on("again"), grant=grant)
    assert settled.advertised() == {
        "permission": "none",
        "candidate": None,
        "flow": "continue",
        "instructions": ["again"],
        "injections": [more],
    }
    assert before(candidate=CANDIDATE, permission=Permission.ASK).advertised() == {
        "permission": "ask",
        "candidate": {"value": "earlier", "provenance": {"from": "cache"}},
    }


def test_a_seed_of_the_host_is_the_first_state() -> None:
    """R-CAP-05: what the host brings along is told as it is, and what it leaves out is absent."""
    seed = HostState("allow", Candidate(None), "continue", ["a"], [inject()])
    wire = seed.to_json()
    state = State.begin(event_of("tool.after"), wire, 2)
    assert state.advertised() == wire
    assert HostState().to_json() == {"permission": "none", "candidate": None}
    assert HostState(instructions=()).to_json()["instructions"] == []


def test_very_many_effects_settle_in_linear_time() -> None:
    """A long list is no quadratic work: ten times the effects take about ten times as long."""

    def seconds(count: int) -> float:
        effects = tuple(note(str(number)) for number in range(count))
        state = before()
        shown = Shown(state.event, Grant.whole("tool.before").to_json("tool.before"))
        began = time.perf_counter()
        settled = settle(state, effects, shown)
        taken = time.perf_counter() - began
        assert len(settled.messages) == count
        return taken

    small = min(seconds(10_000) for _ in range(5))
    assert min(seconds(100_000) for _ in range(3)) < 60 * small + 0.05
