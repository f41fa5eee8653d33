"""What the events of several families have in common (sections 3 and 5 of the wire reference)."""

from __future__ import annotations

from collections.abc import Iterable

from ahp_sync.protocol.content_schema import PARTS, SYNTHESIZED
from ahp_sync.protocol.schema_forms import (
    ANYTHING,
    COUNT,
    END,
    NAME,
    QUANTITY,
    REVERSE_DNS,
    TEXT,
    Schema,
    array,
    closed,
    constant,
    forbidden,
    one_of,
    opened,
    when,
    without,
)

__all__ = [
    "COUNTERS",
    "ERROR",
    "EXECUTION",
    "EXTENSIONS",
    "GAPS",
    "IDENTITY",
    "MODEL",
    "SESSION",
    "SUPPLIED_OR_RUN",
    "event",
    "price",
    "usage",
]

#: R-EXT-01.
EXTENSIONS: Schema = {"type": "object", "propertyNames": {"pattern": REVERSE_DNS}}
COUNTERS: Schema = {"type": "object", "additionalProperties": COUNT}
GAPS = array(opened({"path": NAME, "reason": NAME}))
IDENTITY = closed({"id": NAME}, SYNTHESIZED)
SESSION = opened(
    {"id": NAME},
    {
        "cwd": TEXT,
        "workspaceRoots": array(TEXT),
        "model": TEXT,
        "agent": opened({"id": NAME}, {"type": TEXT}),
        "counters": COUNTERS,
        **SYNTHESIZED,
    },
)
_ENVELOPE: dict[str, Schema] = {
    "id": NAME,
    "session": SESSION,
    "turn": opened({"id": NAME}, SYNTHESIZED),
    "parentEventId": NAME,
    "items": PARTS,
    "gaps": GAPS,
    "extensions": EXTENSIONS,
    **SYNTHESIZED,
}


def event(
    required: dict[str, Schema],
    optional: dict[str, Schema] | None = None,
    *,
    absent: Iterable[str] = (),
    rules: Iterable[Schema] = (),
) -> Schema:
    """What a call gives to an event: these members, those of every event, and whatever else.

    ``absent`` must not be there. ``items`` are parts unless they are said to be messages.
    """
    members = {**_ENVELOPE, **(optional or {}), **forbidden(*absent)}
    schema = opened(required, members)
    return {**schema, "allOf": list(rules)} if rules else schema


MODEL = closed({"id": NAME, "provider": NAME})
ERROR = closed(
    {"message": NAME, "class": NAME},
    {
        "code": NAME,
        # Some versions of jsonschema-rs don't take 1e300 for an integer in a list of types.
        "status": {"if": TEXT, "then": NAME, "else": {"type": "integer"}},
        "native": ANYTHING,
    },
)
_REASONS = ("supplied_result", "policy", "cancelled", "timeout", "other")
_SKIPPED: Schema = {
    "required": ["reason"],
    **when("reason", ["supplied_result"], without("detail")),
}
EXECUTION: Schema = {
    **closed(
        {"status": one_of("executed", "skipped")}, {"reason": one_of(*_REASONS), "detail": NAME}
    ),
    **when("status", ["executed"], without("reason", "detail"), _SKIPPED),
}
#: Of an event whose operation ran, or was skipped for a result that a backend supplied (R-PAY-04).
SUPPLIED_OR_RUN: Schema = {
    **closed({"status": one_of("executed", "skipped")}, {"reason": constant("supplied_result")}),
    **when("status", ["executed"], without("reason"), {"required": ["reason"]}),
}

_CURRENCY: Schema = {"type": "string", "pattern": f"^[A-Z]{{3}}{END}"}
_COST = closed(
    {
        "amount": QUANTITY,
        "currency": _CURRENCY,
        "basis": one_of("billed", "reported", "estimated"),
    }
)
_TOKENS = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens")


def usage(kind: str, scope: str, *provenance: str) -> Schema:
    """How much one attempt, or one turn as a whole, has used."""
    return closed(
        {
            "kind": constant(kind),
            "scope": constant(scope),
            "completeness": one_of("complete", "partial", "unknown"),
            "provenance": one_of(*provenance),
        },
        {**dict.fromkeys(_TOKENS, COUNT), "cost": _COST},
    )


def price(*rates: str) -> Schema:
    """Rates in one currency."""
    return closed({"currency": _CURRENCY}, dict.fromkeys(rates, QUANTITY))
