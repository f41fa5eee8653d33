"""Every way in which an authorization server can fail: nothing is sent, the policy decides."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Callable

import oauth_variants
import pytest
from authorization_server import REDIRECT_URI, SERVICE, AuthorizationServer, User
from certificates import Authority
from protected_backend import SECRET_REF, ProtectedBackend
from watching import SLACK, descriptors, eventually, timed

from ahp_sync import Client, OAuthClient, Outcome, TLSIdentity
from ahp_sync.testing import (
    AuditLog,
    HttpBackend,
    assert_audit,
    assert_denied,
    assert_failed_open,
    assert_synthetic_denial,
    step,
)

Clients = Callable[..., Client]

#: What is no reason to refuse a token.
HARMLESS = {
    "metadata": {"post_only"},
    "token": {
        *("lower_case_type", "no_expiry", "expiry_as_text", "huge_expiry", "no_scope"),
        *("negative_expiry", "wider_scope", "no_refresh_token"),
    },
}

#: What is over when it arrives: good for the delivery that it was got for, if the backend agrees.
OVER = {"zero_expiry", "expired_jwt"}

#: What only matters where a user is asked.
FOR_USERS = {"no_pkce", "no_s256", "http_authorization_endpoint"}

#: What ends at the acquisition's own bound.
ENDLESS = {"hang", "drip"}


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    before = descriptors()
    yield
    assert eventually(lambda: descriptors() <= before), descriptors() - before


def ask(client: Client) -> Outcome:
    return client.tool_before(name="Bash", input={"command": "ls"})


def faults(endpoint: str) -> list[str]:
    harmless = HARMLESS.get(endpoint, set()) | OVER | FOR_USERS
    return [name for name in oauth_variants.names(endpoint) if name not in harmless]


FAULTS = [(endpoint, name) for endpoint in ("metadata", "token") for name in faults(endpoint)]


@pytest.mark.parametrize(("endpoint", "name"), FAULTS)
def test_nothing_is_delivered_without_a_token(
    server: AuthorizationServer,
    backend: ProtectedBackend,
    oauth_client: Clients,
    ahp_audit: AuditLog,
    endpoint: str,
    name: str,
) -> None:
    """R-AUTH-01, R-AUTH-02; and once the server is well again, so is the client."""
    server.jwt = name.endswith(("jwt", "jwt_issuer", "audience"))
    server.play(**{endpoint: name})
    client = oauth_client(
        backend.preset(scopes=["deliver", "audit"]),
        policy={"acquisition_timeout": 0.5 if name in ENDLESS else 5.0},
    )
    outcome, seconds = timed(lambda: ask(client))
    assert_synthetic_denial(outcome, failure_class="authentication")
    assert seconds < 1.0 + SLACK
    assert backend.requests == []
    assert_audit(ahp_audit, failure_class="authentication")
    assert not [one for one in server.requests if one.path.startswith("/moved")]
    server.play(**{endpoint: None})
    assert_denied(ask(client))


@pytest.mark.parametrize(
    ("endpoint", "name"),
    [("metadata", "error_500"), ("token", "wrong_token_type"), ("token", "invalid_client")],
)
def test_fail_open_proceeds_and_says_so(
    server: AuthorizationServer,
    backend: ProtectedBackend,
    oauth_client: Clients,
    endpoint: str,
    name: str,
) -> None:
    """R-FAIL-03: it never means sending without the credential."""
    server.play(**{endpoint: name})
    outcome = ask(oauth_client(backend.preset(), failing="fail-open"))
    assert_failed_open(outcome, failure_class="authentication")
    assert backend.requests == []


@pytest.mark.parametrize(
    ("endpoint", "name"),
    [(endpoint, name) for endpoint, names in HARMLESS.items() for name in sorted(names)],
)
def test_what_is_no_fault_is_none(
    server: AuthorizationServer,
    backend: ProtectedBackend,
    oauth_client: Clients,
    endpoint: str,
    name: str,
) -> None:
    server.play(**{endpoint: name})
    client = oauth_client(backend.preset(scopes=["deliver", "audit"]))
    for _ in range(2):
        assert_denied(ask(client))
    assert len(server.token_requests) == 1


@pytest.mark.parametrize("name", sorted(OVER))
def test_a_token_that_is_over_is_not_kept(
    server: AuthorizationServer, backend: ProtectedBackend, oauth_client: Clients, name: str
) -> None:
    """Section 17, step 7; the clocks of the two may differ, and the backend's is what counts."""
    server.play(token=name)
    client = oauth_client(backend.preset())
    for _ in range(3):
        assert_denied(ask(client))
    assert len(server.token_requests) == 3
    assert len({one.header("Authorization") for one in backend.accepted}) == 3


