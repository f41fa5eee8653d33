"""The ``WWW-Authenticate`` header of a 401, as far as it is about bearer tokens (RFC 6750)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Optional

__all__ = ["BEARER_TOKEN", "Challenge", "bearer_challenge"]

#: What a bearer token may be: the token68 form of RFC 7235 (R-AUTH-01).
BEARER_TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*\Z")

_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_PARAMETER = re.compile(
    rf"(?P<name>{_TOKEN})[ \t]*=[ \t]*(?:\"(?P<quoted>(?:[^\"\\]|\\.)*)\"|(?P<bare>{_TOKEN}))"
)
_SCHEME = re.compile(
    rf"(?P<scheme>{_TOKEN})(?:[ \t]+(?P<token68>[A-Za-z0-9._~+/-]+=*)(?=[ \t]*(?:,|\Z)))?"
)
_LONGEST = 8192


@dataclass(frozen=True)
class Challenge:
    """A Bearer challenge: where the resource describes itself, and which scopes it wants."""

    resource_metadata: Optional[str] = None
    scope: tuple[str, ...] = ()
    error: Optional[str] = None


def bearer_challenge(values: Sequence[str]) -> Optional[Challenge]:
    """Return the first Bearer challenge among the header's values, or None.

    One value may hold several challenges of several schemes; what can't be read ends its value.
    """
    for value in values:
        for scheme, parameters in _challenges(value[:_LONGEST]):
            if scheme.lower() == "bearer":
                return Challenge(
                    resource_metadata=parameters.get("resource_metadata"),
                    scope=tuple(parameters.get("scope", "").split()),
                    error=parameters.get("error"),
                )
    return None


def _challenges(value: str) -> Iterator[tuple[str, dict[str, str]]]:
    position, scheme = 0, None
    parameters: dict[str, str] = {}
    while position < len(value):
        if value[position] in ", \t":
            position += 1
            continue
        parameter = _PARAMETER.match(value, position)
        if parameter is not None and scheme is not None:
            text = parameter["quoted"]
            text = parameter["bare"] if text is None else re.sub(r"\\(.)", r"\1", text)
            parameters.setdefault(parameter["name"].lower(), text)
            position = parameter.end()
            continue
        if scheme is not None:
            yield scheme, parameters
        start = _SCHEME.match(value, position)
        if start is None:
            return
        scheme, parameters = start["scheme"], {}
        position = start.end()
    if scheme is not None:
        yield scheme, parameters
