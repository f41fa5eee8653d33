"""The secrets behind references: who is asked for them, and who bears it when that hangs."""

from __future__ import annotations

import contextvars
import logging
import threading
from collections.abc import Iterator
from typing import Any, Callable

import pytest
from watching import GENEROUS, SLACK, eventually, timed

from ahp_sync.auth.resolvers import MAX_STUCK, Tokens, no_secret
from ahp_sync.budget import Budget, BudgetEnded
from ahp_sync.failure import FailureClass, OperationalFailure
from ahp_sync.workers import DeliveryExecutor

SECRET = "s3cr3t-value"
SHORT = 0.1


class Hanging:
    """A resolver that does not return until it is let go; it counts who asks it."""

    def __init__(self) -> None:
        self.asked = threading.Semaphore(0)
        self.calls = 0
        self._go = threading.Event()

    def __call__(self, ref: str) -> str:
        self.calls += 1
        self.asked.release()
        self._go.wait(GENEROUS)
        return SECRET

    def let_go(self) -> None:
        self._go.set()


@pytest.fixture
def executor() -> Iterator[DeliveryExecutor]:
    executor = DeliveryExecutor(32, name="tests-auth")
    yield executor
    executor.shutdown(cancel_futures=True)


@pytest.fixture
def tokens(executor: DeliveryExecutor) -> Callable[[Any], Tokens]:
    """``tokens(source)``: what a client makes of its option."""
    return lambda source: Tokens(source, executor)


@pytest.fixture
def hanging(executor: DeliveryExecutor) -> Iterator[Hanging]:
    hanging = Hanging()  # let go before the executor waits for it
    yield hanging
    hanging.let_go()


def resolved(tokens: Tokens, ref: str = "r", seconds: float = GENEROUS) -> str:
    return tokens.resolve(ref, Budget(seconds))


def refused(tokens: Tokens, ref: str = "r") -> OperationalFailure:
    """Return the failure, which must name nothing that was raised or returned."""
    with pytest.raises(OperationalFailure) as raised:
        resolved(tokens, ref)
    failure = raised.value
    assert failure.failure_class is FailureClass.AUTHENTICATION
    assert not failure.retryable
    assert SECRET not in f"{failure!r} {failure}"
    assert failure.__cause__ is None and failure.__context__ is None
    return failure


def abandon(tokens: Tokens, ref: str = "r", seconds: float = SHORT) -> None:
    with pytest.raises(BudgetEnded):
        resolved(tokens, ref, seconds)


def stick(tokens: Tokens, hanging: Hanging, ref: str = "r") -> None:
    """Leave a call while its resolver hangs."""
    budget = Budget(GENEROUS)
    canceller = threading.Thread(target=lambda: hanging.asked.acquire() and budget.cancel())
    canceller.start()
    with pytest.raises(BudgetEnded):
        tokens.resolve(ref, budget)
    canceller.join(GENEROUS)


# --- who is asked ---------------------------------------------------------------------------------


class Resolving:
    """An object that resolves, and sees the budget."""

    def __init__(self) -> None:
        self.left = 0.0

    def resolve(self, ref: str, budget: Budget) -> str:
        self.left = budget.remaining()
        return f"{ref}!"


def test_a_function_is_given_the_reference(tokens: Callable[[Any], Tokens]) -> None:
    assert resolved(tokens(lambda ref: f"{ref}?")) == "r?"


def test_an_object_is_given_the_budget_too(tokens: Callable[[Any], Tokens]) -> None:
    resolving = Resolving()
    assert resolved(tokens(resolving), seconds=5.0) == "r!"
    assert 0 < resolving.left <= 5.0


def test_a_mapping_has_one_of_the_two_for_each_reference(tokens: Callable[[Any], Tokens]) -> None:
    both = tokens({"a": lambda ref: "A", "b": Resolving()})
    assert (resolved(both, "a"), resolved(both, "b")) == ("A", "b!")
    assert refused(both, "c").code == "no_resolver"


def test_without_a_source_there_is_no_secret(tokens: Callable[[Any], Tokens]) -> None:
    assert refused(tokens(None)).code == "no_resolver"


async def _later(ref: str) -> str:
    return SECRET


