"""The stdio transport: a backend that is a command, persistent or started for every event."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Mapping, Optional

from ahp_sync.budget import Budget
from ahp_sync.transports import per_event
from ahp_sync.transports.base import Message, Reply
from ahp_sync.transports.child import Launch
from ahp_sync.transports.environment import backend_environment
from ahp_sync.transports.pool import Pool
from ahp_sync.transports.process import Roster

if TYPE_CHECKING:
    from ahp_sync.registration import StdioCommand

__all__ = ["StdioTransport"]


class StdioTransport:
    """The transport of one stdio backend (R-STD-01 to R-STD-07). Starts nothing before it is used.

    :param command: what to run, where, and in which lifecycle; without a shell (R-STD-02).
    :param processes: how many persistent processes may work at once; each has one request at a
        time.
    :param lanes: how many messages may carry the same JSON-RPC id, that is, how many intercept
        subscriptions the backend has. At most ``processes * lanes`` persistent processes live.
    :param environ: the host's environment, from which the allow-list of R-ENV-01 is taken now;
        ``os.environ`` by default.

    Raises :class:`NotImplementedError` on Windows, :class:`ValueError` for counts below one.
    Commands are looked up in the ``PATH`` of the environment they get.
    """

    def __init__(
        self,
        command: StdioCommand,
        *,
        processes: int = 1,
        lanes: int = 1,
        environ: Optional[Mapping[str, str]] = None,
    ) -> None:
        if os.name != "posix":
            raise NotImplementedError("stdio backends need a POSIX system")
        if processes < 1 or lanes < 1:
            raise ValueError("a stdio backend needs at least one process and one lane")
        environment = backend_environment(
            os.environ if environ is None else environ, dict(command.env)
        )
        self._launch = Launch((command.command, *command.args), command.cwd, environment)
        self._roster = Roster()
        self._pool: Optional[Pool] = None
        if command.lifecycle.value == "persistent":
            self._pool = Pool(self._launch, self._roster, processes=processes, lanes=lanes)

    def __repr__(self) -> str:
        how = "per event" if self._pool is None else repr(self._pool)
        return f"<StdioTransport {self._launch.name!r}, {len(self._roster)} processes, {how}>"

    def exchange(self, message: Message, budget: Budget) -> Optional[Reply]:
        """Send one message to a process and return the line it answers, or None to a notification.

        See ``Transport.exchange``. The line is not looked at: whoever finds it unreadable, or not
        an answer to this request, calls ``Reply.on_rejected``, which retires the process.
        Failures of its own: ``process`` (launch_failed, exited, exit_status), ``connection``
        (broken_pipe, stdout_closed, no_answer, process_gone, closed), ``malformed`` (too_large,
        no_newline, trailing_junk), ``saturated`` (process_busy, processes_ending, no_thread).
        """
        if b"\n" in message.body:
            raise ValueError("a message on a stdio stream must not contain a newline")
        if self._pool is None:
            return per_event.deliver(self._launch, self._roster, message, budget)
        process = self._pool.acquire(message.rpc_id, budget)
        try:
            return process.exchange(message, budget)
        finally:
            self._pool.release(process)

    def close(self, budget: Budget) -> None:
        """End every process (SIGTERM, a grace, SIGKILL to its group) and reap it within ``budget``.

        Safe to repeat, from several threads, and with exchanges on their way: those fail. What the
        budget is too short for goes on in the background.
        """
        if self._pool is not None:
            self._pool.close()
        self._roster.close(budget)

    def abandon_after_fork(self) -> None:
        """In a forked child: close its copies of the pipes and leave the parent's processes alone.

        The transport is closed afterwards. Takes no lock: a thread of the parent may have held it
        at the fork.
        """
        if self._pool is not None:
            self._pool.abandon()
        self._roster.abandon()
