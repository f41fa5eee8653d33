"""Token requests and what comes back, by ``oauthlib``, which does no I/O of its own.

``oauthlib`` makes the bodies, the proof keys and the authorization URLs, and reads the answers;
``PyJWT`` reads the claims of a token that shows any. What is sent where, within which budget and to
which address, stays ours; that is why it is not a library with a session of its own.
"""

from __future__ import annotations

import base64
import json
import time
import urllib.parse
from collections.abc import Mapping
from typing import Any, Optional

from ahp_sync.auth.access import AccessToken, Grant
from ahp_sync.auth.challenge import BEARER_TOKEN
from ahp_sync.auth.metadata import Issuer
from ahp_sync.auth.web import UNSENT, Web, refusal
from ahp_sync.budget import Budget
from ahp_sync.failure import OperationalFailure

__all__ = ["InvalidGrant", "RefreshToken", "TokenAnswer", "TokenEndpoint", "prepare"]


_DISTANT = 1e11  # a time that no token sees, in seconds since 1970


def prepare() -> None:
    """Load the libraries, so that no call has to, and no fork meets them half loaded."""
    import jwt
    import oauthlib.oauth2

    assert jwt and oauthlib


class RefreshToken:
    """What another token is got for, once: it is ``spent`` as soon as it may have been sent."""

    def __init__(self, value: str) -> None:
        self.value = value
        self.spent = False


class TokenAnswer:
    """A token, and the refresh token that came with it, if one did."""

    def __init__(self, access: AccessToken, refresh_token: Optional[RefreshToken]) -> None:
        self.access = access
        self.refresh_token = refresh_token


class InvalidGrant(Exception):
    """Raised where the server takes the refresh token or the code no more."""


