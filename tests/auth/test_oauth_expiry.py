"""F56: a token is over by whichever clock says so first, and another is got in good time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Callable, Optional, Union

import pytest
from acquiring import refused
from watching import eventually

from ahp_sync import Budget
from ahp_sync.auth.access import AccessToken, Freshness, Grant
from ahp_sync.auth.store import TokenStore
from ahp_sync.auth.token_request import RefreshToken, TokenAnswer
from ahp_sync.auth.web import refusal
from ahp_sync.workers import DeliveryExecutor

GRANT = Grant(
    "https://auth.example.com", "https://b.example.com", "c", (), "client_credentials", ""
)
PKCE = Grant(
    "https://auth.example.com", "https://b.example.com", "c", (), "authorization_code_pkce", ""
)


class Clocks:
    """Both clocks, moved by hand on top of what they say."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wall = self.monotonic = 0.0
        wall, monotonic = time.time, time.monotonic
        monkeypatch.setattr("ahp_sync.auth.access.time.time", lambda: wall() + self.wall)
        monkeypatch.setattr(
            "ahp_sync.auth.access.time.monotonic", lambda: monotonic() + self.monotonic
        )

    def move(self, seconds: float) -> None:
        self.wall += seconds
        self.monotonic += seconds


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    return Clocks(monkeypatch)


@pytest.mark.parametrize(
    ("lifetime", "fresh_until", "good_until"),
    [(3600.0, 3540.0, 3590.0), (300.0, 240.0, 290.0), (100.0, 80.0, 95.0), (10.0, 8.0, 9.5)],
)
def test_a_token_ages(
    clocks: Clocks, lifetime: float, fresh_until: float, good_until: float
) -> None:
    token = AccessToken("t", GRANT, lifetime)
    slack = lifetime / 100  # these clocks run
    for at, expected in [
        (0.0, Freshness.FRESH),
        (fresh_until - slack, Freshness.FRESH),
        (fresh_until + slack, Freshness.AGEING),
        (good_until - slack, Freshness.AGEING),
        (good_until + slack, Freshness.OVER),
        (lifetime * 10, Freshness.OVER),
    ]:
        clocks.wall = clocks.monotonic = at
        assert token.freshness() is expected, at


def test_one_without_an_end_is_good_until_it_is_refused(clocks: Clocks) -> None:
    token = AccessToken("t", GRANT)
    clocks.move(1e9)
    assert token.freshness() is Freshness.FRESH


@pytest.mark.parametrize(
    ("wall", "monotonic", "expected"),
    [
        (5 * 3600.0, 5.0, Freshness.OVER),  # the machine slept
        (-5 * 3600.0, 5.0, Freshness.FRESH),  # the wall clock was set back
        (-5 * 3600.0, 3600.0, Freshness.OVER),
        (5.0, 3600.0, Freshness.OVER),
    ],
)
def test_the_clock_that_is_ahead_decides(
    clocks: Clocks, wall: float, monotonic: float, expected: Freshness
) -> None:
    """F56: the monotonic one stands still while the machine sleeps."""
    token = AccessToken("t", GRANT, 3600.0)
    clocks.wall, clocks.monotonic = wall, monotonic
    assert token.freshness() is expected


def test_nothing_shows_it() -> None:
    assert "canary" not in repr(AccessToken("canary", GRANT, 1.0))
    assert "canary" not in repr(RefreshToken("canary"))
    assert "canary" not in repr(TokenAnswer(AccessToken("canary", GRANT), RefreshToken("canary")))


# --- the store, and one that acquires by script --------------------------------------------------


