"""How a call ends that does not end by itself: out of time, cancelled, or with its client.

None of it is permission, whatever the policies say; only what was decided before stands.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable

import pytest
from clock import Clock
from inprocess import (
    SLACK,
    Act,
    Backend,
    deny,
    fails,
    hangs,
    intercept,
    observe,
    ok,
    refused,
    stuck,
)
from watching import timed, workers_are_free

from ahp_sync import AuditRecord, Budget, Client, ClientClosed, Decision, Outcome
from ahp_sync.testing import AuditLog, assert_audit, assert_denied, assert_interrupted

Clients = Callable[..., Client]
POLICIES = ("fail-open", "fail-closed")
REASONS = {
    Decision.EXPIRED: "The hook call ran out of time.",
    Decision.INTERRUPTED: "The hook call was interrupted.",
}
CODES = {Decision.EXPIRED: "out_of_budget", Decision.INTERRUPTED: "interrupted"}


class End:
    """A call's budget and one way for it to end, at once and for good."""

    def __init__(self, decision: Decision) -> None:
        self.decision = decision
        self._clock = Clock()
        self.budget = Budget(100, clock=self._clock)

    def __call__(self) -> None:
        if self.decision is Decision.EXPIRED:
            self._clock.advance(101)
        else:
            self.budget.cancel()


@pytest.fixture(params=[Decision.EXPIRED, Decision.INTERRUPTED], ids=str)
def end(request: pytest.FixtureRequest) -> End:
    """Either end of a call."""
    return End(request.param)


class EndingSink:
    """An audit sink that ends the call once the first record is written."""

    def __init__(self, end: Callable[[], object]) -> None:
        self._end = end

    def write(self, record: AuditRecord) -> None:
        self._end()


def ask(client: Client, **more: Any) -> Outcome:
    return client.tool_before(name="Bash", input={"command": "ls"}, **more)


def assert_ended(outcome: Outcome, end: End) -> None:
    """Assert that the call ended by itself: no permission, and no denial either."""
    assert outcome.decision is end.decision
    assert not outcome.may_execute
    assert not outcome.synthetic
    assert outcome.reason == REASONS[end.decision]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_call_that_ended_before_it_began_asks_nobody(
    policy: str, end: End, open_client: Clients, records: AuditLog
) -> None:
    """R-DL-02: no interceptor is asked and no observer told."""
    backend = Backend(ok, intercept(policy=policy), observe())
    end()
    outcome = ask(open_client(backend), budget=end.budget)
    assert_ended(outcome, end)
    assert (outcome.failures, outcome.failed_open) == ((), False)
    assert backend.messages == []
    assert_audit(records, kind="not_called", code=CODES[end.decision])
    assert_audit(records, kind="observation_failed")


def test_an_ended_call_is_no_permission_without_interceptors_either(
    end: End, open_client: Clients
) -> None:
    """The host's own limit counts even where nobody would have been asked."""
    backend = Backend(ok, observe())
    end()
    assert_ended(ask(open_client(backend), budget=end.budget), end)
    assert backend.messages == []


@pytest.mark.parametrize("policy", POLICIES)
def test_a_call_that_ends_between_two_interceptors_asks_no_more(
    policy: str, end: End, open_client: Clients, records: AuditLog
) -> None:
    """An incomplete chain is never permission, although the first had nothing against it."""
    first = Backend(ok, intercept(policy=policy))
    second = Backend(ok, intercept(policy=policy), id="com.example.two")
    client = open_client(first, second, audit=[records, EndingSink(end)])
    assert_ended(ask(client, budget=end.budget), end)
    assert (first.methods, second.methods) == (["intercept"], [])
    assert [record.kind.value for record in records] == ["accepted", "not_called"]


def test_a_call_that_ends_right_after_the_last_interceptor_is_no_permission(
    end: End, open_client: Clients, records: AuditLog
) -> None:
    """The end is looked at once more when the chain is through."""
    client = open_client(Backend(), audit=[records, EndingSink(end)])
    assert_ended(ask(client, budget=end.budget), end)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("act", [ok, deny(), fails(refused)], ids=["ok", "deny", "failure"])
