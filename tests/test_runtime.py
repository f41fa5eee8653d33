"""What a client owns: generations of forked children, and closing that meets trouble."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Callable

import pytest
from inprocess import GENEROUS, SLACK, Backend, fails, hangs, intercept, observe, ok, refused, stuck

from ahp_sync import AuditKind, Budget, Client, ClientClosed, Decision, Outcome
from ahp_sync.registration import Registration
from ahp_sync.retry import RetryPolicy
from ahp_sync.runtime import Runtime
from ahp_sync.testing.audit_log import AuditLog
from ahp_sync.testing.http_backend import HttpBackend

OpenClient = Callable[..., Client]


def ask(client: Client, **more: Any) -> Outcome:
    """Ask about a call."""
    return client.tool_before(name="Bash", input={}, **more)


# --- forks (design decision 9; F14) ---------------------------------------------------------------


def forked(work: Callable[[], bool]) -> bool:
    """Return what ``work`` returns in a forked child; False if it hangs or raises."""
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # threads and forks, which this is about
        pid = os.fork()
    if pid == 0:
        status = 1
        try:
            signal.alarm(int(GENEROUS))
            status = 0 if work() else 1
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_every_generation_of_children_is_served(open_client: OpenClient) -> None:
    """A child's child begins anew just as the child did, whether the child called or not (F14)."""
    client = open_client(Backend())
    assert ask(client).may_execute

    def generation(left: int, calls: bool) -> bool:
        if calls or not left:
            assert ask(client).may_execute
        return not left or forked(lambda: generation(left - 1, calls))

    assert forked(lambda: generation(3, True))
    assert forked(lambda: generation(3, False))
    assert ask(client).may_execute


def test_what_was_closed_before_the_fork_stays_closed(open_client: OpenClient) -> None:
    """In every generation; and what a child closes is closed for its own children only."""
    client = open_client(Backend())
    ask(client)

    def refuses() -> bool:
        try:
            ask(client)
        except ClientClosed:
            return client.closed
        return False

    def closes() -> bool:
        ask(client)
        client.close()
        return refuses() and forked(refuses)

    assert forked(closes)
    assert ask(client).may_execute
    client.close()
    assert forked(lambda: refuses() and forked(refuses))


def test_a_child_does_not_close_what_is_the_parents() -> None:
    """Neither by closing nor by ending: the parent's connection goes on serving (F16)."""
    from ahp_sync import Harness

    with HttpBackend() as backend:
        client = Client(
            backend.registration(timeout_ms=5000),
            source="urn:example:tests",
            harness=Harness("tests", "1"),
            audit=(),
        )
        assert ask(client).may_execute

        def closes() -> bool:
            served = ask(client).may_execute
            client.close()
            return served

        for _ in range(3):
            assert forked(closes)
            assert ask(client).may_execute
        assert len({request.connection for request in backend.requests}) == 4
        client.close()


# --- closing --------------------------------------------------------------------------------------


class Owned(Backend):
    """A transport that a runtime owns, whose closing does as told."""

    def __init__(self, *closes: Callable[[Budget], object]) -> None:
        super().__init__()
        self.closes = list(closes)
        self.closings = 0

    def close(self, budget: Budget) -> None:
        self.closings += 1
        if self.closes:
            self.closes.pop(0)(budget)


def runtime(*owned: Owned) -> Runtime:
    """Return a runtime that owns these transports."""
    return Runtime(Registration(()), {}, owned, retry=RetryPolicy(), max_workers=2)


def _raises(error: BaseException) -> Callable[[Budget], object]:
    def closing(budget: Budget) -> None:
        raise error

    return closing


def test_all_transports_are_closed_side_by_side() -> None:
    """The slowest one decides how long it takes, not their sum."""
    owned = [Owned(lambda budget: time.sleep(0.2)) for _ in range(5)]
    started = time.monotonic()
    runtime(*owned).close(GENEROUS)
    assert time.monotonic() - started < 0.4 + SLACK
    assert [one.closings for one in owned] == [1] * 5


