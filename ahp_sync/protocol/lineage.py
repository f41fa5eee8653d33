"""Identities that stay what they are: events and their parents, messages and parts (R-EVT-03).

An event id keeps its parent and its kind, a message or part id its role, a part its message, all
within one ``source``. Messages and parts share one set of ids. An id may stand in an event several
times, as long as it says the same.
"""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Callable, NamedTuple, Optional

from ahp_sync.errors import InvalidEvent, Problem
from ahp_sync.findings import json_path
from ahp_sync.protocol.events import EVENTS
from ahp_sync.protocol.slots import Place, find

__all__ = ["Lineage", "Messages", "identity_problem"]

#: Messages and where they stand.
Messages = Iterable[tuple[Place, dict[str, Any]]]

# One text for two: many are remembered, and a source, being a URI, has no blank in it.
_Key = str

_BEFORE, _AFTER = _TASK = ("task.change.before", "task.change.after")
_OWN_ID = "an id that no other part has"


class _Event(NamedTuple):
    """What an event id stands for. The task is there for the two task events only."""

    type: str
    parent: Optional[_Key]
    task: Optional[str] = None
    operation: Optional[str] = None


class _Content(NamedTuple):
    """What a message or part id stands for; a message is of no other, unless it is a part too."""

    role: str
    owner: Optional[str] = None


class _Mention(NamedTuple):
    """One message or part of an event: where, its id, and what it says of itself."""

    place: Place
    id: str
    content: _Content


_Known = Callable[[str], Optional[_Content]]

# Most events are no more than their type, and many are remembered: they share it.
_PLAIN: Mapping[str, _Event] = MappingProxyType({name: _Event(name, None) for name in EVENTS})


def identity_problem(event: dict[str, Any]) -> Optional[Problem]:
    """Return where a valid event contradicts itself, or None (R-EVT-03).

    An id with two roles, a part in two messages, and content that holds itself.
    """
    return _content_problem(_mentions(event), lambda _: None, {})


class Lineage:
    """The identities that one client has used in one process; safe to share between threads.

    Only the most recently used are remembered: forgetting may let a contradiction pass, but refuses
    nothing. The tasks of ``task.change.before`` and of the ``task.change.after`` whose parent it is
    have to be one task and one operation, whichever of the two comes first.

    :param limit: how many events, and how many messages and parts together, are remembered.
    """

    def __init__(self, limit: int = 10_000) -> None:
        if limit < 1:
            raise ValueError("limit must be at least 1")
        self._limit = limit
        self._lock = threading.Lock()
        self._events: OrderedDict[_Key, _Event] = OrderedDict()
        # By parent: a late parent has to agree with the children that are here before it.
        self._children: dict[_Key, dict[_Key, None]] = {}
        self._content: OrderedDict[_Key, _Content] = OrderedDict()

    def __repr__(self) -> str:
        return f"<Lineage: {len(self._events)} events, {len(self._content)} messages and parts>"

    def problem(self, event: dict[str, Any]) -> Optional[Problem]:
        """Return where a valid event contradicts what is known, or None. Records nothing.

        For an event that a backend has edited, too (trap T-09).
        """
        return self._problem(event, record=False)

    def check(self, event: dict[str, Any]) -> None:
        """Raise :class:`InvalidEvent` where a valid event contradicts what is known."""
        _raise(self._problem(event, record=False))

    def accept(self, event: dict[str, Any], beside: Messages = ()) -> None:
        """Check an event and remember its identities, all of them or, if it is refused, none.

        The same event may come again: a retry has the same identities (AHP-CORE-004).

        :param beside: messages that came up with it and are no part of it, each with its place.
        """
        _raise(self._problem(event, beside, record=True))

    def _problem(
        self, event: dict[str, Any], beside: Messages = (), *, record: bool
    ) -> Optional[Problem]:
        source = event["source"]
        key, this = _key(source, event["id"]), _event(event)
        mentions = _mentions(event, beside)
        staged: dict[str, _Content] = {}
        with self._lock:
            problem = self._event_problem(key, this)
            if problem is None and mentions:
                problem = _content_problem(
                    mentions, lambda name: self._content.get(_key(source, name)), staged
                )
            if problem is None and record:
                self._remember_event(key, this)
                self._remember_content(source, staged)
        return problem

    # --- the rest runs under the lock, on dictionaries only -------------------------------------

    def _event_problem(self, key: _Key, this: _Event) -> Optional[Problem]:
        known = self._events.get(key)
        if known is not None:
            return _other_event(known, this)
        if this.parent is None and key not in self._children:
            return None
        if self._loops(key, this.parent):
            return Problem("$.parentEventId", "a loop", "an event that this one does not lead to")
        parent = self._events.get(this.parent) if this.parent is not None else None
        if parent is not None and _other_task(parent, this):
            return _wrong_task(parent, this)
        for child in self._children.get(key, ()):
            if _other_task(this, self._events[child]):
                return _wrong_task(self._events[child], this)
        return None

    def _loops(self, key: _Key, parent: Optional[_Key]) -> bool:
        if parent == key:
            return True
        # What is known has no loop; a new event can only close one that already leads to it.
        cursor = parent if key in self._children else None
        while cursor is not None and cursor != key:
            above = self._events.get(cursor)
            cursor = above.parent if above is not None else None
        return cursor is not None

    def _remember_event(self, key: _Key, this: _Event) -> None:
        if key not in self._events:
            self._events[key] = this
            if this.parent is not None:
                self._children.setdefault(this.parent, {})[key] = None
        else:
            self._events.move_to_end(key)
        if this.parent is not None and this.parent in self._events:
            self._events.move_to_end(this.parent)
        while len(self._events) > self._limit:
            self._forget_oldest_event()

    def _forget_oldest_event(self) -> None:
        key, oldest = self._events.popitem(last=False)
        if oldest.parent is not None:
            siblings = self._children[oldest.parent]
            del siblings[key]
            if not siblings:
                del self._children[oldest.parent]

    def _remember_content(self, source: str, staged: Mapping[str, _Content]) -> None:
        for name, content in staged.items():
            key = _key(source, name)
            self._content[key] = content
            self._content.move_to_end(key)
        while len(self._content) > self._limit:
            self._content.popitem(last=False)


