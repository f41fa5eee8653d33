"""Which credentials a registration refers to, and whether its host can provide them.

What can't be had is refused before anything is started or sent (R-ROLE-02); what a backend asks for
when it is discovered is checked when it is needed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Optional

from ahp_sync.errors import RegistrationError
from ahp_sync.findings import Findings, Path
from ahp_sync.registration import Backend, BearerBinding, Binding, Header, OAuthBinding, OAuthFlow

if TYPE_CHECKING:
    from ahp_sync.auth.oauth import OAuthPolicy
    from ahp_sync.registration import Registration

__all__ = ["bindings_of", "check_credentials", "has_own_authorization", "references_of"]


def has_own_authorization(backend: Backend) -> bool:
    """Return whether a registered ``Authorization`` takes the place of bindings (R-HDR-02)."""
    return any(header.name.lower() == "authorization" for header in _headers(backend))


def bindings_of(backend: Backend) -> Iterator[tuple[Path, Binding]]:
    """Yield the bindings of a backend that are in use, with their place in it."""
    if has_own_authorization(backend):
        return
    if backend.authentication is not None:
        yield ("authentication",), backend.authentication
    for subscription in backend.subscriptions:
        if subscription.upload is not None and subscription.upload.auth is not None:
            place = ("subscriptions", subscription.index, "upload", "auth")
            yield place, subscription.upload.auth


def check_credentials(
    registration: Registration,
    tokens: object,
    oauth: Optional[OAuthPolicy],
    injected: Collection[str] = (),
) -> None:
    """See that the host has a resolver for each reference, and callbacks where a user is asked.

    :param tokens: the client's option of this name; of a mapping the names are checked, too.
    :param injected: the backends whose transport is the host's own, and their credentials with it.

    Raises :class:`RegistrationError` with all that is missing.
    """
    findings = Findings()
    interactive = oauth is not None and oauth.is_interactive
    for position, backend in enumerate(registration.backends):
        if backend.id in injected:
            if not any(subscription.upload for subscription in backend.subscriptions):
                continue
            backend = replace(backend, authentication=None)
        for place, ref in references_of(backend):
            if not _resolves(tokens, ref):
                wanted = "one that the client's tokens= resolves"
                findings.add(("hooks", position, *place), "a reference to nothing", wanted)
        for place, binding in bindings_of(backend):
            for member, found, wanted in _unmet(binding, interactive):
                findings.add(("hooks", position, *place, member), found, wanted)
    if problems := findings.problems():
        raise RegistrationError(problems)


def _headers(backend: Backend) -> tuple[Header, ...]:
    headers: tuple[Header, ...] = getattr(backend.transport, "headers", ())
    return headers


def references_of(backend: Backend) -> Iterator[tuple[Path, str]]:
    """Yield the references to secrets that a backend makes use of, with their place in it."""
    for header in _headers(backend):
        if header.value_ref is not None:
            yield ("transport", "headers", header.name, "valueRef"), header.value_ref
    for place, binding in bindings_of(backend):
        if isinstance(binding, BearerBinding):
            if binding.token_ref is not None:
                yield (*place, "tokenRef"), binding.token_ref
        elif binding.client_secret_ref is not None:
            yield (*place, "clientSecretRef"), binding.client_secret_ref


def _resolves(tokens: Any, ref: str) -> bool:
    return ref in tokens if isinstance(tokens, Mapping) else tokens is not None


def _unmet(binding: Binding, interactive: bool) -> Iterator[tuple[str, str, str]]:
    if not isinstance(binding, OAuthBinding):
        return
    if binding.flow is OAuthFlow.CLIENT_CREDENTIALS and binding.client_secret_ref is None:
        yield "clientSecretRef", "nothing", "the client's secret, which its flow needs"
    if binding.flow is OAuthFlow.AUTHORIZATION_CODE_PKCE and not interactive:
        found = f"{binding.flow.value!r}, which asks a user"
        wanted = "oauth=OAuthPolicy(open_url=…, receive_code=…, redirect_uri=…) at the client"
        yield "flow", found, wanted
