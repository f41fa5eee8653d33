"""Retries: only what may be tried again, only inside the same budget (R-RETRY-01 to 03)."""

from __future__ import annotations

import threading
import time
from typing import Any, Callable, Optional

import pytest
from clock import Clock
from hypothesis import given
from hypothesis import strategies as st
from inprocess import SLACK, Backend, answer, deny, fails, intercept, observe, ok, refused

from ahp_sync import Client, Decision, FailureClass, Harness, RetryPolicy
from ahp_sync.budget import Budget, BudgetEnded
from ahp_sync.failure import OperationalFailure
from ahp_sync.retry import with_retries
from ahp_sync.testing.audit_log import AuditLog
from ahp_sync.testing.http_backend import HttpBackend
from ahp_sync.testing.registrations import hooks
from ahp_sync.testing.steps import step

OpenClient = Callable[..., Client]
FAST = RetryPolicy(max_attempts=5, initial_backoff=0.001, max_backoff=0.002, jitter=0)


class TimedBudget(Budget):
    """A budget whose sleeps take no time: they move its clock, and are remembered."""

    def __init__(self, seconds: float, clock: Clock) -> None:
        super().__init__(seconds, clock=clock)
        self.time = clock
        self.sleeps: list[float] = []

    def sleep(self, seconds: float) -> bool:
        assert seconds < self.remaining(), "a sleep was begun that can't end in time"
        self.sleeps.append(seconds)
        self.time.advance(seconds)
        return True


# --- the policy -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"max_attempts": 0}, ValueError),
        ({"max_attempts": -1}, ValueError),
        ({"max_attempts": True}, TypeError),
        ({"max_attempts": 2.0}, TypeError),
        ({"max_attempts": "3"}, TypeError),
        ({"max_attempts": None}, TypeError),
        ({"initial_backoff": 0}, ValueError),
        ({"initial_backoff": float("nan")}, ValueError),
        ({"initial_backoff": "1"}, TypeError),
        ({"max_backoff": float("inf")}, ValueError),
        ({"max_backoff": None}, TypeError),
        ({"max_backoff": True}, TypeError),
        ({"jitter": -0.1}, ValueError),
        ({"jitter": False}, TypeError),
        ({"jitter": "0"}, TypeError),
        ({"jitter": None}, TypeError),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(
    values: dict[str, Any], error: type[Exception]
) -> None:
    """At construction, with the name of the field (F58)."""
    with pytest.raises(error, match=next(iter(values))):
        RetryPolicy(**values)


def test_a_policy_is_a_value() -> None:
    """It is frozen, equal by content, and may do without jitter."""
    assert RetryPolicy(jitter=0) == RetryPolicy(jitter=0)
    with pytest.raises(AttributeError):
        RetryPolicy().max_attempts = 9  # type: ignore[misc]


# --- schedules ------------------------------------------------------------------------------------

TIMES = st.floats(min_value=0.001, max_value=20)
POLICIES = st.builds(
    RetryPolicy,
    max_attempts=st.integers(1, 8),
    initial_backoff=TIMES,
    max_backoff=TIMES,
    jitter=st.just(0) | TIMES,
)
ATTEMPTS = st.lists(
    st.tuples(st.floats(0, 5), st.none() | st.floats(min_value=0, max_value=1e10)), max_size=10
)


@given(POLICIES, st.floats(min_value=0.1, max_value=60), ATTEMPTS)
def test_nothing_begins_that_cannot_end_in_time(
    policy: RetryPolicy, seconds: float, attempts: list[tuple[float, Optional[float]]]
) -> None:
    """Whatever takes how long and asks for which pause, the schedule stays inside the budget."""
    clock = Clock(0.0)
    budget = TimedBudget(seconds, clock)
    begun: list[int] = []
    asked: list[Optional[float]] = []

    def attempt(number: int) -> str:
        assert clock() < seconds, "an attempt was begun after the deadline"
        begun.append(number)
        if number > len(attempts):
            return "answer"
        takes, retry_after = attempts[number - 1]
        clock.advance(takes)
        asked.append(retry_after)
        raise refused(retryable=True, retry_after=retry_after)

    try:
        assert with_retries(attempt, budget, policy) == "answer"
    except (OperationalFailure, BudgetEnded):
        assert len(begun) <= len(attempts)
    assert begun == list(range(1, len(begun) + 1))
    assert len(begun) <= policy.max_attempts
    assert len(budget.sleeps) in (len(begun) - 1, len(begun))
    for pause, wanted in zip(budget.sleeps, asked):
        if wanted is None:
            assert 0 < pause <= policy.max_backoff
        else:
            assert pause == wanted


