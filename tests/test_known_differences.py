"""The list of differences from the official SDK is well kept."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from known_differences import DIFFERENCES, Difference

TESTS = Path(__file__).parent
REFERENCE = TESTS.parent.parent / "shared" / "protocol.md"
RULE = re.compile(r"(?:R-[A-Z]+|[DTU])-[0-9]{2}\b")


@pytest.mark.parametrize("difference", DIFFERENCES.values(), ids=list(DIFFERENCES))
def test_a_difference_has_its_reason(difference: Difference) -> None:
    """It says what each side does, and names a rule of the protocol reference."""
    assert difference.ours
    assert difference.theirs
    rules = RULE.findall(difference.because)
    assert rules, difference.because
    if not REFERENCE.exists():
        pytest.skip("the protocol reference is not here")
    text = REFERENCE.read_text(encoding="utf-8")
    assert all(f"| {rule} " in text for rule in rules), difference.because


@pytest.mark.parametrize("name", DIFFERENCES)
def test_a_difference_is_looked_for(name: str) -> None:
    """Some test shows that it is there."""
    tests = (path for path in TESTS.rglob("test_*.py") if path != Path(__file__))
    assert any(f'"{name}"' in path.read_text(encoding="utf-8") for path in tests)
