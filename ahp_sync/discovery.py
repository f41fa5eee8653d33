"""Asking backends what they subscribe to, where the registration leaves it to them (section 12).

It happens once in a process, when the first call comes or the client is entered. Everybody who
comes meanwhile waits for the same answers, each within its own budget; the asking itself has a
budget of its own, and threads of its own, so that nobody who leaves takes it along.

A backend that can't be asked, or whose answer can't be used, is left out, and with it whatever it
would have decided: that is fail-open by absence (T-12). So each is logged and has its
:class:`ConfigurationDiagnostic`; and for a backend that is *required* a stand-in takes its place
that fails, fail-closed, at every event that could have been its to decide.
"""

from __future__ import annotations

import contextvars
import copy
import logging
import threading
import traceback
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Callable, NoReturn, Optional, Union

from ahp_sync.budget import LONGEST_WAIT, Budget, BudgetEnded
from ahp_sync.capabilities import Capabilities
from ahp_sync.failure import FailureClass, FailurePolicy, OperationalFailure
from ahp_sync.protocol.configuration import MAX_BYTES, configuration_of
from ahp_sync.protocol.content import ContentSelection
from ahp_sync.protocol.events import Mode
from ahp_sync.protocol.jsonrpc import answer_body
from ahp_sync.protocol.messages import configuration_request
from ahp_sync.registration import Backend, Subscription, read_subscriptions
from ahp_sync.registration_host import narrowed, policy_problems
from ahp_sync.transports.base import Message, Reply, Transport

__all__ = [
    "AuthorizeConfiguration",
    "ConfigurationDiagnostic",
    "Discovered",
    "Discovery",
]

_log = logging.getLogger("ahp_sync")

#: Is given the backend's id and its whole answer, a copy; the answer is used if and only if it
#: returns True.
AuthorizeConfiguration = Callable[[str, Mapping[str, Any]], bool]

#: How long a backend has for its answer, and the host for its approval of it, in seconds.
SECONDS = 5.0

UNAVAILABLE = "configuration_unavailable"
NOT_AUTHORIZED = "configuration_not_authorized"
NOT_APPLICABLE = "no_applicable_subscriptions"

#: The index of a stand-in's subscription, which is none of the backend's own.
STAND_IN = -1

_CLOSING_SECONDS = 2.0


@dataclass(frozen=True)
class ConfigurationDiagnostic:
    """Why a backend that was asked for its subscriptions is not used (R-DISC-06).

    ``reason`` is ``configuration_unavailable`` (no answer in time, or one that is not right),
    ``configuration_not_authorized`` (by ``authorize_configuration``, or for want of it) or
    ``no_applicable_subscriptions`` (nothing in it that this host serves). ``detail`` is a sentence
    for an operator; no text of the backend's and no credential is in it.
    """

    backend: str
    reason: str
    detail: str


@dataclass(frozen=True)
class Discovered:
    """What came of asking: subscriptions by backend id, for those that are used.

    ``stand_ins`` are the transports that take the place of required backends that are not;
    their subscriptions are among the others.
    """

    subscriptions: Mapping[str, tuple[Subscription, ...]]
    stand_ins: Mapping[str, Transport]
    diagnostics: tuple[ConfigurationDiagnostic, ...]


class _Skipped(Exception):
    """Raised where a backend's configuration turns out not to be usable: reason, then detail."""


_Result = Union[tuple[Subscription, ...], ConfigurationDiagnostic]


