"""F56: a machine that slept. The monotonic clock stood still, the token is long dead."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Callable

import pytest
from authorization_server import AuthorizationServer
from protected_backend import ProtectedBackend

from ahp_sync import Budget, Client
from ahp_sync.auth import access
from ahp_sync.testing import assert_denied

Clients = Callable[..., Client]


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The clocks that tokens are judged by; those of budgets and of the servers go on."""
    ahead = SimpleNamespace(wall=0.0, monotonic=0.0)
    fake = SimpleNamespace(
        time=lambda: time.time() + ahead.wall, monotonic=lambda: time.monotonic() + ahead.monotonic
    )
    monkeypatch.setattr(access, "time", fake)
    return ahead


def ask(client: Client) -> None:
    outcome = client.tool_before(name="Bash", input={}, budget=Budget(10))
    assert_denied(outcome)


def test_a_token_is_renewed_before_use_after_a_sleep(
    clocks: SimpleNamespace,
    server: AuthorizationServer,
    backend: ProtectedBackend,
    oauth_client: Clients,
) -> None:
    """F56: good for an hour; five seconds later by one clock it is five hours by the other."""
    server.lifetime = 3600
    client = oauth_client(backend.preset())
    ask(client)
    clocks.wall, clocks.monotonic = 5 * 3600.0, 5.0
    ask(client)
    assert len(server.token_requests) == 2
    clocks.wall, clocks.monotonic = -5 * 3600.0, 10.0  # set back: that makes none younger
    ask(client)
    assert len(server.token_requests) == 2
    clocks.monotonic = 3600.0
    ask(client)
    assert len(server.token_requests) == 3
    assert all(request.method == "POST" for request in backend.requests)