@given(st.integers(2, 8), TIMES, TIMES)
def test_pauses_double_up_to_the_longest(count: int, initial: float, longest: float) -> None:
    """Without jitter the schedule is exactly the documented one."""
    budget = TimedBudget(1e6, Clock(0.0))
    policy = RetryPolicy(max_attempts=count, initial_backoff=initial, max_backoff=longest, jitter=0)
    with pytest.raises(OperationalFailure):
        with_retries(lambda number: _refuse(), budget, policy)
    expected = [min(initial * 2**number, longest) for number in range(count - 1)]
    assert budget.sleeps == pytest.approx(expected)


def _refuse(**facts: Any) -> None:
    raise refused(retryable=True, **facts)


def test_a_pause_longer_than_the_rest_is_not_begun() -> None:
    """A wait of 0.9 s fits once into a budget of 1 s, and then never again (F19)."""
    clock = Clock(0.0)
    budget, begun = TimedBudget(1.0, clock), []
    policy = RetryPolicy(max_attempts=9, initial_backoff=0.9, max_backoff=0.9, jitter=0)

    def attempt(number: int) -> None:
        begun.append(clock())
        _refuse()

    with pytest.raises(OperationalFailure) as raised:
        with_retries(attempt, budget, policy)
    assert begun == [0.0, 0.9]
    assert raised.value.code == "connect_refused"


@pytest.mark.parametrize("retry_after", [3600.0, 9999999999.0, float("inf")])
def test_an_absurd_wish_to_wait_ends_the_retries_at_once(retry_after: float) -> None:
    """What the backend asks for is honoured where it fits, and else nothing is waited for (F20)."""
    started = time.monotonic()
    with pytest.raises(OperationalFailure):
        with_retries(lambda number: _refuse(retry_after=retry_after), Budget(1), RetryPolicy())
    assert time.monotonic() - started < 0.2


def test_the_last_failure_is_the_one_that_is_raised() -> None:
    """Each attempt may fail in its own way; the caller hears of the last."""
    codes = iter(["first", "second", "third"])

    def attempt(number: int) -> None:
        raise OperationalFailure(FailureClass.CONNECTION, next(codes), "", retryable=True)

    policy = RetryPolicy(max_attempts=3, initial_backoff=0.001)
    with pytest.raises(OperationalFailure) as raised:
        with_retries(attempt, Budget(10), policy)
    assert raised.value.code == "third"


def test_cancelling_wakes_a_pause() -> None:
    """A retry that was waited for is not begun once the call is over."""
    budget, begun = Budget(10), []

    def attempt(number: int) -> None:
        begun.append(number)
        _refuse()

    threading.Timer(0.1, budget.cancel).start()
    started = time.monotonic()
    with pytest.raises(BudgetEnded):
        with_retries(attempt, budget, RetryPolicy(initial_backoff=5, max_backoff=5))
    assert time.monotonic() - started < 0.1 + SLACK
    assert begun == [1]


@pytest.mark.parametrize("error", [ValueError(), BudgetEnded(), KeyboardInterrupt(), refused()])
def test_only_what_is_marked_is_tried_again(error: BaseException) -> None:
    """Neither at the first attempt nor at a later one is anything else repeated."""
    for good in (0, 1):
        begun: list[int] = []

        def attempt(number: int, good: int = good, begun: list[int] = begun) -> None:
            begun.append(number)
            if number <= good:
                _refuse()
            raise error

        with pytest.raises(type(error)):
            with_retries(attempt, Budget(10), FAST)
        assert len(begun) == good + 1


def test_a_policy_of_one_attempt_never_retries() -> None:
    """``max_attempts=1`` means no retry."""
    begun: list[int] = []

    def attempt(number: int) -> None:
        begun.append(number)
        _refuse()

    with pytest.raises(OperationalFailure):
        with_retries(attempt, Budget(1), RetryPolicy(max_attempts=1))
    assert begun == [1]


# --- deliveries -----------------------------------------------------------------------------------


def flaky(failures: int, then: Callable[..., Any] = ok) -> Callable[..., Any]:
    """Refuses the first messages, then acts as told."""

    def act(backend: Backend, message: dict[str, Any], budget: Budget) -> Any:
        if len(backend.messages) <= failures:
            raise refused(retryable=True)
        return then(backend, message, budget)

    return act


def test_every_attempt_sends_the_same_object(open_client: OpenClient, records: AuditLog) -> None:
    """One serialisation is reused, so that ids and contents can't differ (AHP-CORE-004)."""
    backend = Backend(flaky(2, deny()))
    outcome = open_client(backend, retry=FAST).tool_before(name="Bash", input={"a": 1})
    assert outcome.decision is Decision.DENY
    assert len(backend.bodies) == 3
    assert all(body is backend.bodies[0] for body in backend.bodies)
    assert [record.attempts for record in records] == [3]


def test_an_observer_is_told_again_with_the_same_object(open_client: OpenClient) -> None:
    """A notification whose loss was noticed may be repeated, unchanged (R-RETRY-03)."""
    backend = Backend(flaky(1), observe())
    open_client(backend, retry=FAST).session_end(session="s")
    assert len(backend.bodies) == 2
    assert backend.bodies[0] is backend.bodies[1]


