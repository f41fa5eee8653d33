"""Every hook method, through the real client and a real HTTP backend."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from every_call import METHODS
from test_hook_options import LEAST

from ahp_sync import Capabilities, Client, Harness
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