def _raise(problem: Optional[Problem]) -> None:
    if problem is not None:
        raise InvalidEvent(problem.path, problem.found, problem.wanted)


# --- events ---------------------------------------------------------------------------------------


def _key(source: str, name: str) -> _Key:
    return f"{source} {name}"


def _event(event: dict[str, Any]) -> _Event:
    parent = None
    if "parentEventId" in event:
        parent = _key(event["source"], event["parentEventId"])
    if event["type"] in _TASK:
        task = event["task"]
        return _Event(event["type"], parent, task["id"], task["operation"])
    return _PLAIN[event["type"]] if parent is None else _Event(event["type"], parent)


def _other_event(known: _Event, this: _Event) -> Optional[Problem]:
    if known.parent != this.parent:
        return Problem("$.parentEventId", "another parent", "the one that the event's id had first")
    if known != this:
        return Problem("$.id", "the id of another event", "an id of its own")
    return None


def _other_task(before: _Event, after: _Event) -> bool:
    return before.type == _BEFORE and after.type == _AFTER and before[2:] != after[2:]


def _wrong_task(known: _Event, this: _Event) -> Problem:
    member = "id" if known.task != this.task else "operation"
    return Problem(f"$.task.{member}", "another one", "that of the task event it is linked to")


# --- messages and parts ---------------------------------------------------------------------------


def _mentions(event: dict[str, Any], beside: Messages = ()) -> list[_Mention]:
    found: list[_Mention] = []
    own = (find(event, path) for path in EVENTS[event["type"]].messages)
    for place, message in itertools.chain(*own, beside):
        owner, role = message["id"], message["role"]
        found.append(_Mention(place, owner, _Content(role)))
        content = _Content(role, owner)
        for index, part in enumerate(message["parts"]):
            found.append(_Mention((*place, "parts", index), part["id"], content))
    return found


def _content_problem(
    mentions: list[_Mention], known: _Known, staged: dict[str, _Content]
) -> Optional[Problem]:
    """Return the first contradiction among the mentions and with what is known of their ids.

    ``staged`` is filled with what is known of each id afterwards.
    """
    for place, name, content in mentions:
        before = staged.get(name) or known(name)
        if before is not None and before.role != content.role:
            return Problem(
                json_path((*place, "role" if content.owner is None else "id")),
                f"an id with the role {content.role}",
                f"the role {before.role} that it had before",
            )
        if before is not None and content.owner is None:
            content = before
        elif before is not None and before.owner not in (None, content.owner):
            return Problem(json_path((*place, "id")), "a part of another message", _OWN_ID)
        staged[name] = content
    return _ownership_loop(mentions, known, staged)


def _ownership_loop(
    mentions: list[_Mention], known: _Known, staged: Mapping[str, _Content]
) -> Optional[Problem]:
    cleared: set[str] = set()
    for place, name, content in mentions:
        # An id is in a loop only if it is a part of a message that is a part itself.
        if content.owner is None or staged[content.owner].owner is None:
            continue
        above: set[str] = set()
        cursor: Optional[str] = name
        while cursor is not None and cursor not in cleared:
            if cursor in above:
                return Problem(json_path((*place, "id")), "content that holds itself", _OWN_ID)
            above.add(cursor)
            owned = staged.get(cursor) or known(cursor)
            cursor = owned.owner if owned is not None else None
        cleared |= above
    return None
