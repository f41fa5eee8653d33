"""What the hook methods pass on besides the payload."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest
from every_call import METHODS
from least_calls import LEAST
from recording_hooks import RecordingHooks

from ahp_sync import Budget, Grant, HostState, InvalidEvent
from ahp_sync.hooks import Hooks
from ahp_sync.protocol.events import EVENTS

EVERY = pytest.mark.parametrize("event_type", EVENTS)


def send(event_type: str, **options: Any) -> RecordingHooks:
    """Make the least call of this event with these options."""
    hooks = RecordingHooks()
    getattr(hooks, METHODS[event_type])(**{**LEAST[event_type], **options})
    return hooks


@EVERY
def test_options_are_passed_on_as_they_are(event_type: str) -> None:
    """Every event takes all of them."""
    options: dict[str, Any] = {
        "budget": Budget(5),
        "event_id": "ev-1",
        "synthesized": True,
        "time": datetime.now(timezone.utc),
        "extensions": {"com.example.x": 1},
        "native": {"raw": None},
        "capabilities": Grant(),
        "state": HostState(),
        "input_codec": dict,
        "result_codec": str,
        "parent_event_id": "ev-0",
        "session": {"id": "s", "cwd": "/"},
    }
    passed = send(event_type, **options).options
    assert {name: passed[name] for name in options} == options
    assert all(passed[name] is options[name] for name in ("budget", "capabilities", "state"))


@EVERY
def test_what_is_not_given_is_left_out(event_type: str) -> None:
    """So that the defaults are those of ``dispatch`` alone."""
    passed = {name for name, value in send(event_type).options.items() if value is not None}
    own = {name for name in ("session", "turn", "parent_event_id") if name in LEAST[event_type]}
    assert passed == own


@EVERY
def test_gaps_are_a_member_of_the_payload(event_type: str) -> None:
    """What the host can't tell, by path (section 3 of the wire reference)."""
    gaps = [{"path": "turn", "reason": "unknown to this host"}]
    hooks = send(event_type, gaps=gaps)
    assert hooks.payload["gaps"] == gaps
    assert hooks.event["gaps"] == gaps
    assert "gaps" not in hooks.options
    assert "gaps" not in send(event_type, gaps=None).payload


@pytest.mark.parametrize("event_type", [one for one in EVENTS if not one.startswith("session")])
@pytest.mark.parametrize("turn", ["t-1", {"id": "t-1", "synthesized": True}])
def test_a_turn_is_an_id_or_an_object(event_type: str, turn: Any) -> None:
    """As an object it stays what it is. Sessions begin and end outside of all turns."""
    passed = send(event_type, turn=turn).options["turn"]
    assert passed == ({"id": "t-1"} if turn == "t-1" else turn)


@EVERY
def test_an_option_that_nobody_knows_is_a_type_error(event_type: str) -> None:
    """A slip of the pen is not left out in silence."""

    class Strict(Hooks):
        def dispatch(self, *args: Any, **options: Any) -> Any:
            return super().dispatch(*args, **options)  # type: ignore[safe-super]

    with pytest.raises(TypeError, match="unexpected keyword argument 'sesion'"):
        getattr(Strict(), METHODS[event_type])(**LEAST[event_type], sesion="s")


@EVERY
def test_what_dispatch_returns_and_raises_comes_back(event_type: str) -> None:
    """The methods add nothing to it."""
    given = {**LEAST[event_type]}

    class Refusing(RecordingHooks):
        def dispatch(self, event_type: str, payload: Any, **options: Any) -> Any:
            raise InvalidEvent("$.x", "this", "that")

    with pytest.raises(InvalidEvent) as raised:
        getattr(Refusing(), METHODS[event_type])(**given)
    assert raised.value.path == "$.x"
    outcome = getattr(RecordingHooks(), METHODS[event_type])(**given)
    assert outcome.event["type"] == event_type
    assert outcome.may_execute


def test_hooks_alone_can_raise_nothing() -> None:
    """``dispatch`` is what a subclass has to bring."""
    with pytest.raises(TypeError, match="dispatch"):
        Hooks()  # type: ignore[abstract]
