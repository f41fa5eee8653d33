"""Asking the backends whose subscriptions the registration leaves to them (section 12).

It happens once in a process, when the first call comes or the client is entered. Everybody who
comes meanwhile waits for the same answers, each within its own budget; the asking itself has a
budget and threads of its own, so that nobody who leaves takes it along.

A backend that can't be asked, or whose answer can't be used, is left out, and with it whatever it
would have decided: that is fail-open by absence (T-12). So each is logged and has its
:class:`ConfigurationDiagnostic`; and a *required* one is replaced by a stand-in that fails, in the
manner of fail-closed, at every event that could have been its to decide.
"""

from __future__ import annotations

import contextvars
import logging
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Callable, Optional, Union

from ahp_sync.budget import LONGEST_WAIT, Budget, BudgetEnded
from ahp_sync.capabilities import Capabilities
from ahp_sync.failure import FailureClass
from ahp_sync.inquiry import (
    NOT_AUTHORIZED,
    UNAVAILABLE,
    AuthorizeConfiguration,
    ConfigurationDiagnostic,
    Inquiry,
    StandIn,
    Unused,
)
from ahp_sync.registration import Backend, Registration, Subscription
from ahp_sync.transports.base import Transport

__all__ = [
    "AuthorizeConfiguration",
    "ConfigurationDiagnostic",
    "Discovered",
    "Discovery",
    "required_backends",
]

_log = logging.getLogger("ahp_sync")

#: How long a backend has for its answer, and the host for its approval of it, in seconds.
SECONDS = 5.0

_CLOSING_SECONDS = 2.0

_Result = Union[tuple[Subscription, ...], Unused]


@dataclass(frozen=True)
class Discovered:
    """What came of asking: subscriptions by backend id, for those that are used.

    ``stand_ins`` are the transports of required backends that are not used; their subscriptions are
    among the others. ``diagnostics`` has an entry for every backend that is not used.
    """

    subscriptions: Mapping[str, tuple[Subscription, ...]]
    stand_ins: Mapping[str, Transport]
    diagnostics: tuple[ConfigurationDiagnostic, ...]


class _Flight:
    """One round of asking them all. What is in it changes under the lock of the discovery."""

    def __init__(self, budget: Budget, inquiries: Sequence[Inquiry]) -> None:
        self.budget = budget
        self.inquiries = inquiries
        self.results: dict[str, _Result] = {}
        self.over = False
        self.waiting: dict[object, Callable[[], None]] = {}


