"""The events of the protocol as data, and which of them this version of the library serves.

A further event is one more entry of the table (with its schema in ``schemas.py``); everything that
asks about events asks here.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Optional

__all__ = ["EVENTS", "EventType", "Mode", "expand", "refusal", "served", "supports"]


class Mode(str, enum.Enum):
    """What a subscription does with its events: decide about them, or only be told."""

    INTERCEPT = "intercept"
    OBSERVE = "observe"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class EventType:
    """One event type (protocol.md section 4).

    ``interceptable`` is what the protocol allows; ``declared`` (observation) and
    ``intercept_effects`` (interception, with these effects) are what this version serves.
    """

    name: str
    interceptable: bool = False
    declared: bool = False
    intercept_effects: tuple[str, ...] = ()

    @property
    def family(self) -> str:
        """The first label of the name, which ``family.*`` selects by."""
        return self.name.partition(".")[0]


_TABLE = (
    EventType("session.start", interceptable=True, declared=True),
    EventType("session.end", declared=True),
    EventType("config.change.before", interceptable=True),
    EventType("config.change.after"),
    EventType("turn.start", interceptable=True),
    EventType("turn.finish.before", interceptable=True),
    EventType("turn.end"),
    EventType("turn.progress"),
    EventType("model.request.before", interceptable=True),
    EventType("model.response.after", interceptable=True),
    EventType("model.error"),
    EventType("model.switch.before", interceptable=True),
    EventType("model.switch.after"),
    EventType("tool.before", interceptable=True, declared=True, intercept_effects=("deny",)),
    EventType("tool.after", interceptable=True, declared=True),
    EventType("tool.permission.request", interceptable=True),
    EventType("tool.permission.resolved"),
    EventType("tool.progress"),
    EventType("tool.batch.after", interceptable=True),
    EventType("context.compact.before", interceptable=True),
    EventType("context.compact.after", interceptable=True),
    EventType("task.change.before", interceptable=True),
    EventType("task.change.after"),
    EventType("user.attention"),
    EventType("user.elicitation.request", interceptable=True),
    EventType("user.elicitation.result", interceptable=True),
    EventType("user.message.inbound", interceptable=True),
    EventType("user.message.outbound", interceptable=True),
    EventType("workspace.change.before", interceptable=True),
    EventType("workspace.change.after"),
    EventType("file.changed"),
    EventType("hook.failure"),
)

#: All event types by name, in the order of the protocol's table.
EVENTS: Mapping[str, EventType] = MappingProxyType({event.name: event for event in _TABLE})

_FAMILY_WILDCARD = re.compile(r"[a-z][a-z0-9]*\.\*")


def supports(event: EventType, mode: Mode) -> bool:
    """Return whether this version serves the event in the given mode."""
    return bool(event.intercept_effects) if mode is Mode.INTERCEPT else event.declared


def served(mode: Mode) -> tuple[str, ...]:
    """Return the names of all events that this version serves in the given mode."""
    return tuple(event.name for event in EVENTS.values() if supports(event, mode))


def expand(selectors: Iterable[str], mode: Mode) -> frozenset[str]:
    """Return the names of the served events that the selectors choose in the given mode.

    A selector is an event name, ``family.*`` or ``*``. What the mode does not support is left out
    of a wildcard's choice, never a reason to refuse it (R-REG-02, D-13), so the result may be
    empty; :func:`refusal` tells which selectors a registration must not have.
    """
    chosen = (event for selector in selectors for event in _named(selector))
    return frozenset(event.name for event in chosen if supports(event, mode))


def refusal(selector: str, mode: Mode) -> Optional[str]:
    """Return why a registration may not use the selector in this mode, or None where it may.

    A registration that selects nothing would be a policy that silently does not apply (R-REG-01,
    R-REG-02).
    """
    if expand((selector,), mode):
        return None
    events = _named(selector)
    if not events:
        return "no such family of events" if _is_family_wildcard(selector) else "no such event"
    if mode is Mode.INTERCEPT and not any(event.interceptable for event in events):
        return "can only be observed"
    return f"not served in {mode} mode by this version of ahp_sync"


def _is_family_wildcard(selector: str) -> bool:
    return _FAMILY_WILDCARD.fullmatch(selector) is not None


def _named(selector: str) -> tuple[EventType, ...]:
    if selector == "*":
        return tuple(EVENTS.values())
    if _is_family_wildcard(selector):
        return tuple(event for event in EVENTS.values() if event.family == selector[:-2])
    return (EVENTS[selector],) if selector in EVENTS else ()
