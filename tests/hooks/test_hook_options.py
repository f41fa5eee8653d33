"""What the hook methods pass on besides the payload."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest
from every_call import METHODS
from recording_hooks import RecordingHooks

from ahp_sync import Budget, Grant, HostState, InvalidEvent
from ahp_sync.hooks import Hooks
from ahp_sync.protocol.events import EVENTS

LEAST: dict[str, dict[str, Any]] = {
    "session.start": {"session": "s"},
    "session.end": {"session": "s"},
    "config.change.before": {"source": "s", "scope": "s", "settings": [], "summary": "s"},
    "config.change.after": {"source": "s", "scope": "s", "settings": [], "summary": "s"},
    "turn.start": {"turn": "t"},
    "turn.finish.before": {"turn": "t"},
    "turn.end": {"turn": "t"},
    "turn.progress": {"turn": "t", "item": "m", "text": ""},
    "model.request.before": {
        "model": {"id": "m", "provider": "p"},
        "attempt": "a",
        "items": [],
    },
    "model.response.after": {
        "model": {"id": "m", "provider": "p"},
        "attempt": "a",
        "finish_reason": "stop",
    },
    "model.error": {
        "model": {"id": "m", "provider": "p"},
        "attempt": "a",
        "error": {"message": "m", "class": "c"},
    },
    "model.switch.before": {
        "current": {"id": "m", "provider": "p"},
        "proposed": {"id": "n", "provider": "p"},
        "reason": "r",
    },
    "model.switch.after": {
        "previous": {"id": "m", "provider": "p"},
        "current": {"id": "n", "provider": "p"},
        "reason": "r",
    },
    "tool.before": {"name": "n", "input": {}},
    "tool.after": {"name": "n", "input": {}},
    "tool.permission.request": {"name": "n", "input": {}, "call_id": "c"},
    "tool.permission.resolved": {
        "name": "n",
        "input": {},
        "call_id": "c",
        "decision": "deny",
        "decided_by": "user",
    },
    "tool.progress": {"name": "n", "input": {}, "call_id": "c", "output": ""},
    "tool.batch.after": {
        "batch": "b",
        "calls": [
            {
                "call": {"id": "c"},
                "tool": {"name": "n", "origin": "native", "input": {}},
                "path": "native",
                "outcome": "ok",
                "execution": {"status": "executed"},
            }
        ],
    },
    "context.compact.before": {"trigger": "auto"},
    "context.compact.after": {"summary": ""},
    "task.change.before": {"task_id": "t", "operation": "create", "change": {}},
    "task.change.after": {"task_id": "t", "operation": "create", "change": {}},
    "user.attention": {"kind": "k", "message": "", "title": ""},
    "user.elicitation.request": {"server": "s"},
    "user.elicitation.result": {"server": "s", "action": "cancel"},
    "user.message.inbound": {"channel": "c", "sender": "s", "text": ""},
    "user.message.outbound": {"channel": "c", "text": ""},
    "workspace.change.before": {"kind": "cwd", "change": {"cwd": "/"}},
    "workspace.change.after": {"kind": "cwd", "change": {"cwd": "/"}},
    "file.changed": {"changes": [{"path": "p", "operation": "create", "agentCaused": True}]},
    "hook.failure": {
        "backend_id": "b",
        "reason": "r",
        "policy": "fail-open",
        "parent_event_id": "e",
    },
}
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


@EVERY
@pytest.mark.parametrize("turn", ["t-1", {"id": "t-1", "synthesized": True}])
def test_a_turn_is_an_id_or_an_object(event_type: str, turn: Any) -> None:
    """As an object it stays what it is; session events can't be given one."""
    if event_type in ("session.start", "session.end"):
        return
    passed = send(event_type, turn=turn).options["turn"]
    assert passed == ({"id": "t-1"} if turn == "t-1" else turn)


@EVERY
def test_an_option_that_nobody_knows_is_a_type_error(event_type: str) -> None:
    """A slip of the pen is not left out in silence."""

    class Strict(RecordingHooks):
        dispatch = Hooks.dispatch

    with pytest.raises(TypeError, match="sesion"):
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
