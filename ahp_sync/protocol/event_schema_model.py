"""Schemas of ``turn.*``, ``model.*`` and ``context.*`` events: what goes to a model and back."""

from __future__ import annotations

from ahp_sync.protocol.content_schema import MESSAGE, MESSAGES, SYNTHESIZED, TEXTS
from ahp_sync.protocol.event_schema import (
    ERROR,
    IDENTITY,
    MODEL,
    SUPPLIED_OR_RUN,
    event,
    price,
    usage,
)
from ahp_sync.protocol.schema_forms import (
    BOOLEAN,
    COUNT,
    NAME,
    OBJECT,
    QUANTITY,
    Schema,
    array,
    closed,
    constant,
    one_of,
    when,
    without,
)

__all__ = ["MODEL_EVENTS"]

_TURN = {"turn": IDENTITY}
_ENDED = {
    **_TURN,
    "outcome": one_of("completed", "failed", "cancelled", "max_iterations"),
    "continuationCount": COUNT,
    "items": MESSAGES,
}
_SUMMED = {
    "lastAssistantItem": IDENTITY,
    "usage": usage("total", "turn", "provider", "estimate", "mixed"),
}
_ATTEMPT: dict[str, Schema] = {
    "model": MODEL,
    "attempt": closed({"id": NAME, "number": {"type": "integer", "minimum": 1}}, SYNTHESIZED),
}
_USED = {"usage": usage("amount", "attempt", "provider", "estimate"), "latencyMs": QUANTITY}
_SKIPPED = {"properties": {"execution": {"properties": {"status": constant("skipped")}}}}
_SWITCH = {"current": MODEL, "reason": NAME}

MODEL_EVENTS: dict[str, Schema] = {
    "turn.start": event(
        {
            **_TURN,
            "trigger": one_of("user", "continuation", "hook", "external"),
            "items": MESSAGES,
        },
        {"expandedFrom": NAME},
    ),
    "turn.finish.before": event(_ENDED, _SUMMED),
    "turn.end": event(
        _ENDED,
        {**_SUMMED, "error": ERROR},
        rules=[when("outcome", ["completed"], without("error"))],
    ),
    "turn.progress": event({**_TURN, "item": IDENTITY, "delta": MESSAGE, "final": BOOLEAN}),
    "model.request.before": event(
        {**_ATTEMPT, "params": OBJECT, "items": MESSAGES},
        _TURN,
        absent=["usage", "execution", "finishReason", "latencyMs", "error"],
    ),
    "model.response.after": event(
        {
            **_ATTEMPT,
            "execution": SUPPLIED_OR_RUN,
            "items": MESSAGES,
            "finishReason": NAME,
        },
        {**_TURN, **_USED},
        absent=["error"],
        rules=[{"if": _SKIPPED, "then": without(*_USED)}],
    ),
    "model.error": event(
        {**_ATTEMPT, "execution": closed({"status": constant("executed")}), "error": ERROR},
        {**_TURN, **_USED, "recovery": NAME},
        absent=["finishReason"],
    ),
    "model.switch.before": event(
        {**_SWITCH, "proposed": MODEL},
        {**_TURN, "pricing": price("inputPerMillionTokens", "outputPerMillionTokens")},
        absent=["previous"],
    ),
    "model.switch.after": event({**_SWITCH, "previous": MODEL}, _TURN, absent=["proposed"]),
    "context.compact.before": event(
        {"trigger": one_of("auto", "manual", "hook"), "items": MESSAGES},
        {**_TURN, "instructions": TEXTS, "tokenCounts": closed({}, {"before": COUNT})},
        absent=["summary", "removed", "execution"],
    ),
    "context.compact.after": event(
        {
            "summary": TEXTS,
            "removed": array(closed({"id": NAME})),
            "execution": SUPPLIED_OR_RUN,
        },
        {
            **_TURN,
            "items": MESSAGES,
            "tokenCounts": closed({}, {"before": COUNT, "after": COUNT}),
        },
    ),
}
