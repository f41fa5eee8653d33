"""One acquisition for all who wait for it, whoever leaves (F17, R-AUTH-05)."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any, Callable

import pytest
from acquiring import Side, at_once, refused, value_of
from authorization_server import AuthorizationServer
from certificates import Authority
from watching import GENEROUS, SLACK, eventually, timed

from ahp_sync import Budget
from ahp_sync.auth.challenge import Challenge
from ahp_sync.auth.provider import OAuthEndpoint
from ahp_sync.auth.web import refusal
from ahp_sync.budget import BudgetEnded
from ahp_sync.failure import OperationalFailure
from ahp_sync.flights import Flight
from ahp_sync.workers import DeliveryExecutor

MANY = 50


pytestmark = pytest.mark.usefixtures("nothing_is_left")


@pytest.fixture
def side(authority: Authority, server: AuthorizationServer) -> Iterator[Side]:
    server.refresh_tokens_for_clients = True
    with Side(authority, server) as side:
        yield side


def ask(endpoint: OAuthEndpoint, budget: Any = None) -> str:
    return value_of(endpoint.token(budget or Budget(GENEROUS)))


def test_fifty_without_a_token(side: Side, server: AuthorizationServer) -> None:
    endpoint = side.service()
    found = at_once([lambda: ask(endpoint)] * MANY)
    assert set(found) == {server.issued[0].access_token}
    assert len(server.token_requests) == 1


def test_fifty_with_an_expired_one(side: Side, server: AuthorizationServer) -> None:
    endpoint = side.service()
    server.lifetime = 1
    ask(endpoint)
    time.sleep(1.0)
    server.lifetime = 3600
    found = at_once([lambda: ask(endpoint)] * MANY)
    assert set(found) == {server.issued[1].access_token}
    assert [one.form["grant_type"] for one in server.token_requests] == [
        *("client_credentials", "refresh_token")
    ]
    assert not server.revoked_families


def test_fifty_401s(side: Side, server: AuthorizationServer) -> None:
    """All hold the same token, and come back with it at different moments."""
    endpoint = side.service()
    token = endpoint.token(Budget(GENEROUS))

    def after(number: int) -> str:
        time.sleep(number * 0.002)
        return value_of(endpoint.after_401(token, Challenge(), Budget(GENEROUS)))

    found = at_once([lambda number=number: after(number) for number in range(MANY)])
    assert set(found) == {server.issued[1].access_token}
    assert len(server.token_requests) == 2
    assert not server.revoked_families


@pytest.mark.parametrize("how", ["expires", "cancelled", "aborted"])
def test_who_leaves_takes_nobody_along(side: Side, server: AuthorizationServer, how: str) -> None:
    """Ten of fifty leave in time, however; the others have what they came for."""
    endpoint = side.service()
    ask(endpoint)
    endpoint.invalidate(endpoint.token(Budget(GENEROUS)), None)
    server.hang = hang = threading.Event()
    budgets = [Budget(0.4 if how == "expires" else 30.0) for _ in range(10)]
    left = threading.Semaphore(0)

    def leaving(budget: Budget) -> float:
        began = time.monotonic()
        with pytest.raises(BudgetEnded):
            ask(endpoint, budget)
        left.release()
        return time.monotonic() - began

    def directing() -> None:
        assert server.wait_token_requests(2)
        time.sleep(0.2)
        for budget in budgets:
            {"cancelled": budget.cancel, "aborted": budget.abort}.get(how, str)()
        for _ in budgets:
            assert left.acquire(timeout=GENEROUS)
        hang.set()

    calls: list[Callable[[], Any]] = [lambda budget=one: leaving(budget) for one in budgets]
    found = at_once([*calls, *[lambda: ask(endpoint)] * (MANY - 10), directing])
    for seconds in found[:10]:
        assert isinstance(seconds, float), seconds
        assert seconds < 1.0 + SLACK
    assert set(found[10:-1]) == {server.issued[1].access_token}
    assert len(server.token_requests) == 2
    assert not server.revoked_families


def test_a_failure_is_told_to_all_who_wait(side: Side, server: AuthorizationServer) -> None:
    """Each has a failure of his own, whose attributes others do not change."""
    server.play(token="error_500")
    server.delay = 0.3
    endpoint = side.service()
    found = at_once([lambda: ask(endpoint)] * MANY)
    assert {getattr(one, "code", one) for one in found} == {"token_endpoint"}
    assert len({id(one) for one in found}) == MANY
    assert len(server.token_requests) < 10  # who came late began another one


def test_a_hung_one_is_given_up_and_the_next_begins_anew(
    authority: Authority, server: AuthorizationServer
) -> None:
    server.hang = threading.Event()
    with Side(authority, server, acquisition_timeout=0.5) as side:
        endpoint = side.service()
        found, seconds = timed(lambda: at_once([lambda: ask(endpoint)] * MANY))
        assert {getattr(one, "code", one) for one in found} == {"acquisition_timed_out"}
        assert 0.5 <= seconds < 1.0 + 2 * SLACK
        server.hang = None
        assert ask(endpoint) == server.issued[-1].access_token
        assert len(server.token_requests) == 2


def test_one_that_was_given_up_does_not_come_back(
    authority: Authority, server: AuthorizationServer
) -> None:
    """Its late answer is nobody's; a hung callback keeps only the worker that it is on."""
    released, calls = threading.Event(), []

    def secret(ref: str, budget: Budget) -> str:
        calls.append(ref)
        if len(calls) == 1:
            released.wait(GENEROUS)
        return "s3cret-of/the+service"

    with Side(authority, server, secret=secret, acquisition_timeout=0.4) as side:
        endpoint = side.service()
        refused(lambda: ask(endpoint), "acquisition_timed_out")
        assert side.executor.statistics().written_off == 1
        token = ask(endpoint)
        released.set()
        assert eventually(lambda: side.executor.statistics().written_off == 0)
        assert ask(endpoint) == token
        assert len(server.token_requests) == 1


