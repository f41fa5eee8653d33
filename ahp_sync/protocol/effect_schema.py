"""The effects of an answer, and the chain's state that goes with a question (sections 6 and 7).

The value of ``modify`` and ``return`` has the form that the event's target, or its result, has; so
has a candidate in the state. There is a document for each form.
"""

from __future__ import annotations

from ahp_sync.protocol.content_schema import INLINE_TEXTS, MESSAGES, TEXTS
from ahp_sync.protocol.elicitation_schema import ANSWERS, RESULT
from ahp_sync.protocol.event_schema import EXTENSIONS
from ahp_sync.protocol.event_schema_work import WORKSPACE
from ahp_sync.protocol.events import EVENTS, Shape
from ahp_sync.protocol.schema_forms import (
    ANYTHING,
    NAME,
    OBJECT,
    REVERSE_DNS,
    TEXT,
    Schema,
    array,
    closed,
    constant,
    one_of,
    opened,
    when,
)

__all__ = ["EFFECT_SCHEMAS", "STATE_SCHEMAS"]

_VALUES: dict[Shape, Schema] = {
    Shape.JSON: ANYTHING,
    Shape.OBJECT: OBJECT,
    Shape.WORKSPACE: WORKSPACE,
    Shape.MESSAGES: MESSAGES,
    Shape.TEXT: TEXTS,
    Shape.ANSWERS: ANSWERS,
    Shape.ELICITATION: RESULT,
}


def _modify(shape: Shape) -> Schema:
    targets = dict.fromkeys(
        event.target.name
        for event in EVENTS.values()
        if event.target is not None and event.target.shape is shape
    )
    return closed(
        {
            "type": constant("modify"),
            "target": one_of(*targets),
            "operation": one_of("replace", "merge"),
            "value": _VALUES[shape],
        }
    )


def _return(shape: Shape) -> Schema:
    value = INLINE_TEXTS if shape is Shape.TEXT else _VALUES[shape]
    return closed({"type": constant("return"), "value": value})


_STOP = closed({"type": TEXT, "operation": TEXT, "reason": NAME})
_CONTINUE = closed({"type": TEXT, "operation": TEXT}, {"instruction": NAME})
_INJECT = closed(
    {
        "type": constant("inject"),
        "target": constant("context"),
        "operation": constant("append"),
        "deliverAt": one_of("now", "next_turn"),
        "value": MESSAGES,
    }
)
_TARGETS = [event.target.shape for event in EVENTS.values() if event.target is not None]
_RESULTS = [event.returns for event in EVENTS.values() if event.returns is not None]

#: By the effect's type and, for ``modify`` and ``return``, the form of the value.
EFFECT_SCHEMAS: dict[str, Schema] = {
    "deny": closed(
        {"type": constant("deny"), "reason": NAME},
        {"code": {"type": "string", "pattern": REVERSE_DNS}, "extensions": EXTENSIONS},
    ),
    "allow": closed({"type": constant("allow")}),
    "ask": closed({"type": constant("ask")}),
    "message": closed({"type": constant("message"), "text": TEXT}),
    "inject": _INJECT,
    "flow": {
        **opened({"type": constant("flow"), "operation": one_of("stop", "continue")}),
        **when("operation", ["stop"], _STOP, _CONTINUE),
    },
    **{f"modify.{shape}": _modify(shape) for shape in dict.fromkeys(_TARGETS)},
    **{f"return.{shape}": _return(shape) for shape in dict.fromkeys(_RESULTS)},
}


def _state(shape: Shape) -> Schema:
    candidate = opened({"value": _VALUES[shape]}, {"provenance": OBJECT})
    return opened(
        {
            "permission": one_of("none", "allow", "ask", "deny"),
            "candidate": {**candidate, "type": ["object", "null"]},
        },
        {
            "flow": one_of("none", "stop", "continue"),
            "instructions": array(NAME),
            "injections": array(_INJECT),
        },
    )


#: ``params.state``, by the form of the event's result; any value where it has none.
STATE_SCHEMAS: dict[Shape, Schema] = {
    shape: _state(shape) for shape in dict.fromkeys((Shape.JSON, *_RESULTS))
}
