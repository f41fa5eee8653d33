"""Payloads of ``user.*`` events."""

from __future__ import annotations

from typing import Literal, Sequence, TypedDict

from ahp_sync.protocol.payloads.content import Message, TextPart
from ahp_sync.protocol.payloads.objects import PayloadWithParts

__all__ = [
    "Attention",
    "ElicitationAction",
    "ElicitationAnswer",
    "ElicitationMode",
    "ElicitationQuestion",
    "InboundMessage",
    "OutboundMessage",
    "UserAttention",
    "UserElicitationRequest",
    "UserElicitationResult",
    "UserMessageInbound",
    "UserMessageOutbound",
]

#: Whether the user fills in a form, or is sent to a web page (R-ELI-02).
ElicitationMode = Literal["form", "url"]

#: What the user did about it.
ElicitationAction = Literal["accept", "decline", "cancel"]


class Attention(TypedDict):
    """What the user is told: ``kind`` is the host's own word, the texts are lists of parts."""

    kind: str
    message: Sequence[TextPart]
    title: Sequence[TextPart]


class UserAttention(PayloadWithParts):
    """``user.attention``: the host wants the user to look.

    Only observed.
    """

    attention: Attention


class _Elicitation(TypedDict):
    server: str
    mode: ElicitationMode


class ElicitationQuestion(_Elicitation, total=False):
    """What an MCP server asks; the text of ``request`` is the complete MCP params (R-ELI-01)."""

    request: TextPart


class UserElicitationRequest(PayloadWithParts):
    """``user.elicitation.request``: an MCP server wants to ask the user.

    A ``return`` brings the complete MCP result, in the user's place (R-PAY-01, R-ELI-04).

    Interceptable: deny, return.
    """

    elicitation: ElicitationQuestion


class _ElicitationAnswer(_Elicitation):
    action: ElicitationAction


class ElicitationAnswer(_ElicitationAnswer, total=False):
    """What the user answered; the text of ``result`` is the complete MCP result (R-ELI-01)."""

    result: TextPart


class UserElicitationResult(PayloadWithParts):
    """``user.elicitation.result``: what the user answered, on its way to the MCP server.

    ``parentEventId`` is the request's event; without it no answer can be changed (R-ELI-04).

    Interceptable: modify(content).
    """

    elicitation: ElicitationAnswer


class InboundMessage(TypedDict):
    """What somebody sent by a channel; every message has the role ``user``."""

    channel: str
    sender: str
    messages: Sequence[Message]


class UserMessageInbound(PayloadWithParts):
    """``user.message.inbound``: a message has come by a channel, and no turn has begun with it.

    Interceptable: deny, modify(prompt).
    """

    message: InboundMessage


class OutboundMessage(TypedDict):
    """What is to be sent by a channel; every message has the role ``assistant``."""

    channel: str
    messages: Sequence[Message]


class UserMessageOutbound(PayloadWithParts):
    """``user.message.outbound``: a message is about to be sent by a channel.

    Interceptable: deny, modify(content).
    """

    message: OutboundMessage
