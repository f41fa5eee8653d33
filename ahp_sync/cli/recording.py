"""A transport around a transport that keeps what went over it, for ``ahp-sync send``."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import Any, Optional

from ahp_sync import Budget
from ahp_sync.failure import OperationalFailure
from ahp_sync.redaction import redacted
from ahp_sync.transports.base import Message, Reply, Transport

__all__ = ["Attempt", "Delivery", "RecordingTransport"]


@dataclass
class Attempt:
    """One exchange. ``reply`` and ``failure`` are what it came to; a notification has no reply.

    ``given_up`` tells that the time was over before either.
    """

    started: float
    elapsed_ms: Optional[float] = None
    reply: Optional[Reply] = None
    failure: Optional[OperationalFailure] = None
    given_up: bool = True

    @property
    def answer(self) -> str:
        """The whole answer as text, without the secrets that went out with the request."""
        if self.reply is None:
            return ""
        text = self.reply.body.decode("utf-8", "backslashreplace")
        return redacted(text, self.reply.secrets)

    @property
    def effects(self) -> list[Any]:
        """The effects of an answer that was accepted, likewise."""
        assert self.reply is not None
        effects = json.loads(self.reply.body)["result"].get("effects", [])
        return [_redacted(effect, self.reply.secrets) for effect in effects]


@dataclass
class Delivery:
    """One message to one backend, and every attempt to deliver it."""

    backend: str
    message: Message
    attempts: list[Attempt] = field(default_factory=list)

    @property
    def is_request(self) -> bool:
        """Whether an answer is expected."""
        return self.message.rpc_id is not None


class RecordingTransport:
    """Passes everything to ``inner`` and notes it in ``log``, in the order of first attempts.

    One ``log`` may be shared by several transports. It is read when the call is over.
    """

    def __init__(self, backend: str, inner: Transport, log: list[Delivery]) -> None:
        self._backend = backend
        self._inner = inner
        self._log = log

    def exchange(self, message: Message, budget: Budget) -> Optional[Reply]:
        """Send one message once. See ``Transport.exchange``."""
        attempt = Attempt(time.monotonic())
        self._delivery(message).attempts.append(attempt)
        try:
            attempt.reply = self._inner.exchange(message, budget)
        except OperationalFailure as failure:
            attempt.failure, attempt.given_up = failure, False
            raise
        finally:
            attempt.elapsed_ms = round((time.monotonic() - attempt.started) * 1000, 3)
        attempt.given_up = False
        return attempt.reply

    def close(self, budget: Budget) -> None:
        """Close the inner transport."""
        self._inner.close(budget)

    def _delivery(self, message: Message) -> Delivery:
        # Attempts of one message follow one another, and each message is one object; so nobody else
        # looks for this one meanwhile.
        for delivery in self._log:
            if delivery.message is message:
                return delivery
        delivery = Delivery(self._backend, message)
        self._log.append(delivery)
        return delivery


def _redacted(value: Any, secrets: tuple[str, ...]) -> Any:
    if isinstance(value, str):
        return redacted(value, secrets)
    if isinstance(value, list):
        return [_redacted(inner, secrets) for inner in value]
    if isinstance(value, dict):
        return {name: _redacted(inner, secrets) for name, inner in value.items()}
    return value
