"""Settlement: pure, atomic, and deny beats the rest (section 9 of the wire reference)."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ahp_sync.settlement import Permission, State, settle

EVENT: dict[str, Any] = {"id": "e", "tool": {"input": {"a": 1}}}
DENIALS = st.lists(
    st.fixed_dictionaries(
        {"type": st.just("deny"), "reason": st.text(min_size=1, max_size=5)},
        optional={"code": st.sampled_from(["a.b", "c.d"])},
    ),
    max_size=4,
).map(tuple)


def test_nothing_changes_without_effects() -> None:
    """A neutral answer leaves the very state, which is no approval (R-ROLE-01)."""
    state = State(EVENT)
    assert settle(state, ()) is state
    assert state.permission is Permission.NONE
    assert not state.ended


@given(st.lists(DENIALS, max_size=4))
def test_the_first_denial_counts(responses: list[tuple[dict[str, Any], ...]]) -> None:
    """Over all responses the first denial gives reason and code, and ends the chain (R-SET-08)."""
    state = State(EVENT)
    for effects in responses:
        state = settle(state, effects)
    denials = [effect for effects in responses for effect in effects]
    assert state.ended == bool(denials)
    if denials:
        first = denials[0]
        assert (state.reason, state.code) == (first["reason"], first.get("code"))
        assert state.permission is Permission.DENY
    else:
        assert (state.reason, state.code) == (None, None)


@given(DENIALS)
def test_settling_is_pure(effects: tuple[dict[str, Any], ...]) -> None:
    """Neither the state before nor the effects nor the event are changed (R-SET-03)."""
    state, before, given_ = State(EVENT), copy.deepcopy(EVENT), copy.deepcopy(effects)
    settled = settle(state, effects)
    assert (state, effects) == (State(before), given_)
    assert settled.event is EVENT
    assert settled == settle(state, effects)


def test_a_state_is_frozen() -> None:
    """It is replaced as a whole, never changed."""
    with pytest.raises(AttributeError):
        State(EVENT).reason = "x"  # type: ignore[misc]


def test_what_the_next_interceptor_is_told() -> None:
    """``params.state`` reports the accumulated permission (R-CAP-04)."""
    assert State(EVENT).advertised() == {"permission": "none", "candidate": None}
    denied = settle(State(EVENT), ({"type": "deny", "reason": "no"},))
    assert denied.advertised() == {"permission": "deny", "candidate": None}