def test_a_call_that_ends_while_it_is_asked_about_is_no_permission(
    act: Act, policy: str, end: End, open_client: Clients, records: AuditLog
) -> None:
    """R-DL-03: the end overrides fail-open, and an approval or denial that comes with it."""

    def ends(backend: Backend, message: dict[str, Any], budget: Budget) -> Any:
        end()
        return act(backend, message, budget)

    first = Backend(ends, intercept(policy=policy))
    second = Backend(ok, id="com.example.two")
    outcome = ask(open_client(first, second), budget=end.budget)
    assert_ended(outcome, end)
    assert (outcome.failures, outcome.failed_open) == ((), False)
    assert second.messages == []
    assert [record.kind.value for record in records] == [end.decision.value, "not_called"]


@pytest.mark.parametrize("act", [hangs, stuck], ids=["hangs", "stuck"])
def test_a_cancelled_call_is_back_at_once(act: Act, open_client: Clients) -> None:
    """From another thread, and even where nothing reaches the worker."""
    backend = Backend(act, intercept(policy="fail-open", timeout_ms=30_000))
    client, budget = open_client(backend), Budget(30)
    with ThreadPoolExecutor(1) as caller:
        call = caller.submit(ask, client, budget=budget)
        assert backend.started.wait(SLACK * 40)
        budget.cancel()
        outcome, seconds = timed(call.result)
    assert_interrupted(outcome)
    assert seconds <= SLACK


def test_a_budget_serves_several_calls_and_is_not_consumed_by_them(open_client: Clients) -> None:
    """Each call has a child of it: the end of one call is none of the budget's."""
    backend, budget = Backend(), Budget(30)
    client = open_client(backend)
    for _ in range(3):
        assert ask(client, budget=budget).may_execute
    assert not budget.ended


# --- during observation -----------------------------------------------------------------------


def observer_that(end: Callable[[], object]) -> Backend:
    def ends(backend: Backend, message: dict[str, Any], budget: Budget) -> None:
        end()

    return Backend(ends, observe(), id="com.example.observer")


def test_time_that_ends_during_observation_changes_no_decision(open_client: Clients) -> None:
    """R-OBS-05: interception was complete in time."""
    end = End(Decision.EXPIRED)
    assert ask(open_client(Backend(), observer_that(end)), budget=end.budget).may_execute


def test_a_call_cancelled_during_observation_is_interrupted(open_client: Clients) -> None:
    """R-DL-03: an interruption overrides an approval that is not yet the host's."""
    end = End(Decision.INTERRUPTED)
    assert_ended(ask(open_client(Backend(), observer_that(end)), budget=end.budget), end)


def test_a_denial_stays_one_whatever_ends_afterwards(end: End, open_client: Clients) -> None:
    """Neither end of the call takes a denial back, or its reason."""
    client = open_client(Backend(deny("no")), observer_that(end))
    assert_denied(ask(client, budget=end.budget), "no")


# --- close ------------------------------------------------------------------------------------

