"""The border to the HTTP libraries: what they raise, and what it is to us."""

from __future__ import annotations

import http.client
import ssl
from dataclasses import dataclass

import requests
import urllib3

from ahp_sync.failure import FailureClass, OperationalFailure

__all__ = ["BAD_HTTP", "TRUNCATED", "Fault", "translated"]


@dataclass(frozen=True)
class Fault:
    failure_class: FailureClass
    code: str
    detail: str
    retryable: bool = False

    def failure(self) -> OperationalFailure:
        return OperationalFailure(
            self.failure_class, self.code, self.detail, retryable=self.retryable
        )


_TLS_REFUSED = Fault(
    FailureClass.CONNECTION, "tls_certificate", "the backend's certificate was not accepted"
)
_TLS = Fault(FailureClass.CONNECTION, "tls", "the TLS connection to the backend failed")
TRUNCATED = Fault(
    FailureClass.CONNECTION, "truncated", "the connection ended before the answer did", True
)
_LOST = Fault(FailureClass.CONNECTION, "connection_lost", "the connection was lost", True)
BAD_HTTP = Fault(FailureClass.MALFORMED, "bad_http", "the answer is not well-formed HTTP")
_PROXY = Fault(FailureClass.CONNECTION, "proxy", "the proxy did not connect to the backend", True)
_TIMED_OUT = Fault(FailureClass.DEADLINE_EXCEEDED, "timed_out", "the exchange timed out")
_NOT_SENT = Fault(FailureClass.CONNECTION, "not_sent", "the request could not be sent")

# Most specific first.
_FAULTS: tuple[tuple[type[BaseException], Fault], ...] = (
    (ssl.SSLCertVerificationError, _TLS_REFUSED),
    (ssl.SSLError, _TLS),
    (urllib3.exceptions.InvalidChunkLength, BAD_HTTP),
    (urllib3.exceptions.IncompleteRead, TRUNCATED),
    (http.client.IncompleteRead, TRUNCATED),
    (http.client.RemoteDisconnected, _LOST),
    (http.client.HTTPException, BAD_HTTP),
    (urllib3.exceptions.InvalidHeader, BAD_HTTP),
    (urllib3.exceptions.ProxyError, _PROXY),
    (requests.exceptions.ProxyError, _PROXY),
    (requests.exceptions.Timeout, _TIMED_OUT),
    (urllib3.exceptions.TimeoutError, _TIMED_OUT),
    (TimeoutError, _TIMED_OUT),
    (requests.exceptions.SSLError, _TLS),
    (urllib3.exceptions.SSLError, _TLS),
    (requests.exceptions.ChunkedEncodingError, TRUNCATED),
    (urllib3.exceptions.ProtocolError, _LOST),
    (requests.exceptions.ConnectionError, _LOST),
    (OSError, _LOST),
)


def translated(error: BaseException) -> OperationalFailure:
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
