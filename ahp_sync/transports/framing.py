"""Pure pieces of the stdio binding: lines out of chunks, and bounded memories of untrusted text."""

from __future__ import annotations

import json
from typing import Optional, Union

__all__ = ["CHUNK", "LineReader", "Tail", "excerpt", "response_id"]

#: Bytes of one read: what a pipe holds by default.
CHUNK = 1 << 16

_EXCERPT = 2048
_CUT = "[cut]"


def excerpt(text: Union[bytes, bytearray]) -> Optional[str]:
    """Return a bounded sample of what a backend sent, or None of nothing. Untrusted, for audit."""
    if not text:
        return None
    sample = bytes(text[:_EXCERPT]).decode("utf-8", "replace")
    return sample if len(text) <= _EXCERPT else f"{sample} {_CUT}"


class LineReader:
    """Cuts a byte stream at its newlines and remembers at most ``cap`` bytes of a line.

    Past a longer line ``overflowed`` is true, ``partial`` holds its beginning, and the stream is of
    no more use (R-STD-04).
    """

    def __init__(self, cap: int) -> None:
        self._cap = cap
        self.partial = bytearray()
        self.overflowed = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that ``chunk`` completes, in order and without their newlines."""
        lines: list[bytes] = []
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            if not self._extend(end):
                return lines
            lines.append(bytes(self.partial))
            self.partial.clear()
        self._extend(rest)
        return lines

    def _extend(self, piece: bytes) -> bool:
        self.overflowed = self.overflowed or len(self.partial) + len(piece) > self._cap
        if not self.overflowed:
            self.partial += piece
        return not self.overflowed


class Tail:
    """The last ``limit`` bytes of a stream; what was before them is dropped, and said to be."""

    def __init__(self, limit: int = 1 << 16) -> None:
        self._limit = limit
        self._kept = bytearray()
        self._cut = False

    def add(self, chunk: bytes) -> None:
        """Append ``chunk``."""
        self._kept += chunk
        surplus = len(self._kept) - self._limit
        if surplus > 0:
            del self._kept[:surplus]
            self._cut = True

    def take(self) -> Optional[str]:
        """Return what was kept as text, or None of nothing, and begin anew."""
        if not self._kept:
            return None
        text = self._kept.decode("utf-8", "replace")
        cut, self._cut = self._cut, False
        self._kept.clear()
        return f"{_CUT} {text}" if cut else text


def response_id(line: bytes) -> Optional[str]:
    """Return the string ``id`` of a line that may be a JSON-RPC message, or None.

    A cheap and lenient look for lines nobody asked for; no answer is ever taken from it. Numbers
    are not converted, since a number of a million digits would take minutes (F41).
    """
    if not line.lstrip().startswith(b"{"):
        return None
    try:
        message = json.loads(line, parse_int=len, parse_float=len)
    except (ValueError, RecursionError):
        return None
    found = message.get("id") if isinstance(message, dict) else None
    return found if isinstance(found, str) else None
