"""What can go wrong in a delivery, and what a subscription's policy makes of it.

The classes are the list of the failure semantics, one member a line, plus ``saturated`` for this
library's own limits and ``preparation`` for the host's own content. Every operational failure has
exactly one class and goes through the policy of its subscription exactly once (AHP-FAIL-001,
R-FAIL-01).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Optional

__all__ = ["GENERIC_REASON", "Failure", "FailureClass", "FailurePolicy", "OperationalFailure"]

#: What the model is told after a fail-closed failure (failure semantics, "Synthetic denial").
GENERIC_REASON = "Required policy backend unavailable."


class FailureClass(str, enum.Enum):
    """The class of an operational failure. The value is its stable name in audit records."""

    #: Deadline exceeded.
    DEADLINE_EXCEEDED = "deadline_exceeded"
    #: Connection refused, reset, or lost.
    CONNECTION = "connection"
    #: Backend process launch failure or abnormal exit.
    PROCESS = "process"
    #: Authentication failure, including credential resolution, acquisition, or refresh failure.
    AUTHENTICATION = "authentication"
    #: Non-success HTTP response.
    HTTP_STATUS = "http_status"
    #: Malformed UTF-8, JSON, or JSON-RPC.
    MALFORMED = "malformed"
    #: Mismatched JSON-RPC request and response IDs.
    ID_MISMATCH = "id_mismatch"
    #: JSON-RPC error response.
    RPC_ERROR = "rpc_error"
    #: Unsupported protocol version or event.
    UNSUPPORTED = "unsupported"
    #: Missing required result fields.
    MISSING_RESULT = "missing_result"
    #: Unadvertised, unknown, malformed, or conflicting effects.
    EFFECTS = "effects"
    #: Backend response received after the deadline.
    LATE_RESPONSE = "late_response"
    #: Not on the protocol's list: this client had no worker or process free in time.
    SATURATED = "saturated"
    #: Not on the protocol's list: content that was to be sent could not be read or prepared.
    PREPARATION = "preparation"

    def __str__(self) -> str:
        return self.value


class FailurePolicy(str, enum.Enum):
    """What an intercept subscription wants done after a failure. There is no default."""

    FAIL_OPEN = "fail-open"
    FAIL_CLOSED = "fail-closed"

    def __str__(self) -> str:
        return self.value


class OperationalFailure(Exception):
    """Raised inside the library by the layer that meets the fault; the chain turns it into policy.

    It never reaches the host and carries no text of a dependency, no address and no secret.

    :param failure_class: one of :class:`FailureClass`.
    :param code: a stable, short name of the concrete fault, e.g. ``"connect_refused"``.
    :param detail: one safe sentence for an operator.
    :param retryable: whether the fault may go away within the deadline and the request may be sent
        again (never after a decision, a malformed answer or an authentication failure).
    :param retry_after: seconds the backend asked to wait, or None.
    :param http_status: the HTTP status, where one was read.
    :param rpc_code: the JSON-RPC error code, where one was read.
    :param exit_status: the exit status of a backend process, negative for a signal.
    :param sample: a bounded piece of what the backend sent: untrusted, for audit only.
    :param stderr: likewise, what a backend process wrote to its standard error.
    """

    def __init__(
        self,
        failure_class: FailureClass,
        code: str,
        detail: str,
        *,
        retryable: bool = False,
        retry_after: Optional[float] = None,
        http_status: Optional[int] = None,
        rpc_code: Optional[int] = None,
        exit_status: Optional[int] = None,
        sample: Optional[str] = None,
        stderr: Optional[str] = None,
    ) -> None:
        super().__init__(f"{failure_class.value}/{code}: {detail}")
        self.failure_class = failure_class
        self.code = code
        self.detail = detail
        self.retryable = retryable
        self.retry_after = retry_after
        self.http_status = http_status
        self.rpc_code = rpc_code
        self.exit_status = exit_status
        self.sample = sample
        self.stderr = stderr


@dataclass(frozen=True)
class Failure:
    """One operational failure as the host sees it: no secret and no text of the backend in it.

    ``backend`` and ``subscription`` (its index in the backend's list, -1 for the stand-in of a
    required backend whose configuration is missing) say whose it was, ``policy``
    what was applied (None for an observer), ``attempts`` how often it was tried.
    """

    backend: str
    subscription: int
    policy: Optional[FailurePolicy]
    failure_class: FailureClass
    code: str
    detail: str
    attempts: int = 1

    def __str__(self) -> str:
        whose = f"{self.backend}[{self.subscription}]"
        return f"{whose} {self.failure_class.value}/{self.code}: {self.detail}"
