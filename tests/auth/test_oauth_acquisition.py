"""Getting tokens from a real server: what is asked, what is kept, what every fault is called."""

from __future__ import annotations

import contextvars
import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from typing import Any, Callable

import jwt
import pytest
from acquiring import RESOURCE_URL, Side, refused, value_of
from authorization_server import APP, REDIRECT_URI, SERVICE, AuthorizationServer, User
from certificates import Authority
from watching import SLACK, timed

from ahp_sync import Budget
from ahp_sync.auth.challenge import Challenge
from ahp_sync.auth.provider import OAuthEndpoint
from ahp_sync.budget import BudgetEnded
from ahp_sync.failure import FailureClass, OperationalFailure

Sides = Callable[..., Side]


pytestmark = pytest.mark.usefixtures("nothing_is_left")


@pytest.fixture
def sides(authority: Authority, server: AuthorizationServer) -> Iterator[Sides]:
    """``sides(**policy)``: providers that trust the authority, closed afterwards."""
    made: list[Side] = []

    def make(**more: Any) -> Side:
        made.append(Side(authority, server, **more))
        return made[-1]

    yield make
    for side in made:
        side.__exit__(None, None, None)


def ask(endpoint: OAuthEndpoint, seconds: float = 10.0) -> str:
    return value_of(endpoint.token(Budget(seconds)))


def asking(user: User, **more: Any) -> dict[str, Any]:
    return {
        "open_url": user.open_url,
        "receive_code": user.receive_code,
        "redirect_uri": REDIRECT_URI,
        **more,
    }


def over(server: AuthorizationServer, endpoint: OAuthEndpoint) -> str:
    """Have the present token refused by the backend, and return the one that comes instead."""
    token = endpoint.token(Budget(10.0))
    assert token is not None
    return value_of(endpoint.after_401(token, Challenge(), Budget(10.0)))


# --- what is asked, and kept -------------------------------------------------------------------


def test_tokens_are_kept_by_what_they_are_for(sides: Sides, server: AuthorizationServer) -> None:
    """R-AUTH-06: issuer, resource, client, scopes; and not for events and uploads together."""
    side = sides()
    alike = [side.service(), side.service("https://127.0.0.1:8/x", resource=RESOURCE_URL)]
    assert len({ask(one) for one in alike}) == 1
    assert ask(side.service(scopes=("deliver", "audit"))) == ask(
        side.service(scopes=("audit", "deliver", "audit"))
    )
    assert len(server.token_requests) == 2
    others = [
        side.service(upload=True),
        side.service(resource="https://127.0.0.1:9/other"),
        side.service(scopes=("upload",)),
        side.service(client_secret_ref="another-name"),
    ]
    assert len({ask(one) for one in [*alike, *others]}) == 1 + len(others)


def test_metadata_is_read_once_while_all_is_well(sides: Sides, server: AuthorizationServer) -> None:
    """And again after a failure, which it may have been the reason for."""
    endpoint = sides().service()
    seen = lambda: [one.endpoint for one in server.requests]  # noqa: E731
    ask(endpoint)
    over(server, endpoint)
    assert seen() == ["metadata", "token", "token"]
    server.play(token="error_500")
    refused(lambda: over(server, endpoint), "token_endpoint")
    server.play(token=None)
    ask(endpoint)
    assert seen() == ["metadata", *["token"] * 3, "metadata", "token"]


def test_the_same_token_again_is_nothing_to_resend_with(
    sides: Sides, server: AuthorizationServer
) -> None:
    """A server may hand out one token until its end; the backend has refused just that."""
    server.play(token=lambda payload: {**payload, "access_token": "one-and-the-same"})
    endpoint = sides().service()
    token = endpoint.token(Budget(10.0))
    assert token is not None
    assert endpoint.after_401(token, Challenge(), Budget(10.0)) is None
    assert len(server.token_requests) == 2


def test_the_secret_is_found_within_the_acquisition(
    sides: Sides, server: AuthorizationServer
) -> None:
    """One that hangs costs its caller the budget, and the acquisition its bound; nobody else."""
    released, refs = threading.Event(), []

    def secret(ref: str, budget: Budget) -> str:
        refs.append((ref, round(budget.remaining())))
        if ref == "hangs":
            released.wait(10.0)
        return SERVICE.secret or ""

    side = sides(secret=secret, acquisition_timeout=3.0)
    hung = side.service(client_secret_ref="hangs")
    began = time.monotonic()
    with pytest.raises(BudgetEnded):
        ask(hung, 0.3)
    assert 0.3 <= time.monotonic() - began < 0.3 + SLACK
    ask(side.service())
    assert refs == [("hangs", 3), ("service-secret", 3)]
    released.set()


