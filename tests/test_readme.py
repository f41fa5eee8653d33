"""The README's table and its conformance statement are those of the code."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from ahp_sync import Client
from ahp_sync.protocol.events import EVENTS, EventType

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.rst").read_text(encoding="utf-8")
LINKS = dict(re.findall(r"^\.\. _([\w ]+): (\S+)$", README, re.MULTILINE))
ROWS = {
    name: (link, effects)
    for name, link, effects in re.findall(r"^``([\w.]+)`` +`(\w+)`_ +(.+)$", README, re.MULTILINE)
}


def may(event: EventType) -> str:
    """Return what the README has to say of an event's effects."""
    if not event.interceptable:
        return "–"
    words = []
    for effect in event.effects:
        if effect == "modify":
            assert event.target is not None
            effect = f"modify {event.target.name}"
        words.append(" or ".join(event.flow) if effect == "flow" else effect)
    return ", ".join([*words, "message"])


def test_every_event_has_its_row() -> None:
    """In the order of the table, with what it may be granted."""
    assert list(ROWS) == list(EVENTS)
    assert {name: effects for name, (_, effects) in ROWS.items()} == {
        name: may(event) for name, event in EVENTS.items()
    }


@pytest.mark.parametrize("name", EVENTS)
def test_a_row_links_to_the_docstring_of_its_method(name: str) -> None:
    """The linked file is the one that the method is in."""
    method = getattr(Client, name.replace(".", "_"))
    source = inspect.getsourcefile(method)
    assert source is not None
    assert Path(source) == ROOT / LINKS[ROWS[name][0]]
    assert f"``{name}``" in (inspect.getdoc(method) or "")


def test_every_link_leads_somewhere() -> None:
    """All relative links of the README are files of the project."""
    inline = re.findall(r"<((?:docs|tests|ahp_sync)/[^>]+)>", README)
    for target in [*LINKS.values(), *inline]:
        assert (ROOT / target).is_file(), target


def test_the_conformance_statement_lists_all_events() -> None:
    """Role, bindings, profiles and event types, in the protocol's own terms."""
    statement = README.partition("Role: harness.")[2].partition("\n\n")[0]
    for word in ("HTTP", "stdio", "Tool Interception", "Lifecycle Observation"):
        assert word in statement
    listed = re.findall(r"``([a-z]+\.[a-z.]+)``", statement)
    assert listed == list(EVENTS)
