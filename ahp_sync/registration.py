"""``hooks.json``: which backends are asked about which events, and what their failure means.

A document is read strictly, checked whole, and only then turned into the frozen values below, so
that nothing is started, sent or half-served over a mistake in it (R-ROLE-02). Loading checks it
against the protocol; whether one host can serve it, :meth:`Registration.for_host` says. A
registration can start processes and name secrets: load only trusted ones (R-REG-04).
"""

from __future__ import annotations

import enum
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Optional, Union

from ahp_sync.errors import Problem, RegistrationError
from ahp_sync.failure import FailurePolicy
from ahp_sync.findings import Findings, json_path
from ahp_sync.protocol.configuration import subscribable
from ahp_sync.protocol.content import ContentSelection
from ahp_sync.protocol.events import Mode, expand
from ahp_sync.protocol.urls import display_url
from ahp_sync.registration_host import check_host, narrowed
from ahp_sync.registration_rules import check_document, unknown_members, unsent_headers
from ahp_sync.registration_source import read_source

if TYPE_CHECKING:
    from ahp_sync.capabilities import Capabilities
    from ahp_sync.grants import Grant

__all__ = [
    "Backend",
    "BearerBinding",
    "Binding",
    "ContentSelection",
    "Header",
    "HttpEndpoint",
    "Lifecycle",
    "Mode",
    "OAuthBinding",
    "OAuthFlow",
    "Problem",
    "Registration",
    "RegistrationSource",
    "StdioCommand",
    "Subscription",
    "UploadRoute",
    "problems",
    "read_subscriptions",
]

_log = logging.getLogger("ahp_sync")


class Lifecycle(str, enum.Enum):
    """How long a stdio backend's process lives (R-STD-03, R-STD-05)."""

    PERSISTENT = "persistent"
    PER_EVENT = "per_event"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Header:
    """One registered HTTP header: a literal ``value``, or where it is to be found.

    Exactly one is set of ``value``, ``value_env``, an environment variable, and ``value_ref``, a
    name for the host's resolver. It is looked up at delivery, not at load (R-HDR-03).
    """

    name: str
    value: Optional[str] = field(default=None, repr=False)
    value_env: Optional[str] = None
    value_ref: Optional[str] = None


@dataclass(frozen=True)
class HttpEndpoint:
    """Where an HTTP backend listens. Of header names equal ignoring case, the last is kept."""

    url: str = field(repr=False)
    headers: tuple[Header, ...] = ()

    @property
    def display_url(self) -> str:
        """The URL for logs and messages: no user information, query or fragment."""
        return display_url(self.url)


@dataclass(frozen=True)
class StdioCommand:
    """How a stdio backend is started: without a shell, ``env`` on top of a minimal environment.

    ``repr()`` leaves out arguments and environment, where secrets may stand (R-ENV-01).
    """

    command: str
    args: tuple[str, ...] = field(default=(), repr=False)
    lifecycle: Lifecycle = Lifecycle.PERSISTENT
    cwd: Optional[str] = None
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class BearerBinding:
    """A bearer token, looked up at each delivery (R-AUTH-01).

    It is in the host's environment variable ``token_env``, or the host's resolver finds it by
    ``token_ref``; exactly one of the two is set.
    """

    token_env: Optional[str] = None
    token_ref: Optional[str] = None


class OAuthFlow(str, enum.Enum):
    """How an OAuth token is got."""

    CLIENT_CREDENTIALS = "client_credentials"
    AUTHORIZATION_CODE_PKCE = "authorization_code_pkce"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class OAuthBinding:
    """An OAuth token for ``resource`` from ``issuer``, and from nobody else (R-AUTH-02).

    ``client_secret_ref`` is the name by which the host's resolver finds the client's secret.
    """

    resource: str
    issuer: str
    client_id: str
    flow: OAuthFlow
    scopes: tuple[str, ...] = ()
    client_secret_ref: Optional[str] = None


Binding = Union[BearerBinding, OAuthBinding]


