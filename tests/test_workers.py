"""The executor whose callers never wait longer than their budgets (design decision 1)."""

from __future__ import annotations

import concurrent.futures
import contextvars
import functools
import gc
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any, Callable

import pytest
from inprocess import GENEROUS, SLACK

from ahp_sync.budget import Budget, BudgetEnded
from ahp_sync.failure import FailureClass, OperationalFailure
from ahp_sync.workers import DeliveryExecutor, WorkerStatistics

SHORT = 0.1


class Stuck:
    """Work that blocks where no abort reaches it, as name resolution does, until released."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self._released = threading.Event()

    def __call__(self) -> str:
        self.begun.release()
        self._released.wait(GENEROUS)
        return "too late"

    def wait_begun(self, count: int = 1) -> None:
        for _ in range(count):
            assert self.begun.acquire(timeout=GENEROUS)

    def release(self) -> None:
        self._released.set()


@pytest.fixture
def stuck() -> Iterator[Stuck]:
    """Work that is released after the test."""
    work = Stuck()
    yield work
    work.release()


@pytest.fixture
def pool() -> Iterator[Callable[..., DeliveryExecutor]]:
    """``pool(max_workers, …)``: an executor that is shut down after the test."""
    made: list[DeliveryExecutor] = []

    def make(*args: Any, **kwargs: Any) -> DeliveryExecutor:
        made.append(DeliveryExecutor(*args, **kwargs))
        return made[-1]

    yield make
    for executor in made:
        executor.shutdown(cancel_futures=True)


Pool = Callable[..., DeliveryExecutor]


def leave(executor: DeliveryExecutor, work: Callable[[], object]) -> None:
    """Have the executor do ``work`` within a very short budget, and leave it."""
    with pytest.raises(BudgetEnded):
        executor.run(Budget(SHORT), work)


def cancel_once_begun(work: Stuck, budget: Budget) -> threading.Thread:
    """Cancel the budget from another thread as soon as the work is under way."""

    def cancel() -> None:
        work.wait_begun()
        budget.cancel()

    thread = threading.Thread(target=cancel)
    thread.start()
    return thread


def eventually(condition: Callable[[], bool]) -> bool:
    """Wait for something that another thread is just about to do."""
    until = time.monotonic() + GENEROUS
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.001)
    return True


def at_rest(executor: DeliveryExecutor) -> bool:
    """Whether nothing is queued, running or written off, before long."""

    def rests() -> bool:
        statistics = executor.statistics()
        return (statistics.load, statistics.written_off) == (0, 0)

    return eventually(rests)


# --- doing work -----------------------------------------------------------------------------------


def test_it_returns_what_the_work_returns(pool: Pool) -> None:
    """The caller gets the very object, from another thread."""
    executor, result = pool(2), object()
    assert executor.run(Budget(GENEROUS), lambda: result) is result
    assert executor.run(Budget(GENEROUS), threading.get_ident) != threading.get_ident()


@pytest.mark.parametrize(
    "error",
    [
        ValueError("x"),
        TimeoutError("its own"),
        concurrent.futures.TimeoutError("its own"),
        OperationalFailure(FailureClass.CONNECTION, "x", "x"),
        KeyboardInterrupt("its own"),
        SystemExit(3),
        GeneratorExit(),
        BudgetEnded(),
    ],
)
def test_it_raises_what_the_work_raises(pool: Pool, error: BaseException) -> None:
    """Whatever it is, the caller gets the very exception, and the worker lives on."""
    executor = pool(1)

    def work() -> None:
        raise error

    for _ in range(2):
        with pytest.raises(type(error)) as raised:
            executor.run(Budget(GENEROUS), work)
        assert raised.value is error
    assert executor.run(Budget(GENEROUS), lambda: 1) == 1
    assert at_rest(executor)
    assert executor.statistics().threads == 1


def test_workers_are_daemons_started_on_demand(pool: Pool) -> None:
    """No thread before there is work, one for one job after another, and never a non-daemon."""
    executor = pool(8)
    assert executor.statistics() == WorkerStatistics(0, 0, 0)
    daemon = [
        executor.run(Budget(GENEROUS), lambda: threading.current_thread().daemon) for _ in range(5)
    ]
    assert daemon == [True] * 5
    assert executor.statistics().threads <= 2


def test_no_more_workers_than_the_bound(pool: Pool, stuck: Stuck) -> None:
    """However much is asked for at once, ``max_workers`` threads work."""
    executor = pool(3)
    jobs = [executor.submit(stuck) for _ in range(20)]
    stuck.wait_begun(3)
    assert executor.statistics() == WorkerStatistics(3, 20, 0)
    stuck.release()
    assert [job.result(GENEROUS) for job in jobs] == ["too late"] * 20
    assert executor.statistics().threads == 3


@pytest.mark.parametrize("max_workers", [0, -1, True, 2.0, "2", None])
def test_a_bound_that_is_no_count_is_refused(max_workers: Any) -> None:
    """An odd bound is refused at once, before a thread is started."""
    with pytest.raises(ValueError, match="max_workers"):
        DeliveryExecutor(max_workers)


# --- time -----------------------------------------------------------------------------------------


def test_the_caller_leaves_at_the_deadline(pool: Pool, stuck: Stuck) -> None:
    """Work that nothing can wake does not hold its caller (F07)."""
    executor, started = pool(2), time.monotonic()
    leave(executor, stuck)
    assert time.monotonic() - started < SHORT + SLACK


def test_leaving_aborts_the_work(pool: Pool) -> None:
    """At the deadline the callbacks of the budget run, so that the worker comes home."""
    executor, budget = pool(1), Budget(SHORT)
    aborted = threading.Event()
    budget.on_abort(aborted.set)
    with pytest.raises(BudgetEnded):
        executor.run(budget, lambda: aborted.wait(GENEROUS))
    assert aborted.is_set()
    assert at_rest(executor)


def test_a_cancelled_call_ends_at_once(pool: Pool, stuck: Stuck) -> None:
    """Cancelling from another thread ends the wait, not only the deadline."""
    executor, budget = pool(1), Budget(GENEROUS)
    canceller = cancel_once_begun(stuck, budget)
    started = time.monotonic()
    with pytest.raises(BudgetEnded):
        executor.run(budget, stuck)
    assert time.monotonic() - started < GENEROUS / 4
    canceller.join(GENEROUS)


def test_a_result_after_leaving_is_dropped(pool: Pool, stuck: Stuck) -> None:
    """What a late worker brings home harms nobody, whether a value or an exception."""
    executor, ran = pool(2), []

    def work() -> None:
        stuck()
        ran.append(1)
        raise ValueError("too late")

    leave(executor, work)
    leave(executor, stuck)
    stuck.release()
    assert at_rest(executor)
    assert ran == [1]
    assert executor.run(Budget(GENEROUS), lambda: "fresh") == "fresh"


def test_work_whose_budget_ended_in_the_queue_never_runs(pool: Pool, stuck: Stuck) -> None:
    """Queue time counts, and an expired job does not send its request later (F12)."""
    executor, ran = pool(1, max_written_off=0), []
    executor.submit(stuck)
    stuck.wait_begun()
    started = time.monotonic()
    with pytest.raises(OperationalFailure) as raised:
        executor.run(Budget(SHORT), lambda: ran.append(1))
    assert raised.value.failure_class is FailureClass.SATURATED
    assert time.monotonic() - started < SHORT + SLACK
    stuck.release()
    assert at_rest(executor)
    assert ran == []


def test_work_cancelled_in_the_queue_never_runs(pool: Pool, stuck: Stuck) -> None:
    """A cancelled call is an end, not a lack of workers, and nothing of it happens later."""
    executor, budget, ran = pool(1), Budget(GENEROUS), []
    executor.submit(stuck)
    stuck.wait_begun()
    canceller = threading.Timer(SHORT, budget.cancel)
    canceller.start()
    with pytest.raises(BudgetEnded):
        executor.run(budget, lambda: ran.append(1))
    canceller.join(GENEROUS)
    stuck.release()
    assert at_rest(executor)
    assert ran == []


def test_nothing_begins_in_an_ended_budget(pool: Pool) -> None:
    """Neither a thread nor the work is started when there is no time."""
    executor, budget, ran = pool(1), Budget(GENEROUS), []
    budget.cancel()
    with pytest.raises(BudgetEnded):
        executor.run(budget, lambda: ran.append(1))
    assert executor.statistics() == WorkerStatistics(0, 0, 0)
    assert ran == []


def test_a_job_that_ends_as_its_time_does_is_no_time_out_of_its_own(pool: Pool) -> None:
    """Whatever wins at the deadline, no ``TimeoutError`` comes out of nowhere."""
    executor = pool(4)
    for round_ in range(200):
        seconds = 0.001 + round_ * 1e-6
        try:
            assert executor.run(Budget(seconds), functools.partial(time.sleep, seconds)) is None
        except (BudgetEnded, OperationalFailure):
            pass  # on a busy machine not even a worker wakes up in time
    assert at_rest(executor)


def test_a_signal_handler_may_cancel_anywhere_in_the_wait(pool: Pool) -> None:
    """Wherever the handler interrupts the caller, the call ends at once, not at its deadline."""
    executor = pool(2)
    line, reached = 0, True
    while reached:
        line += 1
        assert at_rest(executor)
        reached = _cancel_at(line, executor)


def _cancel_at(line: int, executor: DeliveryExecutor) -> bool:
    """Run a job that is cancelled at the caller's n-th line; return whether it got so far."""
    budget, seen, cancelled_at = Budget(1.0), 0, 0.0
    started = time.monotonic()

    def trace(frame: Any, event: str, arg: Any) -> Any:
        nonlocal seen, cancelled_at
        seen += event == "line"
        if seen == line and not cancelled_at:
            cancelled_at = time.monotonic()
            budget.cancel()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        executor.run(budget, lambda: budget.sleep(0.02) and "slept")
    except BudgetEnded:
        pass
    finally:
        sys.settrace(before)
    assert time.monotonic() - started < 0.9, f"cancelled at line {line}, to no effect"
    return bool(cancelled_at)