def test_a_transport_that_hangs_takes_no_more_than_the_time() -> None:
    """Whichever it is, the others are closed and the caller is back."""
    for place in range(3):
        owned = [Owned(), Owned(), Owned()]
        owned[place].closes.append(lambda budget: budget.child().sleep(GENEROUS))
        started = time.monotonic()
        runtime(*owned).close(0.2)
        assert time.monotonic() - started < 0.2 + SLACK
        assert [one.closings for one in owned] == [1] * 3


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_transport_that_fails_to_close_keeps_nobody(
    place: int, caplog: pytest.LogCaptureFixture
) -> None:
    """The others are closed, the workers end, and a second close does not wait in vain."""
    owned = [Owned(), Owned(), Owned()]
    owned[place].closes.append(_raises(OSError("broken")))
    mine = runtime(*owned)
    mine.close(GENEROUS)
    assert [one.closings for one in owned] == [1] * 3
    started = time.monotonic()
    mine.close(GENEROUS)
    assert time.monotonic() - started < SLACK
    assert "OSError" in caplog.text


def test_an_interrupted_close_can_be_repeated() -> None:
    """Ctrl-C during closing leaves what is left to the next close, at exit at the latest."""
    owned = Owned(_raises(KeyboardInterrupt()))
    mine = runtime(owned)
    with pytest.raises(KeyboardInterrupt):
        mine.close(GENEROUS)
    assert mine.closed
    started = time.monotonic()
    mine.close(GENEROUS)
    assert time.monotonic() - started < SLACK
    assert owned.closings == 2
    mine.close(GENEROUS)
    assert owned.closings == 2


def test_a_second_close_waits_for_the_first_within_its_own_time() -> None:
    """Whoever comes later is not told that all is closed while it is not."""
    begun, go_on = threading.Event(), threading.Event()

    def closes(budget: Budget) -> None:
        begun.set()
        go_on.wait(GENEROUS)

    owned = Owned(closes)
    mine = runtime(owned)
    first = threading.Thread(target=mine.close, args=(GENEROUS,))
    first.start()
    assert begun.wait(GENEROUS)
    started = time.monotonic()
    mine.close(0.1)
    assert 0.09 <= time.monotonic() - started < 0.1 + SLACK
    go_on.set()
    mine.close(GENEROUS)
    first.join(GENEROUS)
    assert not first.is_alive()
    assert owned.closings == 1


def test_a_hook_may_close_its_own_client(open_client: OpenClient) -> None:
    """Called by a worker, in the middle of a delivery: the call is interrupted, nobody waits."""
    clients: list[Client] = []

    def closes(backend: Backend, message: Any, budget: Budget) -> Any:
        clients[0].close()
        return ok(backend, message, budget)

    clients.append(open_client(Backend(closes, intercept(timeout_ms=8000))))
    started = time.monotonic()
    assert ask(clients[0]).decision is Decision.INTERRUPTED
    assert time.monotonic() - started < 3


_FORGOTTEN = """
import sys, threading
from ahp_sync import Client, Harness
from ahp_sync.testing import hooks, intercept

class Transport:
    def exchange(self, message, budget):
        print("asked", flush=True)
        budget.sleep(60)
        raise SystemExit

    def close(self, budget):
        print("closed what is the host's")

entry = {"id": "com.example.x", "transport": {"type": "http", "url": "http://127.0.0.1:9/"},
         "subscriptions": [intercept(timeout_ms=60_000)]}
client = Client(hooks(entry), source="urn:example:x", harness=Harness("x", "1"), audit=(),
                transports={"com.example.x": Transport()}, close_timeout=1.5)
def call():
    print(client.tool_before(name="Bash", input={}).decision, flush=True)
threading.Thread(target=call, daemon=True).start()
sys.stdin.readline()
"""


