"""OAuth as a client does it: presets, discovery after a 401, users, resends; real servers."""

from __future__ import annotations

import json
import threading
from typing import Any, Callable, Optional

import pytest
from authorization_server import APP, REDIRECT_URI, SERVICE, AuthorizationServer, User
from certificates import Authority
from protected_backend import SECRET_REF, ProtectedBackend
from watching import SLACK, eventually, timed

from ahp_sync import Client, OAuthClient, OAuthPolicy, Outcome, RegistrationError, TLSIdentity
from ahp_sync.testing import (
    AuditLog,
    assert_audit,
    assert_denied,
    assert_failed_open,
    assert_synthetic_denial,
    intercept,
    observe,
    step,
)

Clients = Callable[..., Client]


pytestmark = pytest.mark.usefixtures("nothing_is_left")


def ask(client: Client, **more: Any) -> Outcome:
    return client.tool_before(name="Bash", input={"command": "ls"}, **more)


def trusted(server: AuthorizationServer, **more: Any) -> dict[str, Any]:
    """Return the policy of a host that trusts ``server`` in discovery."""
    client = {"client_secret_ref": SECRET_REF, "scopes": ("deliver",), **more}
    return {"issuers": {server.issuer: OAuthClient(SERVICE.client_id, **client)}}


def asking(user: User) -> dict[str, Any]:
    """Return the policy of a host with a user."""
    return {
        "open_url": user.open_url,
        "receive_code": user.receive_code,
        "redirect_uri": REDIRECT_URI,
    }


# --- client credentials ------------------------------------------------------------------------


@pytest.mark.parametrize("jwt", [False, True], ids=["opaque", "JWT"])
def test_a_delivery_carries_a_token_for_its_resource(
    server: AuthorizationServer, backend: ProtectedBackend, oauth_client: Clients, jwt: bool
) -> None:
    """RFC 8707; one acquisition, then the token is used again (R-AUTH-06)."""
    server.jwt = jwt
    client = oauth_client(backend.preset())
    for _ in range(3):
        assert_denied(ask(client))
    assert (len(backend.accepted), len(backend.refused)) == (3, 0)
    [request] = server.token_requests
    assert request.form == {
        "grant_type": "client_credentials",
        "resource": backend.url,
        "scope": "deliver",
    }
    [issued] = server.issued
    for received in backend.accepted:
        assert received.header_values("Authorization") == [f"Bearer {issued.access_token}"]


def test_what_is_registered_for_the_backend_goes_nowhere_else(
    server: AuthorizationServer, backend: ProtectedBackend, oauth_client: Clients
) -> None:
    """R-HDR-04: neither its headers nor anything of the event reaches the other server."""
    client = oauth_client(backend.preset(), headers={"X-Key": "canary-4711"})
    assert_denied(ask(client))
    assert backend.accepted[0].header("X-Key") == "canary-4711"
    seen = json.dumps([[*one.headers.values(), *one.form.values()] for one in server.requests])
    assert "canary-4711" not in seen
    assert "Bash" not in seen
    assert str(SERVICE.secret) not in str(backend.requests)


@pytest.mark.parametrize("form", ["oauth", "oidc", "oidc_appended"])
@pytest.mark.parametrize("path", ["", "/tenant"])
def test_metadata_is_looked_for_in_order(
    authority: Authority,
    oauth_client: Clients,
    backend: ProtectedBackend,
    form: str,
    path: str,
) -> None:
    """Section 17, step 4: the first that is there; without a path there are two places."""
    with AuthorizationServer(authority, path=path) as server:
        server.forms = {form}
        backend.server = server
        assert_denied(ask(oauth_client(backend.preset())))
        looked = [one.path for one in server.requests if one.method == "GET"]
        expected = [
            f"/.well-known/oauth-authorization-server{path}",
            f"/.well-known/openid-configuration{path}",
            *([f"{path}/.well-known/openid-configuration"] if path else []),
        ]
        until = ["oauth", "oidc", "oidc_appended"].index(form) + 1
        assert looked == expected[:until]
        assert len(server.token_requests) == 1


