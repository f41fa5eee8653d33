"""``hook.failure``: each interceptor's failure is told to the others (R-FAIL-05)."""

from __future__ import annotations

from typing import Any, Callable, Optional

import pytest
from answering import DENY, PAYLOADS, says
from inprocess import Act, Backend, fails, hangs, intercept, observe, refused

from ahp_sync import Budget, Capabilities, Client, Grant, Outcome
from ahp_sync.protocol.events import EVENTS
from ahp_sync.protocol.validation import event_problem
from ahp_sync.testing import (
    AuditLog,
    HttpBackend,
    StdioBackend,
    assert_audit,
    assert_denied,
    assert_failed_open,
    assert_interrupted,
    assert_proceeds,
    assert_synthetic_denial,
)

Clients = Callable[..., Client]
Json = dict[str, Any]

WATCHER = "com.example.watcher"


def watcher(id: str = WATCHER, **options: Any) -> Backend:
    """Return a backend that is told of failures."""
    return Backend(None, observe(["hook.failure"], **options), id=id)


def broken(act: Optional[Act] = None, number: int = 0, policy: str = "fail-open") -> Backend:
    """Return an interceptor that fails."""
    subscription = intercept(policy=policy, timeout_ms=20_000)
    return Backend(act or fails(refused), subscription, id=f"com.example.n{number}")


def ask(client: Client, **options: Any) -> Outcome:
    return client.dispatch("tool.before", PAYLOADS["tool.before"], **options)


@pytest.mark.parametrize("policy", ["fail-open", "fail-closed"])
def test_a_failure_is_told_with_its_parent_and_its_policy(
    policy: str, open_client: Clients
) -> None:
    """R-FAIL-05: a valid event of its own, of the same source and session, under both policies."""
    told = watcher()
    client = open_client(broken(policy=policy), told)
    outcome = ask(client, event_id="e-1", session={"id": "s-1", "cwd": "/srv"})
    assert outcome.may_execute is (policy == "fail-open")
    (message,) = told.messages
    assert "id" not in message
    event = message["params"]["event"]
    assert event["type"] == "hook.failure"
    assert event_problem("hook.failure", event) is None
    assert event["parentEventId"] == "e-1"
    assert event["id"] not in ("", "e-1")
    assert event["session"] == {"id": "s-1", "cwd": "/srv"}
    assert (event["source"], event["harness"]) == (
        outcome.event["source"],
        outcome.event["harness"],
    )
    assert event["failure"] == {
        "backendId": "com.example.n0",
        "reason": "connection/connect_refused",
        "policy": policy,
    }


def test_without_a_session_there_is_none(open_client: Clients) -> None:
    """Nothing is made up."""
    told = watcher()
    ask(open_client(broken(), told))
    assert "session" not in told.events[0]


def test_the_reason_has_nothing_of_the_backend(open_client: Clients) -> None:
    """R-FAIL-04, R-ERR-02: neither a sample, nor an error's message, nor what stderr said."""
    secret = fails(lambda: refused(sample="hunter2", stderr="hunter2"))

    def error(backend: Backend, message: Json, budget: Budget) -> bytes:
        return (
            b'{"jsonrpc":"2.0","id":"%s","error":{"code":-32603,"message":"hunter2",'
            b'"data":"hunter2"}}' % message["id"].encode()
        )

    def nonsense(backend: Backend, message: Json, budget: Budget) -> bytes:
        return b"hunter2"

    told = watcher()
    ask(open_client(broken(secret), broken(error, 1), broken(nonsense, 2), told))
    assert [event["failure"]["reason"] for event in sorted_(told)] == [
        "connection/connect_refused",
        "rpc_error/rpc_error",
        "malformed/not_json",
    ]
    assert b"hunter2" not in b"".join(told.bodies)


def sorted_(backend: Backend) -> list[Json]:
    """Return the failures in the order of the backends they are of: observers have none."""
    return sorted(backend.events, key=lambda event: str(event["failure"]["backendId"]))


def test_each_failure_is_an_event_of_its_own(open_client: Clients) -> None:
    """All of them, with ids of their own and the one parent."""
    told = watcher()
    backends = [broken(number=0), broken(number=1), broken(number=2, policy="fail-closed")]
    outcome = ask(open_client(*backends, told))
    assert_synthetic_denial(outcome)
    found = sorted_(told)
    assert [event["failure"]["backendId"] for event in found] == [one.id for one in backends]
    assert [event["failure"]["policy"] for event in found] == ["fail-open"] * 2 + ["fail-closed"]
    assert len({event["id"] for event in found}) == 3
    assert {event["parentEventId"] for event in found} == {outcome.event["id"]}


def test_a_backend_with_two_failing_subscriptions_is_told_of_twice(open_client: Clients) -> None:
    """R-FAIL-01: once for each subscription."""
    told = watcher()
    twice = broken()
    twice.subscriptions *= 2
    ask(open_client(twice, told))
    assert len(told.messages) == 2


def test_it_is_never_told_to_the_backend_that_failed(open_client: Clients) -> None:
    """R-FAIL-05: not through another subscription of it either; to the other one that failed."""
    one, two = broken(number=1), broken(number=2)
    for backend in (one, two):
        backend.subscriptions.append(observe(["*"]))
    ask(open_client(one, two))
    for backend, other in ((one, two), (two, one)):
        failures = [event for event in backend.events if event["type"] == "hook.failure"]
        assert [event["failure"]["backendId"] for event in failures] == [other.id]


