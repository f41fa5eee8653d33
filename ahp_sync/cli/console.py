"""What the user sees: results on stdout, complaints on stderr, nothing that a terminal obeys."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import sys
import textwrap
from typing import Callable, Iterator, Optional, Sequence

__all__ = [
    "complain",
    "count",
    "flush",
    "library_warnings",
    "safe",
    "say",
    "set_up",
    "table",
    "width",
    "wrapped",
]

_CUT = "…"


def set_up() -> None:
    """Let characters that the output's encoding lacks be escaped, not be an error."""
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")


def say(text: str = "") -> None:
    """Print a line of the result. Raises as :func:`flush` does."""
    try:
        print(text)
    except OSError:
        abandon()
        raise


def complain(text: str) -> None:
    """Print a line on stderr. Never fails: what stderr is like must not decide anything."""
    if sys.stderr is None:  # which print() takes for stdout
        return
    with contextlib.suppress(OSError, ValueError):
        print(f"ahp-sync: {text}", file=sys.stderr, flush=True)


def flush() -> None:
    """Write out what was said. Raises :class:`OSError` where that can't be."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        abandon()
        raise


def abandon() -> None:
    """Send what is still to be written to nowhere, so that the interpreter's end is quiet."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def safe(text: str, limit: int = 2000) -> str:
    """Return foreign ``text`` so that a terminal shows it: escaped, in one line, cut at ``limit``.

    Control characters, among them those that start terminal sequences, and characters that change
    the direction of text are shown as escapes.
    """
    cut = _CUT if len(text) > limit else ""
    return "".join(c if c.isprintable() else _escape(c) for c in text[:limit]) + cut


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def width() -> Optional[int]:
    """Return the columns of the terminal, or None where stdout is none."""
    try:
        terminal = sys.stdout.isatty()
    except (AttributeError, ValueError):
        return None
    return shutil.get_terminal_size().columns if terminal else None


def wrapped(text: str, *, indent: str) -> list[str]:
    """Return ``text`` as lines that fit the terminal, the further ones indented."""
    columns = width()
    if columns is None:
        return [text]
    return textwrap.wrap(text, max(columns, 20), subsequent_indent=indent)


def table(rows: Sequence[Sequence[str]], *, right: Sequence[int], fit: Optional[int]) -> list[str]:
    """Return lines with the cells of ``rows`` in columns; the first row is the heading.

    Columns in ``right`` are set flush right. Where the whole is wider than ``fit`` columns, the
    first column is cut.
    """
    widths = [max(map(len, column)) for column in zip(*rows)]
    if fit is not None:
        others = sum(widths[1:]) + 2 * (len(widths) - 1)
        widths[0] = max(8, min(widths[0], fit - others))
    cells = [[_cell(row[0], widths[0]), *row[1:]] for row in rows]
    return [
        "  ".join(
            cell.rjust(space) if column in right else cell.ljust(space)
            for column, (cell, space) in enumerate(zip(line, widths))
        ).rstrip()
        for line in cells
    ]


def _cell(text: str, space: int) -> str:
    return text if len(text) <= space else text[: space - 1] + _CUT


@contextlib.contextmanager
def library_warnings(show: Optional[Callable[[str], object]] = None) -> Iterator[None]:
    """Call ``show``, meanwhile, with each warning that the library logs; by default, complain.

    Audit records are not among them: the commands show what matters of those in their own way.
    """
    logger, handler = logging.getLogger("ahp_sync"), _Warnings(show or _warn)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


class _Warnings(logging.Handler):
    def __init__(self, show: Callable[[str], object]) -> None:
        super().__init__(logging.WARNING)
        self._show = show

    def emit(self, record: logging.LogRecord) -> None:
        if record.name != "ahp_sync.audit":
            first, _, _ = record.getMessage().partition("\n")
            self._show(first)


def _warn(text: str) -> None:
    complain(f"warning: {safe(text)}")


def count(number: int, noun: str) -> str:
    """Return ``number`` with its noun: "1 problem", "2 problems"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
