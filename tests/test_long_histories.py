"""Events with very long histories: checked as long as somebody waits for it, and no longer."""

from __future__ import annotations

from typing import Any

from inprocess import GENEROUS, Backend, intercept, observe, ok

from ahp_sync import Budget, Capabilities, Client, Decision, Harness
from ahp_sync.testing import hooks

EVENT = "model.request.before"


def client(backend: Backend) -> Client:
    """Return a client of the backend, which is asked and told."""
    return Client(
        hooks(
            {
                "id": backend.id,
                "transport": {"type": "http", "url": "http://127.0.0.1:9/"},
                "subscriptions": backend.subscriptions,
            }
        ),
        source="urn:example:host",
        harness=Harness("host", "1"),
        capabilities=Capabilities.whole(),
        transports={backend.id: backend},
    )


def payload(length: int, **last: Any) -> dict[str, Any]:
    """Return a payload with so many messages, the ``last`` of them changed."""
    items: list[Any] = [{"id": f"m{i}", "role": "user", "parts": []} for i in range(length)]
    items[-1].update(last)
    model = {"model": {"id": "m", "provider": "p"}, "attempt": {"id": "a", "number": 1}}
    return {**model, "params": {}, "items": items}


def test_a_long_history_is_asked_about() -> None:
    """All of it, in order."""
    backend = Backend(ok, intercept([EVENT], timeout_ms=60_000))
    with client(backend) as hooks_of_host:
        outcome = hooks_of_host.dispatch(EVENT, payload(5000))
    assert outcome.may_execute
    (sent,) = backend.messages
    assert sent["params"]["event"]["items"] == payload(5000)["items"]


def test_a_call_that_is_over_sends_nothing_of_a_history_that_was_not_checked() -> None:
    """What is behind the first messages is no message at all; nobody may stumble over it."""
    backend = Backend(ok, intercept([EVENT]), observe([EVENT]))
    budget = Budget(GENEROUS)
    budget.cancel()
    with client(backend) as hooks_of_host:
        outcome = hooks_of_host.dispatch(EVENT, payload(5000, role=7, parts="?"), budget=budget)
    assert outcome.decision is Decision.INTERRUPTED
    assert backend.messages == []
