"""The client: one per registration, for any number of threads.

A call goes ``Client`` → ``chain`` (interceptors, policy) → ``delivery`` (one exchange, retried) →
``transports``, and comes back as an :class:`Outcome`; a :class:`Budget` goes down every step.
"""

from __future__ import annotations

import os
import weakref
from datetime import datetime
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Mapping,
    Optional,
    Sequence,
    TypedDict,
    TypeVar,
    Union,
)

from ahp_sync.audit import Auditor, AuditSink, EventAudit, LoggingSink
from ahp_sync.budget import Budget, positive_seconds
from ahp_sync.chain import Chain, Settled
from ahp_sync.errors import InvalidEvent
from ahp_sync.guard import Guard
from ahp_sync.observation import observe
from ahp_sync.outcome import Decision, Outcome
from ahp_sync.protocol import payloads, validation
from ahp_sync.protocol.events import Mode
from ahp_sync.protocol.occurrence import Harness, Origin, Session, session_object
from ahp_sync.registration import Registration, RegistrationSource
from ahp_sync.retry import RetryPolicy
from ahp_sync.retry import prepare as prepare_retries
from ahp_sync.runtime import Runtime
from ahp_sync.tls import TLSIdentity
from ahp_sync.transports.base import Transport

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["CallOptions", "Client", "EventOptions"]

F = TypeVar("F", bound=Callable[..., Any])
Json = Mapping[str, Any]


class EventOptions(TypedDict, total=False):
    """What every hook method takes besides its event's own payload; all of it may be left out.

    ``budget``: the time for the whole call; without it the limits of the subscriptions stand alone.
    ``event_id``: the event's id, made up by default. ``time``: when it happened, with a time zone;
    now by default. ``parent_event_id``: the event it follows from. ``extensions``: members by
    reverse-DNS name. ``native``: the harness's own form of the event, for the subscriptions that
    ask for it (R-EVT-01 to R-EVT-04).
    """

    budget: Optional[Budget]
    event_id: Optional[str]
    time: Optional[datetime]
    parent_event_id: Optional[str]
    extensions: Optional[Json]
    native: Any


class CallOptions(EventOptions, total=False):
    """As :class:`EventOptions`, with the session (its id or object) and the turn it happens in."""

    session: Optional[Session]
    turn: Optional[Json]