@pytest.mark.parametrize("act", [ok, deny()])
def test_a_decision_and_an_empty_success_are_final(open_client: OpenClient, act: Any) -> None:
    """Neither an explicit denial nor a neutral answer is asked for twice (R-RETRY-02)."""
    backend = Backend(act)
    open_client(backend, retry=FAST).tool_before(name="Bash", input={})
    assert len(backend.messages) == 1


@pytest.mark.parametrize(
    ("act", "attempts"),
    [
        (lambda backend, message, budget: b"", 1),
        (lambda backend, message, budget: b"oops", 1),
        (lambda backend, message, budget: answer("another"), 1),
        (lambda backend, message, budget: answer(message["id"], {"type": "allow"}), 1),
        (fails(OperationalFailure(FailureClass.AUTHENTICATION, "unauthorized", "no")), 1),
        (fails(ValueError("a bug of the transport")), 1),
        (fails(refused(retryable=True)), 5),
        (lambda backend, message, budget: _rpc_error(message["id"], -32603), 1),
        (lambda backend, message, budget: _rpc_error(message["id"], -32001), 1),
        (lambda backend, message, budget: _rpc_error(message["id"], -32003), 5),
    ],
)
def test_what_is_never_and_what_is_tried_again(
    open_client: OpenClient, act: Any, attempts: int
) -> None:
    """Malformed answers, other errors and authentication never are; unavailability is."""
    backend = Backend(act)
    outcome = open_client(backend, retry=FAST).tool_before(name="Bash", input={})
    assert outcome.synthetic
    assert [failure.attempts for failure in outcome.failures] == [attempts]
    assert len(backend.messages) == attempts


def _rpc_error(rpc_id: str, code: int) -> bytes:
    return b'{"jsonrpc":"2.0","id":"%s","error":{"code":%d,"message":"m"}}' % (
        rpc_id.encode(),
        code,
    )


def test_retries_end_with_the_deadline_of_their_interceptor(open_client: OpenClient) -> None:
    """No number of attempts moves the deadline (AHP-FAIL-002)."""
    backend = Backend(fails(refused(retryable=True)), intercept(timeout_ms=200))
    policy = RetryPolicy(max_attempts=10**6, initial_backoff=0.01, max_backoff=0.05)
    started = time.monotonic()
    outcome = open_client(backend, retry=policy).tool_before(name="Bash", input={})
    assert time.monotonic() - started < 0.2 + SLACK
    assert outcome.synthetic
    assert outcome.failures[0].attempts > 2


# --- over HTTP ------------------------------------------------------------------------------------


def _ask(backend: HttpBackend, timeout_ms: int, retry: RetryPolicy) -> tuple[Any, float]:
    with Client(
        hooks(backend.entry(timeout_ms=timeout_ms)),
        source="urn:example:tests",
        harness=Harness("tests", "1"),
        retry=retry,
    ) as client:
        started = time.monotonic()
        outcome = client.tool_before(name="Bash", input={})
        return outcome, time.monotonic() - started


@pytest.mark.parametrize("text", ["3600", "9999999999", "9" * 400, "Fri, 31 Dec 9999 23:59:59 GMT"])
def test_a_retry_after_beyond_the_deadline_ends_the_call(text: str) -> None:
    """The caller has its failure at once, with the status, and no traceback of a number (F20)."""
    with HttpBackend(step("status_503", headers={"Retry-After": text})) as backend:
        outcome, seconds = _ask(backend, 1000, RetryPolicy())
        assert seconds < 0.2 + SLACK
        assert outcome.synthetic
        assert [failure.code for failure in outcome.failures] == ["http_503"]
        assert len(backend.requests) == 1


@pytest.mark.parametrize(
    "text", ["-5", "soon", "", "1.5.2", "²", "Fri, 31 Dec 1999 23:59:59 GMT", "0x10"]
)
def test_an_unreadable_retry_after_means_the_normal_backoff(text: str) -> None:
    """Negative, past and senseless values are as good as none (F20)."""
    steps = [step("status_503", headers={"Retry-After": text}), "ok"]
    with HttpBackend(steps) as backend:
        outcome, seconds = _ask(backend, 5000, RetryPolicy(initial_backoff=0.01))
        assert outcome.may_execute
        assert not outcome.failures
        assert seconds < 1
        assert len(backend.requests) == 2


def test_a_retry_after_that_fits_is_honoured() -> None:
    """The backend's wish beats our own schedule where there is time for it (F20)."""
    steps = [step("status_429", headers={"Retry-After": "1"}), "ok"]
    with HttpBackend(steps) as backend:
        outcome, seconds = _ask(backend, 5000, RetryPolicy(initial_backoff=0.001, jitter=0))
        assert outcome.may_execute
        assert seconds >= 1
        first, second = backend.requests
        assert first.body == second.body
