"""Field bugs about time: each call is back by its deadline, whatever holds it up.

A test names the row of the list of field bugs that it belongs to, and does what the row says.
"""

from __future__ import annotations

import logging
import math
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from typing import Any, Callable, Optional

import pytest
from watching import GENEROUS, SLACK, statistics, timed, workers_are_free

from ahp_sync import Budget, Client, Outcome, RegistrationError, RetryPolicy
from ahp_sync.testing import (
    AuditLog,
    HttpBackend,
    assert_audit,
    assert_expired,
    assert_failed_open,
    assert_proceeds,
    assert_synthetic_denial,
    hooks,
    intercept,
    step,
)

ONCE = RetryPolicy(max_attempts=1)
Backends = Callable[..., HttpBackend]
Clients = Callable[..., Client]


def ask(client: Client, **more: Any) -> Outcome:
    return client.tool_before(name="Bash", input={"command": "ls"}, **more)


def test_f02_a_drip_of_the_body_does_not_restart_the_clock(
    ahp_http_backend: Backends, ahp_client: Clients
) -> None:
    """F02: a byte each 0.2 s; the call is back at 1 s, and its only worker free for the next."""
    backend = ahp_http_backend([step("drip_body", tick=0.2), "ok"])
    client = ahp_client(backend.registration(timeout_ms=1000), max_workers=1)
    outcome, seconds = timed(lambda: ask(client))
    assert_synthetic_denial(outcome, failure_class="deadline_exceeded")
    assert 1.0 <= seconds <= 1.0 + SLACK
    assert backend.wait_closed(0.5)
    assert backend.connection_log[0].closed_by == "client"
    assert_proceeds(ask(client))


class Resolver:
    """Stands in for name resolution: a lookup hangs until it is let go, or knows its answer."""

    def __init__(self) -> None:
        self.hangs = True
        self.released = threading.Event()
        self.addresses: Optional[list[Any]] = None
        self._resolve = socket.getaddrinfo

    def __call__(self, host: str, *more: Any, **options: Any) -> Any:
        if self.hangs:
            self.released.wait(GENEROUS)
            raise socket.gaierror("it never came")
        return self.addresses or self._resolve(host, *more, **options)


@pytest.fixture
def resolver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Resolver]:
    """The :class:`Resolver` of the process, which hangs at first."""
    resolver = Resolver()
    monkeypatch.setattr(socket, "getaddrinfo", resolver)
    yield resolver
    resolver.released.set()


@pytest.mark.parametrize("at_once", [6, 2], ids=["all-at-once", "in-rounds"])
def test_f07_name_resolution_does_not_outlast_the_deadline(
    at_once: int,
    resolver: Resolver,
    ahp_http_backend: Backends,
    ahp_client: Clients,
    ahp_audit: AuditLog,
) -> None:
    """F07: nothing ends a lookup, so its worker is written off; their number is bounded.

    Six such calls with two workers; then one whose lookup works is answered, or refused in time as
    saturated; and once the lookups are over, all is as before.
    """
    backend = ahp_http_backend("ok")
    url = f"http://localhost:{backend.port}/ahp"
    client = ahp_client(backend.registration(timeout_ms=500, url=url), max_workers=2, retry=ONCE)
    for _ in range(6 // at_once):
        with ThreadPoolExecutor(at_once) as callers:
            calls = [callers.submit(timed, lambda: ask(client)) for _ in range(at_once)]
        for call in calls:
            outcome, seconds = call.result()
            assert_synthetic_denial(outcome)
            assert seconds <= 0.5 + SLACK
    assert {one.failure_class for one in ahp_audit} <= {"deadline_exceeded", "saturated"}
    assert statistics(client).written_off <= 2
    assert statistics(client).threads <= 4

    resolver.hangs = False
    outcome, seconds = timed(lambda: ask(client))
    assert seconds <= 0.5 + SLACK
    if not outcome.may_execute:
        assert_synthetic_denial(outcome, failure_class="saturated")

    resolver.released.set()
    assert workers_are_free(client)
    assert_proceeds(ask(client))
    assert statistics(client).threads <= 2


@pytest.mark.parametrize("seconds", [0.75, 0.6, 10.0])
def test_f09_time_outs_add_up_only_to_the_budget_of_the_call(
    seconds: float, ahp_http_backend: Backends, ahp_client: Clients, ahp_audit: AuditLog
) -> None:
    """F09: four fail-open interceptors that hang, 0.3 s each.

    An enclosing budget that ends amidst them is never permission; a longer one is, flagged.
    """
    hung = ahp_http_backend("blackhole")
    client = ahp_client(
        hooks(
            *(hung.entry(id=f"com.example.{n}", timeout_ms=300, policy="fail-open") for n in "abcd")
        )
    )
    outcome, elapsed = timed(lambda: ask(client, budget=Budget(seconds)))
    assert elapsed <= min(seconds, 1.2) + SLACK
    kinds = [record.kind.value for record in ahp_audit]
    assert len(kinds) == 4
    if seconds == 10.0:
        assert_failed_open(outcome)
        assert len(outcome.failures) == 4
        assert kinds == ["failed_open"] * 4
        return
    assert_expired(outcome)
    assert not outcome.failed_open or outcome.may_execute is False
    assert_audit(ahp_audit, kind="expired", count=kinds.count("expired"))
    uncalled = assert_audit(ahp_audit, kind="not_called", count=kinds.count("not_called"))
    assert uncalled
    assert {record.code for record in uncalled} == {"out_of_budget"}
    assert kinds == sorted(kinds, key=["failed_open", "expired", "not_called"].index)


def test_f12_what_waits_in_the_queue_waits_on_its_own_budget(
    ahp_http_backend: Backends, ahp_client: Clients, ahp_audit: AuditLog
) -> None:
    """F12: with both workers hung, a healthy call fails in time and is never sent later."""
    backend = ahp_http_backend(lambda request: "blackhole" if is_hung(request.event) else "ok")
    client = ahp_client(backend.registration(timeout_ms=1000), max_workers=2, retry=ONCE)
    with ThreadPoolExecutor(2) as callers, cancelled(Budget(GENEROUS)) as budget:
        for _ in range(2):
            callers.submit(client.tool_before, name="hung", input={}, budget=budget)
        assert backend.wait_requests(2)
        outcome, seconds = timed(lambda: ask(client, budget=Budget(5.0)))
        assert seconds <= 1.0 + SLACK
        if not outcome.may_execute:
            assert_synthetic_denial(outcome)
            assert not [one for one in backend.requests if not is_hung(one.event)]
        quick, seconds = timed(lambda: ask(client, budget=Budget(0.2)))
        assert seconds <= 0.2 + SLACK
    assert workers_are_free(client)
    sent = {request.event["id"] for request in backend.requests}
    assert all(r.event_id in sent for r in ahp_audit if r.kind.value == "accepted")
    assert not sent & {r.event_id for r in ahp_audit if r.failure_class == "saturated"}
    assert_proceeds(ask(client))


def is_hung(event: Any) -> bool:
    return bool(event["tool"]["name"] == "hung")


@contextmanager
def cancelled(budget: Budget) -> Iterator[Budget]:
    """Cancel ``budget`` at the end."""
    try:
        yield budget
    finally:
        budget.cancel()
