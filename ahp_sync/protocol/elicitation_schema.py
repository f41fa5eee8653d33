"""What MCP says of an elicitation: the params of a request, and the answer (R-ELI-02, R-ELI-03).

Both stand as serialised text inside an event, with whatever else they hold kept (R-ELI-01). A form
asks for primitives and choices only; ``default`` and ``title`` decide nothing.
"""

from __future__ import annotations

from ahp_sync.protocol.schema_forms import (
    BOOLEAN,
    END,
    OBJECT,
    TEXT,
    Schema,
    array,
    closed,
    constant,
    one_of,
    opened,
    present,
    when,
)
from ahp_sync.protocol.uri import URI

__all__ = ["ANSWERS", "REQUEST", "RESULT"]

_NUMBER: Schema = {"type": "number"}
_WORDS = array(TEXT)


def _field(default: Schema, required: dict[str, Schema], **optional: Schema) -> Schema:
    """The schema of one field of a form."""
    return closed(
        {"type": TEXT, **required},
        {"title": TEXT, "description": TEXT, "default": default, **optional},
    )


_TITLED = array(closed({"const": TEXT, "title": TEXT}))
_STRING = _field(
    TEXT,
    {},
    minLength=_NUMBER,
    maxLength=_NUMBER,
    format=one_of("email", "uri", "date", "date-time"),
)
_ONE_OF_MANY = present(
    "enum",
    _field(TEXT, {"enum": _WORDS}, enumNames=_WORDS),
    present("oneOf", _field(TEXT, {"oneOf": _TITLED}), _STRING),
)
_SOME_OF_MANY = _field(
    _WORDS,
    {
        "items": {
            "type": "object",
            **present(
                "anyOf",
                closed({"anyOf": _TITLED}),
                closed({"type": constant("string"), "enum": _WORDS}),
            ),
        }
    },
    minItems=_NUMBER,
    maxItems=_NUMBER,
)
_AMOUNT = _field(_NUMBER, {}, minimum=_NUMBER, maximum=_NUMBER)
_FIELD: Schema = {
    **opened({"type": one_of("string", "number", "integer", "boolean", "array")}),
    **when(
        "type",
        ["string"],
        _ONE_OF_MANY,
        when(
            "type",
            ["array"],
            _SOME_OF_MANY,
            when("type", ["boolean"], _field(BOOLEAN, {}), _AMOUNT),
        ),
    ),
}

_PARAMS = {
    "_meta": opened({}, {"progressToken": {"type": ["string", "number"]}}),
    "task": opened({}, {"ttl": _NUMBER}),
}
_FORM = opened(
    {
        "message": TEXT,
        "requestedSchema": closed(
            {
                "type": constant("object"),
                "properties": {"type": "object", "additionalProperties": _FIELD},
            },
            {"required": _WORDS, "$schema": TEXT},
        ),
    },
    {"mode": constant("form"), **_PARAMS},
)
_URL = opened(
    {
        "mode": TEXT,
        "message": TEXT,
        "url": {"type": "string", "pattern": f"^{URI}{END}"},
        "elicitationId": TEXT,
    },
    _PARAMS,
)
#: The params of a request; without a ``mode`` they are a form's.
REQUEST: Schema = {"type": "object", **when("mode", ["url"], _URL, _FORM)}

#: The answers of a form, by field.
ANSWERS: Schema = {
    "type": "object",
    "additionalProperties": {"type": ["string", "number", "boolean", "array"], "items": TEXT},
}
RESULT = opened(
    {"action": one_of("accept", "decline", "cancel")}, {"content": ANSWERS, "_meta": OBJECT}
)
