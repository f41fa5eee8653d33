"""The payload types say what the schemas say, and what the event table says."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, Union

import pytest

from ahp_sync import payloads
from ahp_sync.protocol import payloads as protocol_payloads
from ahp_sync.protocol.events import EVENTS
from ahp_sync.protocol.payloads import content, model, objects, session, tool, turn, user, work
from ahp_sync.protocol.schemas import EVENT_SCHEMAS

EVERY = pytest.mark.parametrize("event_type", EVENTS)

#: What any event may have; a payload type names it only where its event needs it.
ENVELOPE = {"id", "session", "turn", "parentEventId", "items", "gaps", "extensions", "synthesized"}


def is_typed_dict(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, dict) and hasattr(hint, "__total__")


def differences(hint: Any, schema: Mapping[str, Any], path: str) -> Iterator[str]:
    """Yield where a type and a schema document disagree, as far as types can say it."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if is_typed_dict(hint):
        yield from members(hint, schema, path)
    elif origin is Union and "then" in schema:
        kinds = dict(zip(("then", "else"), arguments))
        for branch, kind in kinds.items():
            yield from differences(kind, schema[branch], f"{path}<{kind.__name__}>")
    elif origin is Union:
        if sorted(NAMES[one] for one in arguments) != sorted(schema["type"]):
            yield f"{path}: {hint} for {schema['type']}"
    elif origin is Literal:
        words = [schema["const"]] if "const" in schema else schema["enum"]
        if sorted(arguments) != sorted(words):
            yield f"{path}: {arguments} for {words}"
    elif origin is Sequence:
        if schema.get("type") != "array":
            yield f"{path}: a list for {schema}"
        else:
            yield from differences(arguments[0], schema["items"], f"{path}[]")
    elif origin is Mapping:
        if schema.get("type") != "object" or ("properties" in schema and path not in ANY_OBJECT):
            yield f"{path}: any object for {schema}"
    elif hint is not Any and NAMES[hint] != schema.get("type", "string"):
        yield f"{path}: {hint} for {schema}"


NAMES = {str: "string", bool: "boolean", int: "integer", float: "number"}


def members(hint: Any, schema: Mapping[str, Any], path: str) -> Iterator[str]:
    hints = typing.get_type_hints(hint)
    allowed = {name: one for name, one in schema["properties"].items() if one != {"not": {}}}
    closed = schema.get("additionalProperties") is False
    left_out = set(allowed) - set(hints) - (set() if closed else ENVELOPE)
    if left_out:
        yield f"{path}: without {sorted(left_out)}"
    if set(hints) - set(allowed):
        yield f"{path}: invents {sorted(set(hints) - set(allowed))}"
    required = set(schema.get("required", ())) - FILLED_IN.get(path, set())
    if set(hint.__required_keys__) != required:
        yield f"{path}: needs {sorted(hint.__required_keys__)} for {sorted(required)}"
    for name in set(hints) & set(allowed):
        place = f"{path}.{name}"
        if not place.endswith(WIDER):
            yield from differences(hints[name], allowed[name], place)


#: Objects without a type of their own; ``Capabilities.manifest`` makes the one for the host.
ANY_OBJECT = {"session.start.manifest"}
#: One type for all transports, where the schema has a form for each; and one for all messages.
WIDER = (".mcp.connection", ".message.messages")
#: What the protocol needs and the client fills in.
FILLED_IN = {"session.start": {"manifest"}}


@EVERY
def test_a_type_is_what_the_schema_is(event_type: str) -> None:
    """Member by member: which are there, which are needed, their types and words."""
    found = differences(payloads.PAYLOADS[event_type], EVENT_SCHEMAS[event_type], event_type)
    assert list(found) == []


def test_every_event_has_a_type_named_after_it() -> None:
    """``tool.before`` is ``ToolBefore``."""
    names = {name: "".join(label.capitalize() for label in name.split(".")) for name in EVENTS}
    assert {name: one.__name__ for name, one in payloads.PAYLOADS.items()} == names
    assert all(getattr(payloads, name) is payloads.PAYLOADS[one] for one, name in names.items())


@EVERY
def test_a_type_tells_what_may_come_back(event_type: str) -> None:
    """Its docstring has the effects of the event table, with targets and operations."""
    event = EVENTS[event_type]
    details = {
        "modify": f"modify({event.target.name})" if event.target else "modify",
        "flow": f"flow({', '.join(event.flow)})",
    }
    text = inspect.getdoc(payloads.PAYLOADS[event_type])
    assert text is not None
    assert text.startswith(f"``{event_type}``: ")
    last = text.splitlines()[-1]
    if not event.interceptable:
        assert last == "Only observed."
        return
    matched = re.fullmatch(r"Interceptable: (.*)\.", last)
    assert matched is not None
    told = re.findall(r"[a-z]+(?:\([^)]*\))?", matched[1])
    assert sorted(told) == sorted(details.get(name, name) for name in event.effects)


def test_the_public_module_has_the_same_names() -> None:
    """And every one of the modules behind it is whole in there."""
    assert payloads.__all__ == protocol_payloads.__all__
    behind = [content, model, objects, session, tool, turn, user, work]
    names = [name for module in behind for name in module.__all__]
    assert sorted([*names, "PAYLOADS"]) == sorted(payloads.__all__)
    assert all(getattr(payloads, name) is not None for name in payloads.__all__)


def test_every_type_says_what_it_is() -> None:
    """What a docstring can hang on has one of its own."""
    types = [getattr(payloads, name) for name in payloads.__all__]
    silent = [one for one in types if is_typed_dict(one) and not one.__doc__]
    assert silent == []
