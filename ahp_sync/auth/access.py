"""Access tokens, and how long they are good for: by the wall clock and by the monotonic one (F56).

The monotonic clock stands still while the machine sleeps, the wall clock may be set back; a token
is over as soon as either says so.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Optional

from ahp_sync.registration import OAuthFlow

__all__ = ["AccessToken", "Freshness", "Grant"]

# How long before its end a token is refreshed while it is still used, and how long before it is
# not used any more: seconds, and the part of its lifetime if that is less.
_SOFT = (60.0, 0.2)
_HARD = (10.0, 0.05)


@dataclass(frozen=True)
class Grant:
    """What a token is asked for: the key of the cache (R-AUTH-06)."""

    issuer: str
    resource: str
    client_id: str
    scopes: tuple[str, ...]
    flow: str
    secret_ref: Optional[str]

    @property
    def asks_user(self) -> bool:
        """Whether a user has to grant it."""
        return self.flow == OAuthFlow.AUTHORIZATION_CODE_PKCE.value


class Freshness(enum.Enum):
    """How a token is to be treated now."""

    FRESH = "fresh"
    #: Still good; another one should be got meanwhile.
    AGEING = "ageing"
    OVER = "over"


@dataclass(frozen=True)
class AccessToken:
    """One bearer token.

    :ivar identity: what it was got for; the same for all tokens of a client at a resource.
    :ivar lifetime: seconds, or None for one that is good until it is refused.
    """

    value: str = field(repr=False)
    identity: Hashable
    lifetime: Optional[float] = None
    wall: float = field(default_factory=lambda: time.time())
    monotonic: float = field(default_factory=lambda: time.monotonic())

    def freshness(self) -> Freshness:
        """Return how it is to be treated now."""
        lifetime = self.lifetime
        if lifetime is None:
            return Freshness.FRESH
        age = max(time.time() - self.wall, time.monotonic() - self.monotonic)
        left = lifetime - age
        if left > min(_SOFT[0], lifetime * _SOFT[1]):
            return Freshness.FRESH
        return Freshness.AGEING if left > min(_HARD[0], lifetime * _HARD[1]) else Freshness.OVER