@pytest.mark.parametrize(
    "source",
    [SECRET, 7, {"r": SECRET}, {"r": None}, Resolving, {"r": Resolving}, _later, {"r": _later}],
    ids=["text", "number", "text by ref", "nothing by ref", *["class"] * 2, *["async"] * 2],
)
def test_what_can_resolve_nothing_is_refused_at_once(
    source: Any, tokens: Callable[[Any], Tokens]
) -> None:
    with pytest.raises(TypeError) as raised:
        tokens(source)
    assert SECRET not in str(raised.value)


def test_the_resolver_sees_the_context_of_its_caller(tokens: Callable[[Any], Tokens]) -> None:
    """One client serves several tenants (F65)."""
    tenant: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="nobody")
    asking = tokens(lambda ref: f"{ref} of {tenant.get()}")

    def of(name: str) -> str:
        tenant.set(name)
        return resolved(asking)

    found = [contextvars.copy_context().run(of, name) for name in ("ann", "bob")]
    assert found == ["r of ann", "r of bob"]
    assert resolved(asking) == "r of nobody"


def test_the_caller_does_not_resolve_itself(tokens: Callable[[Any], Tokens]) -> None:
    """Whatever a resolver does to its thread, it is not the host's."""
    assert resolved(tokens(lambda ref: threading.current_thread().name)).startswith("tests-auth")


# --- what it may come to --------------------------------------------------------------------------


def raising(error: BaseException) -> Callable[[str], str]:
    def resolver(ref: str) -> str:
        raise error

    return resolver


@pytest.mark.parametrize(
    "error",
    [
        ValueError(SECRET),
        KeyError(SECRET),
        SystemExit(SECRET),
        KeyboardInterrupt(SECRET),
        GeneratorExit(SECRET),
        BudgetEnded(SECRET),
        OperationalFailure(FailureClass.CONNECTION, SECRET, SECRET, retryable=True),
    ],
    ids=lambda error: type(error).__name__,
)
def test_whatever_a_resolver_raises_is_an_authentication_failure(
    error: BaseException, tokens: Callable[[Any], Tokens], caplog: pytest.LogCaptureFixture
) -> None:
    """Of the exception only the type is told, to the log and in the failure (F51)."""
    caplog.set_level(logging.DEBUG)
    failure = refused(tokens(raising(error)))
    assert failure.code == "resolver_failed"
    assert type(error).__name__ in failure.detail
    assert type(error).__name__ in caplog.text
    assert SECRET not in caplog.text


def test_the_failure_of_a_resolver_of_ours_is_passed_on(tokens: Callable[[Any], Tokens]) -> None:
    """A host may wrap a resolver of ours in one of its own."""
    assert refused(tokens(raising(no_secret("credential_missing", "gone")))).detail == "gone"


@pytest.mark.parametrize("value", [None, 7, SECRET.encode(), [SECRET]], ids=repr)
def test_what_is_no_text_is_refused(value: Any, tokens: Callable[[Any], Tokens]) -> None:
    failure = refused(tokens(lambda ref: value))
    assert (failure.code, type(value).__name__ in failure.detail) == ("resolver_failed", True)


def test_a_coroutine_is_refused_without_a_word_on_stderr(tokens: Callable[[Any], Tokens]) -> None:
    """Here an unawaited coroutine would be an error."""
    assert refused(tokens(lambda ref: _later(ref))).code == "resolver_failed"


def test_an_empty_text_is_no_secret(tokens: Callable[[Any], Tokens]) -> None:
    assert refused(tokens(lambda ref: "")).code == "credential_missing"


# --- one that hangs -------------------------------------------------------------------------------


def test_a_hanging_resolver_costs_its_caller_its_budget(
    hanging: Hanging, tokens: Callable[[Any], Tokens]
) -> None:
    _, seconds = timed(lambda: abandon(tokens(hanging)))
    assert SHORT * 0.9 <= seconds < SHORT + SLACK


def test_it_costs_nobody_else_anything(hanging: Hanging, tokens: Callable[[Any], Tokens]) -> None:
    both = tokens({"hangs": hanging, "works": lambda ref: SECRET})
    threads = [threading.Thread(target=abandon, args=(both, "hangs", 2.0)) for _ in range(20)]
    for thread in threads:
        thread.start()
    assert eventually(lambda: hanging.calls == 20)
    secret, seconds = timed(lambda: resolved(both, "works"))
    assert (secret, seconds < SLACK) == (SECRET, True)
    for thread in threads:
        thread.join(GENEROUS)


