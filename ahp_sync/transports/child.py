"""One child process as the operating system sees it: start, exit status, group signals, reaping.

Nothing in here waits or runs a thread. POSIX only.
"""

from __future__ import annotations

import errno
import os
import signal
import subprocess
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Mapping, Optional

from ahp_sync.failure import FailureClass, OperationalFailure
from ahp_sync.transports.pipes import WriteEnd, close_fd

__all__ = ["Child", "Launch", "launch_failure"]


@dataclass(frozen=True)
class Launch:
    """What to start: arguments (the command first), working directory, whole environment.

    ``is_fed``: whether anything will be written to it; otherwise its stdin is ``/dev/null``.
    """

    argv: tuple[str, ...]
    cwd: Optional[str]
    env: Mapping[str, str] = field(repr=False)
    is_fed: bool = True

    @property
    def name(self) -> str:
        """The command's name without its directory, for diagnostics."""
        return os.path.basename(self.argv[0]) or self.argv[0]


class Child:
    """A started process, the leader of a session and group of its own.

    Used by one thread, but for :attr:`stdin`. Raises :class:`OperationalFailure`
    (``launch_failed``) if it can't be started, whatever the reason; no descriptor is left open then
    (F11).
    """

    def __init__(self, launch: Launch) -> None:
        try:
            self._start(launch)
        except Exception as error:  # gevent's Popen, for one, knows more errors than OSError
            raise launch_failure(launch, error) from error
        self.pid = self._popen.pid
        self.pidfd = _open_pidfd(self.pid)
        #: Whether the leader has exited, and how (negative: by that signal). The status stays None
        #: where somebody else reaped the process or SIGCHLD is ignored; it is never taken for 0.
        self.exited = False
        self.status: Optional[int] = None
        self._owner = os.getpid()

    def _start(self, launch: Launch) -> None:
        with ExitStack() as ours, ExitStack() as theirs:
            their_stdin, our_stdin = _pipe(theirs, ours)
            our_stdout, their_stdout = _pipe(ours, theirs)
            our_stderr, their_stderr = _pipe(ours, theirs)
            self._popen = subprocess.Popen(
                launch.argv,
                stdin=their_stdin if launch.is_fed else subprocess.DEVNULL,
                stdout=their_stdout,
                stderr=their_stderr,
                cwd=launch.cwd,
                env=launch.env,
                close_fds=True,
                start_new_session=True,
            )
            ours.pop_all()
        self.stdin = WriteEnd(our_stdin)
        if not launch.is_fed:
            self.stdin.close()
        self.stdout = our_stdout
        self.stderr = our_stderr
        os.set_blocking(our_stdout, False)
        os.set_blocking(our_stderr, False)

    def poll(self) -> bool:
        """Return whether the leader has exited. As a zombie it keeps its group's id from reuse."""
        if os.getpid() != self._owner:
            self.exited = True
        elif not self.exited:
            try:
                self._look()
            except ChildProcessError:
                self.exited = True
                # A library that reaps for everybody, such as gevent, tells its own Popen.
                self.status = self._popen.returncode
        return self.exited

    def _look(self) -> None:
        if hasattr(os, "waitid"):
            found = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if found is not None:
                self.exited = True
                by_itself = found.si_code == os.CLD_EXITED
                self.status = found.si_status if by_itself else -found.si_status
        else:  # macOS before Python 3.13: seeing it means reaping it
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid == self.pid:
                self.exited = True
                self.status = os.waitstatus_to_exitcode(status)

    def signal_group(self, number: int) -> None:
        """Send a signal to the whole group. A forked copy of this object sends nothing.

        The group's id is ours for as long as it has a member or an unreaped leader. Where a host
        reaps for us, this should follow the exit at once.
        """
        if os.getpid() == self._owner:
            with suppress(OSError):  # nobody is left in it, or it is not ours to end
                os.killpg(self.pid, number)

    def reap(self) -> None:
        """Take the exited leader off the process table. Call it last: it frees the group id."""
        if self.exited and os.getpid() == self._owner:
            with suppress(ChildProcessError):
                os.waitpid(self.pid, os.WNOHANG)
        self._settle_popen()

    def close_stdout(self) -> None:
        """Close our end of its stdout; safe to repeat."""
        fd, self.stdout = self.stdout, -1
        close_fd(fd)

    def close_stderr(self) -> None:
        """Close our end of its stderr; safe to repeat."""
        fd, self.stderr = self.stderr, -1
        close_fd(fd)

    def close(self) -> None:
        """Close every descriptor; safe to repeat."""
        self.stdin.close()
        self._close_others()

    def abandon(self) -> None:
        """Close a forked child's copies of the descriptors, without a lock and without a signal."""
        self.stdin.abandon()
        self._close_others()
        self._settle_popen()

    def _close_others(self) -> None:
        self.close_stdout()
        self.close_stderr()
        fd, self.pidfd = self.pidfd, -1
        close_fd(fd)

    def _settle_popen(self) -> None:
        # Else Popen.__del__ warns and hands the pid to a module-wide list.
        if self._popen.returncode is None:
            self._popen.returncode = -signal.SIGKILL if self.status is None else self.status


def launch_failure(launch: Launch, error: Exception) -> OperationalFailure:
    """Return the failure that ``error`` at the start of a process is: names only, no paths."""
    cause = type(error).__name__
    if isinstance(error, OSError) and error.errno is not None:
        cause = errno.errorcode.get(error.errno, cause)
    # Popen names the directory instead of the program when that was what it could not enter.
    at_cwd = isinstance(error, OSError) and launch.cwd is not None and error.filename == launch.cwd
    where = " in its working directory" if at_cwd else ""
    return OperationalFailure(
        FailureClass.PROCESS,
        "launch_failed",
        f"the backend process {launch.name!r} could not be started{where}: {cause}",
    )


def _pipe(reader: ExitStack, writer: ExitStack) -> tuple[int, int]:
    read_end, write_end = os.pipe()
    reader.callback(os.close, read_end)
    writer.callback(os.close, write_end)
    return read_end, write_end


def _open_pidfd(pid: int) -> int:
    """Return a descriptor that is readable once the process has exited, -1 where there is none."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return -1
