"""Host values on their way to the wire: checked and copied, so that nothing changes under way."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Callable, Optional

from ahp_sync.errors import InvalidEvent
from ahp_sync.protocol.jsonrpc import MAX_DEPTH, MAX_DIGITS

__all__ = ["plain"]

_LARGEST = 10**MAX_DIGITS


def plain(
    value: object, path: str, depth: int = 1, adapt: Optional[Callable[[object], Any]] = None
) -> Any:
    """Return a deep copy of ``value`` made of plain JSON values only; tuples become lists.

    ``depth`` is the level that ``value`` itself will stand on in the message, from 1. ``adapt`` may
    make plain values of objects that are none; it returns None for those that it does not know.
    Raises :class:`InvalidEvent` naming the path for whatever JSON can't carry or a strict reader
    would refuse: other types, keys that are no strings, NaN and infinities, lone surrogates,
    numbers and nesting beyond the bounds of ``jsonrpc`` (R-EVT-04, trap T-06).
    """
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        return _text(value, path)
    if isinstance(value, int):
        return _integer(value, path)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidEvent(path, repr(value), "a finite number")
        return float(value)
    if depth > MAX_DEPTH:
        raise InvalidEvent(path, "a deeper value", f"at most {MAX_DEPTH} levels")
    if isinstance(value, Mapping):
        return {
            _key(key, path): plain(inner, f"{path}.{key}", depth + 1, adapt)
            for key, inner in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [plain(inner, f"{path}[{i}]", depth + 1, adapt) for i, inner in enumerate(value)]
    known = None if adapt is None else adapt(value)
    if known is not None:
        return plain(known, path, depth)
    raise InvalidEvent(path, f"a {type(value).__name__}", "a JSON value")


def _text(text: str, path: str) -> str:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InvalidEvent(path, "a lone surrogate", "text that UTF-8 can carry") from None
    return str.__str__(text)


def _integer(number: int, path: str) -> int:
    if not -_LARGEST < number < _LARGEST:
        raise InvalidEvent(path, "a larger integer", f"at most {MAX_DIGITS} digits")
    return int(number)


def _key(key: object, path: str) -> str:
    if not isinstance(key, str):
        raise InvalidEvent(path, f"a key of type {type(key).__name__}", "string keys")
    return _text(key, path)
