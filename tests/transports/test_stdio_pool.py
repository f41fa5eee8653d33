"""Which process takes which message, with real processes and many callers."""

from __future__ import annotations

import subprocess
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Iterator

import pytest
from stdio_children import (
    ECHO,
    GENEROUS,
    SLACK,
    Stage,
    decoded,
    eventually,
    failure_of,
    notification,
    python,
    request,
)

from ahp_sync.budget import Budget, BudgetEnded
from ahp_sync.failure import FailureClass
from ahp_sync.registration import Lifecycle, StdioCommand
from ahp_sync.transports.process import BackendProcess
from ahp_sync.transports.stdio import StdioTransport

#: Answers after 50 ms.
SLOW = "\nwhile True: request = read(); time.sleep(0.05); answer(request)"


@pytest.fixture
def stage() -> Iterator[Stage]:
    stage = Stage()
    yield stage
    stage.dismantle()


@pytest.fixture
def callers() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(32) as executor:
        yield executor


def ask(transport: StdioTransport, rpc_id: str, seconds: float = GENEROUS) -> Any:
    return decoded(transport.exchange(request(rpc_id), Budget(seconds)))


# One id never goes twice down one process


def test_one_id_goes_down_another_process_the_second_time(stage: Stage) -> None:
    """T-01: two subscriptions of one backend get a process each, and keep them."""
    transport = stage(python(ECHO), lanes=2)
    pids = [[ask(transport, f"ev-{event}")["pid"] for _ in range(2)] for event in range(4)]
    assert pids[0][0] != pids[0][1]
    assert pids == [pids[0]] * 4


def test_one_id_goes_down_a_new_process_when_all_have_seen_it(stage: Stage) -> None:
    """T-01: so a retry after an answered attempt works; the newest process makes room."""
    transport = stage(python(ECHO), lanes=2)
    pids = [ask(transport, "same")["pid"] for _ in range(5)]
    assert len(set(pids)) == 5
    assert ask(transport, "other")["pid"] == pids[0]
    eventually(lambda: len(stage.pids()) == 2)


def test_an_id_sent_in_vain_is_seen_as_well(stage: Stage) -> None:
    """T-02: after a deadline no process that has the id is left."""
    transport = stage(python("read(); time.sleep(0.3)" + ECHO), processes=2)
    for _ in range(3):
        with pytest.raises(BudgetEnded):
            transport.exchange(request("same"), Budget(0.1))
    eventually(lambda: not stage.pids())


def test_concurrent_callers_with_one_id_never_share_a_process(
    stage: Stage, callers: ThreadPoolExecutor
) -> None:
    """T-01 holds under a race as well."""
    transport = stage(python(ECHO), processes=4, lanes=2)
    replies = list(callers.map(lambda _: ask(transport, "same"), range(8)))
    pids = [reply["pid"] for reply in replies]
    assert len(set(pids)) == 8


# Sharing


def test_eight_callers_share_four_processes(stage: Stage, callers: ThreadPoolExecutor) -> None:
    """50 ms each, 300 ms time-out, one warm process: nobody times out."""
    transport = stage(python(SLOW), processes=4)
    ask(transport, "warm")
    replies = list(callers.map(lambda number: ask(transport, f"ev-{number}", 0.3), range(8)))
    assert {reply["id"] for reply in replies} == {f"ev-{number}" for number in range(8)}
    assert 2 <= len({reply["pid"] for reply in replies}) <= 4


def test_as_many_processes_as_are_needed(stage: Stage, callers: ThreadPoolExecutor) -> None:
    """Two callers at once use two of four."""
    transport = stage(python(ECHO), processes=4)
    for number in range(5):
        list(callers.map(lambda side: ask(transport, f"ev-{side}"), [f"{number}a", f"{number}b"]))
    assert len(stage.pids()) <= 2


def test_answers_reach_their_callers(stage: Stage, callers: ThreadPoolExecutor) -> None:
    """Many callers, few processes: every answer carries its own id."""
    transport = stage(python(ECHO), processes=3)

    def many(caller: int) -> None:
        for number in range(100):
            rpc_id = f"ev-{caller}-{number}"
            assert ask(transport, rpc_id)["id"] == rpc_id
            assert transport.exchange(notification(), Budget(GENEROUS)) is None

    # The backend answers notifications with a null id, which is noise.
    transport = stage(
        python("\nwhile True:\n request = read()\n if 'id' in request: answer(request)"),
        processes=3,
    )
    list(callers.map(many, range(8)))
    assert len(stage.pids()) <= 3


def test_who_waits_longest_is_served_first(stage: Stage, callers: ThreadPoolExecutor) -> None:
    """Nobody is overtaken while waiting for the only process."""
    transport = stage(python(SLOW), processes=1)
    ask(transport, "warm")
    order: list[int] = []

    def call(number: int) -> None:
        ask(transport, f"ev-{number}")
        order.append(number)

    calls = []
    for number in range(6):
        calls.append(callers.submit(call, number))
        eventually(lambda count=number: f"{count} waiting" in repr(transport))  # type: ignore[misc]
    for done in calls:
        done.result(GENEROUS)
    assert order == list(range(6))