def test_without_a_secret_the_client_is_nobody(sides: Sides, server: AuthorizationServer) -> None:
    refused(lambda: ask(sides().service(client_secret_ref=None)), "no_secret")
    assert server.requests == []


def test_no_context_of_a_caller_reaches_the_callbacks(
    sides: Sides, server: AuthorizationServer
) -> None:
    """What is got for all must not depend on who came first (F65)."""
    tenant: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="nobody")
    seen = []

    def secret(ref: str, budget: Budget) -> str:
        seen.append(tenant.get())
        return SERVICE.secret or ""

    tenant.set("first")
    ask(sides(secret=secret).service())
    assert seen == ["nobody"]


# --- what every fault is called ------------------------------------------------------------------

FAULTS = {
    ("metadata", "wrong_issuer"): "issuer_mismatch",
    ("metadata", "issuer_with_slash"): "issuer_mismatch",
    ("metadata", "no_issuer"): "issuer_mismatch",
    ("metadata", "no_token_endpoint"): "bad_metadata",
    ("metadata", "http_token_endpoint"): "bad_metadata",
    ("metadata", "link_local_destination"): "forbidden_destination",
    ("metadata", "private_destination"): "forbidden_destination",
    ("metadata", "no_client_credentials"): "flow_unsupported",
    ("metadata", "no_known_method"): "no_client_authentication",
    ("metadata", "not_found"): "no_metadata",
    ("metadata", "error_500"): "bad_metadata",
    ("metadata", "status_201"): "bad_metadata",
    ("metadata", "not_json"): "bad_answer",
    ("metadata", "not_an_object"): "bad_answer",
    ("metadata", "duplicate_keys"): "bad_answer",
    ("metadata", "oversized"): "bad_answer",
    ("metadata", "redirect"): "redirected",
    ("metadata", "close"): "authorization_server_lost",
    ("token", "redirect"): "redirected",
    ("token", "redirect_302"): "redirected",
    ("token", "error_500"): "token_endpoint",
    ("token", "slow_down"): "token_endpoint",
    ("token", "invalid_client"): "token_refused",
    ("token", "invalid_grant"): "token_refused",
    ("token", "invalid_scope"): "token_refused",
    ("token", "echo"): "token_refused",
    ("token", "not_json"): "bad_answer",
    ("token", "oversized"): "bad_answer",
    ("token", "lost"): "authorization_server_lost",
    ("token", "wrong_token_type"): "bad_token",
    ("token", "bad_token"): "bad_token",
    ("token", "empty_token"): "bad_token",
    ("token", "numeric_token"): "bad_token",
    ("token", "no_token"): "bad_token",
    ("token", "bad_expiry"): "bad_token",
    ("token", "narrower_scope"): "scope_mismatch",
    ("token", "wrong_audience"): "audience_mismatch",
    ("token", "wrong_jwt_issuer"): "issuer_mismatch",
}


@pytest.mark.parametrize(
    ("place", "code"), FAULTS.items(), ids=["-".join(place) for place in FAULTS]
)
def test_every_fault_has_its_code(
    sides: Sides, server: AuthorizationServer, place: tuple[str, str], code: str
) -> None:
    endpoint = sides().service(scopes=("deliver", "audit"))
    server.play(**{place[0]: place[1]})
    failure = refused(lambda: ask(endpoint), code)
    assert SERVICE.secret not in str(failure)
    server.play(**{place[0]: None})
    assert server.accepts(ask(endpoint), RESOURCE_URL)


def test_a_server_that_is_not_there(authority: Authority, sides: Sides) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    endpoint = sides().service(issuer=f"https://127.0.0.1:{port}")
    refused(lambda: ask(endpoint), "authorization_server_unreachable")


