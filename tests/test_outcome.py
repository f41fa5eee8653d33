"""What a hook call tells the host."""

from __future__ import annotations

import dataclasses
import pickle

import pytest

from ahp_sync import Candidate, Decision, Failure, FailureClass, FailurePolicy, Outcome

EVENT = {"id": "e-1", "type": "tool.before", "tool": {"name": "Bash", "input": {"command": "ls"}}}


@pytest.mark.parametrize("decision", list(Decision), ids=str)
def test_only_one_decision_is_permission(decision: Decision) -> None:
    """R-DL-03: whatever else there is, the operation does not run by itself."""
    assert Outcome(decision, EVENT).may_execute is (decision is Decision.PROCEED)


@pytest.mark.parametrize("decision", list(Decision), ids=str)
def test_an_outcome_has_no_truth_value(decision: Decision) -> None:
    """``if outcome:`` would take a denial for a permission; the error says what to ask."""
    with pytest.raises(TypeError, match="may_execute"):
        bool(Outcome(decision, EVENT))


def test_the_input_is_the_effective_one() -> None:
    """What the tool is to run with, as settled."""
    assert Outcome(Decision.PROCEED, EVENT).input == {"command": "ls"}


def test_an_event_without_a_tool_has_no_input() -> None:
    """An AttributeError, so that ``hasattr`` tells, which names the event."""
    outcome = Outcome(Decision.PROCEED, {"id": "e-1", "type": "session.start"})
    assert not hasattr(outcome, "input")
    with pytest.raises(AttributeError, match=r"'session\.start' has no tool input"):
        _ = outcome.input


def test_an_outcome_does_not_change() -> None:
    """It is frozen."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        Outcome(Decision.DENY, EVENT).decision = Decision.PROCEED  # type: ignore[misc]


def test_by_default_nothing_happened() -> None:
    """A bare outcome has no failure, result, message or flag."""
    outcome = Outcome(Decision.PROCEED, EVENT)
    flags = (outcome.synthetic, outcome.failed_open, outcome.has_result)
    assert flags == (False, False, False)
    assert (outcome.reason, outcome.messages, outcome.instructions) == (None, (), ())
    assert (outcome.failures, outcome.injections, outcome.flow) == ((), (), "none")
    assert (outcome.permission, outcome.candidate) == ("none", None)
    assert outcome.denial is None
    assert outcome.remaining_continuations is None
    assert (outcome.typed_input, outcome.typed_result) == (None, None)


@pytest.mark.parametrize("decision", list(Decision), ids=str)
@pytest.mark.parametrize("value", [None, 0, {"a": [1]}])
def test_only_a_deliverable_candidate_is_a_result(decision: Decision, value: object) -> None:
    """R-SET-09, T-05: whatever else was accepted; and a result of None is one (T-07)."""
    outcome = Outcome(decision, EVENT, candidate=Candidate(value), permission="allow")
    assert outcome.candidate == Candidate(value)
    if decision is Decision.SUPPLIED:
        assert outcome.has_result
        assert outcome.result is value
    else:
        assert not outcome.has_result
        assert not hasattr(outcome, "result")
        with pytest.raises(AttributeError, match=f"ended in '{decision}' has no result"):
            _ = outcome.result


def test_decisions_are_their_words() -> None:
    """For logs and comparisons; the values are stable."""
    assert [str(decision) for decision in Decision] == [
        *("proceed", "deny", "ask", "supplied", "stop", "interrupted", "expired")
    ]
    assert Decision("deny") is Decision.DENY


def test_an_outcome_and_its_failures_can_be_pickled() -> None:
    """To cross a process border, as a result of a pool for example."""
    failure = Failure(
        backend="com.example.one",
        subscription=0,
        policy=FailurePolicy.FAIL_OPEN,
        failure_class=FailureClass.CONNECTION,
        code="connect_refused",
        detail="refused",
        attempts=3,
    )
    outcome = Outcome(
        Decision.PROCEED,
        EVENT,
        failures=(failure,),
        failed_open=True,
        candidate=Candidate(1, {"from": "cache"}),
        injections=({"type": "inject"},),
    )
    assert pickle.loads(pickle.dumps(outcome)) == outcome
    assert str(failure) == "com.example.one[0] connection/connect_refused: refused"
