"""What backends do at each boundary but the tool's, through the typed methods and a real server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Callable

import pytest
from answering import (
    DENY,
    INTERCEPTED,
    go_on,
    inject,
    message,
    modify,
    note,
    part,
    returning,
    stop,
)

from ahp_sync import Capabilities, Client, Harness, InvalidEvent, Outcome
from ahp_sync.testing import (
    HttpBackend,
    assert_denied,
    assert_proceeds,
    assert_stopped,
    assert_supplied,
    assert_synthetic_denial,
    intercept,
)

Json = dict[str, Any]


@pytest.fixture(scope="module")
def backend() -> Iterator[HttpBackend]:
    with HttpBackend() as backend:
        yield backend


@pytest.fixture(scope="module")
def client(backend: HttpBackend) -> Iterator[Client]:
    subscription = intercept(INTERCEPTED, timeout_ms=30_000)
    with Client(
        backend.registration(subscriptions=[subscription]),
        source="urn:example:tests",
        harness=Harness("tests", "1"),
        capabilities=Capabilities.whole(max_continuations=2),
        authorize=lambda proposal: True,
    ) as client:
        yield client


Play = Callable[..., None]


@pytest.fixture
def play(backend: HttpBackend) -> Iterator[Play]:
    """``play(effect, …)``: what the backend answers from now on."""
    yield lambda *effects: backend.play(list(effects))
    backend.play("ok")


def texts(messages: list[Json]) -> list[str]:
    return [one["text"] for each in messages for one in each["parts"]]


# --- turns ----------------------------------------------------------------------------------------


def test_a_prompt_is_edited_and_context_added(client: Client, play: Play) -> None:
    """turn.start."""
    more = inject(message("i-1", "The user is in Ulm.", role="developer"))
    play(modify("prompt", "merge", [message("m-more", "Be brief.")]), more)
    outcome = client.turn_start(turn="t-1", prompt="Where am I?")
    assert_proceeds(outcome)
    assert texts(outcome.event["items"]) == ["Where am I?", "Be brief."]
    assert outcome.injections == (more,)


def test_a_turn_goes_on(client: Client, play: Play, backend: HttpBackend) -> None:
    """turn.finish.before: as often as declared, and then no more (R-CAP-03)."""
    play(go_on("Run the tests, too."))
    for count, left in ((0, 1), (1, 0)):
        outcome = client.turn_finish_before(
            turn="t-2", response="Done.", continuation_count=count, event_id=f"finish-{count}"
        )
        assert_proceeds(outcome)
        assert (outcome.flow, outcome.instructions) == ("continue", ("Run the tests, too.",))
        assert outcome.remaining_continuations == left
    last = client.turn_finish_before(turn="t-2", response="Done.", continuation_count=2)
    assert_synthetic_denial(last, failure_class="effects")
    assert backend.requests[-1].message["params"]["capabilities"]["flow"] == {
        "operations": ["stop", "continue"],
        "maxContinuations": 2,
        "continuationCount": 2,
        "remainingContinuations": 0,
    }


def test_a_response_is_replaced(client: Client, play: Play) -> None:
    """turn.finish.before and model.response.after."""
    play(modify("response", "replace", [message("m-new", "[removed]", role="assistant")]))
    outcome = client.turn_finish_before(turn="t-3", response="key=hunter2")
    assert texts(outcome.event["items"]) == ["[removed]"]
    raw: Any = [message("m-raw", "key=hunter2", role="assistant")]
    outcome = client.model_response_after(
        model={"id": "m", "provider": "p"},
        attempt="a-1",
        finish_reason="stop",
        items=raw,
    )
    assert texts(outcome.event["items"]) == ["[removed]"]


# --- the model ------------------------------------------------------------------------------------

MODEL: Any = {"id": "m", "provider": "p"}


def test_a_model_is_answered_for(client: Client, play: Play) -> None:
    """model.request.before: a list of messages, which may be empty (R-PAY-01)."""
    asked_: Any = [message("m-asked", "Hello")]
    for value in ([message("m-said", "Hi.", role="assistant")], []):
        play(returning(value))
        outcome = client.model_request_before(model=MODEL, attempt="a-2", items=asked_)
        assert_supplied(outcome, value)
    play(returning("Hi."))
    refused = client.model_request_before(model=MODEL, attempt="a-3", items=[])
    assert_synthetic_denial(refused, failure_class="effects")


def test_a_switch_is_denied(client: Client, play: Play) -> None:
    """model.switch.before."""
    play(DENY)
    switch: Json = {"current": MODEL, "proposed": {"id": "n", "provider": "p"}, "reason": "cost"}
    assert_denied(client.model_switch_before(**switch), "not here")
    play(stop("wait"))
    assert_stopped(client.model_switch_before(**switch), "wait")


# --- compaction -----------------------------------------------------------------------------------


def test_a_compaction_is_instructed_and_supplied(client: Client, play: Play) -> None:
    """context.compact.before: text parts, seen and given whole (R-CON-07, R-PAY-01)."""
    play(
        modify("instructions", "merge", [part("p-more", "Keep names.")]),
        returning([part("p-sum", "They said hello.")]),
    )
    old: Any = [message("m-old", "Hello")]
    outcome = client.context_compact_before(trigger="auto", instructions="Sum it up.", items=old)
    assert_supplied(outcome, [part("p-sum", "They said hello.")])
    assert [one["text"] for one in outcome.event["instructions"]] == ["Sum it up.", "Keep names."]


def test_a_compaction_in_parts_that_are_no_text_is_refused(client: Client, play: Play) -> None:
    """context.compact.before: a summary that is not there can't be gone on with."""
    hidden = {**part("p-sum", ""), "selection": "metadata"}
    del hidden["text"]
    play(returning([hidden]))
    outcome = client.context_compact_before(trigger="auto", instructions="Sum it up.")
    assert_synthetic_denial(outcome, failure_class="effects")
    play(modify("instructions", "replace", [hidden]))
    outcome = client.context_compact_before(trigger="auto", instructions="Sum it up.")
    assert_synthetic_denial(outcome, failure_class="effects")


