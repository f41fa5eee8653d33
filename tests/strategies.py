"""What the tests draw at random: JSON values, host values, and instances near a schema."""

from __future__ import annotations

import enum
import math
from collections import OrderedDict
from types import MappingProxyType
from typing import Any

from hypothesis import strategies as st

__all__ = ["HOST", "JSON", "NUMBERS", "OBJECTS", "TEXT", "NotJson", "near", "not_json"]

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NUMBERS = (
    st.integers()
    | st.integers(min_value=-(10**999), max_value=10**999)
    | st.floats(allow_nan=False, allow_infinity=False)
)
SCALARS = st.none() | st.booleans() | NUMBERS | TEXT

#: JSON values as the standard parser gives them.
JSON: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(TEXT, JSON, max_size=4)


class Word(str, enum.Enum):
    """A string that is an enumeration member."""

    ONE = "one"
    TWO = "zwei"


class Number(enum.IntEnum):
    """A number that is an enumeration member."""

    SEVEN = 7


class Text(str):
    """A string of a class of its own."""

    __slots__ = ()

    def __str__(self) -> str:
        return "something else"


#: What hosts pass for JSON: the same, with tuples, enumerations and other mappings in it.
HOST: st.SearchStrategy[Any] = st.recursive(
    SCALARS | st.sampled_from([*Word, *Number, Text("own")]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(TEXT, inner, max_size=3).map(OrderedDict)
        | st.dictionaries(TEXT, inner, max_size=3).map(MappingProxyType)
    ),
    max_leaves=8,
)


class NotJson:
    """An object that is no JSON value."""

    def __repr__(self) -> str:
        return "NotJson()"


#: What no JSON text can carry, or no strict reader takes.
not_json = st.sampled_from(
    [
        NotJson(),
        b"bytes",
        {1, 2},
        1j,
        math.nan,
        math.inf,
        -math.inf,
        "\ud800",
        "a\udfffb",
        10**1000,
        -(10**1000),
        10**5000,
        {1: "a number as a key"},
        {None: 1},
        {b"k": 1},
        {"\udc00": 1},
        range(3),
        iter(()),
    ]
)


def near(draw: st.DrawFn, instance: Any, depth: int = 0) -> Any:
    """Return the instance with something changed somewhere in it, perhaps: a near miss."""
    kind = draw(st.sampled_from(["same", "inside", "inside", "replace", "drop", "add"]))
    if kind == "same" or depth > 6:
        return instance
    if kind == "replace":
        return draw(_spoiled(instance))
    if isinstance(instance, dict):
        changed = dict(instance)
        if kind == "add" or not changed:
            changed[draw(st.sampled_from(["", "x", "x.y", "id", "text", "x.y\n"]))] = draw(JSON)
            return changed
        name = draw(st.sampled_from(sorted(changed)))
        if kind == "drop":
            del changed[name]
        else:
            changed[name] = near(draw, changed[name], depth + 1)
        return changed
    if isinstance(instance, list):
        if kind == "add" or not instance:
            return [*instance, draw(JSON) if not instance else instance[0]]
        index = draw(st.integers(0, len(instance) - 1))
        if kind == "drop":
            return instance[:index] + instance[index + 1 :]
        return [
            near(draw, inner, depth + 1) if i == index else inner
            for i, inner in enumerate(instance)
        ]
    return draw(_spoiled(instance))


def _spoiled(value: Any) -> st.SearchStrategy[Any]:
    likely = ["", " ", "\n", 0, -1, 1, 1.0, 0.0, 1.5, True, False, None, [], {}, [1, 1.0, True]]
    if isinstance(value, str):
        likely += [f"{value}\n", value.upper(), f" {value}", f"{value}.", value[:-1]]
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        likely += [-value, str(value), 10**20, 1e300, bool(value)]
        likely += [float(value), value + 0.5] if abs(value) < 1e300 else []
    elif isinstance(value, list):
        likely += [value + value, tuple(value[:1]) and value[:1]]
    return st.sampled_from(likely) | JSON