def test_a_forgotten_client_is_closed_at_exit() -> None:
    """Calls in flight on daemon threads are interrupted, and the program ends in time (F05)."""
    with subprocess.Popen(
        [sys.executable, "-c", _FORGOTTEN],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "asked\n"
        started = time.monotonic()
        stdout, stderr = program.communicate("\n", timeout=GENEROUS)
    assert time.monotonic() - started < 1.5 + 1
    assert (program.returncode, stderr) == (0, "")
    assert stdout.strip() in ("", "interrupted")


# --- workers that observers leave behind ----------------------------------------------------------


def test_an_observer_that_nothing_wakes_is_replaced(open_client: OpenClient) -> None:
    """Stuck observers take no worker away from later calls (F07, F12)."""
    observers = [Backend(stuck, observe(), id=f"com.example.o{n}") for n in range(2)]
    client = open_client(Backend(), *observers, max_workers=2, observe_timeout=0.1)
    assert ask(client).may_execute
    assert ask(client).may_execute


def test_a_call_cancelled_while_observers_are_started_leaves_none_behind(
    open_client: OpenClient, records: AuditLog
) -> None:
    """However far the telling got, each observer has its record and each worker its place."""
    for count in range(1, 4):
        records.clear()
        budget = Budget(GENEROUS)

        def cancels(backend: Backend, message: Any, own: Budget, budget: Budget = budget) -> Any:
            budget.cancel()
            return hangs(backend, message, own)

        observers = [Backend(stuck, observe(), id=f"com.example.o{n}") for n in range(3)]
        observers[count - 1].act = cancels
        client = open_client(Backend(), *observers, max_workers=4)
        outcome = ask(client, budget=budget)
        assert outcome.decision is Decision.INTERRUPTED
        kinds = [record.kind for record in records]
        assert kinds == [AuditKind.ACCEPTED] + [AuditKind.OBSERVATION_FAILED] * 3
        assert ask(client, budget=Budget(0.5)).decision is not Decision.INTERRUPTED


# --- what a call leaves in memory -----------------------------------------------------------------


@contextmanager
def no_collection() -> Iterator[None]:
    """Keep the garbage collector from tidying up."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.mark.parametrize(
    "act",
    [
        ok,
        lambda backend, message, budget: fails(refused())(backend, message, budget),
        fails(ValueError),
        lambda backend, message, budget: b"junk",
        hangs,
    ],
    ids=["good", "refused", "raises", "junk", "hangs"],
)
@pytest.mark.parametrize("subscription", [intercept(timeout_ms=100), observe()])
def test_a_call_leaves_no_garbage(
    open_client: OpenClient, act: Any, subscription: dict[str, Any]
) -> None:
    """What was sent is freed with the call itself, and does not wait for a collection.

    Only what tenacity had in its hands does: it keeps its outcomes in cycles.
    """
    backend = Backend(act, subscription)
    backend.bodies = backend.messages = _Nothing()
    client = open_client(backend, audit=(), observe_timeout=0.1, retry=RetryPolicy(max_attempts=2))
    ask(client)
    with no_collection():
        before = _held()  # by exceptions that other tests keep, with their tracebacks
        for _ in range(5):
            ask(client)
        executor = client._runtime()._executor
        until = time.monotonic() + GENEROUS
        while executor.statistics().load and time.monotonic() < until:
            time.sleep(0.001)
        time.sleep(0.01)
        assert [one for one in _held() if all(one is not other for other in before)] == []


def _held() -> list[Any]:
    """Return what there is of deliveries."""
    return [one for one in gc.get_objects() if type(one).__name__ in ("Message", "Job")]


class _Nothing(list):  # type: ignore[type-arg]
    """A list that keeps nothing."""

    def append(self, item: object) -> None:
        pass


def test_ctrl_c_while_observers_are_told_leaves_none_behind(open_client: OpenClient) -> None:
    """All of them are left, also the stuck ones, whose workers are replaced (F29)."""
    observers = [Backend(stuck, observe(), id=f"com.example.o{n}") for n in range(3)]
    client = open_client(Backend(), *observers, max_workers=4, observe_timeout=GENEROUS)

    def interrupt() -> None:
        for one in observers:
            one.started.wait(GENEROUS)
        time.sleep(0.05)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    threading.Thread(target=interrupt).start()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        ask(client)
    assert time.monotonic() - started < 3
    statistics = client._runtime()._executor.statistics()
    assert (statistics.load, statistics.written_off) == (0, 3)
    observers[0].act = observers[1].act = observers[2].act = ok
    assert ask(client).may_execute
