"""What every field test has: nothing may be left open when its clients and backends are closed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from watching import descriptors, eventually


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """See that every descriptor is closed once clients and backends are."""
    before = descriptors()
    yield
    assert eventually(lambda: descriptors() <= before), descriptors() - before
