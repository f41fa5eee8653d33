"""What a client owns in one process, and how it is given back in bounded time."""

from __future__ import annotations

import logging
import threading
from functools import partial
from typing import TYPE_CHECKING, Callable, Collection, Mapping, NoReturn, Optional, Sequence

from ahp_sync.budget import LONGEST_WAIT, Budget, BudgetEnded
from ahp_sync.capabilities import Capabilities
from ahp_sync.chain import Route
from ahp_sync.delivery import Delivery
from ahp_sync.discovery import (
    SECONDS,
    AuthorizeConfiguration,
    ConfigurationDiagnostic,
    Discovered,
    Discovery,
)
from ahp_sync.errors import ClientClosed
from ahp_sync.preparation import Uploads
from ahp_sync.protocol.events import Mode
from ahp_sync.protocol.lineage import Lineage
from ahp_sync.registration import Registration
from ahp_sync.retry import RetryPolicy
from ahp_sync.transports.base import Transport
from ahp_sync.workers import DeliveryExecutor

if TYPE_CHECKING:
    from ahp_sync.transports.factory import Closable

__all__ = ["Runtime"]

_log = logging.getLogger("ahp_sync")


class Runtime:
    """Transports, workers and calls in flight of one client in one process.

    A forked child gets a runtime of its own and never touches the parent's (design decision 9).

    :param transports: every backend's transport.
    :param owned: what is closed with the client: those of them that are its own, and more.
    :param executor: what the deliveries run on, and ``uploads`` what uploads attachments.
    :param capabilities: what the host declares, for what discovered backends subscribe to;
        ``authorize_configuration``, ``required`` and ``discovery_seconds`` are as for
        :class:`Discovery`.
    """

    def __init__(
        self,
        registration: Registration,
        transports: Mapping[str, Transport],
        owned: Sequence[Closable],
        *,
        executor: Optional[DeliveryExecutor] = None,
        uploads: Optional[Uploads] = None,
        retry: RetryPolicy,
        max_workers: int,
        capabilities: Optional[Capabilities] = None,
        authorize_configuration: Optional[AuthorizeConfiguration] = None,
        required: Collection[str] = (),
        discovery_seconds: float = SECONDS,
    ) -> None:
        self._owned = owned
        self._executor = executor or DeliveryExecutor(max_workers)
        self.delivery = Delivery(self._executor, retry)
        self.uploads = uploads or Uploads(self._executor, _no_uploader)
        self.lineage = Lineage()
        self._registration = registration
        self._transports = transports
        self._routes = _routes(registration, transports, _NOTHING)
        discovered = [backend for backend in registration.backends if backend.is_discovered]
        self._discovery = Discovery(
            discovered,
            transports,
            owned,
            capabilities=capabilities or Capabilities(),
            authorize=authorize_configuration,
            required=required,
            seconds=discovery_seconds,
        )
        #: Whether there are backends whose subscriptions are not known; see :meth:`discover`.
        self.undiscovered = bool(discovered)
        # Re-entrant: a finalizer that closes a forgotten client may run inside a locked section.
        self._lock = threading.RLock()
        self._calls: set[Budget] = set()
        self.closed = False
        self._closing = False
        self._done = threading.Event()

    def routes(self, mode: Mode, event_type: str) -> Sequence[Route]:
        """Return the subscriptions for an event type, in registration order (R-SET-01).

        Those of discovered backends are among them once :meth:`discover` has returned True.
        """
        return self._routes.get((mode, event_type), ())

    def discover(self, budget: Budget) -> bool:
        """Learn what the backends subscribe to that the registration says nothing of (R-DISC-01).

        Returns whether it is known; False if ``budget``, of a call that was admitted, ended first:
        the call is then interrupted or expired, and must never be taken for permitted. Costs
        nothing once it is known.
        """
        if self.undiscovered:
            try:
                found = self._discovery.wait(budget)
            except BudgetEnded:
                if not budget.ended:
                    budget.cancel()  # the client was closed: whatever asks must notice
                return False
            self._routes = _routes(self._registration, self._transports, found)
            self.undiscovered = False
        return True

    def discover_early(self) -> None:
        """Discover before a call has to wait for it. Raises :class:`ClientClosed`."""
        if self.undiscovered:
            call = Budget.open_ended()
            self.admit(call)
            try:
                self.discover(call)
            finally:
                self.leave(call)

    @property
    def configuration_diagnostics(self) -> tuple[ConfigurationDiagnostic, ...]:
        """Why discovered backends are not used; () as long as it is not known."""
        found = self._discovery.found
        return () if found is None else found.diagnostics

    def admit(self, call: Budget) -> None:
        """Count a call in, so that closing cancels it. Raises :class:`ClientClosed`."""
        with self._lock:
            if self.closed:
                raise ClientClosed("the client is closed")
            self._calls.add(call)

    def leave(self, call: Budget) -> None:
        """Count a call out."""
        with self._lock:
            self._calls.discard(call)

    def close(self, timeout: float) -> None:
        """Refuse new calls, cancel those in flight, and give back what is owned.

        Takes ``timeout`` seconds at most; what is stuck longer is left behind as daemon threads. A
        second close, also a concurrent one, waits for the first within its own time.
        """
        with self._lock:
            first = not (self._closing or self._done.is_set())
            self.closed = self._closing = True
            calls = list(self._calls)
        if not first:
            self._done.wait(min(timeout, LONGEST_WAIT))
            return
        budget = Budget(min(timeout, LONGEST_WAIT))
        try:
            for call in calls:
                call.cancel()
            self._discovery.call_off()
            _side_by_side([partial(_close, transport, budget) for transport in self._owned], budget)
            self._discovery.join(budget)
            self._executor.shutdown(cancel_futures=True, timeout=budget.remaining())
            self._done.set()
        finally:
            self._closing = False  # after a Ctrl-C the next close goes on with it

    def abandon_after_fork(self) -> None:
        """In a child: let go of the parent's sockets and processes without a word to them."""
        self.closed = True
        for transport in self._owned:
            abandon = getattr(transport, "abandon_after_fork", None)
            if abandon is not None:
                abandon()


def _close(transport: Closable, budget: Budget) -> None:
    try:
        transport.close(budget)
    except Exception as error:
        _log.error("a transport was not closed: %s", type(error).__name__)


def _no_uploader(backend: str, route: object) -> NoReturn:
    raise AssertionError("a runtime without transports of its own uploads nothing")


_NOTHING = Discovered({}, {}, ())


def _routes(
    registration: Registration, transports: Mapping[str, Transport], found: Discovered
) -> Mapping[tuple[Mode, str], Sequence[Route]]:
    routes: dict[tuple[Mode, str], list[Route]] = {}
    for backend in registration.backends:
        transport = found.stand_ins.get(backend.id) or transports[backend.id]
        for subscription in backend.subscriptions or found.subscriptions.get(backend.id, ()):
            route = Route(subscription, transport)
            for event in subscription.events:
                routes.setdefault((subscription.mode, event), []).append(route)
    return routes


def _side_by_side(actions: Sequence[Callable[[], object]], budget: Budget) -> None:
    """Run the actions, all but the first on threads of their own, and wait within the budget."""
    here, threads = list(actions[:1]), []
    for action in actions[1:]:
        thread = threading.Thread(target=action, daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no thread to be had, as at interpreter exit from Python 3.12 on
            here.append(action)
        else:
            threads.append(thread)
    for action in here:
        action()
    for thread in threads:
        thread.join(budget.remaining())