@pytest.mark.parametrize("name", sorted(FOR_USERS))
def test_no_user_is_sent_to_a_server_without_pkce(
    server: AuthorizationServer, backend: ProtectedBackend, oauth_client: Clients, name: str
) -> None:
    server.play(metadata=name)
    user = User(server)
    policy = {
        "open_url": user.open_url,
        "receive_code": user.receive_code,
        "redirect_uri": REDIRECT_URI,
    }
    outcome = ask(oauth_client(backend.pkce(), policy=policy))
    assert_synthetic_denial(outcome, failure_class="authentication")
    assert user.urls == []
    assert backend.requests == []


# --- discovery ---------------------------------------------------------------------------------

DOCUMENTS: dict[str, Any] = {
    "another resource": {"resource": "https://other.example.com/ahp"},
    "a resource beside it": lambda backend: {"resource": backend.url + "/more"},
    "no resource": {"resource": None},
    "no servers": {"authorization_servers": []},
    "a server that nobody trusts": {"authorization_servers": ["https://other.example.com"]},
    "servers in a text": lambda backend: {"authorization_servers": "https://other.example.com"},
    "oversized": {"padding": " " * (4 << 20)},
    "redirect": step("redirect", code=307),
    "HTML": step("status", code=200, answer=b"<html>", content_type="text/html"),
    "500": step("status", code=500, answer=b""),
    "an array": step("status", code=200, answer=b"[]"),
    "not there": step("status", code=404, answer=b""),
    "closed": "eof",
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_discovery_takes_no_wrong_document(
    server: AuthorizationServer, backend: ProtectedBackend, oauth_client: Clients, name: str
) -> None:
    """Section 17, steps 1 to 3: the one 401 stays the answer, and no token is asked for."""
    document = DOCUMENTS[name]
    if callable(document):
        document = document(backend)
    if isinstance(document, dict):
        right = server.resource_metadata(backend.url)
        changed = {**right, **document}
        document = {key: value for key, value in changed.items() if value is not None}
    backend.metadata = document
    client = OAuthClient(SERVICE.client_id, client_secret_ref=SECRET_REF, scopes=("deliver",))
    outcome = ask(oauth_client(policy={"issuers": {server.issuer: client}}))
    assert_synthetic_denial(outcome, failure_class="authentication")
    assert len(backend.refused) == 1
    assert server.requests == []


@pytest.mark.parametrize(
    "address",
    [
        "http://127.0.0.1:{port}/.well-known/oauth-protected-resource/ahp",
        "https://169.254.10.10/.well-known/oauth-protected-resource/ahp",
        "https://10.255.255.1/.well-known/oauth-protected-resource/ahp",
        "https://[::ffff:10.255.255.1]/.well-known/oauth-protected-resource/ahp",
        "file:///etc/passwd",
        "nonsense",
        "",
    ],
)
def test_a_challenge_does_not_send_the_client_just_anywhere(
    server: AuthorizationServer, backend: ProtectedBackend, oauth_client: Clients, address: str
) -> None:
    """SSRF: https only, and nothing private that the backend itself is not."""
    address = address.format(port=backend.port)
    backend.challenge = f'Bearer resource_metadata="{address}"'
    client = OAuthClient(SERVICE.client_id, client_secret_ref=SECRET_REF, scopes=("deliver",))
    made = oauth_client(policy={"issuers": {server.issuer: client}})
    outcome, seconds = timed(lambda: ask(made))
    assert seconds < 2.0
    if outcome.synthetic:  # an unusable address may be as good as none
        assert_synthetic_denial(outcome, failure_class="authentication")
        assert server.requests == []
    else:
        assert address in ("", "nonsense")


def test_the_environment_has_no_say(
    authority: Authority,
    server: AuthorizationServer,
    backend: ProtectedBackend,
    oauth_client: Clients,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Any,
) -> None:
    """R-HTTP-06, F69: no proxy, no netrc, no CA variable, at the authorization server either."""
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login thief password thief\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    with HttpBackend("ok") as proxy:
        for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.base_url)
        for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"):
            monkeypatch.setenv(name, str(tmp_path / "missing.pem"))
        client = oauth_client(backend.preset())
        assert_denied(ask(client))
        assert proxy.requests == []
        client.close()
    assert server.issued[0].client_id == SERVICE.client_id


def test_a_server_of_another_authority_is_not_believed(
    authority: Authority,
    backend: ProtectedBackend,
    oauth_client: Clients,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """The secret goes to nobody who can't show that it is the issuer."""
    stranger = Authority(tmp_path_factory.mktemp("tls") / "stranger")
    with AuthorizationServer(stranger) as server:
        client = oauth_client(
            backend.preset(issuer=server.issuer),
            options={"tls": {backend.default_id: TLSIdentity(ca_file=authority.ca_file)}},
        )
        assert_synthetic_denial(ask(client), failure_class="authentication")
        assert server.requests == []
        client.close()
    assert backend.requests == []