def hold(callers: ThreadPoolExecutor, transport: StdioTransport) -> Future[Any]:
    """Keep a process of ``transport`` busy."""
    budget = Budget(GENEROUS)
    held = callers.submit(transport.exchange, request("held"), budget)
    eventually(lambda: "1 busy" in repr(transport))
    held.budget = budget  # type: ignore[attr-defined]
    return held


def test_waiting_for_a_process_costs_the_budget_and_is_told(
    stage: Stage, callers: ThreadPoolExecutor
) -> None:
    """A full backend is our own limit, and reported so in time to be heard."""
    transport = stage(python("read(); time.sleep(60)"))
    held = hold(callers, transport)
    in_time = []
    for attempt in range(5):
        began = time.monotonic()
        budget = Budget(0.2)
        failure = failure_of(lambda b=budget, n=attempt: transport.exchange(request(f"{n}"), b))  # type: ignore[misc]
        in_time.append(not budget.ended)
        assert (failure.failure_class, failure.code) == (FailureClass.SATURATED, "process_busy")
        assert 0.19 < time.monotonic() - began < 0.2 + SLACK
    assert any(in_time)  # not each, on a busy machine
    held.budget.cancel()  # type: ignore[attr-defined]


def test_cancelling_ends_the_wait_for_a_process(stage: Stage, callers: ThreadPoolExecutor) -> None:
    """An interrupt is no failure of the backend."""
    transport = stage(python("read(); time.sleep(60)"))
    held = hold(callers, transport)
    budget = Budget(GENEROUS)
    threading.Timer(0.1, budget.cancel).start()
    began = time.monotonic()
    with pytest.raises(BudgetEnded):
        transport.exchange(request("ev-2"), budget)
    assert time.monotonic() - began < 0.1 + SLACK
    held.budget.cancel()  # type: ignore[attr-defined]


def test_a_waiter_gets_a_new_process_when_the_old_one_goes(
    stage: Stage, callers: ThreadPoolExecutor
) -> None:
    """The end of one call's process is the beginning of the next one's."""
    code = "\nwhile True:\n request = read()\n if request['id'] != 'held': answer(request)"
    transport = stage(python(code))
    held = hold(callers, transport)
    waiting = callers.submit(ask, transport, "ev-2")
    eventually(lambda: "1 waiting" in repr(transport))
    held.budget.cancel()  # type: ignore[attr-defined]
    assert waiting.result(GENEROUS)["id"] == "ev-2"
    with pytest.raises(BudgetEnded):
        held.result(GENEROUS)


def test_every_caller_of_an_unstartable_command_is_told(
    stage: Stage, callers: ThreadPoolExecutor
) -> None:
    """F11: no caller waits for the deadline because another one's start failed."""
    command = StdioCommand("/nonexistent/hook", (), Lifecycle.PERSISTENT, None, ())
    transport = stage(command, processes=2)
    calls = [callers.submit(ask, transport, f"ev-{number}") for number in range(20)]
    codes = {failure_of(lambda c=call: c.result(GENEROUS)).code for call in calls}  # type: ignore[misc]
    assert codes == {"launch_failed"}


def test_a_caller_takes_what_is_free_first(
    stage: Stage, callers: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new process that is slow to start keeps nobody from a warm one."""
    transport = stage(python(SLOW), processes=2)
    warm = ask(transport, "warm")["pid"]
    released = threading.Event()
    real = subprocess.Popen

    def slow(*args: object, **options: object) -> object:
        released.wait(GENEROUS)
        return real(*args, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(subprocess, "Popen", slow)
    calls = [callers.submit(ask, transport, f"ev-{number}", 1.0) for number in range(2)]
    assert {call.result(GENEROUS)["pid"] for call in calls} == {warm}
    released.set()


def test_counts_below_one_are_refused() -> None:
    """A pool of nothing would wait for ever."""
    with pytest.raises(ValueError, match="at least one"):
        StdioTransport(python(ECHO), processes=0)
    with pytest.raises(ValueError, match="at least one"):
        StdioTransport(python(ECHO), lanes=0)


def test_processes_that_refuse_to_end_are_bounded(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them costs a thread; past the bound calls fail in time, as saturated."""
    monkeypatch.setattr("ahp_sync.transports.process._MOST_ENDING", 2)
    monkeypatch.setattr("ahp_sync.transports.pump.GRACE", GENEROUS)
    monkeypatch.setattr(BackendProcess.end, "__defaults__", (GENEROUS,))
    code = "signal.signal(signal.SIGTERM, signal.SIG_IGN); answer(read()); read(); time.sleep(60)"
    transport = stage(python(code))
    for number in range(2):
        ask(transport, f"ev-{number}")  # from here on it does not heed SIGTERM
        with pytest.raises(BudgetEnded):
            transport.exchange(request(f"lost-{number}"), Budget(0.05))
    failure = failure_of(lambda: ask(transport, "ev-3"))
    assert (failure.failure_class, failure.code) == (FailureClass.SATURATED, "processes_ending")
    assert len(stage.pids()) == 2


def test_no_thread_left_is_a_failure(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host at its limit of threads gets an outcome."""

    def refuse(_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    transport = stage(python(ECHO))
    failure = failure_of(lambda: transport.exchange(request(), Budget(GENEROUS)))
    assert (failure.failure_class, failure.code) == (FailureClass.SATURATED, "no_thread")
