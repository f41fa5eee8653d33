"""The event table, and how a subscription's selectors choose from it (R-REG-01, R-REG-02)."""

from __future__ import annotations

import pytest

from ahp_sync.protocol.events import EVENTS, EventType, Mode, expand, refusal, served, supports

FAMILIES = [
    *("config", "context", "file", "hook", "model", "session"),
    *("task", "tool", "turn", "user", "workspace"),
]


def test_the_table_is_complete() -> None:
    """All 32 events of the protocol are there, 19 of them interceptable (protocol.md section 4)."""
    assert len(EVENTS) == 32
    assert sum(event.interceptable for event in EVENTS.values()) == 19
    assert sorted({event.family for event in EVENTS.values()}) == FAMILIES
    assert all(event.name == name for name, event in EVENTS.items())


def test_the_table_is_read_only() -> None:
    """Nobody changes the table at run time."""
    with pytest.raises(TypeError):
        EVENTS["tool.before"] = EventType("tool.before")  # type: ignore[index]


def test_what_this_version_serves() -> None:
    """Four events are observed and one is intercepted, with ``deny``."""
    assert served(Mode.OBSERVE) == ("session.start", "session.end", "tool.before", "tool.after")
    assert served(Mode.INTERCEPT) == ("tool.before",)
    assert EVENTS["tool.before"].intercept_effects == ("deny",)


def test_only_interceptable_events_are_served_for_interception() -> None:
    """The table never serves what the protocol does not allow."""
    for event in EVENTS.values():
        assert event.interceptable or not supports(event, Mode.INTERCEPT)


@pytest.mark.parametrize(
    ("selectors", "mode", "chosen"),
    [
        (["tool.before"], Mode.INTERCEPT, {"tool.before"}),
        (["tool.before"], Mode.OBSERVE, {"tool.before"}),
        # D-13: a wildcard is narrowed to what the mode supports, never refused for the rest.
        (["tool.*"], Mode.INTERCEPT, {"tool.before"}),
        (["*"], Mode.INTERCEPT, {"tool.before"}),
        (["tool.*"], Mode.OBSERVE, {"tool.before", "tool.after"}),
        (["session.*"], Mode.OBSERVE, {"session.start", "session.end"}),
        (["*"], Mode.OBSERVE, {"session.start", "session.end", "tool.before", "tool.after"}),
        # R-REG-03: several selectors of one event choose it once.
        (["*", "tool.*", "tool.before"], Mode.INTERCEPT, {"tool.before"}),
        (["session.*"], Mode.INTERCEPT, set()),
        (["unknown.*", "tool.befor", ""], Mode.OBSERVE, set()),
        ([], Mode.OBSERVE, set()),
    ],
)
def test_expansion(selectors: list[str], mode: Mode, chosen: set[str]) -> None:
    """Selectors expand to the served events that they name, each once."""
    assert expand(selectors, mode) == chosen


@pytest.mark.parametrize(
    ("selector", "mode", "reason"),
    [
        ("tool.permission.resolved", Mode.INTERCEPT, "can only be observed"),
        ("file.*", Mode.INTERCEPT, "can only be observed"),
        ("tool.after", Mode.INTERCEPT, "not served in intercept mode"),
        ("session.*", Mode.INTERCEPT, "not served in intercept mode"),
        ("turn.end", Mode.OBSERVE, "not served in observe mode"),
        ("turn.*", Mode.OBSERVE, "not served in observe mode"),
        ("unknown.*", Mode.OBSERVE, "no such family of events"),
        ("tool.befor", Mode.OBSERVE, "no such event"),
        ("user.elicitation.*", Mode.OBSERVE, "no such event"),
        ("Tool.*", Mode.OBSERVE, "no such event"),
        ("*.before", Mode.OBSERVE, "no such event"),
        ("tool.*\n", Mode.OBSERVE, "no such event"),
        ("", Mode.OBSERVE, "no such event"),
    ],
)
def test_refused_selectors(selector: str, mode: Mode, reason: str) -> None:
    """What chooses nothing is refused, and the reason tells the cases apart."""
    assert (refusal(selector, mode) or "").startswith(reason)


@pytest.mark.parametrize("mode", list(Mode))
def test_what_chooses_something_is_not_refused(mode: Mode) -> None:
    """A selector is refused exactly when its expansion is empty."""
    for selector in [*EVENTS, *(f"{family}.*" for family in FAMILIES), "*"]:
        assert (refusal(selector, mode) is None) == bool(expand([selector], mode))
