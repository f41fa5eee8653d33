"""Corners in which our client and the official SDK have to agree, one by one."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("agenthooksprotocol", reason="the official SDK needs Python 3.11 or later")

from oracle.cases import Answer, Case, Subscription, answered
from oracle.examples import (
    ALLOWED,
    ASK_AGAIN,
    DENY,
    FINISH,
    IMAGE,
    MESSAGE,
    TEXT,
    case,
    each,
    message,
    modify,
    tool,
    turn,
)
from oracle.running import compared

CONTINUE = {"type": "flow", "operation": "continue", "instruction": "go on"}
STOP = {"type": "flow", "operation": "stop", "reason": "enough"}
FAILED = Answer({"jsonrpc": "2.0", "id": "event-1", "error": {"code": -32603, "message": "down"}})
COMPACTED = {"summary": [], "removed": [], "execution": {"status": "executed"}}
INPUTS: list[tuple[Any, Any]] = [
    ({"a": 1}, {"a": 1.0}),
    ({"a": 1}, {"a": True}),
    ({"a": 0}, {"a": False}),
    ({"a": None}, {}),
    ({"a": "é"}, {"a": "e\u0301"}),
    ({"a": 2**53}, {"a": 2**53 + 1}),
    ({"a": [1, 2]}, {"a": [2, 1]}),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
]


def _seeded(*effects: Any, **more: Any) -> Case:
    """Return a case that begins with an approval and a result, and asks a second interceptor."""
    return tool(*effects, state=ALLOWED, then=ASK_AGAIN, **more)


#: By what they are about.
AGREED: dict[str, list[Case]] = {
    "equality": [_seeded(modify("input", new), input=old) for old, new in INPUTS],
    "null": [
        tool({"type": "return", "value": None}, then=ASK_AGAIN),
        tool({"type": "return", "value": 1}, {"type": "return", "value": None}),
        _seeded(modify("input", {"a": None}, "merge")),
    ],
    "order in a response": [
        _seeded({"type": "return", "value": 2}, modify("input", {"b": 1})),
        _seeded({"type": "allow"}, modify("input", {"b": 1})),
        _seeded(modify("input", {"b": 1}), modify("input", {"a": 1})),
        _seeded({"type": "ask"}, {"type": "allow"}),
        _seeded(DENY, {"type": "allow"}, MESSAGE),
        tool(STOP, {"type": "allow"}, {"type": "return", "value": 1}, then=ASK_AGAIN),
    ],
    "empty lists": [
        case("context.compact.after", COMPACTED, modify("summary", [])),
        case("context.compact.after", COMPACTED, modify("summary", [TEXT], "merge")),
        case("turn.start", turn(), modify("prompt", []), then=ASK_AGAIN),
    ],
    "edit and restore": [
        case(
            "turn.start",
            turn(IMAGE),
            modify("prompt", []),
            modify("prompt", [message(IMAGE)]),
            state=ALLOWED,
            then=ASK_AGAIN,
        )
    ],
    "continuations": [
        case("turn.finish.before", FINISH, CONTINUE, CONTINUE, then=ASK_AGAIN),
        case("turn.finish.before", FINISH, CONTINUE, STOP, then=ASK_AGAIN),
        case("turn.finish.before", FINISH, STOP, CONTINUE, then=ASK_AGAIN),
        case(
            "turn.finish.before",
            FINISH,
            CONTINUE,
            capabilities={
                "effects": ["flow"],
                "flow": {
                    "operations": ["continue"],
                    "continuationCount": 2,
                    "remainingContinuations": 1,
                },
            },
            then=(Subscription(answered(CONTINUE)),),
        ),
    ],
    "after a failure": [
        _seeded(MESSAGE, modify("input", {"b": 1})),
        tool(
            MESSAGE,
            modify("input", {"b": 1}),
            then=(Subscription(FAILED, policy="fail-closed"), *ASK_AGAIN, Subscription()),
        ),
        tool(then=(Subscription(FAILED), Subscription(answered(DENY)), *ASK_AGAIN)),
    ],
}


@pytest.mark.parametrize(("about", "one"), each(AGREED))
def test_both_agree(about: str, one: Case) -> None:
    """Nothing differs, known or not."""
    judgement = compared(one)
    assert not judgement.wrong, str(judgement)
    assert not judgement.known
