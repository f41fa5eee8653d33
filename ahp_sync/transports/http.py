"""The HTTP transport: one POST a message, bounded and never redirected (section 15)."""

from __future__ import annotations

import email.utils
import http.client
import re
import ssl
import time
import urllib.parse
from dataclasses import dataclass, replace
from typing import Mapping, Optional

import requests
import urllib3
from requests import PreparedRequest
from requests.structures import CaseInsensitiveDict

from ahp_sync.auth.bearer import Credentials
from ahp_sync.budget import Budget, BudgetEnded
from ahp_sync.failure import FailureClass, OperationalFailure
from ahp_sync.protocol.jsonrpc import answer_body, sample
from ahp_sync.redaction import redacted
from ahp_sync.registration import Backend, HttpEndpoint
from ahp_sync.transports.adapter import Attempt, DeadlineAdapter
from ahp_sync.transports.base import RESPONSE_CAP, Message, Reply

__all__ = ["HttpTransport"]

_PIECE = 1 << 16
_RETRYABLE_STATUS = frozenset({429, 502, 503, 504})
_JSON_TYPE = re.compile(r"\s*application/(?:[^;,\s]+\+)?json\s*(?:;|\Z)", re.IGNORECASE)
_DEFAULT_HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json",
    "Accept-Encoding": "identity",
    "User-Agent": "ahp-sync",
}


class HttpTransport:
    """One backend over HTTP, by ``requests``.

    :param backend: the backend, whose transport is an ``HttpEndpoint``.
    :param context: TLS trust and identity for it, or None for plain HTTP.
    :param proxy: the proxy that the host named for it, or None.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        context: Optional[ssl.SSLContext] = None,
        proxy: Optional[str] = None,
    ) -> None:
        assert isinstance(backend.transport, HttpEndpoint)
        url = backend.transport.url
        self._credentials = Credentials(backend)
        self._adapter = DeadlineAdapter(url, proxy, context)
        self._url = url
        self._secrets = _query_values(url)

    def exchange(self, message: Message, budget: Budget) -> Optional[Reply]:
        """Post ``message`` once. See ``Transport.exchange``."""
        headers, secrets = dict(_DEFAULT_HEADERS), self._secrets
        if not self._credentials.empty:
            headers, read = self._credentials.apply(headers)
            secrets = (*secrets, *read)
        try:
            reply = self._post(message, headers, budget)
        except OperationalFailure as failure:
            if failure.sample:
                failure.sample = redacted(failure.sample, secrets)
            raise
        return replace(reply, secrets=secrets) if reply and secrets else reply

    def close(self, budget: Budget) -> None:
        """Close the idle connections. Those in use are shut by the end of their calls' budgets."""
        self._adapter.close()

    def abandon_after_fork(self) -> None:
        """Close this process's copies of the parent's connections; theirs stay open (F16)."""
        self._adapter.close()

    def _post(self, message: Message, headers: dict[str, str], budget: Budget) -> Optional[Reply]:
        request = PreparedRequest()
        request.method = "POST"
        request.url = self._url
        request.body = message.body
        request.headers = CaseInsensitiveDict(headers)
        request.headers["Content-Length"] = str(len(message.body))
        attempt = Attempt(budget)
        budget.check()
        try:
            response = self._adapter.send(request, stream=True, timeout=attempt)  # type: ignore[arg-type]
            return self._read(response, attempt, message.rpc_id)
        except (BudgetEnded, OperationalFailure):
            raise
        except Exception as error:
            budget.check()  # a socket that was shut at the end fails in many ways, none is news
            failure = _translated(error)
            if failure.code == "not_sent" and attempt.answer is not None:
                failure = _BAD_HTTP.failure()
            elif failure.code == "connection_lost" and attempt.answer is not None:
                failure = _TRUNCATED.failure()
            elif failure.code == "connection_lost" and attempt.reused:
                failure.retry_after = 0.0  # the backend had dropped an idle connection (F22)
            raise failure from None
        finally:
            attempt.release()

    def _read(
        self, response: requests.Response, attempt: Attempt, rpc_id: Optional[str]
    ) -> Optional[Reply]:
        status = response.status_code
        if not 200 <= status < 300:
            raise self._refusal(response, attempt, rpc_id)
        if rpc_id is None:
            _rest(response, attempt)
            return None
        encoding = response.headers.get("Content-Encoding", "identity")
        if encoding.strip().lower() not in ("identity", ""):
            raise OperationalFailure(
                FailureClass.MALFORMED,
                "content_encoding",
                "the answer is compressed although that was not asked for",
                http_status=status,
            )
        body = _body(response, attempt, RESPONSE_CAP)
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
        body = _rest(response, attempt)
        if status < 200:
            attempt.complete = False  # the answer proper is still to come, and for nobody
        failure = _status_failure(status, body)
        if rpc_id is not None and failure.failure_class is FailureClass.HTTP_STATUS:
            failure = _remote_error(body, rpc_id) or failure
        failure.http_status = status
        if status in _RETRYABLE_STATUS:
            failure.retryable = True
        if failure.retryable:
            failure.retry_after = _retry_after(response.headers)
        return failure


