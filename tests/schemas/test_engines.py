"""The two engines agree on every document of ours (design decision 6)."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from compare import DEFAULT, NIGHTLY, compare
from instances import Draw, names_in

from ahp_sync.protocol.schemas import SCHEMAS
from ahp_sync.protocol.validation import fast_check, slow_check

pytest.importorskip("jsonschema_rs", reason="jsonschema-rs is not installed")


NAMES = names_in(SCHEMAS.values())


def check(key: str, examples: int) -> None:
    """Compare the engines on instances of one document and on what is near them."""

    def draw(random: Random) -> Any:
        return Draw(random, NAMES).near(SCHEMAS[key])

    def fast(instance: Any) -> bool:
        opinion = fast_check(key)
        assert opinion is not None
        return opinion(instance)

    compare(examples, draw, lambda instance: slow_check(key)(instance) is None, fast)


@pytest.mark.parametrize("key", SCHEMAS)
def test_the_two_engines_agree(key: str) -> None:
    """On good instances, on near misses and on anything else."""
    check(key, DEFAULT // 2)


@pytest.mark.nightly
@pytest.mark.parametrize("key", SCHEMAS)
def test_the_two_engines_agree_all_night(key: str) -> None:
    """The same, for longer."""
    check(key, NIGHTLY)
