"""What a client makes of its backends: order, short circuit, policy, observers, threads."""

from __future__ import annotations

import gc
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable

import pytest
from clock import Clock
from inprocess import (
    GENEROUS,
    SLACK,
    Act,
    Backend,
    answer,
    deny,
    document,
    fails,
    hangs,
    intercept,
    observe,
    ok,
    refused,
    stuck,
)
from watching import eventually, timed, workers_are_free

from ahp_sync import GENERIC_REASON, AuditKind, Budget, Client, Harness, Outcome
from ahp_sync.testing import (
    AuditLog,
    assert_audit,
    assert_denied,
    assert_failed_open,
    assert_proceeds,
    assert_synthetic_denial,
)

Clients = Callable[..., Client]
OPEN, CLOSED = intercept(policy="fail-open"), intercept(policy="fail-closed")


def ask(client: Client, **more: Any) -> Outcome:
    return client.tool_before(name="Bash", input={"command": "ls"}, **more)


def line_up(*acts: Act, subscription: Any = CLOSED) -> list[Backend]:
    """Return one backend for each act, all with the same subscription."""
    return [Backend(act, subscription, id=f"com.example.n{i}") for i, act in enumerate(acts)]


def kinds(records: AuditLog) -> list[str]:
    return [record.kind.value for record in records]


# --- order and short circuit ------------------------------------------------------------------


def test_interceptors_are_asked_one_after_another(open_client: Clients) -> None:
    """R-SET-01: in registration order, across backends and within one, never two at once."""
    one_at_a_time, order = threading.Lock(), []

    def act(backend: Backend, message: dict[str, Any], budget: Budget) -> bytes:
        assert one_at_a_time.acquire(blocking=False)
        order.append(backend.id)
        one_at_a_time.release()
        return answer(message["id"])

    first, second, third = line_up(act, act, act)
    second.subscriptions = [CLOSED, OPEN]
    assert_proceeds(ask(open_client(third, first, second)))
    assert order == [third.id, first.id, second.id, second.id]


@pytest.mark.parametrize(
    ("act", "kind"),
    [
        pytest.param(deny(), "explicit_denial", id="denial"),
        pytest.param(fails(refused), "synthetic_denial", id="fail-closed"),
    ],
)
def test_the_chain_ends_at_the_first_denial(
    act: Act, kind: str, open_client: Clients, records: AuditLog
) -> None:
    """R-SET-08: nobody behind it is asked; they are told, and the record says why."""
    first, second, third, fourth = line_up(ok, act, ok, ok)
    outcome = ask(open_client(first, second, third, fourth))
    assert_denied(outcome, synthetic=kind == "synthetic_denial")
    assert [one.methods for one in (first, second)] == [["intercept"], ["intercept"]]
    assert [one.methods for one in (third, fourth)] == [["observe"], ["observe"]]
    assert kinds(records) == ["accepted", kind, "not_called", "not_called"]
    assert_audit(records, kind="not_called", code="short_circuit", attempts=0, count=2)


def test_who_is_not_asked_sees_only_what_is_its_own(open_client: Clients) -> None:
    """R-CON-06: an uncalled interceptor is told under its own projection, without an id."""
    denier, blind, sighted = line_up(deny(), ok, ok)
    sighted.subscriptions = [intercept(includeNative=True)]
    ask(open_client(denier, blind, sighted), native={"raw": 1}, event_id="e-1")
    assert [one.methods for one in (blind, sighted)] == [["observe"], ["observe"]]
    assert "native" not in blind.events[0]
    assert sighted.events[0]["native"] == {"raw": 1}
    for message in (*blind.messages, *sighted.messages):
        assert "id" not in message
        assert message["params"].keys() == {"protocolVersion", "event"}
        assert message["params"]["event"]["id"] == "e-1"


def test_who_was_asked_gets_no_copy(open_client: Clients) -> None:
    """Not even where it failed: it has had the event already."""
    failed, good, denier = line_up(fails(refused), ok, deny(), subscription=OPEN)
    assert_denied(ask(open_client(failed, good, denier)))
    assert failed.methods == good.methods == denier.methods == ["intercept"]


def test_an_observe_subscription_of_the_same_backend_is_told_all_the_same(
    open_client: Clients,
) -> None:
    """R-REG-03: it is a subscription of its own, whatever became of the others."""
    backend = Backend(ok, intercept(), observe())
    assert_proceeds(ask(open_client(backend)))
    assert backend.methods == ["intercept", "observe"]


