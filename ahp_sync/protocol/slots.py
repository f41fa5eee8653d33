"""The places of an event that hold its content, walked along the paths of the table (R-CON-05)."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator, Mapping
from typing import Any, Callable, Union

from ahp_sync.protocol.events import EVENTS, Path

__all__ = ["Place", "at", "find", "part_paths", "parts_of", "put", "replaced"]

#: Where one value is: member names and list positions from the root.
Place = tuple[Union[str, int], ...]


@functools.cache
def part_paths(event_type: str) -> tuple[Path, ...]:
    """Return the paths of all parts of an event: those on their own, and those of messages."""
    event = EVENTS[event_type]
    return (*event.parts, *((*path, "parts", "*") for path in event.messages))


def parts_of(event: dict[str, Any]) -> list[dict[str, Any]]:
    """Return all parts of an event, such as those that a receiver's view shows."""
    return [part for path in part_paths(event["type"]) for _, part in find(event, path)]


def at(value: Any, path: Path) -> Any:
    """Return what is at ``path``, which goes through objects only; None where nothing is."""
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def put(value: Any, path: Path, new: Any) -> Any:
    """Return ``value`` with ``new`` at ``path``, which is there; nothing is changed in place."""
    return {**value, path[0]: put(value[path[0]], path[1:], new)} if path else new


def find(value: Any, path: Path, place: Place = ()) -> Iterator[tuple[Place, Any]]:
    """Yield what stands at ``path`` and where; a member that is not there is passed over."""
    if not path:
        yield place, value
    elif path[0] == "*":
        for index, entry in enumerate(value):
            yield from find(entry, path[1:], (*place, index))
    elif path[0] in value:
        yield from find(value[path[0]], path[1:], (*place, path[0]))


def replaced(value: Any, path: Path, change: Callable[[Any], Any]) -> Any:
    """Return ``value`` with ``change`` made to whatever stands at ``path``.

    Nothing is changed in place: what is the same afterwards is shared, all of it if nothing was
    changed.
    """
    if not path:
        return change(value)
    step, rest = path[0], path[1:]
    if step == "*":
        entries = [replaced(entry, rest, change) for entry in value]
        return value if all(map(operator.is_, entries, value)) else entries
    if step not in value:
        return value
    inner = replaced(value[step], rest, change)
    return value if inner is value[step] else {**value, step: inner}
