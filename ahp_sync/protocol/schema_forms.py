"""The vocabulary that our JSON schema documents are written in.

``$`` alone would let a trailing newline pass in Python, hence :data:`END`.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "BOOLEAN",
    "COUNT",
    "END",
    "NAME",
    "OBJECT",
    "REVERSE_DNS",
    "TEXT",
    "Schema",
    "array",
    "closed",
    "forbidden",
    "one_of",
    "opened",
    "when",
    "without",
]

Schema = dict[str, Any]

END = "$(?!\\n)"
#: A dotted name of two labels or more (R-EXT-01).
REVERSE_DNS = f"^(?:[A-Za-z][A-Za-z0-9_-]*\\.)+[A-Za-z][A-Za-z0-9_-]*{END}"

TEXT: Schema = {"type": "string"}
NAME: Schema = {"type": "string", "minLength": 1}
BOOLEAN: Schema = {"type": "boolean"}
COUNT: Schema = {"type": "integer", "minimum": 0}
OBJECT: Schema = {"type": "object"}


def one_of(*words: str) -> Schema:
    """A string that is one of ``words``."""
    return {"type": "string", "enum": list(words)}


def array(items: Schema, **more: Any) -> Schema:
    """An array of ``items``."""
    return {"type": "array", "items": items, **more}


def closed(required: dict[str, Schema], optional: dict[str, Schema] | None = None) -> Schema:
    """An object with these members and no other."""
    return {**opened(required, optional), "additionalProperties": False}


def opened(required: dict[str, Schema], optional: dict[str, Schema] | None = None) -> Schema:
    """An object with these members, and whatever else."""
    return {
        "type": "object",
        "required": list(required),
        "properties": {**required, **(optional or {})},
    }


def when(member: str, values: list[str], then: Schema, otherwise: Schema | None = None) -> Schema:
    """``then`` applies where ``member`` has one of ``values``, ``otherwise`` elsewhere."""
    condition = {"required": [member], "properties": {member: {"enum": values}}}
    return {"if": condition, "then": then, **({"else": otherwise} if otherwise else {})}


def forbidden(*members: str) -> dict[str, Any]:
    """Properties that must not be there; each costs nothing where it is absent."""
    return {member: {"not": {}} for member in members}


def without(*members: str) -> Schema:
    """None of ``members`` is there."""
    return {"properties": forbidden(*members)}
