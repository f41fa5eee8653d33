"""When two JSON values are the same value (R-SET-06, trap T-06)."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

__all__ = ["json_equal", "json_key"]


def json_equal(left: Any, right: Any) -> bool:
    """Return whether two JSON values are equal, however deep they are.

    A boolean is no number; 1 equals 1.0, and integers of any size compare exactly; the order of an
    object's members does not count, that of an array does; text is compared by code point, without
    normalisation.
    """
    pending = [(left, right)]
    while pending:
        one, other = pending.pop()
        if one is other:  # which also settles null and equal booleans
            continue
        if isinstance(one, bool) or isinstance(other, bool):
            return False
        if isinstance(one, dict):
            if not isinstance(other, dict) or one.keys() != other.keys():
                return False
            pending.extend((inner, other[name]) for name, inner in one.items())
        elif isinstance(one, list):
            if not isinstance(other, list) or len(one) != len(other):
                return False
            pending.extend(zip(one, other))
        elif one != other:
            return False
    return True


def json_key(value: Any) -> Hashable:
    """Return a dictionary key that two JSON values share exactly if they are equal.

    It recurses: for values whose depth a schema or ``jsonrpc.MAX_DEPTH`` bounds.
    """
    if isinstance(value, bool):
        return (bool, value)  # Python's own True would be the same key as 1
    if isinstance(value, dict):
        return frozenset((name, json_key(inner)) for name, inner in value.items())
    if isinstance(value, list):
        return tuple(map(json_key, value))
    key: Hashable = value
    return key
