"""Uploading the bytes of an attachment to a receiver: one POST of raw octets (section 14)."""

from __future__ import annotations

import re
import ssl
from contextlib import closing
from typing import Any, Hashable, Mapping, Optional

import requests

from ahp_sync.auth.credentials import Applied, Credentials
from ahp_sync.budget import Budget
from ahp_sync.failure import FailureClass, OperationalFailure
from ahp_sync.protocol.jsonrpc import parse_object, sample
from ahp_sync.redaction import redacted
from ahp_sync.transports.adapter import Attempt, DeadlineAdapter
from ahp_sync.transports.requesting import COMMON_HEADERS, body_of, exchange, query_values, rest_of
from ahp_sync.uploads import Snapshot

__all__ = ["Uploader"]

_RECEIPT_CAP = 1 << 16
_DIGEST = re.compile("[a-f0-9]{64}")
_DEFAULTS = {
    "Content-Type": "application/octet-stream",
    **COMMON_HEADERS,
}


class Uploader:
    """The upload endpoint of one route.

    :param endpoint: its exact URL; redirects are not followed.
    :param max_bytes: the most that it takes; more is refused here, never cut (R-UPL-02).
    :param credentials: its own, never those of the event endpoint (R-UPL-03).
    :param context: TLS trust and identity for it, or None for plain HTTP.
    :param proxy: the proxy that the host named for it, or None.
    """

    def __init__(
        self,
        endpoint: str,
        max_bytes: int,
        credentials: Credentials,
        *,
        context: Optional[ssl.SSLContext] = None,
        proxy: Optional[str] = None,
    ) -> None:
        self._endpoint = endpoint
        self._max_bytes = max_bytes
        self._credentials = credentials
        self._secrets = query_values(endpoint)
        self._adapter = DeadlineAdapter(endpoint, proxy, context)

    def credentials(self, budget: Budget) -> Applied:
        """Return the headers of an upload. Raises as :meth:`Credentials.apply` does."""
        return self._credentials.apply(_DEFAULTS, budget)

    def identity(self, applied: Applied) -> Hashable:
        """Return whose an upload with these headers is; see :meth:`Credentials.identity`."""
        return self._credentials.identity(applied)

    def upload(self, snapshot: Snapshot, applied: Applied, budget: Budget) -> str:
        """Send the bytes once and return the receiver's reference for them.

        Nothing is sent again, not after a 401 either (R-AUTH-04). Raises ``OperationalFailure``:
        ``preparation`` for too many bytes, ``authentication`` for a 401, ``http_status`` for
        anything else but a 201, ``malformed`` for a receipt that is not that of these bytes; and
        ``BudgetEnded``.
        """
        if snapshot.size > self._max_bytes:
            raise OperationalFailure(
                FailureClass.PREPARATION,
                "too_large_for_receiver",
                f"the attachment has {snapshot.size} bytes, the receiver takes {self._max_bytes}",
            )
        framed = {
            **applied.headers,
            "Content-Length": str(snapshot.size),
            "AHP-Content-SHA256": snapshot.sha256,
        }
        try:
            # The pieces are given up at once: a failure that is kept may keep their frame, too.
            with closing(snapshot.chunks()) as pieces:
                return exchange(
                    self._adapter,
                    "POST",
                    self._endpoint,
                    framed,
                    pieces if snapshot.size else b"",
                    budget,
                    lambda response, attempt: self._read(response, attempt, snapshot, applied),
                )
        except OperationalFailure as failure:
            failure.retryable = False
            if failure.sample:
                failure.sample = redacted(failure.sample, (*self._secrets, *applied.secrets))
            raise

    def close(self, budget: Budget) -> None:
        """Close the idle connections."""
        self._adapter.close()

    def abandon_after_fork(self) -> None:
        """Close this process's copies of the parent's connections; theirs stay open (F16)."""
        self._adapter.close()

    def _read(
        self, response: requests.Response, attempt: Attempt, snapshot: Snapshot, applied: Applied
    ) -> str:
        status = response.status_code
        if status == 201:
            if attempt.cut_short:
                raise _bad_receipt(b"", "it came before all bytes were sent")
            return _reference(body_of(response, attempt, _RECEIPT_CAP), snapshot)
        body = rest_of(response, attempt)
        if status < 200:
            attempt.complete = False  # the answer proper is still to come, and for nobody
        if status == 401:
            challenge = response.headers.get("WWW-Authenticate")
            self._credentials.rejected(applied, () if challenge is None else (challenge,))
            raise OperationalFailure(
                FailureClass.AUTHENTICATION,
                "upload_unauthorized",
                "the upload endpoint did not accept the credentials (HTTP 401)",
                http_status=status,
                sample=sample(body),
            )
        raise OperationalFailure(
            FailureClass.HTTP_STATUS,
            f"http_{status}",
            f"the upload endpoint answered with HTTP {status}, which confirms nothing",
            http_status=status,
            sample=sample(body),
        )


def _reference(body: bytes, snapshot: Snapshot) -> str:
    """Return the reference of a receipt that confirms exactly these bytes."""
    try:
        receipt = parse_object(body)
    except OperationalFailure as failure:
        raise _bad_receipt(body, failure.detail) from None
    if receipt.keys() != {"ref", "size", "sha256"}:
        raise _bad_receipt(body, "it is no object of ref, size and sha256")
    return _checked(receipt, body, snapshot)


def _checked(receipt: Mapping[str, Any], body: bytes, snapshot: Snapshot) -> str:
    ref, size, digest = receipt["ref"], receipt["size"], receipt["sha256"]
    if not isinstance(ref, str) or not ref:
        raise _bad_receipt(body, "its ref is no text")
    if isinstance(size, bool) or not isinstance(size, (int, float)) or size != snapshot.size:
        raise _bad_receipt(body, "its size is not that of the bytes")
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest) or digest != snapshot.sha256:
        raise _bad_receipt(body, "its sha256 is not that of the bytes")
    return ref


def _bad_receipt(body: bytes, why: str) -> OperationalFailure:
    return OperationalFailure(
        FailureClass.MALFORMED,
        "bad_receipt",
        f"the upload receipt does not confirm the attachment: {why}",
        http_status=201,
        sample=sample(body) if body else None,
    )
