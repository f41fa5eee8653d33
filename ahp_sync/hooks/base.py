"""What the hook methods stand on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import datetime
from typing import Any, Mapping, Optional

from ahp_sync.budget import Budget
from ahp_sync.codecs import Codec
from ahp_sync.grants import Grant
from ahp_sync.hooks.making import identity
from ahp_sync.outcome import Outcome
from ahp_sync.protocol.occurrence import Session
from ahp_sync.protocol.payloads import Json
from ahp_sync.settlement import HostState

__all__ = ["Dispatcher"]


class Dispatcher(ABC):
    """Something that can raise an event."""

    @abstractmethod
    def dispatch(
        self,
        event_type: str,
        payload: Json,
        *,
        session: Optional[Session] = None,
        turn: Optional[Json] = None,
        parent_event_id: Optional[str] = None,
        extensions: Optional[Json] = None,
        native: Any = None,
        event_id: Optional[str] = None,
        time: Optional[datetime] = None,
        budget: Optional[Budget] = None,
        capabilities: Optional[Grant] = None,
        state: Optional[HostState] = None,
        input_codec: Optional[Codec] = None,
        result_codec: Optional[Codec] = None,
        request: Optional[Json] = None,
        synthesized: Optional[bool] = None,
    ) -> Outcome:
        """Raise an event, its payload as JSON members; see the client's."""

    def _send(
        self, event_type: str, payload: Json, options: Mapping[str, object], **more: Any
    ) -> Outcome:
        """Raise an event with the options of a hook method, and ``more`` for ``dispatch``."""
        given: dict[str, Any] = {**options, **more}
        gaps = given.pop("gaps", None)
        if gaps is not None:
            payload = {**payload, "gaps": gaps}
        if given.get("turn") is not None:
            given["turn"] = identity(given["turn"])
        return self.dispatch(event_type, payload, **given)
