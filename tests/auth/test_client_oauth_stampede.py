"""F17: many who need a token at once, a server whose refresh tokens are good once, one request."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable

import pytest
from authorization_server import REDIRECT_URI, AuthorizationServer, User
from protected_backend import ProtectedBackend
from watching import GENEROUS, SLACK, eventually, timed, workers_are_free

from ahp_sync import Budget, Client, Outcome
from ahp_sync.testing import assert_denied, assert_expired, assert_interrupted

Clients = Callable[..., Client]

MANY = 50


pytestmark = pytest.mark.usefixtures("nothing_is_left")


def ask(client: Client, **more: Any) -> Outcome:
    return client.tool_before(name="Bash", input={"command": "ls"}, **more)


def at_once(calls: Sequence[Callable[[], Any]]) -> list[Any]:
    """Make all calls at the same time, and return what they return, in order."""
    barrier = threading.Barrier(len(calls))

    def call(one: Callable[[], Any]) -> Any:
        barrier.wait(GENEROUS)
        return one()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(call, calls))


@pytest.fixture(params=["client_credentials", "authorization_code_pkce"])
def client(
    request: pytest.FixtureRequest,
    server: AuthorizationServer,
    backend: ProtectedBackend,
    oauth_client: Clients,
) -> Client:
    """A client of either flow."""
    if request.param == "client_credentials":
        return oauth_client(backend.preset(), timeout_ms=30_000)
    user = User(server)
    policy = {
        "open_url": user.open_url,
        "receive_code": user.receive_code,
        "redirect_uri": REDIRECT_URI,
    }
    return oauth_client(backend.pkce(), policy=policy, timeout_ms=30_000)


def test_of_fifty_without_a_token_one_asks(
    server: AuthorizationServer, backend: ProtectedBackend, client: Client
) -> None:
    for outcome in at_once([lambda: ask(client)] * MANY):
        assert_denied(outcome)
    assert len(server.token_requests) == 1
    assert (len(backend.accepted), len(backend.refused)) == (MANY, 0)


def test_of_fifty_with_an_expired_token_one_refreshes(
    server: AuthorizationServer, backend: ProtectedBackend, client: Client
) -> None:
    server.lifetime = 1
    assert_denied(ask(client))
    assert eventually(lambda: not server.accepts(server.issued[0].access_token))
    server.lifetime, backend_saw = 3600, len(backend.requests)
    for outcome in at_once([lambda: ask(client)] * MANY):
        assert_denied(outcome)
    assert len(server.token_requests) == 2
    [token] = {one.header("Authorization") for one in backend.requests[backend_saw:]}
    assert token == f"Bearer {server.issued[-1].access_token}"
    assert not server.revoked_families


def test_of_fifty_401s_one_refreshes(
    server: AuthorizationServer, backend: ProtectedBackend, client: Client
) -> None:
    """All are refused at the same moment, and each is resent once."""
    assert_denied(ask(client))
    server.issued[0].expires_at = 0.0
    backend.gathering = threading.Barrier(MANY)
    for outcome in at_once([lambda: ask(client)] * MANY):
        assert_denied(outcome)
    assert len(server.token_requests) == 2
    assert (len(backend.refused), len(backend.accepted)) == (MANY, MANY + 1)
    assert not server.revoked_families


def test_who_gives_up_takes_nobody_along(
    server: AuthorizationServer, backend: ProtectedBackend, client: Client
) -> None:
    """R-AUTH-05: ten have less time than the server takes, five are called off, the rest wait."""
    server.hang = threading.Event()
    short, cancelled = 10, 5
    budgets = [Budget(0.5) for _ in range(short)] + [Budget(GENEROUS) for _ in range(cancelled)]
    left = threading.Semaphore(0)

    def give_up(budget: Budget) -> tuple[Outcome, float]:
        found = timed(lambda: ask(client, budget=budget))
        left.release()
        return found

    def release() -> None:
        assert server.wait_token_requests(1)
        for budget in budgets[short:]:
            budget.cancel()
        for _ in budgets:
            assert left.acquire(timeout=GENEROUS)
        assert server.hang is not None
        server.hang.set()

    leaving: list[Callable[[], Any]] = [lambda budget=b: give_up(budget) for b in budgets]
    staying: list[Callable[[], Any]] = [lambda: ask(client)] * (MANY - len(budgets))
    found = at_once([*leaving, *staying, release])
    for outcome, seconds in found[:short]:
        assert_expired(outcome)
        assert seconds < 0.5 + 2 * SLACK
    for outcome, _ in found[short : len(budgets)]:
        assert_interrupted(outcome)
    for outcome in found[len(budgets) : -1]:
        assert_denied(outcome)
    assert len(server.token_requests) == 1
    assert len(backend.accepted) == len(staying)
    assert workers_are_free(client)


def test_when_all_give_up_the_next_has_the_token(
    server: AuthorizationServer, backend: ProtectedBackend, client: Client
) -> None:
    """The acquisition is the client's, not that of whoever came first."""
    server.hang = threading.Event()
    for outcome in at_once([lambda: ask(client, budget=Budget(0.3))] * 10):
        assert_expired(outcome)
    server.hang.set()
    assert_denied(ask(client))
    assert len(server.token_requests) == 1