class TokenEndpoint:
    """The token endpoint of one authorization server, asked for one grant.

    :param secret: the client's secret, or None for a public client.
    """

    def __init__(self, issuer: Issuer, grant: Grant, secret: Optional[str], web: Web) -> None:
        self._issuer = issuer
        self._grant = grant
        self._secret = secret
        self._web = web

    def client_credentials(self, budget: Budget) -> TokenAnswer:
        """Return a token for the client itself (RFC 6749, section 4.4)."""
        from oauthlib.oauth2 import BackendApplicationClient

        self._check_flow()
        client = BackendApplicationClient(self._grant.client_id)
        body = client.prepare_request_body(scope=self._scopes, resource=self._grant.resource)
        return self._ask(body, budget)

    def refresh(self, refresh_token: RefreshToken, budget: Budget) -> TokenAnswer:
        """Return a token for a refresh token. Raises :class:`InvalidGrant` too."""
        from oauthlib.oauth2 import WebApplicationClient

        client = WebApplicationClient(self._grant.client_id)
        body = client.prepare_refresh_body(
            refresh_token=refresh_token.value, scope=self._scopes, resource=self._grant.resource
        )
        refresh_token.spent = True
        try:
            answer = self._ask(body, budget)
        except OperationalFailure as failure:
            refresh_token.spent = failure.code not in UNSENT
            raise
        if answer.refresh_token is None:  # then the old one stays good (RFC 6749, section 6)
            refresh_token.spent = False
            answer.refresh_token = refresh_token
        return answer

    def code(self, code: str, redirect_uri: str, verifier: str, budget: Budget) -> TokenAnswer:
        """Return a token for an authorization code (RFC 7636)."""
        from oauthlib.oauth2 import WebApplicationClient

        client = WebApplicationClient(self._grant.client_id)
        body = client.prepare_request_body(
            code=code,
            redirect_uri=redirect_uri,
            include_client_id=False,
            code_verifier=verifier,
            resource=self._grant.resource,
        )
        return self._ask(body, budget)

    @property
    def _scopes(self) -> Optional[list[str]]:
        return list(self._grant.scopes) or None

    def _check_flow(self) -> None:
        supported = self._issuer.grant_types
        if supported is not None and self._grant.flow not in supported:
            raise refusal("flow_unsupported", "the authorization server does not know the flow")

    def _ask(self, body: str, budget: Budget) -> TokenAnswer:
        headers, more = self._authentication()
        form = body + ("&" + urllib.parse.urlencode(more) if more else "")
        status, answer = self._web.post(self._issuer.token_endpoint, form, headers, budget)
        error = answer.get("error")
        if error == "invalid_grant":
            raise InvalidGrant
        if status != 200 or error is not None:
            known = error if isinstance(error, str) and error in _ERRORS else "an error"
            raise refusal("token_refused", f"the token endpoint answered with {known}")
        return self._token(answer)

    def _authentication(self) -> tuple[dict[str, str], dict[str, str]]:
        """Return the headers and form fields that say who asks (RFC 6749, section 2.3.1)."""
        client_id, secret = self._grant.client_id, self._secret
        if secret is None:
            return {}, {"client_id": client_id}
        methods = self._issuer.auth_methods
        if methods is None or "client_secret_basic" in methods:
            pair = ":".join(urllib.parse.quote(text, safe="") for text in (client_id, secret))
            return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}, {}
        if "client_secret_post" in methods:
            return {}, {"client_id": client_id, "client_secret": secret}
        raise refusal("no_client_authentication", "the server takes no client secret as we send it")

    def _token(self, answer: Mapping[str, Any]) -> TokenAnswer:
        from oauthlib.oauth2 import OAuth2Error
        from oauthlib.oauth2.rfc6749.parameters import parse_token_response

        try:
            token = parse_token_response(json.dumps(answer))
        except (OAuth2Error, ValueError, TypeError, AttributeError):
            raise refusal("bad_token", "the token endpoint answered with no token") from None
        value, kind = token.get("access_token"), token.get("token_type")
        if not isinstance(kind, str) or kind.lower() != "bearer":
            raise refusal("bad_token", "the token is no bearer token")
        if not isinstance(value, str) or not BEARER_TOKEN.match(value):
            raise refusal("bad_token", "the token has a form that can't be sent")
        self._check_scopes(answer)
        lifetime = _seconds(answer.get("expires_in"))
        shown = self._checked_claims(value)
        if shown is not None:
            lifetime = shown if lifetime is None else min(lifetime, shown)
        refresh = answer.get("refresh_token")
        access = AccessToken(value, self._grant, lifetime)
        given = RefreshToken(refresh) if isinstance(refresh, str) and refresh else None
        return TokenAnswer(access, given)

    def _check_scopes(self, answer: Mapping[str, Any]) -> None:
        scope = answer.get("scope")
        if scope is None:
            return  # as asked for
        if not isinstance(scope, str) or not set(self._grant.scopes) <= set(scope.split()):
            raise refusal("scope_mismatch", "the token is not for the scopes that were asked for")

    def _checked_claims(self, value: str) -> Optional[float]:
        """Return the seconds that a token's own claims give it, after a look at what they say.

        Verifying them is for the resource to do; a token that says itself that it is for somebody
        else would be refused there, or worse, taken.
        """
        import jwt

        try:
            claims = jwt.decode(value, options={"verify_signature": False})
        except (jwt.PyJWTError, RecursionError):
            return None  # opaque, as a token may be
        audience = claims.get("aud")
        audiences = [audience] if isinstance(audience, str) else audience
        if audience is not None and (
            not isinstance(audiences, list) or self._grant.resource not in audiences
        ):
            raise refusal("audience_mismatch", "the token is for another resource")
        if claims.get("iss") not in (None, self._grant.issuer):
            raise refusal("issuer_mismatch", "the token is of another issuer")
        expiry = claims.get("exp")
        if isinstance(expiry, bool) or not isinstance(expiry, (int, float)):
            return None
        return max(0.0, min(expiry, _DISTANT) - time.time())


_ERRORS = frozenset(
    {
        *("invalid_request", "invalid_client", "unauthorized_client", "unsupported_grant_type"),
        *("invalid_scope", "invalid_target", "access_denied"),
    }
)


def _seconds(value: object) -> Optional[float]:
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 16:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
        return None
    return float(value) if value < 1e9 else None
