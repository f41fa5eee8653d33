"""What the host allows of OAuth: whom it trusts, as which client, and how a user is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Callable, Optional

from ahp_sync.budget import positive_seconds

__all__ = ["OAuthClient", "OAuthPolicy"]

FLOWS = ("client_credentials", "authorization_code_pkce")


@dataclass(frozen=True)
class OAuthClient:
    """The client that the host is at one authorization server.

    :param client_id: as it was registered there.
    :param flow: ``"client_credentials"`` or ``"authorization_code_pkce"``.
    :param client_secret_ref: what the client's ``tokens`` know its secret as.
    :param scopes: which scopes may be asked for, at most.

    Raises :class:`TypeError` and :class:`ValueError` for what makes no sense.
    """

    client_id: str
    flow: str = "client_credentials"
    client_secret_ref: Optional[str] = None
    scopes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.client_id, str) or not self.client_id:
            raise ValueError("client_id must be a non-empty text")
        if self.flow not in FLOWS:
            raise ValueError(f"flow must be one of {', '.join(FLOWS)}, not {self.flow!r}")
        if self.flow == FLOWS[0] and not self.client_secret_ref:
            raise ValueError("client_credentials needs a client_secret_ref")
        if isinstance(self.scopes, str):
            raise TypeError("scopes must be a tuple of texts")
        object.__setattr__(self, "scopes", tuple(self.scopes))


@dataclass(frozen=True)
class OAuthPolicy:
    """What the host allows of OAuth. All times are in seconds.

    :param issuers: the authorization servers that are trusted when an endpoint without a binding of
        its own names them after a 401, each with the client that the host is there. Without any,
        nothing is discovered.
    :param open_url: shows the user a URL to go to; ``receive_code(seconds)`` waits at most so long
        and returns the whole URL that the user was sent back to, which begins with
        ``redirect_uri``. All three are needed for ``authorization_code_pkce``.
    :param acquisition_timeout: how long getting one token may take, for all who wait for it;
        ``interaction_timeout`` likewise where a user is asked.
    """

    issuers: Mapping[str, OAuthClient] = field(default_factory=dict)
    open_url: Optional[Callable[[str], object]] = None
    receive_code: Optional[Callable[[float], str]] = None
    redirect_uri: Optional[str] = None
    acquisition_timeout: float = 10.0
    interaction_timeout: float = 120.0

    def __post_init__(self) -> None:
        for issuer, client in self.issuers.items():
            if not isinstance(client, OAuthClient):
                raise TypeError(f"issuers: {issuer!r} needs an OAuthClient")
            if not issuer.startswith("https://"):
                raise ValueError(f"issuers: {issuer!r} is no https URL")
        object.__setattr__(self, "issuers", MappingProxyType(dict(self.issuers)))
        for name in ("open_url", "receive_code"):
            callback = getattr(self, name)
            if not (callback is None or callable(callback)):
                raise TypeError(f"{name} must be callable, not {type(callback).__name__}")
        given = [self.open_url, self.receive_code, self.redirect_uri]
        if any(one is not None for one in given) and any(one is None for one in given):
            raise ValueError("open_url, receive_code and redirect_uri go together")
        positive_seconds(self.acquisition_timeout, "acquisition_timeout")
        positive_seconds(self.interaction_timeout, "interaction_timeout")

    @property
    def is_interactive(self) -> bool:
        """Whether a user can be asked."""
        return self.open_url is not None