def test_the_secret_may_have_to_be_in_the_form(
    server: AuthorizationServer, backend: ProtectedBackend, oauth_client: Clients
) -> None:
    server.play(metadata="post_only")
    assert_denied(ask(oauth_client(backend.preset())))
    [request] = server.token_requests
    assert request.form["client_secret"] == SERVICE.secret
    assert "Authorization" not in request.headers


def test_a_secret_of_any_text_arrives(
    server: AuthorizationServer, backend: ProtectedBackend, oauth_client: Clients
) -> None:
    """RFC 6749, 2.3.1: it is encoded as a form is before it goes into the header."""
    secret = "100%:ü/&=+'"
    server.clients[SERVICE.client_id].secret = secret
    options = {"tokens": {SECRET_REF: lambda ref: secret}}
    assert_denied(ask(oauth_client(backend.preset(), options=options)))


# --- after a 401 -------------------------------------------------------------------------------


def test_a_revoked_token_is_replaced_and_the_delivery_resent_once(
    server: AuthorizationServer,
    backend: ProtectedBackend,
    oauth_client: Clients,
    ahp_audit: AuditLog,
) -> None:
    """R-AUTH-04: the same bytes, within the same deadline."""
    client = oauth_client(backend.preset())
    assert_denied(ask(client))
    server.revoke()
    assert_denied(ask(client))
    assert len(server.token_requests) == 2
    [refused], [_, again] = backend.refused, backend.accepted
    assert refused.body == again.body
    assert refused.header("Authorization") != again.header("Authorization")
    assert not [record for record in ahp_audit if record.failure_class]


def test_a_second_401_is_the_end(
    server: AuthorizationServer,
    backend: ProtectedBackend,
    oauth_client: Clients,
    ahp_audit: AuditLog,
) -> None:
    """R-AUTH-04: at most one resend, whatever the retry policy says."""
    wanted = backend.preset()
    backend.resource = "https://another.example.com"
    assert_synthetic_denial(ask(oauth_client(wanted)), failure_class="authentication")
    assert len(backend.refused) == 2
    assert len(server.token_requests) == 2
    assert_audit(ahp_audit, failure_class="authentication", code="unauthorized")


@pytest.mark.parametrize(
    ("status", "challenge"), [(401, "basic"), (401, "none"), (403, "metadata")]
)
def test_only_a_bearer_challenge_leads_to_a_resend(
    server: AuthorizationServer,
    backend: ProtectedBackend,
    oauth_client: Clients,
    status: int,
    challenge: str,
) -> None:
    """R-AUTH-04: never after a 403, nor for another scheme."""
    client = oauth_client(backend.preset())
    assert_denied(ask(client))
    server.revoke()
    backend.status, backend.challenge = status, challenge
    assert_synthetic_denial(
        ask(client), failure_class="authentication" if status == 401 else "http_status"
    )
    assert len(backend.refused) == 1
    assert len(server.token_requests) == 1


def test_an_observation_is_not_resent(
    server: AuthorizationServer, backend: ProtectedBackend, oauth_client: Clients
) -> None:
    """R-AUTH-04; but the next delivery has another token."""
    client = oauth_client(backend.preset(), subscriptions=[observe(["tool.before"])])
    ask(client)
    assert eventually(lambda: len(backend.accepted) == 1)
    server.revoke()
    ask(client)
    assert eventually(lambda: len(backend.refused) == 1)
    ask(client)
    assert eventually(lambda: len(backend.accepted) == 2)
    assert (len(backend.refused), len(server.token_requests)) == (1, 2)


# --- discovery ---------------------------------------------------------------------------------


