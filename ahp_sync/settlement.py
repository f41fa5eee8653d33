"""Settlement: what accepted effects make of an event. Pure functions, no clock and no I/O.

A state is replaced as a whole or not at all, so a response applies fully or leaves no trace
(R-SET-03).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import Any, Optional

__all__ = ["Permission", "State", "settle"]


class Permission(str, enum.Enum):
    """The accumulated permission of a chain; deny beats the others (R-SET-07)."""

    NONE = "none"
    DENY = "deny"


@dataclass(frozen=True)
class State:
    """What a chain has settled so far: the effective event, the permission, and why."""

    event: dict[str, Any]
    permission: Permission = Permission.NONE
    reason: Optional[str] = None
    code: Optional[str] = None

    @property
    def ended(self) -> bool:
        """Whether no further interceptor may be called (R-SET-08)."""
        return self.permission is Permission.DENY

    def advertised(self) -> dict[str, Any]:
        """Return ``params.state``: what the next interceptor is told (R-CAP-04)."""
        return {"permission": self.permission.value, "candidate": None}


def settle(state: State, effects: tuple[dict[str, Any], ...]) -> State:
    """Return the state after one admitted response. The first denial gives the reason."""
    for effect in effects:
        if effect["type"] == "deny" and state.permission is not Permission.DENY:
            state = replace(
                state,
                permission=Permission.DENY,
                reason=effect["reason"],
                code=effect.get("code"),
            )
    return state