def _query_values(url: str) -> tuple[str, ...]:
    """Return what stands in the query of ``url``, where tokens are put at times (F51)."""
    query = urllib.parse.urlsplit(url).query
    decoded = [value for _, value in urllib.parse.parse_qsl(query)]
    raw = [pair.partition("=")[2] for pair in query.split("&")]
    return tuple({value for value in (*decoded, *raw) if value})


def _body(response: requests.Response, attempt: Attempt, cap: int) -> bytes:
    declared = response.headers.get("Content-Length", "")
    if declared.isdigit() and len(declared) < 20 and int(declared) > cap:
        raise _too_large(cap)
    pieces, size = [], 0
    for piece in response.raw.stream(_PIECE, decode_content=False):
        size += len(piece)
        if size > cap:
            raise _too_large(cap)
        pieces.append(piece)
    attempt.complete = True
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _rest(response: requests.Response, attempt: Attempt) -> bytes:
    """Return a body after a status that said it all: nothing, unless it is little and whole.

    A fault in it must not change what the status means, nor have the message sent again.
    """
    try:
        return _body(response, attempt, _PIECE)
    except BudgetEnded:
        raise
    except Exception:
        attempt.budget.check()
        return b""


def _too_large(cap: int) -> OperationalFailure:
    return OperationalFailure(
        FailureClass.MALFORMED, "too_large", f"the answer exceeds {cap} bytes"
    )


def _status_failure(status: int, body: bytes) -> OperationalFailure:
    if status == 401:
        return OperationalFailure(
            FailureClass.AUTHENTICATION,
            "unauthorized",
            "the backend did not accept the credentials (HTTP 401)",
            sample=sample(body),
        )
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


# --- the border: what the libraries below raise, and what it is to us (most specific first) -------


@dataclass(frozen=True)
class _Fault:
    failure_class: FailureClass
    code: str
    detail: str
    retryable: bool = False

    def failure(self) -> OperationalFailure:
        return OperationalFailure(
            self.failure_class, self.code, self.detail, retryable=self.retryable
        )


_TLS_REFUSED = _Fault(
    FailureClass.CONNECTION, "tls_certificate", "the backend's certificate was not accepted"
)
_TLS = _Fault(FailureClass.CONNECTION, "tls", "the TLS connection to the backend failed")
_TRUNCATED = _Fault(
    FailureClass.CONNECTION, "truncated", "the connection ended before the answer did", True
)
_LOST = _Fault(FailureClass.CONNECTION, "connection_lost", "the connection was lost", True)
_BAD_HTTP = _Fault(FailureClass.MALFORMED, "bad_http", "the answer is not well-formed HTTP")
_PROXY = _Fault(FailureClass.CONNECTION, "proxy", "the proxy did not connect to the backend", True)
_TIMED_OUT = _Fault(FailureClass.DEADLINE_EXCEEDED, "timed_out", "the exchange timed out")
_NOT_SENT = _Fault(FailureClass.CONNECTION, "not_sent", "the request could not be sent")

_FAULTS: tuple[tuple[type[BaseException], _Fault], ...] = (
    (ssl.SSLCertVerificationError, _TLS_REFUSED),
    (ssl.SSLError, _TLS),
    (urllib3.exceptions.InvalidChunkLength, _BAD_HTTP),
    (urllib3.exceptions.IncompleteRead, _TRUNCATED),
    (http.client.IncompleteRead, _TRUNCATED),
    (http.client.RemoteDisconnected, _LOST),
    (http.client.HTTPException, _BAD_HTTP),
    (urllib3.exceptions.InvalidHeader, _BAD_HTTP),
    (urllib3.exceptions.ProxyError, _PROXY),
    (requests.exceptions.ProxyError, _PROXY),
    (requests.exceptions.Timeout, _TIMED_OUT),
    (urllib3.exceptions.TimeoutError, _TIMED_OUT),
    (TimeoutError, _TIMED_OUT),
    (requests.exceptions.SSLError, _TLS),
    (urllib3.exceptions.SSLError, _TLS),
    (requests.exceptions.ChunkedEncodingError, _TRUNCATED),
    (urllib3.exceptions.ProtocolError, _LOST),
    (requests.exceptions.ConnectionError, _LOST),
    (OSError, _LOST),
)


def _translated(error: BaseException) -> OperationalFailure:
    causes = _causes(error)
    for kind, fault in _FAULTS:
        if any(isinstance(cause, kind) for cause in causes):
            return fault.failure()
    return _NOT_SENT.failure()


def _causes(error: BaseException) -> list[BaseException]:
    """Return the error and what it wraps: these libraries put the cause into the arguments."""
    found: list[BaseException] = []
    queue: list[object] = [error]
    while queue and len(found) < 10:
        item = queue.pop(0)
        if isinstance(item, BaseException) and item not in found:
            found.append(item)
            queue += [*item.args, getattr(item, "reason", None)]
    return found
