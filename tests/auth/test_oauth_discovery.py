"""Discovery: from a challenge to a token, and before the first upload, which can't be resent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Callable

import pytest
from acquiring import Side, at_once, refused, value_of
from authorization_server import APP, SERVICE, AuthorizationServer
from certificates import Authority
from protected_backend import SECRET_REF, ProtectedBackend

from ahp_sync import Budget
from ahp_sync.auth.challenge import Challenge
from ahp_sync.auth.metadata import resource_metadata
from ahp_sync.auth.oauth import OAuthClient, OAuthPolicy
from ahp_sync.auth.provider import OAuthEndpoint
from ahp_sync.testing import step

Discover = Callable[..., OAuthEndpoint]


pytestmark = pytest.mark.usefixtures("nothing_is_left")


@pytest.fixture
def discover(
    authority: Authority, server: AuthorizationServer, backend: ProtectedBackend
) -> Iterator[Discover]:
    """``discover(upload=False, **client)``: the backend's endpoint, for a host that trusts."""
    made: list[Side] = []

    def make(*, upload: bool = False, **client: Any) -> OAuthEndpoint:
        client = {"client_secret_ref": SECRET_REF, "scopes": ("deliver", "audit"), **client}
        client_id = client.pop("client_id", SERVICE.client_id)
        side = Side(authority, server, issuers={server.issuer: OAuthClient(client_id, **client)})
        made.append(side)
        return side.endpoint(backend.url, upload=upload)

    yield make
    for side in made:
        side.__exit__(None, None, None)


def before(endpoint: OAuthEndpoint) -> Any:
    return endpoint.token(Budget(10.0))


def after(endpoint: OAuthEndpoint, challenge: Challenge, rejected: Any = None) -> str:
    return value_of(endpoint.after_401(rejected, challenge, Budget(10.0)))


# --- events --------------------------------------------------------------------------------------


def test_the_first_try_is_without(
    server: AuthorizationServer, backend: ProtectedBackend, discover: Discover
) -> None:
    """R-AUTH-03; after the 401 it is known, and no later call is sent without."""
    endpoint = discover()
    assert before(endpoint) is None
    assert backend.requests == []
    token = after(endpoint, Challenge(backend.metadata_url, ("deliver",)))
    assert server.accepts(token, backend.url)
    assert before(endpoint).value == token
    assert backend.lookups == ["/.well-known/oauth-protected-resource/ahp"]
    assert [one.form["scope"] for one in server.token_requests] == ["deliver"]


@pytest.mark.parametrize("place", ["path", "root"])
def test_the_well_known_places_are_tried_in_order(
    server: AuthorizationServer, backend: ProtectedBackend, discover: Discover, place: str
) -> None:
    """The form of the origin describes the origin (RFC 9728, section 3.3)."""
    backend.metadata_at = place
    if place == "root":
        backend.resource = backend.base_url
    token = after(discover(), Challenge())
    assert server.accepts(token, backend.resource)
    root = "/.well-known/oauth-protected-resource"
    assert backend.lookups == [f"{root}/ahp", root][: 1 + (place == "root")]


@pytest.mark.parametrize(
    ("endpoint", "places"),
    [
        ("https://h/ahp", ["https://h/W/ahp", "https://h/W"]),
        ("https://h/ahp?x=1", ["https://h/W/ahp?x=1", "https://h/W"]),
        ("https://h/", ["https://h/W"]),
        ("https://h", ["https://h/W"]),
        ("https://h:8443/a/b/", ["https://h:8443/W/a/b/", "https://h:8443/W"]),
    ],
)
def test_where_they_are(endpoint: str, places: list[str]) -> None:
    asked: list[str] = []

    class Nowhere:
        def get(self, url: str, budget: Budget) -> None:
            asked.append(url.replace(".well-known/oauth-protected-resource", "W"))

    found = resource_metadata(endpoint, None, Nowhere(), Budget(1.0))  # type: ignore[arg-type]
    assert found is None
    assert asked == places


