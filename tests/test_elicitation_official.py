"""Elicitation as the official SDK has it, case by case, and where we differ on purpose."""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import pytest
from elicitations import (
    AGE,
    ASKED,
    DENY,
    URL_PARAMS,
    accepted,
    answers_to,
    form,
    form_params,
    forms,
    request_event,
    result_event,
    returning,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import near

from ahp_sync.errors import InvalidEvent
from ahp_sync.failure import OperationalFailure
from ahp_sync.protocol.effects import admitted_effects
from ahp_sync.protocol.elicitation import answered, check_event, check_pair, edited
from ahp_sync.protocol.equality import json_equal

FORM = {"form"}


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
def results(draw: st.DrawFn, schema: Mapping[str, Any]) -> Any:
    """Draw a result: mostly that of an accepted form, sometimes nearly one."""
    action = draw(st.sampled_from(["accept"] * 6 + ["decline", "cancel"]))
    result: dict[str, Any] = {"action": action}
    if draw(st.integers(0, 9)) < (9 if action == "accept" else 3):
        result["content"] = draw(answers_to(schema))
    if draw(st.booleans()):
        result["_meta"] = {}
    return near(draw, result) if draw(st.integers(0, 2)) == 0 else result


@settings(max_examples=150)
@given(st.data())
def test_answers_as_the_official_sdk_has_it(official: Any, data: st.DataObject) -> None:
    """Ours and the official SDK's verdict on an answer are one (R-ELI-03)."""
    module, validate = official
    mode = data.draw(st.sampled_from(["form"] * 5 + ["url"]))
    schema = data.draw(forms(formats=True))
    params = form_params(schema) if mode == "form" else URL_PARAMS
    result = data.draw(results(schema))
    view = request_event(params, mode)
    ours = accepts(lambda: answered(view, [returning(result)], {mode}))
    theirs = accepts(lambda: module.validate_answer(params, result, validate))
    assert ours == theirs


@settings(max_examples=150)
@given(st.data())
def test_bodies_as_the_official_sdk_has_it(official: Any, data: st.DataObject) -> None:
    """Ours and the official SDK's reading of a body are one (R-ELI-01, R-ELI-02)."""
    module, validate = official
    mode = data.draw(st.sampled_from(["form", "form", "url"]))
    schema = data.draw(forms(formats=True))
    if data.draw(st.booleans()):
        params = form_params(schema) if mode == "form" else URL_PARAMS
        event = request_event(near(data.draw, params), mode)
    else:
        event = result_event(data.draw(results(schema)), mode)
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


@settings(max_examples=40)
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
