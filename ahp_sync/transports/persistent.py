"""A backend process that serves one message after another."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from typing import Optional, Protocol

from ahp_sync.budget import Budget
from ahp_sync.failure import FailureClass, OperationalFailure
from ahp_sync.transports.base import RESPONSE_CAP, Message, Reply
from ahp_sync.transports.child import Launch
from ahp_sync.transports.framing import LineReader, excerpt, response_id
from ahp_sync.transports.process import BackendProcess, Roster, closed_failure, lost_failure
from ahp_sync.transports.promise import Promise

__all__ = ["Owner", "PersistentProcess"]

_log = logging.getLogger("ahp_sync")

# How many JSON-RPC ids a process is remembered to have been sent.
_REMEMBERED = 1024


class Owner(Protocol):
    """Who hands the process out. Called without a lock, on the process's thread or the caller's."""

    def ready(self, process: PersistentProcess) -> None:
        """It has started."""

    def not_started(self, process: PersistentProcess, failure: OperationalFailure) -> None:
        """It could not be started."""

    def gone(self, process: PersistentProcess) -> None:
        """It is of no more use."""


class PersistentProcess:
    """A process with at most one request outstanding (R-STD-03).

    It is retired, never to be used again, as soon as anything makes its stream doubtful: no answer
    in time, an over-long line, more noise than an answer may have, a closed pipe, an answer given
    twice (R-STD-04, R-STD-07), or a verdict of the layer above (``Reply.on_rejected``).
    """

    def __init__(self, launch: Launch, owner: Owner) -> None:
        self._owner = owner
        self._process = BackendProcess(launch, self)
        self._lines = LineReader(RESPONSE_CAP)
        self._lock = threading.Lock()
        self._pending: Optional[_Exchange] = None
        self._retired = False
        self._closed = False
        self._owner_knows = False
        self._sent_ids: OrderedDict[str, None] = OrderedDict()
        self._noise = 0
        self._cut_off: Optional[OperationalFailure] = None

    # For the owner

    def start(self, roster: Roster) -> None:
        """Have the process started; raises what :meth:`Roster.start` does."""
        roster.start(self._process)

    def has_seen(self, rpc_id: Optional[str]) -> bool:
        """Whether a message with this id went down the process; no notification has an id."""
        return rpc_id in self._sent_ids

    def remember(self, rpc_id: Optional[str]) -> None:
        """Note that a message with this id is about to go down the process."""
        if rpc_id is not None:
            self._sent_ids[rpc_id] = None
            if len(self._sent_ids) > _REMEMBERED:
                self._sent_ids.popitem(last=False)

    def exchange(self, message: Message, budget: Budget) -> Optional[Reply]:
        """Do what ``Transport.exchange`` promises; one caller at a time.

        The first line that arrives after the request began is its answer, whatever it says (D-17).
        """
        budget.check()
        exchange = self._begin(message)
        try:
            written = self._process.pump.write(message.body + b"\n")
            if written and message.rpc_id is None:
                exchange.settle()
            exchange.wait(budget)
        finally:
            self._finish(exchange)
        return exchange.result()

    def retire(self, failure: Optional[OperationalFailure] = None) -> None:
        """Never use the process again and have it ended; does not wait.

        ``failure`` is what a message meets that is on its way just then.
        """
        with self._lock:
            is_first, self._retired = not self._retired, True
            exchange, self._pending = self._pending, None
        if exchange is not None:
            exchange.fail(failure or _gone())
        self._process.end()
        if is_first:
            self._owner.gone(self)

    def _begin(self, message: Message) -> _Exchange:
        exchange = _Exchange(message)
        with self._lock:
            if self._retired:
                raise closed_failure() if self._closed else _gone()
            self._noise = 0
            self._pending = exchange
        return exchange

    def _finish(self, exchange: _Exchange) -> None:
        with self._lock:
            if self._pending is exchange:
                self._pending = None
        # An answer may still come, or half a message be written: nobody must meet either.
        if not exchange.is_settled or self._process.pump.has_unsent:
            self.retire()

    # What the process tells, on its own thread

    def started(self) -> None:
        self._owner_knows = True
        self._owner.ready(self)

    def not_started(self, failure: OperationalFailure) -> None:
        self._owner_knows = True
        self._owner.not_started(self, failure)

    def received(self, chunk: bytes) -> None:
        unasked = [line for line in self._lines.feed(chunk) if not self._is_answer(line)]
        if unasked:
            self._discard(unasked)
        if self._lines.overflowed:
            self.retire(self._too_large())

    def sent(self) -> None:
        with self._lock:
            exchange = self._pending
            if exchange is None or exchange.awaits_line:
                return
            self._pending = None
        exchange.settle()

    def closed_input(self) -> None:
        self._expect_exit("broken_pipe", "the backend process closed its standard input")

    def closed_output(self) -> None:
        self._expect_exit("stdout_closed", "the backend process closed its standard output")

    def lingered(self) -> None:
        self.retire(self._cut_off)

    def exited(self, status: Optional[int]) -> None:
        failure = self._exited(status)
        _log.info("backend process %r exited, status %s", self._process.name, status)
        self.retire(failure)

    def closed(self) -> None:
        self._closed = True
        self.retire(closed_failure())

    def ended(self) -> None:
        # Only if the thread itself failed does anybody hear of this.
        if not self._owner_knows:
            self.not_started(lost_failure())
        self.retire(lost_failure())

    def _expect_exit(self, code: str, detail: str) -> None:
        if self._pending is None:
            self.retire()  # nobody waits to be told its status, and nobody should take it now
        elif self._cut_off is None:
            self._cut_off = OperationalFailure(
                FailureClass.CONNECTION, code, detail, retryable=True
            )
            self._process.pump.expect_exit()

    def _is_answer(self, line: bytes) -> bool:
        """Give ``line`` to the request that waits for one, and return whether there was any."""
        with self._lock:
            exchange = self._pending
            if exchange is None or not exchange.awaits_line:
                return False
            self._pending = None
        stderr = self._process.pump.take_stderr()
        exchange.settle(Reply(line, stderr=stderr, on_rejected=self.retire))
        return True

    def _discard(self, lines: list[bytes]) -> None:
        if self._retired:
            return
        size = sum(len(line) + 1 for line in lines)
        _log.info("discarded %d bytes unasked for, of backend process %r", size, self._process.name)
        self._noise += size
        repeats = any(response_id(line) in self._sent_ids for line in lines)
        if repeats or self._noise > RESPONSE_CAP:
            what = "an answer twice" if repeats else "too much unasked"
            _log.warning("backend process %r wrote %s; it is retired", self._process.name, what)
            self.retire()

    def _too_large(self) -> OperationalFailure:
        return OperationalFailure(
            FailureClass.MALFORMED,
            "too_large",
            f"the backend process wrote a line of more than {RESPONSE_CAP} bytes",
            sample=excerpt(self._lines.partial),
            stderr=self._process.pump.take_stderr(),
        )

    def _exited(self, status: Optional[int]) -> OperationalFailure:
        how = "its status is unknown" if status is None else f"with status {status}"
        # A regular exit is a connection lost; only another status is the process's own failure.
        return OperationalFailure(
            FailureClass.CONNECTION if status == 0 else FailureClass.PROCESS,
            "exited",
            f"the backend process exited before it answered: {how}",
            retryable=True,
            exit_status=status,
            sample=excerpt(self._lines.partial),
            stderr=self._process.pump.take_stderr(),
        )


class _Exchange(Promise[Reply]):
    def __init__(self, message: Message) -> None:
        super().__init__()
        self.awaits_line = message.rpc_id is not None


def _gone() -> OperationalFailure:
    return OperationalFailure(
        FailureClass.CONNECTION,
        "process_gone",
        "the backend process had just been retired",
        retryable=True,
    )
