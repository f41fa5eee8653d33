"""What protected resources and authorization servers say of themselves (RFC 9728, RFC 8414)."""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional

from ahp_sync.auth.web import Web, refusal
from ahp_sync.budget import Budget

__all__ = ["Issuer", "Resource", "issuer_metadata", "resource_metadata"]

_RESOURCE = "/.well-known/oauth-protected-resource"


@dataclass(frozen=True)
class Resource:
    """A protected resource: its identifier, and the authorization servers it trusts, in order."""

    identifier: str
    issuers: tuple[str, ...]


@dataclass(frozen=True)
class Issuer:
    """An authorization server's metadata, as far as it matters."""

    token_endpoint: str
    authorization_endpoint: Optional[str]
    grant_types: Optional[tuple[str, ...]]
    auth_methods: Optional[tuple[str, ...]]
    challenge_methods: tuple[str, ...]
    #: Whether the user is always sent back with its name (RFC 9207).
    names_itself: bool = False


def resource_metadata(
    endpoint: str, named: Optional[str], web: Web, budget: Budget
) -> Optional[Resource]:
    """Return how a protected endpoint describes itself; None where it does not.

    :param named: the URL of its ``WWW-Authenticate``; without one the well-known places are tried,
        that of the endpoint before that of its origin.

    Its identifier has to be exactly the URL that the place belongs to (RFC 9728, section 3.3).
    Raises ``OperationalFailure`` of class ``authentication``, and ``BudgetEnded``.
    """
    parts = urllib.parse.urlsplit(endpoint)
    origin = Web.origin(endpoint)
    query = f"?{parts.query}" if parts.query else ""
    path = "" if parts.path == "/" else parts.path
    root = f"{origin}{_RESOURCE}"
    places = {f"{root}{path}{query}": {endpoint}}
    places.setdefault(root, set()).update((origin, f"{origin}/"))
    if named is not None:
        places = {named: {endpoint, *places.get(named, ())}}
    for url, identifiers in places.items():
        document = web.get(url, budget)
        if document is not None:
            return _resource(document, identifiers)
    return None


def _resource(document: Mapping[str, Any], identifiers: set[str]) -> Resource:
    identifier, issuers = document.get("resource"), document.get("authorization_servers")
    if not isinstance(identifier, str) or identifier not in identifiers:
        raise refusal("resource_mismatch", "the resource's metadata is of another resource")
    if not isinstance(issuers, list) or not issuers:
        raise refusal("no_authorization_server", "the resource names no authorization server")
    return Resource(identifier, tuple(one for one in issuers if isinstance(one, str)))


def issuer_metadata(issuer: str, web: Web, budget: Budget) -> Issuer:
    """Return the metadata of the authorization server ``issuer``, from where it is found first.

    It has to name exactly this issuer, and ``https`` endpoints. Raises as
    :func:`resource_metadata` does.
    """
    for url in _places(issuer):
        document = web.get(url, budget)
        if document is not None:
            return _issuer(document, issuer)
    raise refusal("no_metadata", "the authorization server has no metadata")


def _places(issuer: str) -> list[str]:
    path = urllib.parse.urlsplit(issuer).path.rstrip("/")
    origin = Web.origin(issuer)
    oauth = f"{origin}/.well-known/oauth-authorization-server{path}"
    inserted = f"{origin}/.well-known/openid-configuration{path}"
    appended = f"{origin}{path}/.well-known/openid-configuration"
    return [oauth, inserted, appended] if path else [oauth, inserted]


def _issuer(document: Mapping[str, Any], issuer: str) -> Issuer:
    if document.get("issuer") != issuer:
        raise refusal("issuer_mismatch", "the metadata is that of another authorization server")
    token = _endpoint(document, "token_endpoint")
    if token is None:
        raise refusal("bad_metadata", "the authorization server names no token endpoint")
    return Issuer(
        token_endpoint=token,
        authorization_endpoint=_endpoint(document, "authorization_endpoint"),
        grant_types=_texts(document, "grant_types_supported"),
        auth_methods=_texts(document, "token_endpoint_auth_methods_supported"),
        challenge_methods=_texts(document, "code_challenge_methods_supported") or (),
        names_itself=document.get("authorization_response_iss_parameter_supported") is True,
    )


def _endpoint(document: Mapping[str, Any], name: str) -> Optional[str]:
    url = document.get(name)
    if url is None:
        return None
    if not isinstance(url, str) or not url.startswith("https://"):
        raise refusal("bad_metadata", f"the authorization server's {name} is no https URL")
    return url


def _texts(document: Mapping[str, Any], name: str) -> Optional[tuple[str, ...]]:
    values = document.get(name)
    if values is None:
        return None
    if not isinstance(values, list):
        raise refusal("bad_metadata", f"the authorization server's {name} is no list")
    return tuple(one for one in values if isinstance(one, str))