def test_a_cancelled_caller_leaves_at_once(
    hanging: Hanging, tokens: Callable[[Any], Tokens]
) -> None:
    _, seconds = timed(lambda: stick(tokens(hanging), hanging))
    assert seconds < GENEROUS / 2


def test_eight_stuck_calls_are_enough(hanging: Hanging, tokens: Callable[[Any], Tokens]) -> None:
    """A ninth is refused at once; other references go on, and so does this one, once they return.

    (R-AUTH: a resolver that hangs must not take all workers.)
    """
    both = tokens({"hangs": hanging, "works": lambda ref: SECRET})
    for _ in range(MAX_STUCK):
        stick(both, hanging, "hangs")
    failure, seconds = timed(lambda: refused(both, "hangs"))
    assert (failure.code, seconds < SLACK) == ("resolver_stuck", True)
    assert hanging.calls == MAX_STUCK
    assert resolved(both, "works") == SECRET
    hanging.let_go()

    def recovered() -> bool:
        try:
            return resolved(both, "hangs") == SECRET
        except OperationalFailure:
            return False

    assert eventually(recovered)


def test_many_stuck_at_once_are_counted_and_forgotten(
    hanging: Hanging, tokens: Callable[[Any], Tokens]
) -> None:
    asking = tokens(hanging)
    threads = [threading.Thread(target=abandon, args=(asking, "r", 1.0)) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(GENEROUS)
    assert refused(asking).code == "resolver_stuck"
    hanging.let_go()
    assert eventually(lambda: asking._stuck["r"] == 0)
    assert resolved(asking) == SECRET


@pytest.fixture
def busy() -> Iterator[tuple[DeliveryExecutor, Hanging]]:
    """An executor whose one worker is at something else, which :class:`Hanging` is."""
    executor, work = DeliveryExecutor(1, name="tests-auth"), Hanging()
    executor.submit(work, "")
    assert work.asked.acquire(timeout=GENEROUS)
    yield executor, work
    work.let_go()
    executor.shutdown(cancel_futures=True)


def test_calls_that_never_began_are_not_stuck(busy: tuple[DeliveryExecutor, Hanging]) -> None:
    """Left in the queue, they are not made later, and do not count for ever."""
    executor, work = busy
    calls = []

    def counted(ref: str) -> str:
        calls.append(ref)
        return SECRET

    asking = Tokens(counted, executor)
    for _ in range(MAX_STUCK + 1):
        budget = Budget(GENEROUS)
        timer = threading.Timer(0.02, budget.cancel)
        timer.start()
        with pytest.raises(BudgetEnded):
            asking.resolve("r", budget)
        timer.join()
    work.let_go()
    assert resolved(asking) == SECRET
    assert calls == ["r"]


def test_no_free_thread_is_an_authentication_failure(
    busy: tuple[DeliveryExecutor, Hanging],
) -> None:
    """Getting a credential has one class of failure, so that it is never tried again."""
    asking = Tokens(lambda ref: SECRET, busy[0])
    with pytest.raises(OperationalFailure) as raised:
        resolved(asking, seconds=SHORT)
    assert raised.value.failure_class is FailureClass.AUTHENTICATION
    assert raised.value.code == "resolver_saturated"


def test_a_hanging_resolver_takes_no_workers_place(hanging: Hanging) -> None:
    """Others go on meanwhile, even where there is one worker."""
    executor = DeliveryExecutor(1, name="tests-auth")
    asking = Tokens({"hangs": hanging, "works": lambda ref: SECRET}, executor)
    threads = [threading.Thread(target=abandon, args=(asking, "hangs", 2.0)) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert eventually(lambda: hanging.calls == 3)
    secret, seconds = timed(lambda: resolved(asking, "works"))
    assert (secret, seconds < 1.0) == (SECRET, True)
    for thread in threads:
        thread.join(GENEROUS)
    hanging.let_go()
    for _ in range(20):
        assert resolved(asking, "works") == SECRET

    def settled() -> bool:
        # A thread too many leaves with its next job, or when it has been idle for long.
        now = executor.statistics()
        return (now.load, now.written_off) == (0, 0) and now.threads <= 4

    assert eventually(settled)
    executor.shutdown()