DOCUMENTS: dict[str, tuple[Any, str]] = {
    "another resource": ({"resource": "https://other.example.com/ahp"}, "resource_mismatch"),
    "a resource beside it": ({"resource": "{url}/more"}, "resource_mismatch"),
    "its origin": ({"resource": "{origin}"}, "resource_mismatch"),
    "no resource": ({"resource": None}, "resource_mismatch"),
    "a list": ({"resource": ["{url}"]}, "resource_mismatch"),
    "no servers": ({"authorization_servers": []}, "no_authorization_server"),
    "servers missing": ({"authorization_servers": None}, "no_authorization_server"),
    "servers in a text": ({"authorization_servers": "{issuer}"}, "no_authorization_server"),
    "strangers": ({"authorization_servers": ["https://other.example.com"]}, "issuer_untrusted"),
    "nearly ours": ({"authorization_servers": ["{issuer}/"]}, "issuer_untrusted"),
    "no texts": ({"authorization_servers": [{}, 5, None]}, "issuer_untrusted"),
    "oversized": ({"padding": " " * (1 << 17)}, "bad_answer"),
    "redirect": (step("redirect", code=307), "redirected"),
    "500": (step("status", code=500, answer=b""), "bad_metadata"),
    "HTML": (step("status", code=200, answer=b"<html>"), "bad_answer"),
    "403": (step("status", code=403, answer=b""), "no_resource_metadata"),
    "404": (step("status", code=404, answer=b"{}"), "no_resource_metadata"),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_wrong_document_leads_nowhere(
    server: AuthorizationServer, backend: ProtectedBackend, discover: Discover, name: str
) -> None:
    """And is read again the next time."""
    document, code = DOCUMENTS[name]
    if isinstance(document, dict):
        names = {"url": backend.url, "origin": backend.base_url, "issuer": server.issuer}

        def filled(value: Any) -> Any:
            if isinstance(value, list):
                return [filled(one) for one in value]
            return value.format(**names) if isinstance(value, str) else value

        changed = {key: filled(value) for key, value in document.items()}
        document = {**server.resource_metadata(backend.url), **changed}
    backend.metadata = document
    endpoint = discover()
    refused(lambda: after(endpoint, Challenge(backend.metadata_url)), code)
    assert server.requests == []
    backend.metadata = None
    assert server.accepts(after(endpoint, Challenge(backend.metadata_url)))


def test_of_several_servers_the_first_that_is_trusted_counts(
    server: AuthorizationServer, backend: ProtectedBackend, discover: Discover
) -> None:
    document = server.resource_metadata(backend.url)
    document["authorization_servers"].insert(0, "https://other.example.com")
    backend.metadata = document
    assert server.accepts(after(discover(), Challenge()), backend.url)


def test_a_scope_that_is_not_permitted_is_not_asked_for(
    server: AuthorizationServer, backend: ProtectedBackend, discover: Discover
) -> None:
    challenge = Challenge(backend.metadata_url, ("deliver", "admin"))
    refused(lambda: after(discover(), challenge), "scope_not_permitted")
    assert server.requests == []


def test_nobody_to_ask_is_told_before_anything_is_asked(
    server: AuthorizationServer, backend: ProtectedBackend, discover: Discover
) -> None:
    endpoint = discover(
        client_id=APP.client_id, flow="authorization_code_pkce", client_secret_ref=None
    )
    refused(lambda: after(endpoint, Challenge()), "interaction_unavailable")
    assert server.requests == []


def test_without_trusted_issuers_there_is_no_discovery(
    authority: Authority, server: AuthorizationServer, backend: ProtectedBackend
) -> None:
    with Side(authority, server) as side:
        for upload in (False, True):
            endpoint = side.endpoint(backend.url, upload=upload)
            assert before(endpoint) is None
            assert endpoint.after_401(None, Challenge(), Budget(5.0)) is None
    assert backend.requests == []


def test_a_binding_is_not_left_for_discovery(
    authority: Authority, server: AuthorizationServer, backend: ProtectedBackend
) -> None:
    """R-AUTH-02: not even where its server is away, and another one is trusted."""
    client = OAuthClient(SERVICE.client_id, client_secret_ref=SECRET_REF, scopes=("deliver",))
    with Side(authority, server, issuers={server.issuer: client}) as side:
        endpoint = side.service(backend.url, issuer="https://127.0.0.1:9")
        refused(lambda: before(endpoint), "authorization_server_unreachable")
        refused(lambda: after(endpoint, Challenge()), "authorization_server_unreachable")
    assert backend.requests == []
    assert server.requests == []


def test_a_server_that_moved_is_found_again(
    authority: Authority, server: AuthorizationServer, backend: ProtectedBackend
) -> None:
    """After an acquisition in vain the endpoint is asked anew; nothing is sent without a token."""
    client = OAuthClient(SERVICE.client_id, client_secret_ref=SECRET_REF, scopes=("deliver",))
    with AuthorizationServer(authority) as old:
        policy = {"issuers": {one.issuer: client for one in (old, server)}}
        with Side(authority, old, **policy) as side:
            backend.server = old
            endpoint = side.endpoint(backend.url)
            token = endpoint.after_401(None, Challenge(backend.metadata_url), Budget(10.0))
            assert token is not None
            old.close()
            refused(lambda: after(endpoint, Challenge(), token), "authorization_server_unreachable")
            backend.metadata = step("status", code=500, answer=b"")
            refused(lambda: before(endpoint), "bad_metadata")
            backend.server, backend.metadata = server, None
            assert server.accepts(before(endpoint).value, backend.url)


def test_a_refresh_in_vain_does_not_cost_the_token_that_is_good(
    server: AuthorizationServer, backend: ProtectedBackend, discover: Discover
) -> None:
    server.lifetime = 10
    endpoint = discover()
    token = after(endpoint, Challenge())
    server.play(token="error_500")
    backend.metadata = step("status", code=500, answer=b"")
    # Ageing from 8 s on: the clock is moved by the token's own start.
    found = before(endpoint)
    object.__setattr__(found, "monotonic", found.monotonic - 8.5)
    for _ in range(5):
        assert before(endpoint).value == token
    assert server.wait_token_requests(2)
    for _ in range(5):
        assert before(endpoint).value == token


def test_fifty_that_are_refused_together_discover_once(
    server: AuthorizationServer, backend: ProtectedBackend, discover: Discover
) -> None:
    endpoint = discover()
    challenge = Challenge(backend.metadata_url)
    found = at_once([lambda: after(endpoint, challenge)] * 50)
    assert len(set(found)) == 1
    assert (len(backend.lookups), len(server.token_requests)) == (1, 1)


# --- what is not sent again ----------------------------------------------------------------------


def test_an_observation_that_was_refused_is_followed_by_better_ones(
    server: AuthorizationServer, backend: ProtectedBackend, discover: Discover
) -> None:
    endpoint = discover()
    assert before(endpoint) is None
    endpoint.invalidate(None, Challenge(backend.metadata_url, ("audit",)))
    assert server.requests == []
    found = before(endpoint)
    assert server.accepts(found.value, backend.url)
    assert server.token_requests[0].form["scope"] == "audit"
    endpoint.invalidate(found, Challenge())
    assert server.accepts(before(endpoint).value)
    assert len(server.token_requests) == 2


def test_an_upload_is_asked_about_before(
    server: AuthorizationServer, backend: ProtectedBackend, discover: Discover
) -> None:
    """R-AUTH-04: there is no resend after which it could be found out."""
    endpoint = discover(upload=True)
    token = before(endpoint)
    assert server.accepts(token.value, backend.url)
    assert before(endpoint) is token
    assert len(backend.lookups) == 1


def test_an_endpoint_that_says_nothing_is_not_asked_again(
    server: AuthorizationServer, backend: ProtectedBackend, discover: Discover
) -> None:
    """Unless it refuses an upload after all."""
    backend.metadata_at = "nowhere"
    endpoint = discover(upload=True)
    assert before(endpoint) is None
    assert before(endpoint) is None
    assert len(backend.lookups) == 2  # both places, once
    backend.metadata_at = "path"
    endpoint.invalidate(None, Challenge(backend.metadata_url))
    assert server.accepts(before(endpoint).value, backend.url)


def test_one_that_can_not_be_asked_gets_no_upload(
    server: AuthorizationServer, backend: ProtectedBackend, discover: Discover
) -> None:
    backend.metadata = step("status", code=500, answer=b"")
    endpoint = discover(upload=True)
    refused(lambda: before(endpoint), "bad_metadata")
    backend.metadata = None
    assert server.accepts(before(endpoint).value)


# --- the host's side -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: OAuthClient(""), ValueError),
        (lambda: OAuthClient("c"), ValueError),
        (lambda: OAuthClient("c", flow="implicit"), ValueError),
        (lambda: OAuthClient("c", client_secret_ref="x", scopes="a b"), TypeError),  # type: ignore[arg-type]
        (lambda: OAuthPolicy(issuers={"https://a": "c"}), TypeError),  # type: ignore[dict-item]
        (
            lambda: OAuthPolicy(issuers={"http://a": OAuthClient("c", client_secret_ref="x")}),
            ValueError,
        ),
        (lambda: OAuthPolicy(open_url=print), ValueError),
        (lambda: OAuthPolicy(redirect_uri="http://127.0.0.1/"), ValueError),
        (lambda: OAuthPolicy(open_url="x"), TypeError),  # type: ignore[arg-type]
        (lambda: OAuthPolicy(acquisition_timeout=0), ValueError),
        (lambda: OAuthPolicy(interaction_timeout=float("inf")), ValueError),
        (lambda: OAuthPolicy(acquisition_timeout=True), TypeError),
    ],
)
def test_a_policy_has_to_make_sense(make: Callable[[], Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        make()
