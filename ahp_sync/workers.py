"""The threads that deliveries block on, so that the caller never does.

The calling thread waits for its job as long as its budget lives and no longer. At the end of the
budget it *aborts* the job (the budget's abort callbacks shut the socket or end the process the
worker is blocked on) and leaves; what the worker brings home later is dropped. A worker that does
not come home, because nothing reaches it (name resolution), is *written off*: another may take its
place, up to a bound, beyond which jobs wait in vain and fail as saturated, in time.

All workers are daemons and none is registered with ``concurrent.futures``, so the interpreter
never waits for one at exit (field bug F05).
"""

from __future__ import annotations

import contextvars
import queue
import threading
import time
from collections import deque
from concurrent.futures import CancelledError, Executor, Future, InvalidStateError
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Callable, Iterator, Optional, TypeVar

from ahp_sync.budget import LONGEST_WAIT, Budget, BudgetEnded, positive_seconds
from ahp_sync.failure import FailureClass, OperationalFailure

__all__ = ["DeliveryExecutor", "Job", "WorkerStatistics"]

T = TypeVar("T")

_IDLE_SECONDS = 60.0
_QUEUED_PER_WORKER = 16
_LENT_PER_WORKER = 4


class _Left(BudgetEnded):
    """What a job is settled with when its caller leaves it while it runs."""


class Job(Future):  # type: ignore[type-arg]  # Future is generic only for the type checker on 3.9
    """A future that its caller may leave before it is done. It runs at most once."""

    def __init__(self, work: Callable[[], Any], budget: Optional[Budget]) -> None:
        super().__init__()
        self._work: Optional[Callable[[], Any]] = work
        self._budget = budget
        self._context = contextvars.copy_context()
        self.home = False  # the worker has come back from it
        self.written_off = False

    def run(self) -> None:
        """Do the work on this thread, unless the caller has left or the budget has ended."""
        if not self.set_running_or_notify_cancel():
            return
        work, self._work = self._work, None
        try:
            if self._budget is not None:
                self._check(self._budget)
            assert work is not None
            result = self._context.run(work)
        except BaseException as error:
            # Tracebacks would keep the frames, and so the request and its secrets, alive.
            if error.__suppress_context__:
                error.__context__ = None
            self._finish(self.set_exception, error.with_traceback(None))
        else:
            self._finish(self.set_result, result)

    @staticmethod
    def _check(budget: Budget) -> None:
        if budget.expired and not budget.cancelled:  # in the queue: that was our own limit
            raise _saturated("no worker was free before the deadline")
        budget.check()

    @staticmethod
    def _finish(publish: Callable[[Any], None], what: Any) -> None:
        try:
            publish(what)
        except InvalidStateError:
            pass  # it was left: a late result is dropped

    @property
    def left(self) -> bool:
        """Whether the caller left before the job was done; told by how it was settled, so that
        who wakes up to that already knows.
        """
        return self.cancelled() or isinstance(self._exception, _Left)

    def leave(self) -> None:
        """Stop waiting for this job for good: unbegun it never runs, and its result is dropped."""
        if self.cancel():
            self._work = None
        else:
            self._finish(self.set_exception, _Left())

    def wait(self, budget: Budget) -> Any:
        """Return the job's result, or raise what it raised, or :class:`BudgetEnded` in time."""
        # Future.result() sleeps on through what a signal handler settles while it sets about to
        # wait, so that a cancelled call would not end at once.
        gate = threading.Lock()
        gate.acquire()
        self.add_done_callback(lambda _: gate.release())
        key = budget.on_abort(self.leave)
        try:
            if not self.done():
                gate.acquire(timeout=min(budget.remaining(), LONGEST_WAIT))
            if not self.done():
                raise BudgetEnded
            return self.result()
        except CancelledError:
            raise BudgetEnded from None
        finally:
            budget.off_abort(key)
            del self  # what is raised here holds this frame, and must not hold itself through it


@dataclass(frozen=True)
class WorkerStatistics:
    """A snapshot of an executor: threads alive, jobs queued or running, workers written off."""

    threads: int
    load: int
    written_off: int