def test_two_subscriptions_are_two_deliveries(open_client: Clients) -> None:
    """R-REG-03, R-RPC-02: with the same event and JSON-RPC id; the first does not settle both."""
    backend = Backend(ok, CLOSED, OPEN, observe(), observe())
    assert_proceeds(ask(open_client(backend), event_id="e-1"))
    assert sorted(backend.methods) == ["intercept", "intercept", "observe", "observe"]
    assert {event["id"] for event in backend.events} == {"e-1"}
    assert [message.get("id") for message in backend.messages] == ["e-1", "e-1", None, None]
    assert backend.bodies[0] == backend.bodies[1]


def test_nothing_is_sent_where_nothing_matches(open_client: Clients, records: AuditLog) -> None:
    """Without a subscription for the event, the call proceeds and leaves no record."""
    backend = Backend(ok, intercept(), observe(["session.end"]))
    client = open_client(backend)
    assert_proceeds(client.tool_after(name="Bash", input={}, call_id="c-1"))
    assert_proceeds(client.session_start(session="s-1"))
    assert (backend.messages, len(records)) == ([], 0)
    assert_proceeds(client.session_end(session="s-1"))
    assert backend.methods == ["observe"]


# --- policy -----------------------------------------------------------------------------------


def test_a_denial_is_the_backends_own_under_either_policy(
    open_client: Clients, records: AuditLog
) -> None:
    """AHP-FAIL-001: an explicit deny is no failure; its words are untrusted in the record."""
    for subscription in (OPEN, CLOSED):
        records.clear()
        outcome = ask(open_client(Backend(deny("Not on Fridays."), subscription)))
        assert_denied(outcome, "Not on Fridays.", synthetic=False)
        assert (outcome.failures, outcome.failed_open) == ((), False)
        (record,) = records
        assert (record.kind, record.synthetic) == (AuditKind.EXPLICIT_DENIAL, False)
        assert dict(record.untrusted) == {"reason": "Not on Fridays."}


def test_fail_closed_denies_for_the_generic_reason(open_client: Clients, records: AuditLog) -> None:
    """AHP-FAIL-001, R-FAIL-04: synthetic in the outcome and in the record, and no detail told."""
    error = refused(http_status=503, sample="secret plans")
    outcome = ask(open_client(Backend(fails(error), CLOSED)))
    assert_synthetic_denial(outcome, failure_class="connection")
    assert outcome.reason == GENERIC_REASON
    assert not outcome.failed_open
    assert "secret plans" not in str(outcome)
    (record,) = assert_audit(records, kind="synthetic_denial", synthetic=True, policy="fail-closed")
    assert (record.failure_class, record.code) == ("connection", "connect_refused")
    assert (record.http_status, record.attempts) == (503, 1)
    assert dict(record.untrusted) == {"sample": "secret plans"}


def test_fail_open_goes_on_and_says_so(open_client: Clients, records: AuditLog) -> None:
    """AHP-FAIL-001: unchanged, flagged, and the others are still asked."""
    failed, good = line_up(fails(refused), ok, subscription=OPEN)
    outcome = ask(open_client(failed, good))
    assert_failed_open(outcome, failure_class="connection")
    assert (outcome.reason, outcome.synthetic) == (None, False)
    (failure,) = outcome.failures
    assert (failure.backend, failure.subscription, failure.attempts) == (failed.id, 0, 1)
    assert kinds(records) == ["failed_open", "accepted"]
    assert_audit(records, kind="failed_open", synthetic=False)


def test_all_failures_of_a_call_are_told_in_order(open_client: Clients) -> None:
    """Two that fail open and one that does not: the last decides, all three are named."""
    backends = line_up(fails(refused), fails(refused), fails(refused), subscription=OPEN)
    backends[2].subscriptions = [CLOSED]
    outcome = ask(open_client(*backends))
    assert_synthetic_denial(outcome)
    assert outcome.failed_open
    assert [failure.backend for failure in outcome.failures] == [one.id for one in backends]


