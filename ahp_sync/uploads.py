"""Attachments: the bodies of content parts, read once and shared by all who are to see them.

Put an :class:`Attachment` where an event takes a part. Its bytes are read when the first
subscription that selects it as ``body`` has its turn, never for the others (R-CON-08), and go to
that subscription's upload endpoint; on the wire the part has the receiver's own reference.
"""

from __future__ import annotations

import mimetypes
import os
import re
import uuid
from typing import Any, BinaryIO, Optional, Union

from ahp_sync.budget import Budget
from ahp_sync.protocol.references import LOCAL
from ahp_sync.snapshots import Snapshot
from ahp_sync.sources import BytesSource, FileSource, Source, StreamSource
from ahp_sync.workers import DeliveryExecutor

__all__ = ["Attachment", "Snapshot"]

#: How much a file may hold, unless the host says otherwise.
MAX_BYTES = 256 << 20

_TYPE = re.compile(r"[^\s/;]+/[^\s/;]+(?:\s*;.*)?\Z", re.DOTALL)
# R-CON-01: text is inline, and structured data is text.
_TEXTUAL = re.compile(r"text/|[^/]+/(?:[^;]+\+)?json\s*(?:;|\Z)", re.IGNORECASE)
_ANY = "application/octet-stream"
# What is compressed is not of the type of its content.
_COMPRESSED = {"gzip": "application/gzip", "bzip2": "application/x-bzip2", "xz": "application/x-xz"}

Path = Union[str, "os.PathLike[str]"]


class Attachment:
    """The body of one content part. Make it by one of the class methods; then it never changes.

    :ivar id: the part's id.
    :ivar media_type: its media type.
    :ivar category: its content category, or None for that of the media type (R-CON-03).
    :ivar ref: stands for the bytes in the events that the host sees; no receiver is told it.

    It may be used in any number of calls, at the same time too. What it holds is given back by
    :meth:`close`, at the end of ``with``, or when nobody refers to it any more.
    """

    def __init__(
        self,
        source: Source,
        media_type: str,
        *,
        id: Optional[str] = None,
        category: Optional[str] = None,
    ) -> None:
        if not isinstance(media_type, str):
            raise TypeError(f"media_type must be a text, not {type(media_type).__name__}")
        if not _TYPE.match(media_type):
            raise ValueError(f"media_type {media_type!r} is none, such as 'image/png'")
        if _TEXTUAL.match(media_type):
            raise ValueError(f"media_type {media_type!r} is that of text, which goes inline")
        for name, value in (("id", id), ("category", category)):
            if value is not None and not (isinstance(value, str) and value):
                raise ValueError(f"{name} must be a non-empty text")
        self._invented = id is None
        self.id = str(uuid.uuid4()) if id is None else id
        self.media_type = media_type
        self.category = category
        self.ref = f"{LOCAL}{uuid.uuid4()}"
        self._source = source

    @classmethod
    def from_bytes(
        cls,
        data: Union[bytes, bytearray, memoryview],
        media_type: str,
        *,
        id: Optional[str] = None,
        category: Optional[str] = None,
    ) -> Attachment:
        """Return an attachment of these bytes.

        Raises :class:`TypeError` and :class:`ValueError` for arguments that make no sense, such as
        a media type of text or JSON (R-CON-01).
        """
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError(f"data must be bytes, not {type(data).__name__}")
        return cls(BytesSource(bytes(data)), media_type, id=id, category=category)

    @classmethod
    def from_path(
        cls,
        path: Path,
        media_type: Optional[str] = None,
        *,
        id: Optional[str] = None,
        category: Optional[str] = None,
        max_bytes: int = MAX_BYTES,
    ) -> Attachment:
        """Return an attachment of a file, which is opened when its bytes are wanted.

        :param media_type: by default that of the name's ending, or ``application/octet-stream``.
        :param max_bytes: a larger file is refused then, never cut.

        The file has to keep its content as long as the attachment is used. Raises as
        :meth:`from_bytes` does.
        """
        name = os.fspath(path)
        if not isinstance(name, str):
            raise TypeError("path must be a path of text")
        source = FileSource(os.path.abspath(name), _count(max_bytes))
        wanted = _guessed(name) if media_type is None else media_type
        return cls(source, wanted, id=id, category=category)

    @classmethod
    def from_stream(
        cls,
        stream: BinaryIO,
        media_type: str,
        *,
        max_bytes: int,
        id: Optional[str] = None,
        category: Optional[str] = None,
    ) -> Attachment:
        """Return an attachment of what a binary stream still holds, which is read once.

        :param max_bytes: a longer stream is refused, never cut. It stays the host's to close.

        Raises as :meth:`from_bytes` does.
        """
        if not callable(getattr(stream, "read", None)):
            raise TypeError(f"a stream has a read method, a {type(stream).__name__} has none")
        return cls(StreamSource(stream, _count(max_bytes)), media_type, id=id, category=category)

    def part(self, selection: str = "body") -> dict[str, Any]:
        """Return the content part that stands for it, with ``selection`` of R-CON-04."""
        if selection not in ("body", "metadata", "omit"):
            raise ValueError(f"selection must be body, metadata or omit, not {selection!r}")
        part: dict[str, Any] = {
            "id": self.id,
            "kind": "attachment",
            "mediaType": self.media_type,
            "selection": selection,
        }
        if selection == "body":
            part["body"] = {"ref": self.ref}
        if self.category is not None:
            part["category"] = self.category
        if self._invented:
            part["synthesized"] = True
        return part

    def snapshot(self, executor: DeliveryExecutor, budget: Budget, reading: Budget) -> Snapshot:
        """Return the bytes, read by whoever comes first; the others wait, each within ``budget``.

        :param executor: what the reading runs on.
        :param reading: bounds the reading itself.

        Raises ``OperationalFailure`` of class ``preparation`` where they can't be had, and
        ``BudgetEnded``.
        """
        return self._source.snapshot(executor, budget, reading)

    def retain(self) -> None:
        """Keep the bytes, once read, until :meth:`release`; the client does so for each call."""
        self._source.retain()

    def release(self) -> None:
        """Take back a :meth:`retain`; after the last one, what can be read again is given back."""
        self._source.release()

    def close(self) -> None:
        """Give back everything. The attachment can't be sent any more; safe to repeat."""
        self._source.close()

    def __enter__(self) -> Attachment:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Attachment {self.id!r}, {self.media_type}>"


def _guessed(name: str) -> str:
    kind, encoding = mimetypes.guess_type(name)
    if encoding is not None:
        return _COMPRESSED.get(encoding, _ANY)
    return kind or _ANY


def _count(max_bytes: int) -> int:
    if isinstance(max_bytes, bool) or not isinstance(max_bytes, int):
        raise TypeError(f"max_bytes must be an integer, not {type(max_bytes).__name__}")
    if max_bytes < 0:
        raise ValueError(f"max_bytes must not be negative, as {max_bytes} is")
    return max_bytes