def test_a_summary_is_edited(client: Client, play: Play) -> None:
    """context.compact.after."""
    play(modify("summary", "replace", [part("p-other", "They met.")]))
    outcome = client.context_compact_after(summary="They said hello.", removed=["m-old"])
    assert_proceeds(outcome)
    assert outcome.event["summary"] == [part("p-other", "They met.")]


# --- elicitation ----------------------------------------------------------------------------------

FORM = {
    "message": "Who are you?",
    "requestedSchema": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 18}},
        "required": ["name"],
    },
}
ADA = {"action": "accept", "content": {"name": "Ada", "age": 36}}


def asked(client: Client, **options: Any) -> Outcome:
    return client.user_elicitation_request(server="forms", params=FORM, session="s-1", **options)


def test_a_form_is_answered_for_the_user(client: Client, play: Play) -> None:
    """user.elicitation.request: by a complete result that fits the form (R-ELI-03)."""
    play(returning(ADA))
    assert_supplied(asked(client), ADA)
    play(returning({"action": "decline"}))
    assert_supplied(asked(client), {"action": "decline"})


def test_an_answer_that_does_not_fit_the_form_is_refused(client: Client, play: Play) -> None:
    """user.elicitation.request: under age, without a name, or two answers at once (R-ELI-05)."""
    for effects in (
        [returning({"action": "accept", "content": {"name": "Ada", "age": 3}})],
        [returning({"action": "accept", "content": {}})],
        [returning(ADA), returning(ADA)],
        [returning(ADA), DENY],
    ):
        play(*effects)
        assert_synthetic_denial(asked(client), failure_class="effects")


def test_a_request_is_denied(client: Client, play: Play) -> None:
    """user.elicitation.request: whatever was selected or granted (D-16)."""
    play(DENY)
    assert_denied(asked(client), "not here")
    hidden = client.user_elicitation_request(server="forms", mode="url")
    assert_denied(hidden, "not here")


def test_an_answer_is_edited_within_its_form(
    client: Client, play: Play, backend: HttpBackend
) -> None:
    """user.elicitation.result: the effective answer is in the text, and it fits the request."""
    request = asked(client).event
    play(modify("content", "merge", {"age": 40}))
    outcome = client.user_elicitation_result(result=ADA, request=request)
    assert_proceeds(outcome)
    block = outcome.event["elicitation"]
    assert json.loads(block["result"]["text"])["content"] == {"name": "Ada", "age": 40}
    assert backend.requests[-1].event["parentEventId"] == request["id"]
    play(modify("content", "merge", {"age": 3}))
    outcome = client.user_elicitation_result(result=ADA, request=request)
    assert_synthetic_denial(outcome, failure_class="effects")
    assert json.loads(outcome.event["elicitation"]["result"]["text"]) == ADA


def test_an_answer_of_the_host_that_does_not_fit_is_not_sent(
    client: Client, backend: HttpBackend
) -> None:
    """R-ELI-03, R-ELI-04: it is checked against its request; another session's is none."""
    request = asked(client).event
    sent = len(backend.requests)
    for wrong in ({"result": {"action": "accept", "content": {}}}, {"result": ADA, "session": "x"}):
        with pytest.raises(InvalidEvent):
            client.user_elicitation_result(request=request, **wrong)
    assert len(backend.requests) == sent


