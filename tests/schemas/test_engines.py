"""The two engines agree on every document of ours (design decision 6)."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from ahp_sync.protocol.schemas import SCHEMAS
from ahp_sync.protocol.validation import fast_check, slow_check
from schemas.compare import DEFAULT, NIGHTLY, compare
from schemas.instances import Draw, names_in

pytest.importorskip("jsonschema_rs", reason="jsonschema-rs is not installed")


NAMES = names_in(SCHEMAS.values())


def check(key: str, examples: int) -> None:
    """Compare the engines on instances of one document and on what is near them."""

    def draw(random: Random) -> Any:
        return Draw(random, NAMES).near(SCHEMAS[key])

    def slow(instance: Any) -> bool:
        return slow_check(key)(instance) is None

    def fast(instance: Any) -> bool:
        opinion = fast_check(key)
        assert opinion is not None
        try:
            return opinion(instance)
        except ValueError:  # from older versions, for an integer beyond 64 bits: they have no say
            return slow(instance)

    compare(examples, draw, slow, fast)


@pytest.mark.parametrize("key", SCHEMAS)
def test_the_two_engines_agree(key: str) -> None:
    """On good instances, on near misses and on anything else."""
    check(key, DEFAULT // 2)


@pytest.mark.nightly
@pytest.mark.parametrize("key", SCHEMAS)
def test_the_two_engines_agree_all_night(key: str) -> None:
    """The same, for longer."""
    check(key, NIGHTLY)
