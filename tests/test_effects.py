"""The admission of an answer: whole or not at all (section 8 of the wire reference)."""

from __future__ import annotations

from typing import Any, Optional

import pytest
from answering import (
    ALLOW,
    ASK,
    INTERCEPTED,
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
from strategies import JSON, near

from ahp_sync import Flow, Grant, Inject, Modify
from ahp_sync.budget import Budget, BudgetEnded
from ahp_sync.failure import FailureClass, OperationalFailure
from ahp_sync.protocol.effects import EFFECTS, admitted_effects
from ahp_sync.protocol.events import EVENTS

DENY: dict[str, Any] = {"type": "deny", "reason": "no"}
DENIES = Grant(("deny",))
ADVERTISED = DENIES.to_json("tool.before")


def admitted(*effects: Any, **members: Any) -> Any:
    """Return what is admitted of a result with these effects."""
    result = {"protocolVersion": "draft", "effects": list(effects), **members}
    return admitted_effects(result, "tool.before", ADVERTISED)


def refusal(
    result: Any, event_type: str = "tool.before", grant: Grant = DENIES
) -> tuple[FailureClass, str]:
    """Return class and code of the refusal of a result."""
    with pytest.raises(OperationalFailure) as raised:
        admitted_effects(result, event_type, grant.to_json(event_type))
    assert not raised.value.retryable
    return raised.value.failure_class, raised.value.code


def code(effect: Any, event_type: str, grant: Optional[Grant] = None) -> str:
    """Return "" for an effect that is admitted, and the code of its refusal for another.

    By default everything is granted that there is.
    """
    result = {"protocolVersion": "draft", "effects": [effect]}
    block = (grant or Grant.whole(event_type)).to_json(event_type)
    try:
        assert admitted_effects(result, event_type, block) == (effect,)
    except OperationalFailure as failure:
        assert failure.failure_class is FailureClass.EFFECTS
        return failure.code
    return ""


def test_a_neutral_answer_has_no_effects() -> None:
    """Absent and empty ``effects`` are the same (R-RPC-04)."""
    assert admitted() == ()
    assert admitted_effects({"protocolVersion": "draft"}, "tool.before", ADVERTISED) == ()


@pytest.mark.parametrize(
    "effect",
    [
        DENY,
        {**DENY, "code": "com.example.no"},
        {**DENY, "extensions": {"com.example.x": None, "a.b-c_d.e1": [1]}},
        {**DENY, "reason": "\n"},
        {**DENY, "reason": "é" * 10_000},
    ],
)
def test_a_denial_is_admitted(effect: dict[str, Any]) -> None:
    """With any non-empty reason, a code and extensions (section 6)."""
    assert admitted(effect) == (effect,)


def test_the_order_is_kept() -> None:
    """Several denials are no conflict (R-ADM-03)."""
    effects = [{**DENY, "reason": str(number)} for number in range(100)]
    assert admitted(*effects) == tuple(effects)


def test_unknown_members_of_the_result_are_ignored() -> None:
    """But only there (R-UNK-01)."""
    assert admitted(DENY, whatever={"x": 1}, extensions={"com.example.x": 1}) == (DENY,)


EFFECT, MALFORMED = FailureClass.EFFECTS, FailureClass.MALFORMED


@pytest.mark.parametrize(
    ("members", "failure_class", "code"),
    [
        ({"protocolVersion": "0.1"}, FailureClass.UNSUPPORTED, "protocol_version"),
        ({"protocolVersion": "Draft"}, FailureClass.UNSUPPORTED, "protocol_version"),
        ({"protocolVersion": "draft\n"}, FailureClass.UNSUPPORTED, "protocol_version"),
        ({"protocolVersion": None}, FailureClass.UNSUPPORTED, "protocol_version"),
        ({"protocolVersion": ["draft"]}, FailureClass.UNSUPPORTED, "protocol_version"),
        ({"effects": None}, EFFECT, "effects_not_a_list"),
        ({"effects": {}}, EFFECT, "effects_not_a_list"),
        ({"effects": DENY}, EFFECT, "effects_not_a_list"),
        ({"effects": "deny"}, EFFECT, "effects_not_a_list"),
        ({"manifest": {}}, EFFECT, "conflicting_members"),
        ({"configuration": None}, EFFECT, "conflicting_members"),
        ({"extensions": {"nodots": 1}}, MALFORMED, "bad_extensions"),
        ({"extensions": []}, MALFORMED, "bad_extensions"),
        ({"extensions": None}, MALFORMED, "bad_extensions"),
        ({"extensions": {"com.example.x\n": 1}}, MALFORMED, "bad_extensions"),
    ],
)
def test_each_fault_of_a_result_has_its_class(
    members: dict[str, Any], failure_class: FailureClass, code: str
) -> None:
    """Nothing of the answer is kept, not even the valid denial in it (R-ADM-01)."""
    result = {"protocolVersion": "draft", "effects": [DENY], **members}
    assert refusal(result) == (failure_class, code)


def test_a_result_without_a_version_misses_a_required_field() -> None:
    """R-VER-01, and the class of its own that the failure semantics have for it."""
    assert refusal({"effects": [DENY]}) == (FailureClass.MISSING_RESULT, "no_protocol_version")


@pytest.mark.parametrize(
    ("effect", "code"),
    [
        (None, "malformed_effect"),
        ("deny", "malformed_effect"),
        ([DENY], "malformed_effect"),
        ({}, "malformed_effect"),
        ({"reason": "no"}, "malformed_effect"),
        ({"type": None, "reason": "no"}, "malformed_effect"),
        ({"type": ["deny"], "reason": "no"}, "malformed_effect"),
        ({"type": "Deny", "reason": "no"}, "unknown_effect"),
        ({"type": "deny ", "reason": "no"}, "unknown_effect"),
        ({"type": "retry"}, "unknown_effect"),
        ({"type": "com.example.vendor"}, "unknown_effect"),
        ({"type": ""}, "unknown_effect"),
        *(({"type": name}, "unadvertised_effect") for name in sorted(set(EFFECTS) - {"deny"})),
        ({"type": "deny"}, "malformed_effect"),
        ({**DENY, "reason": ""}, "malformed_effect"),
        ({**DENY, "reason": None}, "malformed_effect"),
        ({**DENY, "reason": 1}, "malformed_effect"),
        ({**DENY, "severity": "high"}, "malformed_effect"),
        ({**DENY, "text": "x"}, "malformed_effect"),
        ({**DENY, "code": "nodots"}, "malformed_effect"),
        ({**DENY, "code": "com.example.no\n"}, "malformed_effect"),
        ({**DENY, "code": ""}, "malformed_effect"),
        ({**DENY, "code": None}, "malformed_effect"),
        ({**DENY, "extensions": {"x": 1}}, "malformed_effect"),
        ({**DENY, "extensions": None}, "malformed_effect"),
    ],
)
def test_one_bad_effect_refuses_all(effect: Any, code: str) -> None:
    """Wherever it stands, and whatever good effects stand beside it (R-ADM-01, R-UNK-02)."""
    for effects in ([effect], [DENY, effect], [effect, DENY], [DENY] * 70 + [effect]):
        result = {"protocolVersion": "draft", "effects": effects}
        assert refusal(result) == (FailureClass.EFFECTS, code)


def test_a_denial_that_was_not_offered_is_refused() -> None:
    """What is admitted depends on the request (R-CAP-01)."""
    result = {"protocolVersion": "draft", "effects": [DENY]}
    refused = refusal(result, grant=Grant(("message",)))
    assert refused == (FailureClass.EFFECTS, "unadvertised_effect")


def test_the_detail_says_where_and_quotes_nothing() -> None:
    """An operator finds the effect; the backend's own words stay out of it (R-FAIL-04)."""
    result = {
        "protocolVersion": "draft",
        "effects": [DENY, {**DENY, "code": "a secret", "x": "another secret"}],
    }
    with pytest.raises(OperationalFailure) as raised:
        admitted_effects(result, "tool.before", ADVERTISED)
    assert "effects[1]" in raised.value.detail
    assert "secret" not in str(raised.value)


def test_a_long_list_is_given_up_when_time_is_over() -> None:
    """The check is asked now and then, so that a hostile list holds nobody past the deadline."""
    budget = Budget(10)
    budget.cancel()
    result = {"protocolVersion": "draft", "effects": [DENY] * 20_000}
    with pytest.raises(BudgetEnded):
        admitted_effects(result, "tool.before", ADVERTISED, budget.check)


@pytest.mark.parametrize("kind", ["modify", "return", "inject"])
def test_a_long_value_is_given_up_when_time_is_over(kind: str) -> None:
    """Likewise the many messages, or the many parts of one message, of one single effect."""
    many = [message(f"m{i}", "x") for i in range(1000)]
    one = [{**message("m"), "parts": [part(f"p{i}", "x") for i in range(1000)]}]
    for value in (many, one):
        effects = {
            "modify": modify("request", "merge", value),
            "return": returning(value),
            "inject": inject(*value),
        }
        result = {"protocolVersion": "draft", "effects": [effects[kind]]}
        budget, looks = Budget(10), []

        def check(looks: list[None] = looks, budget: Budget = budget) -> None:
            looks.append(None)
            if len(looks) == 5:
                budget.cancel()
            budget.check()

        granted = Grant.whole("model.request.before").to_json("model.request.before")
        with pytest.raises(BudgetEnded):
            admitted_effects(result, "model.request.before", granted, check)
        assert len(looks) == 5


# --- what each event may be answered with (section 4) --------------------------------------------

#: One good effect of each kind, by what an event has to have for it.
EVERYWHERE = note("")
PLAIN = {"deny": DENY, "allow": ALLOW, "ask": ASK, "inject": inject(message("i", "x"))}
FLOWS = {"stop": stop(), "continue": go_on("more")}
VALUES: dict[str, Any] = {
    "object": {"a": None},
    "workspace": {"cwd": "/srv"},
    "messages": [message("m-9", "x")],
    "text": [part("p-9", "x")],
    "answers": {"name": "Ada", "tags": ["a"], "n": 1.5, "yes": False},
    "json": None,
    "elicitation": {"action": "decline"},
}


@pytest.mark.parametrize("event_type", INTERCEPTED)
def test_an_event_has_its_own_effects_and_no_others(event_type: str) -> None:
    """R-EFF-01, R-CAP-01: with everything granted, each effect is admitted where it has a place."""
    event = EVENTS[event_type]
    assert code(EVERYWHERE, event_type) == ""
    for name, effect in PLAIN.items():
        assert (code(effect, event_type) == "") is (name in event.effects), name
    for operation, effect in FLOWS.items():
        assert (code(effect, event_type) == "") is (operation in event.flow), operation
    value = returning(VALUES[event.returns or "json"])
    assert (code(value, event_type) == "") is (event.returns is not None)
    mine = event.target and (event.target.name, event.target.shape)
    for other in EVENTS.values():
        if other.target is not None:
            its = (other.target.name, other.target.shape)
            for operation in ("replace", "merge"):
                value = modify(other.target.name, operation, VALUES[other.target.shape])
                assert (code(value, event_type) == "") is (mine == its), its


@pytest.mark.parametrize(
    ("effect", "wanted"),
    [
        ({**ALLOW, "reason": "fine"}, "malformed_effect"),
        ({**ASK, "reason": "?"}, "malformed_effect"),
        ({"type": "message"}, "malformed_effect"),
        ({**note("x"), "text": None}, "malformed_effect"),
        ({**note("x"), "role": "user"}, "malformed_effect"),
        ({"type": "return"}, "malformed_effect"),
        ({**returning(1), "provenance": {}}, "malformed_effect"),
        ({**stop(), "reason": ""}, "malformed_effect"),
        ({"type": "flow", "operation": "stop"}, "malformed_effect"),
        ({**stop(), "instruction": "x"}, "malformed_effect"),
        ({"type": "flow", "operation": "pause"}, "malformed_effect"),
        ({"type": "flow"}, "malformed_effect"),
        ({**inject(), "target": "prompt"}, "malformed_effect"),
        ({**inject(), "operation": "replace"}, "malformed_effect"),
        ({**inject(), "deliverAt": "later"}, "malformed_effect"),
        ({**inject(), "value": {}}, "malformed_effect"),
        ({**inject(), "value": [{"id": "m"}]}, "malformed_effect"),
        (modify("input", "patch", {}), "malformed_effect"),
        (modify("input", "replace", []), "malformed_effect"),
        (modify("input", "replace", None), "malformed_effect"),
        ({**modify("input", "merge", {}), "path": "a"}, "malformed_effect"),
        ({"type": "modify", "target": "input", "operation": "merge"}, "malformed_effect"),
        (modify("output", "replace", {}), "unadvertised_effect"),
        (modify("arguments", "replace", {}), "unknown_effect"),
        (modify("", "replace", {}), "unknown_effect"),
        ({"type": "modify", "operation": "replace", "value": {}}, "unknown_effect"),
        ({**modify("input", "merge", {}), "target": None}, "unknown_effect"),
        ({**modify("input", "merge", {}), "target": ["input"]}, "unknown_effect"),
    ],
)
def test_each_fault_of_an_effect_refuses_it(effect: Any, wanted: str) -> None:
    """R-UNK-02, R-EFF-01: every effect is closed, and what is unknown is not ignored."""
    assert code(effect, "tool.before") == wanted


@pytest.mark.parametrize(
    ("event_type", "value"),
    [
        ("model.request.before", None),
        ("model.request.before", [{"role": "user"}]),
        ("model.request.before", message("m", "x")),
        ("context.compact.before", "text"),
        ("context.compact.before", [message("m", "x")]),
        ("context.compact.before", [{**part("p", "x"), "selection": "metadata"}]),
        ("user.elicitation.request", None),
        ("user.elicitation.request", {"action": "agree"}),
        ("user.elicitation.request", {"content": {}}),
    ],
)
def test_a_result_of_a_wrong_shape_is_refused(event_type: str, value: Any) -> None:
    """R-PAY-01, R-PAY-02: each boundary has its own form of a result."""
    assert code(returning(value), event_type) == "malformed_effect"


@pytest.mark.parametrize("value", [None, False, 0, "", [], {}, {"a": [None]}])
def test_any_json_is_the_result_of_a_tool(value: Any) -> None:
    """R-PAY-01, T-07: null, too."""
    assert code(returning(value), "tool.before") == ""


def test_a_model_may_say_nothing() -> None:
    """R-PAY-01: an empty list of messages is a result; so is an answer that declines."""
    assert code(returning([]), "model.request.before") == ""
    assert code(returning({"action": "cancel"}), "user.elicitation.request") == ""


@pytest.mark.parametrize(
    ("effect", "grant", "admitted_"),
    [
        (modify("input", "replace", {}), Grant(modify=Modify(merge=False)), True),
        (modify("input", "merge", {}), Grant(modify=Modify(merge=False)), False),
        (modify("input", "merge", {}), Grant(modify=Modify(replace=False)), True),
        (modify("input", "replace", {}), Grant(modify=Modify(replace=False)), False),
        (modify("input", "replace", {}), Grant(("deny",)), False),
        (inject(), Grant(inject=Inject(("now",))), True),
        (inject(deliver_at="next_turn"), Grant(inject=Inject(("now",))), False),
        (inject(), Grant(("message",)), False),
        (stop(), Grant(("message",)), False),
        (stop(), Grant(flow=Flow(("stop",))), True),
    ],
)
def test_no_more_than_what_was_granted_in_detail(
    effect: Any, grant: Grant, admitted_: bool
) -> None:
    """R-CAP-01: being on the list of effects is not enough; what was not offered is refused."""
    assert code(effect, "tool.before", grant) == ("" if admitted_ else "unadvertised_effect")


@pytest.mark.parametrize(
    ("operations", "left", "effect", "admitted_"),
    [
        (("stop", "continue"), 1, go_on(), True),
        (("stop", "continue"), 0, go_on(), False),
        (("stop", "continue"), 0, stop(), True),
        (("continue",), 1, stop(), False),
        (("stop",), None, go_on(), False),
    ],
)
def test_a_turn_is_continued_as_often_as_there_is_allowance(
    operations: Any, left: Optional[int], effect: Any, admitted_: bool
) -> None:
    """R-CAP-03: at 0 a ``continue`` is not offered any more; ``stop`` is a matter of its own."""
    grant = Grant(flow=Flow(operations, remaining_continuations=left))
    wanted = "" if admitted_ else "unadvertised_effect"
    assert code(effect, "turn.finish.before", grant) == wanted


def test_instructions_may_be_left_out_but_not_empty() -> None:
    """Section 6."""
    assert code(go_on(), "turn.finish.before") == ""
    assert code(go_on(""), "turn.finish.before") == "malformed_effect"
    assert code({**go_on("x"), "reason": "y"}, "turn.finish.before") == "malformed_effect"


@pytest.mark.parametrize("event_type", INTERCEPTED)
def test_vendor_effects_are_unknown(event_type: str) -> None:
    """D-05: a reverse-DNS type is no effect of the draft, whatever was granted."""
    assert code({"type": "com.example.effect", "value": 1}, event_type) == "unknown_effect"


# --- whatever comes -------------------------------------------------------------------------------

GOOD = {
    "tool.before": [
        {**DENY, "code": "a.b", "extensions": {"c.d": 1}},
        ALLOW,
        modify("input", "merge", {"a": 1}),
        returning({"x": [1]}),
        inject(message("m-9", "x", part("p-9", "y"))),
        stop(),
    ],
    "turn.finish.before": [
        note("hi"),
        go_on("more"),
        modify("response", "replace", [message("m-9", "x", role="assistant")]),
    ],
    "user.elicitation.request": [returning({"action": "accept", "content": {"name": "Ada"}})],
}


@given(st.sampled_from(sorted(GOOD)), st.data())
def test_any_result_is_admitted_or_an_operational_failure(
    event_type: str, data: st.DataObject
) -> None:
    """Nothing in a JSON object makes the admission raise anything else."""
    good = {
        "protocolVersion": "draft",
        "effects": GOOD[event_type],
        "extensions": {"e.f": {}},
    }
    result = data.draw(st.composite(near)(good) | st.dictionaries(st.text(), JSON))
    if not isinstance(result, dict):
        return
    block = Grant.whole(event_type).to_json(event_type)
    try:
        for effect in admitted_effects(result, event_type, block):
            assert effect["type"] in EFFECTS
            assert set(effect) <= MEMBERS
    except OperationalFailure:
        pass


MEMBERS = {
    *("type", "reason", "code", "extensions", "target", "operation", "value", "text"),
    *("deliverAt", "instruction"),
}
