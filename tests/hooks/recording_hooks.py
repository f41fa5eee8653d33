"""Hooks that keep what would be dispatched, and the event that it would be on the wire."""

from __future__ import annotations

from typing import Any, Optional

from ahp_sync import Capabilities, Decision, Harness, Outcome
from ahp_sync.hooks import Hooks
from ahp_sync.protocol.occurrence import Origin, session_object

__all__ = ["RecordingHooks"]

ORIGIN = Origin("urn:example:tests", Harness("tests", "1"))


class RecordingHooks(Hooks):
    """Takes down the last call of ``dispatch``: the event's type, its payload and the options."""

    def __init__(self) -> None:
        self.event_type = ""
        self.payload: dict[str, Any] = {}
        self.options: dict[str, Any] = {}

    def dispatch(self, event_type: str, payload: Any, **options: Any) -> Outcome:
        """Keep the call; nothing speaks against it."""
        self.event_type, self.payload, self.options = event_type, payload, options
        return Outcome(decision=Decision.PROCEED, event={"type": event_type, **payload})

    def sent(self, method: str, **arguments: Any) -> dict[str, Any]:
        """Make the call and return its payload."""
        getattr(self, method)(**arguments)
        return self.payload

    @property
    def event(self) -> dict[str, Any]:
        """The last call as a whole event, checked by the client's own rules."""
        options: dict[str, Optional[Any]] = dict(self.options)
        envelope = {
            "session": session_object(options.pop("session", None)),
            "turn": options.pop("turn", None),
            "parentEventId": options.pop("parent_event_id", None),
            "synthesized": options.pop("synthesized", None),
            "extensions": options.pop("extensions", None),
        }
        members = {name: value for name, value in envelope.items() if value is not None}
        if self.event_type == "session.start":
            members.setdefault("manifest", Capabilities().manifest())
        options = {
            name: options[name] for name in ("event_id", "time", "native") if name in options
        }
        return ORIGIN.event(self.event_type, {**members, **self.payload}, **options)
