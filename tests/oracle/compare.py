"""Where two verdicts about one case differ, in words."""

from __future__ import annotations

from typing import Any

from oracle.cases import Case
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


def mismatches(case: Case, ours: Verdict, theirs: Verdict) -> dict[str, tuple[Any, Any]]:
    """Return what differs, by name, as (ours, theirs); nothing where all is the same.

    The names are those of a verdict's fields, and ``asked[0].state`` and the like for what the
    first interceptor was sent. The manifest of ``session.start`` is each client's own.
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
    found.update(_messages("asked", ours.asked, theirs.asked))
    found.update(_messages("told", ours.told, theirs.told))
    return found


def decision_of(verdict: Verdict) -> str:
    """Return how a call ends that settled like this, where the host has no policy of its own."""
    if verdict.permission == "deny":
        return "deny"
    if verdict.flow == "stop":
        return "stop"
    if verdict.permission == "ask":
        return "ask"
    return "proceed" if verdict.candidate is None else "supplied"


def _messages(name: str, ours: list[Sent], theirs: list[Sent]) -> dict[str, tuple[Any, Any]]:
    backends = [[one.backend for one in sent] for sent in (ours, theirs)]
    if backends[0] != backends[1]:
        return {name: (backends[0], backends[1])}
    found: dict[str, tuple[Any, Any]] = {}
    for position, (one, other) in enumerate(zip(ours, theirs)):
        for part, mine, yours in _parts(one.message, other.message):
            if not same(mine, yours):
                found[f"{name}[{position}].{part}"] = (mine, yours)
    return found


def _parts(one: Any, other: Any) -> list[tuple[str, Any, Any]]:
    first, second = one["params"], other["params"]
    return [
        ("event", _comparable(first["event"]), _comparable(second["event"])),
        ("capabilities", _unordered(first), _unordered(second)),
        ("state", first.get("state"), second.get("state")),
        ("envelope", _envelope(one), _envelope(other)),
    ]


def _envelope(message: Any) -> Any:
    known = ("event", "capabilities", "state")
    params = {name: value for name, value in message["params"].items() if name not in known}
    return {**message, "params": params}


def _comparable(event: Any) -> Any:
    return {name: value for name, value in event.items() if name != "manifest"}


def _unordered(params: Any) -> Any:
    """Return the capabilities with their lists in one order, since that means nothing."""
    block = params.get("capabilities")
    return block if block is None else _sorted(block)


def _sorted(value: Any) -> Any:
    if isinstance(value, list):
        return sorted(value)
    if isinstance(value, dict):
        return {name: _sorted(inner) for name, inner in value.items()}
    return value
