"""What a backend knows when it answers, and the effects that it may answer with."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Callable, Optional

from hypothesis import strategies as st

from oracle.cases import GRANTS
from oracle.content import (
    EXTENSIONS,
    JSON,
    OBJECTS,
    ROLES,
    TEXT,
    WORDS,
    Payload,
    members,
    messages,
    part,
    text_part_forms,
    text_parts,
)
from oracle.elicitations import answers as fitting_answers
from oracle.elicitations import requests, results

__all__ = [
    "CONTINUE",
    "DENY",
    "MESSAGE",
    "STOP",
    "Seen",
    "edit_value",
    "granted_effects",
    "injections",
    "modifications",
    "result_value",
]

_ROLES = {"user.message.inbound": ("user",), "user.message.outbound": ("assistant",)}


class Seen:
    """What a backend can know when it answers: the event, what it is granted, and its own view.

    ``asked`` are the parameters of the elicitation, where the event belongs to one. ``wanted`` is a
    type of effect that the answers are to have, if they can.
    """

    def __init__(
        self,
        event: str,
        payload: Payload,
        capabilities: Payload,
        content: Payload,
        asked: Optional[Payload],
        wanted: str = "",
    ) -> None:
        self.wanted = wanted
        self.event = event
        self.payload = payload
        self.capabilities = capabilities
        self.content = content
        self.granted = GRANTS[event]
        self.asked = asked
        self.roles: tuple[str, ...] = _ROLES.get(event, ROLES)

    @property
    def effects(self) -> list[str]:
        """The effects that it may answer with, and can."""
        usable = list(self.capabilities["effects"])
        if not self._continues and self.capabilities.get("flow", {}).get("operations") == [
            "continue"
        ]:
            usable.remove("flow")
        return usable

    @property
    def _continues(self) -> bool:
        return bool(self.capabilities.get("flow", {}).get("remainingContinuations", 0) > 0)

    @property
    def flows(self) -> list[str]:
        """The flow operations that are left to it."""
        operations: list[str] = self.capabilities["flow"]["operations"]
        return [name for name in operations if name == "stop" or self._continues]

    @property
    def operations(self) -> list[str]:
        """How it may change the target."""
        block = self.capabilities["modify"][self.granted.target]
        return [name for name in ("replace", "merge") if block[name]]

    @property
    def current(self) -> Any:
        """The value of the target, as the host has it."""
        places = {"input": ("tool", "input"), "workspace": ("workspace", "change")}
        path = places.get(str(self.granted.target), (str(self.granted.target),))
        if self.granted.shape == "messages":
            path = ("message", "messages") if "message" in self.payload else ("items",)
        value: Any = self.payload
        for name in path:
            value = value.get(name, []) if isinstance(value, dict) else value
        return value

    def shown(self, part: Payload) -> Payload:
        """Return a part as a backend of this selection sees it, more or less."""
        level = self.content.get(_category(part), self.content["default"])
        if level == "body" or part["selection"] == "omit":
            return part
        gone: tuple[str, ...] = _BODY if level == "metadata" else (*_BODY, "size", "sha256")
        return {**{name: part[name] for name in part if name not in gone}, "selection": level}


_BODY = ("text", "body", "gap")
_FAMILIES = {"image": "images", "audio": "audio", "video": "video"}


def _category(part: Payload) -> str:
    if "category" in part or part["kind"] == "text":
        return str(part.get("category", "text"))
    return _FAMILIES.get(part["mediaType"].partition("/")[0], "files")


# --- values of edits and results ------------------------------------------------------------------


@st.composite
def _edited_messages(draw: st.DrawFn, seen: Seen, *, whole: bool) -> list[Payload]:
    """Return a new list of messages: kept ones, changed ones, and new ones."""
    value: list[Payload] = []
    for each in seen.current if whole else ():
        how = draw(st.sampled_from(["keep", "keep", "change", "drop"]))
        if how == "keep":
            kept = each["parts"]
            if draw(st.sampled_from([True, True, True, False])):
                kept = [seen.shown(one) for one in kept]
            value.append({**each, "parts": kept})
        elif how == "change":
            value.append({**each, "parts": [draw(part(one["id"])) for one in each["parts"]]})
    if not value or draw(st.booleans()):
        value += draw(messages("n", seen.roles, max_size=2))
    if len(value) > 1 and draw(st.sampled_from([False, False, True])):
        value.reverse()
    return value


@st.composite
def _edited_text(draw: st.DrawFn, seen: Seen, *, whole: bool) -> list[Payload]:
    value = []
    for each in seen.current if whole else ():
        how = draw(st.sampled_from(["keep", "change", "drop"]))
        if how == "keep":
            value.append(each)
        elif how == "change":
            value.append(draw(text_part_forms(each["id"])[0]))
    return value + draw(text_parts("n", body=True))


def _edited_object(seen: Seen, *, whole: bool) -> st.SearchStrategy[Payload]:
    current = seen.current
    same = st.just(dict(current))
    if not whole:
        return OBJECTS | same
    changed = OBJECTS.map(lambda more: {**current, **more})
    return OBJECTS | same | changed


def _workspace(seen: Seen, *, whole: bool) -> st.SearchStrategy[Payload]:
    roots = st.lists(WORDS, max_size=2, unique=True)
    return (
        members({"cwd": WORDS})
        | members({"workspaceRoots": roots}, {"cwd": WORDS})
        | st.just(dict(seen.current))
    )


def edit_value(seen: Seen, operation: str) -> st.SearchStrategy[Any]:
    shape, whole = seen.granted.shape, operation == "replace"
    if shape == "messages":
        return _edited_messages(seen, whole=whole)
    if shape == "text":
        return _edited_text(seen, whole=whole)
    if shape == "answers":
        return _answer_object(seen)
    if shape == "workspace":
        return _workspace(seen, whole=whole)
    return _edited_object(seen, whole=whole)


def _answer_object(seen: Seen) -> st.SearchStrategy[Payload]:
    if seen.asked is None or "requestedSchema" not in seen.asked:
        return OBJECTS
    return fitting_answers(seen.asked["requestedSchema"])


def result_value(seen: Seen) -> st.SearchStrategy[Any]:
    shape = seen.granted.returns
    if shape == "messages":
        return messages("r", max_size=2)
    if shape == "text":
        return text_parts("r", body=True)
    if shape == "elicitation":
        asked = requests("form") if seen.asked is None else st.just(seen.asked)
        return asked.flatmap(results)
    return JSON


# --- effects that are granted ---------------------------------------------------------------------

_CODES = st.sampled_from(["com.example.no", "org.acme.x-1"])
DENY = members({"type": "deny", "reason": WORDS}, {"code": _CODES, "extensions": EXTENSIONS})
STOP = members({"type": "flow", "operation": "stop", "reason": WORDS})
CONTINUE = members({"type": "flow", "operation": "continue"}, {"instruction": WORDS})
MESSAGE = members({"type": "message", "text": TEXT})


@functools.cache
def injections(moments: tuple[str, ...]) -> st.SearchStrategy[Payload]:
    return members(
        {
            "type": "inject",
            "target": "context",
            "operation": "append",
            "deliverAt": st.sampled_from(moments),
            "value": messages("x", max_size=1),
        }
    )


def modifications(target: Any, operations: Sequence[str], value: Callable[[str], Any]) -> Any:
    return st.sampled_from(operations).flatmap(
        lambda operation: members(
            {"type": "modify", "target": target, "operation": operation, "value": value(operation)}
        )
    )


def granted_effect(kind: str, seen: Seen) -> st.SearchStrategy[Payload]:
    """Return effects of this kind that the backend may answer with."""
    if kind == "modify":
        return modifications(
            seen.granted.target, seen.operations, lambda one: edit_value(seen, one)
        )
    if kind == "return":
        return members({"type": "return", "value": result_value(seen)})
    if kind == "inject":
        return injections(tuple(seen.capabilities["inject"]["context"]["deliverAt"]))
    if kind == "flow":
        return st.sampled_from(seen.flows).flatmap(lambda one: STOP if one == "stop" else CONTINUE)
    return {"deny": DENY, "message": MESSAGE}.get(kind, st.just({"type": kind}))


def granted_effects(seen: Seen, sizes: Sequence[int] = (1, 0, 1, 2, 2, 3, 4)) -> Any:
    """Return lists of granted effects, of one of these sizes; first the one looked for, if any."""
    if not seen.effects:
        return st.just([])
    # ``deny`` and ``stop`` end a chain: drawn less often, so that something comes after them.
    weighted = [name for name in seen.effects for _ in range(2 if name in _ENDS else 3)]
    one = st.sampled_from(weighted).flatmap(lambda kind: granted_effect(kind, seen))
    some = st.sampled_from(sizes).flatmap(lambda size: st.tuples(*[one] * size).map(list))
    if seen.wanted not in seen.effects:
        return some
    looked_for = granted_effect(seen.wanted, seen)
    return st.builds(lambda first, rest: [first, *rest[:2]], looked_for, some)


_ENDS = ("deny", "flow", "message")
