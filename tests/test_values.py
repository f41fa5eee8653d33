"""Host values on their way to the wire: what JSON can't carry is refused with its place (F41)."""

from __future__ import annotations

import math
import sys
from collections import OrderedDict, UserDict, deque
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import HOST, JSON, TEXT, Number, Text, Word, not_json

from ahp_sync import InvalidEvent
from ahp_sync.protocol.jsonrpc import MAX_DEPTH, MAX_DIGITS, encode, parse_object
from ahp_sync.protocol.values import plain

PLAIN = (dict, list, str, int, float, bool, type(None))


def refusal(value: Any) -> InvalidEvent:
    """Return the error that the value meets."""
    with pytest.raises(InvalidEvent) as raised:
        plain(value, "$")
    return raised.value


def types_in(value: Any) -> set[type]:
    """Return the types of everything in a value, keys too."""
    if isinstance(value, dict):
        return {dict}.union(*(types_in(key) | types_in(inner) for key, inner in value.items()))
    if isinstance(value, list):
        return {list}.union(*map(types_in, value))
    return {type(value)}


@given(JSON)
def test_json_values_come_back_equal(value: Any) -> None:
    """A copy of the same types, numbers exact: 1 stays 1, 1.0 stays 1.0, True stays True."""
    assert repr(plain(value, "$")) == repr(value)


@given(HOST)
def test_host_values_become_plain_json(value: Any) -> None:
    """Tuples, enumerations and other mappings come out as what JSON has for them, and reread."""
    copy = plain(value, "$")
    assert types_in(copy) <= set(PLAIN)
    message = {"value": copy}
    assert repr(parse_object(encode(message))) == repr(message)


@pytest.mark.parametrize(
    ("value", "copy"),
    [
        ((1, (2,)), [1, [2]]),
        (Word.TWO, "zwei"),
        ({Word.ONE: 1}, {"one": 1}),
        (Number.SEVEN, 7),
        (Text("own"), "own"),
        (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        (MappingProxyType({"a": ()}), {"a": []}),
        (UserDict({"a": 1}), {"a": 1}),
        (True, True),
        (-0.0, -0.0),
        ("é\U0001f600", "é\U0001f600"),
    ],
)
def test_what_hosts_pass_for_json_is_taken(value: Any, copy: Any) -> None:
    """The usual stand-ins of Python for JSON values lose only their type."""
    result = plain(value, "$")
    assert repr(result) == repr(copy)


def test_the_copy_is_deep() -> None:
    """What the host changes afterwards does not change what is sent (R-RETRY-01)."""
    value: dict[str, Any] = {"list": [{"a": 1}]}
    copy = plain(value, "$")
    value["list"][0]["a"] = 2
    value["list"].append(3)
    assert copy == {"list": [{"a": 1}]}


@given(not_json, st.lists(st.sampled_from(["list", "tuple", "dict"]), max_size=8), TEXT)
def test_anything_else_is_refused_wherever_it_stands(
    value: Any, nesting: list[str], name: str
) -> None:
    """``InvalidEvent``, and nothing but that, with the path of the value."""
    path = "$"
    for kind in reversed(nesting):
        value = {"list": [0, value], "tuple": (0, value), "dict": {name: value}}[kind]
    for kind in nesting:
        path += f".{name}" if kind == "dict" else "[1]"
    assert refusal(value).path.startswith(path)


@pytest.mark.parametrize(
    ("value", "path", "found"),
    [
        ({"a": [1, {"b": math.nan}]}, "$.a[1].b", "nan"),
        ({"a": math.inf}, "$.a", "inf"),
        ({"a": b""}, "$.a", "a bytes"),
        ({"a": {1}}, "$.a", "a set"),
        ({"a": object}, "$.a", "a type"),
        ({"a": deque()}, "$.a", "a deque"),
        ({"a": "\ud800"}, "$.a", "a lone surrogate"),
        ({"\ud800": 1}, "$", "a lone surrogate"),
        ({"a": {1: 2}}, "$.a", "a key of type int"),
        ({"a": {None: 2}}, "$.a", "a key of type NoneType"),
        ({"a": {("b",): 2}}, "$.a", "a key of type tuple"),
        ({"a": 10**MAX_DIGITS}, "$.a", "a larger integer"),
        ({"a": -(10**MAX_DIGITS)}, "$.a", "a larger integer"),
    ],
)
def test_a_refusal_tells_place_and_kind(value: Any, path: str, found: str) -> None:
    """The host reads where the value stands and what it was, without a dump of it."""
    error = refusal(value)
    assert (error.path, error.found) == (path, found)
    assert path in str(error)
    assert found in str(error)


@pytest.mark.parametrize("number", [10**MAX_DIGITS - 1, 1 - 10**MAX_DIGITS])
def test_the_longest_number_is_taken(number: int) -> None:
    """The bound is the one of the reader, so that our own kind can read what we send."""
    message = {"a": plain(number, "$")}
    assert parse_object(encode(message)) == message


@pytest.mark.skipif(not hasattr(sys, "set_int_max_str_digits"), reason="no such limit here")
def test_a_huge_number_is_refused_without_being_written_out() -> None:
    """The interpreter's own limit on digits does not turn up in place of our error (F41)."""
    assert refusal([10**100_000]).path == "$[0]"


def test_a_value_that_contains_itself_is_refused() -> None:
    """Cycles end at the bound of the depth, not in a RecursionError (F41)."""
    own_list: list[Any] = []
    own_list.append(own_list)
    own_dict: dict[str, Any] = {}
    own_dict["me"] = [own_dict]
    for value in (own_list, own_dict):
        error = refusal(value)
        assert f"{MAX_DEPTH} levels" in error.wanted
        assert len(error.path) < 1000


def test_the_depth_is_bounded() -> None:
    """Exactly the documented number of levels is taken, and 100,000 of them do no harm (F41)."""
    for levels in (MAX_DEPTH, 100_000):
        value: Any = "bottom"
        for _ in range(levels):
            value = [value]
        if levels == MAX_DEPTH:
            plain(value, "$")
            refusal([value])
        else:
            assert refusal(value).path == "$" + "[0]" * MAX_DEPTH