@pytest.mark.parametrize("challenge", ["metadata", "bare"])
@pytest.mark.parametrize("place", ["path", "root"])
def test_a_401_leads_to_the_server_and_a_token(
    server: AuthorizationServer,
    backend: ProtectedBackend,
    oauth_client: Clients,
    challenge: str,
    place: str,
) -> None:
    """R-AUTH-03: without credentials first; from then on with the token."""
    backend.challenge, backend.metadata_at = challenge, place
    if place == "root":
        backend.resource = backend.base_url
    client = oauth_client(policy=trusted(server))
    for _ in range(3):
        assert_denied(ask(client))
    assert (len(backend.accepted), len(backend.refused)) == (3, 1)
    assert backend.refused[0].header("Authorization") is None
    assert backend.refused[0].body == backend.accepted[0].body
    [request] = server.token_requests
    assert request.form["resource"] == backend.resource
    assert backend.lookups[-1] == "/.well-known/oauth-protected-resource" + (
        "/ahp" if place == "path" else ""
    )


def test_a_backend_that_asks_for_nothing_gets_nothing(
    authority: Authority, server: AuthorizationServer, oauth_client: Clients, ahp_client: Clients
) -> None:
    """R-AUTH-03: success stays anonymous."""
    from ahp_sync.testing import HttpBackend

    with HttpBackend("deny", tls=authority.server()) as open_backend:
        client = ahp_client(
            open_backend.registration(timeout_ms=10_000),
            tls={open_backend.default_id: TLSIdentity(ca_file=authority.ca_file)},
            tokens={SECRET_REF: lambda ref: SERVICE.secret},
            oauth=OAuthPolicy(**trusted(server)),
        )
        assert_denied(ask(client))
        [request] = open_backend.requests
        assert request.header("Authorization") is None
        client.close()
    assert not server.requests


def test_nothing_is_discovered_unless_the_host_allows_it(
    server: AuthorizationServer, backend: ProtectedBackend, oauth_client: Clients
) -> None:
    assert_synthetic_denial(ask(oauth_client()), failure_class="authentication")
    assert (len(backend.refused), backend.lookups, server.requests) == (1, [], [])


def test_a_server_that_is_not_trusted_is_not_asked(
    server: AuthorizationServer, backend: ProtectedBackend, oauth_client: Clients
) -> None:
    """Section 17, step 3: whatever the backend's metadata says."""
    policy = {
        "issuers": {"https://login.example.com": OAuthClient("x", client_secret_ref=SECRET_REF)}
    }
    outcome = ask(oauth_client(policy=policy))
    assert_synthetic_denial(outcome, failure_class="authentication")
    assert server.requests == []
    assert len(backend.refused) == 1


def test_scopes_are_those_of_the_challenge_that_the_host_permits(
    server: AuthorizationServer, backend: ProtectedBackend, oauth_client: Clients
) -> None:
    """Section 17, step 5: ``scopes_supported`` is not what is required."""
    backend.scope = "deliver"
    client = oauth_client(policy=trusted(server, scopes=("deliver", "audit")))
    assert_denied(ask(client))
    assert server.token_requests[0].form["scope"] == "deliver"


def test_a_scope_that_the_host_does_not_permit_is_not_asked_for(
    server: AuthorizationServer, backend: ProtectedBackend, oauth_client: Clients
) -> None:
    backend.scope = "deliver upload"
    outcome = ask(oauth_client(policy=trusted(server)))
    assert_synthetic_denial(outcome, failure_class="authentication")
    assert server.token_requests == []


# --- a user ------------------------------------------------------------------------------------


def test_a_user_is_asked_once(
    server: AuthorizationServer, backend: ProtectedBackend, oauth_client: Clients
) -> None:
    """PKCE by real HTTP; the authorization request names the resource, too."""
    user = User(server)
    client = oauth_client(backend.pkce(), policy=asking(user))
    for _ in range(2):
        assert_denied(ask(client))
    assert len(user.urls) == 1
    [shown] = [one for one in server.requests if one.endpoint == "authorize"]
    assert shown.query["resource"] == backend.url
    assert shown.query["code_challenge_method"] == "S256"
    assert (shown.query["redirect_uri"], shown.query["scope"]) == (REDIRECT_URI, "deliver")
    [request] = server.token_requests
    assert request.form["client_id"] == APP.client_id
    assert len(request.form["code_verifier"]) >= 43
    assert "Authorization" not in request.headers


