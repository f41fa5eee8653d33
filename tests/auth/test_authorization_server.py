"""The authorization server and the protected backend that other tests rely on."""

from __future__ import annotations

import base64
import hashlib
import json
import socket
import ssl
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Optional
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
import oauth_variants
import pytest
import requests
from authorization_server import APP, REDIRECT_URI, SERVICE, AuthorizationServer, User
from certificates import Authority
from protected_backend import ProtectedBackend
from watching import GENEROUS, SLACK, eventually, timed

from ahp_sync.testing import step

RESOURCE = "https://backend.example.com/ahp"
VERIFIER = "v" * 43
CALL = {"jsonrpc": "2.0", "id": "1", "method": "hooks/intercept", "params": {}}


pytestmark = pytest.mark.usefixtures("nothing_is_left")


def http(server: AuthorizationServer, method: str, url: str, **more: Any) -> requests.Response:
    with requests.Session() as session:
        session.trust_env = False
        return session.request(
            method, url, verify=str(server.ca_file), allow_redirects=False, timeout=GENEROUS, **more
        )


def get(server: AuthorizationServer, path: str) -> requests.Response:
    return http(server, "GET", server.origin + path)


def ask(server: AuthorizationServer, **form: str) -> requests.Response:
    """Ask for a token as the service, or as the app where ``client_id`` says so."""
    secret = None if "client_id" in form else (SERVICE.client_id, SERVICE.secret)
    return http(server, "POST", server.token_endpoint, data=form, auth=secret)


def credentials(server: AuthorizationServer, **form: str) -> requests.Response:
    return ask(server, grant_type="client_credentials", **form)


def agree(server: AuthorizationServer, **changes: Optional[str]) -> dict[str, str]:
    """Go through the authorization endpoint as the app's user; return what comes back."""
    challenge = hashlib.sha256(VERIFIER.encode()).digest()
    query: dict[str, Optional[str]] = {
        "response_type": "code",
        "client_id": APP.client_id,
        "redirect_uri": REDIRECT_URI,
        "scope": "deliver",
        "state": "a state",
        "resource": RESOURCE,
        "code_challenge": base64.urlsafe_b64encode(challenge).decode().rstrip("="),
        "code_challenge_method": "S256",
        **changes,
    }
    url = f"{server.authorization_endpoint}?{urlencode({k: v for k, v in query.items() if v})}"
    location = server.browse(url)
    if not location.startswith(REDIRECT_URI + "?"):
        raise ValueError(f"sent to {location}")
    return {name: value[0] for name, value in parse_qs(urlsplit(location).query).items()}


def redeem(server: AuthorizationServer, code: str, /, **changes: str) -> requests.Response:
    form = {
        "grant_type": "authorization_code",
        "client_id": APP.client_id,
        "code": code,
        "redirect_uri": REDIRECT_URI,
        "code_verifier": VERIFIER,
        **changes,
    }
    return ask(server, **form)


def refresh(server: AuthorizationServer, token: str, **more: str) -> requests.Response:
    return ask(
        server,
        grant_type="refresh_token",
        client_id=APP.client_id,
        refresh_token=token,
        **more,
    )


def error(answer: requests.Response) -> str:
    assert answer.status_code in (400, 401)
    return str(answer.json()["error"])


# --- metadata ----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["", "/tenant"])
def test_metadata_is_served_in_each_form(authority: Authority, path: str) -> None:
    """Also for an issuer with a path, and only in the forms that are wanted."""
    forms = {
        "oauth": f"/.well-known/oauth-authorization-server{path}",
        "oidc": f"/.well-known/openid-configuration{path}",
        "oidc_appended": f"{path}/.well-known/openid-configuration",
    }
    with AuthorizationServer(authority, path=path) as server:
        for form in forms.values():
            assert get(server, form).json()["issuer"] == server.issuer == server.origin + path
        server.forms = {"oauth"}
        found = {name: get(server, form).status_code for name, form in forms.items()}
    assert found == {"oauth": 200, "oidc": 404, "oidc_appended": 404}


def test_a_resource_on_its_own_host_has_metadata(server: AuthorizationServer) -> None:
    for path in ("", "/some/resource"):
        found = get(server, f"/.well-known/oauth-protected-resource{path}").json()
        assert found["resource"] == server.origin + path
        assert found["authorization_servers"] == [server.issuer]


# --- client credentials ------------------------------------------------------------------------