class Source:
    """Acquires what it is told: a lifetime in seconds, or a failure's code. Records its asking."""

    def __init__(self, *answers: Union[float, str]) -> None:
        self.answers = list(answers)
        self.asked: list[Optional[str]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.refreshable = False
        self.spends = True

    def __call__(self, refresh_token: Optional[RefreshToken], budget: Budget) -> TokenAnswer:
        self.asked.append(None if refresh_token is None else refresh_token.value)
        assert self.gate.wait(10.0)
        if refresh_token is not None:
            refresh_token.spent = self.spends
        answer, number = self.answers.pop(0), len(self.asked)
        if isinstance(answer, str):
            raise refusal(answer, "as the script says")
        refresh = RefreshToken(f"refresh-{number}") if self.refreshable else None
        return TokenAnswer(AccessToken(f"token-{number}", GRANT, answer), refresh)


@pytest.fixture
def store() -> Iterator[TokenStore]:
    executor = DeliveryExecutor(4)
    store = TokenStore(executor, DeliveryExecutor(1))
    yield store
    store.close()
    executor.shutdown(cancel_futures=True)


@pytest.fixture
def ask(store: TokenStore) -> Callable[..., str]:
    def asking(source: Source, grant: Grant = GRANT) -> str:
        return store.token(grant, source, 5.0, Budget(5.0)).value

    return asking


def test_a_good_token_is_used_again(ask: Callable[..., str]) -> None:
    source = Source(3600.0)
    assert [ask(source) for _ in range(3)] == ["token-1"] * 3
    assert source.asked == [None]


def test_an_ageing_one_is_used_while_another_is_got(
    clocks: Clocks, ask: Callable[..., str]
) -> None:
    """Nobody waits for it, however long that takes, and it is begun once."""
    source = Source(100.0, 100.0)
    assert ask(source) == "token-1"
    clocks.move(85.0)
    source.gate.clear()
    assert [ask(source) for _ in range(20)] == ["token-1"] * 20
    source.gate.set()
    assert eventually(lambda: ask(source) == "token-2")
    assert source.asked == [None, None]


def test_one_that_is_over_is_waited_for(clocks: Clocks, ask: Callable[..., str]) -> None:
    source = Source(100.0, 100.0)
    assert ask(source) == "token-1"
    clocks.move(96.0)
    assert ask(source) == "token-2"


def test_after_a_refresh_in_vain_there_is_a_pause(clocks: Clocks, ask: Callable[..., str]) -> None:
    """The token is still good; who asks meanwhile does not have the server asked each time."""
    source = Source(100.0, "token_endpoint", "token_endpoint", 100.0)
    assert ask(source) == "token-1"
    clocks.move(82.0)
    assert ask(source) == "token-1"
    assert eventually(lambda: len(source.asked) == 2)
    for _ in range(20):
        assert ask(source) == "token-1"
    assert len(source.asked) == 2
    clocks.move(6.0)
    assert ask(source) == "token-1"
    assert eventually(lambda: len(source.asked) == 3)
    clocks.move(10.0)  # over: now it has to be
    assert ask(source) == "token-4"


def test_a_failure_is_not_kept(ask: Callable[..., str]) -> None:
    source = Source("token_endpoint", 3600.0)
    refused(lambda: ask(source), "token_endpoint")
    assert ask(source) == "token-2"


def test_a_refresh_token_is_given_up_once_it_was_sent(
    clocks: Clocks, ask: Callable[..., str]
) -> None:
    """F17: whatever became of it. One that was certainly not sent is kept."""
    source = Source(100.0, "authorization_server_unreachable", "token_endpoint", 100.0)
    source.refreshable = True
    assert ask(source) == "token-1"
    clocks.move(100.0)
    source.spends = False
    refused(lambda: ask(source), "authorization_server_unreachable")
    source.spends = True
    refused(lambda: ask(source), "token_endpoint")
    assert ask(source) == "token-4"
    assert source.asked == [None, "refresh-1", "refresh-1", None]


def test_nobody_is_asked_for_a_grant_ahead_of_time(clocks: Clocks, ask: Callable[..., str]) -> None:
    """Where that means asking a user, and no refresh token spares it."""
    source = Source(100.0, 100.0)
    assert ask(source, PKCE) == "token-1"
    clocks.move(90.0)
    assert ask(source, PKCE) == "token-1"
    clocks.move(10.0)
    assert ask(source, PKCE) == "token-2"
    assert source.asked == [None, None]


def test_with_a_refresh_token_it_is_done_ahead_of_time(
    clocks: Clocks, ask: Callable[..., str]
) -> None:
    source = Source(100.0, 100.0)
    source.refreshable = True
    assert ask(source, PKCE) == "token-1"
    clocks.move(90.0)
    assert ask(source, PKCE) == "token-1"
    assert eventually(lambda: ask(source, PKCE) == "token-2")
    assert source.asked == [None, "refresh-1"]


def test_only_the_token_that_was_refused_is_given_up(store: TokenStore) -> None:
    source = Source(3600.0, 3600.0, 3600.0)
    first = store.token(GRANT, source, 5.0, Budget(5.0))
    second = store.other(GRANT, first, source, 5.0, Budget(5.0))
    assert store.other(GRANT, first, source, 5.0, Budget(5.0)) is second
    store.forget(first)
    assert store.token(GRANT, source, 5.0, Budget(5.0)) is second
    store.forget(second)
    assert store.token(GRANT, source, 5.0, Budget(5.0)).value == "token-3"


def test_after_the_end_nothing_is_acquired(store: TokenStore) -> None:
    source = Source(3600.0)
    store.close()
    refused(lambda: store.token(GRANT, source, 5.0, Budget(5.0)), "acquisition_timed_out")
    assert source.asked == []
