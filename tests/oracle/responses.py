"""What backends answer, at random: granted, refused for every reason that there is, and hostile."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Callable, Optional

from hypothesis import strategies as st
from strategies import near

from oracle.cases import EVENT_ID, GRANTS, SPOILT, Answer, answered
from oracle.content import (
    EXTENSIONS,
    JSON,
    OBJECTS,
    ROLES,
    TEXT,
    WORDS,
    Payload,
    members,
    message,
    messages,
    part,
    text_part_forms,
    text_parts,
)
from oracle.elicitations import answers as fitting_answers
from oracle.elicitations import near_answers, requests, results

__all__ = ["REFUSABLE", "Seen", "answers"]

#: What is wanted where each answer is to have something wrong with it.
REFUSABLE = "refusable"
_TARGETS = tuple({granted.target for granted in GRANTS.values() if granted.target})
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
        category = part.get("category", "text" if part["kind"] == "text" else "files")
        level = self.content.get(category, self.content["default"])
        if level == "body" or part["selection"] == "omit":
            return part
        hidden = {name: part[name] for name in part if name not in ("text", "body", "gap")}
        return {**hidden, "selection": level}


# --- values of edits and results ------------------------------------------------------------------


@st.composite
def _edited_messages(draw: st.DrawFn, seen: Seen, *, whole: bool) -> list[Payload]:
    """Return a new list of messages: kept ones, changed ones, and new ones."""
    value: list[Payload] = []
    for each in seen.current if whole else ():
        how = draw(st.sampled_from(["keep", "keep", "change", "drop"]))
        if how == "keep":
            kept = each["parts"]
            if draw(st.booleans()):
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


def _edit(seen: Seen, operation: str) -> st.SearchStrategy[Any]:
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


def _result(seen: Seen) -> st.SearchStrategy[Any]:
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
_DENY = members({"type": "deny", "reason": WORDS}, {"code": _CODES, "extensions": EXTENSIONS})
_STOP = members({"type": "flow", "operation": "stop", "reason": WORDS})
_CONTINUE = members({"type": "flow", "operation": "continue"}, {"instruction": WORDS})
_MESSAGE = members({"type": "message", "text": TEXT})


@functools.cache
def _inject(moments: tuple[str, ...]) -> st.SearchStrategy[Payload]:
    return members(
        {
            "type": "inject",
            "target": "context",
            "operation": "append",
            "deliverAt": st.sampled_from(moments),
            "value": messages("x", max_size=1),
        }
    )


def _modify(target: Any, operations: Sequence[str], value: Callable[[str], Any]) -> Any:
    return st.sampled_from(operations).flatmap(
        lambda operation: members(
            {"type": "modify", "target": target, "operation": operation, "value": value(operation)}
        )
    )


def granted_effect(kind: str, seen: Seen) -> st.SearchStrategy[Payload]:
    """Return effects of this kind that the backend may answer with."""
    if kind == "modify":
        return _modify(seen.granted.target, seen.operations, lambda one: _edit(seen, one))
    if kind == "return":
        return members({"type": "return", "value": _result(seen)})
    if kind == "inject":
        return _inject(tuple(seen.capabilities["inject"]["context"]["deliverAt"]))
    if kind == "flow":
        return st.sampled_from(seen.flows).flatmap(
            lambda one: _STOP if one == "stop" else _CONTINUE
        )
    return {"deny": _DENY, "message": _MESSAGE}.get(kind, st.just({"type": kind}))


def _granted_effects(seen: Seen, sizes: Sequence[int] = (1, 0, 1, 2, 2, 3, 4)) -> Any:
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


def _good(seen: Seen) -> st.SearchStrategy[Answer]:
    extra = members({}, {"extensions": EXTENSIONS, "x-unknown": JSON})
    return st.builds(
        lambda effects, more: answered(*effects, **more), _granted_effects(seen), extra
    )


# --- answers with something wrong in them ---------------------------------------------------------


def _any_effect(seen: Seen) -> st.SearchStrategy[Payload]:
    """Return well-formed effects of every type, for whatever event they are."""
    lists = messages("w", max_size=1) | text_parts("w", body=True) | OBJECTS
    return st.one_of(
        _DENY,
        st.sampled_from([{"type": "allow"}, {"type": "ask"}]),
        _MESSAGE,
        _STOP,
        _CONTINUE,
        _inject(("now", "next_turn")),
        members({"type": "return", "value": lists | JSON}),
        _modify(st.sampled_from(_TARGETS), ("replace", "merge"), lambda _: lists),
        _modify(seen.granted.target, ("replace", "merge"), lambda one: _edit(seen, one))
        if seen.granted.target
        else _DENY,
    )


def _unknown_effects() -> st.SearchStrategy[Any]:
    return st.sampled_from(
        [
            {"type": "retry"},
            {"type": "com.example.block", "reason": "no"},
            {"type": "Deny", "reason": "no"},
            {"type": ""},
            {"type": None},
            {"type": ["deny"]},
            {"reason": "no"},
            {},
            None,
            "deny",
            ["deny"],
            {"type": "deny", "reason": ""},
            {"type": "deny"},
            {"type": "deny", "reason": "no", "code": "not reverse"},
            {"type": "deny", "reason": "no", "code": None},
            {"type": "deny", "reason": "no", "extensions": {"plain": 1}},
            {"type": "deny", "reason": "no", "retryable": True},
            {"type": "allow", "reason": "why not"},
            {"type": "ask", "prompt": "really?"},
            {"type": "message"},
            {"type": "message", "text": None},
            {"type": "message", "text": 1},
            {"type": "return"},
            {"type": "return", "value": None, "extra": 1},
            {"type": "flow", "operation": "stop"},
            {"type": "flow", "operation": "stop", "reason": ""},
            {"type": "flow", "operation": "pause", "reason": "why"},
            {"type": "flow", "operation": "continue", "reason": "why"},
            {"type": "flow", "operation": "continue", "instruction": ""},
            {"type": "flow"},
        ]
    )


def _misdirected(seen: Seen) -> st.SearchStrategy[Any]:
    """Return edits and injections with one word in them that the draft does not know."""
    target = seen.granted.target or "input"
    value = {"messages": [], "text": [], "workspace": {"cwd": "/"}}.get(str(seen.granted.shape), {})
    edit = {"type": "modify", "target": target, "operation": "replace", "value": value}
    inject = {
        "type": "inject",
        "target": "context",
        "operation": "append",
        "deliverAt": "now",
        "value": [],
    }
    return st.sampled_from(
        [
            {**edit, "operation": "patch"},
            {**edit, "operation": None},
            {**edit, "target": "outcome"},
            {**edit, "target": "items"},
            {**edit, "path": ["x"]},
            {name: edit[name] for name in ("type", "target", "operation")},
            {**edit, "value": None},
            {**edit, "value": True},
            {**edit, "value": "text"},
            {**edit, "value": [[]]},
            {**edit, "value": {"cwd": ""}},
            {**inject, "deliverAt": "later"},
            {**inject, "target": "system"},
            {**inject, "operation": "replace"},
            {**inject, "value": {}},
            {**inject, "value": [{"id": "x", "role": "narrator", "parts": []}]},
            {name: inject[name] for name in ("type", "target", "operation", "value")},
        ]
    )


@st.composite
def _conflicting(draw: st.DrawFn, seen: Seen) -> list[Any]:
    """Return edits and results that are well-formed and all the same can't be accepted, mostly."""
    shape = seen.granted.shape
    effects: list[Any] = []
    if seen.granted.returns == "elicitation":
        one = members({"type": "return", "value": _result(seen)}) | _DENY
        effects += draw(st.lists(one, min_size=2, max_size=2))
        if seen.asked is not None and "requestedSchema" in seen.asked and draw(st.booleans()):
            wrong = draw(results(seen.asked, near_answers))
            effects = [{"type": "return", "value": wrong}]
    elif seen.granted.returns in ("messages", "text"):
        forms = text_parts("r") | messages("r", max_size=1) | JSON
        effects.append({"type": "return", "value": draw(forms)})
    if shape == "answers" and seen.asked is not None and "requestedSchema" in seen.asked:
        value: Any = draw(near_answers(seen.asked["requestedSchema"]))
    elif shape == "messages":
        taken = [*[one["id"] for one in seen.current], "n0"]
        value = [draw(message(draw(st.sampled_from(taken)))) for _ in range(2)]
    elif shape == "text":
        value = draw(text_parts("t"))
    elif shape == "workspace":
        value = draw(
            st.sampled_from([{}, {"cwd": ""}, {"cwd": None}, {"workspaceRoots": ["a"] * 2}])
        )
    else:
        return effects
    operation = draw(st.sampled_from(["replace", "merge"]))
    edit = {"type": "modify", "target": seen.granted.target, "operation": operation, "value": value}
    return [*effects, edit]


