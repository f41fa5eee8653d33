"""Runs the public scenarios over real backends, and has what became of each counted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tally import PROPERTY, describe
from wires import Wire, open_wire


@pytest.fixture(autouse=True)
def counted(request: pytest.FixtureRequest) -> None:
    """Have a test counted, if it is about a public case."""
    params = getattr(request.node, "callspec", None)
    if params is not None and "case" in params.params:
        case, transport = params.params["case"], params.params["transport"]
        facts = describe(case.suite, case.name, case.tags, transport)
        request.node.user_properties.append((PROPERTY, facts))


@pytest.fixture(scope="session")
def wires() -> Iterator[dict[str, Wire]]:
    """The backends of each transport, for all cases one after another."""
    opened: dict[str, Wire] = {}
    yield opened
    for wire in opened.values():
        wire.close()


@pytest.fixture
def wire(wires: dict[str, Wire], transport: str) -> Wire:
    """The backends of the case's own transport, with nothing received and nothing to say."""
    if transport not in wires:
        wires[transport] = open_wire(transport)
    wires[transport].clear()
    return wires[transport]
