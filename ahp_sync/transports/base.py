"""What every transport is: bytes in, bytes out, within a budget, abortable from outside."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable, Mapping, Optional, Protocol

from ahp_sync.budget import Budget
from ahp_sync.protocol.messages import Message

__all__ = ["RESPONSE_CAP", "Message", "Reply", "Transport"]

#: The largest answer that is read, in bytes; a longer one is a malformed message.
RESPONSE_CAP = 4 << 20


@dataclass(frozen=True)
class Reply:
    """The bytes a backend answered a request with, and what is known about them.

    ``facts`` goes into the audit record (``http_status``, ``exit_status``); ``stderr`` is a bounded
    untrusted sample of what a process wrote there. ``on_rejected`` is called when the answer turns
    out to be unreadable or not ours, so that what sent it is not used again. ``secrets`` are what
    went out with the request and must not come back in any text that is kept or shown.
    """

    body: bytes
    facts: Mapping[str, int] = field(default_factory=dict)
    stderr: Optional[str] = None
    on_rejected: Optional[Callable[[], None]] = None
    secrets: tuple[str, ...] = field(default=(), repr=False)


class Transport(Protocol):
    """One backend's transport. Its methods may be called from several threads at once."""

    def exchange(self, message: Message, budget: Budget) -> Optional[Reply]:
        """Send one message once and return the backend's answer, or None after a notification.

        Runs on a worker thread and must come back soon after ``budget`` is aborted. Raises
        ``OperationalFailure`` for every fault of the backend or the network, and ``BudgetEnded``
        where the budget ended first. It does not retry and does not interpret the answer.
        """

    def close(self, budget: Budget) -> None:
        """Release everything within ``budget``; safe to repeat, and while exchanges run."""
