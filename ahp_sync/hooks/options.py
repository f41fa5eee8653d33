"""What every hook method takes besides the payload of its event."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Optional, Sequence, TypedDict

from ahp_sync.budget import Budget
from ahp_sync.codecs import Codec
from ahp_sync.grants import Grant
from ahp_sync.protocol.occurrence import Session
from ahp_sync.protocol.payloads import Gap, Id, Json
from ahp_sync.settlement import HostState

__all__ = ["CallOptions", "CommonOptions", "EventOptions", "SessionOptions"]


class CommonOptions(TypedDict, total=False):
    """What every event may be raised with; all of it may be left out, and None is as left out.

    ``budget``: the time for the whole call; without it the limits of the subscriptions stand alone.
    ``event_id``: the event's id, made up by default; a retry of the host's has the same one.
    ``synthesized``: it was made up by the host. ``time``: when it happened, with a time zone; now
    by default. ``extensions``: members by reverse-DNS name (R-EXT-01). ``native``: the harness's
    own form of the event, for the subscriptions that ask for it. ``gaps``: what the host can't
    tell.

    For the events that backends may decide about: ``capabilities``, what this call grants, if less
    than was declared (R-CAP-01); ``state``, what the host itself has settled already (R-CAP-05);
    ``input_codec`` and ``result_codec``, which make the host's own values of a tool's input and of
    a supplied result, for the outcome's ``typed_input`` and ``typed_result``.

    Where a method takes a text for a whole message, the ids that it makes up for it begin with that
    of the turn, the attempt, the call or the event. These have to be unique within one ``source``,
    therefore: the same one with another role, for another session say, is refused (R-EVT-03).
    """

    budget: Optional[Budget]
    event_id: Optional[str]
    synthesized: Optional[bool]
    time: Optional[datetime]
    extensions: Optional[Json]
    native: Any
    gaps: Optional[Sequence[Gap]]
    capabilities: Optional[Grant]
    state: Optional[HostState]
    input_codec: Optional[Codec]
    result_codec: Optional[Codec]


class EventOptions(CommonOptions, total=False):
    """As :class:`CommonOptions`; ``parent_event_id`` is the event that it follows from."""

    parent_event_id: Optional[str]


class SessionOptions(EventOptions, total=False):
    """As :class:`EventOptions`, with the session it happens in: its id, or the whole object."""

    session: Optional[Session]


class CallOptions(SessionOptions, total=False):
    """As :class:`SessionOptions`, with the turn it happens in: its id, or the whole object."""

    turn: Optional[Id]
