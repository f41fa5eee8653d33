"""The client: one per registration, for any number of threads.

A call goes ``Client`` → ``chain`` (interceptors, policy) → ``delivery`` (one exchange, retried) →
``transports``, and comes back as an :class:`Outcome`; a :class:`Budget` goes down every step.
"""

from __future__ import annotations

import functools
import os
import weakref
from datetime import datetime
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Collection,
    Mapping,
    Optional,
    Sequence,
    TypeVar,
    Union,
)

from ahp_sync.approval import HostCallback, HostPolicy
from ahp_sync.audit import Auditor, AuditSink, LoggingSink
from ahp_sync.auth.oauth import OAuthPolicy
from ahp_sync.budget import Budget, positive_seconds
from ahp_sync.call import Call, begin
from ahp_sync.capabilities import Capabilities
from ahp_sync.chain import Interception
from ahp_sync.codecs import Codec, Codecs
from ahp_sync.discovery import AuthorizeConfiguration, ConfigurationDiagnostic, required_backends
from ahp_sync.errors import InvalidEvent
from ahp_sync.grants import Grant
from ahp_sync.guard import Guard
from ahp_sync.hooks import Hooks
from ahp_sync.outcome import Outcome
from ahp_sync.protocol import validation
from ahp_sync.protocol.occurrence import Harness, Origin, Session, session_object
from ahp_sync.protocol.values import plain
from ahp_sync.registration import Registration, RegistrationSource
from ahp_sync.registration_credentials import check_credentials
from ahp_sync.retry import RetryPolicy
from ahp_sync.retry import prepare as prepare_retries
from ahp_sync.runtime import Runtime
from ahp_sync.settlement import HostState
from ahp_sync.tls import TLSIdentity
from ahp_sync.transports.base import Transport
from ahp_sync.uploads import Attachment
from ahp_sync.workers import DeliveryExecutor

if TYPE_CHECKING:
    from ahp_sync.auth.resolvers import TokenSource

__all__ = ["Client"]

F = TypeVar("F", bound=Callable[..., Any])
Json = Mapping[str, Any]


