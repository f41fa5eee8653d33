"""The messages a harness sends, serialised once each; every attempt uses the same bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Optional

from ahp_sync.protocol.jsonrpc import encode

__all__ = [
    "PROTOCOL_VERSION",
    "Message",
    "configuration_request",
    "intercept_request",
    "observe_notification",
]

PROTOCOL_VERSION = "draft"


@dataclass(frozen=True)
class Message:
    """One serialised JSON-RPC message. The same object is used for every attempt (R-RETRY-01).

    ``rpc_id`` is the JSON-RPC id of a request, or None for a notification.
    """

    body: bytes
    rpc_id: Optional[str]


def intercept_request(
    event: dict[str, Any], capabilities: Mapping[str, Any], state: dict[str, Any]
) -> Message:
    """Return the ``hooks/intercept`` request for an event; its id is the event's (R-RPC-02)."""
    body = encode(
        {
            "jsonrpc": "2.0",
            "id": event["id"],
            "method": "hooks/intercept",
            "params": {
                "protocolVersion": PROTOCOL_VERSION,
                "event": event,
                "capabilities": capabilities,
                "state": state,
            },
        }
    )
    return Message(body, event["id"])


def observe_notification(event: dict[str, Any]) -> Message:
    """Return the ``hooks/observe`` notification for an event; it has no id (R-OBS-01)."""
    body = encode(
        {
            "jsonrpc": "2.0",
            "method": "hooks/observe",
            "params": {"protocolVersion": PROTOCOL_VERSION, "event": event},
        }
    )
    return Message(body, None)


def configuration_request(rpc_id: str) -> Message:
    """Return the ``hooks/configuration`` request that asks a backend for its subscriptions."""
    body = encode(
        {
            "jsonrpc": "2.0",
            "id": rpc_id,
            "method": "hooks/configuration",
            "params": {"protocolVersion": PROTOCOL_VERSION},
        }
    )
    return Message(body, rpc_id)