class Discovery:
    """Asks the given backends, side by side, once.

    :param backends: those whose registration names no subscriptions.
    :param transports: every backend's transport; ``owned`` are those that are closed here when
        their backend is not used.
    :param authorize: has to approve of each answer, if there is one; see the client.
    :param required: the ids of the backends that a stand-in replaces where they are not used.
    :param seconds: how long they have, all in all.

    All methods may be called from several threads at once.
    """

    def __init__(
        self,
        backends: Sequence[Backend],
        transports: Mapping[str, Transport],
        owned: Sequence[object],
        *,
        capabilities: Capabilities,
        authorize: Optional[AuthorizeConfiguration] = None,
        required: Collection[str] = (),
        seconds: float = SECONDS,
    ) -> None:
        self._backends = tuple(backends)
        self._transports = transports
        self._owned = owned
        self._capabilities = capabilities
        self._authorize = authorize
        self._required = required
        self._seconds = seconds
        # Re-entrant: a signal handler may raise an event while its thread is in a locked section.
        self._lock = threading.RLock()
        self._flight: Optional[_Flight] = None
        self._found: Optional[Discovered] = None
        self._closed = False
        self._threads: list[threading.Thread] = []

    @property
    def found(self) -> Optional[Discovered]:
        """What came of it, or None as long as that is not known."""
        return self._found

    def wait(self, budget: Budget) -> Discovered:
        """Return what came of it, asking now if nobody has.

        Waits until ``budget`` or the time for asking ends, whichever is first. Raises
        :class:`BudgetEnded` where it was the budget, or the discovery was closed.
        """
        while self._found is None:
            budget.check()
            flight = self._flight or self._begin()
            self._watch(flight, budget)
            if flight.budget.expired:
                self._settle(flight)
        return self._found

    def call_off(self) -> None:
        """End the asking for good. Nobody is left out for it: nothing comes of it at all."""
        with self._lock:
            self._closed = True
            flight = self._flight
        if flight is not None:
            self._call_off(flight)

    def join(self, budget: Budget) -> None:
        """Wait within ``budget`` for the threads to end, after :meth:`call_off`."""
        for thread in list(self._threads):
            if thread is not threading.current_thread():
                thread.join(min(budget.remaining(), LONGEST_WAIT))

    # --- waiting ------------------------------------------------------------------------------

    def _begin(self) -> _Flight:
        budget = Budget(self._seconds)
        flight = _Flight(budget, [self._inquiry(backend, budget) for backend in self._backends])
        try:
            with self._lock:
                if self._closed:
                    raise BudgetEnded
                if self._flight is not None:
                    return self._flight
                self._flight = flight
            for inquiry in flight.inquiries:
                self._send_off(flight, inquiry)
        except BaseException:  # an interrupt of the host: who comes later asks again
            self._call_off(flight)
            raise
        return flight

    def _inquiry(self, backend: Backend, budget: Budget) -> Inquiry:
        return Inquiry(
            backend,
            self._transports[backend.id],
            budget.child(),
            capabilities=self._capabilities,
            authorize=self._authorize,
        )

    def _send_off(self, flight: _Flight, inquiry: Inquiry) -> None:
        thread = threading.Thread(
            target=contextvars.copy_context().run,
            args=(self._inquire, flight, inquiry),
            name=f"ahp-sync-discovery-{inquiry.backend.id}",
            daemon=True,
        )
        try:
            thread.start()
        except RuntimeError:  # no thread to be had
            detail = "there was no thread to ask on"
            self._land(
                flight,
                Unused.because(inquiry.backend, UNAVAILABLE, detail, FailureClass.SATURATED),
                inquiry,
            )
        else:
            self._threads.append(thread)

    def _watch(self, flight: _Flight, budget: Budget) -> None:
        """Wait until the flight is over, or its time or ``budget`` has ended."""
        # A bare lock, as in Budget.sleep: a signal handler may cancel the budget at any point.
        gate = threading.Lock()
        gate.acquire()
        me = object()
        with self._lock:
            if flight.over:
                return
            flight.waiting[me] = lambda: _open(gate)
        key = budget.on_abort(lambda: _open(gate))
        try:
            left = min(budget.remaining(), flight.budget.remaining(), LONGEST_WAIT)
            if left > 0:
                gate.acquire(timeout=left)
        finally:
            budget.off_abort(key)
            with self._lock:
                del flight.waiting[me]

    # --- one backend, on a thread of its own --------------------------------------------------

    def _inquire(self, flight: _Flight, inquiry: Inquiry) -> None:
        try:
            result = inquiry.subscriptions()
        except BudgetEnded:
            result = self._unanswered(inquiry)
        self._land(flight, result, inquiry)
        if isinstance(flight.results.get(inquiry.backend.id), Unused):
            self._close_owned(inquiry.backend)

    def _unanswered(self, inquiry: Inquiry) -> Unused:
        reason, detail = UNAVAILABLE, f"no answer within {self._seconds:g} s"
        if inquiry.approving:
            reason = NOT_AUTHORIZED
            detail = f"authorize_configuration did not return within {self._seconds:g} s"
        return Unused.because(inquiry.backend, reason, detail, FailureClass.DEADLINE_EXCEEDED)

    def _close_owned(self, backend: Backend) -> None:
        transport = self._transports[backend.id]
        if any(transport is one for one in self._owned):
            try:
                transport.close(Budget(_CLOSING_SECONDS))
            except Exception as error:
                _log.error("a transport was not closed: %s", type(error).__name__)

    # --- the end of it ------------------------------------------------------------------------

    def _land(self, flight: _Flight, result: _Result, inquiry: Inquiry) -> None:
        with self._lock:
            if flight.over:
                return  # too late, or called off
            flight.results[inquiry.backend.id] = result
            complete = len(flight.results) == len(self._backends)
        if complete:
            self._settle(flight)

    def _settle(self, flight: _Flight) -> None:
        """Publish what came of it; who has not answered by now has not answered."""
        with self._lock:
            if flight.over:
                return
            flight.over = True
            for inquiry in flight.inquiries:
                flight.results.setdefault(inquiry.backend.id, self._unanswered(inquiry))
            self._found = found = self._summary(flight.results)
            waiting = list(flight.waiting.values())
        for wake in waiting:
            wake()
        flight.budget.abort()
        _log_what_is_missing(found)

    def _call_off(self, flight: _Flight) -> None:
        """End a flight without a result: nobody is skipped for it, and the next call asks again."""
        with self._lock:
            if flight.over:
                return
            flight.over = True
            if self._flight is flight:
                self._flight = None
            waiting = list(flight.waiting.values())
        flight.budget.cancel()
        for wake in waiting:
            wake()

    def _summary(self, results: Mapping[str, _Result]) -> Discovered:
        subscriptions: dict[str, tuple[Subscription, ...]] = {}
        stand_ins: dict[str, Transport] = {}
        diagnostics = []
        for backend in self._backends:
            result = results[backend.id]
            if not isinstance(result, Unused):
                subscriptions[backend.id] = result
                continue
            diagnostics.append(result.diagnostic)
            if backend.id in self._required:
                stand_in = StandIn(result, self._capabilities)
                subscriptions[backend.id] = (stand_in.subscription,)
                stand_ins[backend.id] = stand_in
        return Discovered(subscriptions, stand_ins, tuple(diagnostics))


def required_backends(
    require_configuration: Union[bool, Collection[str]], registration: Registration
) -> frozenset[str]:
    """Return the ids of the discovered backends that the client's option of this name requires.

    True stands for all of them. An id whose subscriptions the registration itself names may stand
    in a collection, and has what is asked for. Raises :class:`TypeError`, and :class:`ValueError`
    for an id that is not registered.
    """
    discovered = frozenset(backend.id for backend in registration.backends if backend.is_discovered)
    if isinstance(require_configuration, bool):
        return discovered if require_configuration else frozenset()
    if isinstance(require_configuration, str) or not isinstance(require_configuration, Collection):
        kind = type(require_configuration).__name__
        raise TypeError(f"require_configuration must be a boolean or backend ids, not a {kind}")
    known = {backend.id for backend in registration.backends}
    for name in require_configuration:
        if name not in known:
            raise ValueError(f"require_configuration: the registration has no backend {name!r}")
    return discovered.intersection(require_configuration)


def _log_what_is_missing(found: Discovered) -> None:
    for diagnostic in found.diagnostics:
        required = diagnostic.backend in found.stand_ins
        _log.log(
            logging.ERROR if required else logging.WARNING,
            "backend %s, which was asked for its subscriptions, is not used%s: %s: %s",
            diagnostic.backend,
            ", but required" if required else "",
            diagnostic.reason,
            diagnostic.detail,
        )


def _open(gate: threading.Lock) -> None:
    try:
        gate.release()
    except RuntimeError:
        pass  # somebody else was quicker
