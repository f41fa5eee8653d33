"""Every field bug that this library is meant to survive has a test that names it."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parent

#: The rows of the list of field bugs that belong to what is built so far; the OAuth rows, F17 and
#: F56, come with OAuth.
FIELD_BUGS = """
F01 F02 F03 F05 F07 F08 F09 F11 F12 F14 F16 F19 F20 F22 F23 F25 F27 F28 F29 F31 F33 F34 F36 F38
F40 F41 F44 F45 F48 F49 F51 F52 F53 F55 F58 F60 F61 F62 F64 F65 F69 F70 F71 F72
""".split()

_TEST = re.compile(r"^ *def (test_\w+).*?(?=^ *def |^@|\Z)", re.MULTILINE | re.DOTALL)


def test_every_field_bug_has_a_test_that_names_it() -> None:
    """In its name or in its docstring."""
    named: set[str] = set()
    for path in TESTS.rglob("test_*.py"):
        if path != Path(__file__):
            for test in _TEST.finditer(path.read_text("utf-8")):
                named |= set(re.findall(r"\bF\d\d(?!\d)", test.group(0).replace("test_f", "F")))
    assert sorted(set(FIELD_BUGS) - named) == []
