"""F51: nothing that OAuth is about stands in a log, an outcome, a message or a record."""

from __future__ import annotations

import json
import logging
from typing import Any, Callable
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from authorization_server import REDIRECT_URI, SERVICE, AuthorizationServer, User
from protected_backend import SECRET_REF, ProtectedBackend

from ahp_sync import Client, OAuthClient
from ahp_sync.testing import AuditLog, step

Clients = Callable[..., Client]

PIECE = 10


@pytest.fixture(autouse=True)
def everything(caplog: pytest.LogCaptureFixture) -> None:
    """All loggers, those of the libraries above all, at DEBUG."""
    for name in ("", "urllib3", "requests", "oauthlib", "requests_oauthlib", "ahp_sync"):
        caplog.set_level(logging.DEBUG, logger=name)
    # What the servers of the tests say is their own affair.
    for name in ("authlib", "werkzeug", "authorization_server"):
        caplog.set_level(logging.CRITICAL, logger=name)


def secrets_of(server: AuthorizationServer) -> list[str]:
    """Return all that went over the wire and is nobody else's business."""
    found = [str(SERVICE.secret), quote(str(SERVICE.secret), safe="")]
    for one in server.issued:
        found += [one.access_token, one.refresh_token or ""]
    for seen in server.requests:
        names = ("code", "code_verifier", "refresh_token", "client_secret", "code_challenge")
        found += [seen.form.get(name, "") for name in names]
        found += [seen.query.get(name, "") for name in ("state", "code_challenge")]
        found.append(seen.headers.get("Authorization", "").partition(" ")[2])
    return [one for one in found if one]


def shown(client: Client, audit: AuditLog, caplog: pytest.LogCaptureFixture) -> str:
    """Make a few calls and return all that anybody could read of them."""
    outcomes = [client.tool_before(name="Bash", input={"command": "ls"}) for _ in range(2)]
    records = [(str(record), json.dumps(record.to_json())) for record in audit]
    logged = [(record.getMessage(), str(record.args), caplog.text) for record in caplog.records]
    failures = [(str(f), repr(f)) for outcome in outcomes for f in outcome.failures]
    found = (outcomes, [repr(one) for one in outcomes], failures, records, logged, repr(client))
    return "\n".join(map(str, found))


def assert_clean(text: str, server: AuthorizationServer) -> None:
    for secret in secrets_of(server):
        for start in range(max(1, len(secret) - PIECE + 1)):
            piece = secret[start : start + PIECE]
            assert piece not in text, f"{piece!r} of {secret!r} in: {text}"


TOKEN = [
    *("echo", "invalid_client", "invalid_grant", "error_500", "not_json", "redirect", "lost"),
    *("wrong_token_type", "wrong_audience", "expired_jwt", "bad_token", "narrower_scope"),
    *("oversized", "cut"),
]


@pytest.mark.parametrize("fault", [None, *TOKEN])
@pytest.mark.parametrize("flow", ["client_credentials", "pkce", "discovery"])
def test_no_secret_is_shown(
    server: AuthorizationServer,
    backend: ProtectedBackend,
    oauth_client: Clients,
    ahp_audit: AuditLog,
    caplog: pytest.LogCaptureFixture,
    flow: str,
    fault: Any,
) -> None:
    """Whatever the server answers, and if it sends back what it got."""
    server.play(token=fault)
    user = User(server)
    if flow == "client_credentials":
        client = oauth_client(backend.preset())
    elif flow == "pkce":
        policy: dict[str, Any] = {"open_url": user.open_url, "receive_code": user.receive_code}
        client = oauth_client(backend.pkce(), policy={**policy, "redirect_uri": REDIRECT_URI})
    else:
        known = OAuthClient(SERVICE.client_id, client_secret_ref=SECRET_REF, scopes=("deliver",))
        client = oauth_client(policy={"issuers": {server.issuer: known}})
    text = shown(client, ahp_audit, caplog)
    assert server.token_requests
    assert_clean(text, server)
    for url in user.urls:
        [state] = parse_qs(urlsplit(url).query)["state"]
        assert state not in text


@pytest.mark.parametrize(
    "answer",
    [
        *("deny", "echo_headers", "echo_headers_raw", "bad_json", "reset", "status_500"),
        *(step("echo_headers_raw", code=401), step("echo_headers_raw", code=500)),
    ],
    ids=str,
)
def test_a_backend_that_sends_the_token_back_does_not_get_it_shown(
    server: AuthorizationServer,
    backend: ProtectedBackend,
    oauth_client: Clients,
    ahp_audit: AuditLog,
    caplog: pytest.LogCaptureFixture,
    answer: Any,
) -> None:
    backend.play(answer)
    text = shown(oauth_client(backend.preset()), ahp_audit, caplog)
    assert backend.accepted
    assert_clean(text, server)