def test_the_service_gets_a_token_for_a_resource(server: AuthorizationServer) -> None:
    answer = credentials(server, scope="deliver", resource=RESOURCE)
    token = answer.json()["access_token"]
    assert answer.json() == {
        "access_token": token,
        "token_type": "Bearer",
        "expires_in": 3600,
        "scope": "deliver",
    }
    assert server.accepts(token, RESOURCE)
    assert not server.accepts(token, "https://another.example.com")
    (seen,) = server.token_requests
    assert (seen.method, seen.path, seen.form["resource"]) == ("POST", "/token", RESOURCE)
    assert seen.headers["Authorization"].startswith("Basic ")


def test_a_secret_in_the_form_will_do(server: AuthorizationServer) -> None:
    answer = credentials(server, client_id=SERVICE.client_id, client_secret=str(SERVICE.secret))
    assert server.accepts(answer.json()["access_token"])


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        ({"client_id": "service", "client_secret": "wrong"}, "invalid_client"),
        ({"client_id": "service"}, "invalid_client"),
        ({"client_id": "app"}, "invalid_client"),
        ({"client_id": "nobody", "client_secret": "x"}, "invalid_client"),
        ({"scope": "everything"}, "invalid_scope"),
        ({"resource": "https://unknown.example.com"}, "invalid_target"),
        ({"grant_type": "password"}, "unsupported_grant_type"),
    ],
)
def test_what_is_wrong_is_refused(
    server: AuthorizationServer, form: dict[str, str], expected: str
) -> None:
    server.resources = {RESOURCE}
    assert error(ask(server, **{"grant_type": "client_credentials", **form})) == expected
    assert not server.issued


def test_a_jwt_says_whom_it_is_for(server: AuthorizationServer) -> None:
    server.jwt = True
    token = credentials(server, scope="deliver", resource=RESOURCE).json()["access_token"]
    claims = jwt.decode(token, options={"verify_signature": False})
    assert (claims["iss"], claims["aud"]) == (server.issuer, RESOURCE)
    assert claims["exp"] - claims["iat"] == 3600
    assert server.accepts(token, RESOURCE)


def test_tokens_expire_and_can_be_revoked(server: AuthorizationServer) -> None:
    first, second = (credentials(server).json()["access_token"] for _ in range(2))
    server.revoke(first)
    assert not server.accepts(first)
    assert server.accepts(second)
    server.revoke()
    assert not server.accepts(second)
    server.lifetime = 1
    third = credentials(server).json()["access_token"]
    assert server.accepts(third)
    assert eventually(lambda: not server.accepts(third))


# --- codes -------------------------------------------------------------------------------------


def test_a_code_is_redeemed_with_its_verifier(server: AuthorizationServer) -> None:
    back = agree(server)
    assert (back["state"], back["iss"]) == ("a state", server.issuer)
    answer = redeem(server, back["code"]).json()
    assert server.accepts(answer["access_token"], RESOURCE)
    assert answer["scope"] == "deliver"
    assert answer["refresh_token"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"code_verifier": "w" * 43}, "invalid_grant"),
        ({"code_verifier": ""}, "invalid_request"),
        ({"redirect_uri": REDIRECT_URI + "/"}, "invalid_grant"),
        ({"code": "guessed"}, "invalid_grant"),
        ({"resource": "https://another.example.com"}, "invalid_target"),
    ],
)
def test_a_code_is_not_redeemed_otherwise(
    server: AuthorizationServer, changes: dict[str, str], expected: str
) -> None:
    assert error(redeem(server, agree(server)["code"], **changes)) == expected
    assert not server.issued


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"code_challenge": None, "code_challenge_method": None}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"code_challenge_method": None}, "invalid_request"),
        ({"scope": "everything"}, "invalid_scope"),
        ({"response_type": "token"}, "unsupported_response_type"),
    ],
)
def test_no_code_is_given_without_s256(
    server: AuthorizationServer, changes: dict[str, Optional[str]], expected: str
) -> None:
    back = agree(server, **changes)
    assert "code" not in back
    assert back["error"] == expected


def test_nobody_is_sent_to_an_unregistered_address(server: AuthorizationServer) -> None:
    with pytest.raises(ValueError, match="the server answered 400"):
        agree(server, redirect_uri="http://127.0.0.1:7777/elsewhere")


def test_a_code_used_twice_takes_its_tokens_with_it(server: AuthorizationServer) -> None:
    code = agree(server)["code"]
    token = redeem(server, code).json()["access_token"]
    assert error(redeem(server, code)) == "invalid_grant"
    assert not server.accepts(token)
    assert len(server.revoked_families) == 1


