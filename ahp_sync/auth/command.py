"""Running the command that prints a secret: a process like any backend's, for one answer."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Optional

from ahp_sync.auth.resolvers import MAX_BYTES, no_secret
from ahp_sync.budget import Budget
from ahp_sync.failure import OperationalFailure
from ahp_sync.transports.child import Launch
from ahp_sync.transports.environment import backend_environment
from ahp_sync.transports.process import BackendProcess, Roster
from ahp_sync.transports.promise import Promise

__all__ = ["CommandRunner"]

# How long a command that took too long may take to be gone, before it is left to its own thread.
_GONE = 1.0


class CommandRunner:
    """Runs commands for what they print, each in a group of its own that is ended afterwards.

    :param env: variables beside the few that every backend process gets (R-ENV-01).
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = dict(env)
        self._rosters: dict[int, Roster] = {}  # by process id

    def output(self, argv: tuple[str, ...], what: str, budget: Budget) -> Optional[bytes]:
        """Return what the command wrote to stdout, or None if ``budget`` ended first.

        It has to exit with status 0, and its output is over with that: what it left behind may hold
        the pipe open (F03). ``what`` is what failures call it. Raises ``OperationalFailure`` of
        class ``authentication``.
        """
        launch = Launch(argv, None, backend_environment(os.environ, self._env), is_fed=False)
        run = _Run(launch, what)
        try:
            self._roster().start(run.process)
        except OperationalFailure:
            raise no_secret("command_not_started", f"{what} can't be started now") from None
        in_time = False
        try:
            in_time = run.output.wait(budget)
        finally:
            run.process.end()
            if not in_time:
                run.process.join(_GONE)
        return run.output.result() if in_time else None

    def _roster(self) -> Roster:
        mine = os.getpid()
        if mine not in self._rosters:
            for pid in list(self._rosters):
                inherited = self._rosters.pop(pid, None) if pid != mine else None
                if inherited is not None:  # at a fork
                    inherited.abandon()
        return self._rosters.setdefault(mine, Roster())


class _Run:
    """The one run of a command; the process's thread tells it what happens."""

    def __init__(self, launch: Launch, what: str) -> None:
        self.process = BackendProcess(launch, self)
        self.output: Promise[bytes] = Promise()
        self._what = what
        self._data = bytearray()

    def not_started(self, failure: OperationalFailure) -> None:
        cause = failure.detail.rpartition(": ")[2]
        self._refuse("command_not_started", f"can't be started: {cause}")

    def received(self, chunk: bytes) -> None:
        self._data += chunk
        if len(self._data) > MAX_BYTES and not self.output.is_settled:
            self._refuse("credential_unusable", f"printed more than {MAX_BYTES} bytes")
            self.process.end()

    def exited(self, status: Optional[int]) -> None:
        if self.output.is_settled:
            return
        if status == 0:
            self.output.settle(bytes(self._data))
        else:
            how = "an unknown status" if status is None else f"status {status}"
            self._refuse("command_failed", f"exited with {how}")

    def ended(self) -> None:
        if not self.output.is_settled:  # the wait is over already, or the thread itself failed
            self._refuse("command_failed", "was ended")

    def started(self) -> None:
        pass

    def sent(self) -> None:
        pass

    def closed_input(self) -> None:
        pass

    def closed_output(self) -> None:
        pass  # what counts now is its exit status

    def lingered(self) -> None:
        pass

    def closed(self) -> None:
        pass

    def _refuse(self, code: str, how: str) -> None:
        self.output.fail(no_secret(code, f"{self._what} {how}"))
