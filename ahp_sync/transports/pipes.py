"""Pipe ends that several threads use: writing never blocks, and closing is safe at any time."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from typing import Optional, Union

from ahp_sync.transports.framing import CHUNK

__all__ = ["Wake", "WriteEnd", "close_fd", "read_chunk"]


def read_chunk(fd: int) -> Optional[bytes]:
    """Read what is there, at most one chunk: None if nothing is, ``b""`` at the end."""
    try:
        return os.read(fd, CHUNK)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def close_fd(fd: int) -> None:
    """Close ``fd``, if it is one; an error of closing interests nobody."""
    if fd >= 0:
        with suppress(OSError):
            os.close(fd)


class WriteEnd:
    """The writing end of a pipe.

    The lock keeps a thread from writing to a descriptor that another one has just closed, and that
    may be a stranger's file by now. It is held for one non-blocking system call.
    """

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._lock = threading.Lock()

    def fileno(self) -> int:
        """Return the descriptor, -1 once closed."""
        return self._fd

    def offer(self, data: Union[bytes, memoryview]) -> int:
        """Write what fits without waiting and return how many bytes that was.

        Raises :class:`BrokenPipeError` when nobody can read it any more.
        """
        with self._lock:
            if self._fd < 0:
                raise BrokenPipeError("the pipe was closed")
            try:
                return _write(self._fd, data)
            except BlockingIOError:
                return 0

    def close(self) -> None:
        """Close the descriptor; safe to repeat."""
        with self._lock:
            self.abandon()

    def abandon(self) -> None:
        """Close without the lock, which a forked child may have inherited locked for ever."""
        fd, self._fd = self._fd, -1
        close_fd(fd)


class Wake:
    """Ends the wait of a selector from another thread."""

    def __init__(self) -> None:
        self.reader, writer = os.pipe()
        os.set_blocking(self.reader, False)
        self._writer = WriteEnd(writer)

    def ring(self) -> None:
        """Make ``reader`` readable; without effect once closed."""
        with suppress(BrokenPipeError):
            self._writer.offer(b"\0")  # a full pipe is readable as well

    def hear(self) -> None:
        """Make ``reader`` unreadable again."""
        read_chunk(self.reader)

    def close(self) -> None:
        """Close both ends."""
        self._writer.close()
        self._close_reader()

    def abandon(self) -> None:
        """Close both ends in a forked child."""
        self._writer.abandon()
        self._close_reader()

    def _close_reader(self) -> None:
        fd, self.reader = self.reader, -1
        close_fd(fd)


def _write(fd: int, data: Union[bytes, memoryview]) -> int:
    # Command line programs like to set SIGPIPE to its default; a backend that dies must not take
    # such a host with it.
    if signal.getsignal(signal.SIGPIPE) is signal.SIG_DFL:
        return _write_without_sigpipe(fd, data)
    return os.write(fd, data)


def _write_without_sigpipe(fd: int, data: Union[bytes, memoryview]) -> int:
    sigpipe = {signal.SIGPIPE}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, sigpipe)
    try:
        return os.write(fd, data)
    except BrokenPipeError:
        # The signal waits for this thread and would strike once it is let through again.
        if hasattr(signal, "sigtimedwait"):
            signal.sigtimedwait(sigpipe, 0)
        else:
            signal.sigwait(sigpipe)
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
