"""Where two verdicts about one case differ; forms that mean the same are equal here.

Two of our ways show in most messages and change nothing in a settlement, so they are no mismatch:
they are looked for in the messages, and told by their names in the list of known differences.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from oracle.cases import Case
from oracle.offers import fitting
from oracle.verdicts import Sent, Verdict, same

__all__ = ["decision_of", "mismatches"]

_SETTLED = (
    "event",
    "permission",
    "candidate",
    "flow",
    "instructions",
    "injections",
    "messages",
    "remaining",
    "refused",
    "synthetic",
)


def mismatches(
    case: Case, ours: Verdict, theirs: Verdict, known: set[str]
) -> dict[str, tuple[Any, Any]]:
    """Return what differs, by name, as (ours, theirs); nothing where all is the same.

    The names are those of a verdict's fields, and ``asked[0].state`` and the like for what the
    first interceptor was sent. The names of the differences that show in messages go to ``known``.
    """
    if ours.host_error is not None or theirs.host_error is not None:
        if (ours.host_error is None) == (theirs.host_error is None) and not ours.sent:
            return {}
        return {"host_error": (ours.host_error, theirs.host_error)}
    found: dict[str, tuple[Any, Any]] = {}
    for name in _SETTLED:
        one, other = getattr(ours, name), getattr(theirs, name)
        if name == "event":
            one, other = _comparable(one), _comparable(other)
        if not same(one, other):
            found[name] = (one, other)
    if ours.decision != decision_of(ours):
        found["decision"] = (ours.decision, decision_of(ours))
    found.update(_messages(case, "asked", ours.asked, theirs.asked, known))
    found.update(_messages(case, "told", ours.told, theirs.told, known))
    return found


def decision_of(verdict: Verdict) -> str:
    """Return how a call ends that settled like this, where the host has no policy of its own."""
    if verdict.permission == "deny":
        return "deny"
    if verdict.flow == "stop":
        return "stop"
    if verdict.permission == "ask":
        return "ask"
    if verdict.candidate is None:
        return "proceed"
    return "supplied" if verdict.permission == "allow" else "ask"  # R-SET-09


def _messages(
    case: Case, name: str, ours: list[Sent], theirs: list[Sent], known: set[str]
) -> dict[str, tuple[Any, Any]]:
    backends = [[one.backend for one in sent] for sent in (ours, theirs)]
    if backends[0] != backends[1]:
        return {name: (backends[0], backends[1])}
    found: dict[str, tuple[Any, Any]] = {}
    for position, (one, other) in enumerate(zip(ours, theirs)):
        for part, mine, yours in _parts(case, one.message, other.message, known):
            if not same(mine, yours):
                found[f"{name}[{position}].{part}"] = (mine, yours)
    return found


def _parts(case: Case, one: Any, other: Any, known: set[str]) -> Iterator[tuple[str, Any, Any]]:
    first, second = one["params"], other["params"]
    view = _unmeasured(second["event"])
    if not same(view, second["event"]):
        known.add("omitted-is-not-measured")
    yield "event", _comparable(first["event"]), _comparable(view)
    yield "envelope", _envelope(one), _envelope(other)
    if "id" not in other:
        return
    whole = second["capabilities"]
    offer = fitting(whole, view, case.request_event)
    if not same(_sorted(offer), _sorted(whole)):
        known.add("offers-what-can-be-accepted")
    yield "capabilities", _counted(_sorted(first["capabilities"]), case), _sorted(offer)
    state = second["state"]
    invented = state.get("instructions") == [] and "instructions" not in first["state"]
    if invented and _nobody_instructed(case):
        known.add("instructions-nobody-gave")
        state = {name: value for name, value in state.items() if name != "instructions"}
    yield "state", _stated(first["state"]), _stated(state)


def _nobody_instructed(case: Case) -> bool:
    """Return whether the host goes on by itself and has no instructions for that."""
    state = case.state or {}
    return state.get("flow") == "continue" and "instructions" not in state


def _unmeasured(event: Any) -> Any:
    """Return a view without the sizes and digests of omitted parts (D-22)."""
    return {
        name: _bare(value) if name in _CONTENT else value for name, value in dict(event).items()
    }


_CONTENT = (
    *("items", "delta", "partialOutput", "instructions", "summary", "fileChanges", "changes"),
    *("attention", "elicitation", "message"),
)


def _bare(value: Any) -> Any:
    if isinstance(value, list):
        return [_bare(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    gone = ("size", "sha256") if value.get("selection") == "omit" else ()
    return {name: _bare(inner) for name, inner in value.items() if name not in gone}


def _counted(block: Any, case: Case) -> Any:
    """Return our capabilities without a count that only repeats that of the event."""
    count = case.payload.get("continuationCount")
    if count is None or "continuationCount" in case.capabilities.get("flow", {}):
        return block
    flow = dict(block.get("flow", {}))
    return {**block, "flow": flow} if flow.pop("continuationCount", None) == count else block


def _stated(state: Any) -> Any:
    """Return a state in which no injections are none, in either form."""
    return {name: value for name, value in state.items() if (name, value) != ("injections", [])}


def _envelope(message: Any) -> Any:
    known = ("event", "capabilities", "state")
    params = {name: value for name, value in message["params"].items() if name not in known}
    return {**message, "params": params}


def _comparable(event: Any) -> Any:
    """Return an event without the manifest, which is each client's own, and with MCP text parsed.

    Both write the result of an elicitation anew; how they space it is their own affair.
    """
    event = {name: value for name, value in event.items() if name != "manifest"}
    text = event.get("elicitation", {}).get("result", {}).get("text")
    if event["type"] != "user.elicitation.result" or text is None:
        return event
    block = event["elicitation"]
    result = {**block["result"], "text": ["MCP", json.loads(text)]}
    return {**event, "elicitation": {**block, "result": result}}


def _sorted(value: Any) -> Any:
    """Return capabilities with their lists in one order, since that means nothing."""
    if isinstance(value, list):
        return sorted(value)
    if isinstance(value, dict):
        return {name: _sorted(inner) for name, inner in value.items()}
    return value
