"""The payloads of ``session.*``, ``turn.*``, ``model.*`` and ``context.*`` events."""

from __future__ import annotations

from typing import Any

import pytest
from recording_hooks import RecordingHooks

from ahp_sync import InvalidEvent

MODEL: Any = {"id": "m-1", "provider": "example"}
ONE: dict[str, Any] = {"model": MODEL, "attempt": "a-1"}
MESSAGE: Any = {"id": "m", "role": "user", "parts": []}


@pytest.fixture
def hooks() -> RecordingHooks:
    return RecordingHooks()


def refused(hooks: RecordingHooks, method: str, **arguments: Any) -> str:
    """Make the call; return the path of what is wrong with it, found before or by ``dispatch``."""
    with pytest.raises(InvalidEvent) as raised:
        getattr(hooks, method)(**arguments)
        _ = hooks.event
    return raised.value.path


# --- sessions -------------------------------------------------------------------------------------


def test_a_session_starts_without_a_manifest(hooks: RecordingHooks) -> None:
    """The client has it, and fills it in; one that is given stays."""
    payload = hooks.sent("session_start", session="s")
    assert payload == {"trigger": "startup", "permissionMode": "default", "items": ()}
    manifest: Any = {"events": []}
    assert hooks.sent("session_start", session="s", manifest=manifest)["manifest"] is manifest


def test_a_session_goes_on_from_another(hooks: RecordingHooks) -> None:
    """The other one is an id or an object."""
    for other in ("r", {"id": "r"}):
        hooks.session_start(session="s", trigger="fork", resumed_from=other)  # type: ignore[arg-type]
        assert hooks.event["resumedFrom"] == {"id": "r"}


# --- turns ----------------------------------------------------------------------------------------


def test_a_prompt_is_one_message_of_the_user(hooks: RecordingHooks) -> None:
    """It is named after the turn, and so is its part."""
    hooks.turn_start(turn="t-1", prompt="Hello", session="s")
    event = hooks.event
    assert event["turn"] == {"id": "t-1"}
    assert event["trigger"] == "user"
    assert event["items"] == [
        {
            "id": "t-1-prompt",
            "role": "user",
            "synthesized": True,
            "parts": [
                {
                    "id": "t-1-prompt-part-1",
                    "kind": "text",
                    "mediaType": "text/plain",
                    "selection": "body",
                    "synthesized": True,
                    "text": "Hello",
                }
            ],
        }
    ]


def test_a_turn_may_begin_with_no_message_or_several(hooks: RecordingHooks) -> None:
    """No prompt is no message, an empty one is."""
    assert hooks.sent("turn_start", turn="t")["items"] == []
    assert len(hooks.sent("turn_start", turn="t", prompt="")["items"]) == 1
    assert hooks.sent("turn_start", turn="t", items=[MESSAGE])["items"] == [MESSAGE]
    assert refused(hooks, "turn_start", turn="t", prompt="x", items=[MESSAGE]) == "$.items"


def test_an_ending_has_the_response_and_no_more_than_it_was_given(hooks: RecordingHooks) -> None:
    """What has a default has one that says nothing special."""
    for method in ("turn_finish_before", "turn_end"):
        payload = hooks.sent(method, turn={"id": "t-1"}, response="Hi")
        assert set(payload) == {"outcome", "continuationCount", "items"}
        assert (payload["outcome"], payload["continuationCount"]) == ("completed", 0)
        assert [one["role"] for one in payload["items"]] == ["assistant"]


def test_a_response_is_one_message_before_and_after_and_another_when_continued(
    hooks: RecordingHooks,
) -> None:
    """Its id holds for what is said, not only for the turn (R-EVT-04)."""
    first = hooks.sent("turn_finish_before", turn="t", response="1")["items"][0]["id"]
    second = hooks.sent("turn_finish_before", turn="t", response="2", continuation_count=1)
    last = hooks.sent("turn_end", turn="t", response="2", continuation_count=1)
    assert last["items"] == second["items"]
    assert first != second["items"][0]["id"]


def test_the_last_item_is_an_id_or_an_object(hooks: RecordingHooks) -> None:
    """As the turn is."""
    for last in ("m-9", {"id": "m-9"}):
        hooks.turn_end(turn="t", last_assistant_item=last)  # type: ignore[arg-type]
        assert hooks.event["lastAssistantItem"] == {"id": "m-9"}


def test_only_a_turn_that_was_not_completed_has_an_error(hooks: RecordingHooks) -> None:
    """Section 4 of the wire reference."""
    error = {"message": "m", "class": "c"}
    assert hooks.sent("turn_end", turn="t", outcome="failed", error=error)["error"] is error
    assert refused(hooks, "turn_end", turn="t", error=error) == "$.error"


