"""Asking authorization servers and protected resources: bounded, never redirected, strict JSON.

No registered header goes there (R-HDR-04), and nothing of the environment does.
"""

from __future__ import annotations

import ssl
import urllib.parse
from typing import Any, Callable, Mapping, Optional

import requests

from ahp_sync.auth.destinations import Destinations
from ahp_sync.budget import Budget
from ahp_sync.failure import FailureClass, OperationalFailure
from ahp_sync.protocol.jsonrpc import parse_object
from ahp_sync.transports.adapter import Attempt, DeadlineAdapter
from ahp_sync.transports.requesting import COMMON_HEADERS, body_of, exchange, rest_of

__all__ = ["UNSENT", "Web", "refusal"]

#: The largest document of metadata, or token response, that is read, in bytes.
CAP = 1 << 16

#: The codes of failures before which nothing can have been sent.
UNSENT = frozenset({"forbidden_destination", "authorization_server_unreachable"})

_NO_CONNECTION = frozenset(
    {"name_resolution", "connect_refused", "connect_failed", "tls_certificate", "proxy"}
)

_Answer = tuple[int, Optional[dict[str, Any]]]


def refusal(code: str, detail: str) -> OperationalFailure:
    """Return the failure of credentials that could not be acquired."""
    return OperationalFailure(FailureClass.AUTHENTICATION, code, detail)


class Web:
    """Sends the requests that one endpoint's credentials need.

    :param own: the endpoint's URL, by which destinations are judged.
    :param context: returns the TLS context for a URL.
    :param proxy: the proxy that the host named for the endpoint, if any.
    """

    def __init__(
        self,
        own: str,
        context: Callable[[str], Optional[ssl.SSLContext]],
        proxy: Optional[str],
    ) -> None:
        self._destinations = Destinations(own)
        self._context = context
        self._proxy = proxy

    def get(self, url: str, budget: Budget) -> Optional[dict[str, Any]]:
        """Return the JSON object at ``url``; None where there is none (404 and its like).

        Raises ``OperationalFailure`` of class ``authentication``, and ``BudgetEnded``.
        """
        status, found = self._exchange("GET", url, {}, None, budget)
        if 400 <= status < 500:
            return None
        if found is None:
            raise refusal("bad_metadata", f"metadata of the authorization: HTTP {status}")
        return found

    def post(
        self, url: str, form: str, headers: Mapping[str, str], budget: Budget
    ) -> tuple[int, dict[str, Any]]:
        """Post a form to a token endpoint, and return its answer. Raises as :meth:`get` does."""
        headers = {"Content-Type": "application/x-www-form-urlencoded", **headers}
        status, found = self._exchange("POST", url, headers, form.encode(), budget)
        if found is None:
            raise refusal("token_endpoint", f"the token endpoint answered with HTTP {status}")
        return status, found

    def _exchange(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: Optional[bytes],
        budget: Budget,
    ) -> _Answer:
        self._destinations.check(url)
        adapter = DeadlineAdapter(
            url, self._proxy, self._context(url), permit=self._destinations.permits
        )
        try:
            return exchange(
                adapter, method, url, {**COMMON_HEADERS, **headers}, body, budget, _read
            )
        except OperationalFailure as failure:
            raise _translated(failure) from None
        finally:
            adapter.close()

    @staticmethod
    def origin(url: str) -> str:
        """Return ``scheme://host[:port]`` of a URL."""
        parts = urllib.parse.urlsplit(url)
        return f"{parts.scheme}://{parts.netloc}"


def _read(response: requests.Response, attempt: Attempt) -> _Answer:
    status = response.status_code
    if 300 <= status < 400:
        raise refusal("redirected", "the authorization server redirects, which is not followed")
    if status == 200 or status in (400, 401):
        body = body_of(response, attempt, CAP)
        try:
            return status, parse_object(body)
        except OperationalFailure:
            if status == 200:
                raise
            return status, None
    rest_of(response, attempt)
    return status, None


def _translated(failure: OperationalFailure) -> OperationalFailure:
    """Return any failure of such a request as one of credentials; nothing of the answer is kept."""
    if failure.failure_class is FailureClass.AUTHENTICATION:
        return failure
    if failure.failure_class is FailureClass.MALFORMED:
        return refusal(
            "bad_answer", f"an answer for the authorization can't be used: {failure.code}"
        )
    if failure.code in _NO_CONNECTION:
        return refusal(
            "authorization_server_unreachable",
            f"the authorization server was not reached: {failure.code}",
        )
    return refusal(
        "authorization_server_lost", f"the authorization server gave no answer: {failure.code}"
    )
