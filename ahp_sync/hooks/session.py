"""The hook methods of ``session.*`` events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Mapping, Optional, Sequence

from ahp_sync.hooks.base import Dispatcher
from ahp_sync.hooks.making import given, identity
from ahp_sync.hooks.options import EventOptions
from ahp_sync.outcome import Outcome
from ahp_sync.protocol.occurrence import Session
from ahp_sync.protocol.payloads import (
    Id,
    Json,
    Message,
    Part,
    SessionOutcome,
    SessionTrigger,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["SessionHooks"]


class SessionHooks(Dispatcher):
    """``session.start`` and ``session.end``."""

    def session_start(
        self,
        *,
        session: Session,
        trigger: SessionTrigger = "startup",
        permission_mode: str = "default",
        items: Sequence[Message] = (),
        resumed_from: Optional[Id] = None,
        manifest: Optional[Json] = None,
        **options: Unpack[EventOptions],
    ) -> Outcome:
        """Tell that a session begins (``session.start``), before anything else of it.

        A backend may inject context. The payload is :class:`~ahp_sync.payloads.SessionStart`.

        :param trigger: startup, resume, clear, compact or fork; clear and fork need
            ``resumed_from``, the earlier session.
        :param permission_mode: the host's own word for how permissions are given.
        :param items: messages that the session begins with.
        :param manifest: what the harness can do; by default what its capabilities declare.

        Everything else, and what it returns and raises, is as in :meth:`tool_before`.
        """
        resumed = None if resumed_from is None else identity(resumed_from)
        payload = {
            "trigger": trigger,
            "permissionMode": permission_mode,
            "items": items,
            **given(resumedFrom=resumed, manifest=manifest),
        }
        return self._send("session.start", payload, options, session=session)

    def session_end(
        self,
        *,
        session: Session,
        outcome: SessionOutcome = "completed",
        reason: str = "finished",
        counters: Optional[Mapping[str, int]] = None,
        items: Optional[Sequence[Part]] = None,
        **options: Unpack[EventOptions],
    ) -> Outcome:
        """Tell that a session ended (``session.end``), after everything else of it.

        It is only observed. The payload is :class:`~ahp_sync.payloads.SessionEnd`.

        :param outcome: completed, cancelled, error or unknown; ``reason`` says why, in words.
        :param counters: totals of the session by name, integers from 0.

        Everything else, and what it returns and raises, is as in :meth:`tool_before`.
        """
        payload = {
            "outcome": outcome,
            "reason": reason,
            **given(counters=counters, items=items),
        }
        return self._send("session.end", payload, options, session=session)