def _with_intruder(seen: Seen, intruder: Any) -> st.SearchStrategy[Answer]:
    """Return good effects with a bad one somewhere among them."""

    def build(effects: list[Any], bad: Any, place: int) -> Answer:
        place = min(place, len(effects))
        return answered_with([*effects[:place], bad, *effects[place:]])

    return st.builds(build, _granted_effects(seen, (1, 0, 2)), intruder, st.integers(0, 2))


def answered_with(effects: Any) -> Answer:
    """Return a success whose ``effects`` are this, whatever it is."""
    result = {"protocolVersion": "draft", "effects": effects}
    return Answer({"jsonrpc": "2.0", "id": EVENT_ID, "result": result})


@st.composite
def _near(draw: st.DrawFn, seen: Seen) -> Answer:
    """Return a good answer with one thing changed in it."""
    good = draw(_good(seen)).message
    if draw(st.sampled_from([True, True, True, False])) and good["result"]["effects"]:
        changed = near(draw, good["result"]["effects"])
        return Answer({**good, "result": {**good["result"], "effects": changed}})
    return Answer(near(draw, good))


def _envelopes(good: Mapping[str, Any]) -> list[Any]:
    """Return what a confused or hostile backend may put around its effects."""
    result = good["result"]
    error = {"code": -32603, "message": "down"}
    failed = {"jsonrpc": "2.0", "id": EVENT_ID, "error": error}
    return [
        *({**good, "id": other} for other in ("event-2", "", 1, None, True, ["event-1"], 1.0)),
        {name: good[name] for name in ("jsonrpc", "result")},
        *({**good, "jsonrpc": other} for other in ("1.0", 2.0, None)),
        {name: good[name] for name in ("id", "result")},
        *({**good, "result": other} for other in (None, [], "ok", True)),
        {name: good[name] for name in ("jsonrpc", "id")},
        *({**good, "result": {**result, "protocolVersion": other}} for other in _VERSIONS),
        {**good, "result": {"effects": result["effects"]}},
        *(
            {**good, "result": {**result, "effects": other}}
            for other in (None, {}, "deny", True, 0)
        ),
        {**good, "result": {"protocolVersion": "draft"}},
        {**good, "result": {**result, "manifest": {}}},
        {**good, "result": {**result, "configuration": None}},
        {**good, "result": {**result, "extensions": {"plain": 1}}},
        {**good, "result": {**result, "extensions": {"com.example": None}}},
        {**good, "result": {**result, "extensions": None}},
        {**good, "method": "hooks/intercept"},
        {**good, "params": {}},
        {**good, "error": error},
        {**good, "error": None},
        failed,
        {**failed, "error": {**error, "data": {"secret": "x"}}},
        *({**failed, "error": {**error, "code": other}} for other in (-32001, -32002, 0, 10**12)),
        *({**failed, "error": {**error, "code": other}} for other in (True, 1.5, 1.0, "1", None)),
        {**failed, "error": {"code": 1}},
        {**failed, "error": "down"},
        {**failed, "error": None},
        {**failed, "result": None},
        *({**failed, "id": other} for other in (None, "event-2", 1)),
        {"jsonrpc": "2.0", "method": "hooks/observe", "params": {}},
        {},
        [],
        [good],
        "ok",
        None,
        True,
    ]


