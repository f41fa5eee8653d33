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
    """``size`` bytes with their ``sha256``. Any number of threads may read them at the same time.

    They are kept as long as anybody refers to the snapshot or reads from it.
    """

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

        Raises ``OperationalFailure`` of class ``preparation`` where they can't be read any more.
        """
        if self._spool is not None:
            yield from self._spool.pieces(self.size)
        elif self.size <= PIECE:
            yield from (self._data,) if self._data else ()
        else:
            for position in range(0, self.size, PIECE):
                yield self._data[position : position + PIECE]

    def __repr__(self) -> str:
        return f"<Snapshot of {self.size} bytes>"


class _Spool:
    """A temporary file without a name. It goes when nobody refers to it any more, and not before.

    So nobody who reads it is left with a descriptor that has become that of another file.
    """

    def __init__(self) -> None:
        import tempfile

        self._file: Optional[IO[bytes]] = None
        try:
            self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  # see __del__
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
        assert self._file is not None
        position = 0
        while position < size:
            try:
                # Not read(), whose position all readers would share, and forked processes too.
                piece = os.pread(self._file.fileno(), min(PIECE, size - position), position)
            except OSError:
                piece = b""
            if not piece:
                raise unprepared("spool_lost", "the attachment's bytes can't be read any more")
            position += len(piece)
            yield piece

    def __del__(self) -> None:
        if self._file is not None:
            self._file.close()


def prepare() -> None:
    """Import what spooling needs: a child forked amidst an import would wait for ever (F14)."""
    import tempfile  # noqa: F401


def spooled(read: Callable[[int], Any], max_bytes: int, limit: Budget) -> Snapshot:
    """Return what ``read(count)`` returns until it returns nothing, of ``max_bytes`` at most.

    Raises ``OperationalFailure`` of class ``preparation`` where there is more, where it can't be
    read or there is no room for it; and ``BudgetEnded``.
    """
    digest, size = hashlib.sha256(), 0
    held: list[bytes] = []
    spool: Optional[_Spool] = None
    while True:
        limit.check()
        piece = _piece(read)
        if not piece:
            return Snapshot(size, digest.hexdigest(), b"".join(held), spool)
        size += len(piece)
        if size > max_bytes:
            too_large(max_bytes)
        digest.update(piece)
        held.append(piece)
        if size > IN_MEMORY:
            spool = spool or _Spool()
            for one in held:
                spool.write(one)
            held = []


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
