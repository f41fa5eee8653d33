"""The headers of one endpoint, credentials among them, found out when a delivery is sent."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Hashable, Mapping, Optional

from ahp_sync.auth.challenge import BEARER_TOKEN, bearer_challenge
from ahp_sync.budget import Budget
from ahp_sync.failure import FailureClass, OperationalFailure
from ahp_sync.registration import BearerBinding

if TYPE_CHECKING:
    from ahp_sync.auth.provider import AccessToken, OAuthEndpoint
    from ahp_sync.auth.service import Secrets
    from ahp_sync.registration import Header

__all__ = ["ACQUIRING", "Applied", "Credentials", "late_credentials"]

#: What a budget's work is at meanwhile; see :attr:`Budget.doing`.
ACQUIRING = "acquiring credentials"

_UNSAFE = re.compile(r"[\r\n\0]")


@dataclass(frozen=True)
class Applied:
    """The headers of one request, and what in them must not come back in any text."""

    headers: dict[str, str] = field(repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    access: Optional[AccessToken] = field(default=None, repr=False)
    bearer: Optional[str] = field(default=None, repr=False)


class Credentials:
    """The headers of one HTTP endpoint, lowest precedence first (R-HDR-01).

    Client defaults, then ``Authorization`` from the binding, then the registration's own headers; a
    registered ``Authorization`` switches off binding, discovery and the resend (R-HDR-02).

    :param headers: the registration's own.
    :param binding: a bearer binding of this endpoint, if it has one.
    :param oauth: where its tokens come from, if it has no bearer binding.
    :param secrets: what finds the values behind references.
    :param fixed: lower-case names of defaults that no registered header takes the place of.
    """

    def __init__(
        self,
        headers: Sequence[Header],
        binding: Optional[BearerBinding],
        oauth: Optional[OAuthEndpoint],
        secrets: Secrets,
        *,
        fixed: Collection[str] = (),
    ) -> None:
        self._headers = {
            header.name.lower(): header for header in headers if header.name.lower() not in fixed
        }
        explicit = "authorization" in self._headers
        self._binding = None if explicit else binding
        self._oauth = None if explicit else oauth
        self._secrets = secrets
        #: Whether there is nothing to add to the client's own headers.
        self.empty = not (self._headers or self._binding or self._oauth)

    def apply(self, defaults: Mapping[str, str], budget: Budget) -> Applied:
        """Return ``defaults`` with the credentials applied. Takes its time from ``budget``.

        Raises ``OperationalFailure`` of class ``authentication`` where one is missing, unusable or
        not to be had: then nothing may be sent (R-AUTH-01, R-HDR-03). Raises ``BudgetEnded``.
        """
        budget.doing = ACQUIRING
        access = bearer = None
        if self._oauth is not None:
            access = self._oauth.token(budget)
        elif self._binding is not None:
            bearer = self._token(self._binding, budget)
        applied = self._with_own(dict(defaults), access, bearer, budget)
        budget.doing = None
        return applied

    def renewed(
        self, applied: Applied, challenges: Sequence[str], budget: Budget
    ) -> Optional[Applied]:
        """Return other credentials after a 401, or None where there are none (R-AUTH-04).

        ``challenges`` are the values of ``WWW-Authenticate``; only Bearer ones count. The values of
        registered headers stay as they were (R-HDR-03). Raises as :meth:`apply` does.
        """
        challenge = bearer_challenge(challenges)
        if challenge is None:
            return None
        budget.doing = ACQUIRING
        fresh = None
        if self._oauth is not None:
            access = self._oauth.after_401(applied.access, challenge, budget)
            fresh = None if access is None else _bearing(applied, access.value, access)
        elif self._binding is not None:
            bearer = self._token(self._binding, budget)
            fresh = None if bearer == applied.bearer else _bearing(applied, bearer, None)
        budget.doing = None
        return fresh

    def identity(self, applied: Applied) -> Hashable:
        """Return what is the same for two requests that a receiver takes for one principal's.

        Nobody can tell a secret from it.
        """
        if not applied.secrets:
            return None
        # An OAuth token changes all the time, and stands for the same client nevertheless.
        access = applied.access
        told = applied.secrets if access is None else (access.identity, *applied.secrets[1:])
        return self._secrets.fingerprint(told)

    def rejected(self, applied: Applied, challenges: Sequence[str]) -> None:
        """Take note of a 401 to what is not sent again: the next delivery gets another token."""
        if self._oauth is not None:
            self._oauth.invalidate(applied.access, bearer_challenge(challenges))

    def _with_own(
        self,
        result: dict[str, str],
        access: Optional[AccessToken],
        bearer: Optional[str],
        budget: Budget,
    ) -> Applied:
        names = {name.lower(): name for name in result}
        secrets, token = [], access.value if access is not None else bearer
        if token is not None:
            secrets.append(token)
            result["Authorization"] = f"Bearer {token}"
        for lower, header in self._headers.items():
            value = self._value(header, budget)
            secrets.append(value)
            result.pop(names.get(lower, header.name), None)
            result[header.name] = value
        return Applied(result, tuple(secrets), access, bearer)

    def _token(self, binding: BearerBinding, budget: Budget) -> str:
        if binding.token_env is not None:
            where, token = binding.token_env, _variable(binding.token_env, "bearer token")
        else:
            where = binding.token_ref or ""
            token = self._secrets.resolve(where, budget)
        if not BEARER_TOKEN.match(token):
            raise _unusable("bearer token", where)
        return token

    def _value(self, header: Header, budget: Budget) -> str:
        if header.value is not None:
            return header.value
        if header.value_env is not None:
            where, value = header.value_env, _variable(header.value_env, f"header {header.name}")
        else:
            where = header.value_ref or ""
            value = self._secrets.resolve(where, budget)
        _check_header(value, header.name, where)
        return value


def late_credentials() -> OperationalFailure:
    """Return the failure of a delivery whose time ended while its credentials were awaited."""
    return OperationalFailure(
        FailureClass.AUTHENTICATION,
        "credentials_late",
        "the credentials were not there before the deadline",
    )


def _bearing(applied: Applied, token: str, access: Optional[AccessToken]) -> Applied:
    return replace(
        applied,
        headers={**applied.headers, "Authorization": f"Bearer {token}"},
        secrets=(token, *applied.secrets),
        access=access,
        bearer=None if access is not None else token,
    )


def _variable(name: str, what: str) -> str:
    value = os.environ.get(name)
    if not value:
        raise OperationalFailure(
            FailureClass.AUTHENTICATION,
            "credential_missing",
            f"the {what} is missing: {name} is unset or empty",
        )
    return value


def _check_header(value: str, name: str, where: str) -> None:
    try:
        value.encode("latin-1")
    except UnicodeEncodeError:
        raise _unusable(f"header {name}", where) from None
    if _UNSAFE.search(value) or value != value.strip():
        raise _unusable(f"header {name}", where)


def _unusable(what: str, where: str) -> OperationalFailure:
    return OperationalFailure(
        FailureClass.AUTHENTICATION,
        "credential_unusable",
        f"the {what} in {where} has a form that can't be sent",
    )
