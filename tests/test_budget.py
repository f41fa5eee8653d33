"""Budgets: deadlines, cancellation, children and abort callbacks (AHP-FAIL-002, R-DL-01 to 03)."""

from __future__ import annotations

import gc
import logging
import math
import subprocess
import sys
import threading
import time
from decimal import Decimal
from fractions import Fraction
from typing import Any, Callable, Optional

import pytest
from clock import Clock
from hypothesis import given
from hypothesis import strategies as st
from inprocess import GENEROUS, SLACK

from ahp_sync.budget import Budget, BudgetEnded, positive_seconds

SECONDS = st.floats(min_value=0.001, max_value=1e6)

# --- values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [0, -1, 0.0, -0.0, math.nan, math.inf, -math.inf, 10**400])
def test_a_number_that_is_no_time_is_refused_with_its_unit(seconds: float) -> None:
    """Zero, negatives, NaN, infinities and what only overflows to one are refused (F58)."""
    with pytest.raises(ValueError, match="positive, finite number of seconds"):
        Budget(seconds)
    with pytest.raises(ValueError, match="positive, finite number of seconds"):
        Budget(1).child(seconds)


@pytest.mark.parametrize(
    "seconds", ["5", b"5", None, True, False, 5j, [5], Decimal(5), Fraction(5)]
)
def test_what_is_no_number_is_refused_with_its_unit(seconds: Any) -> None:
    """Strings, booleans, None and other types are refused, never read as something (F58)."""
    with pytest.raises(TypeError, match="must be a number of seconds"):
        Budget(seconds)


def test_a_child_without_seconds_is_not_a_bool_in_disguise() -> None:
    """``True`` is no second, not for a child either; None there means the parent's deadline."""
    with pytest.raises(TypeError, match="seconds"):
        Budget(1).child(True)


@given(SECONDS)
def test_positive_finite_numbers_are_taken(seconds: float) -> None:
    """Any positive finite number is a time; an int is as good as a float."""
    assert positive_seconds(seconds, "it") == seconds
    assert positive_seconds(math.ceil(seconds), "it") == math.ceil(seconds)


# --- time -----------------------------------------------------------------------------------------


def test_it_expires_at_its_deadline_and_not_before() -> None:
    """The deadline itself is too late."""
    clock = Clock()
    budget = Budget(2.0, clock=clock)
    clock.advance(1.75)
    assert (budget.remaining(), budget.expired, budget.ended) == (0.25, False, False)
    budget.check()
    clock.advance(0.25)
    assert (budget.remaining(), budget.expired, budget.ended) == (0.0, True, True)
    with pytest.raises(BudgetEnded):
        budget.check()
    clock.advance(10)
    assert budget.remaining() == 0.0


def test_expired_and_cancelled_are_told_apart() -> None:
    """Cancelling does not look like expiry, nor the other way round (R-DL-03)."""
    clock = Clock()
    late, unwanted = Budget(1, clock=clock), Budget(1, clock=clock)
    unwanted.cancel()
    assert (unwanted.cancelled, unwanted.expired, unwanted.remaining()) == (True, False, 0.0)
    clock.advance(1)
    assert (late.cancelled, late.expired) == (False, True)
    assert "cancelled" in repr(unwanted)
    assert "expired" in repr(late)


def test_an_abort_ends_it_without_a_verdict() -> None:
    """After an abort nothing may begin, yet the budget was neither cancelled nor late."""
    budget = Budget(1, clock=Clock())
    budget.abort()
    assert (budget.ended, budget.cancelled, budget.expired) == (True, False, False)
    assert budget.remaining() == 0.0


def test_an_open_ended_budget_ends_by_cancellation_only() -> None:
    """It has no deadline, and its children have their own."""
    clock = Clock()
    budget = Budget.open_ended(clock=clock)
    child = budget.child(3)
    clock.advance(1e9)
    assert not budget.ended
    assert budget.remaining() == math.inf
    assert child.expired
    budget.cancel()
    assert budget.ended


# --- children -------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 30), st.none() | SECONDS), max_size=12), SECONDS, SECONDS)
def test_no_child_outlives_its_parent(
    births: list[tuple[int, Optional[float]]], total: float, passed: float
) -> None:
    """In any tree of budgets, what is left of one is never more than what is left around it."""
    clock = Clock(0.0)
    tree = [(Budget(total, clock=clock), total)]
    for which, seconds in births:
        parent, deadline = tree[which % len(tree)]
        inner = deadline if seconds is None else min(deadline, seconds)
        tree.append((parent.child(seconds), inner))
    clock.advance(passed)
    for budget, deadline in tree:
        assert budget.remaining() == max(0.0, deadline - passed)
        assert budget.expired == budget.ended == (passed >= deadline)