class _Flight:
    """One time of asking them all. Everything in it changes under the lock of its owner."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.results: dict[str, _Result] = {}
        self.approving: set[str] = set()
        self.over = False
        self.waiting: dict[object, Callable[[], None]] = {}
        self.threads: list[threading.Thread] = []


class Discovery:
    """Asks the given backends, side by side, once.

    :param backends: those whose registration names no subscriptions.
    :param transports: every backend's transport; ``owned`` are those that are closed here when
        their backend is not used.
    :param authorize: has to approve of each answer, if there is one; see the client.
    :param required: the ids of the backends that a stand-in replaces where they can't be used.
    :param seconds: how long each has, all in all.

    All methods may be called from several threads at once.
    """

    def __init__(
        self,
        backends: Sequence[Backend],
        transports: Mapping[str, Transport],
        owned: Sequence[Transport],
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

    @property
    def found(self) -> Optional[Discovered]:
        """What came of it, or None as long as that is not known."""
        return self._found

    def wait(self, budget: Budget) -> Discovered:
        """Return what came of it, asking now if nobody has.

        Waits for ``budget`` and for the limit of the asking, whichever ends first. Raises
        :class:`BudgetEnded` where the budget did, or the discovery was closed.
        """
        while self._found is None:
            budget.check()
            flight = self._flight or self._begin()
            self._watch(flight, budget)
            if flight.budget.expired and not flight.over:
                self._settle(flight)
        return self._found

    def close(self, budget: Budget) -> None:
        """End the asking, so that nothing comes of it, and join its threads within ``budget``."""
        with self._lock:
            self._closed = True
            flight = self._flight
        if flight is not None:
            self._call_off(flight)
            for thread in flight.threads:
                if thread is not threading.current_thread() and thread.is_alive():
                    thread.join(min(budget.remaining(), LONGEST_WAIT))

    # --- waiting ------------------------------------------------------------------------------

    def _begin(self) -> _Flight:
        with self._lock:
            if self._closed:
                raise BudgetEnded
            if self._flight is not None:
                return self._flight
            flight = self._flight = _Flight(Budget(self._seconds))
        try:
            for backend in self._backends:
                self._send_off(flight, backend)
        except BaseException:  # an interrupt of the host: who comes later tries again
            self._call_off(flight)
            raise
        return flight

    def _send_off(self, flight: _Flight, backend: Backend) -> None:
        context = contextvars.copy_context()
        thread = threading.Thread(
            target=context.run,
            args=(self._look_into, flight, backend),
            name=f"ahp-sync-discovery-{backend.id}",
            daemon=True,
        )
        try:
            thread.start()
        except RuntimeError:  # no thread to be had
            detail = "there was no thread to ask on"
            self._land(flight, backend, ConfigurationDiagnostic(backend.id, UNAVAILABLE, detail))
        else:
            flight.threads.append(thread)

    def _watch(self, flight: _Flight, budget: Budget) -> None:
        """Wait until the flight is over, or it or ``budget`` has ended."""
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
            flight.waiting.pop(me, None)

    # --- the end of it ------------------------------------------------------------------------

    def _land(self, flight: _Flight, backend: Backend, result: _Result) -> None:
        with self._lock:
            if flight.over:
                return  # too late
            flight.results[backend.id] = result
            complete = len(flight.results) == len(self._backends)
        if complete:
            self._settle(flight)

    def _settle(self, flight: _Flight) -> None:
        """Publish what came of it; who has not answered by now has not answered."""
        with self._lock:
            if flight.over:
                return
            flight.over = True
            for backend in self._backends:
                flight.results.setdefault(backend.id, self._unanswered(flight, backend))
            self._found = found = self._summary(flight.results)
            waiting = list(flight.waiting.values())
        for wake in waiting:
            wake()
        flight.budget.abort()
        for diagnostic in found.diagnostics:
            required = diagnostic.backend in found.stand_ins
            _log.log(
                logging.ERROR if required else logging.WARNING,
                "backend %s is %s: %s: %s",
                diagnostic.backend,
                "required, and stands for a denial" if required else "not used",
                diagnostic.reason,
                diagnostic.detail,
            )

    def _call_off(self, flight: _Flight) -> None:
        """End a flight without a result: nobody is skipped for it, and the next call asks again."""
        with self._lock:
            if flight.over:
                return
            flight.over = True
            self._flight = None
            waiting = list(flight.waiting.values())
        flight.budget.cancel()
        for wake in waiting:
            wake()

    def _unanswered(self, flight: _Flight, backend: Backend) -> ConfigurationDiagnostic:
        within = f"within {self._seconds:g} s"
        if backend.id in flight.approving:
            detail = f"authorize_configuration did not return {within}"
            return ConfigurationDiagnostic(backend.id, NOT_AUTHORIZED, detail)
        return ConfigurationDiagnostic(backend.id, UNAVAILABLE, f"no answer {within}")

    def _summary(self, results: Mapping[str, _Result]) -> Discovered:
        subscriptions, stand_ins, diagnostics = {}, {}, []
        for backend in self._backends:
            result = results[backend.id]
            if not isinstance(result, ConfigurationDiagnostic):
                subscriptions[backend.id] = result
                continue
            diagnostics.append(result)
            if backend.id in self._required:
                subscriptions[backend.id] = self._stand_in(backend)
                stand_ins[backend.id] = _StandIn(result)
        return Discovered(subscriptions, stand_ins, tuple(diagnostics))

    def _stand_in(self, backend: Backend) -> tuple[Subscription, ...]:
        events = tuple(self._capabilities.intercept)
        return (
            Subscription(
                backend=backend.id,
                index=STAND_IN,
                selectors=events,
                events=frozenset(events),
                mode=Mode.INTERCEPT,
                timeout_ms=max(1, int(self._seconds * 1000)),
                policy=FailurePolicy.FAIL_CLOSED,
                content=ContentSelection("omit"),
            ),
        )

    # --- one backend, on a thread of its own --------------------------------------------------

    def _look_into(self, flight: _Flight, backend: Backend) -> None:
        result: _Result
        try:
            result = self._subscriptions_of(flight, backend)
        except BaseException as error:
            if flight.budget.cancelled:
                return
            result = _diagnostic(backend, error) or self._unanswered(flight, backend)
        self._land(flight, backend, result)
        used = flight.results.get(backend.id)
        if isinstance(used, ConfigurationDiagnostic):
            self._close(backend)

    def _subscriptions_of(self, flight: _Flight, backend: Backend) -> tuple[Subscription, ...]:
        """Return what the backend subscribes to, as this host serves it."""
        configuration = _ask(self._transports[backend.id], flight.budget)
        self._approve(flight, backend, configuration)
        flight.budget.check()
        return self._applicable(backend, configuration["subscriptions"])

    def _approve(self, flight: _Flight, backend: Backend, configuration: dict[str, Any]) -> None:
        authorize = self._authorize
        if authorize is None:
            if any("upload" in one for one in configuration["subscriptions"]):
                raise _Skipped(
                    NOT_AUTHORIZED, "it asks for uploads, and there is no authorize_configuration"
                )
            return
        flight.approving.add(backend.id)
        try:
            answer = authorize(backend.id, copy.deepcopy(configuration))
        except BaseException as error:
            name = type(error).__name__
            _log.exception("authorize_configuration failed on backend %s", backend.id)
            raise _Skipped(NOT_AUTHORIZED, f"authorize_configuration raised {name}") from None
        if answer is not True:
            raise _Skipped(NOT_AUTHORIZED, "authorize_configuration did not return True")

    def _applicable(
        self, backend: Backend, raw: Sequence[Mapping[str, Any]]
    ) -> tuple[Subscription, ...]:
        """Narrow the events to the host's, drop who is left without, take the rest unchanged.

        What the host can't serve unchanged it does not serve at all: an answer is adopted whole,
        or the backend is not used.
        """
        kept = []
        for subscription in read_subscriptions(backend.id, raw):
            subscription = narrowed(subscription, self._capabilities)
            if not subscription.events:
                continue
            place = f"subscriptions[{subscription.index}]"
            if "upload" in raw[subscription.index]:
                raise _Skipped(
                    NOT_APPLICABLE,
                    f"{place} asks for uploads, which this version of ahp_sync can't do yet",
                )
            for (member, *_), found, wanted in policy_problems(subscription, self._capabilities):
                raise _Skipped(NOT_APPLICABLE, f"{place}.{member} is {found}, not {wanted}")
            kept.append(subscription)
        if not kept:
            raise _Skipped(NOT_APPLICABLE, "it subscribes to nothing that this host declares")
        return tuple(kept)

    def _close(self, backend: Backend) -> None:
        transport = self._transports[backend.id]
        if any(transport is one for one in self._owned):
            try:
                transport.close(Budget(_CLOSING_SECONDS))
            except Exception as error:
                _log.error("a transport was not closed: %s", type(error).__name__)


class _StandIn:
    """The transport to a required backend that can't be used: all it does is fail."""

    def __init__(self, diagnostic: ConfigurationDiagnostic) -> None:
        self._diagnostic = diagnostic

    def exchange(self, message: Message, budget: Budget) -> NoReturn:
        """Fail as the discovery did."""
        diagnostic = self._diagnostic
        raise OperationalFailure(
            FailureClass.MISSING_RESULT,
            diagnostic.reason,
            f"the backend is required, but not used: {diagnostic.detail}",
        )

    def close(self, budget: Budget) -> None:
        """There is nothing to close."""


