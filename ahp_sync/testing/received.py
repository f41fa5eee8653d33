"""What a scripted backend received, for tests to look at."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple

__all__ = ["Received", "ReceivedLine", "ReceivedRequest", "read_message"]


def read_message(body: bytes) -> Any:
    """Return ``body`` parsed as JSON, or None if it is none."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


@dataclass(frozen=True)
class Received:
    """One message of the harness.

    ``body`` is what arrived, without a line end; ``message`` the same parsed, or None if it is no
    JSON; ``time`` is ``time.monotonic()`` when its last byte had arrived.
    """

    body: bytes
    message: Any
    time: float

    @property
    def rpc_id(self) -> Any:
        """The JSON-RPC id, or None (a notification, or no message at all)."""
        return self.message.get("id") if isinstance(self.message, dict) else None

    @property
    def event(self) -> Dict[str, Any]:
        """``params.event`` of the message; raises :class:`LookupError` where there is none."""
        event: Dict[str, Any] = self.message["params"]["event"]
        return event


@dataclass(frozen=True)
class ReceivedRequest(Received):
    """One HTTP request.

    ``headers`` are the pairs as received. ``connection`` is the number of the connection (from 1),
    ``served`` how many requests came on it before, ``attempt`` how often this JSON-RPC id has been
    seen now (from 1; 0 without an id).
    """

    method: str
    path: str
    headers: Tuple[Tuple[str, str], ...]
    connection: int
    served: int
    attempt: int

    def header(self, name: str) -> Optional[str]:
        """The value of the header ``name``, or None; several are joined by ``", "``."""
        values = self.header_values(name)
        return ", ".join(values) if values else None

    def header_values(self, name: str) -> List[str]:
        """The values of every header called ``name``, case ignored."""
        return [value for key, value in self.headers if key.lower() == name.lower()]


@dataclass(frozen=True)
class ReceivedLine(Received):
    """One line on the stdin of a stdio backend, and the process that read it."""

    pid: int
