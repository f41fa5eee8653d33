"""The vocabulary that our JSON schema documents are written in.

``$`` alone would let a trailing newline pass in Python, hence :data:`END`. Alternatives are chosen
by ``if``, not tried by ``oneOf``: that is cheaper, and an error speaks of the one that was meant.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "ANYTHING",
    "BOOLEAN",
    "COUNT",
    "END",
    "NAME",
    "OBJECT",
    "QUANTITY",
    "REVERSE_DNS",
    "TEXT",
    "Schema",
    "array",
    "closed",
    "constant",
    "forbidden",
    "one_of",
    "opened",
    "present",
    "when",
    "without",
]

Schema = dict[str, Any]

END = "$(?!\\n)"
#: A dotted name of two labels or more (R-EXT-01).
REVERSE_DNS = f"^(?:[A-Za-z][A-Za-z0-9_-]*\\.)+[A-Za-z][A-Za-z0-9_-]*{END}"

ANYTHING: Schema = {}
TEXT: Schema = {"type": "string"}
NAME: Schema = {"type": "string", "minLength": 1}
BOOLEAN: Schema = {"type": "boolean"}
COUNT: Schema = {"type": "integer", "minimum": 0}
QUANTITY: Schema = {"type": "number", "minimum": 0}
OBJECT: Schema = {"type": "object"}


def constant(word: str) -> Schema:
    """The string ``word``."""
    return {"const": word}


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
        "properties": {**(optional or {}), **required},
    }


def when(member: str, values: list[str], then: Schema, otherwise: Schema | None = None) -> Schema:
    """``then`` applies where ``member`` has one of ``values``, ``otherwise`` elsewhere."""
    condition = {"required": [member], "properties": {member: {"enum": values}}}
    return {"if": condition, "then": then, **({"else": otherwise} if otherwise else {})}


def present(member: str, then: Schema, otherwise: Schema) -> Schema:
    """``then`` applies where ``member`` is there, ``otherwise`` where it is not."""
    return {"if": {"required": [member]}, "then": then, "else": otherwise}


def forbidden(*members: str) -> dict[str, Any]:
    """Properties that must not be there; each costs nothing where it is absent."""
    return {member: {"not": {}} for member in members}


def without(*members: str) -> Schema:
    """None of ``members`` is there."""
    return {"properties": forbidden(*members)}
