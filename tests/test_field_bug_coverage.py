"""Every field bug that this library is meant to survive has a test that names it."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parent

#: The rows of the list of field bugs.
_NUMBERS = (
    *(1, 2, 3, 5, 7, 8, 9, 11, 12, 14, 16, 17, 19, 20, 22, 23, 25, 27, 28, 29, 31, 33, 34, 36, 38),
    *(40, 41, 44, 45, 48, 49, 51, 52, 53, 55, 56, 58, 60, 61, 62, 64, 65, 69, 70, 71, 72),
)
FIELD_BUGS = [f"F{number:02}" for number in _NUMBERS]

_TEST = re.compile(r"^ *def (test_\w+).*?(?=^ *def |^@|\Z)", re.MULTILINE | re.DOTALL)


def test_every_field_bug_has_a_test_that_names_it() -> None:
    """In its name or in its docstring."""
    named: set[str] = set()
    for path in TESTS.rglob("test_*.py"):
        if path != Path(__file__):
            for test in _TEST.finditer(path.read_text("utf-8")):
                named |= set(re.findall(r"\bF\d\d(?!\d)", test.group(0).replace("test_f", "F")))
    assert sorted(set(FIELD_BUGS) - named) == []
