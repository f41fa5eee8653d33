"""The events of the protocol and what each may be granted, as data (section 4 of the reference).

A further event is one more entry of the table and its schema; everything that asks about events
asks here.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Callable, Optional

__all__ = ["EVENTS", "EventType", "Mode", "Path", "Shape", "Target", "expand", "named"]

#: The way to a member of an event; ``"*"`` stands for every entry of a list.
Path = tuple[str, ...]


class Mode(str, enum.Enum):
    """What a subscription does with its events: decide about them, or only be told."""

    INTERCEPT = "intercept"
    OBSERVE = "observe"

    def __str__(self) -> str:
        return self.value


class Shape(str, enum.Enum):
    """The form of a value that a ``modify`` or a ``return`` brings."""

    #: Any JSON value.
    JSON = "json"
    #: An object, merged member by member.
    OBJECT = "object"
    #: A workspace object: ``cwd`` and ``workspaceRoots``, at least one of them.
    WORKSPACE = "workspace"
    #: A list of messages; merging appends.
    MESSAGES = "messages"
    #: A list of text parts; merging appends.
    TEXT = "text"
    #: The answers of an elicitation form, by field; merged member by member.
    ANSWERS = "answers"
    #: A complete MCP elicitation result.
    ELICITATION = "elicitation"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Target:
    """What ``modify`` may change at an event: its name on the wire, where it is, and its form.

    The answers of an elicitation stand inside the text at ``path``; all others are the value there.
    """

    name: str
    path: Path
    shape: Shape


@dataclass(frozen=True)
class EventType:
    """One event type.

    ``effects`` are those that it may be granted, ``message`` aside; an event without any can only
    be observed. ``flow`` names the operations of its ``flow`` effect, ``returns`` the form of a
    supplied result. ``parts`` and ``messages`` are the places of its content (R-CON-05): parts on
    their own, and lists of messages or single ones.
    """

    name: str
    effects: tuple[str, ...] = ()
    target: Optional[Target] = None
    flow: tuple[str, ...] = ()
    returns: Optional[Shape] = None
    parts: tuple[Path, ...] = (("items", "*"),)
    messages: tuple[Path, ...] = ()

    @property
    def family(self) -> str:
        """The first label of the name, which ``family.*`` selects by."""
        return self.name.partition(".")[0]

    @property
    def interceptable(self) -> bool:
        """Whether the protocol lets a backend decide about this event, and not only observe it."""
        return bool(self.effects)


_ITEMS: tuple[Path, ...] = (("items", "*"),)
_STOP = ("stop",)
_BOTH = ("stop", "continue")
_INPUT = Target("input", ("tool", "input"), Shape.OBJECT)


def _items(name: str) -> Target:
    return Target(name, ("items",), Shape.MESSAGES)


_TABLE = (
    EventType("session.start", ("inject",), parts=(), messages=_ITEMS),
    EventType("session.end"),
    EventType("config.change.before", ("deny",)),
    EventType("config.change.after"),
    EventType(
        "turn.start",
        ("deny", "modify", "flow", "inject"),
        _items("prompt"),
        _STOP,
        parts=(),
        messages=_ITEMS,
    ),
    EventType(
        "turn.finish.before",
        ("modify", "flow"),
        _items("response"),
        _BOTH,
        parts=(),
        messages=_ITEMS,
    ),
    EventType("turn.end", parts=(), messages=_ITEMS),
    EventType("turn.progress", messages=(("delta",),)),
    EventType(
        "model.request.before",
        ("deny", "modify", "return", "flow", "inject"),
        _items("request"),
        _STOP,
        Shape.MESSAGES,
        parts=(),
        messages=_ITEMS,
    ),
    EventType(
        "model.response.after",
        ("modify", "flow"),
        _items("response"),
        _STOP,
        parts=(),
        messages=_ITEMS,
    ),
    EventType("model.error"),
    EventType("model.switch.before", ("deny", "flow"), flow=_STOP),
    EventType("model.switch.after"),
    EventType(
        "tool.before",
        ("deny", "allow", "ask", "modify", "return", "flow", "inject"),
        _INPUT,
        _STOP,
        Shape.JSON,
    ),
    EventType(
        "tool.after",
        ("modify", "flow", "inject"),
        _items("output"),
        _BOTH,
        parts=(("fileChanges", "*", "before"), ("fileChanges", "*", "after")),
        messages=_ITEMS,
    ),
    EventType("tool.permission.request", ("deny", "allow", "modify", "flow"), _INPUT, _STOP),
    EventType("tool.permission.resolved"),
    EventType("tool.progress", messages=(("partialOutput",),)),
    EventType("tool.batch.after", ("flow", "inject"), flow=_STOP),
    EventType(
        "context.compact.before",
        ("deny", "modify", "return", "inject"),
        Target("instructions", ("instructions",), Shape.TEXT),
        returns=Shape.TEXT,
        parts=(("instructions", "*"),),
        messages=_ITEMS,
    ),
    EventType(
        "context.compact.after",
        ("modify", "inject"),
        Target("summary", ("summary",), Shape.TEXT),
        parts=(("summary", "*"),),
        messages=_ITEMS,
    ),
    EventType("task.change.before", ("deny",)),
    EventType("task.change.after"),
    EventType(
        "user.attention",
        parts=(*_ITEMS, ("attention", "message", "*"), ("attention", "title", "*")),
    ),
    EventType(
        "user.elicitation.request",
        ("deny", "return"),
        returns=Shape.ELICITATION,
        parts=(*_ITEMS, ("elicitation", "request")),
    ),
    EventType(
        "user.elicitation.result",
        ("modify",),
        Target("content", ("elicitation", "result"), Shape.ANSWERS),
        parts=(*_ITEMS, ("elicitation", "result")),
    ),
    EventType(
        "user.message.inbound",
        ("deny", "modify"),
        Target("prompt", ("message", "messages"), Shape.MESSAGES),
        messages=(("message", "messages", "*"),),
    ),
    EventType(
        "user.message.outbound",
        ("deny", "modify"),
        Target("content", ("message", "messages"), Shape.MESSAGES),
        messages=(("message", "messages", "*"),),
    ),
    EventType(
        "workspace.change.before",
        ("deny", "modify"),
        Target("workspace", ("workspace", "change"), Shape.WORKSPACE),
    ),
    EventType("workspace.change.after"),
    EventType(
        "file.changed",
        parts=(*_ITEMS, ("changes", "*", "before"), ("changes", "*", "after")),
    ),
    EventType("hook.failure"),
)

#: All event types by name, in the order of the protocol's table.
EVENTS: Mapping[str, EventType] = MappingProxyType({event.name: event for event in _TABLE})

_FAMILY_WILDCARD = re.compile(r"[a-z][a-z0-9]*\.\*")


def expand(selectors: Iterable[str], supported: Callable[[EventType], bool]) -> frozenset[str]:
    """Return the names of the ``supported`` events that the selectors choose.

    A selector is an event name, ``family.*`` or ``*``. What is not supported is left out of a
    wildcard's choice, never a reason to refuse it (R-REG-02, D-13), so the result may be empty.
    """
    chosen = (event for selector in selectors for event in named(selector))
    return frozenset(event.name for event in chosen if supported(event))


def named(selector: str) -> tuple[EventType, ...]:
    """Return the events of the protocol that a selector names, none for one that is not one."""
    if selector == "*":
        return tuple(EVENTS.values())
    if _FAMILY_WILDCARD.fullmatch(selector) is not None:
        return tuple(event for event in EVENTS.values() if event.family == selector[:-2])
    return (EVENTS[selector],) if selector in EVENTS else ()
