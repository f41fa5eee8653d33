"""Payloads out of what is convenient to pass: members, ids, and content for plain text.

Nothing is checked here but which arguments go together: a value of a wrong type takes its place in
the payload, where ``dispatch`` finds it and can name it.
"""

from __future__ import annotations

from typing import Any, Mapping, NoReturn, Optional, Sequence, Union

from ahp_sync.errors import InvalidEvent
from ahp_sync.protocol.occurrence import new_id
from ahp_sync.protocol.payloads import Id, Message, Role, TextPart

__all__ = ["given", "identity", "message", "messages", "stem", "text_part", "texts"]


def given(**members: Any) -> dict[str, Any]:
    """Return the members that are not None."""
    return {name: value for name, value in members.items() if value is not None}


def identity(value: Id) -> Mapping[str, Any]:
    """Return the protocol's object for an id, or the object that was passed as it is."""
    return value if isinstance(value, Mapping) else {"id": value}


def stem(options: Mapping[str, Any]) -> str:
    """Return what made-up ids of an event begin with.

    With an ``event_id`` they are the same whenever the event is raised again (R-EVT-04).
    """
    return options.get("event_id") or new_id()


def text_part(text: str, *, id: str) -> TextPart:
    """Return a part of this text, whose made-up id says so (R-EVT-04)."""
    return {
        "id": id,
        "kind": "text",
        "mediaType": "text/plain",
        "selection": "body",
        "synthesized": True,
        "text": text,
    }


def texts(content: Union[str, Sequence[TextPart]], *, id: str) -> Sequence[TextPart]:
    """Return the text parts that were passed, or one of the text that was."""
    return [text_part(content, id=id)] if isinstance(content, str) else content


def messages(
    text: Optional[str],
    items: Optional[Sequence[Message]],
    *,
    role: Role,
    id: str,
    path: str = "$.items",
) -> Sequence[Message]:
    """Return the messages that were passed, or one of the text that was, or none.

    ``path`` is where they go. Raises :class:`InvalidEvent` if both were passed.
    """
    if items is None:
        return [] if text is None else [_message(text, role=role, id=id)]
    if text is not None:
        _refuse_both(path)
    return items


def message(
    text: Optional[str], whole: Optional[Message], *, role: Role, id: str, path: str
) -> Message:
    """Return the message that was passed, or one of the text that was.

    Raises :class:`InvalidEvent` unless it was exactly one of them.
    """
    if whole is None:
        if text is None:
            raise InvalidEvent(path, "neither a text nor a message", "one of the two")
        return _message(text, role=role, id=id)
    if text is not None:
        _refuse_both(path)
    return whole


def _refuse_both(path: str) -> NoReturn:
    raise InvalidEvent(path, "both a text and messages", "one of the two")


def _message(text: str, *, role: Role, id: str) -> Message:
    part = text_part(text, id=f"{id}-part-1")
    return {"id": id, "role": role, "synthesized": True, "parts": [part]}