def test_progress_is_a_delta_of_a_message(hooks: RecordingHooks) -> None:
    """The item is what grows; the delta has an id of its own."""
    hooks.turn_progress(turn="t", item="m-1", text="more", event_id="ev-1")
    event = hooks.event
    assert event["item"] == {"id": "m-1"}
    assert event["final"] is False
    assert (event["delta"]["id"], event["delta"]["role"]) == ("ev-1-delta", "assistant")
    assert refused(hooks, "turn_progress", turn="t", item="m") == "$.delta"
    both = {"text": "x", "delta": MESSAGE}
    assert refused(hooks, "turn_progress", turn="t", item="m", **both) == "$.delta"


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ({"turn": ""}, "$.turn.id"),
        ({"turn": 5}, "$.turn.id"),
        ({"turn": None}, "$"),
        ({"turn": {"id": "t", "more": 1}}, "$.turn"),
        ({"turn": "t", "prompt": 5}, "$.items[0].parts[0]"),
        ({"turn": "t", "prompt": "\ud800"}, "$.items[0].parts[0].text"),
        ({"turn": "t", "items": [5]}, "$.items[0]"),
        ({"turn": "t", "trigger": "me"}, "$.trigger"),
        ({"turn": "t", "expanded_from": ""}, "$.expandedFrom"),
    ],
)
def test_what_is_wrong_with_a_turn_is_named(
    hooks: RecordingHooks, arguments: dict[str, Any], path: str
) -> None:
    """By its place in the event, whatever was made of the arguments."""
    assert refused(hooks, "turn_start", **arguments).startswith(path)


# --- models ---------------------------------------------------------------------------------------


def test_an_attempt_is_the_first_unless_it_says_otherwise(hooks: RecordingHooks) -> None:
    """A retry is a whole object."""
    payload = hooks.sent("model_request_before", **ONE, items=[MESSAGE])
    assert payload["attempt"] == {"id": "a-1", "number": 1}
    assert payload["params"] == {}
    retry = {"id": "a-2", "number": 2}
    hooks.model_request_before(model=MODEL, attempt=retry, items=[], params={"t": 0})  # type: ignore[arg-type]
    assert hooks.event["attempt"] == retry
    assert hooks.event["params"] == {"t": 0}


def test_an_answer_is_one_message_of_the_assistant(hooks: RecordingHooks) -> None:
    """It is named after the attempt; that it was executed goes without saying."""
    hooks.model_response_after(**ONE, finish_reason="stop", response="Hi", latency_ms=12.5)
    event = hooks.event
    assert event["execution"] == {"status": "executed"}
    assert event["latencyMs"] == 12.5
    assert [(one["id"], one["role"]) for one in event["items"]] == [("a-1-answer", "assistant")]


def test_a_supplied_answer_took_no_time(hooks: RecordingHooks) -> None:
    """Section 4: skipped only as a supplied result, and without usage."""
    supplied = {"status": "skipped", "reason": "supplied_result"}
    call: dict[str, Any] = {**ONE, "finish_reason": "hook", "execution": supplied}
    assert hooks.sent("model_response_after", **call)["execution"] is supplied
    assert refused(hooks, "model_response_after", **call, latency_ms=1) == "$.latencyMs"
    other = {**call, "execution": {"status": "skipped", "reason": "policy"}}
    assert refused(hooks, "model_response_after", **other).startswith("$.execution")


def test_a_failed_request_was_executed(hooks: RecordingHooks) -> None:
    """The protocol has no other word for it here."""
    error = {"message": "m", "class": "c", "status": 529}
    payload = hooks.sent("model_error", **ONE, error=error, recovery="retry")
    assert payload["execution"] == {"status": "executed"}
    assert (payload["error"], payload["recovery"]) == (error, "retry")


def test_a_switch_has_two_models(hooks: RecordingHooks) -> None:
    """Before: current and proposed. After: previous and current."""
    other: Any = {"id": "m-2", "provider": "example"}
    pricing: Any = {"currency": "EUR", "inputPerMillionTokens": 1}
    hooks.model_switch_before(current=MODEL, proposed=other, reason="cost", pricing=pricing)
    event = hooks.event
    assert (event["current"], event["proposed"], event["pricing"]) == (MODEL, other, pricing)
    hooks.model_switch_after(previous=MODEL, current=other, reason="cost")
    assert (hooks.event["previous"], hooks.event["current"]) == (MODEL, other)
    bad = {"currency": "euro"}
    both = {"current": MODEL, "proposed": other, "reason": "r"}
    assert refused(hooks, "model_switch_before", **both, pricing=bad) == "$.pricing.currency"


# --- compaction -----------------------------------------------------------------------------------


def test_instructions_are_a_text_or_parts(hooks: RecordingHooks) -> None:
    """None at all is another thing than none in a list (D-21)."""
    call: dict[str, Any] = {"trigger": "auto", "items": [MESSAGE]}
    assert set(hooks.sent("context_compact_before", **call)) == {"trigger", "items"}
    assert hooks.sent("context_compact_before", **call, instructions=[])["instructions"] == []
    hooks.context_compact_before(**call, instructions="Be brief", event_id="ev-1", tokens_before=9)
    event = hooks.event
    (part,) = event["instructions"]
    assert (part["id"], part["text"]) == ("ev-1-instructions", "Be brief")
    assert event["tokenCounts"] == {"before": 9}


def test_a_summary_stands_for_messages(hooks: RecordingHooks) -> None:
    """Which are named by their ids."""
    hooks.context_compact_after(
        summary="All of it", removed=["m-1", "m-2"], tokens_before=900, tokens_after=0
    )
    event = hooks.event
    assert [part["text"] for part in event["summary"]] == ["All of it"]
    assert event["removed"] == [{"id": "m-1"}, {"id": "m-2"}]
    assert event["execution"] == {"status": "executed"}
    assert event["tokenCounts"] == {"before": 900, "after": 0}
    assert "items" not in event


def test_one_removed_id_is_not_taken_for_many(hooks: RecordingHooks) -> None:
    """A string is a sequence of strings, too, but not of ids."""
    assert refused(hooks, "context_compact_after", summary="", removed="m-1") == "$.removed"