@pytest.mark.parametrize(
    "act",
    [
        pytest.param(fails(lambda: ValueError("token=hunter2")), id="ValueError"),
        pytest.param(fails(lambda: OSError(5, "token=hunter2")), id="OSError"),
        pytest.param(fails(RecursionError), id="RecursionError"),
        pytest.param(fails(StopIteration), id="StopIteration"),
        pytest.param(lambda backend, message, budget: "{}", id="text"),
        pytest.param(lambda backend, message, budget: {"result": {}}, id="mapping"),
    ],
)
@pytest.mark.parametrize("subscription", [OPEN, CLOSED], ids=["open", "closed"])
def test_a_broken_transport_is_a_failure_and_raises_nothing(
    act: Act, subscription: Any, open_client: Clients, records: AuditLog
) -> None:
    """Whatever an injected transport raises or returns goes through the policy, untold."""
    outcome = ask(open_client(Backend(act, subscription)))
    check = assert_failed_open if subscription is OPEN else assert_synthetic_denial
    check(outcome, failure_class="connection")
    assert "hunter2" not in str(outcome) + str(records.records)


def test_a_transport_that_returns_no_reply_at_all_is_a_failure(open_client: Clients) -> None:
    """Something that is no ``Reply`` is a broken transport, and None is no answer."""
    backend = Backend()
    client = open_client(backend)
    for strange in (b"{}", 5, object()):
        backend.exchange = lambda message, budget, it=strange: it  # type: ignore[misc, method-assign]
        assert_synthetic_denial(ask(client), failure_class="connection")
    backend.exchange = lambda message, budget: None  # type: ignore[method-assign]
    assert_synthetic_denial(ask(client), failure_class="malformed")


# --- late answers -----------------------------------------------------------------------------


def test_an_answer_complete_only_after_the_deadline_does_not_count(
    open_client: Clients, records: AuditLog
) -> None:
    """AHP-FAIL-002: it is there, and is a failure of the class late_response all the same."""
    clock = Clock()

    def late(backend: Backend, message: dict[str, Any], budget: Budget) -> Any:
        clock.advance(2)  # the deadline of the subscription is 1 s
        return ok(backend, message, budget)

    client = open_client(Backend(late, CLOSED))
    outcome = ask(client, budget=Budget(10, clock=clock))
    assert_synthetic_denial(outcome, failure_class="late_response")
    assert_audit(records, kind="synthetic_denial", code="late")


def test_what_comes_after_the_deadline_changes_nothing(
    open_client: Clients, records: AuditLog
) -> None:
    """AHP-FAIL-002: a late denial revives nothing, writes nothing and answers no other call."""
    backend = Backend(stuck, intercept(policy="fail-open", timeout_ms=100))
    client = open_client(backend)
    outcome, seconds = timed(lambda: ask(client))
    assert_failed_open(outcome, failure_class="deadline_exceeded")
    assert seconds <= 0.1 + SLACK
    before, settled = records.records, str(outcome)
    backend.act = deny("mine")
    assert_denied(ask(client), "mine")

    backend.released.set()
    assert workers_are_free(client)
    assert (records.records[: len(before)], str(outcome)) == (before, settled)
    assert len(records) == len(before) + 1
    backend.act = ok
    assert_proceeds(ask(client))


# --- observers --------------------------------------------------------------------------------


def observers(*acts: Act) -> list[Backend]:
    return line_up(*acts, subscription=observe())


def test_observers_are_told_side_by_side(open_client: Clients) -> None:
    """R-OBS-02: each of them waits for the others, so one after another would never end."""
    together = threading.Barrier(4)

    def act(backend: Backend, message: dict[str, Any], budget: Budget) -> None:
        together.wait(GENEROUS)

    told = observers(act, act, act, act)
    assert_proceeds(ask(open_client(*told, observe_timeout=GENEROUS)))
    assert not together.broken
    assert [one.methods for one in told] == [["observe"]] * 4


def test_observers_are_told_after_the_decision(open_client: Clients) -> None:
    """Only what is settled is told: the last interceptor is done before the first observer."""
    order: list[str] = []

    def act(backend: Backend, message: dict[str, Any], budget: Budget) -> bytes:
        order.append(message["method"])
        return answer(message.get("id"))

    ask(open_client(Backend(act, observe(), intercept()), Backend(act, id="com.example.two")))
    assert order == ["hooks/intercept", "hooks/intercept", "hooks/observe"]


