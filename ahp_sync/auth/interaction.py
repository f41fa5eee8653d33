"""Asking a user for an authorization, by the host's callbacks (RFC 6749, RFC 7636, RFC 9207)."""

from __future__ import annotations

import logging
import secrets
import urllib.parse
from dataclasses import dataclass
from typing import Any, Callable

from ahp_sync.auth.access import Grant
from ahp_sync.auth.metadata import Issuer
from ahp_sync.auth.oauth import OAuthPolicy
from ahp_sync.auth.web import refusal
from ahp_sync.budget import Budget

__all__ = ["Authorization", "authorize"]

_log = logging.getLogger("ahp_sync")


@dataclass(frozen=True)
class Authorization:
    """What a user granted: a code, and what proves that we asked for it."""

    code: str
    redirect_uri: str
    verifier: str


def authorize(issuer: Issuer, grant: Grant, policy: OAuthPolicy, budget: Budget) -> Authorization:
    """Send the user to the authorization server, and return what the user is sent back with.

    Blocks in the host's callbacks. Raises ``OperationalFailure`` of class ``authentication``.
    """
    from oauthlib.oauth2 import WebApplicationClient

    if policy.open_url is None or policy.receive_code is None or policy.redirect_uri is None:
        raise refusal("interaction_unavailable", "a user would have to be asked, and none can be")
    if issuer.authorization_endpoint is None:
        raise refusal("bad_metadata", "the authorization server has no authorization endpoint")
    if issuer.grant_types is not None and "authorization_code" not in issuer.grant_types:
        raise refusal("flow_unsupported", "the authorization server does not know the flow")
    if "S256" not in issuer.challenge_methods:
        raise refusal("no_s256", "the authorization server does not know S256")
    client: Any = WebApplicationClient(grant.client_id)
    verifier = client.create_code_verifier(64)
    state = secrets.token_urlsafe(32)
    url = client.prepare_request_uri(
        issuer.authorization_endpoint,
        redirect_uri=policy.redirect_uri,
        scope=list(grant.scopes) or None,
        state=state,
        code_challenge=client.create_code_challenge(verifier, "S256"),
        code_challenge_method="S256",
        resource=grant.resource,
    )
    open_url, receive_code = policy.open_url, policy.receive_code
    _asked(lambda: open_url(url), "open_url")
    budget.check()
    answer = _asked(lambda: receive_code(budget.remaining()), "receive_code")
    budget.check()
    query = _query(answer, policy.redirect_uri)
    if query.get("iss", [] if issuer.names_itself else [grant.issuer]) != [grant.issuer]:
        raise refusal("issuer_mismatch", "the user comes back from another authorization server")
    return Authorization(_code(client, str(answer), state), policy.redirect_uri, verifier)


def _asked(callback: Callable[[], Any], name: str) -> Any:
    try:
        return callback()
    except BaseException as error:  # SystemExit too; its text may hold what a log must not
        kind = type(error).__name__
        _log.warning("%s failed: %s", name, kind)
        raise refusal("interaction_failed", f"{name} raised {kind}") from None


def _query(answer: object, redirect_uri: str) -> dict[str, list[str]]:
    if not isinstance(answer, str) or answer.partition("?")[0] != redirect_uri.partition("?")[0]:
        raise refusal("bad_redirect", "receive_code did not return a URL of the redirect URI")
    query = urllib.parse.parse_qs(urllib.parse.urlsplit(answer).query)
    if any(len(values) != 1 for values in query.values()):
        raise refusal("bad_redirect", "the user was sent back with a parameter twice")
    return query


def _code(client: Any, answer: str, state: str) -> str:
    from oauthlib.oauth2 import OAuth2Error

    # A loopback redirect is plain http, which oauthlib would not read; nothing is sent there.
    secure = "https" + answer[4:] if answer.startswith("http:") else answer
    try:
        found = client.parse_request_uri_response(secure, state=state)
    except (OAuth2Error, ValueError):
        raise refusal("authorization_refused", "the user comes back without a code") from None
    return str(found["code"])