def test_a_refresh_token_spares_the_user(
    server: AuthorizationServer, backend: ProtectedBackend, oauth_client: Clients
) -> None:
    """Each is used once, and the next one is taken over (F17)."""
    user = User(server)
    client = oauth_client(backend.pkce(), policy=asking(user))
    for _ in range(4):
        assert_denied(ask(client))
        server.revoke(server.issued[-1].access_token)
        server.issued[-1].revoked = False  # the refresh token stays good
        server.issued[-1].expires_at = 0.0
    assert len(user.urls) == 1
    grants = [one.form["grant_type"] for one in server.token_requests]
    assert grants == ["authorization_code", *["refresh_token"] * 3]
    used = [one.form.get("refresh_token") for one in server.token_requests]
    assert len(set(used)) == 4
    assert not server.revoked_families


def test_a_refresh_token_whose_answer_was_lost_is_not_used_again(
    server: AuthorizationServer, backend: ProtectedBackend, oauth_client: Clients
) -> None:
    """Nobody knows whether it was taken; using it again would cost the family."""
    user = User(server)
    client = oauth_client(backend.pkce(), policy=asking(user))
    assert_denied(ask(client))
    server.issued[-1].expires_at = 0.0
    server.play(token="lost")
    assert_synthetic_denial(ask(client), failure_class="authentication")
    server.play(token=None)
    assert_denied(ask(client))
    refreshed = [one.form.get("refresh_token") for one in server.token_requests]
    sent = [one for one in refreshed if one]
    assert len(set(sent)) == len(sent)
    assert not server.revoked_families


@pytest.mark.parametrize("fault", ["wrong_state", "no_state", "no_code", "wrong_iss", "denied"])
def test_what_comes_back_is_checked(
    server: AuthorizationServer, backend: ProtectedBackend, oauth_client: Clients, fault: str
) -> None:
    server.play(authorize=fault)
    client = oauth_client(backend.pkce(), policy=asking(User(server)))
    assert_synthetic_denial(ask(client), failure_class="authentication")
    assert server.token_requests == []
    assert backend.requests == []


def test_who_cannot_ask_a_user_is_told_at_once(
    backend: ProtectedBackend, oauth_client: Clients
) -> None:
    with pytest.raises(RegistrationError, match="authorization_code_pkce"):
        oauth_client(backend.pkce())


def test_in_discovery_nobody_is_asked_either(
    server: AuthorizationServer, backend: ProtectedBackend, oauth_client: Clients
) -> None:
    client = OAuthClient(APP.client_id, flow="authorization_code_pkce", scopes=("deliver",))
    outcome = ask(oauth_client(policy={"issuers": {server.issuer: client}}))
    assert_synthetic_denial(outcome, failure_class="authentication")
    assert server.token_requests == []


def test_a_user_who_does_not_come_back_costs_the_call_its_deadline(
    server: AuthorizationServer, backend: ProtectedBackend, oauth_client: Clients
) -> None:
    """R-AUTH-05; one who comes back later spares the next call the asking."""
    user = User(server, delay=0.6)
    client = oauth_client(backend.pkce(), policy=asking(user), timeout_ms=300)
    outcome, seconds = timed(lambda: ask(client))
    assert_synthetic_denial(outcome)
    assert 0.3 <= seconds < 0.3 + SLACK
    assert backend.requests == []
    assert eventually(lambda: bool(server.issued))
    assert eventually(lambda: not ask(client).synthetic)
    assert len(user.urls) == 1


# --- what an acquisition may not do ------------------------------------------------------------


@pytest.mark.parametrize("policy", ["fail-closed", "fail-open"])
def test_the_deadline_covers_getting_a_token(
    server: AuthorizationServer,
    backend: ProtectedBackend,
    oauth_client: Clients,
    policy: str,
) -> None:
    """R-AUTH-05, R-DL-01: and fail-open never means without it (R-FAIL-03)."""
    server.hang = threading.Event()
    client = oauth_client(backend.preset(), timeout_ms=300, failing=policy)
    outcome, seconds = timed(lambda: ask(client))
    assert 0.3 <= seconds < 0.3 + SLACK
    check = assert_failed_open if policy == "fail-open" else assert_synthetic_denial
    check(outcome)
    assert backend.requests == []
    # What was begun goes on for whoever comes next.
    server.hang.set()
    assert eventually(lambda: bool(server.issued))
    assert eventually(lambda: not ask(client).synthetic and bool(backend.accepted))
    assert len(server.token_requests) == 1


