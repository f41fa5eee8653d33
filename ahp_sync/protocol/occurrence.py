"""One occurrence: the event of a hook call, built and checked before anything is sent."""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, Callable, Mapping, Optional, Union

from ahp_sync.errors import InvalidEvent
from ahp_sync.protocol.changes import check_change
from ahp_sync.protocol.elicitation import check_event, check_pair
from ahp_sync.protocol.events import EVENTS
from ahp_sync.protocol.uri import URI
from ahp_sync.protocol.validation import event_problem
from ahp_sync.protocol.values import plain

__all__ = ["Harness", "Origin", "Session", "new_id"]

#: A session: its id, or the whole object of the protocol (``{"id": …, "cwd": …}``).
Session = Union[str, Mapping[str, Any]]

_URI = re.compile(URI)
_OWN = ("id", "source", "type", "time", "harness")
# An event stands in the params of a message: so many levels of the bound are taken.
_LEVEL = 3


@dataclass(frozen=True)
class Harness:
    """The agent runtime that sends the events: a name and a version, both non-empty (section 3).

    Raises :class:`TypeError` and :class:`ValueError` otherwise.
    """

    name: str
    version: str

    def __post_init__(self) -> None:
        for field, value in (("name", self.name), ("version", self.version)):
            if not isinstance(value, str):
                raise TypeError(f"harness {field} must be a string, not {type(value).__name__}")
            if not value:
                raise ValueError(f"harness {field} must not be empty")
            _check_text(value, f"harness {field}")


class Origin:
    """Whose events these are: the source URI and the harness, the same for every occurrence.

    ``source`` is an absolute RFC 3986 URI in ASCII, with no secret and no prompt text in it
    (R-EVT-02). Raises :class:`TypeError` and :class:`ValueError` for anything else.
    """

    def __init__(self, source: str, harness: Harness) -> None:
        if not isinstance(source, str):
            raise TypeError(f"source must be a URI string, not {type(source).__name__}")
        if not _URI.fullmatch(source):
            raise ValueError(
                f"source must be an absolute URI such as 'urn:example:my-agent', not {source!r}"
            )
        if not isinstance(harness, Harness):
            raise TypeError(f"harness must be a Harness, not {type(harness).__name__}")
        self.source = source
        self._harness = {"name": harness.name, "version": harness.version}

    def event(
        self,
        event_type: str,
        payload: Mapping[str, Any],
        *,
        event_id: Optional[str] = None,
        time: Optional[datetime] = None,
        native: Any = None,
        request: Optional[Mapping[str, Any]] = None,
        wanted: Optional[Callable[[], bool]] = None,
        adapt: Optional[Callable[[object], Any]] = None,
    ) -> dict[str, Any]:
        """Return the event as plain JSON values, a copy that no later change of the host reaches.

        ``payload`` holds every member but the ones of this object's own, ``request`` is the event
        of the elicitation whose result it brings. Once ``wanted`` returns False the event will not
        be sent, and need not be checked to its end; ``adapt`` is as for ``plain``. Raises
        :class:`InvalidEvent` naming the path of what is wrong.
        """
        known = EVENTS.get(event_type) if isinstance(event_type, str) else None
        if known is None:
            raise InvalidEvent("$.type", repr(event_type), "an event type of the protocol")
        for name in _OWN:
            if name in payload:
                raise InvalidEvent(f"$.{name}", "a value", "none here: the client fills it in")
        members = plain(payload, "$", _LEVEL, adapt)
        if event_id is not None:
            members["id"] = plain(event_id, "$.id")
        problem = event_problem(event_type, members, wanted)
        if problem is not None:
            raise InvalidEvent(problem.path, _found(problem.keyword), problem.wanted)
        check_change(event_type, members)
        event = {
            "id": members.pop("id", None) or new_id(),
            "source": self.source,
            "type": event_type,
            "time": _time(time),
            "harness": dict(self._harness),
            **members,
        }
        if native is not None:
            event["native"] = plain(native, "$.native", _LEVEL + 1)
        if request is None:
            check_event(event)
        else:
            check_pair(event, request)
        return event


def new_id() -> str:
    """Return an identifier that nobody else has."""
    return str(uuid.uuid4())


def session_object(session: Optional[Session]) -> Optional[dict[str, Any]]:
    """Return the protocol's session object for what a host passed as ``session``."""
    if session is None:
        return None
    if isinstance(session, str):
        return {"id": session}
    if isinstance(session, Mapping):
        return dict(session)
    raise InvalidEvent("$.session", f"a {type(session).__name__}", "a session id or object")


def _time(time: Optional[datetime]) -> str:
    if time is None:
        return datetime.now(timezone.utc).isoformat(timespec="milliseconds")
    offset = time.utcoffset() if isinstance(time, datetime) else None
    if offset is None:
        raise InvalidEvent("$.time", repr(time), "a datetime with a time zone")
    if offset % timedelta(minutes=1):  # which RFC 3339 has no form for
        time = _in_utc(time)
    return time.isoformat(timespec="milliseconds")


def _in_utc(time: datetime) -> datetime:
    try:
        return time.astimezone(timezone.utc)
    except OverflowError:
        raise InvalidEvent("$.time", repr(time), "a time that UTC has as well") from None


def _found(keyword: str) -> str:
    return {"required": "a missing member", "additionalProperties": "an unknown member"}.get(
        keyword, "another value"
    )


def _check_text(text: str, what: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{what} has a lone surrogate, which UTF-8 can't carry") from None