@dataclass(frozen=True)
class UploadRoute:
    """Where a subscription takes the bodies of attachments (R-REG-07, R-UPL-02).

    ``timeout_ms`` (milliseconds) is for everything about one delivery's uploads, ``max_bytes`` for
    each. ``auth`` is its own; without one the endpoint may be asked for its authorization server.
    """

    endpoint: str = field(repr=False)
    timeout_ms: int
    max_bytes: int
    auth: Optional[Binding] = None

    @property
    def timeout(self) -> float:
        """The time for the uploads of one delivery, in seconds."""
        return self.timeout_ms / 1000


@dataclass(frozen=True)
class Subscription:
    """One subscription of a backend: the unit of order, policy, deadline and content view.

    ``selectors`` are the events as registered, ``events`` the names that they choose: of the
    protocol's, or of those that the host declares (R-REG-02). ``timeout_ms`` (milliseconds) and
    ``policy`` are set on interceptors and None on observers (AHP-FAIL-001, AHP-FAIL-002). ``index``
    is its position in the backend's list. ``scope`` and ``disableable`` are None where nothing is
    said of them (R-REG-09).
    """

    backend: str
    index: int
    selectors: tuple[str, ...]
    events: frozenset[str]
    mode: Mode
    timeout_ms: Optional[int]
    policy: Optional[FailurePolicy]
    content: ContentSelection
    include_native: bool = False
    scope: Optional[str] = None
    disableable: Optional[bool] = None
    upload: Optional[UploadRoute] = None

    @property
    def timeout(self) -> float:
        """The interceptor's deadline in seconds. Raises :class:`TypeError` for an observer."""
        if self.timeout_ms is None:
            raise TypeError("an observe subscription has no timeoutMs")
        return self.timeout_ms / 1000


@dataclass(frozen=True)
class Backend:
    """One backend with its transport, its credentials' binding if any, and its subscriptions.

    One without subscriptions is asked for them at run time (R-DISC-01).
    """

    id: str
    transport: Union[HttpEndpoint, StdioCommand]
    authentication: Optional[Binding] = None
    subscriptions: tuple[Subscription, ...] = ()

    @property
    def is_discovered(self) -> bool:
        """Whether the registration leaves it to the backend to say what it subscribes to."""
        return not self.subscriptions


RegistrationSource = Union[str, "os.PathLike[str]", Mapping[str, Any], "Registration"]


@dataclass(frozen=True)
class Registration:
    """A whole registration, checked. The order of backends and subscriptions is that of calls."""

    backends: tuple[Backend, ...]

    @classmethod
    def load(cls, source: RegistrationSource) -> Registration:
        """Return the registration that ``source`` holds.

        ``source`` is the path of a JSON file (at most 1 MiB), a mapping of the same shape, or a
        ``Registration``, which is returned as it is. Raises :class:`RegistrationError` with all
        problems at once. Members that mean nothing to this version are ignored, each with a
        warning in the ``ahp_sync`` log (R-UNK-01).
        """
        if isinstance(source, Registration):
            return source
        document, found = _examine(source)
        if found:
            raise RegistrationError(found)
        return cls(tuple(_backend(backend) for backend in document["hooks"]))

    def for_host(
        self,
        capabilities: Capabilities,
        *,
        needs: Optional[Mapping[str, Grant]] = None,
        environ: Optional[Mapping[str, str]] = None,
    ) -> Registration:
        """Return the registration as a host of these capabilities serves it.

        Wildcards are narrowed to the events that the host declares for their mode (R-REG-02,
        D-13). Raises :class:`RegistrationError` with all that it can't serve at once: a selector
        that chooses none of them, a ``timeoutMs`` outside its limits (R-REG-10), a scope or a
        ``disableable`` that it does not enforce (R-REG-09).

        :param needs: what the backends are known to need, by event. A host that grants less would
            refuse their answers one by one, which fail-open turns into permission; with this it
            refuses the registration instead, as it does where nothing intercepts such an event.
        :param environ: the environment in which every variable that names a token or a header has
            to be set. By default they are looked for when something is sent, and not before.

        The client calls this itself, with neither. Backends that are discovered are checked when
        they have answered.
        """
        findings = Findings()
        check_host(self.backends, capabilities, needs or {}, environ, findings)
        if found := findings.problems():
            raise RegistrationError(found)
        return Registration(
            tuple(
                replace(
                    backend,
                    subscriptions=tuple(
                        narrowed(subscription, capabilities)
                        for subscription in backend.subscriptions
                    ),
                )
                for backend in self.backends
            )
        )


