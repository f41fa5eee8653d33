"""The bytes of an attachment as they were read, kept in memory or in a file without a name."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Generator
from typing import IO, Any, Callable, NoReturn, Optional

from ahp_sync.budget import Budget
from ahp_sync.failure import FailureClass, OperationalFailure

__all__ = ["PIECE", "Snapshot", "prepare", "spooled", "unprepared"]

#: A larger body is not kept in memory but in a temporary file.
IN_MEMORY = 1 << 20
#: How much is read and sent at a time.
PIECE = 1 << 18


class Snapshot:
    """``size`` bytes with their ``sha256``. Any number of threads may read them at once."""

    def __init__(self, size: int, sha256: str, data: bytes, spool: Optional[_Spool] = None) -> None:
        self.size = size
        self.sha256 = sha256
        self._data = data
        self._spool = spool

    @classmethod
    def of(cls, data: bytes) -> Snapshot:
        """Return that of bytes which are there already."""
        return cls(len(data), hashlib.sha256(data).hexdigest(), data)

    def chunks(self) -> Generator[bytes, None, None]:
        """Yield the bytes from the first to the last, :data:`PIECE` at a time.

        Raises ``OperationalFailure`` of class ``preparation`` where they can't be read any more. It
        keeps a temporary file open until it comes to its end or is closed.
        """
        if self._spool is not None:
            yield from self._spool.pieces(self.size)
        elif self.size <= PIECE:
            yield from (self._data,) if self._data else ()
        else:
            for position in range(0, self.size, PIECE):
                yield self._data[position : position + PIECE]

    def close(self) -> None:
        """Give up a temporary file. Who reads it at the moment comes to the end nevertheless."""
        if self._spool is not None:
            self._spool.close()

    def __repr__(self) -> str:
        return f"<Snapshot of {self.size} bytes>"


class _Spool:
    """A temporary file without a name, which is not closed under a reader.

    Else a reader could be left with a descriptor that has become that of another file. There is no
    lock, which a fork could leave taken: who comes, says so before looking whether it is too late,
    and who ends it, does so before looking who is there.
    """

    def __init__(self) -> None:
        import tempfile

        self._file: Optional[IO[bytes]] = None
        self._readers: dict[object, None] = {}
        self._over = False
        try:
            self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  # see close()
        except OSError:
            raise _no_room() from None

    def write(self, piece: bytes) -> None:
        assert self._file is not None
        view = memoryview(piece)
        try:
            while view:
                view = view[self._file.write(view) :]
        except OSError:
            raise _no_room() from None

    def pieces(self, size: int) -> Generator[bytes, None, None]:
        me = object()
        self._readers[me] = None
        try:
            if self._over or self._file is None:
                raise unprepared("source_closed", "the attachment was closed")
            position = 0
            while position < size:
                piece = _piece_at(self._file.fileno(), position, min(PIECE, size - position))
                position += len(piece)
                yield piece
        finally:
            del self._readers[me]
            if self._over:
                self.close()

    def close(self) -> None:
        self._over = True
        if self._file is not None and not self._readers:
            self._file.close()

    def __del__(self) -> None:
        self.close()


def _piece_at(descriptor: int, position: int, count: int) -> bytes:
    try:
        # Not read(), whose position all readers would share, and forked processes too.
        piece = os.pread(descriptor, count, position)
    except OSError:
        piece = b""
    if not piece:
        raise unprepared("spool_lost", "the attachment's bytes can't be read any more")
    return piece


def prepare() -> None:
    """Import what spooling needs: a child forked amidst an import would wait for ever (F14)."""
    import tempfile  # noqa: F401


def spooled(read: Callable[[int], Any], max_bytes: int, limit: Budget) -> Snapshot:
    """Return what ``read(count)`` returns until it returns nothing, of ``max_bytes`` at most.

    Raises ``OperationalFailure`` of class ``preparation`` where there is more, where it can't be
    read or there is no room for it; and ``BudgetEnded``.
    """
    gathered = _Gathered()
    try:
        while True:
            limit.check()
            piece = _piece(read)
            if not piece:
                return gathered.snapshot()
            if gathered.size + len(piece) > max_bytes:
                too_large(max_bytes)
            gathered.add(piece)
    except BaseException:
        gathered.clear()
        raise


class _Gathered:
    """What was read so far."""

    def __init__(self) -> None:
        self.size = 0
        self._digest = hashlib.sha256()
        self._held: list[bytes] = []
        self._spool: Optional[_Spool] = None

    def add(self, piece: bytes) -> None:
        self.size += len(piece)
        self._digest.update(piece)
        self._held.append(piece)
        if self.size > IN_MEMORY:
            self._spool = self._spool or _Spool()
            for one in self._held:
                self._spool.write(one)
            self._held = []

    def snapshot(self) -> Snapshot:
        return Snapshot(self.size, self._digest.hexdigest(), b"".join(self._held), self._spool)

    def clear(self) -> None:
        if self._spool is not None:
            self._spool.close()


def _piece(read: Callable[[int], Any]) -> bytes:
    try:
        piece = read(PIECE)
    except Exception as error:
        name = type(error).__name__
        raise unprepared("source_unreadable", f"reading the attachment raised {name}") from None
    if not isinstance(piece, (bytes, bytearray)):
        raise unprepared("source_unreadable", "the attachment's source gave no bytes")
    return bytes(piece)


def too_large(max_bytes: int) -> NoReturn:
    """Raise the failure of a source with more than ``max_bytes``."""
    raise unprepared("source_too_large", f"the attachment has more than {max_bytes} bytes")


def unprepared(code: str, detail: str) -> OperationalFailure:
    """Return a failure of class ``preparation``: it is the host's own content that is amiss."""
    return OperationalFailure(FailureClass.PREPARATION, code, detail)


def _no_room() -> OperationalFailure:
    return unprepared("spool_full", "there was no room for the attachment's bytes")
