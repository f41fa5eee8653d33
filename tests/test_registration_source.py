"""Where a registration comes from: files and mappings, read strictly and within bounds."""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any

import pytest

from ahp_sync.registration import Mode, Registration, problems
from ahp_sync.registration_source import MAX_BYTES, MAX_DEPTH, MAX_VALUES

DOCUMENT: dict[str, Any] = {
    "protocolVersion": "draft",
    "hooks": [
        {
            "id": "com.acme.guard",
            "transport": {"type": "http", "url": "https://guard.example/"},
            "subscriptions": [
                {"events": ["tool.*"], "mode": "observe", "content": {"default": "omit"}}
            ],
        }
    ],
}


def only(source: Any) -> str:
    """Return the text of the only problem of ``source``."""
    (problem,) = problems(source)
    return str(problem)


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    """Return the path of a hooks.json that is not there yet."""
    return tmp_path / "hooks.json"


# --- files ----------------------------------------------------------------------------------------


def test_a_file(path: pathlib.Path) -> None:
    """A path may be a string or a path object."""
    path.write_text(json.dumps(DOCUMENT), "utf-8")
    expected = Registration.load(DOCUMENT)
    assert Registration.load(path) == Registration.load(str(path)) == expected


def test_a_missing_file(path: pathlib.Path) -> None:
    """A file that is not there is named."""
    assert only(path).startswith(f"$: found no file {json.dumps(str(path))}; wanted a readable")


def test_a_directory(tmp_path: pathlib.Path) -> None:
    """A directory is no file."""
    assert only(tmp_path).startswith("$: found a directory at ")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_not_waited_for(path: pathlib.Path) -> None:
    """What is no regular file is never opened, since that may wait for ever."""
    os.mkfifo(path)
    assert only(path).startswith("$: found no regular file at ")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads all")
def test_an_unreadable_file(path: pathlib.Path) -> None:
    """A file that may not be read is named, with the reason."""
    path.write_text("{}", "utf-8")
    path.chmod(0)
    assert "which can't be read: Permission denied" in only(path)


@pytest.mark.parametrize("name", ["a\0b", "a" * 5000])
def test_paths_that_no_file_has(name: str) -> None:
    """No exception of the operating system reaches the caller."""
    assert only(name).startswith("$: found ")


def test_a_huge_file(path: pathlib.Path) -> None:
    """A file over the bound is refused, a file at the bound is read."""
    text = json.dumps(DOCUMENT)
    path.write_text(text.ljust(MAX_BYTES), "utf-8")
    assert problems(path) == []
    path.write_text(text.ljust(MAX_BYTES + 1), "utf-8")
    assert only(path).startswith(f"$: found more than {MAX_BYTES} bytes in ")


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"", "an empty file"),
        (b" \n", "an empty file"),
        (b'{\n  "a": 1\n  "b": 2\n}', "broken JSON at line 3, column 3 (Expecting ',' delimiter)"),
        (b"{} {}", "broken JSON at line 1, column 4 (Extra data)"),
        (b"{'a': 1}", "broken JSON at line 1, column 2 ("),
        (b"\xef\xbb\xbf{}", "a byte-order mark at the beginning of the file"),
        (b'{\n"a": "\xff"}', "bytes that are not UTF-8 on line 2"),
        ("{}".encode("utf-16"), "bytes that are not UTF-8 on line 1"),
        ("{}".encode("utf-16-le"), "broken JSON at line 1, column 2 ("),
        (b"[" * 200_000, "JSON that is nested too deeply"),
        (b'{"a":' * 40 + b"1" + b"}" * 40, "JSON that is nested too deeply"),
        (b"[]", "an empty list"),
        (b"null", "null"),
        (b'"text"', "a string"),
    ],
)
def test_broken_files(path: pathlib.Path, content: bytes, found: str) -> None:
    """What can't be one JSON object is told in one problem, with the line where there is one."""
    path.write_bytes(content)
    text = only(path)
    assert text.startswith(f"$: found {found}")
    assert "; wanted " in text


@pytest.mark.parametrize(
    ("member", "text"),
    [
        ('"mode": "observe"', "$.hooks[0].subscriptions[0].mode: found the same name twice"),
        ('"x": {"y": [{"a": 1, "a": 2}]}', "$.hooks[0].subscriptions[0].x.y[0].a: found the same"),
        ('"x": NaN', "$.hooks[0].subscriptions[0].x: found a number that is not finite"),
        ('"x": -Infinity', "$.hooks[0].subscriptions[0].x: found a number that is not finite"),
        ('"x": 1e999', "$.hooks[0].subscriptions[0].x: found a number that is not finite"),
        (f'"x": {"9" * 5000}', "$.hooks[0].subscriptions[0].x: found a number that is not finite"),
        ('"x": "\\ud800"', "$.hooks[0].subscriptions[0].x: found a lone surrogate"),
        ('"x\\ud800": 1', "$.hooks[0].subscriptions[0]: found a lone surrogate"),
    ],
)
def test_lenient_json_is_refused_in_its_place(path: pathlib.Path, member: str, text: str) -> None:
    """What other parsers let through is refused with its path (design decision 5, F40, F41)."""
    document = json.dumps(DOCUMENT).replace('"mode": "observe"', f'"mode": "observe", {member}')
    path.write_text(document, "utf-8")
    assert only(path).startswith(text)