def test_the_user_goes_to_the_server_and_back(server: AuthorizationServer) -> None:
    user = User(server)
    url = f"{server.authorization_endpoint}?client_id=app&redirect_uri={REDIRECT_URI}&state=s"
    user.open_url(f"{url}&response_type=code&code_challenge={'c' * 43}&code_challenge_method=S256")
    assert user.receive_code(GENEROUS).startswith(f"{REDIRECT_URI}?code=")
    with pytest.raises(TimeoutError):
        user.receive_code(0.01)


# --- refresh tokens ----------------------------------------------------------------------------


def test_refresh_tokens_rotate(server: AuthorizationServer) -> None:
    """Each is good once; the new one is of the same family, scope and resource."""
    answer = redeem(server, agree(server)["code"]).json()
    for _ in range(3):
        last, answer = answer, refresh(server, answer["refresh_token"]).json()
        assert answer["access_token"] != last["access_token"]
        assert answer["refresh_token"] != last["refresh_token"]
        assert server.accepts(answer["access_token"], RESOURCE)
    assert {(one.family, one.scope) for one in server.issued} == {
        (server.issued[0].family, "deliver")
    }
    assert not server.revoked_families


def test_a_refresh_token_used_again_revokes_its_family(server: AuthorizationServer) -> None:
    """The newest tokens too, since nobody can tell who of the two was the thief."""
    other = redeem(server, agree(server)["code"]).json()
    first = redeem(server, agree(server)["code"]).json()
    second = refresh(server, first["refresh_token"]).json()
    assert error(refresh(server, first["refresh_token"])) == "invalid_grant"
    assert error(refresh(server, second["refresh_token"])) == "invalid_grant"
    assert not server.accepts(first["access_token"])
    assert not server.accepts(second["access_token"])
    assert server.revoked_families == [server.issued[1].family]
    assert server.accepts(other["access_token"])


def test_of_many_with_one_refresh_token_one_gets_through(server: AuthorizationServer) -> None:
    token = redeem(server, agree(server)["code"]).json()["refresh_token"]
    with ThreadPoolExecutor(10) as pool:
        found = list(pool.map(lambda _: refresh(server, token).status_code, range(10)))
    assert sorted(found) == [200, *[400] * 9]
    assert len(server.revoked_families) == 1
    # Also the one that was given out, wherever it was in the order.
    assert not any(server.accepts(one.access_token) for one in server.issued)


def test_a_refresh_keeps_within_what_was_granted(server: AuthorizationServer) -> None:
    for more in ({"scope": "deliver audit"}, {"resource": "https://another.example.com"}):
        token = redeem(server, agree(server)["code"]).json()["refresh_token"]
        assert error(refresh(server, token, **more)) in ("invalid_scope", "invalid_target")
    assert error(ask(server, grant_type="refresh_token", refresh_token=token)) == "invalid_grant"


def test_the_service_may_get_refresh_tokens_too(server: AuthorizationServer) -> None:
    server.refresh_tokens_for_clients = True
    token = credentials(server, resource=RESOURCE).json()["refresh_token"]
    answer = ask(server, grant_type="refresh_token", refresh_token=token).json()
    assert server.accepts(answer["access_token"], RESOURCE)


# --- time --------------------------------------------------------------------------------------


def test_a_delay_is_for_token_requests(server: AuthorizationServer) -> None:
    server.delay = 0.3
    _, seconds = timed(lambda: credentials(server))
    assert 0.3 <= seconds < GENEROUS
    _, seconds = timed(lambda: get(server, "/.well-known/openid-configuration"))
    assert seconds < 0.3


def test_token_requests_wait_for_an_event(server: AuthorizationServer) -> None:
    server.hang = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(credentials, server)
        assert server.wait_token_requests(1)
        time.sleep(0.05)
        assert not waiting.done()
        server.hang.set()
        assert server.accepts(waiting.result(GENEROUS).json()["access_token"])


@pytest.mark.parametrize("how", ["event", "delay", "hang", "drip"])
def test_it_closes_while_somebody_waits(authority: Authority, how: str) -> None:
    """And whoever waited gets an answer, or sees the connection end."""
    with AuthorizationServer(authority) as server, ThreadPoolExecutor(1) as pool:
        if how == "event":
            server.hang = threading.Event()
        elif how == "delay":
            server.delay = 60.0
        else:
            server.play(token=how)
        waiting = pool.submit(credentials, server)
        assert server.wait_token_requests(1)
        _, seconds = timed(server.close)
        assert waiting.exception(GENEROUS) is not None or waiting.result() is not None
    assert seconds < 1.0 + SLACK