@pytest.mark.parametrize("request_", [5, "asked", ["asked"]])
def test_a_request_is_an_event(request_: Any, client: Client) -> None:
    """Nothing else stands in for it."""
    with pytest.raises(TypeError, match="request must be an event"):
        client.dispatch("user.elicitation.result", {}, request=request_)
    with pytest.raises(InvalidEvent):
        client.user_elicitation_result(result=ADA, request=request_)


# --- messages and the workspace -------------------------------------------------------------------


def test_a_message_that_comes_in_is_edited(client: Client, play: Play) -> None:
    """user.message.inbound: the user's it stays (R-PAY-03), as the SDK does not have it (D-14)."""
    play(modify("prompt", "merge", [message("m-in", "PS: thanks")]))
    outcome = client.user_message_inbound(channel="chat", sender="ada", text="Hello")
    assert_proceeds(outcome)
    assert texts(outcome.event["message"]["messages"]) == ["Hello", "PS: thanks"]
    play(modify("prompt", "merge", [message("m-in2", "Sure.", role="assistant")]))
    outcome = client.user_message_inbound(channel="chat", sender="ada", text="Hello")
    assert_synthetic_denial(outcome, failure_class="effects")
    assert texts(outcome.event["message"]["messages"]) == ["Hello"]


def test_a_message_that_goes_out_is_edited(client: Client, play: Play) -> None:
    """user.message.outbound: the assistant's it stays."""
    play(modify("content", "replace", [message("m-out", "[removed]", role="assistant")]))
    outcome = client.user_message_outbound(channel="chat", text="key=hunter2")
    assert texts(outcome.event["message"]["messages"]) == ["[removed]"]
    play(modify("content", "replace", [message("m-out2", "[removed]")]))
    outcome = client.user_message_outbound(channel="chat", text="key=hunter2")
    assert_synthetic_denial(outcome, failure_class="effects")


def test_a_workspace_is_merged(client: Client, play: Play) -> None:
    """workspace.change.before: member by member, and it stays one."""
    play(modify("workspace", "merge", {"workspaceRoots": ["/srv/a"]}))
    outcome = client.workspace_change_before(kind="cwd", change={"cwd": "/srv"})
    assert_proceeds(outcome)
    assert outcome.event["workspace"]["change"] == {"cwd": "/srv", "workspaceRoots": ["/srv/a"]}
    play(modify("workspace", "replace", {}))
    outcome = client.workspace_change_before(kind="cwd", change={"cwd": "/srv"})
    assert_synthetic_denial(outcome, failure_class="effects")
    play(modify("workspace", "merge", {"workspaceRoots": ["/a", "/a"]}))
    outcome = client.workspace_change_before(kind="cwd", change={"cwd": "/srv"})
    assert_synthetic_denial(outcome, failure_class="effects")


# --- the others -----------------------------------------------------------------------------------


def test_what_can_only_be_denied_is(client: Client, play: Play) -> None:
    """config.change.before and task.change.before."""
    play(DENY, note("see the handbook"))
    changes: Json = {
        "source": "user",
        "scope": "project",
        "settings": ["model"],
        "summary": "other",
    }
    for outcome in (
        client.config_change_before(**changes),
        client.task_change_before(task_id="t-1", operation="create", change={"a": 1}),
    ):
        assert_denied(outcome, "not here")
        assert outcome.messages == ("see the handbook",)


def test_a_session_is_told_about_its_context(client: Client, play: Play) -> None:
    """session.start: to be delivered now or with the next turn."""
    effects = [inject(message("i-2", "x")), inject(message("i-3", "y"), deliver_at="next_turn")]
    play(*effects)
    outcome = client.session_start(session="s-1")
    assert outcome.injections == tuple(effects)


def test_a_batch_is_stopped(client: Client, play: Play) -> None:
    """tool.batch.after."""
    play(stop("three failures"))
    call: Any = {
        "call": {"id": "c-1"},
        "tool": {"name": "Bash", "origin": "native", "input": {}},
        "path": "native",
        "outcome": "ok",
        "execution": {"status": "executed"},
    }
    outcome = client.tool_batch_after(batch="b-1", calls=[call])
    assert_stopped(outcome, "three failures")


def test_a_permission_request_is_edited_and_allowed(client: Client, play: Play) -> None:
    """tool.permission.request."""
    play(modify("input", "merge", {"dry": True}), {"type": "allow"})
    outcome = client.tool_permission_request(name="Bash", input={"a": 1}, call_id="c-2")
    assert_proceeds(outcome)
    assert (outcome.input, outcome.permission) == ({"a": 1, "dry": True}, "allow")
