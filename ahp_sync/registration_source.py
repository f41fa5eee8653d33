"""From what the host names (a file, a mapping) to one plain, strict JSON value, within bounds.

What the standard parser lets through is refused here: duplicate keys, NaN and infinities, a
byte-order mark, any encoding but UTF-8, lone surrogates, numbers and nesting without bound
(design decision 5; F40, F41, F70).
"""

from __future__ import annotations

import json
import math
import os
import stat
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Optional, Union

from ahp_sync.findings import Findings, Path

__all__ = ["MAX_BYTES", "MAX_DEPTH", "MAX_VALUES", "read_source"]

#: The largest file that is read, in bytes.
MAX_BYTES = 1 << 20
#: The deepest nesting of objects and lists.
MAX_DEPTH = 32
#: The most values in one document.
MAX_VALUES = 50_000

_LONGEST_INTEGER = 20
_NUMBER = "a finite number, an integer below 2**64"


class _Unreadable(Exception):
    """Raised where nothing of the document can be looked at; the arguments are (found, wanted)."""


def read_source(source: object, findings: Findings) -> Any:
    """Return the document as plain JSON values: dict with string keys, list, str, int, float, …

    ``source`` is a mapping, or the path of a JSON file. Whatever is wrong goes to ``findings``; the
    value at such a place is then None, and so is the document if it can't be read at all.
    """
    try:
        if isinstance(source, Mapping):
            return _Copy(findings).value((), source)
        if isinstance(source, (str, os.PathLike)):
            return _Copy(findings).value((), _parse(_read(source)))
        kind = type(source).__name__
        raise _Unreadable(f"a value of type {kind}", "the path of a file, or a mapping")
    except _Unreadable as problem:
        found, wanted = problem.args
    findings.add_unreadable((), found, wanted)
    return None


# --- files ----------------------------------------------------------------------------------------


def _read(source: Union[str, os.PathLike[Any]]) -> bytes:
    path = os.fspath(source)
    if not isinstance(path, str):
        raise _Unreadable("a path of bytes", "a path of text")
    if path.lstrip()[:1] in ("{", "["):  # and it may hold secrets, so that it must not be shown
        raise _Unreadable("JSON text instead of a path", "the path of a JSON file, or a mapping")
    name = json.dumps(path if len(path) <= 200 else path[:199] + "…")
    wanted = "a readable JSON file"
    try:
        mode = os.stat(path).st_mode
        # Opening a pipe or a device may wait for ever.
        if not stat.S_ISREG(mode):
            kind = "a directory" if stat.S_ISDIR(mode) else "no regular file"
            raise _Unreadable(f"{kind} at {name}", wanted)
        with open(path, "rb") as file:
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise _Unreadable(f"no file {name}", wanted) from None
    except ValueError:
        raise _Unreadable("a path that no file can have", wanted) from None
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else "input/output error"
        raise _Unreadable(f"{name}, which can't be read: {reason}", wanted) from None
    if len(content) > MAX_BYTES:
        raise _Unreadable(f"more than {MAX_BYTES} bytes in {name}", f"at most {MAX_BYTES} bytes")
    return content


def _parse(content: bytes) -> Any:
    wanted = "one JSON object in UTF-8, without byte-order mark"
    if content.startswith(b"\xef\xbb\xbf"):
        raise _Unreadable("a byte-order mark at the beginning of the file", wanted)
    if not content.strip():
        raise _Unreadable("an empty file", wanted)
    try:
        return json.loads(content.decode(), object_pairs_hook=_members, parse_int=_integer)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise _Unreadable(f"bytes that are not UTF-8 on line {line}", wanted) from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        # The parser's own message names syntax only; the exception itself holds the whole text.
        raise _Unreadable(f"broken JSON at {where} ({error.msg})", wanted) from None
    except RecursionError:
        raise _too_deep() from None


class _Repeated(dict[str, Any]):
    """An object in which some names stand twice."""

    names: Sequence[str] = ()


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) == len(pairs):
        return members
    repeated = _Repeated(members)
    repeated.names = [
        name for name, count in Counter(name for name, _ in pairs).items() if count > 1
    ]
    return repeated


def _integer(text: str) -> Union[int, float]:
    # Converting thousands of digits is slow, or refused; the copy below refuses infinity in words.
    return int(text) if len(text) <= _LONGEST_INTEGER else math.inf


def _too_deep() -> _Unreadable:
    return _Unreadable(
        "JSON that is nested too deeply, or contains itself", f"at most {MAX_DEPTH} levels"
    )


# --- values ---------------------------------------------------------------------------------------


class _Copy:
    """Copies a document into plain values and notes what JSON can't carry."""

    def __init__(self, findings: Findings) -> None:
        self._findings = findings
        self._left = MAX_VALUES

    def value(self, path: Path, value: object) -> Any:
        self._left -= 1
        if self._left < 0:
            raise _Unreadable(f"more than {MAX_VALUES} values", "a smaller document")
        if len(path) > MAX_DEPTH:
            raise _too_deep()
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return self._text(path, value)
        if isinstance(value, (int, float)):
            return self._number(path, value)
        if isinstance(value, Mapping):
            return dict(self._members(path, value))
        if isinstance(value, list):
            return [self.value((*path, i), inner) for i, inner in enumerate(value)]
        self._refuse(path, f"a Python {type(value).__name__}", "a JSON value")
        return None

    def _members(self, path: Path, members: Mapping[Any, Any]) -> Iterator[tuple[str, Any]]:
        for name in members.names if isinstance(members, _Repeated) else ():
            self._findings.add((*path, name), "the same name twice in one object", "it once")
        for name, inner in members.items():
            if not isinstance(name, str):
                self._refuse(path, f"a name of type {type(name).__name__}", "names of text")
            elif (text := self._text(path, name)) is not None:
                yield text, self.value((*path, text), inner)

    def _text(self, path: Path, text: str) -> Optional[str]:
        if not text.isascii():
            try:
                text.encode()
            except UnicodeEncodeError:
                self._refuse(path, "a lone surrogate", "text that UTF-8 can carry")
                return None
        return str.__str__(text)  # of an enumeration member only its text

    def _number(self, path: Path, number: object) -> Union[int, float, None]:
        if type(number) is float and math.isfinite(number):
            return number
        if type(number) is int and number.bit_length() <= 64:
            return number
        self._refuse(path, "a number that is not finite, or too large", _NUMBER)
        return None

    def _refuse(self, path: Path, found: str, wanted: str) -> None:
        self._findings.add_unreadable(path, found, wanted)
