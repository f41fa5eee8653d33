"""The loop that does all the I/O of one backend process, until the process is gone and reaped."""

from __future__ import annotations

import math
import os
import selectors
import signal
import time
from contextlib import ExitStack, suppress
from typing import Callable, Optional, Protocol

from ahp_sync.transports.child import Child, Launch, launch_failure
from ahp_sync.transports.framing import CHUNK, Tail
from ahp_sync.transports.pipes import Wake, read_chunk

__all__ = ["GRACE", "Forked", "Listener", "Pump"]

#: Seconds between SIGTERM and SIGKILL.
GRACE = 0.2

# How long a process that closed a pipe has to exit, so that the failure can tell its status.
_LINGER = 0.1

# Seconds between two looks at the process where the system has no pidfd to wait for.
_POLL = 0.02

# What a process can have left in a pipe when it exits: the largest pipe of an ordinary user.
# Behind that comes what its grandchildren write, perhaps without end.
_LAST_READS = (1 << 20) // CHUNK + 1


class Forked(Exception):
    """The pump finds itself in a forked child: gevent's greenlets survive a fork, threads don't."""


class Listener(Protocol):
    """Who is told what happens to a process: on its thread, without a lock. Must not block."""

    def started(self) -> None:
        """It runs, and may be written to."""

    def received(self, chunk: bytes) -> None:
        """It wrote ``chunk`` to stdout."""

    def sent(self) -> None:
        """It has been given all of a :meth:`Pump.write` that could not be given at once."""

    def closed_input(self) -> None:
        """It closed its stdin while bytes were still to be sent."""

    def closed_output(self) -> None:
        """It closed its stdout."""

    def lingered(self) -> None:
        """It still runs after :meth:`Pump.expect_exit`, and is about to be ended."""

    def exited(self, status: Optional[int]) -> None:
        """It exited by itself, and what it wrote was received. None: nobody can tell its status."""


