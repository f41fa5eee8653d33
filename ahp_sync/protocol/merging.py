"""A receiver's edit of a content list, made on what it saw and on what the host has (R-CON-06).

A receiver edits its own view. Whatever it leaves as it was shown stands for the host's own entry,
hidden content included; whatever it writes is its own. An entry of the new list is the one or the
other as a whole, so an edit can neither lay open what was hidden nor attach it to something else.
A part that was not shown whole may be kept, dropped, or replaced by other content under its id. An
edit of its description alone is refused: it would either cost the host the content (trap T-08), or
put words of the receiver's to content that it never saw.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any, Hashable, NamedTuple, Optional

from ahp_sync.protocol.effects import refused
from ahp_sync.protocol.equality import json_key
from ahp_sync.protocol.slots import parts_of

__all__ = [
    "Entries",
    "Merged",
    "merged",
    "references_in",
    "unknown_reference",
    "withholds_text",
]

#: Messages, or parts that stand on their own.
Entries = Sequence[dict[str, Any]]


class Merged(NamedTuple):
    """A list after an edit: as the receiver that made it may see it, and as the host has it.

    They are one list where nothing is hidden. A further edit of the same response is made on these.
    """

    view: Entries
    host: Entries


def withholds_text(view: Entries) -> bool:
    """Return whether a receiver is shown a text part without its text: metadata, omit or a gap.

    It must be offered no whole-list ``replace`` of that list then (R-EFF-03, D-15), and nothing
    that depends on a body (R-CON-07).
    """
    return any(part["kind"] == "text" and "text" not in part for _, part in _parts(view))


def references_in(view: dict[str, Any]) -> frozenset[Hashable]:
    """Return the attachments with a body that a receiver was shown, for :func:`unknown_reference`.

    :param view: the event as it was sent; any part of it counts, wherever it is.
    """
    return frozenset(json_key(part) for part in parts_of(view) if "body" in part)


def unknown_reference(value: Entries, known: Container[Hashable]) -> Optional[str]:
    """Return the path of an attachment in an effect's value that the receiver was not shown.

    A part with a ``body.ref`` may only be carried over as a whole, with the id, the media type and
    all else of it unchanged (R-EFF-02). The path is relative: ``[0].parts[1].body.ref``.
    """
    for place, part in _parts(value):
        if "body" in part and json_key(part) not in known:
            return f"{place}.body.ref"
    return None


def merged(operation: str, value: Entries, view: Entries, host: Entries) -> Merged:
    """Return both lists after one ``modify`` of a list of messages or of text parts.

    ``merge`` appends; what is there stays, and a repeated entry is kept twice. ``replace`` takes
    the given list, in which

    * an entry equal to one of the view stands for the host's;
    * a message that was changed keeps the parts of the view's message with its id in that way;
    * a part that was changed has to bring its own content, if the view's part with its id had not
      all that the host's has. Raises ``OperationalFailure`` of class ``effects`` otherwise.

    The same id may stand in a list several times, with one role. Equal entries pair up in the order
    of both lists, and those beyond the last pair are copies of it. Changed messages then pair up
    with what is left under their id, in order.

    :param view: ``host`` as the receiver saw it, entry by entry.
    """
    if operation == "merge":
        appended = [*view, *value]
        return Merged(appended, appended if view is host else [*host, *value])
    return Merged(value, value if view is host else _restored(value, view, host))


def _restored(value: Entries, view: Entries, host: Entries) -> Entries:
    same = _Positions()
    for position, seen in enumerate(view):
        same.add(json_key(seen), position)
    origins = [same.take(json_key(entry)) for entry in value]
    taken = set(origins)
    others = _Positions()
    for position in sorted(range(len(view)), key=taken.__contains__):
        others.add(view[position]["id"], position)
    return [
        _changed(entry, others, view, host) if origin is None else host[origin]
        for entry, origin in zip(value, origins)
    ]


def _changed(
    entry: dict[str, Any], others: _Positions, view: Entries, host: Entries
) -> dict[str, Any]:
    position = others.take(entry["id"])
    if position is None or view[position] is host[position]:
        return entry
    if "parts" not in entry:
        if entry["selection"] != "body":
            raise refused("invalid_edit", "an edit changes a part that was not shown whole")
        return entry
    parts = _restored(entry["parts"], view[position]["parts"], host[position]["parts"])
    return {**entry, "parts": parts}


class _Positions:
    """List positions by key, given out one after another; the last one as often as it is asked for.

    Both lists can be long and come from a stranger, so nothing here searches.
    """

    def __init__(self) -> None:
        self._by_key: dict[Hashable, list[int]] = {}
        self._next: dict[Hashable, int] = {}

    def add(self, key: Hashable, position: int) -> None:
        self._by_key.setdefault(key, []).append(position)

    def take(self, key: Hashable) -> Optional[int]:
        positions = self._by_key.get(key)
        if positions is None:
            return None
        count = self._next.get(key, 0)
        self._next[key] = count + 1
        return positions[min(count, len(positions) - 1)]


def _parts(entries: Entries) -> list[tuple[str, dict[str, Any]]]:
    """Return all parts of messages, or of a list of parts, each with its relative path."""
    found: list[tuple[str, dict[str, Any]]] = []
    for index, entry in enumerate(entries):
        if "parts" in entry:
            found += [(f"[{index}].parts[{i}]", part) for i, part in enumerate(entry["parts"])]
        else:
            found.append((f"[{index}]", entry))
    return found
