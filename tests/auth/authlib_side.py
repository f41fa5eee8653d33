"""Authlib's server, told where codes and tokens are kept and what a resource is (RFC 8707)."""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING, Any, Optional

from authlib.integrations.flask_oauth2 import AuthorizationServer
from authlib.oauth2.rfc6749 import InvalidRequestError, OAuth2Error, grants
from authlib.oauth2.rfc7636 import CodeChallenge
from flask import Flask, g, request
from token_store import Code, Issued, TokenStore

if TYPE_CHECKING:
    from authorization_server import AuthorizationServer as Owner

__all__ = ["Authlib"]

METHODS = ["client_secret_basic", "client_secret_post", "none"]


class InvalidTargetError(OAuth2Error):  # type: ignore[misc]
    """The resource is none that tokens are issued for."""

    error = "invalid_target"


class _S256Only(CodeChallenge):  # type: ignore[misc]
    SUPPORTED_CODE_CHALLENGE_METHOD = ("S256",)

    def validate_code_challenge(self, grant: Any, redirect_uri: str) -> None:
        if not request.args.get("code_challenge") or not request.args.get("code_challenge_method"):
            raise InvalidRequestError("PKCE is required, with S256")
        super().validate_code_challenge(grant, redirect_uri)


class _ClientCredentials(grants.ClientCredentialsGrant):  # type: ignore[misc]
    TOKEN_ENDPOINT_AUTH_METHODS = METHODS[:2]


class _AuthorizationCode(grants.AuthorizationCodeGrant):  # type: ignore[misc]
    TOKEN_ENDPOINT_AUTH_METHODS = METHODS

    @property
    def _store(self) -> TokenStore:
        return self.server.owner.store  # type: ignore[no-any-return]

    def save_authorization_code(self, code: str, request: Any) -> None:
        data = request.payload.data
        self._store.add_code(
            Code(
                code,
                request.client.client_id,
                request.payload.redirect_uri,
                request.payload.scope or "",
                self.server.wanted_resource(None),
                data.get("code_challenge"),
                data.get("code_challenge_method"),
                TokenStore.new_family(),
            )
        )

    def query_authorization_code(self, code: str, client: Any) -> Optional[Code]:
        g.origin = self._store.take_code(code, client)
        return g.origin  # type: ignore[no-any-return]

    def delete_authorization_code(self, authorization_code: Code) -> None:
        """Done when it was taken, so that no two requests get it."""

    def authenticate_user(self, authorization_code: Code) -> str:
        return "user"


class _RefreshToken(grants.RefreshTokenGrant):  # type: ignore[misc]
    TOKEN_ENDPOINT_AUTH_METHODS = METHODS
    INCLUDE_NEW_REFRESH_TOKEN = True

    def authenticate_refresh_token(self, refresh_token: str) -> Optional[Issued]:
        store: TokenStore = self.server.owner.store
        g.origin = store.take_refresh_token(refresh_token, self.request.client)
        return g.origin  # type: ignore[no-any-return]

    def authenticate_user(self, refresh_token: Issued) -> str:
        return "user"

    def revoke_old_credential(self, refresh_token: Issued) -> None:
        """Done when it was taken, so that no two requests get it."""


class Authlib(AuthorizationServer):  # type: ignore[misc]
    """The library's server for ``owner``, which has the clients, the store and the knobs."""

    def __init__(self, app: Flask, owner: Owner) -> None:
        self.owner = owner
        app.config["OAUTH2_SCOPES_SUPPORTED"] = list(owner.scopes)
        super().__init__(app, owner.clients.get, lambda token, request: None)
        self.register_token_generator("default", self._generate)
        self.register_grant(_ClientCredentials)
        self.register_grant(_AuthorizationCode, [_S256Only(required=True)])
        self.register_grant(_RefreshToken)

    def wanted_resource(self, granted: Optional[str]) -> Optional[str]:
        """Return the resource that the request names, else the one ``granted`` before."""
        named = request.values.getlist("resource")
        if len(named) > 1:
            raise InvalidTargetError("one resource a token")
        wanted = named[0] if named else granted
        if granted is not None and wanted != granted:
            raise InvalidTargetError("not the resource that was granted")
        if wanted is not None and self.owner.resources and wanted not in self.owner.resources:
            raise InvalidTargetError("no token is issued for this resource")
        return wanted

    def _generate(
        self,
        grant_type: str,
        client: Any,
        user: Any = None,
        scope: Optional[str] = None,
        expires_in: Optional[int] = None,
        include_refresh_token: bool = True,
    ) -> dict[str, Any]:
        owner, origin = self.owner, g.get("origin")
        issued = Issued(
            "",
            secrets.token_urlsafe(24)
            if include_refresh_token or owner.refresh_tokens_for_clients
            else None,
            client.client_id,
            scope or "",
            self.wanted_resource(origin.resource if origin else None),
            origin.family if origin else TokenStore.new_family(),
            grant_type,
            time.monotonic() + owner.lifetime,
        )
        issued.access_token = (
            owner.sign(owner.claims(issued)) if owner.jwt else secrets.token_urlsafe(24)
        )
        owner.store.add(issued)
        g.issued = issued
        answer = {
            "token_type": "Bearer",
            "access_token": issued.access_token,
            "expires_in": owner.lifetime,
            "refresh_token": issued.refresh_token,
            "scope": issued.scope,
        }
        return {name: value for name, value in answer.items() if value not in (None, "")}
