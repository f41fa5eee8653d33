"""Each difference of the oracle is listed, and is there: an example shows that one and no other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from known_differences import DIFFERENCES

pytest.importorskip("agenthooksprotocol", reason="the official SDK needs Python 3.11 or later")

from ahp_sync import Capabilities, Grant, Registration
from oracle.cases import NEUTRAL, Answer, Case, Subscription, answered
from oracle.differences import NAMES
from oracle.examples import (
    ALLOWED,
    ASK_AGAIN,
    COMPACT,
    DENY,
    FINISH,
    IMAGE,
    MESSAGE,
    TEXT,
    asked,
    case,
    each,
    message,
    modify,
    told,
    tool,
    turn,
)
from oracle.official import harness, official
from oracle.ours import ours
from oracle.running import compared
from oracle.verdicts import Verdict

HIDDEN = {"default": "metadata"}
OMITTED = {"default": "omit"}
DESCRIBED = {**{n: IMAGE[n] for n in ("id", "kind", "mediaType")}, "selection": "metadata"}
INJECTED = {
    "type": "inject",
    "target": "context",
    "operation": "append",
    "deliverAt": "now",
    "value": [message(TEXT, role="system")],
}
MODEL = {
    "model": {"id": "m", "provider": "p"},
    "attempt": {"id": "a", "number": 1},
    "params": {},
}
GAP = {**{name: TEXT[name] for name in TEXT if name != "text"}, "gap": {"reason": "too large"}}
STRAY = Answer({**NEUTRAL.message, "method": "hooks/intercept"})
CONTINUED = {"permission": "none", "candidate": None, "flow": "continue"}
STOP_AND_COUNT = {
    "effects": ["flow"],
    "flow": {"operations": ["stop"], "maxContinuations": 2},
}


def spoilt(how: str, *effects: Any) -> Case:
    """Return a case about a tool call whose second answer has its bytes spoilt."""
    return tool(then=(Subscription(replace(answered(*effects), spoilt=how)),))


#: By name, the cases that show a difference. The names in a message only come along with others.
EXAMPLES: dict[str, list[Case]] = {
    "strict-json": [
        spoilt("byte order mark", MESSAGE),
        spoilt("utf-16", MESSAGE),
        spoilt("lone surrogate", MESSAGE),
        spoilt("duplicate id", DENY),
        spoilt("hidden deny"),
    ],
    "bounds-of-an-answer": [spoilt("long number", MESSAGE), spoilt("deep", MESSAGE)],
    "no-method-in-a-response": [tool(then=(Subscription(STRAY),))],
    "offers-what-can-be-accepted": [
        case("turn.start", turn(TEXT), content=HIDDEN),
        case("context.compact.before", COMPACT),
        case("user.elicitation.request", asked(), content=HIDDEN),
    ],
    "what-is-hidden-stays": [
        case(
            "turn.start",
            turn(IMAGE),
            modify(
                "prompt",
                [message(DESCRIBED)],
            ),
            content=HIDDEN,
            state=ALLOWED,
            then=ASK_AGAIN,
        )
    ],
    "what-is-hidden-is-not-relabelled": [
        case(
            "turn.start",
            turn(IMAGE),
            modify("prompt", [message({**DESCRIBED, "category": "files"})]),
            content=HIDDEN,
        )
    ],
    "attachments-that-were-shown": [
        case("turn.start", turn(TEXT), modify("prompt", [message(IMAGE)])),
        case(
            "turn.start",
            turn(IMAGE),
            modify("prompt", [message({**IMAGE, "body": {"ref": "ref-2"}})]),
        ),
    ],
    "an-id-keeps-its-meaning": [
        case("turn.start", turn(TEXT), modify("prompt", [message(TEXT, role="system")])),
        case("turn.start", turn(TEXT), modify("prompt", [message(TEXT, id="m1")], "merge")),
        case("turn.start", turn(TEXT), INJECTED),
        case(
            "model.request.before",
            {**MODEL, "items": [message(TEXT)]},
            {"type": "return", "value": [message(TEXT, role="assistant")]},
        ),
        tool(INJECTED, then=(Subscription(answered({**INJECTED, "value": [message(TEXT)]})),)),
    ],
    "messages-can-be-edited": [
        case(
            "user.message.inbound",
            {"message": {"channel": "c", "sender": "s", "messages": [message(TEXT)]}},
            modify("prompt", []),
        ),
        case(
            "user.message.outbound",
            {"message": {"channel": "c", "messages": []}},
            modify("content", [message(TEXT, role="assistant")], "merge"),
        ),
    ],
    "same-answers-change-nothing": [
        case(
            "user.elicitation.result",
            told(),
            modify("content", {}),
            request=asked(),
            state=ALLOWED,
        )
    ],
    "faults-of-the-host": [
        case("user.elicitation.request", asked("{}")),
        case("user.elicitation.request", asked('{"message": "", "message": ""}')),
        case("user.elicitation.result", {**told(), "parentEventId": "else"}, request=asked()),
    ],
    "summary-without-instructions": [
        case(
            "context.compact.before",
            COMPACT,
            {"type": "return", "value": [TEXT]},
            capabilities={"effects": ["return"]},
        )
    ],
    "policy-as-declared": [
        tool(
            then=(
                replace(Subscription(answered({"type": "retry"})), scope="managed"),
                Subscription(answered(MESSAGE)),
            )
        )
    ],
    "omitted-is-not-measured": [
        case(
            "session.start",
            {
                "session": {"id": "s"},
                "trigger": "startup",
                "permissionMode": "m",
                "items": [message({**GAP, "size": 3, "sha256": "0" * 64})],
            },
            content=OMITTED,
        )
    ],
    "instructions-nobody-gave": [
        case("turn.finish.before", FINISH, state=CONTINUED, then=ASK_AGAIN)
    ],
    "nothing-to-continue": [
        case(
            "turn.finish.before",
            FINISH,
            capabilities=STOP_AND_COUNT,
            then=ASK_AGAIN,
        )
    ],
}

#: Those that come with another one: the effect in question was not even offered.
WITH_OFFERS: dict[str, list[Case]] = {
    "hidden-text-is-not-replaced": [
        case("turn.start", turn(TEXT), modify("prompt", []), content=HIDDEN)
    ],
    "a-denial-is-a-denial": [
        case("user.elicitation.request", asked(), DENY, content=HIDDEN),
        case("user.elicitation.request", asked(), DENY, capabilities={"effects": ["deny"]}),
    ],
    "a-gap-is-no-failure": [
        case(
            "user.elicitation.request",
            {"elicitation": {"server": "s", "mode": "form", "request": GAP}},
            MESSAGE,
        )
    ],
}


@pytest.mark.parametrize(("name", "one"), each(EXAMPLES))
def test_a_difference_is_there(name: str, one: Case) -> None:
    """The example has this difference, no other, and is the same in all else."""
    judgement = compared(one)
    assert not judgement.wrong, str(judgement)
    assert judgement.known == {name}


@pytest.mark.parametrize(("name", "one"), each(WITH_OFFERS))
def test_a_difference_is_there_in_what_was_not_offered(name: str, one: Case) -> None:
    """The same, and the receiver was offered less than the host grants."""
    judgement = compared(one)
    assert not judgement.wrong, str(judgement)
    assert judgement.known - {"offers-what-can-be-accepted"} == {name}


def test_all_differences_are_listed_and_shown() -> None:
    """The oracle knows no difference that is not on the list, or has no example here."""
    assert set(NAMES) == {*EXAMPLES, *WITH_OFFERS}
    assert DIFFERENCES.keys() >= {*NAMES, "wildcards-are-narrowed"}


def test_wildcards_are_narrowed() -> None:
    """An intercept wildcard over an event that can only be observed; the SDK refuses it (D-13)."""
    one = tool()
    document = one.registration()
    document["hooks"][0]["subscriptions"][0]["events"] = ["tool.*"]
    capabilities = Capabilities(
        intercept={"tool.before": Grant(("deny",))}, observe=["tool.before", "tool.progress"]
    )
    loaded = Registration.load(document).for_host(capabilities)
    assert loaded.backends[0].subscriptions[0].events == {"tool.before"}
    declared = {
        "tool.before": {
            "modes": ["intercept", "observe"],
            "capabilities": {"effects": ["deny"]},
        }
    }
    harness(one, document, declared)
    declared["tool.progress"] = {"modes": ["observe"]}
    with pytest.raises(ValueError, match="Unsupported event or delivery mode"):
        harness(one, document, declared)


@pytest.mark.parametrize("operation", ["replace", "merge"])
def test_edited_messages_settle_as_other_lists_do(operation: str) -> None:
    """What the SDK can't do with a user's messages (D-14), it does with the prompt of a turn."""
    new = message({**TEXT, "id": "t1", "text": "more"}, id="m1")
    edit = modify("prompt", [message(TEXT), new], operation)
    inbound = {"message": {"channel": "c", "sender": "s", "messages": [message(TEXT)]}}
    mine = ours(case("user.message.inbound", inbound, edit, state=ALLOWED, then=ASK_AGAIN))
    theirs = official(case("turn.start", turn(TEXT), edit, state=ALLOWED, then=ASK_AGAIN))
    assert mine.refused == theirs.refused == []
    assert mine.event["message"]["messages"] == theirs.event["items"]
    assert mine.permission == theirs.permission == "none"
    assert mine.candidate is theirs.candidate is None
    states = [verdict.asked[1].message["params"]["state"] for verdict in (mine, theirs)]
    assert states[0] == states[1]


def _settled(name: str, number: int = 0) -> Verdict:
    table = {**EXAMPLES, **WITH_OFFERS}
    verdict = ours(table[name][number])
    assert not verdict.refused
    return verdict


def test_what_only_we_take_is_settled() -> None:
    """In the examples above the answer in question was taken out; here it counts, with us."""
    for number in range(2):
        assert _settled("a-denial-is-a-denial", number).decision == "deny"
    assert _settled("a-gap-is-no-failure").messages == ["note"]
    summary = _settled("summary-without-instructions")
    assert (summary.candidate, summary.decision) == ({"value": [TEXT]}, "ask")


@pytest.mark.parametrize("name", ["same-answers-change-nothing", "what-is-hidden-stays"])
def test_what_changes_nothing_with_us(name: str) -> None:
    """The event stays as it was, and so do candidate and approval; the SDK drops them."""
    one = EXAMPLES[name][0]
    mine, theirs = _settled(name), official(one)
    assert mine.event == one.whole_event
    assert (mine.permission, mine.candidate) == ("allow", ALLOWED["candidate"])
    assert (theirs.permission, theirs.candidate) == ("none", None)
