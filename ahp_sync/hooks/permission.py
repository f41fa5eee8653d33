"""The hook methods of ``tool.permission.*`` events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional, Sequence

from ahp_sync.hooks.base import Dispatcher
from ahp_sync.hooks.making import given
from ahp_sync.hooks.options import CallOptions
from ahp_sync.hooks.tool import tool_call
from ahp_sync.outcome import Outcome
from ahp_sync.protocol.payloads import (
    Batch,
    DecidedBy,
    Id,
    Json,
    McpTool,
    Part,
    PermissionDecision,
    ToolOrigin,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["PermissionHooks"]


class PermissionHooks(Dispatcher):
    """``tool.permission.request`` and ``tool.permission.resolved``."""

    def tool_permission_request(
        self,
        *,
        name: str,
        input: Json,
        call_id: Id,
        suggestions: Sequence[Json] = (),
        sandbox_bypass: bool = False,
        origin: ToolOrigin = "native",
        kind: Optional[str] = None,
        mcp: Optional[McpTool] = None,
        path: str = "native",
        batch: Optional[Batch] = None,
        items: Optional[Sequence[Part]] = None,
        **options: Unpack[CallOptions],
    ) -> Outcome:
        """Ask before the host asks its user for a permission (``tool.permission.request``).

        A backend may deny or allow it, modify the input or stop the flow. An allowance spares the
        prompt and grants nothing else (R-SET-13). The payload is
        :class:`~ahp_sync.payloads.ToolPermissionRequest`.

        :param suggestions: rules of the host's own that would settle it, as JSON objects.
        :param sandbox_bypass: whether the call wants out of the sandbox.

        Everything else, and what it returns and raises, is as in :meth:`tool_before`.
        """
        payload = {
            **tool_call(name, input, call_id, origin, kind, mcp, path, batch),
            "suggestions": suggestions,
            "sandboxBypass": sandbox_bypass,
            **given(items=items),
        }
        return self._send("tool.permission.request", payload, options)

    def tool_permission_resolved(
        self,
        *,
        name: str,
        input: Json,
        call_id: Id,
        decision: PermissionDecision,
        decided_by: DecidedBy,
        origin: ToolOrigin = "native",
        kind: Optional[str] = None,
        mcp: Optional[McpTool] = None,
        path: str = "native",
        batch: Optional[Batch] = None,
        items: Optional[Sequence[Part]] = None,
        **options: Unpack[CallOptions],
    ) -> Outcome:
        """Tell how a permission was decided, and by whom (``tool.permission.resolved``).

        It is only observed. The payload is :class:`~ahp_sync.payloads.ToolPermissionResolved`.

        :param decision: allow or deny.
        :param decided_by: user, policy, hook, auto or classifier.

        Everything else, and what it returns and raises, is as in :meth:`tool_before`.
        """
        payload = {
            **tool_call(name, input, call_id, origin, kind, mcp, path, batch),
            "decision": decision,
            "decidedBy": decided_by,
            **given(items=items),
        }
        return self._send("tool.permission.resolved", payload, options)
