"""Acquiring one token: by a refresh token, as the client itself, or by asking a user."""

from __future__ import annotations

import time
from typing import Callable, Optional

from ahp_sync.auth.access import Grant
from ahp_sync.auth.interaction import authorize
from ahp_sync.auth.metadata import Issuer, issuer_metadata
from ahp_sync.auth.oauth import OAuthPolicy
from ahp_sync.auth.token_request import InvalidGrant, RefreshToken, TokenAnswer, TokenEndpoint
from ahp_sync.auth.web import Web, refusal
from ahp_sync.budget import Budget
from ahp_sync.failure import OperationalFailure

__all__ = ["Acquisition", "Secret"]

#: Finds a client's secret by its reference, within a budget.
Secret = Callable[[str, Budget], str]

# How long an authorization server's metadata is good for, in seconds.
_METADATA_SECONDS = 3600.0


class Acquisition:
    """Acquires the tokens of one endpoint.

    :param policy: what the host allows, ``secret`` where the client's secret comes from.
    :param web: what the authorization server is asked with.
    """

    def __init__(self, policy: OAuthPolicy, secret: Secret, web: Web) -> None:
        self._policy = policy
        self._secret = secret
        self._web = web
        self._issuer: Optional[tuple[float, str, Issuer]] = None

    def acquire(
        self, grant: Grant, refresh_token: Optional[RefreshToken], budget: Budget
    ) -> TokenAnswer:
        """Return a token: for ``refresh_token`` if that is still good, otherwise anew.

        Blocks, in the host's callbacks too where a user is asked. Raises ``OperationalFailure`` of
        class ``authentication``, and ``BudgetEnded``.
        """
        policy = self._policy
        if grant.asks_user and refresh_token is None and not policy.is_interactive:
            raise refusal("interaction_unavailable", "a user would have to be asked, and can't be")
        endpoint = self._endpoint(grant, budget)
        if refresh_token is not None:
            try:
                return endpoint.refresh(refresh_token, budget)
            except InvalidGrant:
                pass  # it is spent, or revoked
            except OperationalFailure:
                budget.check()
                if not refresh_token.spent:
                    raise
        try:
            if not grant.asks_user:
                return endpoint.client_credentials(budget)
            given = authorize(self._metadata(grant.issuer, budget), grant, policy, budget)
            return endpoint.code(given.code, given.redirect_uri, given.verifier, budget)
        except InvalidGrant:
            detail = "the token endpoint answered with invalid_grant"
            raise refusal("token_refused", detail) from None

    def forget(self) -> None:
        """Read the authorization server's metadata anew the next time."""
        self._issuer = None

    def _endpoint(self, grant: Grant, budget: Budget) -> TokenEndpoint:
        secret = None
        if grant.secret_ref is not None:
            secret = self._secret(grant.secret_ref, budget)
        elif not grant.asks_user:
            raise refusal("no_secret", "the client has no secret, which its flow needs")
        return TokenEndpoint(self._metadata(grant.issuer, budget), grant, secret, self._web)

    def _metadata(self, issuer: str, budget: Budget) -> Issuer:
        known, now = self._issuer, time.monotonic()
        if known is not None and known[1] == issuer and now - known[0] < _METADATA_SECONDS:
            return known[2]
        found = issuer_metadata(issuer, self._web, budget)
        self._issuer = (now, issuer, found)
        return found
