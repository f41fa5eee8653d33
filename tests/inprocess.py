"""Backends inside this process: scripted transports for tests that need no network."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping
from typing import Any, Callable, Optional, Union

from ahp_sync.budget import Budget, BudgetEnded
from ahp_sync.failure import FailureClass, OperationalFailure
from ahp_sync.testing.registrations import hooks, intercept, observe
from ahp_sync.transports.base import Message, Reply

__all__ = [
    "GENEROUS",
    "SLACK",
    "Backend",
    "answer",
    "deny",
    "document",
    "fails",
    "hangs",
    "intercept",
    "observe",
    "ok",
    "refused",
    "stuck",
]

#: Seconds for a wait that should be over at once, and for how late a busy machine may be.
GENEROUS, SLACK = 10.0, 0.25

#: What a backend does with a message: it returns the bytes of its answer, or raises.
Act = Callable[["Backend", dict[str, Any], Budget], Optional[bytes]]


class Backend:
    """A transport that does what ``act`` says and remembers what it was sent.

    ``started`` is set once a message has come; ``released`` ends what :func:`stuck` waits for.
    """

    def __init__(
        self,
        act: Optional[Act] = None,
        *subscriptions: Mapping[str, Any],
        id: str = "com.example.one",
    ) -> None:
        self.id = id
        self.subscriptions = [dict(one) for one in subscriptions or [intercept()]]
        self.act: Act = act or ok
        self.messages: list[dict[str, Any]] = []
        self.bodies: list[bytes] = []
        self.started = threading.Event()
        self.released = threading.Event()
        self.closed = False

    def exchange(self, message: Message, budget: Budget) -> Optional[Reply]:
        """Act on one message."""
        received = json.loads(message.body)
        self.messages.append(received)
        self.bodies.append(message.body)
        self.started.set()
        body = self.act(self, received, budget)
        return None if body is None or message.rpc_id is None else Reply(body)

    def close(self, budget: Budget) -> None:
        """Note that somebody closed what is not theirs."""
        self.closed = True

    @property
    def methods(self) -> list[str]:
        """The methods of the messages so far: ``intercept`` and ``observe``."""
        return [message["method"].partition("/")[2] for message in self.messages]

    @property
    def events(self) -> list[dict[str, Any]]:
        """The events in the messages so far."""
        return [message["params"]["event"] for message in self.messages]

    def entry(self) -> dict[str, Any]:
        """Return its entry for a registration."""
        return {
            "id": self.id,
            "transport": {"type": "http", "url": "http://127.0.0.1:9/ahp"},
            "subscriptions": self.subscriptions,
        }


def document(backends: Iterable[Any]) -> dict[str, Any]:
    """Return the registration of the given backends, in this order."""
    return hooks(*(backend.entry() for backend in backends))


def answer(rpc_id: object, *effects: Mapping[str, Any]) -> bytes:
    """Return the bytes of a success with these effects."""
    result = {"protocolVersion": "draft", "effects": effects}
    return json.dumps({"jsonrpc": "2.0", "id": rpc_id, "result": result}).encode()


def ok(backend: Backend, message: dict[str, Any], budget: Budget) -> bytes:
    """Has nothing against it."""
    return answer(message.get("id"))


def deny(reason: str = "not here") -> Act:
    """Denies with ``reason``."""
    return lambda backend, message, budget: answer(
        message.get("id"), {"type": "deny", "reason": reason}
    )


def fails(error: Union[BaseException, Callable[[], BaseException]]) -> Act:
    """Raises ``error``, or what it makes: one that is kept would keep the call it was raised in."""

    def act(backend: Backend, message: dict[str, Any], budget: Budget) -> Optional[bytes]:
        raise error if isinstance(error, BaseException) else error()

    return act


def refused(*, retryable: bool = False, **facts: Any) -> OperationalFailure:
    """Return an operational failure of a refused connection."""
    return OperationalFailure(
        FailureClass.CONNECTION, "connect_refused", "refused", retryable=retryable, **facts
    )


def hangs(backend: Backend, message: dict[str, Any], budget: Budget) -> Optional[bytes]:
    """Never answers, but comes home when it is aborted, as a socket does."""
    if budget.sleep(GENEROUS):
        raise AssertionError("nobody aborted the exchange")
    raise BudgetEnded


def stuck(backend: Backend, message: dict[str, Any], budget: Budget) -> Optional[bytes]:
    """Blocks where no abort reaches it, until it is released; then it answers all the same."""
    backend.released.wait(GENEROUS)
    return answer(message.get("id"))