def test_a_hung_acquisition_is_given_up(
    server: AuthorizationServer, backend: ProtectedBackend, oauth_client: Clients
) -> None:
    """At its own bound, with a failure for those who wait; the next call begins anew."""
    server.hang = threading.Event()
    client = oauth_client(backend.preset(), policy={"acquisition_timeout": 0.3})
    outcome, seconds = timed(lambda: ask(client))
    assert_synthetic_denial(outcome, failure_class="authentication")
    assert 0.3 <= seconds < 0.3 + 2 * SLACK
    server.hang = None
    assert_denied(ask(client))
    assert len(server.token_requests) == 2


def test_closing_does_not_wait_for_an_acquisition(
    server: AuthorizationServer, backend: ProtectedBackend, oauth_client: Clients
) -> None:
    server.hang = threading.Event()
    client = oauth_client(backend.preset())
    calling = threading.Thread(target=ask, args=(client,))
    calling.start()
    assert server.wait_token_requests(1)
    _, seconds = timed(client.close)
    calling.join()
    assert seconds < 2.0 + SLACK
    assert backend.requests == []


@pytest.mark.parametrize("shows", [None, "stranger", "known"])
def test_a_server_may_demand_a_client_certificate(
    authority: Authority,
    backend: ProtectedBackend,
    oauth_client: Clients,
    tmp_path_factory: pytest.TempPathFactory,
    shows: Optional[str],
) -> None:
    """It has an identity of its own, by its origin; the backend's is not shown to it."""
    clients = Authority(tmp_path_factory.mktemp("tls") / "clients")
    issuer = clients if shows == "known" else authority
    tls = {backend.default_id: TLSIdentity(ca_file=authority.ca_file)}
    with AuthorizationServer(authority, asks=clients) as server:
        backend.server = server
        if shows is None:
            cert, key = clients.client("backend")
            tls[backend.default_id] = TLSIdentity(authority.ca_file, cert, key)
        else:
            cert, key = issuer.client(shows)
            tls[server.origin] = TLSIdentity(authority.ca_file, cert, key)
        outcome = ask(oauth_client(backend.preset(), options={"tls": tls}))
        if shows == "known":
            assert_denied(outcome)
            assert server.token_requests[0].peer_certificate
        else:
            assert_synthetic_denial(outcome, failure_class="authentication")
            assert server.requests == []
            assert backend.requests == []


def test_two_backends_have_tokens_of_their_own(
    authority: Authority,
    server: AuthorizationServer,
    backend: ProtectedBackend,
    ahp_client: Clients,
) -> None:
    """R-AUTH-06: a token is for one resource, and goes nowhere else."""
    from ahp_sync.testing import hooks

    with ProtectedBackend(server, "ok", tls=authority.server()) as other:
        names = ("com.example.a", "com.example.b")
        client = ahp_client(
            hooks(
                *(
                    one.entry(id=name, authentication=one.preset(), timeout_ms=10_000)
                    for one, name in zip((other, backend), names)
                )
            ),
            tls={name: TLSIdentity(ca_file=authority.ca_file) for name in names},
            tokens={SECRET_REF: lambda ref: SERVICE.secret},
        )
        assert_denied(ask(client))
        assert (len(other.refused), len(backend.refused)) == (0, 0)
        client.close()
    assert {one.resource for one in server.issued} == {other.url, backend.url}


def test_steps_of_a_script_are_for_accepted_requests(
    server: AuthorizationServer, backend: ProtectedBackend, oauth_client: Clients
) -> None:
    """A 503 is tried again under the retry policy, with the token that there is."""
    backend.play([step("status", code=503), "deny"])
    assert_denied(ask(oauth_client(backend.preset(), subscriptions=[intercept(timeout_ms=5000)])))
    assert len(server.token_requests) == 1