class Client(Hooks):
    """Asks the registered backends before the harness acts, and tells them afterwards.

    Every hook method blocks until the call is settled, at most for its ``budget`` (if given), for
    each matching interceptor's ``timeoutMs`` and for ``observe_timeout``; the first one also for
    the 5 seconds in which backends without subscriptions are asked for them, unless ``with`` has
    done that. Operational failures are never raised: they are settled by the subscription's policy
    and show in the outcome.

    :param registration: the path of a ``hooks.json``, a mapping of its shape, or a
        :class:`Registration`. Raises :class:`RegistrationError` with everything wrong in it.
    :param source: the absolute URI that identifies this emitter of events (R-EVT-02).
    :param harness: name and version of the agent runtime.
    :param capabilities: what the host can do with an answer, and at which events; by default tool
        calls can be denied, and everything is observed.
    :param authorize: the host's access policy, and ``approve`` its prompt; both are asked after the
        backends and within the call's budget, on another thread. See :class:`HostPolicy`. A call
        without a budget waits for them, and for the codecs, until it is cancelled or closed.
    :param authorize_configuration: ``authorize_configuration(backend_id, configuration) -> bool``
        is shown the whole answer of each backend whose subscriptions the registration leaves to it,
        with all that it wants to see (native events, bodies, managed scope), before any of it is
        used. Anything but True leaves the backend out. It runs on another thread, within the 5
        seconds that the asking may take, and must not raise events of this client itself.
    :param require_configuration: the ids of such backends that the host won't do without, or True
        for all of them. One that is left out decides nothing, as if it said yes to everything; see
        :attr:`configuration_diagnostics`. While a required one is, every event that backends may
        decide about is denied instead, as by a fail-closed failure (T-12). A backend is asked once
        in a process: another try takes another client.
    :param retry: how a delivery is tried again within its own deadline; see its defaults.
    :param max_workers: how many deliveries may be under way at once, for all calls together.
    :param observe_timeout: seconds for all observers of one call together.
    :param close_timeout: seconds that :meth:`close` may take, also at interpreter exit.
    :param audit: one sink or several; by default the ``ahp_sync.audit`` logger.
    :param transports: transports of the host's own by backend id, e.g. in-process ones. They stay
        the host's: the client does not close them.
    :param stdio_processes: how many processes one stdio backend may have for concurrent calls.
    :param tls: trust and identity by backend id, or by the origin of an authorization server or an
        upload endpoint (``https://login.example.com``). A backend's upload endpoints share its
        identity, and its authorization servers whom it trusts, unless they have one of their own.
    :param tokens: finds the secrets that the registration refers to (``tokenRef``, ``valueRef``,
        ``clientSecretRef``): a function of the reference, an object with ``resolve(ref, budget)``,
        or a mapping of references to such. It runs on another thread, in the context of the call,
        within the deadline of the delivery; see :class:`TokenFile`, :class:`TokenCommand` and
        :class:`TokenKeyring`.
    :param oauth: which authorization servers are trusted after a 401, and how a user is asked.
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
        capabilities: Optional[Capabilities] = None,
        authorize: Optional[HostCallback] = None,
        approve: Optional[HostCallback] = None,
        authorize_configuration: Optional[AuthorizeConfiguration] = None,
        require_configuration: Union[bool, Collection[str]] = False,
        retry: Optional[RetryPolicy] = None,
        max_workers: int = 64,
        observe_timeout: float = 1.0,
        close_timeout: float = 2.0,
        audit: Union[AuditSink, Sequence[AuditSink], None] = None,
        transports: Optional[Mapping[str, Transport]] = None,
        stdio_processes: int = 1,
        tls: Optional[Mapping[str, TLSIdentity]] = None,
        tokens: Optional[TokenSource] = None,
        oauth: Optional[OAuthPolicy] = None,
        proxies: Optional[Mapping[str, str]] = None,
        trust_env: bool = False,
    ) -> None:
        from ahp_sync.transports.factory import TransportFactory

        if not (retry is None or isinstance(retry, RetryPolicy)):
            raise TypeError(f"retry must be a RetryPolicy, not {type(retry).__name__}")
        if not (capabilities is None or isinstance(capabilities, Capabilities)):
            raise TypeError(f"capabilities must be Capabilities, not {type(capabilities).__name__}")
        if not (authorize_configuration is None or callable(authorize_configuration)):
            raise TypeError("authorize_configuration must be callable")
        if not (oauth is None or isinstance(oauth, OAuthPolicy)):
            raise TypeError(f"oauth must be an OAuthPolicy, not {type(oauth).__name__}")
        # What is imported on first use is so now. A call would pay for it out of its budget, and a
        # child forked amidst an import would wait for its end for ever (F14).
        prepare_retries()
        validation.prepare()
        self._capabilities = Capabilities() if capabilities is None else capabilities
        self._registration = Registration.load(registration).for_host(self._capabilities)
        self._policy = HostPolicy(authorize, approve)
        self._authorize_configuration = authorize_configuration
        self._required = required_backends(require_configuration, self._registration)
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
            tokens=tokens,
            oauth=oauth,
            max_workers=max_workers,
        )
        check_credentials(self._registration, tokens, oauth, transports or {})
        # By process id: a forked child finds the parent's runtime here, and makes its own.
        self._runtimes: dict[int, Runtime] = {os.getpid(): self._new_runtime()}
        self._finalizer = weakref.finalize(
            self, _close_forgotten, self._runtimes, self._close_timeout
        )

    # --- the hooks: one method for each event in ``hooks/``, all of which come here ---------------

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
        capabilities: Optional[Grant] = None,
        state: Optional[HostState] = None,
        input_codec: Optional[Codec] = None,
        result_codec: Optional[Codec] = None,
        request: Optional[Json] = None,
        synthesized: Optional[bool] = None,
    ) -> Outcome:
        """Raise an event of any type that the capabilities declare, its payload as JSON members.

        :param payload: the members of the event; see the payload types of :mod:`ahp_sync.payloads`.
        :param capabilities: what this call grants, if less than was declared (R-CAP-01).
        :param state: what the host itself has settled about this occurrence (R-CAP-05).
        :param input_codec: makes the host's own value of the tool input, ``outcome.typed_input``;
            an answer whose edit it refuses, by raising, is refused. ``result_codec``: likewise of a
            supplied result.
        :param request: the event of the elicitation whose result this event brings (R-ELI-04).

        The other options are those of :class:`EventOptions`; what it returns and raises is as in
        :meth:`tool_before`.
        """
        if budget is not None and not isinstance(budget, Budget):
            raise TypeError(f"budget must be a Budget, not {type(budget).__name__}")
        if not (request is None or isinstance(request, Mapping)):
            raise TypeError(f"request must be an event, not {type(request).__name__}")
        codecs = Codecs(input_codec, result_codec)
        call = Budget.open_ended() if budget is None else budget.child()
        runtime = self._runtime()
        runtime.admit(call)
        brought: list[Attachment] = []
        attachments: Mapping[str, Attachment] = {}
        try:
            if not isinstance(payload, Mapping):
                raise InvalidEvent("$", f"a {type(payload).__name__}", "a mapping of members")
            if event_type == "session.start":
                payload = {"manifest": self.manifest(), **payload}
            common = {
                "session": session_object(session),
                "turn": turn,
                "parentEventId": parent_event_id,
                "extensions": extensions,
                "synthesized": synthesized,
            }
            request = None if request is None else plain(request, "request")
            event = self._origin.event(
                event_type,
                {**payload, **{key: value for key, value in common.items() if value is not None}},
                event_id=event_id,
                time=time,
                native=native,
                request=request,
                wanted=lambda: not call.ended,
                adapt=functools.partial(_part, brought),
            )
            if event_type not in self._capabilities.observed:
                raise InvalidEvent("$.type", repr(event_type), "an event that was declared")
            grant = self._grant(event, capabilities)
            opening = begin(event, state, grant)
            if not call.ended:  # or nothing will be sent, and not all of it may have been checked
                runtime.lineage.accept(event)
            attachments = runtime.uploads.attachments(event, brought)
            for attachment in attachments.values():
                attachment.retain()
            interception = Interception(
                opening,
                grant or Grant(),
                codecs,
                runtime.lineage,
                request,
                attachments,
            )
            return self._call(runtime, call).settle(interception, asks=grant is not None)
        finally:
            runtime.leave(call)
            for attachment in attachments.values():
                attachment.release()

    def _grant(self, event: Json, narrowed: Optional[Grant]) -> Optional[Grant]:
        """Return what this call grants, or None where nobody may decide about the event."""
        count = event.get("continuationCount")
        try:
            return self._capabilities.granted(event["type"], narrowed, count)
        except ValueError as error:
            raise InvalidEvent("capabilities", "what was not declared", str(error)) from None

    def _call(self, runtime: Runtime, budget: Budget) -> Call:
        return Call(
            runtime,
            budget,
            auditor=self._auditor,
            policy=self._policy,
            origin=self._origin,
            observe_timeout=self._observe_timeout,
            tells_failures="hook.failure" in self._capabilities.observed,
        )

    # --- wrapping tools -----------------------------------------------------------------------

    def guard(
        self,
        fn: F,
        *,
        name: Optional[str] = None,
        session: Optional[Session] = None,
        seconds: Optional[float] = None,
        on_outcome: Optional[Callable[[Outcome], object]] = None,
    ) -> F:
        """Return ``fn`` wrapped so that each call is asked about, run, and told about.

        :param fn: an ordinary function whose arguments are JSON values. Of a method, guard the
            bound one (``hooks.guard(tools.bash)``): its ``self`` is no JSON value. It is given
            copies of plain lists and dictionaries, as they were when the call was asked about.
        :param name: the tool's name; the function's by default.
        :param seconds: the budget of each hook call; None leaves the subscriptions' limits.
        :param on_outcome: is given the outcome of each hook call, before the wrapper goes on.
            Without it backends are offered only what the wrapper sees to itself: no messages, no
            injections, no flow once the tool has run.

        The wrapper raises :class:`ToolDenied` where the call may not run. Otherwise it returns the
        supplied result, or runs ``fn`` with the effective input and returns and raises what that
        does; a returned text is the one that the backends left. Where they have a say in outputs
        (``tool.after`` is declared for interception) one that they could not be asked about is not
        given out: the wrapper raises then, too. Raises :class:`TypeError` for a coroutine or
        generator function, whose work would happen after the wrapper returned.
        """
        guard = Guard(
            fn,
            before=self.tool_before,
            after=self.tool_after,
            grants=self._capabilities.intercept,
            name=name,
            session=session,
            seconds=seconds,
            on_outcome=on_outcome,
        )
        return guard.wrapper  # type: ignore[return-value]

    def tool(
        self,
        *,
        name: Optional[str] = None,
        session: Optional[Session] = None,
        seconds: Optional[float] = None,
        on_outcome: Optional[Callable[[Outcome], object]] = None,
    ) -> Callable[[F], F]:
        """Decorate a tool function, as :meth:`guard` does: ``@hooks.tool(name="Bash")``."""

        def decorate(fn: F) -> F:
            return self.guard(
                fn, name=name, session=session, seconds=seconds, on_outcome=on_outcome
            )

        return decorate

    def manifest(self) -> dict[str, Any]:
        """Return what this harness can do, for a host that serves ``hooks/capabilities``.

        It is derived from the capabilities, and goes out with every ``session.start`` (R-CAP-06).
        """
        return self._capabilities.manifest()

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

    @property
    def configuration_diagnostics(self) -> tuple[ConfigurationDiagnostic, ...]:
        """Why backends that were asked for their subscriptions are not used; one entry for each.

        Empty as long as they are being asked, which the first call does, or ``with`` (R-DISC-06).
        """
        return self._runtime().configuration_diagnostics

    def __enter__(self) -> Client:
        """Ask the backends that have to be asked for their subscriptions, for 5 seconds at most."""
        try:
            self._runtime().discover_early()
        except BaseException:  # there will be no __exit__
            self.close()
            raise
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
        executor = DeliveryExecutor(self._max_workers)
        transports, owned, uploads = self._factory.make(executor)
        return Runtime(
            self._registration,
            transports,
            owned,
            executor=executor,
            uploads=uploads,
            retry=self._retry,
            max_workers=self._max_workers,
            capabilities=self._capabilities,
            authorize_configuration=self._authorize_configuration,
            required=self._required,
        )


def _part(brought: list[Attachment], value: object) -> Optional[Json]:
    """Return the part that stands for an attachment of the host, which is noted."""
    if not isinstance(value, Attachment):
        return None
    brought.append(value)
    return value.part()


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