class Client:
    """Asks the registered backends before the harness acts, and tells them afterwards.

    Every hook method blocks until the call is settled, at most for its ``budget`` (if given), for
    each matching interceptor's ``timeoutMs`` and for ``observe_timeout``. Operational failures are
    never raised: they are settled by the subscription's policy and show in the outcome.

    :param registration: the path of a ``hooks.json``, a mapping of its shape, or a
        :class:`Registration`. Raises :class:`RegistrationError` with everything wrong in it.
    :param source: the absolute URI that identifies this emitter of events (R-EVT-02).
    :param harness: name and version of the agent runtime.
    :param retry: how a delivery is tried again within its own deadline; see its defaults.
    :param max_workers: how many deliveries may be under way at once, for all calls together.
    :param observe_timeout: seconds for all observers of one call together.
    :param close_timeout: seconds that :meth:`close` may take, also at interpreter exit.
    :param audit: one sink or several; by default the ``ahp_sync.audit`` logger.
    :param transports: transports of the host's own by backend id, e.g. in-process ones. They stay
        the host's: the client does not close them.
    :param stdio_processes: how many processes one stdio backend may have for concurrent calls.
    :param tls: trust and identity by backend id.
    :param proxies: proxy URLs by scheme (or ``scheme://host``), as ``requests`` takes them.
    :param trust_env: whether to take proxies from the environment; off by default.

    All may be used from several threads at once. A forked child works on with threads, connections
    and processes of its own. Use it as a context manager, or call :meth:`close`; a forgotten client
    is closed at interpreter exit. Raises :class:`TypeError` and :class:`ValueError` for arguments
    that make no sense, before anything is started.
    """

    def __init__(
        self,
        registration: RegistrationSource,
        *,
        source: str,
        harness: Harness,
        retry: Optional[RetryPolicy] = None,
        max_workers: int = 64,
        observe_timeout: float = 1.0,
        close_timeout: float = 2.0,
        audit: Union[AuditSink, Sequence[AuditSink], None] = None,
        transports: Optional[Mapping[str, Transport]] = None,
        stdio_processes: int = 1,
        tls: Optional[Mapping[str, TLSIdentity]] = None,
        proxies: Optional[Mapping[str, str]] = None,
        trust_env: bool = False,
    ) -> None:
        from ahp_sync.transports.factory import TransportFactory

        if not (retry is None or isinstance(retry, RetryPolicy)):
            raise TypeError(f"retry must be a RetryPolicy, not {type(retry).__name__}")
        # What is imported on first use is so now. A call would pay for it out of its budget, and a
        # child forked amidst an import would wait for its end for ever (F14).
        prepare_retries()
        validation.prepare()
        self._registration = Registration.load(registration)
        self._origin = Origin(source, harness)
        self._retry = RetryPolicy() if retry is None else retry
        self._max_workers = max_workers
        self._observe_timeout = positive_seconds(observe_timeout, "observe_timeout")
        self._close_timeout = positive_seconds(close_timeout, "close_timeout")
        self._auditor = Auditor(_sinks(audit))
        self._factory = TransportFactory(
            self._registration,
            injected=transports or {},
            stdio_processes=stdio_processes,
            tls=tls or {},
            proxies=proxies or {},
            trust_env=trust_env,
        )
        # By process id: a forked child finds the parent's runtime here, and makes its own.
        self._runtimes: dict[int, Runtime] = {os.getpid(): self._new_runtime()}
        self._finalizer = weakref.finalize(
            self, _close_forgotten, self._runtimes, self._close_timeout
        )

    # --- the hooks ----------------------------------------------------------------------------

    def tool_before(
        self,
        *,
        name: str,
        input: Json,
        call_id: Optional[str] = None,
        origin: str = "native",
        kind: Optional[str] = None,
        mcp: Optional[Json] = None,
        path: str = "native",
        batch: Optional[Json] = None,
        **options: Unpack[CallOptions],
    ) -> Outcome:
        """Ask whether a tool call may run, when its name and input are final (``tool.before``).

        :param name: the tool's name; ``input`` its arguments as a JSON object.
        :param call_id: the call's id, the same in :meth:`tool_after`; made up if missing.
        :param origin: native, or mcp with ``mcp``; ``path`` is how the tool is reached.
        :param options: see :class:`CallOptions`, ``session`` and ``budget`` among them.

        Returns the outcome: run with ``outcome.input`` if and only if ``outcome.may_execute``.
        Raises :class:`InvalidEvent` and :class:`ClientClosed`, both before anything is sent.
        """
        return self.dispatch(
            "tool.before",
            payloads.tool_before(
                name=name,
                input=input,
                call_id=call_id,
                origin=origin,
                kind=kind,
                mcp=mcp,
                path=path,
                batch=batch,
            ),
            **options,
        )

    def tool_after(
        self,
        *,
        name: str,
        input: Json,
        call_id: Optional[str] = None,
        outcome: str = "ok",
        output: Optional[str] = None,
        items: Optional[Sequence[Json]] = None,
        error: Optional[Json] = None,
        execution: Optional[Json] = None,
        duration_ms: Optional[float] = None,
        file_changes: Optional[Sequence[Json]] = None,
        origin: str = "native",
        kind: Optional[str] = None,
        mcp: Optional[Json] = None,
        path: str = "native",
        batch: Optional[Json] = None,
        **options: Unpack[CallOptions],
    ) -> Outcome:
        """Tell what became of a tool call (``tool.after``), once per call, denied ones too.

        :param outcome: ok, error, denied, cancelled or timeout; ``error`` (``message`` and
            ``class``) goes with error and only with it.
        :param output: the tool's text, as one message; or ``items``, a list of messages.
        :param execution: ``{"status": "executed"}`` by default, skipped by policy when denied.
        :param duration_ms: how long it ran, in milliseconds.

        Everything else, and what it returns and raises, is as in :meth:`tool_before`.
        """
        return self.dispatch(
            "tool.after",
            payloads.tool_after(
                name=name,
                input=input,
                call_id=call_id,
                origin=origin,
                kind=kind,
                mcp=mcp,
                path=path,
                batch=batch,
                outcome=outcome,
                output=output,
                items=items,
                error=error,
                execution=execution,
                duration_ms=duration_ms,
                file_changes=file_changes,
            ),
            **options,
        )

    def session_start(
        self,
        *,
        session: Session,
        trigger: str = "startup",
        permission_mode: str = "default",
        items: Sequence[Json] = (),
        resumed_from: Optional[str] = None,
        manifest: Optional[Json] = None,
        **options: Unpack[EventOptions],
    ) -> Outcome:
        """Tell that a session began (``session.start``).

        :param trigger: startup, resume, clear, compact or fork; clear and fork need
            ``resumed_from``, the id of the earlier session.
        :param items: messages that the session begins with.
        :param manifest: what the harness can do; by default what this version serves.

        Everything else, and what it returns and raises, is as in :meth:`tool_before`.
        """
        return self.dispatch(
            "session.start",
            payloads.session_start(
                trigger=trigger,
                permission_mode=permission_mode,
                items=items,
                host_manifest=manifest,
                resumed_from=resumed_from,
            ),
            session=session,
            **options,
        )

    def session_end(
        self,
        *,
        session: Session,
        outcome: str = "completed",
        reason: str = "finished",
        counters: Optional[Mapping[str, int]] = None,
        **options: Unpack[EventOptions],
    ) -> Outcome:
        """Tell that a session ended (``session.end``).

        :param outcome: completed, cancelled, error or unknown; ``reason`` says why, in words.
        :param counters: totals of the session by name, integers from 0.

        Everything else, and what it returns and raises, is as in :meth:`tool_before`.
        """
        return self.dispatch(
            "session.end",
            payloads.session_end(outcome=outcome, reason=reason, counters=counters),
            session=session,
            **options,
        )

    def dispatch(
        self,
        event_type: str,
        payload: Json,
        *,
        session: Optional[Session] = None,
        turn: Optional[Json] = None,
        parent_event_id: Optional[str] = None,
        extensions: Optional[Json] = None,
        native: Any = None,
        event_id: Optional[str] = None,
        time: Optional[datetime] = None,
        budget: Optional[Budget] = None,
    ) -> Outcome:
        """Raise an event of any type that this version serves, with its payload as JSON members.

        What it returns and raises is as in :meth:`tool_before`.
        """
        if budget is not None and not isinstance(budget, Budget):
            raise TypeError(f"budget must be a Budget, not {type(budget).__name__}")
        call = Budget.open_ended() if budget is None else budget.child()
        runtime = self._runtime()
        runtime.admit(call)
        try:
            if not isinstance(payload, Mapping):
                raise InvalidEvent("$", f"a {type(payload).__name__}", "a mapping of members")
            common = {
                "session": session_object(session),
                "turn": turn,
                "parentEventId": parent_event_id,
                "extensions": extensions,
            }
            event = self._origin.event(
                event_type,
                {**payload, **{key: value for key, value in common.items() if value is not None}},
                event_id=event_id,
                time=time,
                native=native,
            )
            return self._settle(event, runtime, call)
        finally:
            runtime.leave(call)

    def _settle(self, event: dict[str, Any], runtime: Runtime, call: Budget) -> Outcome:
        audit = EventAudit(self._auditor, event)
        interceptors = runtime.routes(Mode.INTERCEPT, event["type"])
        settled = Chain(event, runtime.delivery, call, audit).run(interceptors)
        observers = runtime.routes(Mode.OBSERVE, event["type"])
        if settled.decision not in (Decision.INTERRUPTED, Decision.EXPIRED):
            observers = [*settled.uncalled, *observers]
        budget = call.child(self._observe_timeout)
        observe(settled.state.event, observers, runtime.delivery, budget, audit)
        # An interruption overrides an approval even now; an expiry no longer changes it, since the
        # interception is complete and observation never changes what was decided.
        if settled.decision is Decision.PROCEED and call.cancelled:
            settled.decision = Decision.INTERRUPTED
        return _outcome(settled)

    # --- wrapping tools -----------------------------------------------------------------------

    def guard(
        self,
        fn: F,
        *,
        name: Optional[str] = None,
        session: Optional[Session] = None,
        seconds: Optional[float] = None,
    ) -> F:
        """Return ``fn`` wrapped so that each call is asked about, run, and told about.

        :param fn: an ordinary function whose arguments are JSON values. Of a method, guard the
            bound one (``hooks.guard(tools.bash)``): its ``self`` is no JSON value.
        :param name: the tool's name; the function's by default.
        :param seconds: the budget of each hook call; None leaves the subscriptions' limits.

        The wrapper raises :class:`ToolDenied` where the call may not run, and otherwise returns
        and raises what ``fn`` does. Raises :class:`TypeError` for a coroutine or generator
        function, whose work would happen after the wrapper returned.
        """
        guard = Guard(
            fn,
            before=self.tool_before,
            after=self.tool_after,
            name=name,
            session=session,
            seconds=seconds,
        )
        return guard.wrapper  # type: ignore[return-value]

    def tool(
        self,
        *,
        name: Optional[str] = None,
        session: Optional[Session] = None,
        seconds: Optional[float] = None,
    ) -> Callable[[F], F]:
        """Decorate a tool function, as :meth:`guard` does: ``@hooks.tool(name="Bash")``."""

        def decorate(fn: F) -> F:
            return self.guard(fn, name=name, session=session, seconds=seconds)

        return decorate

    # --- ownership ----------------------------------------------------------------------------

    def close(self, timeout: Optional[float] = None) -> None:
        """Refuse new calls, interrupt those in flight, and give everything back, in bounded time.

        :param timeout: seconds, ``close_timeout`` by default.

        Safe to repeat and from several threads. It does not wait for observers that are still being
        told: let the calls return first where that matters (R-SHUT-01).
        """
        seconds = self._close_timeout if timeout is None else positive_seconds(timeout, "timeout")
        self._runtime().close(seconds)

    @property
    def closed(self) -> bool:
        """Whether the client refuses new calls."""
        return self._runtime().closed

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self.closed else "open"
        return (
            f"<Client {self._origin.source} {state}, {len(self._registration.backends)} backends>"
        )

    def _runtime(self) -> Runtime:
        runtime = self._runtimes.get(os.getpid())
        return self._adopt() if runtime is None else runtime

    def _adopt(self) -> Runtime:
        """Begin anew in a forked child; a client closed before the fork stays closed."""
        # That of the nearest ancestor which had one; those before it were abandoned in their turn.
        inherited = list(self._runtimes.values())[-1]
        fresh = self._new_runtime()
        fresh.closed = inherited.closed
        mine = self._runtimes.setdefault(os.getpid(), fresh)
        if mine is fresh:
            inherited.abandon_after_fork()
        return mine

    def _new_runtime(self) -> Runtime:
        transports, owned = self._factory.make()
        return Runtime(
            self._registration,
            transports,
            owned,
            retry=self._retry,
            max_workers=self._max_workers,
        )


def _close_forgotten(runtimes: dict[int, Runtime], timeout: float) -> None:
    runtime = runtimes.get(os.getpid())
    if runtime is not None:
        runtime.close(timeout)


def _sinks(audit: Union[AuditSink, Sequence[AuditSink], None]) -> tuple[AuditSink, ...]:
    if audit is None:
        return (LoggingSink(),)
    sinks = tuple(audit) if isinstance(audit, (list, tuple)) else (audit,)
    for sink in sinks:
        if isinstance(sink, type) or not callable(getattr(sink, "write", None)):
            raise TypeError(f"an audit sink needs a write(record) method; {sink!r} has none")
    return sinks


def _outcome(settled: Settled) -> Outcome:
    reason = settled.reason
    if settled.decision is Decision.INTERRUPTED:
        reason = "The hook call was interrupted."
    elif settled.decision is Decision.EXPIRED:
        reason = "The hook call ran out of time."
    return Outcome(
        decision=settled.decision,
        event=settled.state.event,
        reason=reason,
        synthetic=settled.synthetic,
        failures=tuple(settled.failures),
        failed_open=settled.failed_open,
    )
