"""When two JSON values are the same value (R-SET-06)."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import JSON, near

from ahp_sync.protocol.equality import json_equal, json_key


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0),
        (0, -0.0),
        (10**20, 1e20),
        ({"a": 1, "b": [2]}, {"b": [2.0], "a": 1}),
        ([], []),
        (None, None),
        ([True, {"a": False}], [True, {"a": False}]),
    ],
)
def test_these_are_equal(one: Any, other: Any) -> None:
    """The order of members and the spelling of a number are no matter."""
    assert json_equal(one, other) and json_equal(other, one)
    assert json_key(one) == json_key(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (True, 1),
        (False, 0),
        (False, 0.0),
        (False, None),
        ([True], [1]),
        ({"a": [0]}, {"a": [False]}),
        (0, None),
        ("", None),
        ([], {}),
        ([], None),
        ("1", 1),
        ([1, 2], [2, 1]),
        ([1], [1, 1]),
        ({"a": None}, {}),
        ({"a": 1}, {"b": 1}),
        ([["a", 1]], {"a": 1}),
        (2**53 + 1, float(2**53)),
        (10**400, 10**400 + 1),
        ("\u00e9", "e\u0301"),
        ("a", "A"),
    ],
)
def test_these_are_not(one: Any, other: Any) -> None:
    """T-06: Python's own ``==`` would take some of them for equal."""
    assert not json_equal(one, other) and not json_equal(other, one)
    assert json_key(one) != json_key(other)


@given(st.data())
def test_it_is_what_the_official_sdk_says(data: st.DataObject) -> None:
    """Values and near misses of them; the keys agree as well."""
    one = data.draw(JSON)
    other = near(data.draw, one)
    equal = json_equal(one, other)
    assert (json_key(one) == json_key(other)) is equal
    assert json_equal(one, copy.deepcopy(one))
    official = pytest.importorskip("agenthooksprotocol.runtime")
    assert equal is official._json_equal(one, other)


@given(JSON)
def test_a_value_that_went_over_the_wire_is_the_same(value: Any) -> None:
    """Whatever the order its members come in."""
    assert json_equal(value, json.loads(json.dumps(value, sort_keys=True)))


def test_depth_is_no_matter() -> None:
    """A message is up to 100 deep; equality itself has no limit."""
    one: Any = "x"
    other: Any = "y"
    for _ in range(100_000):
        one, other = [one], [other]
    assert json_equal(one, one)
    assert not json_equal(one, other)
    for value in (one, other):  # taken apart by hand: the interpreter would recurse
        while isinstance(value, list):
            value = value.pop()


def test_a_key_can_be_made_of_the_deepest_message() -> None:
    """Whose depth the reader of messages bounds."""
    value: Any = True
    for _ in range(50):
        value = {"a": [value]}
    assert json_key(value) == json_key(copy.deepcopy(value))
