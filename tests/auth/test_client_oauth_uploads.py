"""OAuth of upload endpoints: tokens of their own, got before, since nothing is sent twice."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any, Callable

import pytest
from authorization_server import SERVICE, AuthorizationServer
from certificates import Authority
from protected_backend import SECRET_REF, ProtectedBackend

from ahp_sync import Attachment, Capabilities, Client, Grant, OAuthClient, OAuthPolicy, Outcome
from ahp_sync.testing import assert_denied, assert_synthetic_denial, step

Clients = Callable[..., Client]

DATA = b"\x00\x01\xff"


def receipt(request: Any) -> Any:
    """Confirm an upload."""
    body = request.body
    answer = {"ref": "ref-1", "size": len(body), "sha256": hashlib.sha256(body).hexdigest()}
    return step("status", code=201, answer=json.dumps(answer).encode())


@pytest.fixture
def files(authority: Authority, server: AuthorizationServer) -> Iterator[ProtectedBackend]:
    """An upload endpoint that wants a token."""
    with ProtectedBackend(server, receipt, tls=authority.server()) as files:
        yield files


def start(client: Client) -> Outcome:
    parts = [Attachment.from_bytes(DATA, "image/png")]
    items = [{"id": "m-1", "role": "user", "parts": parts}]
    return client.turn_start(turn="t-1", items=items, trigger="user")


def uploading(files: ProtectedBackend, **more: Any) -> list[dict[str, Any]]:
    upload = {"endpoint": files.url, "timeoutMs": 5000, "maxBytes": 100, **more}
    return [
        {
            "events": ["turn.start"],
            "mode": "intercept",
            "timeoutMs": 5000,
            "failurePolicy": "fail-closed",
            "content": {"default": "body"},
            "upload": upload,
        }
    ]


TURNS = {"capabilities": Capabilities({"turn.start": Grant(("deny",))})}


def test_an_upload_has_a_token_of_its_own(
    server: AuthorizationServer,
    backend: ProtectedBackend,
    files: ProtectedBackend,
    oauth_client: Clients,
) -> None:
    """R-AUTH-06: even for the same grant; each is acquired once and used again."""
    shared = backend.preset(resource="https://shared.example/")
    backend.resource = files.resource = "https://shared.example/"
    client = oauth_client(shared, subscriptions=uploading(files, auth=shared), options=TURNS)
    for _ in range(2):
        assert_denied(start(client))
    assert len(server.token_requests) == 2
    tokens = [one.accepted[0].header("Authorization") for one in (backend, files)]
    assert tokens[0] != tokens[1]
    assert files.accepted[0].body == DATA
    assert not (files.refused or backend.refused)


def test_an_endpoint_without_a_binding_is_asked_who_authorizes(
    server: AuthorizationServer,
    backend: ProtectedBackend,
    files: ProtectedBackend,
    oauth_client: Clients,
) -> None:
    """R-UPL-03, R-AUTH-04: by its metadata and before the bytes, which are never sent twice."""
    trusted = OAuthClient(SERVICE.client_id, client_secret_ref=SECRET_REF, scopes=("deliver",))
    client = oauth_client(
        backend.preset(),
        subscriptions=uploading(files),
        policy={"issuers": {server.issuer: trusted}},
        options=TURNS,
    )
    assert_denied(start(client))
    assert len(files.lookups) == 1
    assert [request.body for request in files.accepted] == [DATA]
    assert files.refused == []


def test_without_anybody_to_trust_it_is_sent_once_and_refused(
    server: AuthorizationServer,
    backend: ProtectedBackend,
    files: ProtectedBackend,
    oauth_client: Clients,
) -> None:
    """R-AUTH-02, R-UPL-03: the token for the events is none for it."""
    client = oauth_client(backend.preset(), subscriptions=uploading(files), options=TURNS)
    assert OAuthPolicy().issuers == {}
    outcome = start(client)
    assert_synthetic_denial(outcome, failure_class="authentication")
    assert [request.header("Authorization") for request in files.refused] == [None]
    assert backend.accepted == []
