"""From the arguments of the typed methods to payloads (sections 4 and 5 of the wire reference)."""

from __future__ import annotations

from typing import Any, Callable

import pytest
from inprocess import Backend, observe

from ahp_sync import Client, InvalidEvent, Outcome
from ahp_sync.protocol.events import EVENTS

Call = Callable[..., Outcome]


class Sender:
    """A client and the one observer it tells everything."""

    def __init__(self, open_client: Callable[..., Client]) -> None:
        self.backend = Backend(None, observe(includeNative=True))
        self.client = open_client(self.backend)

    def sent(self, method: str, **arguments: Any) -> dict[str, Any]:
        """Make the call and return the event that was sent."""
        outcome = getattr(self.client, method)(**arguments)
        assert outcome.may_execute
        event = self.backend.events[-1]
        assert event == outcome.event
        return event

    def refusal(self, method: str, **arguments: Any) -> InvalidEvent:
        """Make the call and return the error; nothing may be sent."""
        with pytest.raises(InvalidEvent) as raised:
            getattr(self.client, method)(**arguments)
        assert self.backend.messages == []
        return raised.value


@pytest.fixture
def sender(open_client: Callable[..., Client]) -> Sender:
    """A client with an observer of everything."""
    return Sender(open_client)


# --- tool.before ----------------------------------------------------------------------------------


def test_tool_before_needs_a_name_and_an_input(sender: Sender) -> None:
    """Everything else has a value that is right for a tool of the harness's own."""
    event = sender.sent("tool_before", name="Bash", input={"command": "ls"}, call_id="c-1")
    assert event["type"] == "tool.before"
    assert event["call"] == {"id": "c-1"}
    assert event["tool"] == {"name": "Bash", "origin": "native", "input": {"command": "ls"}}
    assert event["path"] == "native"
    envelope = {"id", "source", "type", "time", "harness", "call", "tool", "path"}
    assert set(event) == envelope


def test_a_call_id_that_is_made_up_says_so(sender: Sender) -> None:
    """Ids that the client invents carry ``synthesized`` (R-EVT-04)."""
    calls = [sender.sent("tool_before", name="Bash", input={})["call"] for _ in range(2)]
    assert all(call["synthesized"] is True for call in calls)
    assert calls[0]["id"] != calls[1]["id"]


def test_every_argument_has_its_place(sender: Sender) -> None:
    """Sections 3 and 5: where each optional argument goes."""
    mcp = {
        "server": {"id": "srv"},
        "toolName": "t",
        "provenance": "runtime",
        "connection": {"transport": "http", "url": "https://example.com/"},
    }
    event = sender.sent(
        "tool_before",
        name="t",
        input={},
        origin="mcp",
        mcp=mcp,
        kind="read",
        path="agent",
        batch={"id": "b", "callIds": ["c-1"]},
        turn={"id": "t-1"},
        parent_event_id="ev-0",
        extensions={"com.example.x": 1},
        native={"raw": None},
        session={"id": "s", "cwd": "/"},
        event_id="ev-1",
    )
    assert event["tool"]["mcp"] == mcp
    assert event["tool"]["kind"] == "read"
    assert (event["path"], event["batch"]["id"], event["turn"]["id"]) == ("agent", "b", "t-1")
    assert (event["parentEventId"], event["id"]) == ("ev-0", "ev-1")
    assert event["extensions"] == {"com.example.x": 1}
    assert event["native"] == {"raw": None}
    assert event["session"] == {"id": "s", "cwd": "/"}


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ({"name": ""}, "$.tool.name"),
        ({"name": None}, "$.tool.name"),
        ({"input": None}, "$.tool.input"),
        ({"input": [1]}, "$.tool.input"),
        ({"input": "ls"}, "$.tool.input"),
        ({"input": {"a": object()}}, "$.tool.input.a"),
        ({"call_id": ""}, "$.call.id"),
        ({"call_id": 1}, "$.call.id"),
        ({"origin": "mcp"}, "$.tool"),
        ({"origin": "other"}, "$.tool"),
        ({"mcp": {}}, "$.tool"),
        ({"kind": ""}, "$.tool.kind"),
        ({"path": ""}, "$.path"),
        ({"path": None}, "$.path"),
        ({"batch": {"id": "b", "callIds": []}}, "$.batch.callIds"),
        ({"session": ""}, "$.session.id"),
        ({"session": 5}, "$.session"),
        ({"session": {"cwd": "/"}}, "$.session"),
        ({"extensions": {"x": 1}}, "$.extensions"),
        ({"native": object()}, "$.native"),
        ({"event_id": ""}, "$.id"),
        ({"parent_event_id": 3}, "$.parentEventId"),
    ],
)
def test_a_wrong_argument_is_refused_before_anything_is_sent(
    sender: Sender, arguments: dict[str, Any], path: str
) -> None:
    """The error names the place in the event."""
    error = sender.refusal("tool_before", **{"name": "Bash", "input": {}, **arguments})
    assert error.path.startswith(path)


