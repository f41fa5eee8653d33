"""Where the bytes of attachments come from, and that each source is read once for all."""

from __future__ import annotations

import functools
import os
import stat
import threading
from typing import Any, BinaryIO, Optional

from ahp_sync.budget import Budget
from ahp_sync.failure import OperationalFailure
from ahp_sync.flights import Flight
from ahp_sync.snapshots import Snapshot, prepare, spooled, too_large, unprepared
from ahp_sync.workers import DeliveryExecutor

__all__ = ["BytesSource", "FileSource", "Source", "StreamSource"]

#: How long reading one source may take where the call has no budget, in seconds.
READING_SECONDS = 60.0

_SLOW = "source_slow"


class Source:
    """A source of bytes. One thread reads at a time, on a worker; all others wait for it."""

    #: Whether it can be read again, so that nothing need be kept between calls.
    is_rereadable = False

    def __init__(self) -> None:
        # By process id: a forked child has a lock that nobody holds, and no reader under way.
        self._locks: dict[int, Any] = {}
        self._flights: dict[int, Flight[Snapshot]] = {}
        self._snapshot: Optional[Snapshot] = None
        self._digest: Optional[str] = None
        self._users = 0
        self._closed = False

    def snapshot(self, executor: DeliveryExecutor, budget: Budget, reading: Budget) -> Snapshot:
        """Return the bytes; see :meth:`Attachment.snapshot`."""
        while True:
            with self._lock:
                if self._closed:
                    raise _closed()
                if self._snapshot is not None:
                    return self._snapshot
                former = self._flights.get(os.getpid())
                flight, mine = former, False
                if flight is None or flight.limit.ended:
                    flight, mine = Flight(executor, reading.child(READING_SECONDS), _slow), True
                    self._flights[os.getpid()] = flight
            if mine:
                if former is not None:
                    former.abandon()
                flight.begin(functools.partial(self._landed, flight))
            try:
                return flight.wait(budget, executor)
            except OperationalFailure as failure:
                self._forget(flight)
                budget.check()
                # Where it was the end of another call that ended the reading, ours begins.
                if mine or failure.code != _SLOW:
                    raise

    def retain(self) -> None:
        """Keep the bytes, once read, until :meth:`release`."""
        with self._lock:
            self._users += 1

    def release(self) -> None:
        """Take back a :meth:`retain`; after the last one, what can be read again is given up."""
        with self._lock:
            self._users -= 1
            if self._users > 0:
                return
        self._drop(for_good=False)

    def close(self) -> None:
        """Give everything up."""
        with self._lock:
            self._closed = True
        self._drop(for_good=True)

    @property
    def _lock(self) -> Any:
        # Re-entrant: a finalizer of the host's that closes it may run inside a locked section.
        mine = self._locks.get(os.getpid())
        return mine or self._locks.setdefault(os.getpid(), threading.RLock())

    def _landed(self, flight: Flight[Snapshot]) -> Snapshot:
        try:
            return self._kept(self._read(flight.limit), flight)
        finally:
            self._forget(flight)

    def _kept(self, snapshot: Snapshot, flight: Flight[Snapshot]) -> Snapshot:
        with self._lock:
            if self._closed or self._flights.get(os.getpid()) is not flight:
                problem = _closed()
            elif self._digest not in (None, snapshot.sha256):
                problem = unprepared("source_changed", "the content of the attachment has changed")
            else:
                self._digest, self._snapshot = snapshot.sha256, snapshot
                return snapshot
        snapshot.close()
        raise problem

    def _forget(self, flight: Flight[Snapshot]) -> None:
        with self._lock:
            if self._flights.get(os.getpid()) is flight:
                del self._flights[os.getpid()]

    def _drop(self, *, for_good: bool) -> None:
        given_up = None
        with self._lock:
            flight = self._flights.pop(os.getpid(), None)
            if for_good or self.is_rereadable:
                given_up, self._snapshot = self._snapshot, None
        if flight is not None:
            flight.abandon()
        if given_up is not None:
            given_up.close()

    def _read(self, limit: Budget) -> Snapshot:
        raise NotImplementedError


class BytesSource(Source):
    """Bytes in memory."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self._data = data

    def _read(self, limit: Budget) -> Snapshot:
        return Snapshot.of(self._data)

    def close(self) -> None:
        """Give them up."""
        super().close()
        self._data = b""


class FileSource(Source):
    """A regular file, which is opened when it is read, and has to stay what it was then."""

    is_rereadable = True

    def __init__(self, path: str, max_bytes: int) -> None:
        super().__init__()
        self._path = path
        self._max_bytes = max_bytes
        prepare()

    def _read(self, limit: Budget) -> Snapshot:
        try:
            # Without O_NONBLOCK opening a pipe would wait for somebody to write to it.
            descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except (OSError, ValueError):
            raise _unreadable("the attachment's file can't be opened") from None
        try:
            facts = os.fstat(descriptor)
            if not stat.S_ISREG(facts.st_mode):
                raise _unreadable("the attachment's path is no regular file")
            if facts.st_size > self._max_bytes:
                too_large(self._max_bytes)
            return spooled(functools.partial(os.read, descriptor), self._max_bytes, limit)
        finally:
            os.close(descriptor)


class StreamSource(Source):
    """A stream of the host's, which can be read but once."""

    def __init__(self, stream: BinaryIO, max_bytes: int) -> None:
        super().__init__()
        self._stream: Optional[BinaryIO] = stream
        self._max_bytes = max_bytes
        prepare()

    def _read(self, limit: Budget) -> Snapshot:
        with self._lock:
            stream, self._stream = self._stream, None
        if stream is None:
            raise unprepared("source_spent", "the attachment's stream was read before, in vain")
        return spooled(stream.read, self._max_bytes, limit)


def _slow() -> OperationalFailure:
    return unprepared(_SLOW, "reading the attachment took too long")


def _closed() -> OperationalFailure:
    return unprepared("source_closed", "the attachment was closed")


def _unreadable(detail: str) -> OperationalFailure:
    return unprepared("source_unreadable", detail)
