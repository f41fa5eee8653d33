"""What messages are made of (section 13 of the wire reference)."""

from __future__ import annotations

from typing import Literal, Sequence, TypedDict, Union

__all__ = [
    "AttachmentPart",
    "Body",
    "Message",
    "Part",
    "PartGap",
    "Role",
    "Selection",
    "TextPart",
]

#: Who speaks.
Role = Literal["system", "developer", "user", "assistant", "tool"]

#: How much of a part is there: its content, only what it is, or not even its measures.
Selection = Literal["body", "metadata", "omit"]


class _PartGap(TypedDict):
    reason: str


class PartGap(_PartGap, total=False):
    """Why the content of a part is missing: ``reason``, and ``path`` if it has a place."""

    path: str


class Body(TypedDict):
    """Where the bytes of an attachment are: ``ref``, as the backend's upload receipt has it."""

    ref: str


class _Part(TypedDict):
    id: str
    mediaType: str
    selection: Selection


class _PartMore(_Part, total=False):
    category: str
    synthesized: bool
    gap: PartGap
    size: int
    sha256: str


class _TextPart(_PartMore):
    kind: Literal["text"]


class TextPart(_TextPart, total=False):
    """A piece of text; ``mediaType`` is always ``text/plain`` (R-CON-02).

    With the selection ``body`` it has either ``text``, perhaps empty, or a ``gap``; otherwise
    neither. ``size`` (bytes) and ``sha256`` (64 lower-case hex digits) stand only where the content
    itself is not there. ``category`` is ``text`` unless it says otherwise, and has to be
    ``reasoning`` for reasoning (R-CON-03). ``synthesized``: the id was made up (R-EVT-04).
    """

    text: str


class _AttachmentPart(_PartMore):
    kind: Literal["attachment"]


class AttachmentPart(_AttachmentPart, total=False):
    """A file: any ``mediaType`` but text and JSON (R-CON-01).

    As :class:`TextPart`, with ``body`` in the place of ``text``. The category follows from the
    media type: ``images``, ``audio``, ``video`` or ``files``.
    """

    body: Body


#: A piece of content.
Part = Union[TextPart, AttachmentPart]


class _Message(TypedDict):
    id: str
    role: Role
    parts: Sequence[Part]


class Message(_Message, total=False):
    """What one side says, in parts, perhaps none.

    The id keeps its role, and the ids of the parts keep their message, for as long as the source
    lives (R-EVT-03). ``synthesized``: the id was made up (R-EVT-04).
    """

    synthesized: bool