def test_one_that_says_nothing_is_left_at_the_bound(sides: Sides) -> None:
    """F53: not even the handshake comes about."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        issuer = f"https://127.0.0.1:{silent.getsockname()[1]}"
        endpoint = sides(acquisition_timeout=0.4).service(issuer=issuer)
        _, seconds = timed(lambda: refused(lambda: ask(endpoint), "acquisition_timed_out"))
        assert 0.4 <= seconds < 0.4 + 2 * SLACK


JUNK: dict[str, Any] = {
    "opaque": "abc",
    "dots": "a.b.c",
    "deep": jwt.encode({"x": json.loads("[" * 300 + "]" * 300)}, "k" * 32),
    "no claims": jwt.encode({}, "k" * 32),
    "huge expiry": jwt.encode({"exp": 10**400}, "k" * 32),
    "infinite expiry": jwt.encode({"exp": float("inf")}, "k" * 32),
    "expiry as text": jwt.encode({"exp": "soon"}, "k" * 32),
    "several audiences": jwt.encode({"aud": ["x", RESOURCE_URL]}, "k" * 32),
}


@pytest.mark.parametrize("name", JUNK)
def test_a_token_may_look_like_anything(
    sides: Sides, server: AuthorizationServer, name: str
) -> None:
    server.play(token=lambda payload: {**payload, "access_token": JUNK[name]})
    assert ask(sides().service()) == JUNK[name]


def test_claims_that_end_earlier_count(sides: Sides, server: AuthorizationServer) -> None:
    value = jwt.encode({"exp": int(time.time()) + 100}, "k" * 32)
    server.play(token=lambda payload: {**payload, "access_token": value})
    token = sides().service().token(Budget(10.0))
    assert token is not None and token.lifetime is not None
    assert 90.0 < token.lifetime <= 100.0


# --- refresh tokens ------------------------------------------------------------------------------


def grants(server: AuthorizationServer) -> list[str]:
    return [one.form["grant_type"] for one in server.token_requests]


def test_each_refresh_token_is_used_once(sides: Sides, server: AuthorizationServer) -> None:
    server.refresh_tokens_for_clients = True
    endpoint = sides().service()
    ask(endpoint)
    for _ in range(3):
        over(server, endpoint)
    assert grants(server) == ["client_credentials", *["refresh_token"] * 3]
    sent = [one.form["refresh_token"] for one in server.token_requests[1:]]
    assert len(set(sent)) == 3
    assert not server.revoked_families


def test_one_that_is_not_replaced_stays_good(sides: Sides, server: AuthorizationServer) -> None:
    """RFC 6749, section 6: a server that does not rotate them sends none."""
    user = User(server)
    endpoint = sides(**asking(user)).app()
    ask(endpoint)
    first = server.issued[0].refresh_token
    server.play(token="no_refresh_token")
    over(server, endpoint)
    server.issued[0].refreshed = False
    over(server, endpoint)
    assert [one.form.get("refresh_token") for one in server.token_requests] == [None, first, first]
    assert len(user.urls) == 1


@pytest.mark.parametrize("fault", ["lost", "error_500", "invalid_grant", "not_json"])
def test_one_of_unknown_fate_is_not_sent_again(
    sides: Sides, server: AuthorizationServer, fault: str
) -> None:
    """F17. The client asks anew instead, in its own name."""
    server.refresh_tokens_for_clients = True
    endpoint = sides().service()
    ask(endpoint)
    server.play(token=fault)
    with pytest.raises(OperationalFailure):
        over(server, endpoint)
    server.play(token=None)
    assert server.accepts(ask(endpoint))
    assert grants(server) == [
        *("client_credentials", "refresh_token", "client_credentials", "client_credentials")
    ]
    assert not server.revoked_families


def test_one_that_was_not_sent_is_kept(
    authority: Authority, sides: Sides, server: AuthorizationServer
) -> None:
    """The user is not asked again because a server was away for a moment."""
    user = User(server)
    side = sides(**asking(user))
    endpoint = side.app()
    ask(endpoint)
    server.play(metadata="error_503")
    endpoint._acquisition.forget()
    refused(lambda: over(server, endpoint), "bad_metadata")
    server.play(metadata=None)
    assert server.accepts(ask(endpoint))
    assert grants(server) == ["authorization_code", "refresh_token"]
    assert len(user.urls) == 1


def test_a_revoked_family_costs_the_user_a_visit(sides: Sides, server: AuthorizationServer) -> None:
    user = User(server)
    endpoint = sides(**asking(user)).app()
    ask(endpoint)
    server.store.revoke_family(server.issued[0].family)
    assert server.accepts(over(server, endpoint))
    assert grants(server) == ["authorization_code", "refresh_token", "authorization_code"]
    assert len(user.urls) == 2


# --- users ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variants", "code"),
    [
        ({"metadata": "no_s256"}, "no_s256"),
        ({"metadata": "no_pkce"}, "no_s256"),
        ({"metadata": "http_authorization_endpoint"}, "bad_metadata"),
        (
            {"metadata": lambda found: {**found, "grant_types_supported": ["client_credentials"]}},
            "flow_unsupported",
        ),
        (
            {"metadata": lambda found: {**found, "authorization_endpoint": None}},
            "bad_metadata",
        ),
        ({"authorize": "wrong_state"}, "authorization_refused"),
        ({"authorize": "no_state"}, "authorization_refused"),
        ({"authorize": "no_code"}, "authorization_refused"),
        ({"authorize": "denied"}, "authorization_refused"),
        ({"authorize": "wrong_iss"}, "issuer_mismatch"),
        ({"authorize": "no_iss"}, "issuer_mismatch"),
    ],
)
def test_what_a_user_comes_back_with_is_checked(
    sides: Sides, server: AuthorizationServer, variants: dict[str, Any], code: str
) -> None:
    server.play(**variants)
    user = User(server)
    refused(lambda: ask(sides(**asking(user)).app()), code)
    assert len(user.urls) == ("authorize" in variants)
    assert server.token_requests == []


def test_a_server_that_does_not_name_itself_need_not(
    sides: Sides, server: AuthorizationServer
) -> None:
    """RFC 9207 is only binding for those that say so."""
    name = "authorization_response_iss_parameter_supported"
    server.play(
        metadata=lambda found: {k: v for k, v in found.items() if k != name}, authorize="no_iss"
    )
    assert server.accepts(ask(sides(**asking(User(server))).app()))


@pytest.mark.parametrize(
    "change",
    [
        lambda url: url.replace("/callback", "/elsewhere"),
        lambda url: url.replace("127.0.0.1", "127.0.0.2"),
        lambda url: url + "&state=another",
        lambda url: url.partition("?")[2],
        lambda url: None,
        lambda url: "",
    ],
)
def test_only_the_redirect_uri_is_taken(
    sides: Sides, server: AuthorizationServer, change: Callable[[str], Any]
) -> None:
    user = User(server)
    policy = asking(user, receive_code=lambda seconds: change(user.receive_code(seconds)))
    refused(lambda: ask(sides(**policy).app()), "bad_redirect")
    assert server.token_requests == []


@pytest.mark.parametrize(
    "error",
    [
        ValueError("secret"),
        SystemExit(3),
        KeyboardInterrupt(),
        OperationalFailure(FailureClass.CONNECTION, "secret", "of a hook that it called"),
    ],
)
@pytest.mark.parametrize("name", ["open_url", "receive_code"])
def test_what_callbacks_raise_stays_inside(
    sides: Sides, server: AuthorizationServer, name: str, error: BaseException
) -> None:
    def fail(*arguments: Any) -> Any:
        raise error

    endpoint = sides(**asking(User(server), **{name: fail})).app()
    failure = refused(lambda: ask(endpoint), "interaction_failed")
    assert "secret" not in str(failure)


def test_without_callbacks_nothing_is_asked(sides: Sides, server: AuthorizationServer) -> None:
    refused(lambda: ask(sides().app()), "interaction_unavailable")
    assert server.requests == []


def test_a_user_has_a_bound_of_his_own(sides: Sides, server: AuthorizationServer) -> None:
    """Longer than a server's, and told to the host's callback."""
    told: list[float] = []

    def receive(seconds: float) -> str:
        told.append(seconds)
        return user.receive_code(seconds)

    user = User(server, delay=0.6)
    policy = asking(user, receive_code=receive, acquisition_timeout=0.3, interaction_timeout=20.0)
    assert server.accepts(ask(sides(**policy).app()))
    assert 15.0 < told[0] <= 20.0


def test_a_user_who_does_not_come_is_not_waited_for_longer(
    sides: Sides, server: AuthorizationServer
) -> None:
    """Even by a callback that does not care for the seconds it was given."""
    released = threading.Event()
    policy = asking(
        User(server), receive_code=lambda seconds: str(released.wait(10.0)), interaction_timeout=0.5
    )
    endpoint = sides(**policy).app()
    _, seconds = timed(lambda: refused(lambda: ask(endpoint), "acquisition_timed_out"))
    assert 0.5 <= seconds < 0.5 + 2 * SLACK
    released.set()
    assert APP.client_id not in [one.form.get("client_id") for one in server.token_requests]


def test_a_stranger_is_not_told_the_secret(
    authority: Authority,
    sides: Sides,
    server: AuthorizationServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """One whose certificate is not trusted, or is for another name."""
    other = Authority(tmp_path_factory.mktemp("tls") / "other")
    side = sides()
    for context in (other.server(), authority.server("elsewhere.example.com")):
        with _Refusing(context) as stranger:
            endpoint = side.service(issuer=stranger.origin)
            refused(lambda e=endpoint: ask(e), "authorization_server_unreachable")


class _Refusing:
    """A TLS server that nobody comes to speak with."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.origin = f"https://127.0.0.1:{self._listener.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, args=(context,), daemon=True)

    def _serve(self, context: ssl.SSLContext) -> None:
        connection, _ = self._listener.accept()
        with connection:
            try:
                context.wrap_socket(connection, server_side=True).close()
            except OSError:
                pass

    def __enter__(self) -> _Refusing:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._thread.join(10.0)
        self._listener.close()
