"""One delivery: from a serialised message to a checked answer, tried while its budget lives."""

from __future__ import annotations

import logging
import traceback
from dataclasses import dataclass
from typing import Any, Callable, Generic, Mapping, Optional, Sequence, TypeVar, Union

from ahp_sync.auth.credentials import late_credentials
from ahp_sync.budget import Budget, BudgetEnded
from ahp_sync.failure import FailureClass, OperationalFailure
from ahp_sync.protocol.effects import admitted_effects
from ahp_sync.protocol.jsonrpc import answer_body
from ahp_sync.redaction import Redactor, redacted
from ahp_sync.retry import RetryPolicy, with_retries
from ahp_sync.transports.base import Message, Reply, Transport
from ahp_sync.workers import DeliveryExecutor, Job

__all__ = ["Answer", "Delivery", "Notice", "Progress", "Question"]

_log = logging.getLogger("ahp_sync")

T = TypeVar("T")

# An answer of these classes makes the stream that it came from doubtful; others are just refused.
_DOUBTFUL = frozenset({FailureClass.MALFORMED, FailureClass.ID_MISMATCH})


@dataclass(frozen=True)
class Question(Generic[T]):
    """One request to one interceptor, and what its answer is measured by.

    ``capabilities`` are those in the message. ``stage`` makes of the admitted effects what is to
    count; it may refuse them by ``OperationalFailure``, and calls its second argument now and then.
    """

    transport: Transport
    message: Message
    event_type: str
    capabilities: Mapping[str, Any]
    stage: Callable[[tuple[dict[str, Any], ...], Callable[[], object]], T]


@dataclass(frozen=True)
class Answer(Generic[T]):
    """What an interception came to: staged, not yet published; and facts for its audit record."""

    effects: tuple[dict[str, Any], ...]
    staged: T
    facts: Mapping[str, int]
    stderr: Optional[str]


class Progress:
    """How far a delivery got, for its audit record; written by the worker, read after the wait."""

    def __init__(self) -> None:
        self.attempts = 0
        #: What the work was at when its time was over; see :attr:`Budget.doing`.
        self.doing: Optional[str] = None
        self._failed: Optional[OperationalFailure] = None

    def attempt(self, number: int, work: Callable[[], T]) -> T:
        """Do one attempt, and keep what became of it."""
        self.attempts = number
        try:
            return _guarded(work)
        except OperationalFailure as failure:
            self._failed = failure
            raise

    def no_answer(self) -> OperationalFailure:
        """Return the failure of a delivery whose deadline passed without an answer (AHP-FAIL-002).

        It tells of an earlier attempt's failure too, which a retry would hide otherwise.
        """
        if self.doing is not None:
            return late_credentials()
        detail, earlier = "no answer before the deadline", self._failed
        if earlier is None:
            return OperationalFailure(FailureClass.DEADLINE_EXCEEDED, "no_answer", detail)
        return OperationalFailure(
            FailureClass.DEADLINE_EXCEEDED,
            "no_answer",
            f"{detail}; an earlier attempt: {earlier.failure_class.value}/{earlier.code}",
            http_status=earlier.http_status,
            rpc_code=earlier.rpc_code,
            exit_status=earlier.exit_status,
            sample=earlier.sample,
            stderr=earlier.stderr,
        )


@dataclass(frozen=True)
class Notice:
    """One notification on its way to one observer."""

    transport: Transport
    message: Message
    progress: Progress


