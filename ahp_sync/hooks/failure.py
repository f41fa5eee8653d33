"""The hook method of ``hook.failure``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional, Sequence

from ahp_sync.hooks.base import Dispatcher
from ahp_sync.hooks.making import given
from ahp_sync.hooks.options import CommonOptions
from ahp_sync.outcome import Outcome
from ahp_sync.protocol.occurrence import Session
from ahp_sync.protocol.payloads import FailurePolicyName, Id, Part

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["FailureHooks"]


class FailureHooks(Dispatcher):
    """``hook.failure``."""

    def hook_failure(
        self,
        *,
        backend_id: str,
        reason: str,
        policy: FailurePolicyName,
        parent_event_id: str,
        session: Optional[Session] = None,
        turn: Optional[Id] = None,
        items: Optional[Sequence[Part]] = None,
        **options: Unpack[CommonOptions],
    ) -> Outcome:
        """Tell that a hook of the host's own has failed (``hook.failure``).

        The failures of the client's interceptors it tells by itself. It is only observed. The
        backend that it is about is not told, if that is one of the client's (R-FAIL-05). The
        payload is :class:`~ahp_sync.payloads.HookFailure`.

        :param backend_id: which one it is; ``reason``: why, without secrets and network details.
        :param policy: fail-open or fail-closed, as it was applied.
        :param parent_event_id: the event at which it failed.

        Everything else, and what it returns and raises, is as in :meth:`tool_before`.
        """
        failure = {"backendId": backend_id, "reason": reason, "policy": policy}
        payload = {"failure": failure, **given(items=items)}
        return self._send(
            "hook.failure",
            payload,
            options,
            parent_event_id=parent_event_id,
            session=session,
            turn=turn,
        )
