"""From the wire's words to the calls of the API that a host would make to have them sent.

What the API has no words for is put in as it stands, so that the API itself says what it thinks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Optional, Union

from ahp_sync import Candidate, Capabilities, Elicitation, Flow, Grant, HostState, Inject, Modify
from ahp_sync.protocol.events import EVENTS

__all__ = ["WHOLE", "grant", "host_state", "moment", "occurrence"]

#: A host that can do everything; the calls narrow it to what their scenario says.
WHOLE = Capabilities.whole(max_continuations=1000)


def grant(block: Mapping[str, Any], event_type: str) -> Grant:
    """Return the grant for ``params.capabilities``. Raises what the API raises at an odd one."""
    known = ("modify", "flow", "inject", "elicitation")
    details = {name: block[name] for name in known if name in block}
    kinds: dict[str, Any] = {}
    if "modify" in details:
        kinds["modify"] = _modify(details["modify"], event_type)
    if "flow" in details:
        flow = details["flow"]
        kinds["flow"] = Flow(
            tuple(flow["operations"]),
            max_continuations=flow.get("maxContinuations"),
            continuation_count=flow.get("continuationCount"),
            remaining_continuations=flow.get("remainingContinuations"),
        )
    if "inject" in details:
        kinds["inject"] = Inject(tuple(details["inject"]["context"]["deliverAt"]))
    if "elicitation" in details:
        modes = details["elicitation"]
        kinds["elicitation"] = Elicitation(form="form" in modes, url="url" in modes)
    plain = tuple(name for name in block.get("effects", ()) if name not in details)
    made = Grant(plain, **kinds)
    made.check(event_type)
    return made


def _modify(targets: Mapping[str, Any], event_type: str) -> Any:
    target = EVENTS[event_type].target
    if target is None or set(targets) != {target.name}:
        return targets  # a grant knows the event's own target only
    return Modify(**{"replace": False, "merge": False, **targets[target.name]})


def host_state(block: Optional[Mapping[str, Any]]) -> Optional[HostState]:
    """Return the host's own state for ``params.state``, None where there is none."""
    if block is None:
        return None
    given = block["candidate"]
    return HostState(
        permission=block["permission"],
        candidate=None if given is None else Candidate(given["value"], given.get("provenance")),
        flow=block.get("flow"),
        instructions=block.get("instructions"),
        injections=tuple(block.get("injections", ())),
    )


# Member of an event -> the option of a hook call that brings it.
_OPTIONS = {
    "id": "event_id",
    "time": "time",
    "session": "session",
    "turn": "turn",
    "parentEventId": "parent_event_id",
    "extensions": "extensions",
    "native": "native",
    "synthesized": "synthesized",
}
_CLIENTS_OWN = ("type", "source", "harness")


def occurrence(event: Mapping[str, Any]) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Return type, payload and options of the hook call that raises this event."""
    options = {_OPTIONS[name]: value for name, value in event.items() if name in _OPTIONS}
    options["time"] = moment(options["time"])
    payload = {
        name: value
        for name, value in event.items()
        if name not in _OPTIONS and name not in _CLIENTS_OWN
    }
    return event["type"], payload, options


_RFC_3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")


def moment(text: str) -> Union[datetime, str]:
    """Return an RFC 3339 time, or the text itself where it is none."""
    if _RFC_3339.fullmatch(text) is None:
        return text
    return datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith("Z") else text)
