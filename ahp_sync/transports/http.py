"""The HTTP transport: one POST a message, bounded and never redirected (section 15)."""

from __future__ import annotations

import email.utils
import re
import ssl
import time
from dataclasses import replace
from typing import Mapping, Optional

import requests

from ahp_sync.auth.credentials import Applied, Credentials
from ahp_sync.budget import Budget
from ahp_sync.failure import FailureClass, OperationalFailure
from ahp_sync.protocol.jsonrpc import answer_body, sample
from ahp_sync.redaction import redacted
from ahp_sync.transports.adapter import Attempt, DeadlineAdapter
from ahp_sync.transports.base import RESPONSE_CAP, Message, Reply
from ahp_sync.transports.requesting import (
    COMMON_HEADERS,
    body_of,
    encoding_problem,
    exchange,
    query_values,
    rest_of,
)

__all__ = ["HttpTransport"]

_RETRYABLE_STATUS = frozenset({429, 502, 503, 504})
_JSON_TYPE = re.compile(r"\s*application/(?:[^;,\s]+\+)?json\s*(?:;|\Z)", re.IGNORECASE)
_DEFAULT_HEADERS = {
    "Content-Type": "application/json",
    **COMMON_HEADERS,
}
_BARE = Applied(_DEFAULT_HEADERS)


class HttpTransport:
    """One backend over HTTP, by ``requests``.

    :param url: the backend's URL, and ``credentials`` what goes there in headers.
    :param context: TLS trust and identity for it, or None for plain HTTP.
    :param proxy: the proxy that the host named for it, or None.
    """

    def __init__(
        self,
        url: str,
        credentials: Credentials,
        *,
        context: Optional[ssl.SSLContext] = None,
        proxy: Optional[str] = None,
    ) -> None:
        self._credentials = credentials
        self._adapter = DeadlineAdapter(url, proxy, context)
        self._url = url
        self._secrets = query_values(url)

    def exchange(self, message: Message, budget: Budget) -> Optional[Reply]:
        """Post ``message`` once, and once more with other credentials after a 401 (R-AUTH-04).

        See ``Transport.exchange``.
        """
        applied = _BARE
        if not self._credentials.empty:
            applied = self._credentials.apply(_DEFAULT_HEADERS, budget)
        try:
            return self._exchanged(message, applied, budget)
        except _Unauthorized as refusal:
            renewed = self._renewed(message, applied, refusal, budget)
            if renewed is None:
                raise
        try:
            return self._exchanged(message, renewed, budget)
        except _Unauthorized as refusal:
            self._credentials.rejected(renewed, refusal.challenges)
            raise
        except OperationalFailure as failure:
            failure.retryable = False  # or another attempt might meet another 401, and resend again
            raise

    def _exchanged(self, message: Message, applied: Applied, budget: Budget) -> Optional[Reply]:
        secrets = (*self._secrets, *applied.secrets)
        try:
            reply = self._post(message, applied.headers, budget)
        except OperationalFailure as failure:
            if failure.sample:
                failure.sample = redacted(failure.sample, secrets)
            raise
        return replace(reply, secrets=secrets) if reply and secrets else reply

    def _renewed(
        self, message: Message, applied: Applied, refusal: _Unauthorized, budget: Budget
    ) -> Optional[Applied]:
        """Return other credentials for a resend, which a notification never gets (R-AUTH-04)."""
        if self._credentials.empty:
            return None
        if message.rpc_id is None:
            self._credentials.rejected(applied, refusal.challenges)
            return None
        return self._credentials.renewed(applied, refusal.challenges, budget)

    def close(self, budget: Budget) -> None:
        """Close the idle connections. Those in use are shut by the end of their calls' budgets."""
        self._adapter.close()

    def abandon_after_fork(self) -> None:
        """Close this process's copies of the parent's connections; theirs stay open (F16)."""
        self._adapter.close()

    def _post(self, message: Message, headers: dict[str, str], budget: Budget) -> Optional[Reply]:
        return exchange(
            self._adapter,
            "POST",
            self._url,
            headers,
            message.body,
            budget,
            lambda response, attempt: self._read(response, attempt, message.rpc_id),
        )

    def _read(
        self, response: requests.Response, attempt: Attempt, rpc_id: Optional[str]
    ) -> Optional[Reply]:
        status = response.status_code
        if not 200 <= status < 300:
            raise self._refusal(response, attempt, rpc_id)
        if rpc_id is None:
            rest_of(response, attempt)
            return None
        problem = encoding_problem(response)
        if problem is not None:
            raise problem
        body = body_of(response, attempt, RESPONSE_CAP)
        if body and not _JSON_TYPE.match(response.headers.get("Content-Type", "")):
            raise OperationalFailure(
                FailureClass.MALFORMED,
                "content_type",
                "the answer is not labelled as JSON",
                http_status=status,
                sample=sample(body),
            )
        return Reply(body, {"http_status": status})

    def _refusal(
        self, response: requests.Response, attempt: Attempt, rpc_id: Optional[str]
    ) -> OperationalFailure:
        """Return the failure for a status outside 2xx, under which no result counts (R-HTTP-04)."""
        status = response.status_code
        body = rest_of(response, attempt)
        if status < 200:
            attempt.complete = False  # the answer proper is still to come, and for nobody
        failure = _status_failure(status, body, response.headers.get("WWW-Authenticate"))
        if rpc_id is not None and failure.failure_class is FailureClass.HTTP_STATUS:
            failure = _remote_error(body, rpc_id) or failure
        failure.http_status = status
        if status in _RETRYABLE_STATUS:
            failure.retryable = True
        if failure.retryable:
            failure.retry_after = _retry_after(response.headers)
        return failure


class _Unauthorized(OperationalFailure):
    """A 401, with the values of its ``WWW-Authenticate``."""

    challenges: tuple[str, ...] = ()


def _status_failure(status: int, body: bytes, challenge: Optional[str]) -> OperationalFailure:
    if status == 401:
        refusal = _Unauthorized(
            FailureClass.AUTHENTICATION,
            "unauthorized",
            "the backend did not accept the credentials (HTTP 401)",
            sample=sample(body),
        )
        refusal.challenges = () if challenge is None else (challenge,)
        return refusal
    redirect = " and redirects are not followed" if 300 <= status < 400 else ""
    return OperationalFailure(
        FailureClass.HTTP_STATUS,
        f"http_{status}",
        f"the backend answered with HTTP {status}{redirect}",
        sample=sample(body),
    )


def _remote_error(body: bytes, rpc_id: str) -> Optional[OperationalFailure]:
    try:
        answer_body(body, rpc_id)
    except OperationalFailure as failure:
        return failure if failure.rpc_code is not None else None
    return None


def _retry_after(headers: Mapping[str, str]) -> Optional[float]:
    """Return the seconds that ``Retry-After`` asks for; None where it can't be read (F20)."""
    text = headers.get("Retry-After", "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:12])
    try:
        seconds = email.utils.parsedate_to_datetime(text).timestamp() - time.time()
    except (TypeError, ValueError, OverflowError):
        return None
    return seconds if seconds > 0 else None
