"""Whole cases at random: one interceptor, or a chain of them with observers."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Optional

from hypothesis import strategies as st
from strategies import near

from oracle.cases import GRANTS, NEUTRAL, Case, Granted, Subscription, whole_grant
from oracle.content import JSON, OBJECTS, WORDS, Payload, members, messages, often, text_parts
from oracle.elicitations import requests, results, written
from oracle.granted import Seen
from oracle.responses import answers
from oracle.strategies import PAYLOADS, elicitation_pairs

__all__ = ["cases", "chains", "faulty"]

LEVELS = ("body", "metadata", "omit")
_BODY = st.just({"default": "body"})
_HIDDEN = st.sampled_from(["metadata", "omit"]).map(
    lambda level: {"default": "body", **dict.fromkeys(("images", "audio", "video", "files"), level)}
)
_CATEGORIES = ("text", "images", "audio", "video", "files", "reasoning")
_ANY = members(
    {"default": st.sampled_from(LEVELS)}, dict.fromkeys(_CATEGORIES, st.sampled_from(LEVELS))
)
CONTENT = often(_BODY, _HIDDEN | _ANY)


@st.composite
def capabilities(draw: st.DrawFn, event: str) -> Payload:
    """Return what a host may grant at this event: everything, mostly, or part of it."""
    granted = GRANTS[event]
    every = [*granted.effects, "message"]
    chosen = draw(often(st.just(every), st.lists(st.sampled_from(every), unique=True)))
    block: Payload = {"effects": chosen}
    if "modify" in chosen:
        both = {"replace": True, "merge": True}
        one = st.sampled_from(
            [{"replace": True, "merge": False}, {"replace": False, "merge": True}]
        )
        block["modify"] = {granted.target: draw(often(st.just(both), one))}
    if "flow" in chosen:
        block["flow"] = draw(_flows(granted))
    if "inject" in chosen:
        moments = draw(st.sampled_from([["now", "next_turn"], ["now"], ["next_turn"]]))
        block["inject"] = {"context": {"append": True, "deliverAt": moments}}
    modes = st.sampled_from([{"form": {}}, {"url": {}}, {}])
    if "elicitation" in event and draw(st.integers(0, 9)) < 9:
        block["elicitation"] = draw(often(st.just({"form": {}, "url": {}}), modes))
    return block


_STOP_AND_COUNT = {"operations": ["stop"], "maxContinuations": st.sampled_from([0, 2])}


def _flows(granted: Granted) -> st.SearchStrategy[Payload]:
    if "continue" not in granted.flow:
        return often(members({"operations": ["stop"]}), members(_STOP_AND_COUNT))
    operations = st.sampled_from([["stop", "continue"], ["continue"], ["stop"]])
    counts = st.sampled_from([0, 1, 2, 3])
    return operations.flatmap(
        lambda chosen: members(
            {
                "operations": chosen,
                **({"continuationCount": counts} if "continue" in chosen else {}),
                **({"remainingContinuations": counts} if "continue" in chosen else {}),
            },
            {"maxContinuations": counts},
        )
    )


@st.composite
def states(draw: st.DrawFn, event: str, asked: Optional[Payload]) -> Payload:
    """Return what a host may have settled itself; it rarely ends the chain before it begins."""
    seldom = ["none"] * 4 + ["allow"] * 4 + ["ask"] * 3 + ["deny"]
    state: Payload = {"permission": draw(st.sampled_from(seldom)), "candidate": None}
    if draw(st.booleans()):
        provenance = {"provenance": OBJECTS}
        state["candidate"] = draw(members({"value": _candidates(event, asked)}, provenance))
    optional: dict[str, Any] = {
        "flow": st.sampled_from(["none", "none", "continue", "continue", "stop"]),
        "instructions": st.lists(WORDS, max_size=2),
        "injections": st.lists(_injected(), max_size=2),
    }
    return {**state, **draw(members({}, optional))}


def _candidates(event: str, asked: Optional[Payload]) -> st.SearchStrategy[Any]:
    shape = GRANTS[event].returns
    if shape == "messages":
        return messages("c", max_size=1)
    if shape == "text":
        return text_parts("c")
    if shape == "elicitation":
        return (st.just(asked) if asked else requests("url")).flatmap(results)
    return JSON


def _injected() -> st.SearchStrategy[Payload]:
    return members(
        {
            "type": "inject",
            "target": "context",
            "operation": "append",
            "deliverAt": st.sampled_from(["now", "next_turn"]),
            "value": messages("y", max_size=1),
        }
    )


def _asked(event: str, payload: Payload, request: Optional[Payload]) -> Optional[Payload]:
    """Return the parameters of the elicitation that an event belongs to, where they are known."""
    holder = request if request is not None else payload
    part = holder.get("elicitation", {}).get("request", {})
    if "elicitation" not in event or "text" not in part:
        return None
    try:
        parsed = json.loads(part["text"])
    except ValueError:
        return None
    known = isinstance(parsed, dict) and ("requestedSchema" in parsed or "url" in parsed)
    return parsed if known else None


@st.composite
def _occurrences(draw: st.DrawFn, event: str) -> tuple[Payload, Optional[Payload]]:
    """Return the payload of an event, and that of the elicitation's request it belongs to."""
    payload = draw(PAYLOADS[event])
    if event == "user.elicitation.request" and draw(st.integers(0, 15)) == 15:
        part = payload["elicitation"].get("request", {})
        if "text" in part:  # whatever else that text may be
            part["text"] = draw(st.sampled_from(["", "{}", "[]", "NaN", '{"a": 1, "a": 2}']))
    if event != "user.elicitation.result":
        return payload, None
    request, own = draw(elicitation_pairs())
    payload = {**payload, **own}
    how = draw(st.sampled_from(["known"] * 8 + ["unknown", "other parent", "other text"]))
    if how == "unknown":
        return payload, None
    if how == "other parent":
        payload["parentEventId"] = draw(st.sampled_from(["event-0", "asked-2"]))
    elif how == "other text":
        other = draw(requests(draw(st.sampled_from(["form", "url"]))))
        part = {**request["elicitation"]["request"], "text": written(other)}
        request = {"elicitation": {**request["elicitation"], "request": part}}
    return payload, request


