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
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from typing import Any, Callable, Optional

import pytest
from watching import GENEROUS, SLACK, statistics, timed, workers_are_free

from ahp_sync import Budget, Client, Harness, Outcome, RegistrationError, RetryPolicy
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
    assert_audit(ahp_audit, kind="expired", count=kinds.count("expired"))
    uncalled = assert_audit(ahp_audit, kind="not_called", count=kinds.count("not_called"))
    assert uncalled
    assert {record.code for record in uncalled} == {"out_of_budget"}
    assert kinds == sorted(kinds, key=["failed_open", "expired", "not_called"].index)


def test_f12_what_waits_in_the_queue_waits_on_its_own_budget(
    ahp_http_backend: Backends, ahp_client: Clients, ahp_audit: AuditLog
) -> None:
    """F12: both workers are hung. Who expires in the queue is never sent, not even later.

    A healthy call with more time is answered by it, or saturated.
    """
    backend = ahp_http_backend(lambda request: "blackhole" if is_hung(request.event) else "ok")
    client = ahp_client(backend.registration(timeout_ms=1000), max_workers=2, retry=ONCE)
    with ThreadPoolExecutor(2) as callers:
        for _ in range(2):
            callers.submit(client.tool_before, name="hung", input={})
        assert backend.wait_requests(2)
        expired, seconds = timed(lambda: ask(client, budget=Budget(0.3)))
        assert_expired(expired)
        assert seconds <= 0.3 + SLACK
        outcome, seconds = timed(lambda: ask(client))
        assert seconds <= 1.0 + SLACK
        if not outcome.may_execute:
            assert_synthetic_denial(outcome)
    assert workers_are_free(client)
    assert_proceeds(ask(client))
    sent = {request.event["id"] for request in backend.requests}
    assert expired.event["id"] not in sent
    assert not sent & {one.event_id for one in ahp_audit if one.failure_class == "saturated"}


def is_hung(event: Any) -> bool:
    return bool(event["tool"]["name"] == "hung")


def test_f19_no_pause_and_no_attempt_begins_that_can_not_end_in_time(
    ahp_http_backend: Backends, ahp_client: Clients
) -> None:
    """F19: always 503, a pause of 0.9 s, 1 s in all: two attempts, and no second pause."""
    backend = ahp_http_backend("status_503")
    client = ahp_client(
        backend.registration(timeout_ms=1000),
        retry=RetryPolicy(max_attempts=10, initial_backoff=0.9, max_backoff=0.9, jitter=0),
    )
    began = time.monotonic()
    outcome, seconds = timed(lambda: ask(client))
    assert_synthetic_denial(outcome, failure_class="http_status")
    assert seconds <= 1.0 + 0.05
    assert 1 <= len(backend.requests) <= 2
    assert all(request.time < began + 1.0 for request in backend.requests)


NOW = datetime.now(timezone.utc)
IN_AN_HOUR, LONG_AGO = (format_datetime(NOW + timedelta(hours=h), usegmt=True) for h in (1, -9000))


@pytest.mark.parametrize(
    "wait", ["3600", "9999999999", "9" * 400, pytest.param(IN_AN_HOUR, id="a date")]
)
def test_f20_a_wait_that_does_not_fit_ends_the_call(
    wait: str, ahp_http_backend: Backends, ahp_client: Clients, ahp_audit: AuditLog
) -> None:
    """F20: the backend asks for more time than there is; nobody sleeps for that."""
    backend = ahp_http_backend(step("status", code=503, headers={"Retry-After": wait}))
    client = ahp_client(backend.registration(timeout_ms=5000))
    outcome, seconds = timed(lambda: ask(client))
    assert_synthetic_denial(outcome, failure_class="http_status")
    assert seconds <= 0.2 + SLACK
    assert_audit(ahp_audit, kind="synthetic_denial", attempts=1, http_status=503)


