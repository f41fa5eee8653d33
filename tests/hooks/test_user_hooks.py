"""The payloads of ``user.*`` events."""

from __future__ import annotations

import json
from typing import Any

import pytest
from recording_hooks import RecordingHooks

from ahp_sync import InvalidEvent

FORM: dict[str, Any] = {
    "message": "Wer bist du? ☃",
    "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
    "_meta": {"x": 1.5},
    "unknown": [None],
}
URL = {"mode": "url", "message": "Look", "url": "https://example.com/", "elicitationId": "e"}
PART: Any = {"id": "p", "kind": "text", "mediaType": "text/plain", "selection": "metadata"}


@pytest.fixture
def hooks() -> RecordingHooks:
    return RecordingHooks()


def refused(hooks: RecordingHooks, method: str, **arguments: Any) -> str:
    """Make the call; return the path of what is wrong with it."""
    with pytest.raises(InvalidEvent) as raised:
        getattr(hooks, method)(**arguments)
        _ = hooks.event
    return raised.value.path


# --- attention and messages -----------------------------------------------------------------------


def test_attention_is_a_text_or_parts(hooks: RecordingHooks) -> None:
    """A text is one part (D-03)."""
    hooks.user_attention(kind="done", message="Finished", title=[PART], event_id="ev-1")
    attention = hooks.event["attention"]
    (part,) = attention["message"]
    assert (part["id"], part["text"], part["synthesized"]) == ("ev-1-message", "Finished", True)
    assert attention["title"] == [PART]


@pytest.mark.parametrize(
    ("method", "who", "role"),
    [
        ("user_message_inbound", {"channel": "mail", "sender": "jo"}, "user"),
        ("user_message_outbound", {"channel": "mail"}, "assistant"),
    ],
)
def test_a_text_is_one_message_of_the_right_role(
    hooks: RecordingHooks, method: str, who: dict[str, str], role: str
) -> None:
    """The role that the protocol wants here is made up, not asked for."""
    message = hooks.sent(method, **who, text="Hi", event_id="ev-1")["message"]
    assert {name: message[name] for name in who} == who
    (said,) = message["messages"]
    assert (said["id"], said["role"]) == ("ev-1-message", role)
    assert said["parts"][0]["text"] == "Hi"
    assert set(hooks.sent(method, **who, messages=[])["message"]) == {*who, "messages"}
    other = {"id": "m", "role": "system", "parts": []}
    assert refused(hooks, method, **who, messages=[other]) == "$.message.messages[0].role"
    assert refused(hooks, method, **who) == "$.message.messages"
    assert refused(hooks, method, **who, text="x", messages=[]) == "$.message.messages"


# --- elicitation ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("params", "mode"), [(FORM, "form"), (URL, "url")])
def test_params_are_the_text_of_a_part_in_full(
    hooks: RecordingHooks, params: dict[str, Any], mode: str
) -> None:
    """R-ELI-01: unknown members and ``_meta`` stay. R-ELI-02: the mode is theirs."""
    hooks.user_elicitation_request(server="s", params=params, event_id="ev-1")
    elicitation = hooks.event["elicitation"]
    assert (elicitation["server"], elicitation["mode"]) == ("s", mode)
    part = elicitation["request"]
    assert (part["id"], part["kind"], part["selection"]) == ("ev-1-request", "text", "body")
    assert json.loads(part["text"]) == params


def test_params_may_be_withheld(hooks: RecordingHooks) -> None:
    """Nothing, or a part of the host's own; the mode is then form unless it is given."""
    assert hooks.sent("user_elicitation_request", server="s") == {
        "elicitation": {"server": "s", "mode": "form"}
    }
    hooks.user_elicitation_request(server="s", mode="url", part=PART)
    assert hooks.event["elicitation"] == {"server": "s", "mode": "url", "request": PART}


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ({"params": FORM, "part": PART}, "$.elicitation.request"),
        ({"params": "{}"}, "$.elicitation.request"),
        ({"params": [FORM]}, "$.elicitation.request"),
        ({"params": {**FORM, "x": float("nan")}}, "$.elicitation.request.x"),
        ({"params": {**FORM, "x": object()}}, "$.elicitation.request.x"),
        ({"params": {"message": "m"}}, "$.elicitation.request"),
        ({"params": FORM, "mode": "url"}, "$.elicitation.mode"),
        ({"mode": "phone"}, "$.elicitation.mode"),
    ],
)
def test_params_that_are_none_are_refused(
    hooks: RecordingHooks, arguments: dict[str, Any], path: str
) -> None:
    """By the method where nothing can be made of them, and else by the client's own rules."""
    assert refused(hooks, "user_elicitation_request", server="s", **arguments) == path


def test_a_result_follows_from_its_request(hooks: RecordingHooks) -> None:
    """R-ELI-04: parent, session, server and mode are the request's; the action is the result's."""
    hooks.user_elicitation_request(server="s", params=FORM, session={"id": "x"}, event_id="ev-1")
    request = hooks.event
    result = {"action": "accept", "content": {"name": "Jo"}, "_meta": {}}
    hooks.user_elicitation_result(result=result, request=request)
    assert hooks.options["request"] is request
    event = hooks.event
    assert (event["parentEventId"], event["session"]) == ("ev-1", {"id": "x"})
    elicitation = event["elicitation"]
    assert {name: elicitation[name] for name in ("server", "mode", "action")} == {
        "server": "s",
        "mode": "form",
        "action": "accept",
    }
    assert json.loads(elicitation["result"]["text"]) == result


def test_what_the_host_says_of_a_result_goes_before_its_request(hooks: RecordingHooks) -> None:
    """The client finds the contradiction; it is not smoothed over."""
    hooks.user_elicitation_request(server="s", params=FORM, session="x", event_id="ev-1")
    hooks.user_elicitation_result(
        request=hooks.event,
        server="other",
        mode="url",
        action="cancel",
        session="y",
        parent_event_id="ev-2",
    )
    assert (hooks.options["session"], hooks.options["parent_event_id"]) == ("y", "ev-2")
    assert hooks.payload["elicitation"] == {"server": "other", "mode": "url", "action": "cancel"}


def test_a_result_may_stand_alone_and_be_withheld(hooks: RecordingHooks) -> None:
    """Then the host has to say what the events around it do not."""
    payload = hooks.sent("user_elicitation_result", server="s", mode="url", action="accept")
    assert payload == {"elicitation": {"server": "s", "mode": "url", "action": "accept"}}
    assert hooks.options["request"] is None
    assert "parent_event_id" not in hooks.options
    hooks.user_elicitation_result(server="s", action="decline", part=PART)
    assert hooks.event["elicitation"]["result"] == PART


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ({"server": "s"}, "$.elicitation"),
        ({"action": "cancel"}, "$.elicitation"),
        ({"server": "s", "action": "maybe"}, "$.elicitation.action"),
        ({"server": "s", "result": {"content": {}}}, "$.elicitation"),
        ({"server": "s", "result": 5}, "$.elicitation.result"),
        ({"server": "s", "result": {"action": "cancel"}, "part": PART}, "$.elicitation.result"),
        ({"result": {"action": "cancel"}, "request": "ev-1"}, "request"),
        ({"result": {"action": "cancel"}, "request": {"id": "ev-1"}}, "request"),
    ],
)
def test_a_result_that_is_none_is_refused(
    hooks: RecordingHooks, arguments: dict[str, Any], path: str
) -> None:
    """With the place, or the argument, that is wrong."""
    assert refused(hooks, "user_elicitation_result", **arguments) == path