# --- tool.after -----------------------------------------------------------------------------------

AFTER: dict[str, Any] = {"name": "Bash", "input": {}, "call_id": "c-1"}


def test_output_becomes_one_message_of_the_tool(sender: Sender) -> None:
    """Its ids are derived from the call's, and marked as made up (R-EVT-04)."""
    (message,) = sender.sent("tool_after", **AFTER, output="done")["items"]
    assert message["role"] == "tool"
    assert message["id"] == "c-1-output"
    assert message["synthesized"] is True
    (part,) = message["parts"]
    assert (part["kind"], part["mediaType"], part["text"]) == ("text", "text/plain", "done")


def test_no_output_is_no_message(sender: Sender) -> None:
    """An empty text is an output all the same."""
    assert sender.sent("tool_after", **AFTER)["items"] == []
    assert sender.sent("tool_after", **AFTER, output="")["items"][0]["parts"][0]["text"] == ""


def test_items_are_passed_as_they_are(sender: Sender) -> None:
    """For a host that has messages of its own."""
    items = [{"id": "m", "role": "tool", "parts": []}]
    assert sender.sent("tool_after", **AFTER, items=items)["items"] == items


def test_output_and_items_exclude_each_other(sender: Sender) -> None:
    """Neither is dropped in silence."""
    assert sender.refusal("tool_after", **AFTER, output="x", items=[]).path == "$.items"


@pytest.mark.parametrize(
    ("outcome", "execution"),
    [
        ("ok", {"status": "executed"}),
        ("cancelled", {"status": "executed"}),
        ("timeout", {"status": "executed"}),
        ("denied", {"status": "skipped", "reason": "policy"}),
    ],
)
def test_the_execution_follows_from_the_outcome(
    sender: Sender, outcome: str, execution: dict[str, str]
) -> None:
    """Where the host does not say more (R-PAY-04)."""
    assert sender.sent("tool_after", **AFTER, outcome=outcome)["execution"] == execution


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ({"outcome": "fine"}, "$.outcome"),
        ({"outcome": "error"}, "$"),
        ({"outcome": "ok", "error": {"message": "m", "class": "c"}}, "$"),
        ({"outcome": "error", "error": {"message": "m"}}, "$.error"),
        ({"outcome": "denied", "execution": {"status": "executed"}}, "$.execution"),
        ({"outcome": "denied", "duration_ms": 1}, "$"),
        ({"duration_ms": -1}, "$.durationMs"),
        ({"duration_ms": "1"}, "$.durationMs"),
        ({"duration_ms": float("nan")}, "$.durationMs"),
        ({"output": 5}, "$.items[0].parts[0]"),
        ({"output": "\ud800"}, "$.items[0].parts[0].text"),
        ({"items": {}}, "$.items"),
        ({"items": [{"id": "m", "role": "robot", "parts": []}]}, "$.items[0].role"),
        ({"file_changes": [{"path": "a", "change": "moved"}]}, "$.fileChanges[0]"),
    ],
)
def test_what_does_not_go_together_is_refused(
    sender: Sender, arguments: dict[str, Any], path: str
) -> None:
    """Section 4: the conditions of ``tool.after``."""
    assert sender.refusal("tool_after", **AFTER, **arguments).path.startswith(path)


