"""What an event after a change has to tell, which its schema can't say."""

from __future__ import annotations

from typing import Any, Mapping

from ahp_sync.errors import InvalidEvent
from ahp_sync.protocol.equality import json_equal

__all__ = ["check_change"]


def check_change(event_type: str, payload: Mapping[str, Any]) -> None:
    """Check that the event after a change tells of one (R-PAY-05).

    ``payload`` is made of plain JSON values; what is not of its schema passes. Raises
    :class:`InvalidEvent` where nothing in ``change`` differs from ``prior``.
    """
    member = _CHANGED.get(event_type)
    if member is None:
        return
    block = payload.get(member)
    if not isinstance(block, dict) or block.get("operation") == "remove":
        return
    change, prior = block.get("change"), block.get("prior")
    if not isinstance(change, dict) or not isinstance(prior, dict):
        return
    if all(name in prior and json_equal(change[name], prior[name]) for name in change):
        raise InvalidEvent(f"$.{member}.change", "nothing new", "a change of what was prior")


_CHANGED = {"task.change.after": "task", "workspace.change.after": "workspace"}