@pytest.mark.parametrize(
    "wait",
    ["-5", pytest.param(LONG_AGO, id="a date"), "soon", "", "1e3", "\xb2", "0x10", "nan"],
)
def test_f20_a_wait_that_can_not_be_read_means_the_usual_pause(
    wait: str, ahp_http_backend: Backends, ahp_client: Clients, ahp_audit: AuditLog
) -> None:
    """F20: odd values are no error and no reason to hurry."""
    backend = ahp_http_backend(step("status", code=503, headers={"Retry-After": wait}))
    retry = RetryPolicy(max_attempts=2, initial_backoff=0.1, jitter=0)
    client = ahp_client(backend.registration(timeout_ms=5000), retry=retry)
    assert_synthetic_denial(ask(client), failure_class="http_status")
    first, second = backend.requests
    assert second.time - first.time >= 0.1
    assert_audit(ahp_audit, kind="synthetic_denial", attempts=2)


def test_f20_a_wait_that_fits_is_kept(ahp_http_backend: Backends, ahp_client: Clients) -> None:
    """F20: then the answer counts, within the same deadline."""
    backend = ahp_http_backend([step("status", code=429, headers={"Retry-After": "1"}), "ok"])
    client = ahp_client(backend.registration(timeout_ms=5000))
    assert_proceeds(ask(client))
    first, second = backend.requests
    assert second.time - first.time >= 1.0


@pytest.mark.parametrize("fault", ["silent_tls", step("drip_tls", tick=0.3)], ids=str)
def test_f53_a_handshake_that_never_ends_is_bounded(
    fault: Any, ahp_http_backend: Backends, ahp_client: Clients
) -> None:
    """F53: silence, or a byte each 0.3 s; the deadline covers TLS like everything else."""
    backend = ahp_http_backend(fault)
    client = ahp_client(backend.registration(timeout_ms=1000))
    outcome, seconds = timed(lambda: ask(client))
    assert_synthetic_denial(outcome, failure_class="deadline_exceeded")
    assert 1.0 <= seconds <= 1.0 + SLACK
    assert backend.wait_closed(0.5)
    assert workers_are_free(client)


def test_f55_a_dead_first_address_costs_a_moment(
    resolver: Resolver, ahp_http_backend: Backends, ahp_client: Clients
) -> None:
    """F55: a black hole, over IPv6 where there is that, comes first; the next call pays nothing."""
    backend = ahp_http_backend("ok")
    with black_hole() as dead:
        resolver.hangs = False
        resolver.addresses = [dead, address(socket.AF_INET, ("127.0.0.1", backend.port))]
        client = ahp_client(backend.registration(timeout_ms=2000, url="http://localhost:80/ahp"))
        outcome, seconds = timed(lambda: ask(client))
        assert_proceeds(outcome)
        assert seconds < 2.0
        outcome, seconds = timed(lambda: ask(client))
        assert_proceeds(outcome)
        assert seconds < 0.25
        # Even over a new connection, the family that answered goes first.
        backend.play("close_on_reuse")
        if dead[0] != socket.AF_INET:
            outcome, seconds = timed(lambda: ask(client))
            assert_proceeds(outcome)
            assert seconds < 0.25


def address(family: int, where: Any) -> Any:
    return (family, socket.SOCK_STREAM, 0, "", where)


@contextmanager
def black_hole() -> Iterator[Any]:
    """An address where no connection is ever made: its listener has a full backlog."""
    family, host = socket.AF_INET6, "::1"
    try:
        listener = socket.create_server((host, 0), family=family, backlog=0)
    except OSError:  # a machine without IPv6
        family, host = socket.AF_INET, "127.0.0.1"
        listener = socket.create_server((host, 0), family=family, backlog=0)
    fillers = [socket.socket(family) for _ in range(4)]
    try:
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield address(family, listener.getsockname())
    finally:
        for sock in (listener, *fillers):
            sock.close()


# --- units -----------------------------------------------------------------------------------

UNUSED = {
    "id": "com.example.one",
    "transport": {"type": "http", "url": "http://127.0.0.1:9/ahp"},
    "subscriptions": [intercept()],
}
REFUSED = [0, -1, math.nan, math.inf, -math.inf, None, True, "5", [5]]


