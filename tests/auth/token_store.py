"""What the authorization server of the tests knows: clients, codes, tokens, and their families."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Optional

from authlib.oauth2.rfc6749 import ClientMixin

__all__ = ["Code", "Issued", "Registered", "TokenStore"]


@dataclass
class Registered(ClientMixin):  # type: ignore[misc]
    """A client. Without a ``secret`` it is a public one."""

    client_id: str
    secret: Optional[str] = field(default=None, repr=False)
    redirect_uris: tuple[str, ...] = ()
    grants: frozenset[str] = frozenset({"client_credentials", "refresh_token"})
    #: How it may say who it is at the token endpoint.
    methods: frozenset[str] = frozenset({"client_secret_basic", "client_secret_post"})

    def get_client_id(self) -> str:
        return self.client_id

    def get_default_redirect_uri(self) -> Optional[str]:
        return None

    def get_allowed_scope(self, scope: Optional[str]) -> str:
        return scope or ""

    def check_redirect_uri(self, redirect_uri: str) -> bool:
        return redirect_uri in self.redirect_uris

    def check_client_secret(self, client_secret: str) -> bool:
        return self.secret is not None and secrets.compare_digest(
            client_secret.encode(), self.secret.encode()
        )

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:
        return method in self.methods

    def check_response_type(self, response_type: str) -> bool:
        return response_type == "code" and "authorization_code" in self.grants

    def check_grant_type(self, grant_type: str) -> bool:
        return grant_type in self.grants


@dataclass
class Code:
    """An authorization code, for one use."""

    code: str = field(repr=False)
    client_id: str
    redirect_uri: str
    scope: str
    resource: Optional[str]
    code_challenge: Optional[str]
    code_challenge_method: Optional[str]
    family: str
    used: bool = False

    def get_redirect_uri(self) -> str:
        return self.redirect_uri

    def get_scope(self) -> str:
        return self.scope


@dataclass
class Issued:
    """An access token and the refresh token that came with it, if one did.

    ``expires_at`` is of ``time.monotonic()``; ``refreshed`` says whether the refresh token has been
    used. ``family`` is shared by all that go back to one grant.
    """

    access_token: str = field(repr=False)
    refresh_token: Optional[str] = field(repr=False)
    client_id: str
    scope: str
    resource: Optional[str]
    family: str
    grant_type: str
    expires_at: float
    refreshed: bool = False
    revoked: bool = False

    def check_client(self, client: Registered) -> bool:
        return self.client_id == client.client_id

    def get_scope(self) -> str:
        return self.scope


class TokenStore:
    """Everything that was issued, thread-safe. ``changed`` is notified when something is."""

    def __init__(self, changed: threading.Condition) -> None:
        self._changed = changed
        self._codes: dict[str, Code] = {}
        self.issued: list[Issued] = []
        self.revoked_families: list[str] = []

    @staticmethod
    def new_family() -> str:
        """Return the name of a new family of tokens."""
        return f"family-{secrets.token_hex(4)}"

    def add(self, issued: Issued) -> None:
        """Take in a token, revoked if its family was meanwhile."""
        with self._changed:
            issued.revoked = issued.family in self.revoked_families
            self.issued.append(issued)
            self._changed.notify_all()

    def add_code(self, code: Code) -> None:
        """Take in an authorization code."""
        with self._changed:
            self._codes[code.code] = code

    def take_code(self, value: str, client: Any) -> Optional[Code]:
        """Return a code at its first use by its client; a second use revokes what came of it."""
        with self._changed:
            code = self._codes.get(value)
            if code is None or code.client_id != client.client_id:
                return None
            if code.used:
                self.revoke_family(code.family)
                return None
            code.used = True
            return code

    def take_refresh_token(self, value: str, client: Any) -> Optional[Issued]:
        """Return whom a refresh token belongs to at its first use; a second revokes the family."""
        with self._changed:
            for one in self.issued:
                if one.refresh_token == value and one.check_client(client):
                    if one.refreshed:
                        self.revoke_family(one.family)
                    if one.refreshed or one.revoked:
                        return None
                    one.refreshed = True
                    return one
        return None

    def revoke_family(self, family: str) -> None:
        """Revoke every token of ``family``, access tokens among them."""
        with self._changed:
            if family not in self.revoked_families:
                self.revoked_families.append(family)
            self.revoke(one for one in self.issued if one.family == family)

    def revoke(self, those: Iterable[Issued]) -> None:
        """Revoke ``those``."""
        with self._changed:
            for one in those:
                one.revoked = True
            self._changed.notify_all()

    def find(self, access_token: str) -> Optional[Issued]:
        """Return what is known of a token that is good now, or None."""
        with self._changed:
            for one in self.issued:
                if secrets.compare_digest(one.access_token.encode(), access_token.encode()):
                    good = not one.revoked and time.monotonic() < one.expires_at
                    return one if good else None
        return None