def _ask(transport: Transport, budget: Budget) -> dict[str, Any]:
    """Return the configuration that the backend answers, as it is (R-DISC-02, R-DISC-03)."""
    rpc_id = str(uuid.uuid4())
    reply = transport.exchange(configuration_request(rpc_id), budget)
    if not (isinstance(reply, Reply) and isinstance(reply.body, bytes)):
        raise OperationalFailure(FailureClass.MALFORMED, "empty", "there was no answer")
    status = reply.facts.get("http_status", 200)
    if status != 200:
        raise OperationalFailure(
            FailureClass.HTTP_STATUS, f"http_{status}", f"HTTP {status} is not 200"
        )
    try:
        if len(reply.body) > MAX_BYTES:
            raise OperationalFailure(
                FailureClass.MALFORMED, "too_large", f"the answer exceeds {MAX_BYTES} bytes"
            )
        return configuration_of(answer_body(reply.body, rpc_id, budget.check), budget.check)
    except OperationalFailure:
        if reply.on_rejected is not None:
            reply.on_rejected()
        raise


def _diagnostic(backend: Backend, error: BaseException) -> Optional[ConfigurationDiagnostic]:
    """Return what the end of a look into a backend means; None where it only took too long."""
    if isinstance(error, BudgetEnded):
        return None
    if isinstance(error, _Skipped):
        reason, detail = error.args
        return ConfigurationDiagnostic(backend.id, reason, detail)
    if isinstance(error, OperationalFailure):
        return ConfigurationDiagnostic(backend.id, UNAVAILABLE, str(error))
    # No transport should raise it. Its text may hold what a log must not.
    name = type(error).__name__
    where = "".join(traceback.format_tb(error.__traceback__))
    _log.error("unexpected %s while a backend was asked for its subscriptions\n%s", name, where)
    return ConfigurationDiagnostic(backend.id, UNAVAILABLE, f"asking failed by itself: {name}")


def _open(gate: threading.Lock) -> None:
    try:
        gate.release()
    except RuntimeError:
        pass  # somebody else was quicker
