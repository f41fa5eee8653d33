"""The documents of capabilities and manifests: what a host says it can do, by the event table."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from ahp_sync import Capabilities
from ahp_sync.grants import Elicitation, Flow, Grant, Inject, Modify
from ahp_sync.protocol.events import EVENTS
from ahp_sync.protocol.schemas import SCHEMAS
from ahp_sync.protocol.validation import capabilities_problem, manifest_problem

INTERCEPTED = [name for name, event in EVENTS.items() if event.interceptable]
EFFECTS = ("deny", "allow", "ask", "modify", "return", "message", "inject", "flow")


def block(name: str, event_type: str) -> dict[str, Any]:
    """Return the details that go with an effect, where there are any."""
    target = EVENTS[event_type].target
    return {
        "modify": {"modify": {target.name if target else "x": Modify().to_json()}},
        "flow": {"flow": Flow().to_json()},
        "inject": {"inject": Inject().to_json()},
    }.get(name, {})


# --- capabilities ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", INTERCEPTED)
def test_everything_that_can_be_granted_is_valid(name: str) -> None:
    """The whole grant, nothing at all, and the grants between them (R-CAP-01)."""
    event = EVENTS[name]
    plain = [one for one in (*event.effects, "message") if not block(one, name)]
    modify = [None, Modify(merge=False), Modify(replace=False)] if event.target else [None]
    flow = [None, *(Flow((one,), 2) for one in event.flow)]
    inject = [None, Inject(("now",))] if "inject" in event.effects else [None]
    elicitation = [None, Elicitation(form=False), Elicitation(url=True)]
    grants = [Grant.whole(name)] + [
        Grant(tuple(effects), *blocks)
        for effects, *blocks in product([plain, []], modify, flow, inject, elicitation)
    ]
    for grant in grants:
        assert capabilities_problem(name, grant.to_json(name)) is None, grant


@pytest.mark.parametrize(("name", "effect"), [*product(INTERCEPTED, EFFECTS)])
def test_only_the_effects_of_the_event_can_be_granted(name: str, effect: str) -> None:
    """With all their details; an effect that the event can't have is refused with them, too."""
    problem = capabilities_problem(name, {"effects": [effect], **block(effect, name)})
    allowed = effect in EVENTS[name].effects or effect == "message"
    assert (problem is None) is allowed
    if problem is not None:
        assert problem.path in ("$.effects[0]", f"$.{effect}")


@pytest.mark.parametrize(("name", "effect"), [*product(INTERCEPTED, ["modify", "flow", "inject"])])
def test_details_and_effect_go_together(name: str, effect: str) -> None:
    """Neither is there without the other."""
    assert capabilities_problem(name, {"effects": [effect]}) is not None
    assert capabilities_problem(name, {"effects": [], **block(effect, name)}) is not None


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"effects": ["modify", "modify"]}, "$.effects"),
        ({"effects": ["modify", "flow", "inject", "com.example.x"]}, "$.effects[3]"),
        ({"modify": {}}, "$.modify"),
        ({"modify": {"input": Modify().to_json()}}, "$.modify"),
        ({"modify": {"output": {"replace": False, "merge": False}}}, "$.modify.output.merge"),
        ({"modify": {"output": {"replace": True}}}, "$.modify.output"),
        ({"modify": {"output": {"replace": 1, "merge": True}}}, "$.modify.output.replace"),
        ({"flow": {"operations": []}}, "$.flow.operations"),
        ({"flow": {"operations": ["pause"]}}, "$.flow.operations[0]"),
        ({"flow": {"operations": ["continue"]}}, "$.flow"),
        ({"flow": {"operations": ["stop"], "maxContinuations": -1}}, "$.flow.maxContinuations"),
        ({"inject": {"context": {"append": True, "deliverAt": []}}}, "$.inject.context.deliverAt"),
        (
            {"inject": {"context": {"append": False, "deliverAt": ["now"]}}},
            "$.inject.context.append",
        ),
        ({"elicitation": {"form": True}}, "$.elicitation.form"),
    ],
)
def test_details_that_are_wrong_are_named(change: dict[str, Any], path: str) -> None:
    """Here those of ``tool.after``, which has all of them (section 7)."""
    good = Grant.whole("tool.after").to_json("tool.after")
    assert capabilities_problem("tool.after", good) is None
    problem = capabilities_problem("tool.after", {**good, **change})
    assert problem is not None
    assert problem.path == path