def _interceptors(seen: Seen, *, scoped: bool) -> st.SearchStrategy[Subscription]:
    scopes = st.sampled_from([None] * 6 + ["user", "managed"]) if scoped else st.none()
    return st.builds(
        Subscription,
        answer=answers(seen),
        content=st.just(seen.content),
        policy=st.sampled_from(["fail-open", "fail-open", "fail-closed"]),
        native=st.booleans(),
        scope=scopes,
    )


_OBSERVERS = st.builds(Subscription, content=CONTENT, native=st.booleans(), joined=st.booleans())


@st.composite
def _drawn(draw: st.DrawFn, events: Any, sizes: Any, observers: Any, wanted: str = "") -> Case:
    event = draw(events)
    payload, request = draw(_occurrences(event))
    granted = whole_grant(event) if wanted else draw(capabilities(event))
    asked = _asked(event, payload, request)
    subscriptions = []
    size = draw(sizes)
    for _ in range(size):
        seen = Seen(event, payload, granted, draw(_BODY if wanted else CONTENT), asked, wanted)
        one = draw(_interceptors(seen, scoped=size > 1))
        # Which subscription a message is for shows by their order only, so that a client that asks
        # one fewer would get the wrong answers: not where that can be.
        joined = "elicitation" not in event and draw(st.integers(0, 3)) == 3
        subscriptions.append(Subscription(**{**vars(one), "joined": joined}))
    subscriptions += draw(observers)
    return Case(
        event,
        payload,
        granted,
        tuple(draw(st.permutations(subscriptions)) if size > 1 else subscriptions),
        state=draw(st.none() | states(event, asked)),
        request=request,
        native=draw(st.none() | st.none() | JSON),
        narrowed=draw(st.integers(0, 3)) == 3,
    )


def cases(event: Optional[str] = None, wanted: str = "") -> st.SearchStrategy[Case]:
    """Return cases with one interceptor and at most one observer.

    :param wanted: a type of effect that the answer is to have, or ``REFUSABLE``; then everything is
        granted, and the backend sees everything.
    """
    names = st.sampled_from(list(GRANTS)) if event is None else st.just(event)
    return _drawn(names, st.just(1), st.lists(_OBSERVERS, max_size=1), wanted)


def chains() -> st.SearchStrategy[Case]:
    """Return cases with two or three interceptors, observers before, between and after them."""
    return _drawn(
        st.sampled_from(list(GRANTS)), st.integers(2, 3), st.lists(_OBSERVERS, max_size=2)
    )


# Members of an event that are options of a hook call: None there means that they are not given.
_OPTIONAL = ("session", "turn", "parentEventId", "extensions", "synthesized")


@st.composite
def _faulty_states(draw: st.DrawFn, state: Payload) -> Payload:
    name = draw(st.sampled_from(sorted(state)))
    value, candidate = near(draw, state[name]), state["candidate"]
    if name == "candidate" and candidate is not None:
        value = {**candidate, "value": near(draw, candidate["value"])}
    return state if value is None else {**state, name: value}


@st.composite
def faulty(draw: st.DrawFn) -> Case:
    """Return cases of a host that does something wrong, mostly: in its event, or in its state."""
    case = draw(cases())
    subscriptions = tuple(
        one if one.answer is None else replace(one, answer=NEUTRAL) for one in case.subscriptions
    )
    case = replace(case, subscriptions=subscriptions)
    if case.state is not None and draw(st.booleans()):
        return replace(case, state=draw(_faulty_states(case.state)))
    payload = near(draw, case.payload)
    if not isinstance(payload, dict) or any(payload.get(name, 1) is None for name in _OPTIONAL):
        return case
    return replace(case, payload=payload)
