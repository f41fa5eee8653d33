"""Every hook method, through the real client and a real HTTP backend."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from every_call import METHODS
from least_calls import LEAST

from ahp_sync import Capabilities, Client, Harness, InvalidEvent
from ahp_sync.protocol.events import EVENTS
from ahp_sync.testing import HttpBackend, assert_proceeds, observe


@pytest.fixture(scope="module")
def backend() -> Iterator[HttpBackend]:
    with HttpBackend() as backend:
        yield backend


@pytest.fixture(scope="module")
def client(backend: HttpBackend) -> Iterator[Client]:
    document = backend.registration(subscriptions=[observe(["*"], includeNative=True)])
    options: dict[str, Any] = {"source": "urn:example:tests", "harness": Harness("tests", "1")}
    with Client(document, observe_timeout=30.0, **options) as client:
        yield client


@pytest.mark.parametrize("event_type", EVENTS)
def test_an_observer_is_told_what_the_outcome_says(
    backend: HttpBackend, client: Client, event_type: str
) -> None:
    """The whole way: the method, the rules of the client, the wire."""
    outcome = getattr(client, METHODS[event_type])(**LEAST[event_type], native={"raw": event_type})
    assert_proceeds(outcome)
    assert not outcome.failures
    request = backend.requests[-1]
    assert request.message["method"] == "hooks/observe"
    assert request.event == outcome.event
    assert request.event["type"] == event_type
    assert request.event["native"] == {"raw": event_type}
    if event_type == "session.start":
        assert request.event["manifest"] == Capabilities().manifest()


def test_the_made_up_ids_of_a_turn_do_not_contradict_each_other(client: Client) -> None:
    """The client remembers who said what (R-EVT-03); a turn that goes on is told to its end."""
    model: Any = {"id": "m", "provider": "p"}
    client.turn_start(turn="t-9", prompt="Hi", session="s")
    for count in range(2):
        attempt: Any = {"id": f"a-9-{count}", "number": 1}
        client.model_response_after(
            model=model, attempt=attempt, finish_reason="stop", response="Hello", turn="t-9"
        )
        for text in ("1", "2"):
            client.turn_progress(turn="t-9", item="m-9", text=text)
            client.tool_progress(name="n", input={}, call_id="c-9", output=text)
        client.turn_finish_before(turn="t-9", response="Hello", continuation_count=count)
    client.tool_after(name="n", input={}, call_id="c-9", output="12")
    outcome = client.turn_end(turn="t-9", response="Hello", continuation_count=1)
    assert_proceeds(outcome)


def test_an_answer_finds_its_question(backend: HttpBackend, client: Client) -> None:
    """The request's event is all that the result needs (R-ELI-04)."""
    params = {
        "message": "Who?",
        "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
    }
    request = client.user_elicitation_request(server="s", params=params, session="x").event
    accepted = {"action": "accept", "content": {"name": "Jo"}}
    assert_proceeds(client.user_elicitation_result(result=accepted, request=request))
    assert backend.requests[-1].event["parentEventId"] == request["id"]
    with pytest.raises(InvalidEvent) as raised:
        client.user_elicitation_result(
            result={"action": "accept", "content": {"name": 5}}, request=request
        )
    assert raised.value.path == "$.elicitation.result"
    with pytest.raises(InvalidEvent) as raised:
        client.user_elicitation_result(result=accepted, request=request, session="y")
    assert raised.value.path == "$.session.id"