# --- stuck workers --------------------------------------------------------------------------------


def test_a_stuck_worker_is_replaced(pool: Pool, stuck: Stuck) -> None:
    """A pool of one goes on working after its worker was left in name resolution (F07)."""
    executor = pool(1)
    leave(executor, stuck)
    assert executor.statistics() == WorkerStatistics(1, 0, 1)
    assert executor.run(Budget(GENEROUS), lambda: "served") == "served"
    assert executor.statistics().threads == 2


def test_a_worker_whose_call_was_cancelled_is_replaced_too(pool: Pool, stuck: Stuck) -> None:
    """It does not matter which thread noticed the end first: the place is given to another."""
    executor = pool(1)
    for _ in range(20):
        budget = Budget(GENEROUS)
        work = Stuck()
        canceller = cancel_once_begun(work, budget)
        with pytest.raises(BudgetEnded):
            executor.run(budget, work)
        assert executor.run(Budget(GENEROUS), lambda: "served") == "served"
        canceller.join(GENEROUS)
        work.release()
        assert at_rest(executor)


def test_written_off_workers_are_bounded(pool: Pool, stuck: Stuck) -> None:
    """Beyond the bound calls fail as saturated, in time, and no thread is added (F07, F12)."""
    executor = pool(2, max_written_off=3)
    for _ in range(5):
        leave(executor, stuck)
    assert executor.statistics().written_off == 3
    for _ in range(3):
        started = time.monotonic()
        with pytest.raises(OperationalFailure) as raised:
            executor.run(Budget(SHORT), lambda: None)
        assert raised.value.failure_class is FailureClass.SATURATED
        assert time.monotonic() - started < SHORT + SLACK
    assert executor.statistics().threads == 5