@pytest.mark.parametrize("odd", [*REFUSED, 1e12, 0.5], ids=repr)
def test_f58_odd_values_of_timeout_ms_are_refused_with_their_unit(odd: Any) -> None:
    """F58: what is no positive whole number of milliseconds, a day at most, is an error."""
    entry = {**UNUSED, "subscriptions": [{**intercept(), "timeoutMs": odd}]}
    path = r"\$\.hooks\[0\]\.subscriptions\[0\]\.timeoutMs: "
    with pytest.raises(RegistrationError, match=path + ".*(milliseconds|not finite)"):
        make_client(hooks(entry))


def test_f58_a_time_out_is_not_optional() -> None:
    """F58: none is no synonym of for ever."""
    subscription = intercept()
    del subscription["timeoutMs"]
    entry = {**UNUSED, "subscriptions": [subscription]}
    with pytest.raises(RegistrationError, match="timeoutMs"):
        make_client(hooks(entry))


@pytest.mark.parametrize("odd", REFUSED, ids=repr)
@pytest.mark.parametrize("name", ["observe_timeout", "close_timeout"])
def test_f58_odd_seconds_are_refused_with_their_unit(name: str, odd: Any) -> None:
    """F58: the times of a client, of ``close`` and of a guard are positive finite seconds."""
    with pytest.raises((TypeError, ValueError), match=f"{name}.*seconds"):
        make_client(hooks(UNUSED), **{name: odd})
    with make_client(hooks(UNUSED)) as client:
        if odd is not None:  # which means ``close_timeout``, and the subscriptions' limits
            with pytest.raises((TypeError, ValueError), match=r"timeout.*seconds"):
                client.close(odd)
            with pytest.raises((TypeError, ValueError), match="seconds"):
                client.guard(print, seconds=odd)
        with pytest.raises((TypeError, ValueError), match="seconds"):
            Budget(odd)
        with pytest.raises(TypeError, match="Budget"):
            ask(client, budget=1.0 if odd is None else odd)


@pytest.mark.parametrize("fine", [30_000, 1e12])
def test_f58_large_seconds_mean_what_they_say(
    fine: float, ahp_http_backend: Backends, ahp_client: Clients
) -> None:
    """F58: no wait of a worker overflows on them."""
    backend = ahp_http_backend("ok")
    client = ahp_client(
        backend.registration(timeout_ms=30_000), observe_timeout=fine, close_timeout=fine
    )
    assert_proceeds(ask(client, budget=Budget(fine)))


def make_client(registration: Any, **options: Any) -> Client:
    return Client(registration, source="urn:example:test", harness=Harness("tests", "1"), **options)


# --- connections -----------------------------------------------------------------------------


def test_f61_waiting_for_a_free_worker_counts(
    ahp_http_backend: Backends,
    ahp_client: Clients,
    ahp_audit: AuditLog,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """F61: eight calls of half a second at once over two workers, 1 s each, some first get a 503.

    Each is back in time; who waited in vain sent nothing; and the log is not flooded.
    """

    def script(request: Any) -> Any:
        busy = request.attempt == 1 and request.event["tool"]["name"] == "busy"
        return "status_503" if busy else step("slow", seconds=0.5)

    backend = ahp_http_backend(script)
    client = ahp_client(backend.registration(timeout_ms=1000), max_workers=2)
    names = ["busy", "calm"] * 4
    with caplog.at_level(logging.DEBUG), ThreadPoolExecutor(8) as callers:
        calls = [
            callers.submit(timed, lambda n=name: client.tool_before(name=n, input={}))
            for name in names
        ]
    outcomes = [call.result() for call in calls]
    assert all(seconds <= 1.0 + SLACK for _, seconds in outcomes)
    assert sum(outcome.may_execute for outcome, _ in outcomes) >= 2
    assert workers_are_free(client)
    sent = {request.event["id"] for request in backend.requests}
    vain = [one for one in ahp_audit if one.attempts == 0 or one.failure_class == "saturated"]
    assert not sent & {one.event_id for one in vain}
    failed = {one.failure_class for one in ahp_audit if one.kind.value == "synthetic_denial"}
    assert failed <= {"saturated", "deadline_exceeded", "http_status"}
    assert sum("pool" in one.getMessage().lower() for one in caplog.records) <= 1