def test_who_says_nothing_keeps_nobody_waiting(server: AuthorizationServer) -> None:
    """A connection without a handshake, and one without a request."""
    address = ("127.0.0.1", urlsplit(server.origin).port)
    context = ssl.create_default_context(cafile=str(server.ca_file))
    with (
        socket.create_connection(address),
        context.wrap_socket(socket.create_connection(address), server_hostname="127.0.0.1"),
    ):
        _, seconds = timed(lambda: credentials(server))
        assert seconds < GENEROUS
        _, seconds = timed(server.close)
    assert seconds < 1.0 + SLACK


# --- faults ------------------------------------------------------------------------------------


def outcome(server: AuthorizationServer, endpoint: str) -> Any:
    """Return what comes of asking ``endpoint``, without what is random in it."""
    try:
        if endpoint == "authorize":
            back = agree(server)
            return {**back, "code": bool(back["code"])} if "code" in back else back
        if endpoint == "token":
            answer = credentials(server, scope="deliver audit", resource=RESOURCE)
        else:
            names = {"metadata": "openid-configuration", "resource": "oauth-protected-resource"}
            answer = get(server, f"/.well-known/{names[endpoint]}")
    except (OSError, ValueError) as failure:
        return type(failure)
    try:
        body = json.loads(answer.content, object_pairs_hook=list)
    except ValueError:
        body = answer.text
    else:
        body = [(name, steady(name, value)) for name, value in body] if body else body
    return answer.status_code, answer.headers.get("Location"), len(answer.text) > 1 << 20, body


def steady(name: str, value: Any) -> Any:
    if name == "refresh_token":
        return "a refresh token"
    if name != "access_token" or not str(value).startswith("eyJ"):
        return value
    claims = jwt.decode(value, options={"verify_signature": False})
    return {**claims, "jti": "", "iat": 0, "exp": claims["exp"] > time.time()}


FAULTS = [
    (endpoint, name)
    for endpoint in oauth_variants.ENDPOINTS
    for name in oauth_variants.names(endpoint)
    if name not in ("hang", "drip")
]


@pytest.mark.parametrize(("endpoint", "name"), FAULTS)
def test_each_fault_shows(server: AuthorizationServer, endpoint: str, name: str) -> None:
    """And only at its endpoint, and no longer than it is wanted."""
    server.jwt = server.refresh_tokens_for_clients = True
    before = {one: outcome(server, one) for one in oauth_variants.ENDPOINTS}
    server.play(**{endpoint: name})
    now = {one: outcome(server, one) for one in oauth_variants.ENDPOINTS}
    assert [one for one in now if now[one] != before[one]] == [endpoint]
    server.play(**{endpoint: None})
    assert outcome(server, endpoint) == before[endpoint]


def test_unknown_faults_are_refused(authority: Authority, server: AuthorizationServer) -> None:
    with pytest.raises(ValueError, match="the endpoints are"):
        server.play(tokens="lost")
    with pytest.raises(ValueError, match="'no_s256' is none of"):
        server.play(token="no_s256")
    with pytest.raises(ValueError, match="none of"):
        AuthorizationServer(authority, metadata="wrong")


def test_a_fault_may_be_a_function(server: AuthorizationServer) -> None:
    server.play(metadata=lambda payload: {**payload, "issuer": 1})
    assert get(server, "/.well-known/openid-configuration").json()["issuer"] == 1


def test_a_redirect_leads_to_the_right_answer(server: AuthorizationServer) -> None:
    """So that who follows it is found out by what was asked for."""
    server.play(metadata="redirect", token="redirect")
    location = get(server, "/.well-known/openid-configuration?a=b").headers["Location"]
    assert location == f"{server.origin}/moved/.well-known/openid-configuration?a=b"
    assert http(server, "GET", location).json()["issuer"] == server.issuer
    moved = credentials(server).headers["Location"]
    form = {"grant_type": "client_credentials"}
    answer = http(server, "POST", moved, data=form, auth=(SERVICE.client_id, SERVICE.secret))
    assert server.accepts(answer.json()["access_token"])
    assert [one.path for one in server.token_requests] == ["/token", "/moved/token"]