CALLS: dict[str, Callable[[Client], object]] = {
    "tool_before": ask,
    "tool_after": lambda client: client.tool_after(name="Bash", input={}, call_id="c"),
    "session_start": lambda client: client.session_start(session="s"),
    "session_end": lambda client: client.session_end(session="s"),
    "dispatch": lambda client: client.dispatch("tool.before", {}),
    "guard": lambda client: client.guard(lambda: None, name="noop")(),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_closed_client_raises_and_touches_no_transport(
    call: Callable[[Client], object], open_client: Clients, records: AuditLog
) -> None:
    """R-SHUT-01: calls after shutdown fail locally."""
    backend = Backend(ok, intercept(), observe())
    client = open_client(backend)
    client.close()
    with pytest.raises(ClientClosed):
        call(client)
    assert (backend.messages, len(records)) == ([], 0)


def test_closing_twice_is_fine_and_says_so(open_client: Clients) -> None:
    """Also as a context manager, and the representation tells the state."""
    client = open_client(Backend())
    assert not client.closed
    assert "open" in repr(client)
    with client as entered:
        assert entered is client
        client.close()
    client.close()
    assert client.closed
    assert "closed" in repr(client)


def test_closing_does_not_close_what_is_the_hosts(open_client: Clients) -> None:
    """Injected transports stay open, and serve the next client."""
    backend = Backend()
    with open_client(backend) as client:
        ask(client)
    assert not backend.closed
    assert ask(open_client(backend)).may_execute


@pytest.fixture
def callers() -> Iterator[ThreadPoolExecutor]:
    """Threads to call from."""
    with ThreadPoolExecutor(16) as pool:
        yield pool


@pytest.mark.parametrize("policy", POLICIES)
def test_closing_interrupts_the_calls_in_flight(
    policy: str, callers: ThreadPoolExecutor, open_client: Clients, records: AuditLog
) -> None:
    """R-SHUT-01: they come back at once, without permission, and their workers are joined."""
    backend = Backend(hangs, intercept(policy=policy, timeout_ms=30_000))
    client = open_client(backend, max_workers=4)
    calls = [callers.submit(ask, client) for _ in range(8)]  # four of them wait in the queue
    assert backend.started.wait(10)
    _, seconds = timed(client.close)
    for call in calls:
        try:
            assert_interrupted(call.result(SLACK))
        except ClientClosed:
            pass  # it came only after the others were interrupted
    assert seconds <= SLACK
    kinds = {record.kind.value for record in records}
    assert "interrupted" in kinds
    assert kinds <= {"interrupted", "not_called"}
    assert workers_are_free(client)


def test_closing_during_observation_interrupts(
    callers: ThreadPoolExecutor, open_client: Clients
) -> None:
    """Close does not wait for observers, and the approval is not handed out any more."""
    observer = Backend(hangs, observe(), id="com.example.observer")
    client = open_client(Backend(), observer, observe_timeout=30)
    call = callers.submit(ask, client)
    assert observer.started.wait(10)
    client.close()
    assert_interrupted(call.result(SLACK))


def test_closing_is_bounded_with_a_worker_that_nothing_reaches(
    callers: ThreadPoolExecutor, open_client: Clients
) -> None:
    """It takes its time-out and no more; the call is back before that."""
    backend = Backend(stuck, intercept(timeout_ms=30_000))
    client = open_client(backend)
    call = callers.submit(ask, client)
    assert backend.started.wait(10)
    _, seconds = timed(lambda: client.close(timeout=0.2))
    assert_interrupted(call.result(0.05))
    assert seconds <= 0.2 + SLACK


def test_several_may_close_at_once_while_others_call(
    callers: ThreadPoolExecutor, open_client: Clients
) -> None:
    """Every close returns in time; every call is settled honestly or refused."""
    backend = Backend(ok, intercept(timeout_ms=30_000), observe())
    client, go = open_client(backend), threading.Barrier(16)

    def call() -> set[str]:
        go.wait(10)
        found = set()
        for _ in range(20):
            try:
                found.add(ask(client).decision.value)
            except ClientClosed:
                found.add("closed")
        return found

    def close() -> float:
        go.wait(10)
        return timed(client.close)[1]

    calls = [callers.submit(call) for _ in range(12)]
    closes = [callers.submit(close) for _ in range(4)]
    assert max(one.result() for one in closes) <= SLACK
    for one in calls:
        assert one.result() <= {"proceed", "interrupted", "closed"}
    sent = len(backend.messages)
    with pytest.raises(ClientClosed):
        ask(client)
    assert len(backend.messages) == sent


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), True, "1"])
def test_a_bad_time_for_close_closes_nothing(timeout: Any, open_client: Clients) -> None:
    """The error names the value and its unit."""
    client = open_client(Backend())
    with pytest.raises((TypeError, ValueError), match=r"timeout must be a .*number of seconds"):
        client.close(timeout)
    assert not client.closed