class Pump:
    """Starts one process and looks after it. Raises ``OperationalFailure`` if it can't be started.

    Made, run and listened to on one thread; other threads may :meth:`write`, :meth:`end` and
    :meth:`abandon`.
    """

    def __init__(self, launch: Launch, listener: Listener) -> None:
        self._listener = listener
        self._stderr = Tail()
        self._unsent: Optional[memoryview] = None
        self._closes_input = False
        self._serve_until = math.inf
        self._kill_at = math.inf
        self._end_asked = False
        self._is_finishing = False
        self._waits_for_exit = False
        self._owner = os.getpid()
        self._start(launch)

    def _start(self, launch: Launch) -> None:
        with ExitStack() as undo:
            try:
                self._selector = selectors.DefaultSelector()
                undo.callback(self._selector.close)
                self._wake = Wake()
                undo.callback(self._wake.close)
            except OSError as error:
                raise launch_failure(launch, error) from error
            self._child = Child(launch)
            undo.pop_all()

    # For any thread

    def write(self, data: bytes, *, closes_input: bool = False) -> bool:
        """Give ``data`` to the process without waiting; one caller at a time.

        Returns whether it is all written. If not, the pump goes on with it, and the listener hears
        ``sent`` or ``closed_input``. ``closes_input``: stdin is closed behind it.
        """
        taken = 0
        if not closes_input:
            # A broken pipe is met by the pump again, which can tell whether the process is dying.
            with suppress(BrokenPipeError):
                taken = self._child.stdin.offer(data)
        if taken == len(data):
            return True
        self._closes_input = closes_input
        self._unsent = memoryview(data)[taken:]
        self._wake.ring()
        return False

    @property
    def has_unsent(self) -> bool:
        """Whether a part of the last write is still to be written."""
        return self._unsent is not None

    def end(self, grace: float) -> None:
        """Have the group ended: SIGTERM at once, SIGKILL ``grace`` seconds later. Does not wait.

        A second call can only shorten the grace.
        """
        self._kill_at = min(self._kill_at, time.monotonic() + grace)
        self._end_asked = True
        self._wake.ring()

    def abandon(self) -> None:
        """In a forked child: close the copies of the descriptors, take no lock, signal nobody."""
        try:
            self._selector.close()
        finally:
            self._wake.abandon()
            self._child.abandon()

    # For the pump's own thread

    def run(self) -> None:
        """Pump until the process exits or its end is asked for, then see to it that it is gone.

        Raises :class:`Forked`, having touched nothing, once it notices that.
        """
        try:
            self._watch_all()
            if not self._end_asked:
                self._listener.started()
            self._serve()
        finally:
            if os.getpid() == self._owner:
                self._finish()

    def expect_exit(self) -> None:
        """Give a process that closed a pipe a moment to exit; then ``lingered`` is told."""
        self._serve_until = min(self._serve_until, time.monotonic() + _LINGER)

    def take_stderr(self) -> Optional[str]:
        """Return the end of what came through stderr since the last time; None if nothing did."""
        self._read_stderr()
        return self._stderr.take()

    def _watch_all(self) -> None:
        self._watch(self._wake.reader, self._on_wake)
        self._watch(self._child.stdout, self._read_stdout)
        self._watch(self._child.stderr, self._read_stderr)
        if self._child.pidfd >= 0:
            self._watch(self._child.pidfd, self._on_exit)
            self._waits_for_exit = True

    def _serve(self) -> None:
        while not self._end_asked:
            left = self._serve_until - time.monotonic()
            if left <= 0:
                self._listener.lingered()
                return
            self._turn(left)
            if self._child.exited:
                self._drain()
                self._listener.exited(self._child.status)
                return

    def _finish(self) -> None:
        """SIGTERM, grace, SIGKILL, reap.

        The leader stays a zombie until the last signal is sent: the group's id can't be reused.
        """
        self._is_finishing = True
        self._kill_at = min(self._kill_at, time.monotonic() + GRACE)
        self._stop_sending()
        self._child.stdin.close()
        self._child.signal_group(signal.SIGTERM)
        while self._may_have_members():
            left = self._kill_at - time.monotonic()
            if left <= 0:
                break
            self._turn(left)
        self._child.signal_group(signal.SIGKILL)
        # A grandchild that left the group may keep the pipes, and write to them, for ever.
        self._drop_stdout()
        self._drop_stderr()
        while not self._child.poll():
            self._turn(math.inf)
        self._child.reap()
        self._selector.close()
        self._child.close()
        self._wake.close()

    def _may_have_members(self) -> bool:
        # Open pipes tell of grandchildren that still tidy up after SIGTERM.
        child = self._child
        return not child.exited or child.stdout >= 0 or child.stderr >= 0

    def _turn(self, seconds: float) -> None:
        """Wait for something to happen, at most so long, and handle it."""
        if not self._waits_for_exit:
            seconds = min(seconds, _POLL)
        events = self._selector.select(None if math.isinf(seconds) else seconds)
        if os.getpid() != self._owner:
            raise Forked
        for key, _ in events:
            key.data()
        if not self._waits_for_exit:
            self._child.poll()

    def _on_wake(self) -> None:
        self._wake.hear()
        if self._unsent is not None and not self._is_finishing:
            self._flush()
            if self._unsent is not None:
                self._watch(self._child.stdin.fileno(), self._flush, selectors.EVENT_WRITE)

    def _on_exit(self) -> None:
        self._unwatch(self._child.pidfd)
        # A debugger may keep the news from us for a while.
        self._waits_for_exit = self._child.poll()

    def _flush(self) -> None:
        if self._unsent is None:
            return
        try:
            self._unsent = self._unsent[self._child.stdin.offer(self._unsent) :]
        except BrokenPipeError:
            self._stop_sending()
            self._child.stdin.close()
            self._listener.closed_input()
            return
        if not self._unsent:
            self._stop_sending()
            if self._closes_input:
                self._child.stdin.close()
            self._listener.sent()

    def _stop_sending(self) -> None:
        self._unsent = None
        self._unwatch(self._child.stdin.fileno())

    def _drain(self) -> None:
        for _ in range(_LAST_READS):
            if not self._read_stdout():
                break
        for _ in range(_LAST_READS):
            if not self._read_stderr():
                break

    def _read_stdout(self) -> bool:
        if self._child.stdout < 0:
            return False
        chunk = read_chunk(self._child.stdout)
        if chunk == b"":
            self._drop_stdout()
            if not self._is_finishing:
                self._listener.closed_output()
        elif chunk is not None and not self._is_finishing:
            self._listener.received(chunk)
        return bool(chunk)

    def _read_stderr(self) -> bool:
        if self._child.stderr < 0:
            return False
        chunk = read_chunk(self._child.stderr)
        if chunk:
            self._stderr.add(chunk)
        elif chunk is not None:
            self._drop_stderr()
        return bool(chunk)

    def _drop_stdout(self) -> None:
        self._unwatch(self._child.stdout)
        self._child.close_stdout()

    def _drop_stderr(self) -> None:
        self._unwatch(self._child.stderr)
        self._child.close_stderr()

    def _watch(
        self, fd: int, handler: Callable[[], object], events: int = selectors.EVENT_READ
    ) -> None:
        if fd not in self._selector.get_map():
            self._selector.register(fd, events, handler)

    def _unwatch(self, fd: int) -> None:
        # A descriptor is taken out before it is closed: a forked child may still hold a copy, and
        # then the kernel would go on telling of it.
        if fd >= 0 and fd in self._selector.get_map():
            self._selector.unregister(fd)
