"""The payloads of ``tool.*`` events; ``tests/test_payloads.py`` has those of before and after."""

from __future__ import annotations

from typing import Any

import pytest
from recording_hooks import RecordingHooks

from ahp_sync import InvalidEvent

CALL: dict[str, Any] = {"name": "Bash", "input": {"command": "ls"}, "call_id": "c-1"}
FACTS = {
    "call": {"id": "c-1"},
    "tool": {"name": "Bash", "origin": "native", "input": {"command": "ls"}},
    "path": "native",
}


@pytest.fixture
def hooks() -> RecordingHooks:
    return RecordingHooks()


@pytest.mark.parametrize("method", ["tool_before", "tool_after"])
def test_a_call_can_be_named_by_its_object(hooks: RecordingHooks, method: str) -> None:
    """So that an id that was made up says so in ``tool.after``, too (R-EVT-04)."""
    hooks.tool_before(name="Bash", input={})
    made_up = hooks.payload["call"]
    assert made_up["synthesized"] is True
    getattr(hooks, method)(name="Bash", input={}, call_id=made_up)
    assert hooks.event["call"] == made_up


def test_output_is_named_after_its_call(hooks: RecordingHooks) -> None:
    """The same however often it is told."""
    hooks.tool_after(name="Bash", input={}, call_id={"id": "c-1"}, output="x")
    assert hooks.payload["items"][0]["id"] == "c-1-output"


def test_parts_of_their_own_go_with_a_call(hooks: RecordingHooks) -> None:
    """``items`` of ``tool.before`` are parts, not messages."""
    part: Any = {
        "id": "p",
        "kind": "attachment",
        "mediaType": "image/png",
        "selection": "metadata",
    }
    hooks.tool_before(**CALL, items=[part])
    assert hooks.event["items"] == [part]


def test_a_permission_is_asked_for(hooks: RecordingHooks) -> None:
    """Without suggestions, and inside the sandbox, unless the host says otherwise."""
    payload = hooks.sent("tool_permission_request", **CALL)
    assert payload == {**FACTS, "suggestions": (), "sandboxBypass": False}
    hooks.tool_permission_request(**CALL, suggestions=[{"rule": "ls"}], sandbox_bypass=True)
    assert hooks.event["suggestions"] == [{"rule": "ls"}]
    assert hooks.event["sandboxBypass"] is True


def test_a_permission_is_resolved(hooks: RecordingHooks) -> None:
    """With what was decided, and by whom."""
    payload = hooks.sent(
        "tool_permission_resolved", **CALL, decision="deny", decided_by="classifier"
    )
    assert payload == {**FACTS, "decision": "deny", "decidedBy": "classifier"}


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ({"decision": "ask", "decided_by": "user"}, "$.decision"),
        ({"decision": "allow", "decided_by": "me"}, "$.decidedBy"),
        ({"decision": None, "decided_by": "user"}, "$.decision"),
    ],
)
def test_a_decision_is_of_the_known_words(
    hooks: RecordingHooks, arguments: dict[str, Any], path: str
) -> None:
    """What is wrong stands where it was put, for the client's own rules to name it."""
    hooks.tool_permission_resolved(**CALL, **arguments)
    with pytest.raises(InvalidEvent) as raised:
        _ = hooks.event
    assert raised.value.path == path


def test_progress_is_one_message_of_the_tool(hooks: RecordingHooks) -> None:
    """Each time another one, since it says something else."""
    payload = hooks.sent("tool_progress", **CALL, output="50 %", event_id="ev-1")
    said = payload["partialOutput"]
    assert (said["id"], said["role"]) == ("ev-1-output", "tool")
    assert said["parts"][0]["text"] == "50 %"
    assert payload["backgrounded"] is False
    message = {"id": "m", "role": "tool", "parts": []}
    assert hooks.sent("tool_progress", **CALL, partial_output=message)["partialOutput"] is message


@pytest.mark.parametrize(
    "arguments", [{}, {"output": "x", "partial_output": {"id": "m", "role": "tool", "parts": []}}]
)
def test_progress_is_a_text_or_a_message(hooks: RecordingHooks, arguments: dict[str, Any]) -> None:
    """One of the two, and not both."""
    with pytest.raises(InvalidEvent) as raised:
        hooks.tool_progress(**CALL, **arguments)
    assert raised.value.path == "$.partialOutput"
    assert hooks.event_type == ""


def test_a_batch_has_the_calls_of_its_tool_after_events(hooks: RecordingHooks) -> None:
    """An entry is some members of that event."""
    hooks.tool_after(**CALL, output="done")
    after = hooks.event
    members = ("call", "tool", "path", "outcome", "execution")
    entry: Any = {name: after[name] for name in members}
    hooks.tool_batch_after(batch="b-1", calls=[entry])
    assert hooks.event["batch"] == {"id": "b-1"}
    assert hooks.event["calls"] == [{**FACTS, "outcome": "ok", "execution": {"status": "executed"}}]


def test_a_batch_is_not_empty(hooks: RecordingHooks) -> None:
    """The protocol wants one call at least."""
    hooks.tool_batch_after(batch="b-1", calls=[])
    with pytest.raises(InvalidEvent) as raised:
        _ = hooks.event
    assert raised.value.path == "$.calls"
