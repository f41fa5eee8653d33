"""The ways in which the authorization server of the tests can misbehave, by endpoint and name."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Callable, Union
from urllib.parse import parse_qsl, urlencode, urlsplit

from flask import Response, g, request
from tls_service import CONNECTION

if TYPE_CHECKING:
    from authorization_server import AuthorizationServer

__all__ = ["ENDPOINTS", "Variant", "apply", "check", "names"]

Payload = dict[str, Any]

#: The name of a variant, or a function of the JSON object (at the authorization endpoint: of the
#: parameters of the redirect) that returns what is sent in its place.
Variant = Union[str, Callable[[Payload], Any]]

#: More than any document of this kind may have.
OVERSIZED = 4 << 20


def _text(body: str, status: int = 200, content_type: str = "application/json") -> Response:
    return Response(body, status, content_type=content_type)


def _moved(status: int) -> Callable[[AuthorizationServer], Response]:
    """To another path of this server, where the right answer is waiting."""
    return lambda server: Response(
        status=status, headers={"Location": f"{server.origin}/moved{request.full_path.rstrip('?')}"}
    )


def _hang(server: AuthorizationServer) -> Response:
    server.closing.wait()
    return _close(server)


def _drip(server: AuthorizationServer) -> Response:
    """A byte now and then, without end."""

    def bytes_() -> Iterator[bytes]:
        yield b"{"
        while not server.closing.wait(0.05):
            yield b" "

    return Response(bytes_(), content_type="application/json")


def _close(server: AuthorizationServer) -> Response:
    """The end of the connection, without an answer."""
    with contextlib.suppress(OSError):  # the client was faster
        socket.socket.shutdown(request.environ[CONNECTION], socket.SHUT_RDWR)
    return Response(b"")


def _cut(server: AuthorizationServer) -> Response:
    """The end of the connection in the middle of the body."""
    return Response(b'{"issuer": ', headers={"Content-Length": "500"})


#: What any endpoint can do in place of its answer, and before it has done anything.
_INSTEAD: dict[str, Callable[[AuthorizationServer], Response]] = {
    "redirect": _moved(307),
    "redirect_302": _moved(302),
    "error_500": lambda server: _text('{"error": "server_error"}', 500),
    "error_503": lambda server: _text("", 503),
    "not_found": lambda server: _text("", 404),
    "forbidden": lambda server: _text("", 403),
    "not_json": lambda server: _text("<html>hello</html>", 200, "text/html"),
    "not_an_object": lambda server: _text("[]"),
    "empty": lambda server: _text(""),
    "hang": _hang,
    "drip": _drip,
    "close": _close,
    "cut": _cut,
}

#: What any endpoint can do with its answer once the work is done.
_AFTER: dict[str, Callable[[AuthorizationServer, Response], Response]] = {
    "lost": lambda server, response: _close(server),
    "oversized": lambda server, response: _text(response.get_data(as_text=True) + " " * OVERSIZED),
    "duplicate_keys": lambda server, response: _text(
        response.get_data(as_text=True).rstrip()[:-1] + ', "issuer": "x", "issuer": "y"}'
    ),
    "status_201": lambda server, response: _text(response.get_data(as_text=True), 201),
}

Edit = Callable[["AuthorizationServer", Payload], Any]


def _sets(**members: Any) -> Edit:
    return lambda server, payload: {**payload, **members}


def _drops(*names: str) -> Edit:
    return lambda server, payload: {k: v for k, v in payload.items() if k not in names}


def _http(name: str) -> Edit:
    return lambda server, payload: {**payload, name: payload[name].replace("https:", "http:")}


def _jwt(**claims: Any) -> Edit:
    """A JWT as the access token, with ``claims`` that are wrong."""

    def edit(server: AuthorizationServer, payload: Payload) -> Payload:
        g.issued.access_token = server.sign({**server.claims(g.issued), **claims})
        return {**payload, "access_token": g.issued.access_token}

    return edit


def _narrower(server: AuthorizationServer, payload: Payload) -> Payload:
    return {**payload, "scope": " ".join(payload.get("scope", "").split()[:-1]) or "other"}


def _refused(status: int, error: str) -> Callable[[AuthorizationServer], Response]:
    return lambda server: _text(json.dumps({"error": error}), status)


ELSEWHERE = "https://other.example.com"

_EDITS: dict[str, dict[str, Edit]] = {
    "metadata": {
        "wrong_issuer": _sets(issuer=ELSEWHERE),
        "issuer_with_slash": lambda server, payload: {**payload, "issuer": server.issuer + "/"},
        "no_issuer": _drops("issuer"),
        "no_pkce": _drops("code_challenge_methods_supported"),
        "no_s256": _sets(code_challenge_methods_supported=["plain"]),
        "no_client_credentials": _sets(grant_types_supported=["authorization_code"]),
        "post_only": _sets(token_endpoint_auth_methods_supported=["client_secret_post"]),
        "no_known_method": _sets(token_endpoint_auth_methods_supported=["tls_client_auth"]),
        "no_token_endpoint": _drops("token_endpoint"),
        "http_token_endpoint": _http("token_endpoint"),
        "http_authorization_endpoint": _http("authorization_endpoint"),
        "link_local_destination": _sets(token_endpoint="https://169.254.10.10/token"),
        "private_destination": _sets(token_endpoint="https://10.255.255.1/token"),
    },
    "resource": {
        "wrong_resource": _sets(resource=ELSEWHERE),
        "no_resource": _drops("resource"),
        "no_servers": _sets(authorization_servers=[]),
        "servers_missing": _drops("authorization_servers"),
        "wrong_server": _sets(authorization_servers=[ELSEWHERE]),
        "http_server": lambda server, payload: {
            **payload,
            "authorization_servers": [server.issuer.replace("https:", "http:")],
        },
    },
    "token": {
        "wrong_token_type": _sets(token_type="mac"),
        "no_token_type": _drops("token_type"),
        "lower_case_type": _sets(token_type="bearer"),
        "no_token": _drops("access_token"),
        "empty_token": _sets(access_token=""),
        "bad_token": _sets(access_token="two words\r\nX-Evil: 1"),
        "numeric_token": _sets(access_token=17),
        "no_expiry": _drops("expires_in"),
        "expiry_as_text": lambda server, payload: {**payload, "expires_in": str(server.lifetime)},
        "bad_expiry": _sets(expires_in="soon"),
        "zero_expiry": _sets(expires_in=0),
        "negative_expiry": _sets(expires_in=-5),
        "huge_expiry": _sets(expires_in=10**30),
        "no_scope": _drops("scope"),
        "narrower_scope": _narrower,
        "wider_scope": lambda server, payload: {
            **payload,
            "scope": f"{payload.get('scope', '')} everything".strip(),
        },
        "wrong_audience": _jwt(aud=ELSEWHERE),
        "wrong_jwt_issuer": _jwt(iss=ELSEWHERE),
        "expired_jwt": lambda server, payload: _jwt(exp=int(time.time()) - 60)(server, payload),
        "no_refresh_token": _drops("refresh_token"),
    },
    "authorize": {
        "wrong_state": _sets(state="another"),
        "no_state": _drops("state"),
        "no_code": _drops("code"),
        "wrong_iss": _sets(iss=ELSEWHERE),
        "no_iss": _drops("iss"),
        "denied": lambda server, payload: {
            **_drops("code")(server, payload),
            "error": "access_denied",
        },
    },
}


def _echo(server: AuthorizationServer) -> Response:
    """An error that says all that was sent, secrets included."""
    sent = f"{request.form.to_dict()} {request.headers.get('Authorization')}"
    return _text(json.dumps({"error": "invalid_request", "error_description": sent}), 400)


_TOKEN_INSTEAD = {
    "echo": _echo,
    "invalid_client": _refused(401, "invalid_client"),
    "invalid_grant": _refused(400, "invalid_grant"),
    "invalid_scope": _refused(400, "invalid_scope"),
    "slow_down": _refused(429, "slow_down"),
}

#: The endpoints that variants are for.
ENDPOINTS = tuple(_EDITS)


def check(endpoint: str, variant: Variant) -> None:
    """Raise :class:`ValueError` unless there is such a variant at such an endpoint."""
    if endpoint not in _EDITS:
        raise ValueError(f"the endpoints are {', '.join(ENDPOINTS)}, not {endpoint!r}")
    if not callable(variant) and variant not in names(endpoint):
        raise ValueError(f"{endpoint}: {variant!r} is none of {', '.join(names(endpoint))}")


def names(endpoint: str) -> list[str]:
    """Return the names of the variants at ``endpoint``."""
    return sorted({*_EDITS[endpoint], *_instead(endpoint), *_AFTER})


def _instead(endpoint: str) -> dict[str, Callable[[AuthorizationServer], Response]]:
    return {**_INSTEAD, **_TOKEN_INSTEAD} if endpoint == "token" else _INSTEAD


def apply(
    server: AuthorizationServer, endpoint: str, variant: Variant, work: Callable[[], Response]
) -> Response:
    """Return what the endpoint answers under ``variant``, where ``work()`` is the right answer."""
    if not callable(variant):
        instead = _instead(endpoint).get(variant)
        if instead is not None:
            return instead(server)
        if variant in _AFTER:
            return _AFTER[variant](server, work())
    return _edited(server, endpoint, variant, work())


def _edited(
    server: AuthorizationServer, endpoint: str, variant: Variant, response: Response
) -> Response:
    def edit(payload: Payload) -> Any:
        return variant(payload) if callable(variant) else _EDITS[endpoint][variant](server, payload)

    if response.location:
        url = urlsplit(response.location)
        query = edit(dict(parse_qsl(url.query)))
        response.location = url._replace(query=urlencode(query)).geturl()
        return response
    if response.status_code != 200:
        return response
    return _text(json.dumps(edit(json.loads(response.get_data()))))
