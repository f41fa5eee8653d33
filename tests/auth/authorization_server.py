"""An authorization server for the tests: Authlib's, over TLS, with knobs, faults and records."""

from __future__ import annotations

import http.client
import logging
import secrets
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, Callable, Optional
from urllib.parse import parse_qsl, urlencode, urlsplit

import jwt as pyjwt
import oauth_variants
from authlib.oauth2.rfc6749 import OAuth2Error
from authlib_side import Authlib
from certificates import Authority
from flask import Flask, Response, jsonify, request
from oauth_variants import Variant
from tls_service import PEER_CERTIFICATE, TLSService
from token_store import Issued, Registered, TokenStore

__all__ = ["APP", "REDIRECT_URI", "SCOPES", "SERVICE", "AuthorizationServer", "Seen", "User"]

#: A confidential client for ``client_credentials``, and a public one for codes with PKCE.
REDIRECT_URI = "http://127.0.0.1:7777/callback"
SERVICE = Registered("service", "s3cret-of/the+service")
APP = Registered(
    "app",
    redirect_uris=(REDIRECT_URI,),
    grants=frozenset({"authorization_code", "refresh_token"}),
    methods=frozenset({"none"}),
)

#: The scopes there are, unless a server is told otherwise.
SCOPES = ("deliver", "upload", "audit")

WELL_KNOWN = "/.well-known/"
RESOURCE = WELL_KNOWN + "oauth-protected-resource"


@dataclass(frozen=True)
class Seen:
    """A request: what it asked of which endpoint (None: none that there is), when, and as whom."""

    method: str
    path: str
    query: Mapping[str, str]
    form: Mapping[str, str] = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    endpoint: Optional[str]
    time: float
    peer_certificate: Optional[Mapping[str, Any]]