def test_everything_recovers_when_stuck_workers_come_home(pool: Pool, stuck: Stuck) -> None:
    """Afterwards the counters are back, and no more threads are left than the bound."""
    executor = pool(2, max_written_off=3)
    for _ in range(5):
        leave(executor, stuck)
    stuck.release()
    assert at_rest(executor)
    assert eventually(lambda: executor.statistics().threads <= 2)
    jobs = [executor.submit(time.sleep, 0.01) for _ in range(8)]
    for job in jobs:
        job.result(GENEROUS)
    assert executor.statistics().threads <= 2


def test_a_full_queue_refuses_at_once(pool: Pool, stuck: Stuck) -> None:
    """The queue is bounded: what can't be served in time does not pile up in memory."""
    executor = pool(1)
    with pytest.raises(OperationalFailure) as raised:
        for _ in range(1000):
            executor.submit(stuck)
    assert raised.value.failure_class is FailureClass.SATURATED
    assert executor.statistics().load < 100


# --- nesting (F71) --------------------------------------------------------------------------------


def test_a_pool_of_one_does_not_wait_for_itself(pool: Pool) -> None:
    """Work that itself has work done on the same pool is served (F71)."""
    executor = pool(1)

    def outer() -> str:
        return executor.run(Budget(GENEROUS), lambda: "inner")

    assert [executor.run(Budget(GENEROUS), outer) for _ in range(5)] == ["inner"] * 5
    assert at_rest(executor)
    assert eventually(lambda: executor.statistics().threads == 1)


