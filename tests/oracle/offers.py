"""What can be offered to one receiver, worked out once more from the rules and its view alone."""

from __future__ import annotations

from typing import Any, Optional

from oracle.cases import GRANTS
from oracle.content import Payload

__all__ = ["answerable", "fitting", "list_at", "withheld"]


def list_at(event: Payload) -> Any:
    """Return the list of an event that ``modify`` changes, None where it is not there."""
    granted = GRANTS[event["type"]]
    if granted.shape == "text":
        return event.get(str(granted.target))
    return event["message"]["messages"] if "message" in event else event["items"]


def withheld(entries: Any) -> bool:
    """Return whether some text in a list of messages or of parts is not shown."""
    parts = [part for one in entries for part in one.get("parts", [one])]
    return any(part["kind"] == "text" and "text" not in part for part in parts)


def answerable(view: Payload, capabilities: Payload, request: Optional[Payload]) -> bool:
    """Return whether a receiver may answer an elicitation in the user's place (R-ELI-04)."""
    block = view["elicitation"]
    if block["mode"] not in capabilities.get("elicitation", {}):
        return False
    if view["type"] == "user.elicitation.request":
        return "text" in block.get("request", {})
    accepted = block["mode"] == "form" and block["action"] == "accept"
    asked = {} if request is None else request["elicitation"].get("request", {})
    return accepted and "text" in block.get("result", {}) and "text" in asked


def fitting(capabilities: Payload, view: Payload, request: Optional[Payload]) -> Payload:
    """Return what is left of a grant for a receiver of this view.

    Whole lists are not replaced over hidden text (R-EFF-03), text that is not seen is not edited
    (R-CON-07), and no more is offered than could be accepted (R-CAP-02).
    """
    granted = GRANTS[view["type"]]
    modify = capabilities.get("modify", {}).get(granted.target)
    gone = set()
    if granted.shape == "messages" and withheld(list_at(view)):
        modify = modify and {**modify, "replace": False}
    elif granted.shape == "text":
        text = list_at(view)
        if text is None or withheld(text):
            modify = None
        if text is not None and withheld(text):
            gone.add("return")
    elif "elicitation" in view["type"] and not answerable(view, capabilities, request):
        modify = None
        gone.add("return")
    if modify is None or not (modify["replace"] or modify["merge"]):
        gone.add("modify")
    block = {name: value for name, value in capabilities.items() if name not in gone}
    if "modify" in block:
        block["modify"] = {granted.target: modify}
    block["effects"] = [name for name in capabilities["effects"] if name not in gone]
    return block
