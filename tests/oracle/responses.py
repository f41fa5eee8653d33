"""What backends answer, at random: granted, refused for every reason that there is, and hostile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st
from strategies import near

from oracle.cases import EVENT_ID, GRANTS, SPOILT, Answer, answered
from oracle.content import (
    EXTENSIONS,
    JSON,
    OBJECTS,
    Payload,
    members,
    message,
    messages,
    text_parts,
)
from oracle.elicitations import near_answers, results
from oracle.granted import (
    CONTINUE,
    DENY,
    MESSAGE,
    STOP,
    Seen,
    edit_value,
    granted_effects,
    injections,
    modifications,
    result_value,
)

__all__ = ["REFUSABLE", "answers"]

#: What is wanted where each answer is to have something wrong with it.
REFUSABLE = "refusable"

_TARGETS = sorted({granted.target for granted in GRANTS.values() if granted.target})


def _good(seen: Seen) -> st.SearchStrategy[Answer]:
    extra = members({}, {"extensions": EXTENSIONS, "x-unknown": JSON})
    return st.builds(lambda effects, more: answered(*effects, **more), granted_effects(seen), extra)


# --- answers with something wrong in them ---------------------------------------------------------


def _any_effect(seen: Seen) -> st.SearchStrategy[Payload]:
    """Return well-formed effects of every type, for whatever event they are."""
    lists = messages("w", max_size=1) | text_parts("w", body=True) | OBJECTS
    return st.one_of(
        DENY,
        st.sampled_from([{"type": "allow"}, {"type": "ask"}]),
        MESSAGE,
        STOP,
        CONTINUE,
        injections(("now", "next_turn")),
        members({"type": "return", "value": lists | JSON}),
        modifications(st.sampled_from(_TARGETS), ("replace", "merge"), lambda _: lists),
        modifications(seen.granted.target, ("replace", "merge"), lambda one: edit_value(seen, one))
        if seen.granted.target
        else DENY,
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
        one = members({"type": "return", "value": result_value(seen)}) | DENY
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

    return st.builds(build, granted_effects(seen, (1, 0, 2)), intruder, st.integers(0, 2))


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