class Delivery:
    """Sends messages over transports on worker threads, within budgets.

    Its methods block for ``budget.remaining()`` at most. They raise ``OperationalFailure``, and
    ``BudgetEnded`` when the budget ended first.
    """

    def __init__(self, executor: DeliveryExecutor, retry: RetryPolicy) -> None:
        self._executor = executor
        self._retry = retry

    def intercept(self, question: Question[T], budget: Budget, progress: Progress) -> Answer[T]:
        """Send a request and return its answer, admitted and staged."""

        def attempt(number: int) -> Answer[T]:
            return progress.attempt(number, lambda: _ask(question, budget))

        try:
            return self._executor.run(budget, lambda: with_retries(attempt, budget, self._retry))
        except BudgetEnded:
            progress.doing = budget.doing
            raise

    def host(self, callback: Callable[[], T], budget: Budget) -> T:
        """Run a callback of the host on a worker, so that it can't outlast the budget (R-ADM-04).

        Raises what it raises, too.
        """
        return self._executor.run(budget, callback)

    def observe(self, notices: Sequence[Notice], budget: Budget) -> list[Optional[Exception]]:
        """Send notifications side by side; whatever comes back is discarded (R-OBS-05).

        Returns for each what became of it: None, ``OperationalFailure`` or ``BudgetEnded``.
        """
        budgets = [budget.child() for _ in notices]
        results = self.together(
            [self._telling(notice, its) for notice, its in zip(notices, budgets)], budget
        )
        for notice, its in zip(notices, budgets):
            notice.progress.doing = its.doing
        return [result if isinstance(result, Exception) else None for result in results]

    def together(
        self, works: Sequence[Callable[[], T]], budget: Budget
    ) -> list[Union[T, OperationalFailure, BudgetEnded]]:
        """Do the works side by side, and return the result of each, or how it failed."""
        jobs: list[Union[Job, OperationalFailure]] = []
        try:
            for work in works:
                jobs.append(self._start(work, budget))
            return [self._finish(job, budget) for job in jobs]
        except BaseException:  # an interrupt of the host: nothing may be left running
            budget.abort()
            for job in jobs:
                self._finish(job, budget)  # which leaves it at once
            raise

    def _telling(self, notice: Notice, budget: Budget) -> Callable[[], None]:
        def attempt(number: int) -> None:
            notice.progress.attempt(
                number, lambda: notice.transport.exchange(notice.message, budget)
            )

        return lambda: with_retries(attempt, budget, self._retry)

    def _start(self, work: Callable[[], object], budget: Budget) -> Union[Job, OperationalFailure]:
        try:
            return self._executor.start(budget, work)
        except OperationalFailure as failure:
            return failure

    def _finish(self, job: Union[Job, OperationalFailure], budget: Budget) -> Any:
        if isinstance(job, OperationalFailure):
            return job
        try:
            return self._executor.finish(job, budget)
        except (OperationalFailure, BudgetEnded) as error:
            return error.with_traceback(None)  # it is a value from here on


def _guarded(work: Callable[[], T]) -> T:
    """Do one attempt; an error that no transport should raise is a failure like any other.

    Nothing of it but its type is told: its text may hold what a log must not.
    """
    try:
        return work()
    except (OperationalFailure, BudgetEnded):
        raise
    except BaseException as error:  # SystemExit too: it must not end the host from a worker
        name = type(error).__name__
        where = "".join(traceback.format_tb(error.__traceback__))
        _log.error("unexpected %s in a delivery, taken for a lost connection\n%s", name, where)
        raise OperationalFailure(
            FailureClass.CONNECTION, "internal_error", f"the delivery failed by itself: {name}"
        ) from None


def _ask(question: Question[T], budget: Budget) -> Answer[T]:
    reply = question.transport.exchange(question.message, budget)
    if reply is None:
        reply = Reply(b"")
    elif not (isinstance(reply, Reply) and isinstance(reply.body, bytes)):
        raise TypeError("a transport returns a Reply with bytes, or None")
    try:
        return _answer(reply, question, budget)
    except OperationalFailure as failure:
        failure.http_status = reply.facts.get("http_status", failure.http_status)
        failure.exit_status = reply.facts.get("exit_status", failure.exit_status)
        failure.stderr = reply.stderr
        if failure.sample:
            failure.sample = redacted(failure.sample, reply.secrets)
        if reply.on_rejected is not None and failure.failure_class in _DOUBTFUL:
            reply.on_rejected()
        raise


def _answer(reply: Reply, question: Question[T], budget: Budget) -> Answer[T]:
    result = answer_body(reply.body, question.message.rpc_id or "", budget.check)
    effects = admitted_effects(result, question.event_type, question.capabilities, budget.check)
    if reply.secrets:
        effects = _without_secrets(effects, reply.secrets, budget)
    return Answer(effects, question.stage(effects, budget.check), reply.facts, reply.stderr)


def _without_secrets(
    effects: tuple[dict[str, Any], ...], secrets: tuple[str, ...], budget: Budget
) -> tuple[dict[str, Any], ...]:
    """Keep a backend that echoes its credentials from having them shown to the model (F51).

    Edits and results stay as they are: they are data, which a chance likeness must not change.
    """
    hide, shown = Redactor(secrets), []
    for effect in effects:
        budget.check()
        words: dict[str, Any] = {name: hide(effect[name]) for name in _WORDS if name in effect}
        if effect["type"] == "inject":
            words["value"] = [_hidden(message, hide) for message in effect["value"]]
        shown.append({**effect, **words})
    return tuple(shown)


# The members of effects that are for reading.
_WORDS = ("reason", "text", "instruction")


def _hidden(message: dict[str, Any], hide: Callable[[str], str]) -> dict[str, Any]:
    parts = [
        {**part, "text": hide(part["text"])} if "text" in part else part
        for part in message["parts"]
    ]
    return {**message, "parts": parts}
