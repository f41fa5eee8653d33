"""A scripted backend that asks for a token of the authorization server of the tests."""

from __future__ import annotations

import contextlib
import json
import ssl
import threading
from typing import Any, Callable, Optional, Union

from authorization_server import APP, RESOURCE, SERVICE, AuthorizationServer

from ahp_sync.testing import HttpBackend, step
from ahp_sync.testing.http_steps import REQUEST_STEPS
from ahp_sync.testing.received import ReceivedRequest
from ahp_sync.testing.steps import Script, Step, Steps, as_step, as_steps, check

__all__ = ["SECRET_REF", "ProtectedBackend"]

#: What a host knows the secret of :data:`SERVICE` as.
SECRET_REF = "service-secret"


class ProtectedBackend(HttpBackend):
    """Follows its script for those who show a good token, and answers 401 to everybody else.

    :param server: whose tokens are good.
    :param script: as for :class:`HttpBackend`; only accepted requests take a step of it.
    :param tls: a server-side context.
    :param resource: what a token must be for; the URL by default.

    Knobs, at any time (``server`` and ``resource`` among them):

    - ``challenge``, of a 401: "metadata" (Bearer, with the address of the metadata), "bare"
      (Bearer without it), "basic", "none", or the value of the header itself;
    - ``scope`` goes into the challenge;
    - ``status`` of a refusal;
    - ``metadata_at``: "path", "root" or "nowhere";
    - ``metadata``: what the document says in place of what is right, or a step;
    - ``gathering``: a barrier that each refusal waits at.
    """

    default_id = "com.example.protected"

    def __init__(
        self,
        server: AuthorizationServer,
        script: Union[Script, Callable[[ReceivedRequest], Any]] = "ok",
        *,
        tls: ssl.SSLContext,
        resource: Optional[str] = None,
    ) -> None:
        self.server, self._resource = server, resource
        self.challenge, self.scope, self.status = "metadata", "", 401
        self.metadata_at = "path"
        self.metadata: Union[dict[str, Any], Step, str, None] = None
        self.gathering: Optional[threading.Barrier] = None
        self._accepted: list[ReceivedRequest] = []
        self._refused: list[ReceivedRequest] = []
        super().__init__(script, tls=tls)

    def play(self, script: Union[Script, Callable[[ReceivedRequest], Any]]) -> None:
        """Follow ``script`` from the next accepted request on."""
        if callable(script):
            self._next = script
        else:
            steps = Steps([_checked(one) for one in as_steps(script)])
            self._next = lambda request: steps.take()
        super().play(self._guard)

    @property
    def resource(self) -> str:
        """What a token must be for."""
        return self._resource or self.url

    @resource.setter
    def resource(self, value: str) -> None:
        self._resource = value

    @property
    def metadata_url(self) -> str:
        """Where the metadata of the resource is."""
        return self.base_url + RESOURCE + ("/ahp" if self.metadata_at == "path" else "")

    @property
    def accepted(self) -> list[ReceivedRequest]:
        """The requests that came with a good token."""
        return list(self._accepted)

    @property
    def refused(self) -> list[ReceivedRequest]:
        """Those that came without."""
        return list(self._refused)

    @property
    def lookups(self) -> list[str]:
        """The paths of what was fetched by GET."""
        return [request.path for request in self.requests if request.method == "GET"]

    def preset(self, **changes: Any) -> dict[str, Any]:
        """Return the ``authentication`` of a registration that gets its tokens as the service."""
        return {
            "type": "oauth",
            "resource": self.resource,
            "issuer": self.server.issuer,
            "clientId": SERVICE.client_id,
            "clientSecretRef": SECRET_REF,
            "flow": "client_credentials",
            "scopes": ["deliver"],
            **changes,
        }

    def pkce(self, **changes: Any) -> dict[str, Any]:
        """Return likewise one that asks a user of the app."""
        found = self.preset(clientId=APP.client_id, flow="authorization_code_pkce", **changes)
        del found["clientSecretRef"]
        return found

    def _guard(self, request: ReceivedRequest) -> Any:
        if request.method == "GET":
            return self._document(request)
        kind, _, token = (request.header("Authorization") or "").partition(" ")
        if kind.lower() == "bearer" and self.server.accepts(token, self.resource):
            self._accepted.append(request)
            return self._next(request)
        self._refused.append(request)
        if self.gathering is not None:
            with contextlib.suppress(threading.BrokenBarrierError):
                self.gathering.wait(10.0)
        return step("status", code=self.status, answer=b"", headers=self._challenge(bool(token)))

    def _document(self, request: ReceivedRequest) -> Any:
        wanted = {"path": RESOURCE + "/ahp", "root": RESOURCE}.get(self.metadata_at)
        if request.path != wanted:
            return step("status", code=404, answer=b"")
        if isinstance(self.metadata, (Step, str)):
            return self.metadata
        document = self.metadata or self.server.resource_metadata(self.resource)
        return step("status", code=200, answer=json.dumps(document).encode())

    def _challenge(self, shown: bool) -> dict[str, str]:
        if self.challenge in ("metadata", "bare"):
            members = {
                "error": "invalid_token" if shown else "",
                "scope": self.scope,
                "resource_metadata": self.metadata_url if self.challenge == "metadata" else "",
            }
            found = ", ".join(f'{k}="{v}"' for k, v in members.items() if v)
            return {"WWW-Authenticate": f"Bearer {found}".strip()}
        value = {"none": "", "basic": 'Basic realm="tests"'}.get(self.challenge, self.challenge)
        return {"WWW-Authenticate": value} if value else {}


def _checked(one: object) -> Step:
    found = as_step(one)
    check(found, REQUEST_STEPS, "HTTP", REQUEST_STEPS)
    return found
