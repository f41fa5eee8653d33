"""What has to agree: messages with messages, outcomes with what a scenario expects.

Messages are compared as JSON, where a boolean is no number and member order says nothing. The
differences that are our client's own policy are these and no others:

* ``time`` has to be the same instant; the client writes it with milliseconds and an offset;
* the lists of ``params.capabilities`` name things once, so they are compared as sets;
* ``params.state`` is sent always (R-CAP-04), so a request without it is one with the default.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from from_wire import moment

from ahp_sync import Decision, Outcome
from ahp_sync.protocol.equality import json_equal

__all__ = ["Mismatch", "check_equal", "check_message", "check_outcome", "differences", "settled"]

DEFAULT_STATE = {"permission": "none", "candidate": None}


class Mismatch(AssertionError):
    """What came is not what the public data says."""


def check_equal(what: str, found: Any, wanted: Any) -> None:
    """Raise :class:`Mismatch` unless both are the same JSON value."""
    places = list(differences(found, wanted))
    if places:
        raise Mismatch(f"{what}: " + "; ".join(places))


def check_message(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Raise :class:`Mismatch` unless the message is the wanted one, our policy aside."""
    check_equal(wanted.get("method", "message"), plain(found), plain(wanted))


def plain(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a message in which our client's policy shows no more."""
    copy: dict[str, Any] = json.loads(json.dumps(message))
    params = copy["params"]
    if isinstance(params["event"].get("time"), str):
        params["event"]["time"] = str(moment(params["event"]["time"]))
    if copy["method"] == "hooks/intercept":
        params.setdefault("state", DEFAULT_STATE)
        capabilities = params["capabilities"]
        for owner, name in (
            (capabilities, "effects"),
            (capabilities.get("flow"), "operations"),
            (capabilities.get("inject", {}).get("context"), "deliverAt"),
        ):
            if owner is not None and name in owner:
                owner[name] = sorted(owner[name])
    return copy


def differences(found: Any, wanted: Any, path: str = "$") -> Iterator[str]:
    """Yield where two JSON values differ, and how."""
    if isinstance(found, Mapping) and isinstance(wanted, Mapping):
        for name in sorted({*found, *wanted}):
            if name not in wanted:
                yield f"{path}.{name} is there: {found[name]!r}"
            elif name not in found:
                yield f"{path}.{name} is not there"
            else:
                yield from differences(found[name], wanted[name], f"{path}.{name}")
    elif not json_equal(found, wanted):
        yield f"{path} is {found!r}, not {wanted!r}"


# --- outcomes -------------------------------------------------------------------------------------


def settled(outcome: Outcome) -> dict[str, Any]:
    """Return an outcome in the words of the scenarios.

    Their host permits by itself what nobody objects to, so their decision is that of the backends
    alone, where ``none`` counts as ``allow``; only ``executed`` tells of flow and of results.
    """
    is_tool = outcome.event["type"] == "tool.before"
    words: dict[str, Any] = {
        "decision": "allow" if outcome.permission == "none" else outcome.permission,
        "executed": is_tool and outcome.may_execute,
        "messages": list(outcome.messages),
        "flow": outcome.flow,
        "injections": list(outcome.injections),
        "continuationInstructions": list(outcome.instructions),
        "continuationRemaining": outcome.remaining_continuations,
    }
    if is_tool:
        words["input"] = outcome.input
    if outcome.has_result:
        words["result"] = outcome.result
    return words


#: What holds where a scenario says nothing: it then has nothing of the kind.
_UNSAID: dict[str, Any] = {"flow": "none", "injections": [], "continuationInstructions": []}


def check_outcome(outcome: Outcome, expected: Mapping[str, Any]) -> None:
    """Raise :class:`Mismatch` unless the call settled as expected, with no failure on the way."""
    check_equal("failures", [str(failure) for failure in outcome.failures], [])
    found, wanted = settled(outcome), {**_UNSAID, **expected}
    # A member that the scenario leaves out says nothing, but for a result: then there is none.
    found = {k: v for k, v in found.items() if k in wanted or k == "result"}
    check_equal("outcome", found, wanted)
    check_equal("outcome.decision", outcome.decision.value, _decision(wanted).value)


def _decision(expected: Mapping[str, Any]) -> Decision:
    """Return the one word that our outcome has for it all."""
    if expected["decision"] == "deny":
        return Decision.DENY
    if expected["flow"] == "stop":
        return Decision.STOP
    if expected["decision"] == "ask":
        return Decision.ASK
    return Decision.SUPPLIED if "result" in expected else Decision.PROCEED
