"""Backends in this process that are asked for their subscriptions, and runtimes that ask them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Optional

from inprocess import Act, Backend, document, intercept

from ahp_sync import Budget
from ahp_sync.capabilities import Capabilities
from ahp_sync.protocol.events import Mode
from ahp_sync.registration import Registration, Subscription
from ahp_sync.retry import RetryPolicy
from ahp_sync.runtime import Runtime
from ahp_sync.transports.base import Message, Reply

__all__ = [
    "Asked",
    "answers",
    "configuration_result",
    "open_runtime",
    "subscribed",
    "subscribes",
    "wants",
]


def configuration_result(*subscriptions: Any, **more: Any) -> dict[str, Any]:
    """Return the result of a configuration request."""
    configuration = {"subscriptions": list(subscriptions)}
    return {"protocolVersion": "draft", "configuration": configuration, **more}


def answers(result: Any) -> Act:
    """Answers a configuration request with ``result``, whatever it is."""

    def act(backend: Backend, message: dict[str, Any], budget: Budget) -> bytes:
        return json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()

    return act


def subscribes(*subscriptions: Mapping[str, Any]) -> Act:
    """Answers with these subscriptions."""
    return answers(configuration_result(*subscriptions))


def wants(**more: Any) -> dict[str, Any]:
    """Return an intercept subscription of ``tool.before``, as a backend may ask for it."""
    return intercept(timeout_ms=5000, **more)


class Asked(Backend):
    """A backend whose registration names no subscriptions.

    ``says`` is what it does when it is asked for them, ``act`` what it does with the rest.
    """

    def __init__(
        self,
        says: Optional[Act] = None,
        act: Optional[Act] = None,
        *,
        id: str = "com.example.asked",
        status: Optional[int] = None,
    ) -> None:
        super().__init__(act, id=id)
        self.says = says or subscribes(wants())
        self.status = status

    def exchange(self, message: Message, budget: Budget) -> Optional[Reply]:
        """Act on one message."""
        received = json.loads(message.body)
        if received["method"] != "hooks/configuration":
            return super().exchange(message, budget)
        self.messages.append(received)
        self.bodies.append(message.body)
        self.started.set()
        facts = {} if self.status is None else {"http_status": self.status}
        body = self.says(self, received, budget)
        return None if body is None else Reply(body, facts)

    def entry(self) -> dict[str, Any]:
        """Return its entry for a registration."""
        return {name: value for name, value in super().entry().items() if name != "subscriptions"}

    @property
    def times_asked(self) -> int:
        """How often it was asked for its subscriptions."""
        return self.methods.count("configuration")


@contextmanager
def open_runtime(
    *backends: Backend,
    seconds: float = 10.0,
    owned: bool = False,
    capabilities: Optional[Capabilities] = None,
    **options: Any,
) -> Iterator[Runtime]:
    """Make a runtime of these backends, whose discovery takes ``seconds`` at most."""
    capabilities = capabilities or Capabilities()
    runtime = Runtime(
        Registration.load(document(backends)).for_host(capabilities),
        {backend.id: backend for backend in backends},
        backends if owned else (),
        retry=RetryPolicy(),
        max_workers=8,
        capabilities=capabilities,
        discovery_seconds=seconds,
        **options,
    )
    try:
        yield runtime
    finally:
        for backend in backends:
            backend.released.set()
        runtime.close(10.0)


def subscribed(
    runtime: Runtime, mode: Mode = Mode.INTERCEPT, event: str = "tool.before"
) -> list[Subscription]:
    """Return the subscriptions that an event of the runtime's goes to."""
    return [route.subscription for route in runtime.routes(mode, event)]