def test_a_failure_of_the_hosts_own_is_not_told_to_who_failed(open_client: Clients) -> None:
    """R-FAIL-05: ``client.hook_failure`` about a backend goes to all others, and not to it."""
    failed, other = watcher("com.example.failed"), watcher()
    client = open_client(failed, other)
    for name in (failed.id, "com.example.of-the-host"):
        outcome = client.hook_failure(
            backend_id=name, reason="down", policy="fail-open", parent_event_id="e-1"
        )
        assert_proceeds(outcome)
    told = [[one["failure"]["backendId"] for one in each.events] for each in (failed, other)]
    assert told == [["com.example.of-the-host"], [failed.id, "com.example.of-the-host"]]


def test_a_wildcard_observer_is_told(open_client: Clients) -> None:
    """``*`` and ``hook.*`` select it, as any other event; content levels apply to it, too."""
    everything = Backend(None, observe(["*"], content={"default": "omit"}), id="com.example.all")
    family = Backend(None, observe(["hook.*"]), id="com.example.family")
    ask(open_client(broken(), everything, family))
    assert sorted(event["type"] for event in everything.events) == ["hook.failure", "tool.before"]
    assert [event["type"] for event in family.events] == ["hook.failure"]


def test_where_it_is_not_declared_it_is_not_told(open_client: Clients) -> None:
    """A host that says it raises no such event raises none."""
    observed = tuple(name for name in EVENTS if name != "hook.failure")
    everything = Backend(None, observe(["*"]), id="com.example.all")
    client = open_client(
        broken(),
        everything,
        capabilities=Capabilities({"tool.before": Grant(("deny",))}, observed),
    )
    assert_failed_open(ask(client))
    assert [event["type"] for event in everything.events] == ["tool.before"]


def test_a_denial_is_no_failure(open_client: Clients) -> None:
    """R-FAIL-02: nor is a neutral answer, nor an observer that could not be told (R-FAIL-03)."""
    told = watcher()
    deaf = Backend(fails(refused), observe(), id="com.example.deaf")
    assert_denied(ask(open_client(Backend(says(DENY)), deaf, told)))
    assert_proceeds(ask(open_client(Backend(), deaf, watcher("com.example.w2"))))
    assert told.messages == []


def test_a_refused_answer_is_a_failure_like_any_other(open_client: Clients) -> None:
    """With the class and the code of the refusal."""
    told = watcher()
    ask(open_client(broken(says(DENY, {"type": "retry"})), told))
    assert told.events[0]["failure"]["reason"] == "effects/unknown_effect"


def test_a_watcher_that_fails_is_recorded_and_told_of_to_nobody(
    open_client: Clients, records: AuditLog
) -> None:
    """It changes nothing, and begins no chain of failures about failures."""
    deaf = Backend(fails(refused), observe(["hook.failure"]), id="com.example.deaf")
    told = watcher()
    outcome = ask(open_client(broken(), deaf, told), event_id="e-1")
    assert_failed_open(outcome)
    assert len(outcome.failures) == 1
    assert len(told.messages) == 1
    (record,) = assert_audit(records, kind="observation_failed")
    assert (record.backend, record.event_type) == (deaf.id, "hook.failure")
    assert record.event_id == deaf.events[0]["id"]


@pytest.mark.parametrize("policy", ["fail-open", "fail-closed"])
def test_it_is_told_after_settlement(policy: str, open_client: Clients) -> None:
    """Every interceptor is through with it before the first watcher hears of a failure."""
    order: list[str] = []

    def notes(name: str, act: Act) -> Act:
        def noting(backend: Backend, message: Json, budget: Budget) -> Optional[bytes]:
            order.append(name)
            return act(backend, message, budget)

        return noting

    told = watcher()
    told.act = notes("told", told.act)
    first = broken(notes("first", fails(refused)), 0)
    second = broken(notes("second", fails(refused)), 1, policy)
    ask(open_client(told, first, second))
    assert order == ["first", "second", "told", "told"]


def test_after_an_interruption_it_is_not_told(open_client: Clients) -> None:
    """R-OBS-04: whatever failed before it."""
    budget = Budget(30)

    def cancels(backend: Backend, message: Json, own: Budget) -> Optional[bytes]:
        budget.cancel()
        return hangs(backend, message, own)

    told = watcher()
    outcome = ask(open_client(broken(), broken(cancels, 1), told), budget=budget)
    assert_interrupted(outcome)
    assert len(outcome.failures) == 1
    assert told.messages == []


def test_a_guarded_tool_and_the_network(ahp_http_backend: Any, ahp_stdio_backend: Any) -> None:
    """A server that answers 500 fails open; a process is told, and the server is not."""
    from ahp_sync import Harness

    backend: HttpBackend = ahp_http_backend("status_500")
    process: StdioBackend = ahp_stdio_backend("ok")
    document = backend.registration(
        subscriptions=[intercept(policy="fail-open", timeout_ms=20_000), observe(["*"])]
    )
    document["hooks"].append(process.entry(subscriptions=[observe(["hook.*"])]))
    with Client(
        document, source="urn:x:y", harness=Harness("t", "1"), observe_timeout=20.0
    ) as client:
        assert client.guard(lambda: 7, name="seven")() == 7
        assert process.wait_requests(1)
    (line,) = process.requests
    assert line.event["failure"] == {
        "backendId": "com.example.http",
        "reason": "http_status/http_500",
        "policy": "fail-open",
    }
    assert not any(one.event["type"] == "hook.failure" for one in backend.requests)