class AuthorizationServer:
    """Runs at once, on loopback; close it, or use it as a context manager.

    :param authority: whose certificates it shows; ``asks`` is whose it demands of its clients.
    :param path: the path of its issuer, which moves the well-known addresses.
    :param host: the name or address in all its URLs.
    :param jwt: whether access tokens are JWTs, opaque ones otherwise.
    :param clients: who is known; :data:`SERVICE` and :data:`APP` by default.
    :param variants: what an endpoint does wrong, as for :meth:`play`.

    Knobs, at any time: ``lifetime`` of access tokens in seconds; ``delay``, seconds before a token
    request is worked on; ``hang``, an event that token requests wait for; ``jwt``;
    ``refresh_tokens_for_clients``, whether ``client_credentials`` gets refresh tokens too;
    ``resources``, the only ones that tokens are issued for (empty: any);
    ``forms``, which of "oauth", "oidc" and "oidc_appended" metadata is served.
    """

    def __init__(
        self,
        authority: Authority,
        *,
        asks: Optional[Authority] = None,
        path: str = "",
        host: str = "127.0.0.1",
        lifetime: int = 3600,
        jwt: bool = False,
        scopes: tuple[str, ...] = SCOPES,
        clients: tuple[Registered, ...] = (SERVICE, APP),
        **variants: Variant,
    ) -> None:
        self.ca_file: Path = authority.ca_file
        self.lifetime, self.jwt, self.scopes = lifetime, jwt, scopes
        self.delay = 0.0
        self.hang: Optional[threading.Event] = None
        self.refresh_tokens_for_clients = False
        self.resources: set[str] = set()
        self.forms = {"oauth", "oidc", "oidc_appended"}
        self.clients = {client.client_id: replace(client) for client in clients}
        self.closing = threading.Event()
        self._changed = threading.Condition()
        self._requests: list[Seen] = []
        self._variants: dict[str, Variant] = {}
        self._path, self._key = path.rstrip("/"), secrets.token_bytes(32)
        self.store = TokenStore(self._changed)
        self.play(**variants)
        app = Flask("authorization_server")
        app.logger.setLevel(logging.ERROR)
        methods = ["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS"]
        for rule in ("/", "/<path:any>"):
            app.add_url_rule(
                rule, rule, self._answer, methods=methods, provide_automatic_options=False
            )
        self._authlib = Authlib(app, self)
        self._service = TLSService(app, authority.server(asks=asks))
        self.origin = f"https://{host}:{self._service.port}"
        self.issuer = self.origin + self._path
        self.token_endpoint = f"{self.issuer}/token"
        self.authorization_endpoint = f"{self.issuer}/authorize"

    # --- what it does ---

    def play(self, **variants: Optional[Variant]) -> None:
        """From now on do this at ``metadata``, ``resource``, ``authorize`` or ``token``.

        A variant is a name of :mod:`oauth_variants`, a function of the payload, or None: what is
        right. Raises :class:`ValueError` for names that there are not.
        """
        for endpoint, variant in variants.items():
            oauth_variants.check(endpoint, "lost" if variant is None else variant)
            with self._changed:
                if variant is None:
                    self._variants.pop(endpoint, None)
                else:
                    self._variants[endpoint] = variant

    def revoke(self, access_token: Optional[str] = None) -> None:
        """Revoke an access token, or all that were issued so far."""
        self.store.revoke([one for one in self.issued if access_token in (None, one.access_token)])

    def accepts(self, access_token: str, resource: Optional[str] = None) -> bool:
        """Return whether a token is good now, and for ``resource`` if one is given."""
        one = self.store.find(access_token)
        return one is not None and (resource is None or one.resource == resource)

    def close(self) -> None:
        """End it, and every connection and thread, in bounded time. Repeatable."""
        if not self.closing.is_set():
            self.closing.set()
            self._service.close()

    def __enter__(self) -> AuthorizationServer:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    # --- what it saw ---

    @property
    def requests(self) -> list[Seen]:
        """All requests so far, in the order of their arrival."""
        with self._changed:
            return list(self._requests)

    @property
    def token_requests(self) -> list[Seen]:
        """Those to the token endpoint."""
        return [one for one in self.requests if one.endpoint == "token"]

    @property
    def issued(self) -> list[Issued]:
        """The tokens issued so far."""
        with self._changed:
            return list(self.store.issued)

    @property
    def revoked_families(self) -> list[str]:
        """The families that were revoked because a refresh token or code was used again."""
        with self._changed:
            return list(self.store.revoked_families)

    def wait(self, condition: Callable[[], object], timeout: float = 10.0) -> bool:
        """Wait up to ``timeout`` seconds for ``condition()``, looked at with each record."""
        with self._changed:
            return bool(self._changed.wait_for(condition, timeout))

    def wait_token_requests(self, count: int = 1, timeout: float = 10.0) -> bool:
        """Wait likewise until ``count`` requests for a token arrived."""
        return self.wait(lambda: len(self.token_requests) >= count, timeout)

    # --- the user ---

    def browse(self, url: str) -> str:
        """Go to ``url`` as a user who agrees does, and return the URL that one is sent back to.

        Raises :class:`ValueError` if the answer is no redirect.
        """
        split = urlsplit(url)
        context = ssl.create_default_context(cafile=str(self.ca_file))
        connection = http.client.HTTPSConnection(
            str(split.hostname), split.port, context=context, timeout=10.0
        )
        try:
            connection.request("GET", f"{split.path}?{split.query}")
            answer = connection.getresponse()
            body, location = answer.read(), answer.getheader("Location")
        finally:
            connection.close()
        if location is None:
            raise ValueError(f"the server answered {answer.status} {body!r}")
        return location

    # --- documents and tokens ---

    def metadata(self) -> dict[str, Any]:
        """Return the issuer's metadata (RFC 8414) as it is right."""
        return {
            "issuer": self.issuer,
            "authorization_endpoint": self.authorization_endpoint,
            "token_endpoint": self.token_endpoint,
            "scopes_supported": list(self.scopes),
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "client_credentials", "refresh_token"],
            "token_endpoint_auth_methods_supported": [
                "client_secret_basic",
                "client_secret_post",
                "none",
            ],
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
        }

    def resource_metadata(self, resource: str) -> dict[str, Any]:
        """Return the metadata of a protected resource (RFC 9728) as it is right."""
        return {
            "resource": resource,
            "authorization_servers": [self.issuer],
            "scopes_supported": list(self.scopes),
            "bearer_methods_supported": ["header"],
        }

    def claims(self, issued: Issued) -> dict[str, Any]:
        """Return what a JWT says for ``issued`` (RFC 9068)."""
        now = int(time.time())
        found = {
            "iss": self.issuer,
            "aud": issued.resource,
            "sub": issued.client_id,
            "client_id": issued.client_id,
            "scope": issued.scope,
            "iat": now,
            "exp": now + int(self.lifetime),
            "jti": secrets.token_hex(8),
        }
        return {name: value for name, value in found.items() if value is not None}

    def sign(self, claims: Mapping[str, Any]) -> str:
        """Return a JWT with ``claims``."""
        return pyjwt.encode(dict(claims), self._key, "HS256", {"typ": "at+jwt"})

    # --- inside ---

    def _answer(self, any: str = "") -> Response:
        moved = request.path.startswith("/moved/")
        path = request.path[len("/moved") :] if moved else request.path
        endpoint = self._endpoint(path)
        self._record(endpoint)
        work = {
            "metadata": lambda: jsonify(self.metadata()),
            "resource": lambda: jsonify(
                self.resource_metadata(self.origin + path[len(RESOURCE) :])
            ),
            "authorize": self._authorize,
            "token": self._token,
        }.get(endpoint or "")
        if endpoint is None or work is None:
            return Response(status=404)
        if endpoint == "token":
            self._dawdle()
        variant = None if moved else self._variants.get(endpoint)
        if variant is None:
            return work()
        return oauth_variants.apply(self, endpoint, variant, work)

    def _endpoint(self, path: str) -> Optional[str]:
        forms = {
            "oauth": f"{WELL_KNOWN}oauth-authorization-server{self._path}",
            "oidc": f"{WELL_KNOWN}openid-configuration{self._path}",
            "oidc_appended": f"{self._path}{WELL_KNOWN}openid-configuration",
        }
        if path in [form for name, form in forms.items() if name in self.forms]:
            return "metadata"
        if path == RESOURCE or path.startswith(RESOURCE + "/"):
            return "resource"
        return {f"{self._path}/authorize": "authorize", f"{self._path}/token": "token"}.get(path)

    def _record(self, endpoint: Optional[str]) -> None:
        seen = Seen(
            request.method,
            request.path,
            request.args.to_dict(),
            request.form.to_dict(),
            dict(request.headers),
            endpoint,
            time.monotonic(),
            request.environ[PEER_CERTIFICATE],
        )
        with self._changed:
            self._requests.append(seen)
            self._changed.notify_all()

    def _dawdle(self) -> None:
        hang = self.hang
        while hang is not None and not (hang.wait(0.02) or self.closing.is_set()):
            pass
        self.closing.wait(self.delay)

    def _token(self) -> Response:
        response: Response = self._authlib.create_token_response()
        return response

    def _authorize(self) -> Response:
        try:
            grant = self._authlib.get_consent_grant(end_user="user")
        except OAuth2Error as error:
            return self._with_issuer(self._authlib.handle_error_response(None, error))
        return self._with_issuer(
            self._authlib.create_authorization_response(
                request=grant.request, grant_user="user", grant=grant
            )
        )

    def _with_issuer(self, response: Response) -> Response:
        """Name the issuer in the answer to the user's browser (RFC 9207)."""
        if response.location:
            url = urlsplit(response.location)
            query = [*parse_qsl(url.query), ("iss", self.issuer)]
            response.location = url._replace(query=urlencode(query)).geturl()
        return response


class User:
    """One who agrees at once: the two callbacks that :class:`ahp_sync.OAuthPolicy` takes.

    ``delay`` is how many seconds the way back takes; ``urls`` are those that were shown.
    """

    def __init__(self, server: AuthorizationServer, delay: float = 0.0) -> None:
        self._server = server
        self._back: SimpleQueue[str] = SimpleQueue()
        self.delay = delay
        self.urls: list[str] = []

    def open_url(self, url: str) -> None:
        """Go there and agree."""
        self.urls.append(url)
        location = self._server.browse(url)
        if not self._server.closing.wait(self.delay):
            self._back.put(location)

    def receive_code(self, seconds: float) -> str:
        """Return the URL that the user was sent back to; :class:`TimeoutError` if none comes."""
        try:
            return self._back.get(timeout=seconds)
        except Empty:
            raise TimeoutError("nobody came back") from None