def test_what_is_not_known_is_left_alone() -> None:
    """Members that a later version may have do no harm (R-UNK-01)."""
    whole = Grant.whole("tool.before").to_json("tool.before")
    assert capabilities_problem("tool.before", {**whole, "later": {"x": 1}}) is None


def test_there_are_no_capabilities_for_what_is_only_observed() -> None:
    """Nothing is granted there, so nothing is asked."""
    with pytest.raises(KeyError):
        capabilities_problem("turn.end", {"effects": []})


# --- manifests ------------------------------------------------------------------------------------

WHOLE = Capabilities(intercept={name: Grant.whole(name) for name in INTERCEPTED}).manifest()


@pytest.mark.parametrize("manifest", [Capabilities().manifest(), WHOLE])
def test_a_manifest_of_ours_is_valid(manifest: dict[str, Any]) -> None:
    """From the default to everything (R-CAP-06)."""
    assert manifest_problem(manifest) is None


def entry(name: str, *modes: str, **more: Any) -> dict[str, Any]:
    """Return a manifest with this one event."""
    return {**WHOLE, "events": [{"event": name, "modes": list(modes), **more}]}


@pytest.mark.parametrize("name", EVENTS)
def test_an_entry_has_the_capabilities_of_its_event(name: str) -> None:
    """An event that is only observed grants nothing, here or by its nature."""
    assert manifest_problem(entry(name, "observe")) is None
    assert manifest_problem(entry(name, "observe", capabilities={"effects": []})) is None
    message = {"effects": ["message"]}
    problem = manifest_problem(entry(name, "observe", capabilities=message))
    assert problem is not None
    assert problem.path == "$.events[0].capabilities.effects"
    intercept = entry(name, "intercept", capabilities=message)
    assert (manifest_problem(intercept) is None) is EVENTS[name].interceptable
    assert manifest_problem(entry(name, "intercept")) is not None


@pytest.mark.parametrize("name", INTERCEPTED)
def test_an_entry_is_held_to_its_own_event(name: str) -> None:
    """What one event may grant says nothing of another."""
    for other in INTERCEPTED:
        granted = Grant.whole(other).to_json(other)
        valid = manifest_problem(entry(name, "intercept", capabilities=granted)) is None
        assert valid is (capabilities_problem(name, granted) is None)


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"identity": None}, "$.identity"),
        ({"events": [{"event": "tool.befor", "modes": ["observe"]}]}, "$.events[0].event"),
        ({"events": [{"event": "tool.before", "modes": []}]}, "$.events[0].modes"),
        ({"transports": ["websocket"]}, "$.transports[0]"),
        ({"limits": {"maxTimeoutMs": 0.5}}, "$.limits.maxTimeoutMs"),
        (
            {"managedPolicy": {"scopes": ["managed"], "disableable": True}},
            "$.managedPolicy.disableable",
        ),
        ({"toolPaths": ["native", "native"]}, "$.toolPaths"),
    ],
)
def test_what_is_wrong_with_a_manifest_is_named(change: dict[str, Any], path: str) -> None:
    """With the place, also inside the list of events."""
    problem = manifest_problem({**WHOLE, **change})
    assert problem is not None
    assert problem.path == path


@pytest.mark.parametrize("name", sorted(WHOLE))
def test_a_manifest_is_complete(name: str) -> None:
    """All of its members are required (R-CAP-06)."""
    problem = manifest_problem({member: one for member, one in WHOLE.items() if member != name})
    assert problem is not None
    assert problem.wanted == f"with the missing {name}"


def test_the_manifest_of_a_session_is_held_to_the_same() -> None:
    """``session.start`` brings it along."""
    schema = SCHEMAS["event:session.start"]
    assert schema["properties"]["manifest"] is SCHEMAS["manifest"]
