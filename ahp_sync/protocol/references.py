"""The references of attachments: each receiver knows them by its own, the host by a local one.

What a receiver was sent and what it answers is brought back to local references at this border, so
that no receiver ever meets another one's (R-UPL-05) and everything behind it deals with one kind.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Hashable, Mapping
from typing import Any, Optional

from ahp_sync.protocol.effects import refused
from ahp_sync.protocol.equality import json_key
from ahp_sync.protocol.events import EVENTS, Shape
from ahp_sync.protocol.slots import part_paths, parts_of, replaced

__all__ = ["LOCAL", "References", "local_references", "with_gaps"]

#: How every local reference begins. What comes behind it can't be guessed, and is never sent.
LOCAL = "urn:ahp-sync:attachment:"

Part = dict[str, Any]
_MESSAGE_PARTS = ("*", "parts", "*")


def local_references(event: dict[str, Any]) -> list[str]:
    """Return the local references of an event, or of a view of it, each once."""
    found = (_reference(part) for part in parts_of(event) if "body" in part)
    return list(dict.fromkeys(ref for ref in found if ref.startswith(LOCAL)))


def with_gaps(view: dict[str, Any], missing: Collection[str], reason: str) -> dict[str, Any]:
    """Return a view with a gap in place of each body that is ``missing`` (R-CON-07)."""

    def gap(part: Part) -> Part:
        if "body" not in part or _reference(part) not in missing:
            return part
        kept = {name: value for name, value in part.items() if name != "body"}
        return {**kept, "gap": {"reason": reason}}

    return _in_event(view, gap)


class References:
    """Between one receiver's references and the local ones of what it is sent.

    :param view: what it may see of the event, with local references.
    :param refs: its own reference for each of them.
    """

    def __init__(self, view: dict[str, Any], refs: Mapping[str, str]) -> None:
        self._refs = refs
        self._origins: dict[Hashable, Part] = {}
        #: The view as it is sent.
        self.view = _in_event(view, self._sent) if refs else view

    def state(self, state: dict[str, Any]) -> dict[str, Any]:
        """Return ``params.state`` as it is sent. A body that was not uploaded here is metadata."""
        candidate, injections = state.get("candidate"), state.get("injections")
        if candidate and EVENTS[self.view["type"]].returns is Shape.MESSAGES:
            state = {**state, "candidate": self._in_value(candidate, self._told)}
        if injections:
            told = [self._in_value(effect, self._told) for effect in injections]
            state = {**state, "injections": told}
        return state

    def restored(self, effects: tuple[dict[str, Any], ...]) -> tuple[dict[str, Any], ...]:
        """Return a receiver's effects with local references for its own.

        A part that was carried over whole gets its own back. Another one keeps what it has, and is
        then no attachment that was shown (R-EFF-02). Raises ``OperationalFailure`` for a local
        reference, which the receiver can't know.
        """
        returns = EVENTS[self.view["type"]].returns
        return tuple(
            self._in_value(effect, self._brought)
            if effect["type"] in _WITH_MESSAGES
            or (effect["type"] == "return" and returns is Shape.MESSAGES)
            else effect
            for effect in effects
        )

    def _sent(self, part: Part) -> Part:
        ref = self._refs.get(_reference(part)) if "body" in part else None
        if ref is None:
            return part
        sent = {**part, "body": {"ref": ref}}
        self._origins[json_key(sent)] = part
        return sent

    def _told(self, part: Part) -> Part:
        if "body" not in part or not _reference(part).startswith(LOCAL):
            return part
        ref = self._refs.get(_reference(part))
        if ref is not None:
            return {**part, "body": {"ref": ref}}
        kept = {name: value for name, value in part.items() if name != "body"}
        return {**kept, "selection": "metadata"}

    def _brought(self, part: Part) -> Part:
        if "body" not in part:
            return part
        if _reference(part).startswith(LOCAL):
            raise refused("unknown_reference", "a reference is none that was shown")
        return self._origins.get(json_key(part), part) if self._origins else part

    def _in_value(self, holder: dict[str, Any], change: Callable[[Part], Part]) -> dict[str, Any]:
        value = holder.get("value")
        if not isinstance(value, list):
            return holder
        changed = replaced(value, _MESSAGE_PARTS, functools.partial(_if_part, change))
        return holder if changed is value else {**holder, "value": changed}


_WITH_MESSAGES = ("inject", "modify")


def _if_part(change: Callable[[Part], Part], part: Any) -> Any:
    return change(part) if isinstance(part, dict) else part


def _reference(part: Part) -> str:
    body: Optional[Mapping[str, Any]] = part.get("body")
    ref = body.get("ref") if isinstance(body, Mapping) else None
    return ref if isinstance(ref, str) else ""


def _in_event(event: dict[str, Any], change: Callable[[Part], Part]) -> dict[str, Any]:
    for path in part_paths(event["type"]):
        if path[0] in event:
            event = replaced(event, path, change)
    return event