def test_the_end_of_the_provider_ends_the_waiting(
    authority: Authority, server: AuthorizationServer
) -> None:
    server.hang = threading.Event()
    with Side(authority, server) as side:
        endpoint = side.service()

        def closing() -> None:
            assert server.wait_token_requests(1)
            side.provider.close()

        (found, _), seconds = timed(lambda: at_once([lambda: ask(endpoint), closing]))
        assert found.code == "acquisition_timed_out"
        assert seconds < 5.0


def test_waiting_lends_its_place_to_others(side: Side, server: AuthorizationServer) -> None:
    """F71: a pool of one, whose worker waits for a token, goes on with other work."""
    server.hang = hang = threading.Event()
    endpoint = side.service()
    waiting = side.lender.submit(ask, endpoint)
    assert server.wait_token_requests(1)
    side.lender.submit(hang.set).result(GENEROUS)
    assert waiting.result(GENEROUS) == server.issued[0].access_token


# --- the flight itself ---------------------------------------------------------------------------


@pytest.fixture
def executor() -> Iterator[DeliveryExecutor]:
    executor = DeliveryExecutor(4)
    yield executor
    executor.shutdown(cancel_futures=True)


def late() -> OperationalFailure:
    return refusal("late", "too late")


def test_a_result_may_be_none(executor: DeliveryExecutor) -> None:
    flight: Flight[None] = Flight(executor, Budget(5.0), late)
    flight.begin(lambda: None)
    assert [flight.wait(Budget(5.0), executor) for _ in range(2)] == [None, None]


@pytest.mark.parametrize("error", [ValueError("x"), SystemExit(), KeyboardInterrupt()])
def test_what_nobody_expects_is_nobody_s_wait(
    executor: DeliveryExecutor, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    def work() -> None:
        raise error

    flight: Flight[None] = Flight(executor, Budget(5.0), late)
    flight.begin(work)
    _, seconds = timed(lambda: refused(lambda: flight.wait(Budget(5.0), executor), "late"))
    assert seconds < 1.0
    assert type(error).__name__ in caplog.text


def test_one_without_a_worker_ends_at_its_own_bound() -> None:
    executor = DeliveryExecutor(1)
    gate = threading.Event()
    executor.submit(gate.wait, GENEROUS)
    flight: Flight[None] = Flight(executor, Budget(0.3), late)
    flight.begin(lambda: None)
    refused(lambda: flight.wait(Budget(5.0), executor), "late")
    gate.set()
    executor.shutdown()
    after: Flight[None] = Flight(executor, Budget(5.0), late)
    after.begin(lambda: None)
    refused(lambda: after.wait(Budget(5.0), executor), "late")


def test_who_comes_while_it_lands_has_the_result(executor: DeliveryExecutor) -> None:
    """No wake-up is lost, in two hundred rounds of eight."""
    for round_ in range(200):
        flight: Flight[int] = Flight(executor, Budget(GENEROUS), late)
        flight.begin(lambda round_=round_: round_)  # type: ignore[misc]
        found = [flight.wait(Budget(GENEROUS), executor) for _ in range(2)]
        assert found == [round_] * 2
    flight = Flight(executor, Budget(GENEROUS), late)
    gate = threading.Event()
    flight.begin(lambda: int(gate.wait(GENEROUS)))
    calls: list[Callable[[], Any]] = [lambda: flight.wait(Budget(GENEROUS), executor)] * 8
    found, seconds = timed(lambda: at_once([*calls, gate.set]))
    assert found[:-1] == [1] * 8
    assert seconds < 5.0
