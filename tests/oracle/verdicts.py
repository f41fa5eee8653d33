"""What a client made of a case, in a form in which two clients can be compared."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple, Optional

__all__ = ["Sent", "Verdict", "plain", "same"]


class Sent(NamedTuple):
    """One message, and the backend that it went to."""

    backend: str
    message: Any


@dataclass
class Verdict:
    """What came of a case.

    With a ``host_error`` the client refused what the host wanted, and nothing else counts.
    ``refused`` are the interceptors that failed, as (backend, index of the subscription); ``sent``
    is all that went out, in order. ``decision`` is ours alone: the SDK has another idea of it.
    ``details`` are for people.
    """

    host_error: Optional[str] = None
    event: Any = None
    permission: str = "none"
    candidate: Any = None
    flow: str = "none"
    instructions: list[str] = field(default_factory=list)
    injections: list[Any] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    remaining: Optional[int] = None
    refused: list[tuple[str, int]] = field(default_factory=list)
    synthetic: bool = False
    decision: str = ""
    sent: list[Sent] = field(default_factory=list)
    details: list[str] = field(default_factory=list)

    @property
    def asked(self) -> list[Sent]:
        """The interceptions, in order."""
        return [one for one in self.sent if "id" in one.message]

    @property
    def told(self) -> list[Sent]:
        """The observations; their order means nothing (R-OBS-05)."""
        told = [one for one in self.sent if "id" not in one.message]
        return sorted(told, key=lambda one: (one.backend, json.dumps(one.message, sort_keys=True)))

    def __str__(self) -> str:
        lines = []
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name == "sent":
                lines += [f"sent to {one.backend}: {_short(one.message)}" for one in value]
            elif value != each.default and value != []:
                lines.append(f"{each.name}: {_short(value)}")
        return "\n  ".join(lines) or "nothing at all"


def plain(value: Any) -> Any:
    """Return a detached copy of JSON values, without classes of their own."""
    return json.loads(json.dumps(value))


def same(one: Any, other: Any) -> bool:
    """Return whether two JSON values are equal; booleans are not numbers (R-SET-06)."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) in _KINDS.get(type(other), (type(other),)) and one == other


_KINDS: dict[type, tuple[type, ...]] = {int: (int, float), float: (int, float)}


def _short(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
