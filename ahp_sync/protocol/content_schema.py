"""Messages and their parts (section 13 of the wire reference): R-CON-01, R-CON-02."""

from __future__ import annotations

from ahp_sync.protocol.schema_forms import (
    BOOLEAN,
    COUNT,
    END,
    NAME,
    TEXT,
    Schema,
    array,
    closed,
    constant,
    one_of,
    present,
    when,
    without,
)

__all__ = [
    "INLINE_TEXTS",
    "MESSAGE",
    "MESSAGES",
    "PART",
    "PARTS",
    "SYNTHESIZED",
    "TEXTS",
    "TEXT_PART",
    "messages_of",
]

SYNTHESIZED = {"synthesized": BOOLEAN}

_PLAIN = constant("text/plain")
_BINARY: Schema = {
    "type": "string",
    "minLength": 1,
    "not": {"pattern": "^(?:[Tt][Ee][Xx][Tt]/|[^/]+/(?:[^;]+\\+)?[Jj][Ss][Oo][Nn](?:;|\\n?$))"},
}
_GAP = closed({"reason": NAME}, {"path": NAME})
_MEASURES = {"size": COUNT, "sha256": {"type": "string", "pattern": f"^[a-f0-9]{{64}}{END}"}}


def _part(kind: str, media_type: Schema, member: str, content: Schema) -> Schema:
    """A part whose content, if it has one here, is its ``member``.

    The content stands alone; a gap, and a view that holds nothing back but the content, may tell
    how large it is.
    """
    whole = {"required": [member], **without(*_MEASURES)}
    return {
        **closed(
            {
                "id": NAME,
                "kind": constant(kind),
                "mediaType": media_type,
                "selection": one_of("body", "metadata", "omit"),
            },
            {member: content, "gap": _GAP, "category": NAME, **SYNTHESIZED, **_MEASURES},
        ),
        **when(
            "selection",
            ["body"],
            present("gap", without(member), whole),
            without(member, "gap"),
        ),
    }


TEXT_PART = _part("text", _PLAIN, "text", TEXT)
_ATTACHMENT = _part("attachment", _BINARY, "body", closed({"ref": NAME}))
_KIND = one_of("text", "attachment")
PART: Schema = {
    "type": "object",
    "required": ["kind"],
    "properties": {"kind": _KIND},
    **when("kind", ["text"], TEXT_PART, _ATTACHMENT),
}
PARTS = array(PART)
TEXTS = array(TEXT_PART)
#: Texts that are all there in full, with nothing selected away and no gap (R-PAY-01).
INLINE_TEXTS = array(
    closed(
        {
            "id": NAME,
            "kind": constant("text"),
            "mediaType": _PLAIN,
            "selection": constant("body"),
            "text": TEXT,
        },
        {"category": NAME, **SYNTHESIZED},
    )
)


def messages_of(*roles: str) -> Schema:
    """A list of messages of these roles."""
    return array(closed({"id": NAME, "role": one_of(*roles), "parts": PARTS}, SYNTHESIZED))


MESSAGES = messages_of("system", "developer", "user", "assistant", "tool")
MESSAGE: Schema = MESSAGES["items"]