_VERSIONS = ("Draft", "0.1", "draft ", "", None, True, ["draft"])


def _hostile(seen: Seen) -> st.SearchStrategy[Answer]:
    good = _good(seen)
    framed = good.flatmap(lambda one: st.sampled_from(_envelopes(one.message)).map(Answer))
    spoilt = st.builds(lambda one, how: replace(one, spoilt=how), good, st.sampled_from(SPOILT))
    return framed | spoilt


def answers(seen: Seen) -> st.SearchStrategy[Answer]:
    """Return everything that a backend may answer, about half of it acceptable."""
    ways: dict[str, tuple[int, Any]] = {
        "good": (9, _good(seen)),
        "ungranted": (3, _with_intruder(seen, _any_effect(seen))),
        "unknown": (2, _with_intruder(seen, _unknown_effects())),
        "misdirected": (2, _with_intruder(seen, _misdirected(seen))),
        "conflicting": (3, _conflicting(seen).map(answered_with)),
        "near": (3, _near(seen)),
        "hostile": (3, _hostile(seen)),
    }
    if seen.wanted == REFUSABLE:
        ways = {name: ways[name] for name in ("unknown", "misdirected", "hostile", "near")}
    elif seen.wanted:
        ways = {"good": (3, ways["good"][1]), "near": (1, ways["near"][1])}
    names = [name for name, (weight, _) in ways.items() for _ in range(weight)]
    return st.sampled_from(names).flatmap(
        lambda name: ways[name][1].map(lambda answer: replace(answer, kind=name))
    )
