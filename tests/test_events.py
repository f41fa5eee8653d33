"""The event table, and how a subscription's selectors choose from it (R-REG-01, R-REG-02)."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ahp_sync import Capabilities, Grant
from ahp_sync.protocol.events import EVENTS, EventType, Mode, Shape, expand, named

FAMILIES = [
    *("config", "context", "file", "hook", "model", "session"),
    *("task", "tool", "turn", "user", "workspace"),
]
#: What the wire reference's table has for each event that can be intercepted (section 4).
EFFECTS: dict[str, str] = {
    "session.start": "inject",
    "config.change.before": "deny",
    "turn.start": "deny modify(prompt) stop inject",
    "turn.finish.before": "modify(response) stop continue",
    "model.request.before": "deny modify(request) return stop inject",
    "model.response.after": "modify(response) stop",
    "model.switch.before": "deny stop",
    "tool.before": "deny allow ask modify(input) return stop inject",
    "tool.after": "modify(output) stop continue inject",
    "tool.permission.request": "deny allow modify(input) stop",
    "tool.batch.after": "stop inject",
    "context.compact.before": "deny modify(instructions) return inject",
    "context.compact.after": "modify(summary) inject",
    "task.change.before": "deny",
    "user.elicitation.request": "deny return",
    "user.elicitation.result": "modify(content)",
    "user.message.inbound": "deny modify(prompt)",
    "user.message.outbound": "deny modify(content)",
    "workspace.change.before": "deny modify(workspace)",
}


def everything(event: EventType) -> bool:
    """Supports what the protocol lets be observed."""
    return True


def interceptable(event: EventType) -> bool:
    return event.interceptable


def test_the_table_is_complete() -> None:
    """All 32 events of the protocol are there, 19 of them interceptable (protocol.md section 4)."""
    assert len(EVENTS) == 32
    assert [event.name for event in EVENTS.values() if event.interceptable] == list(EFFECTS)
    assert sorted({event.family for event in EVENTS.values()}) == FAMILIES
    assert all(event.name == name for name, event in EVENTS.items())


def test_the_table_is_read_only() -> None:
    """Nobody changes the table at run time, nor an entry of it."""
    with pytest.raises(TypeError):
        EVENTS["tool.before"] = EventType("tool.before")  # type: ignore[index]
    with pytest.raises(dataclasses.FrozenInstanceError):
        EVENTS["tool.before"].effects = ()  # type: ignore[misc]


@pytest.mark.parametrize("name", EVENTS)
def test_an_event_has_the_effects_of_the_table(name: str) -> None:
    """R-EFF-01: one by one, with target and flow operations."""
    event = EVENTS[name]
    words = []
    for effect in event.effects:
        if effect == "modify":
            assert event.target is not None
            words.append(f"modify({event.target.name})")
        elif effect == "flow":
            words += event.flow
        else:
            words.append(effect)
    assert " ".join(words) == EFFECTS.get(name, "")
    assert ("modify" in event.effects) is (event.target is not None)
    assert ("flow" in event.effects) is bool(event.flow)
    assert ("return" in event.effects) is (event.returns is not None)


def test_results_have_their_shapes() -> None:
    """R-PAY-01."""
    shapes = {name: event.returns for name, event in EVENTS.items() if event.returns is not None}
    assert shapes == {
        "tool.before": Shape.JSON,
        "model.request.before": Shape.MESSAGES,
        "context.compact.before": Shape.TEXT,
        "user.elicitation.request": Shape.ELICITATION,
    }


INTERCEPTED_TOOLS = {"tool.before", "tool.after", "tool.permission.request", "tool.batch.after"}
TOOLS = {*INTERCEPTED_TOOLS, "tool.permission.resolved", "tool.progress"}


@pytest.mark.parametrize(
    ("selectors", "observed", "intercepted"),
    [
        (["tool.before"], {"tool.before"}, {"tool.before"}),
        # D-13: a wildcard is narrowed to what the mode supports, never refused for the rest.
        (["tool.*"], TOOLS, INTERCEPTED_TOOLS),
        (["*"], set(EVENTS), set(EFFECTS)),
        (["session.*"], {"session.start", "session.end"}, {"session.start"}),
        (
            ["turn.*"],
            {"turn.start", "turn.finish.before", "turn.end", "turn.progress"},
            {"turn.start", "turn.finish.before"},
        ),
        (["task.*"], {"task.change.before", "task.change.after"}, {"task.change.before"}),
        (["file.*", "hook.*"], {"file.changed", "hook.failure"}, set()),
        # R-REG-03: several selectors of one event choose it once.
        (["*", "tool.*", "tool.before"], set(EVENTS), set(EFFECTS)),
        (["turn.end"], {"turn.end"}, set()),
        (["unknown.*", "tool.befor", ""], set(), set()),
        ([], set(), set()),
    ],
)
def test_expansion(selectors: list[str], observed: set[str], intercepted: set[str]) -> None:
    """Selectors expand to the supported events that they name, each once (section 11)."""
    assert expand(selectors, everything) == observed
    assert expand(selectors, interceptable) == intercepted


@pytest.mark.parametrize(
    "selector",
    [
        *("unknown.*", "tool.befor", "user.elicitation.*", "Tool.*", "*.before", "tool.*\n", ""),
        *("tool", "tool.", ".*", "**", "* ", "tool.*.*", "tool.be*", "TOOL.BEFORE", " *"),
    ],
)
def test_what_is_no_selector_names_nothing(selector: str) -> None:
    """R-REG-01: partial, nested and suffix patterns are none."""
    assert named(selector) == ()


@given(st.text(max_size=12) | st.sampled_from(["*", "tool.*", "tool.before"]))
def test_a_selector_names_its_own(selector: str) -> None:
    """Whatever is named belongs to it: everything, the family, or the one event."""
    for event in named(selector):
        assert selector in ("*", f"{event.family}.*", event.name)


@pytest.mark.parametrize("mode", list(Mode))
def test_a_host_supports_what_it_declares(mode: Mode) -> None:
    """R-REG-02: a wildcard chooses among those, in the mode that is asked for."""
    declared = Capabilities({"turn.start": Grant()}, ("turn.end",))

    def supported(event: EventType) -> bool:
        return declared.supports(event, mode)

    chosen: dict[Mode, Any] = {
        Mode.INTERCEPT: {"turn.start"},
        Mode.OBSERVE: {"turn.start", "turn.end"},
    }
    assert expand(["*"], supported) == chosen[mode]
    assert expand(["tool.*"], supported) == set()