def test_an_error_and_its_members(sender: Sender) -> None:
    """``error`` goes with the outcome of that name."""
    error = {"message": "no such file", "class": "FileNotFoundError", "code": "ENOENT", "status": 2}
    event = sender.sent("tool_after", **AFTER, outcome="error", error=error, duration_ms=0.5)
    assert event["error"] == error
    assert event["durationMs"] == 0.5


# --- sessions -------------------------------------------------------------------------------------


def test_a_session_starts_with_what_the_host_declares(sender: Sender) -> None:
    """The manifest is derived from the client's capabilities (R-CAP-06)."""
    event = sender.sent("session_start", session="s")
    assert (event["trigger"], event["permissionMode"]) == ("startup", "default")
    assert event["items"] == []
    assert event["manifest"] == sender.client.manifest()
    served = {entry["event"]: entry for entry in event["manifest"]["events"]}
    assert set(served) == set(EVENTS)
    assert served["tool.before"]["capabilities"] == {"effects": ["deny"]}
    assert "capabilities" not in served["tool.after"]


def test_a_fork_names_its_origin(sender: Sender) -> None:
    """The triggers ``clear`` and ``fork`` need the session they come from."""
    for trigger in ("clear", "fork"):
        assert sender.refusal("session_start", session="s", trigger=trigger).path == "$"
    event = sender.sent("session_start", session="s", trigger="fork", resumed_from="r")
    assert event["resumedFrom"] == {"id": "r"}


def test_a_session_ends_with_outcome_reason_and_counters(sender: Sender) -> None:
    """Counters are integers from 0, by any name."""
    event = sender.sent("session_end", session="s", counters={"toolCalls": 3, "": 0})
    assert (event["outcome"], event["reason"]) == ("completed", "finished")
    assert event["counters"] == {"toolCalls": 3, "": 0}


@pytest.mark.parametrize(
    ("method", "arguments", "path"),
    [
        ("session_start", {"session": None}, "$"),
        ("session_start", {"session": "s", "trigger": "boot"}, "$.trigger"),
        ("session_start", {"session": "s", "permission_mode": ""}, "$.permissionMode"),
        ("session_start", {"session": "s", "items": [1]}, "$.items[0]"),
        ("session_start", {"session": "s", "manifest": []}, "$.manifest"),
        ("session_start", {"session": "s", "resumed_from": ""}, "$.resumedFrom.id"),
        ("session_end", {"session": None}, "$"),
        ("session_end", {"session": "s", "outcome": "ok"}, "$.outcome"),
        ("session_end", {"session": "s", "reason": ""}, "$.reason"),
        ("session_end", {"session": "s", "counters": {"n": 1.5}}, "$.counters.n"),
        ("session_end", {"session": "s", "counters": {"n": True}}, "$.counters.n"),
        ("session_end", {"session": "s", "counters": {"n": -1}}, "$.counters.n"),
        ("session_end", {"session": "s", "counters": []}, "$.counters"),
    ],
)
def test_a_wrong_argument_of_a_session_is_refused(
    sender: Sender, method: str, arguments: dict[str, Any], path: str
) -> None:
    """Before anything is sent, with its place."""
    assert sender.refusal(method, **arguments).path.startswith(path)


# --- dispatch -------------------------------------------------------------------------------------


def test_dispatch_takes_a_payload_as_json_members(sender: Sender) -> None:
    """The typed methods are short ways to it."""
    payload = {
        "call": {"id": "c"},
        "tool": {"name": "Bash", "origin": "native", "input": {}},
        "path": "native",
    }
    outcome = sender.client.dispatch("tool.before", payload, session="s")
    assert outcome.may_execute
    assert outcome.event["session"] == {"id": "s"}


@pytest.mark.parametrize("payload", [None, 5, "x", [], [("call", {})]])
def test_a_payload_is_a_mapping(sender: Sender, payload: Any) -> None:
    """Anything else is refused as the whole event."""
    with pytest.raises(InvalidEvent) as raised:
        sender.client.dispatch("tool.before", payload)
    assert raised.value.path == "$"
    assert sender.backend.messages == []
