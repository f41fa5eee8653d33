"""The typed hook methods: one for each event, all of them short ways to ``dispatch``.

A method takes its event's payload in Python's terms (see :mod:`ahp_sync.payloads` for the wire's)
and makes up what a host need not have: ids where there are none, messages and parts for plain text.
Nothing is sent by them, and nothing is checked that ``dispatch`` checks.
"""

from __future__ import annotations

from ahp_sync.hooks.config import ConfigHooks
from ahp_sync.hooks.context import ContextHooks
from ahp_sync.hooks.elicitation import ElicitationHooks
from ahp_sync.hooks.failure import FailureHooks
from ahp_sync.hooks.model import ModelHooks
from ahp_sync.hooks.options import CallOptions, EventOptions
from ahp_sync.hooks.permission import PermissionHooks
from ahp_sync.hooks.session import SessionHooks
from ahp_sync.hooks.tool import ToolHooks
from ahp_sync.hooks.turn import TurnHooks
from ahp_sync.hooks.user import UserHooks
from ahp_sync.hooks.work import WorkHooks

__all__ = ["CallOptions", "EventOptions", "Hooks"]


class Hooks(
    SessionHooks,
    ConfigHooks,
    TurnHooks,
    ModelHooks,
    ToolHooks,
    PermissionHooks,
    ContextHooks,
    WorkHooks,
    UserHooks,
    ElicitationHooks,
    FailureHooks,
):
    """One method for each event of the protocol, over a ``dispatch`` that a subclass has."""