class DeliveryExecutor(Executor):
    """Daemon worker threads, started on demand and bounded, whose queue time is budgeted.

    :param max_workers: how many jobs run at once, at most.
    :param max_written_off: how many stuck workers are replaced at most (default: ``max_workers``).

    Raises :class:`ValueError` for a ``max_workers`` below 1.
    """

    def __init__(
        self,
        max_workers: int,
        *,
        max_written_off: Optional[int] = None,
        name: str = "ahp-sync",
        shutdown_timeout: float = 2.0,
    ) -> None:
        if isinstance(max_workers, bool) or not isinstance(max_workers, int) or max_workers < 1:
            raise ValueError(f"max_workers must be a positive integer, not {max_workers!r}")
        self._max_workers = max_workers
        self._max_written_off = max_workers if max_written_off is None else max_written_off
        self._max_load = max_workers * (_QUEUED_PER_WORKER + 1)
        self._shutdown_timeout = positive_seconds(shutdown_timeout, "shutdown_timeout")
        self._name = name
        # Re-entrant: a finalizer that closes a forgotten client may run inside a locked section.
        self._lock = threading.RLock()
        # A turn is True for each job in one of the two lines, and False to have a worker leave.
        self._turns: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._jobs: deque[Job] = deque()
        self._nested: deque[Job] = deque()  # goes first: a worker waits for each of them
        self._threads: set[threading.Thread] = set()
        self._live = 0  # workers that count against max_workers
        self._load = 0  # jobs queued, or running on a live worker
        self._written_off = 0
        self._lent = 0
        self._closed = False

    # --- the caller's side --------------------------------------------------------------------

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Job:
        """Queue ``fn(*args, **kwargs)``, as ``concurrent.futures.Executor.submit`` does.

        Raises :class:`RuntimeError` after shutdown and ``OperationalFailure`` (saturated) when the
        queue is full. Deliveries use :meth:`run`, which has a budget.
        """
        return self._enqueue(Job(lambda: fn(*args, **kwargs), None))

    def run(self, budget: Budget, work: Callable[[], T]) -> T:
        """Do ``work`` on a worker and return its result, or leave it at the end of ``budget``.

        Raises what ``work`` raises; :class:`BudgetEnded` when the budget ended while it ran; and
        ``OperationalFailure`` (saturated) when no worker was free before the budget ended.
        """
        return self.finish(self.start(budget, work), budget)  # type: ignore[no-any-return]

    def start(self, budget: Budget, work: Callable[[], Any]) -> Job:
        """Queue ``work`` and return its job, for :meth:`finish`. The two halves of :meth:`run`."""
        budget.check()
        try:
            return self._enqueue(Job(work, budget))
        except RuntimeError:
            budget.check()  # who shuts down cancels first: then it is an end like any other
            raise

    def finish(self, job: Job, budget: Budget) -> Any:
        """Wait for a job that :meth:`start` returned, as :meth:`run` does."""
        try:
            with self.away():
                return job.wait(budget)
        except BaseException as error:
            job.leave()
            if job.left:
                budget.abort()
                self._write_off(job)
                waited_in_vain = job.cancelled() and not budget.cancelled
                if waited_in_vain and isinstance(error, BudgetEnded):
                    raise _saturated("no worker was free before the deadline") from None
            raise
        finally:
            del job  # as in Job.wait

    @contextmanager
    def away(self) -> Iterator[None]:
        """Lend the place of the worker that this runs on, while it waits for something else.

        Others go on with their work meanwhile. On any other thread it does nothing.
        """
        lender = self._lend()
        try:
            yield
        finally:
            if lender:
                self._take_back()

    def statistics(self) -> WorkerStatistics:
        """Return a snapshot of the counters."""
        with self._lock:
            return WorkerStatistics(len(self._threads), self._load, self._written_off)

    def shutdown(
        self,
        wait: bool = True,
        *,
        cancel_futures: bool = False,
        timeout: Optional[float] = None,
    ) -> None:
        """Admit no further job and join the workers, for ``timeout`` seconds at most.

        ``cancel_futures`` drops what is still queued. Safe to repeat and from several threads; a
        worker that is stuck is left behind as a daemon.
        """
        seconds = self._shutdown_timeout if timeout is None else timeout
        ends_at = time.monotonic() + min(seconds, LONGEST_WAIT)
        with self._lock:
            self._closed = True
            threads = list(self._threads)
        if cancel_futures:
            self._drop_queued()
        for _ in threads:
            self._turns.put(False)
        if wait:
            for thread in threads:
                if thread is not threading.current_thread():
                    _join(thread, ends_at)

    # --- bookkeeping --------------------------------------------------------------------------

    def _drop_queued(self) -> None:
        while True:
            try:
                is_job = self._turns.get_nowait()
            except queue.Empty:
                return
            if is_job:
                self._next().leave()
                with self._lock:
                    self._load -= 1

    def _enqueue(self, job: Job) -> Job:
        with self._lock:
            if self._closed:
                raise RuntimeError("cannot submit after shutdown")
            if self._load >= self._max_load:
                raise _saturated("the queue of deliveries is full")
            self._load += 1
            worker = self._hire()
            is_nested = threading.current_thread() in self._threads
            (self._nested if is_nested else self._jobs).append(job)
            self._turns.put(True)
        self._start(worker)
        return job

    def _hire(self) -> Optional[threading.Thread]:
        """Under the lock: the thread to start, if the load asks for one and the bound allows it."""
        if self._closed or self._load <= self._live or self._live >= self._max_workers:
            return None
        worker = threading.Thread(target=self._work, name=f"{self._name}-worker", daemon=True)
        self._live += 1
        self._threads.add(worker)
        return worker

    def _start(self, worker: Optional[threading.Thread]) -> None:
        if worker is None:
            return
        try:
            worker.start()
        except RuntimeError:  # the system has no thread left; the job waits for another worker
            with self._lock:
                self._live -= 1
                self._threads.discard(worker)

    def _write_off(self, job: Job) -> None:
        """Let another worker take the place of the one that still runs ``job``."""
        with self._lock:
            running = not (job.cancelled() or job.home or job.written_off)
            if not running or self._written_off >= self._max_written_off:
                return
            job.written_off = True
            self._written_off += 1
            self._live -= 1
            self._load -= 1
            worker = self._hire()
        self._start(worker)

    # A worker that itself calls a hook (from a token callback, say) waits for another worker. While
    # it waits its own place is lent out, so that a pool of one does not wait for itself (F71). That
    # is bounded: calls that nest for ever end as saturated.

    def _lend(self) -> bool:
        with self._lock:
            is_worker = threading.current_thread() in self._threads
            lends = is_worker and self._lent < self._max_workers * _LENT_PER_WORKER
            if lends:
                self._lent += 1
                self._live -= 1
                self._load -= 1
                worker = self._hire()
        if lends:
            self._start(worker)
        return lends

    def _take_back(self) -> None:
        with self._lock:
            self._lent -= 1
            self._live += 1
            self._load += 1

    # --- the worker's side --------------------------------------------------------------------

    def _work(self) -> None:
        while True:
            try:
                is_job = self._turns.get(timeout=_IDLE_SECONDS)
            except queue.Empty:
                if self._may_leave():
                    return
                continue
            if not is_job:
                self._may_leave(closing=True)
                return
            job = self._next()
            job.run()
            stays = self._come_home(job)
            del job  # what it holds must not live as long as an idle worker
            if not stays:
                return

    def _next(self) -> Job:
        """Return the job for a turn; there is one, since its line is joined first."""
        try:
            return self._nested.popleft()
        except IndexError:
            return self._jobs.popleft()

    def _come_home(self, job: Job) -> bool:
        """Count the job as done; returns whether this worker is still wanted."""
        with self._lock:
            job.home = True
            if job.written_off:
                self._written_off -= 1
                self._live += 1
            else:
                self._load -= 1
            if self._live <= self._max_workers:
                return True
            self._live -= 1
            self._threads.discard(threading.current_thread())
            return False

    def _may_leave(self, *, closing: bool = False) -> bool:
        with self._lock:
            if not closing and self._load >= self._live:
                return False
            self._live -= 1
            self._threads.discard(threading.current_thread())
            return True


def _join(thread: threading.Thread, ends_at: float) -> None:
    while True:
        left = max(0.0, ends_at - time.monotonic())
        try:
            thread.join(left)
            return
        except RuntimeError:  # it can't be joined before whoever hired it has started it
            if left == 0.0:
                return
            time.sleep(min(left, 0.001))


def _saturated(detail: str) -> OperationalFailure:
    return OperationalFailure(FailureClass.SATURATED, "no_worker", detail)