def test_lenience_does_not_hide_other_problems(path: pathlib.Path) -> None:
    """Everything that can be told is told in one go."""
    path.write_text('{"protocolVersion": "draft", "protocolVersion": 1, "hooks": NaN}', "utf-8")
    assert [problem.path for problem in problems(path)] == [
        "$.hooks",
        "$.protocolVersion",
        "$.protocolVersion",
    ]


def test_json_text_is_not_a_path() -> None:
    """A document given as text is recognised, and not shown, as it may hold secrets."""
    text = only(' {"hooks": "secret"}')
    assert text.startswith("$: found JSON text instead of a path")
    assert "secret" not in text


# --- mappings -------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", [None, 5, 3.5, True, [], b"hooks.json", object()])
def test_other_sources(source: Any) -> None:
    """Whatever is neither a path nor a mapping is refused by its type."""
    assert only(source).startswith(f"$: found a value of type {type(source).__name__}; wanted ")


class BytesPath:
    """A path object whose path is bytes."""

    def __fspath__(self) -> bytes:
        return b"hooks.json"


def test_a_path_of_bytes() -> None:
    """Paths are text."""
    assert only(BytesPath()) == "$: found a path of bytes; wanted a path of text"


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ((1, 2), "a Python tuple"),
        ({1, 2}, "a Python set"),
        (b"x", "a Python bytes"),
        (object, "a Python type"),
        (float("nan"), "a number that is not finite"),
        (10**5000, "a number that is not finite, or too large"),
        ("\udc80", "a lone surrogate"),
        ({1: 2}, "a name of type int"),
        ({None: 2}, "a name of type NoneType"),
        ({b"a": 2}, "a name of type bytes"),
    ],
    ids=lambda value: value if isinstance(value, str) and value.isascii() else "value",
)
def test_values_that_json_cannot_carry(value: Any, found: str) -> None:
    """A Python value that is no JSON value is refused in its place."""
    assert only({**DOCUMENT, "x": value}).startswith(f"$.x: found {found}")


@pytest.mark.parametrize("place", ["hooks", "protocolVersion"])
def test_such_a_value_is_one_problem(place: str) -> None:
    """Nothing more is said about a member whose value is no JSON value."""
    assert only({**DOCUMENT, place: ()}).startswith(f"$.{place}: found a Python tuple")


def test_text_subclasses_count_as_text() -> None:
    """Members of a text enumeration are text, as Python says."""
    document = json.loads(json.dumps(DOCUMENT))
    document["hooks"][0]["subscriptions"][0]["mode"] = Mode.OBSERVE
    assert Registration.load(document) == Registration.load(DOCUMENT)


def cyclic_dict() -> dict[str, Any]:
    """Return a mapping that contains itself."""
    cycle: dict[str, Any] = {}
    cycle["x"] = cycle
    return cycle


def cyclic_list() -> dict[str, Any]:
    """Return a mapping with a list that contains itself twice."""
    cycle: list[Any] = []
    cycle += [cycle, cycle]
    return {"x": cycle}


def deep() -> dict[str, Any]:
    """Return a mapping with far more levels than Python's recursion limit."""
    document: dict[str, Any] = {}
    for _ in range(100_000):
        document = {"x": document}
    return document


@pytest.mark.parametrize("make", [cyclic_dict, cyclic_list, deep])
def test_cycles_and_depth(make: Any) -> None:
    """A mapping without end is refused, not followed."""
    assert only(make()) == (
        "$: found JSON that is nested too deeply, or contains itself;"
        f" wanted at most {MAX_DEPTH} levels"
    )


def test_too_many_values() -> None:
    """The size of a mapping is bounded."""
    assert only({**DOCUMENT, "x": [0] * MAX_VALUES}).startswith(
        f"$: found more than {MAX_VALUES} values"
    )


def test_a_shared_value_is_not_a_cycle() -> None:
    """The same object may stand in several places."""
    subscription = DOCUMENT["hooks"][0]["subscriptions"][0]
    backend = {**DOCUMENT["hooks"][0], "subscriptions": [subscription] * 3}
    assert len(Registration.load({**DOCUMENT, "hooks": [backend]}).backends[0].subscriptions) == 3