@given(
    st.lists(st.integers(0, 30), max_size=12),
    st.lists(st.tuples(st.integers(0, 30), st.booleans()), max_size=4),
)
def test_cancelling_goes_down_and_never_up(births: list[int], ends: list[tuple[int, bool]]) -> None:
    """Exactly the subtree of a cancelled or aborted budget ends, and each callback runs once."""
    tree = [Budget(1, clock=Clock())]
    above: list[list[int]] = [[0]]
    for which in births:
        parent = which % len(tree)
        tree.append(tree[parent].child())
        above.append([*above[parent], len(tree) - 1])
    calls = [0] * len(tree)

    def count(index: int) -> Callable[[], None]:
        def callback() -> None:
            calls[index] += 1

        return callback

    for index, budget in enumerate(tree):
        budget.on_abort(count(index))
    cancelled, ended = set(), set()
    for which, cancels in ends:
        index = which % len(tree)
        (tree[index].cancel if cancels else tree[index].abort)()
        ended.add(index)
        cancelled |= {index} if cancels else set()
    for index, budget in enumerate(tree):
        assert budget.cancelled == any(one in cancelled for one in above[index])
        assert budget.ended == any(one in ended for one in above[index])
        assert calls[index] == budget.ended


@pytest.mark.parametrize("cancels", [True, False])
def test_a_child_of_an_ended_parent_is_born_ended(cancels: bool) -> None:
    """Nothing may begin in it, and a callback given to it runs at once."""
    parent = Budget(1, clock=Clock())
    (parent.cancel if cancels else parent.abort)()
    child, called = parent.child(0.5), threading.Event()
    child.on_abort(called.set)
    assert (child.ended, child.cancelled) == (True, cancels)
    assert called.is_set()


def test_a_child_that_lives_on_keeps_its_parent() -> None:
    """Who holds the innermost budget only still hears of the outermost one's end."""
    outer = Budget(10)
    inner = outer.child().child()
    gc.collect()
    outer.cancel()
    assert inner.cancelled


def test_many_children_come_and_go_without_a_trace() -> None:
    """A budget that lives as long as its program does not grow with the calls under it."""
    parent = Budget.open_ended()
    kept = parent.child()
    for _ in range(200_000):
        parent.child()
    assert len(parent._children) == 1
    parent.cancel()
    assert kept.cancelled


def test_children_vanish_while_the_parent_ends() -> None:
    """A collection of garbage at the wrong moment does not spoil the end of a budget."""
    threshold = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for _ in range(100):
            parent = Budget(10)
            kept = [parent.child() for _ in range(5)]
            for _ in range(20):
                cycle: list[Any] = [parent.child()]
                cycle.append(cycle)
                del cycle
            parent.cancel()
            assert all(child.cancelled for child in kept)
    finally:
        gc.set_threshold(*threshold)


# --- callbacks ------------------------------------------------------------------------------------


def test_a_callback_runs_once_however_often_the_budget_ends() -> None:
    """Cancelling is safe to repeat."""
    budget, calls = Budget(1), []
    budget.on_abort(lambda: calls.append(1))
    for end in (budget.abort, budget.cancel, budget.cancel, budget.abort):
        end()
    assert calls == [1]


def test_a_callback_taken_back_does_not_run() -> None:
    """``off_abort`` is safe to repeat, also after the end."""
    budget, calls = Budget(1), []
    key = budget.on_abort(lambda: calls.append(1))
    budget.off_abort(key)
    budget.cancel()
    budget.off_abort(key)
    assert calls == []


def test_expiry_alone_runs_no_callback() -> None:
    """Nothing in a budget runs a timer: whoever waits notices the end and aborts."""
    clock, calls = Clock(), []
    budget = Budget(1, clock=clock)
    budget.on_abort(lambda: calls.append(1))
    clock.advance(5)
    assert (budget.ended, calls) == (True, [])
    budget.abort()
    assert calls == [1]