def problems(source: RegistrationSource) -> list[Problem]:
    """Return everything wrong with ``source``, in the order of its places; [] if it can be loaded.

    Ignored members are warned about in the log, as :meth:`Registration.load` does.
    """
    return [] if isinstance(source, Registration) else _examine(source)[1]


def _examine(source: object) -> tuple[Any, list[Problem]]:
    findings = Findings()
    document = read_source(source, findings)
    check_document(document, findings)
    for path in unknown_members(document):
        if path not in findings:
            _log.warning("registration: %s is unknown and ignored", json_path(path))
    found = findings.problems()
    for path in unsent_headers(document) if not found else ():
        _log.warning("registration: %s is not sent with uploads", json_path(path))
    return document, found


# --- from a checked document to values ------------------------------------------------------------


def _backend(raw: Mapping[str, Any]) -> Backend:
    transport = raw["transport"]
    return Backend(
        id=raw["id"],
        transport=_http(transport) if transport["type"] == "http" else _stdio(transport),
        authentication=_binding(raw.get("authentication")),
        subscriptions=read_subscriptions(raw["id"], raw.get("subscriptions", ())),
    )


def read_subscriptions(backend: str, raw: Sequence[Mapping[str, Any]]) -> tuple[Subscription, ...]:
    """Return a backend's list of subscriptions, which was checked before, as values."""
    return tuple(_subscription(backend, index, one) for index, one in enumerate(raw))


def _binding(raw: Optional[Mapping[str, Any]]) -> Optional[Binding]:
    if raw is None:
        return None
    if raw["type"] == "bearer":
        return BearerBinding(raw.get("tokenEnv"), raw.get("tokenRef"))
    return OAuthBinding(
        resource=raw["resource"],
        issuer=raw["issuer"],
        client_id=raw["clientId"],
        flow=OAuthFlow(raw["flow"]),
        scopes=tuple(raw.get("scopes", ())),
        client_secret_ref=raw.get("clientSecretRef"),
    )


def _upload(raw: Optional[Mapping[str, Any]]) -> Optional[UploadRoute]:
    if raw is None:
        return None
    return UploadRoute(
        endpoint=raw["endpoint"],
        timeout_ms=int(raw["timeoutMs"]),
        max_bytes=int(raw["maxBytes"]),
        auth=_binding(raw.get("auth")),
    )


def _http(raw: Mapping[str, Any]) -> HttpEndpoint:
    headers: dict[str, Header] = {}
    for name, value in raw.get("headers", {}).items():
        headers.pop(name.lower(), None)
        headers[name.lower()] = (
            Header(name, value=value)
            if isinstance(value, str)
            else Header(name, value_env=value.get("valueEnv"), value_ref=value.get("valueRef"))
        )
    return HttpEndpoint(raw["url"], tuple(headers.values()))


def _stdio(raw: Mapping[str, Any]) -> StdioCommand:
    return StdioCommand(
        command=raw["command"],
        args=tuple(raw.get("args", ())),
        lifecycle=Lifecycle(raw["lifecycle"]),
        cwd=raw.get("cwd"),
        env=tuple(raw.get("env", {}).items()),
    )


def _subscription(backend: str, index: int, raw: Mapping[str, Any]) -> Subscription:
    mode, content = Mode(raw["mode"]), dict(raw["content"])
    intercept = mode is Mode.INTERCEPT
    return Subscription(
        backend=backend,
        index=index,
        selectors=tuple(raw["events"]),
        events=expand(raw["events"], lambda event: subscribable(event, mode)),
        mode=mode,
        # JSON Schema takes 800.0 for an integer (T-16).
        timeout_ms=int(raw["timeoutMs"]) if intercept else None,
        policy=FailurePolicy(raw["failurePolicy"]) if intercept else None,
        content=ContentSelection(content.pop("default"), tuple(content.items())),
        include_native=raw.get("includeNative", False),
        scope=raw.get("scope"),
        disableable=raw.get("disableable"),
        upload=_upload(raw.get("upload")),
    )