@pytest.mark.parametrize("decider", [ok, deny()], ids=["ok", "deny"])
def test_observers_are_bounded_together_and_change_nothing(
    decider: Act, open_client: Clients, records: AuditLog
) -> None:
    """R-OBS-05: hung, stuck, failing and denying observers cost ``observe_timeout`` at most."""
    silent = observers(hangs, stuck, hangs)
    failing = Backend(fails(refused), observe(), id="com.example.failing")
    denying = Backend(deny("me too"), observe(), id="com.example.denying")
    judge = Backend(decider, id="com.example.judge")
    client = open_client(*silent, failing, denying, judge, observe_timeout=0.2)
    outcome, seconds = timed(lambda: ask(client))
    assert outcome.may_execute is (decider is ok)
    assert (outcome.failures, outcome.failed_open, outcome.synthetic) == ((), False, False)
    assert 0.2 <= seconds <= 0.2 + SLACK
    untold = assert_audit(records, kind="observation_failed", policy=None, count=4)
    assert [record.failure_class for record in untold] == ["deadline_exceeded"] * 3 + ["connection"]


def test_observation_stays_within_the_budget_of_the_call(
    open_client: Clients, records: AuditLog
) -> None:
    """The call's own budget is the shorter one; the decision that was made in time stands."""
    client = open_client(Backend(), *observers(hangs), observe_timeout=GENEROUS)
    outcome, seconds = timed(lambda: ask(client, budget=Budget(0.2)))
    assert_proceeds(outcome)
    assert seconds <= 0.2 + SLACK
    assert kinds(records) == ["accepted", "observation_failed"]


# --- threads ----------------------------------------------------------------------------------


def test_one_client_serves_many_threads(open_client: Clients, records: AuditLog) -> None:
    """16 threads, 50 calls each: all ids differ, and each call gets its own answer."""

    def judge(backend: Backend, message: dict[str, Any], budget: Budget) -> bytes:
        number = message["params"]["event"]["tool"]["input"]["number"]
        return (deny(f"not {number}") if number % 3 == 0 else ok)(backend, message, budget)  # type: ignore[return-value]

    backend = Backend(judge, intercept(timeout_ms=30_000))
    client = open_client(backend, max_workers=4)

    def caller(thread: int) -> list[tuple[int, Outcome]]:
        numbers = range(thread * 50, thread * 50 + 50)
        return [(n, client.tool_before(name="Bash", input={"number": n})) for n in numbers]

    with ThreadPoolExecutor(16) as pool:
        results = [pair for part in pool.map(caller, range(16)) for pair in part]
    for number, outcome in results:
        assert outcome.input == {"number": number}
        if number % 3:
            assert_proceeds(outcome)
        else:
            assert_denied(outcome, f"not {number}")
    assert len({outcome.event["id"] for _, outcome in results}) == 800
    assert len({outcome.event["call"]["id"] for _, outcome in results}) == 800
    assert len({message["id"] for message in backend.messages}) == len(records) == 800


def test_a_dropped_client_leaves_no_thread() -> None:
    """Without ``close``: its workers end when it is collected."""
    before: Sequence[threading.Thread] = threading.enumerate()
    backend = Backend(ok, intercept(), observe())
    client = Client(
        document([backend]),
        source="urn:example:tests",
        harness=Harness("tests", "1"),
        transports={backend.id: backend},
        audit=AuditLog(),
    )
    assert_proceeds(ask(client))
    assert set(threading.enumerate()) > set(before)
    del client
    gc.collect()
    assert eventually(lambda: set(threading.enumerate()) <= set(before))


def test_a_retry_does_not_hide_what_failed_before_it(
    open_client: Callable[..., Client], records: AuditLog
) -> None:
    """A deadline that ends a second attempt still tells how the first one failed (F01)."""

    def crashes_then_hangs(backend: Backend, message: dict[str, Any], budget: Budget) -> Any:
        if len(backend.messages) > 1:
            return hangs(backend, message, budget)
        raise refused(retryable=True, exit_status=3, stderr="Traceback")

    backend = Backend(crashes_then_hangs, intercept(timeout_ms=300))
    outcome = open_client(backend).tool_before(name="Bash", input={})
    assert [failure.failure_class.value for failure in outcome.failures] == ["deadline_exceeded"]
    assert "connection/connect_refused" in outcome.failures[0].detail
    (record,) = records.records
    assert (record.exit_status, record.attempts) == (3, 2)
    assert record.untrusted["stderr"] == "Traceback"
