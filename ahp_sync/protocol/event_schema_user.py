"""Schemas of ``user.*`` events."""

from __future__ import annotations

from ahp_sync.protocol.content_schema import TEXT_PART, TEXTS, messages_of
from ahp_sync.protocol.event_schema import event
from ahp_sync.protocol.schema_forms import NAME, Schema, closed, one_of

__all__ = ["USER_EVENTS"]

_ELICITATION = {"server": NAME, "mode": one_of("form", "url")}
_ACTION = one_of("accept", "decline", "cancel")

USER_EVENTS: dict[str, Schema] = {
    "user.attention": event(
        {"attention": closed({"kind": NAME, "message": TEXTS, "title": TEXTS})}
    ),
    "user.elicitation.request": event(
        {"elicitation": closed(_ELICITATION, {"request": TEXT_PART})}
    ),
    "user.elicitation.result": event(
        {"elicitation": closed({**_ELICITATION, "action": _ACTION}, {"result": TEXT_PART})}
    ),
    "user.message.inbound": event(
        {"message": closed({"channel": NAME, "sender": NAME, "messages": messages_of("user")})}
    ),
    "user.message.outbound": event(
        {"message": closed({"channel": NAME, "messages": messages_of("assistant")})}
    ),
}