def test_a_lost_answer_has_used_up_the_refresh_token(server: AuthorizationServer) -> None:
    token = redeem(server, agree(server)["code"]).json()["refresh_token"]
    server.play(token="lost")
    with pytest.raises(requests.ConnectionError):
        refresh(server, token)
    assert len(server.issued) == 2
    server.play(token=None)
    assert error(refresh(server, token)) == "invalid_grant"
    assert len(server.revoked_families) == 1


# --- client certificates -----------------------------------------------------------------------


def test_it_may_demand_a_client_certificate(
    authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> None:
    clients = Authority(tmp_path_factory.mktemp("tls") / "clients")
    with AuthorizationServer(authority, asks=clients) as server:
        with pytest.raises(OSError):
            credentials(server)
        stranger = tuple(map(str, authority.client("stranger")))
        with pytest.raises(OSError):
            http(server, "GET", server.token_endpoint, cert=stranger)
        assert not server.requests
        known = tuple(map(str, clients.client("known")))
        assert http(server, "GET", server.issuer, cert=known).status_code == 404
        (seen,) = server.requests
        assert seen.peer_certificate is not None
        assert ("commonName", "known") in seen.peer_certificate["subject"][-1]


# --- the backend -------------------------------------------------------------------------------


def call(server: AuthorizationServer, backend: ProtectedBackend, token: str) -> requests.Response:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return http(server, "POST", backend.url, json=CALL, headers=headers)


def test_a_backend_is_for_those_with_a_token(
    server: AuthorizationServer, backend: ProtectedBackend
) -> None:
    backend.play(["deny", "ok"])
    assert call(server, backend, "").status_code == 401
    assert call(server, backend, "guessed").status_code == 401
    other = credentials(server, resource=RESOURCE).json()["access_token"]
    assert call(server, backend, other).status_code == 401
    token = credentials(server, resource=backend.resource).json()["access_token"]
    assert call(server, backend, token).json()["result"]["effects"][0]["type"] == "deny"
    assert call(server, backend, token).status_code == 200
    server.revoke(token)
    assert call(server, backend, token).status_code == 401
    assert (len(backend.accepted), len(backend.refused)) == (2, 4)


def test_its_challenge_leads_to_its_server(
    server: AuthorizationServer, backend: ProtectedBackend
) -> None:
    backend.scope = "deliver"
    url = f"{backend.base_url}/.well-known/oauth-protected-resource/ahp"
    plain = call(server, backend, "").headers["WWW-Authenticate"]
    assert plain == f'Bearer scope="deliver", resource_metadata="{url}"'
    bad = call(server, backend, "guessed").headers["WWW-Authenticate"]
    assert bad.startswith('Bearer error="invalid_token", ')
    found = http(server, "GET", url).json()
    assert (found["resource"], found["authorization_servers"]) == (backend.url, [server.issuer])
    assert backend.lookups == ["/.well-known/oauth-protected-resource/ahp"]
    assert not backend.accepted


@pytest.mark.parametrize(
    ("challenge", "expected"),
    [
        ("bare", "Bearer"),
        ("basic", 'Basic realm="tests"'),
        ("none", None),
        ('Bearer realm="x", Basic realm="y"', 'Bearer realm="x", Basic realm="y"'),
    ],
)
def test_its_challenge_may_be_another(
    server: AuthorizationServer, backend: ProtectedBackend, challenge: str, expected: Optional[str]
) -> None:
    backend.challenge = challenge
    answer = call(server, backend, "")
    assert (answer.status_code, answer.headers.get("WWW-Authenticate")) == (401, expected)
    backend.status = 403
    assert call(server, backend, "").status_code == 403


def test_its_metadata_may_be_elsewhere_or_wrong(
    server: AuthorizationServer, backend: ProtectedBackend
) -> None:
    root = f"{backend.base_url}/.well-known/oauth-protected-resource"

    def found() -> list[int]:
        return [http(server, "GET", url).status_code for url in (root, f"{root}/ahp")]

    assert found() == [404, 200]
    backend.metadata_at = "root"
    assert found() == [200, 404]
    assert backend.metadata_url == root
    backend.metadata_at = "nowhere"
    assert found() == [404, 404]
    backend.metadata_at = "root"
    backend.metadata = {"resource": "x"}
    assert http(server, "GET", root).json() == {"resource": "x"}
    backend.metadata = step("redirect", code=307)
    assert found()[0] == 307


def test_its_script_is_checked(authority: Authority, server: AuthorizationServer) -> None:
    with pytest.raises(ValueError, match="knows no step"):
        ProtectedBackend(server, "denny", tls=authority.server())
