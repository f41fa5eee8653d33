"""A backend process that is started for one message and exits after it."""

from __future__ import annotations

import logging
from typing import Optional

from ahp_sync.budget import Budget
from ahp_sync.failure import FailureClass, OperationalFailure
from ahp_sync.transports.base import RESPONSE_CAP, Message, Reply
from ahp_sync.transports.child import Launch
from ahp_sync.transports.framing import excerpt
from ahp_sync.transports.process import BackendProcess, Roster, closed_failure, lost_failure
from ahp_sync.transports.promise import Promise

__all__ = ["deliver"]

_log = logging.getLogger("ahp_sync")


def deliver(launch: Launch, roster: Roster, message: Message, budget: Budget) -> Optional[Reply]:
    """Start a process, give it ``message``, close its stdin, and wait for its answer and its exit.

    A request needs one line, newline included and nothing behind it, *and* exit status 0; any other
    status fails it even with a good answer (R-STD-05, F08). For a notification only the exit is
    waited for, and its status is logged (R-STD-06). Raises what ``Transport.exchange`` does.
    """
    budget.check()
    run = _Run(launch, message)
    roster.start(run.process)
    try:
        run.answer.wait(budget)
    finally:
        run.process.end()
    return run.answer.result()


class _Run:
    """The one run of a process; the process's thread tells it what happens."""

    def __init__(self, launch: Launch, message: Message) -> None:
        self.process = BackendProcess(launch, self)
        self.answer: Promise[Reply] = Promise()
        self._message = message
        self._output = bytearray()

    def started(self) -> None:
        self.process.pump.write(self._message.body + b"\n", closes_input=True)

    def not_started(self, failure: OperationalFailure) -> None:
        self.answer.fail(failure)

    def received(self, chunk: bytes) -> None:
        if self._message.rpc_id is None:
            return
        self._output += chunk
        if len(self._output) > RESPONSE_CAP + 1:  # one more for the newline
            self._reject("too_large", f"the backend process wrote more than {RESPONSE_CAP} bytes")
            self.process.end()

    def exited(self, status: Optional[int]) -> None:
        if self.answer.is_settled:
            return
        if self._message.rpc_id is None:
            if status != 0:
                _log.info("observer process %r exited with status %s", self.process.name, status)
            self.answer.settle()
        elif status != 0:
            self.answer.fail(self._bad_exit(status))
        else:
            self._judge()

    def sent(self) -> None:
        pass

    def closed_input(self) -> None:
        pass  # it may know enough; what counts is its answer

    def closed_output(self) -> None:
        pass  # what counts now is its exit status

    def lingered(self) -> None:
        pass

    def closed(self) -> None:
        self.answer.fail(closed_failure())

    def ended(self) -> None:
        if not self.answer.is_settled:  # the wait is over already, or the thread itself failed
            self.answer.fail(lost_failure())

    def _judge(self) -> None:
        line, newline, junk = self._output.partition(b"\n")
        if not self._output:
            self.answer.fail(
                OperationalFailure(
                    FailureClass.CONNECTION,
                    "no_answer",
                    "the backend process exited without an answer",
                    retryable=True,
                    exit_status=0,
                    stderr=self.process.pump.take_stderr(),
                )
            )
        elif not newline:
            self._reject("no_newline", "the answer of the backend process has no newline")
        elif junk:
            self._reject("trailing_junk", "the backend process wrote more than one line")
        else:
            stderr = self.process.pump.take_stderr()
            self.answer.settle(Reply(bytes(line), facts={"exit_status": 0}, stderr=stderr))

    def _bad_exit(self, status: Optional[int]) -> OperationalFailure:
        how = "with an unknown status" if status is None else f"with status {status}"
        return OperationalFailure(
            FailureClass.PROCESS,
            "exit_status",
            f"the backend process exited {how}",
            retryable=not self._output,
            exit_status=status,
            sample=excerpt(self._output),
            stderr=self.process.pump.take_stderr(),
        )

    def _reject(self, code: str, detail: str) -> None:
        self.answer.fail(
            OperationalFailure(
                FailureClass.MALFORMED,
                code,
                detail,
                sample=excerpt(self._output),
                stderr=self.process.pump.take_stderr(),
            )
        )
