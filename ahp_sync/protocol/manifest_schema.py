"""What a harness may say it can do: the manifest on ``session.start`` (R-CAP-06).

The table is that of the protocol, not of what this version serves, since the manifest is the
host's own word about all of its hooks (R-CAP-02).
"""

from __future__ import annotations

from typing import NamedTuple

from ahp_sync.protocol.events import EVENTS
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
    without,
)

__all__ = ["MANIFEST"]


class _Grants(NamedTuple):
    """What one event can grant: effects, the target of ``modify``, the operations of ``flow``."""

    effects: tuple[str, ...]
    target: str = ""
    flow: tuple[str, ...] = ()


_STOP = ("stop",)
_BOTH = ("stop", "continue")
_GRANTS: dict[str, _Grants] = {
    "session.start": _Grants(("inject",)),
    "config.change.before": _Grants(("deny",)),
    "turn.start": _Grants(("deny", "modify", "inject", "flow"), "prompt", _STOP),
    "turn.finish.before": _Grants(("modify", "flow"), "response", _BOTH),
    "model.request.before": _Grants(
        ("deny", "modify", "inject", "return", "flow"), "request", _STOP
    ),
    "model.response.after": _Grants(("modify", "flow"), "response", _STOP),
    "model.switch.before": _Grants(("deny", "flow"), "", _STOP),
    "tool.before": _Grants(
        ("deny", "allow", "ask", "modify", "inject", "flow", "return"), "input", _STOP
    ),
    "tool.after": _Grants(("modify", "inject", "flow"), "output", _BOTH),
    "tool.permission.request": _Grants(("allow", "deny", "modify", "flow"), "input", _STOP),
    "tool.batch.after": _Grants(("flow", "inject"), "", _STOP),
    "context.compact.before": _Grants(("deny", "modify", "return", "inject"), "instructions"),
    "context.compact.after": _Grants(("inject", "modify"), "summary"),
    "task.change.before": _Grants(("deny",)),
    "user.elicitation.request": _Grants(("deny", "return")),
    "user.elicitation.result": _Grants(("modify",), "content"),
    "user.message.inbound": _Grants(("deny", "modify"), "prompt"),
    "user.message.outbound": _Grants(("deny", "modify"), "content"),
    "workspace.change.before": _Grants(("deny", "modify"), "workspace"),
}

_MODIFY: Schema = {
    **opened({"replace": BOOLEAN, "merge": BOOLEAN}),
    "anyOf": [{"properties": {name: {"const": True}}} for name in ("replace", "merge")],
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


def _flow(operations: tuple[str, ...]) -> Schema:
    names = array(one_of(*operations), minItems=1, uniqueItems=True)
    counters = ("remainingContinuations", "continuationCount")
    return {
        **opened({"operations": names}, dict.fromkeys((*counters, "maxContinuations"), COUNT)),
        "if": {"properties": {"operations": {"contains": {"const": "continue"}}}},
        "then": {"required": list(counters)},
    }


def _capabilities(grants: _Grants) -> Schema:
    blocks: dict[str, Schema] = {}
    if grants.target:
        target = {
            "properties": {grants.target: _MODIFY},
            "additionalProperties": False,
            "minProperties": 1,
        }
        blocks["modify"] = {"type": "object", **target}
    if grants.flow:
        blocks["flow"] = _flow(grants.flow)
    if "inject" in grants.effects:
        blocks["inject"] = _INJECT
    absent = [name for name in ("modify", "flow", "inject") if name not in blocks]
    return {
        **opened(
            {"effects": array(one_of(*grants.effects, "message"), uniqueItems=True)},
            {**blocks, **forbidden(*absent), "elicitation": _ELICITATION},
        ),
        "allOf": [{}, *(_coupled(name) for name in blocks)],
    }


_ELICITATION = opened({}, {"form": OBJECT, "url": OBJECT})


def _coupled(name: str) -> Schema:
    """A block of details belongs to an effect: neither is there without the other."""
    granted = {"properties": {"effects": {"contains": {"const": name}}}}
    return {"if": granted, "then": {"required": [name]}, "else": without(name)}


_NOTHING = opened(
    {"effects": array({}, maxItems=0)},
    {**forbidden("modify", "flow", "inject"), "elicitation": _ELICITATION},
)


def _entry(name: str) -> Schema:
    grants = _GRANTS.get(name)
    modes = ("observe",) if grants is None else ("observe", "intercept")
    schema = opened(
        {
            "event": {"const": name},
            "modes": array(one_of(*modes), minItems=1, uniqueItems=True),
        },
        {"capabilities": _NOTHING if grants is None else _capabilities(grants)},
    )
    if grants is not None:
        schema["if"] = {"properties": {"modes": {"contains": {"const": "intercept"}}}}
        schema["then"] = {"required": ["capabilities"]}
        schema["else"] = {"properties": {"capabilities": _NOTHING}}
    return schema


_NAMES = array(NAME, uniqueItems=True)
MANIFEST = opened(
    {
        "events": array({"anyOf": [_entry(name) for name in EVENTS]}),
        "gaps": array(opened({"path": NAME, "reason": NAME})),
        "transports": array(one_of("http", "stdio", "in_process"), uniqueItems=True),
        "authentication": array(one_of("bearer", "oauth"), uniqueItems=True),
        "toolPaths": _NAMES,
        "contentCategories": _NAMES,
        "limits": opened(
            {},
            dict.fromkeys(
                ("maxUploadBytes", "maxContinuations", "minTimeoutMs", "maxTimeoutMs"), COUNT
            ),
        ),
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