def test_endless_nesting_ends_in_time(pool: Pool) -> None:
    """Work that goes on nesting is served or refused as saturated, within its budget (F71)."""
    executor, depth = pool(1), 0

    def dive() -> None:
        nonlocal depth
        depth += 1
        executor.run(Budget(SHORT), dive)

    started = time.monotonic()
    with pytest.raises((OperationalFailure, BudgetEnded)):
        executor.run(Budget(GENEROUS), dive)
    assert time.monotonic() - started < GENEROUS / 4
    assert depth < 20
    assert at_rest(executor)


def test_many_nested_calls_at_once_all_end(pool: Pool) -> None:
    """With a pool full of workers that all wait for another, nobody waits for ever."""
    executor, results = pool(2), []

    def outer() -> str:
        return executor.run(Budget(GENEROUS), lambda: "inner")

    def call() -> None:
        results.append(executor.run(Budget(GENEROUS), outer))

    threads = [threading.Thread(target=call) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(GENEROUS)
    assert results == ["inner"] * 8
    assert at_rest(executor)
    assert eventually(lambda: executor.statistics().threads <= 2)


# --- context (F65) --------------------------------------------------------------------------------

TENANT: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="nobody")


def test_work_sees_the_context_of_its_caller(pool: Pool) -> None:
    """Two tenants at once, many times, on shared workers: each sees itself only (F65)."""
    executor = pool(4)
    wrong: list[str] = []

    def call(tenant: str) -> None:
        TENANT.set(tenant)
        for _ in range(100):
            seen = executor.run(Budget(GENEROUS), TENANT.get)
            nested = executor.run(
                Budget(GENEROUS), lambda: executor.run(Budget(GENEROUS), TENANT.get)
            )
            wrong.extend(one for one in (seen, nested) if one != tenant)

    threads = [threading.Thread(target=call, args=(name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(GENEROUS)
    assert wrong == []


def test_what_work_sets_in_its_context_stays_there(pool: Pool) -> None:
    """Neither the caller, nor the worker, nor the next job sees it (F65)."""
    executor = pool(1)
    executor.run(Budget(GENEROUS), lambda: TENANT.set("leaked"))
    assert TENANT.get() == "nobody"
    fresh = contextvars.Context()
    assert fresh.run(executor.run, Budget(GENEROUS), TENANT.get) == "nobody"


# --- what is kept ---------------------------------------------------------------------------------


class Secret:
    """Something that must not outlive the call it was for."""


def _kept(executor: DeliveryExecutor, fails: bool) -> weakref.ref[Secret]:
    secret = Secret()

    def work() -> Any:
        if fails:
            raise OperationalFailure(FailureClass.CONNECTION, "x", repr(secret))
        return secret

    try:
        executor.run(Budget(GENEROUS), work)
    except OperationalFailure:
        pass
    return weakref.ref(secret)


@pytest.mark.parametrize("fails", [False, True])
def test_finished_work_is_let_go(pool: Pool, fails: bool) -> None:
    """An idle worker keeps nothing of its last job, not even until garbage is collected."""
    executor = pool(1)
    gc.disable()
    try:
        kept = _kept(executor, fails)
        assert eventually(lambda: kept() is None)
    finally:
        gc.enable()


def test_work_that_was_left_is_let_go_when_it_is_over(pool: Pool, stuck: Stuck) -> None:
    """The worker's late return releases what the caller left behind."""
    executor, secret = pool(1), Secret()
    kept = weakref.ref(secret)

    def work(secret: Secret = secret) -> Secret:
        stuck()
        return secret

    leave(executor, work)
    del secret, work
    stuck.release()
    assert at_rest(executor)
    gc.collect()
    assert eventually(lambda: kept() is None)


# --- an ordinary executor -------------------------------------------------------------------------


def test_it_is_an_executor_of_the_standard_library(pool: Pool) -> None:
    """``submit``, ``map``, futures, ``as_completed`` and the ``with`` block work as usual."""
    executor = pool(3)
    assert isinstance(executor, concurrent.futures.Executor)
    with executor:
        assert list(executor.map(pow, [1, 2, 3], [2, 2, 2])) == [1, 4, 9]
        futures = [executor.submit(divmod, number, 3) for number in range(6)]
        done = {future.result() for future in concurrent.futures.as_completed(futures, GENEROUS)}
        assert done == {divmod(number, 3) for number in range(6)}
        with pytest.raises(ZeroDivisionError):
            executor.submit(divmod, 1, 0).result(GENEROUS)
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(print)


def test_a_submitted_future_can_be_cancelled(pool: Pool, stuck: Stuck) -> None:
    """A queued future can be cancelled as usual, and then never runs."""
    executor = pool(1)
    ran: list[int] = []
    running = executor.submit(stuck)
    stuck.wait_begun()
    queued = executor.submit(ran.append, 1)
    assert queued.cancel()
    assert not running.cancel()
    stuck.release()
    assert at_rest(executor)
    assert ran == []


# --- shutdown -------------------------------------------------------------------------------------


def test_shutdown_leaves_no_thread(pool: Pool) -> None:
    """Idle and busy workers have ended when it returns."""
    executor = pool(4)
    for _ in range(4):
        executor.submit(time.sleep, 0.02)
    executor.shutdown()
    assert executor.statistics() == WorkerStatistics(0, 0, 0)
    with pytest.raises(RuntimeError):
        executor.run(Budget(GENEROUS), lambda: None)


def test_shutdown_is_bounded_and_repeatable(pool: Pool, stuck: Stuck) -> None:
    """It does not wait for a stuck worker longer than told, however often it is called (F05)."""
    executor = pool(2)
    executor.submit(stuck)
    stuck.wait_begun()
    started = time.monotonic()
    for _ in range(3):
        executor.shutdown(timeout=0.05)
    executor.shutdown(wait=False)
    assert time.monotonic() - started < 0.15 + SLACK
    stuck.release()
    assert eventually(lambda: executor.statistics().threads == 0)


def test_shutdown_can_drop_what_is_queued(pool: Pool, stuck: Stuck) -> None:
    """With ``cancel_futures`` nothing that has not begun will begin."""
    executor = pool(1)
    ran: list[int] = []
    executor.submit(stuck)
    stuck.wait_begun()
    queued = [executor.submit(ran.append, 1) for _ in range(5)]
    executor.shutdown(wait=False, cancel_futures=True)
    assert all(future.cancelled() for future in queued)
    stuck.release()
    assert at_rest(executor)
    assert ran == []


def test_what_was_queued_before_shutdown_is_done(pool: Pool) -> None:
    """Without ``cancel_futures`` the accepted work is finished, as the standard library does."""
    executor = pool(1)
    ran: list[int] = []
    for _ in range(5):
        executor.submit(ran.append, 1)
    executor.shutdown()
    assert ran == [1] * 5


def test_shutdown_may_come_from_a_worker(pool: Pool) -> None:
    """Work that shuts its own pool down does not wait for itself."""
    executor = pool(2)
    started = time.monotonic()
    executor.submit(executor.shutdown).result(GENEROUS)
    assert time.monotonic() - started < GENEROUS / 4


def test_concurrent_shutdowns_and_calls_all_end(pool: Pool) -> None:
    """Whatever the interleaving, a call gives its result, ``BudgetEnded`` or the usual error."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(50):
            _shut_down_under_load(pool(4))
    finally:
        sys.setswitchinterval(interval)


def _shut_down_under_load(executor: DeliveryExecutor) -> None:
    errors: list[BaseException] = []
    gate = threading.Barrier(6)
    budget = Budget(GENEROUS)

    def call() -> None:
        gate.wait(GENEROUS)
        try:
            for _ in range(20):
                executor.run(budget.child(), lambda: None)
        except BudgetEnded:
            pass
        except BaseException as error:
            errors.append(error)

    def close() -> None:
        gate.wait(GENEROUS)
        try:
            budget.cancel()
            executor.shutdown(cancel_futures=True)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=call) for _ in range(4)]
    threads += [threading.Thread(target=close) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(GENEROUS)
    assert errors == []
    assert eventually(lambda: executor.statistics() == WorkerStatistics(0, 0, 0))


# --- interrupts and exit --------------------------------------------------------------------------


def test_an_interrupt_of_the_caller_leaves_the_job(pool: Pool) -> None:
    """A KeyboardInterrupt in the waiting thread passes unchanged, and the work is aborted (F29)."""
    executor, budget = pool(1), Budget(GENEROUS)
    me = threading.get_ident()

    def work() -> None:
        time.sleep(SHORT)  # until the caller waits
        signal.pthread_kill(me, signal.SIGINT)
        budget.sleep(GENEROUS)

    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        executor.run(budget, work)
    assert time.monotonic() - started < GENEROUS / 4
    assert at_rest(executor)
    assert not budget.cancelled


_STUCK_AT_EXIT = """
import time
from ahp_sync.budget import Budget, BudgetEnded
from ahp_sync.workers import DeliveryExecutor

executor = DeliveryExecutor(2)
try:
    executor.run(Budget(0.1), lambda: time.sleep(30))
except BudgetEnded:
    print("left")
executor.submit(time.sleep, 30)
{end}
"""


@pytest.mark.parametrize("end", ["", "executor.shutdown(timeout=0.1)"])
def test_a_stuck_worker_does_not_delay_the_exit(end: str) -> None:
    """The interpreter ends at once, with status 0 and nothing on stderr (F05)."""
    started = time.monotonic()
    ended = subprocess.run(
        [sys.executable, "-c", _STUCK_AT_EXIT.format(end=end)],
        capture_output=True,
        text=True,
        timeout=GENEROUS,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "left\n", "")
    assert time.monotonic() - started < 5


# --- stress ---------------------------------------------------------------------------------------


def test_the_counters_come_back_after_a_storm(pool: Pool) -> None:
    """Quick, slow, failing, nested, cancelled and stuck work from many threads, all at once."""
    executor = pool(4)
    problems: list[BaseException] = []

    def quick() -> None:
        pass

    def fails() -> None:
        raise ValueError

    def nested() -> None:
        executor.run(Budget(0.05), quick)

    def sleeps() -> None:
        time.sleep(0.01)

    def hammer(seed: int) -> None:
        for number in range(60):
            work = (quick, fails, nested, sleeps)[(seed + number) % 4]
            budget = Budget(0.004 + (number % 7) * 0.003)
            if number % 11 == 0:
                threading.Timer(0.002, budget.cancel).start()
            try:
                executor.run(budget, work)
            except (BudgetEnded, ValueError, OperationalFailure):
                pass
            except BaseException as error:
                problems.append(error)

    threads = [threading.Thread(target=hammer, args=(seed,)) for seed in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(GENEROUS)
    assert problems == []
    assert at_rest(executor)
    assert eventually(lambda: executor.statistics().threads <= 4)
    assert executor.run(Budget(GENEROUS), os.getpid) == os.getpid()