def test_a_failing_callback_is_logged_and_stops_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """What one callback raises reaches neither the others, nor the children, nor the caller."""
    budget = Budget(1)
    calls: list[int] = []
    for _ in range(3):
        budget.on_abort(lambda: calls.append(1))
        budget.on_abort(lambda: 1 // 0)
    budget.child().on_abort(lambda: calls.append(1))
    child = budget.child()
    child.on_abort(lambda: calls.append(1))
    with caplog.at_level(logging.ERROR, "ahp_sync"):
        budget.cancel()
        budget.on_abort(lambda: 1 // 0)
    assert calls == [1] * 4
    assert [record.name for record in caplog.records] == ["ahp_sync"] * 4


def test_a_callback_may_use_its_budget() -> None:
    """A callback that registers, takes back, asks and cancels again does not hang."""
    budget = Budget(1)
    calls: list[str] = []

    def callback() -> None:
        budget.cancel()
        budget.off_abort(key)
        budget.on_abort(lambda: calls.append("inner"))
        calls.append(str(budget.child().ended))

    key = budget.on_abort(callback)
    budget.cancel()
    assert sorted(calls) == ["True", "inner"]


def test_registering_and_ending_race_without_loss() -> None:
    """Whatever the interleaving of threads, each callback runs exactly once."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(50):
            _race()
    finally:
        sys.setswitchinterval(interval)


def _race() -> None:
    budget, gate = Budget(GENEROUS), threading.Barrier(5)
    calls: list[str] = []
    kept: list[Budget] = []

    def register() -> None:
        gate.wait(GENEROUS)
        for _ in range(30):
            budget.on_abort(lambda: calls.append("own"))
            child = budget.child()
            kept.append(child)
            child.on_abort(lambda: calls.append("child's"))

    def end(how: Callable[[], None]) -> None:
        gate.wait(GENEROUS)
        how()

    threads = [threading.Thread(target=register) for _ in range(3)]
    threads += [threading.Thread(target=end, args=(how,)) for how in (budget.cancel, budget.abort)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(GENEROUS)
    assert sorted(calls) == ["child's"] * 90 + ["own"] * 90


# --- sleep ----------------------------------------------------------------------------------------


def test_a_sleep_within_the_budget_is_slept_out() -> None:
    """It returns that the whole time was slept."""
    started = time.monotonic()
    assert Budget(GENEROUS).sleep(0.02)
    assert time.monotonic() - started >= 0.019


def test_a_sleep_ends_with_the_budget() -> None:
    """It is not longer than what is left, and says so."""
    budget = Budget(0.05)
    started = time.monotonic()
    assert not budget.sleep(GENEROUS)
    assert time.monotonic() - started < 0.05 + SLACK
    assert budget.expired


@pytest.mark.parametrize("seconds", [0, -1, -math.inf, math.nan])
def test_a_sleep_of_no_length_does_not_wait(seconds: float) -> None:
    """A computed pause may come out as nothing."""
    started = time.monotonic()
    Budget(GENEROUS).sleep(seconds)
    assert time.monotonic() - started < SLACK


@pytest.mark.parametrize("end", ["cancel", "abort"])
def test_the_end_of_a_parent_wakes_a_sleep(end: str) -> None:
    """A sleeping worker comes home at once when the call around it is over."""
    outer = Budget(GENEROUS)
    inner = outer.child()
    results: list[bool] = []
    sleeper = threading.Thread(target=lambda: results.append(inner.sleep(GENEROUS)))
    sleeper.start()
    while not inner._callbacks:
        time.sleep(0.001)
    started = time.monotonic()
    getattr(outer, end)()
    sleeper.join(GENEROUS)
    assert time.monotonic() - started < SLACK
    assert results == [False]
    assert not inner._callbacks


def test_an_ended_budget_does_not_sleep() -> None:
    """After the end a pause is over before it begins."""
    budget = Budget(GENEROUS)
    budget.cancel()
    started = time.monotonic()
    assert not budget.sleep(GENEROUS)
    assert time.monotonic() - started < SLACK


_ALARMS = """
import signal
from ahp_sync import Budget

budgets = []
signal.signal(signal.SIGALRM, lambda *_: budgets[0].cancel())
for microseconds in range(4000):
    budgets[:] = [Budget(10)]
    signal.setitimer(signal.ITIMER_REAL, 1e-6 * (1 + microseconds % 100))
    while not budgets[0].cancelled:
        budgets[0].sleep(0.000_01)
"""


def test_a_signal_handler_may_cancel() -> None:
    """Cancelling from a signal handler never waits for what the interrupted code holds."""
    subprocess.run([sys.executable, "-c", _ALARMS], timeout=3 * GENEROUS, check=True)
