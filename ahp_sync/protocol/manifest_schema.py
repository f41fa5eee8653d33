"""What a harness may say it can do: per request (``capabilities``), and as a manifest (R-CAP-06).

Both follow the event table: what an event can't have can't be granted there.
"""

from __future__ import annotations

from collections.abc import Sequence

from ahp_sync.protocol.event_schema import GAPS
from ahp_sync.protocol.events import EVENTS, EventType
from ahp_sync.protocol.schema_forms import (
    BOOLEAN,
    COUNT,
    NAME,
    OBJECT,
    Schema,
    array,
    forbidden,
    one_of,
    opened,
    when,
    without,
)

__all__ = ["CAPABILITIES", "MANIFEST"]

_MODIFY: Schema = {
    **opened({"replace": BOOLEAN, "merge": BOOLEAN}),
    "if": {"properties": {"replace": {"const": False}}},
    "then": {"properties": {"merge": {"const": True}}},
}
_INJECT = opened(
    {
        "context": opened(
            {
                "append": {"const": True},
                "deliverAt": array(one_of("now", "next_turn"), minItems=1, uniqueItems=True),
            }
        )
    }
)
_ELICITATION = opened({}, {"form": OBJECT, "url": OBJECT})


def _flow(operations: tuple[str, ...]) -> Schema:
    names = array(one_of(*operations), minItems=1, uniqueItems=True)
    counters = ("remainingContinuations", "continuationCount")
    return {
        **opened({"operations": names}, dict.fromkeys((*counters, "maxContinuations"), COUNT)),
        "if": {"properties": {"operations": {"contains": {"const": "continue"}}}},
        "then": {"required": list(counters)},
    }


def _capabilities(event: EventType) -> Schema:
    blocks: dict[str, Schema] = {}
    if event.target is not None:
        target = {"properties": {event.target.name: _MODIFY}, "additionalProperties": False}
        blocks["modify"] = {"type": "object", "minProperties": 1, **target}
    if event.flow:
        blocks["flow"] = _flow(event.flow)
    if "inject" in event.effects:
        blocks["inject"] = _INJECT
    absent = [name for name in ("modify", "flow", "inject") if name not in blocks]
    names = array(one_of(*event.effects, "message"), uniqueItems=True)
    schema = opened(
        {"effects": names}, {**blocks, **forbidden(*absent), "elicitation": _ELICITATION}
    )
    return {**schema, "allOf": [_coupled(name) for name in blocks]} if blocks else schema


def _coupled(name: str) -> Schema:
    """A block of details belongs to an effect: neither is there without the other."""
    granted = {"properties": {"effects": {"contains": {"const": name}}}}
    return {"if": granted, "then": {"required": [name]}, "else": without(name)}


#: ``params.capabilities`` of each event that can be intercepted.
CAPABILITIES: dict[str, Schema] = {
    event.name: _capabilities(event) for event in EVENTS.values() if event.interceptable
}

_NOTHING = opened(
    {"effects": array({}, maxItems=0)},
    {**forbidden("modify", "flow", "inject"), "elicitation": _ELICITATION},
)
_OBSERVED: Schema = {
    "properties": {"modes": array(one_of("observe")), "capabilities": _NOTHING},
}


def _intercepted(names: Sequence[str]) -> Schema:
    """The capabilities of an entry, chosen from those of ``names`` in a few steps."""
    if len(names) == 1:
        return {
            "if": {"properties": {"modes": {"contains": {"const": "intercept"}}}},
            "then": {
                "required": ["capabilities"],
                "properties": {"capabilities": CAPABILITIES[names[0]]},
            },
            "else": {"properties": {"capabilities": _NOTHING}},
        }
    half = len(names) // 2
    return when("event", list(names[:half]), _intercepted(names[:half]), _intercepted(names[half:]))


_ENTRY: Schema = {
    **opened(
        {
            "event": one_of(*EVENTS),
            "modes": array(one_of("observe", "intercept"), minItems=1, uniqueItems=True),
        },
        {"capabilities": OBJECT},
    ),
    **when("event", list(CAPABILITIES), _intercepted(list(CAPABILITIES)), _OBSERVED),
}
_NAMES = array(NAME, uniqueItems=True)
_LIMITS = ("maxUploadBytes", "maxContinuations", "minTimeoutMs", "maxTimeoutMs")
MANIFEST = opened(
    {
        "events": array(_ENTRY),
        "gaps": GAPS,
        "transports": array(one_of("http", "stdio", "in_process"), uniqueItems=True),
        "authentication": array(one_of("bearer", "oauth"), uniqueItems=True),
        "toolPaths": _NAMES,
        "contentCategories": _NAMES,
        "limits": opened({}, dict.fromkeys(_LIMITS, COUNT)),
        "managedPolicy": {
            **opened(
                {
                    "scopes": array(one_of("user", "project", "managed"), uniqueItems=True),
                    "disableable": BOOLEAN,
                }
            ),
            "if": {"properties": {"scopes": {"contains": {"const": "managed"}}}},
            "then": {"properties": {"disableable": {"const": False}}},
        },
        "correlationIdentityFields": _NAMES,
    },
    forbidden("identity"),
)
