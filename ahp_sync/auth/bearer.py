"""Credentials that the host's environment holds, resolved when a delivery is sent."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Mapping, Optional

from ahp_sync.failure import FailureClass, OperationalFailure

if TYPE_CHECKING:
    from ahp_sync.registration import Backend

__all__ = ["Credentials"]

# The token68 form of RFC 7235, which is what R-AUTH-01 asks of a bearer token.
_TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]+=*\Z")
_UNSAFE = re.compile(r"[\r\n\0]")


class Credentials:
    """The headers of one HTTP backend, lowest precedence first (R-HDR-01).

    Client defaults, then ``Authorization`` from the binding, then the registration's own headers; a
    registered ``Authorization`` switches the binding off (R-HDR-02). ``environ`` stands in for
    ``os.environ`` in tests.
    """

    def __init__(self, backend: Backend, environ: Optional[Mapping[str, str]] = None) -> None:
        headers = getattr(backend.transport, "headers", ())
        self._headers = {header.name.lower(): header for header in headers}
        bearer = backend.bearer
        self._token_env = None if bearer is None else bearer.token_env
        if "authorization" in self._headers:
            self._token_env = None
        self._environ = environ
        #: Whether there is nothing to add to the client's own headers.
        self.empty = not self._headers and self._token_env is None

    def apply(self, headers: dict[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
        """Return ``headers`` with the credentials applied, and the secrets that were read.

        Raises ``OperationalFailure`` of class ``authentication`` when a variable is unset, empty or
        unusable: then nothing may be sent (R-AUTH-01, R-HDR-03).
        """
        names = {name.lower(): name for name in headers}
        secrets = []
        result = dict(headers)
        if self._token_env is not None:
            token = self._read(self._token_env, "bearer token")
            if not _TOKEN.match(token):
                raise _unusable("bearer token", self._token_env)
            secrets.append(token)
            result["Authorization"] = f"Bearer {token}"
        for lower, header in self._headers.items():
            value = header.value
            if value is None:
                value = self._read(header.value_env or "", f"header {header.name}")
                _check_header(value, header.name, header.value_env or "")
            secrets.append(value)
            result.pop(names.get(lower, header.name), None)
            result[header.name] = value
        return result, tuple(secrets)

    def _read(self, variable: str, what: str) -> str:
        value = (os.environ if self._environ is None else self._environ).get(variable)
        if not value:
            raise OperationalFailure(
                FailureClass.AUTHENTICATION,
                "credential_missing",
                f"the {what} is missing: {variable} is unset or empty",
            )
        return value


def _check_header(value: str, name: str, variable: str) -> None:
    try:
        value.encode("latin-1")
    except UnicodeEncodeError:
        raise _unusable(f"header {name}", variable) from None
    if _UNSAFE.search(value) or value != value.strip():
        raise _unusable(f"header {name}", variable)


def _unusable(what: str, variable: str) -> OperationalFailure:
    return OperationalFailure(
        FailureClass.AUTHENTICATION,
        "credential_unusable",
        f"the {what} in {variable} has a form that can't be sent",
    )
