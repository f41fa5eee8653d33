"""The interceptors of one call: asked one after another, each failure put to its own policy.

The chain ends at a denial, at a stop, at a fail-closed failure, or with the call itself; it never
ends in permission unless every interceptor was asked or failed open within its own deadline
(R-SET-01, R-SET-08, AHP-FAIL-001).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Callable, NamedTuple, Optional, Union

from ahp_sync.audit import AuditKind, EventAudit
from ahp_sync.budget import Budget, BudgetEnded
from ahp_sync.codecs import Codecs
from ahp_sync.delivery import Answer, Delivery, Progress, Question
from ahp_sync.errors import InvalidEvent
from ahp_sync.failure import (
    GENERIC_REASON,
    Failure,
    FailureClass,
    FailurePolicy,
    OperationalFailure,
)
from ahp_sync.grants import Grant
from ahp_sync.offer import offered
from ahp_sync.outcome import Decision
from ahp_sync.protocol.content import project
from ahp_sync.protocol.edits import Shown, messages_in
from ahp_sync.protocol.effects import refused
from ahp_sync.protocol.lineage import Lineage
from ahp_sync.protocol.messages import intercept_request
from ahp_sync.protocol.references import References
from ahp_sync.registration import Subscription
from ahp_sync.settlement import Permission, State, settle
from ahp_sync.transports.base import Transport

if TYPE_CHECKING:
    from ahp_sync.preparation import Uploads
    from ahp_sync.uploads import Attachment

__all__ = ["Chain", "Interception", "Route", "Settled"]


@dataclass(frozen=True)
class Route:
    """A subscription and the transport that leads to its backend."""

    subscription: Subscription
    transport: Transport

    def view(self, event: dict[str, Any]) -> dict[str, Any]:
        """Return the event as this subscription may see it (R-CON-06)."""
        subscription = self.subscription
        return project(event, subscription.content, include_native=subscription.include_native)


@dataclass(frozen=True)
class Interception:
    """What is put to the interceptors: the state before the first, and what they may do to it.

    ``request`` is the event of the elicitation whose result the event brings, where it does.
    ``attachments`` are those in the event, by local reference.
    """

    state: State
    grant: Grant
    codecs: Codecs
    lineage: Lineage
    request: Optional[Mapping[str, Any]] = None
    attachments: Mapping[str, Attachment] = field(default_factory=dict)


@dataclass
class Settled:
    """What a chain came to, and which interceptors it did not call.

    ``typed`` is what the host's codecs made of the effective input and of the candidate.
    """

    state: State
    decision: Decision = Decision.PROCEED
    reason: Optional[str] = None
    synthetic: bool = False
    failures: list[Failure] = field(default_factory=list)
    failed_open: bool = False
    uncalled: Sequence[Route] = ()
    typed: Mapping[str, Any] = field(default_factory=dict)


class _Staged(NamedTuple):
    """What an answer makes of the state, until it is published."""

    state: State
    typed: Mapping[str, Any]


class _Ended(Exception):
    """The call itself ended: cancelled or out of time. Overrides every policy."""

    def __init__(self, decision: Decision, *, called: bool = False) -> None:
        super().__init__(decision)
        self.decision = decision
        self.called = called  # whether the interceptor whose turn it was had been asked


class Chain:
    """One event's way through its interceptors.

    :param uploads: what uploads an attachment before an interceptor is asked about it.
    :param budget: the call's own budget; each interceptor gets a child of it.
    :param typed: what the host's codecs made of the values that the host brought along.
    """

    def __init__(
        self,
        interception: Interception,
        delivery: Delivery,
        uploads: Uploads,
        budget: Budget,
        audit: EventAudit,
        typed: Mapping[str, Any],
    ) -> None:
        self._interception = interception
        self._delivery = delivery
        self._uploads = uploads
        self._budget = budget
        self._audit = audit
        self._settled = Settled(interception.state, typed=typed)

    def run(self, routes: Sequence[Route]) -> Settled:
        """Ask the interceptors of ``routes`` in order and return what it came to."""
        settled = self._settled
        self._decide()
        if settled.decision is not Decision.PROCEED:
            self._skip(routes, "settled_by_host")
            return settled
        for position, route in enumerate(routes):
            try:
                self._still_wanted()
                self._ask(route)
            except _Ended as end:
                settled.decision = end.decision
                self._skip(routes[position + end.called :], _WHY[end.decision])
                return settled
            if settled.decision is not Decision.PROCEED:
                self._skip(routes[position + 1 :], "short_circuit")
                return settled
        try:
            self._still_wanted()
        except _Ended as end:
            settled.decision = end.decision
        return settled

    def _still_wanted(self) -> None:
        decision = ending(self._budget)
        if decision is not None:
            raise _Ended(decision)

    def _skip(self, routes: Sequence[Route], why: str) -> None:
        self._settled.uncalled = routes
        for route in routes:
            self._audit.write(AuditKind.NOT_CALLED, route.subscription, code=why)

    # --- one interceptor ----------------------------------------------------------------------

    def _ask(self, route: Route) -> None:
        progress, started = Progress(), time.monotonic()
        try:
            answer = self._accepted(route, progress)
        except OperationalFailure as failure:
            # A value from here on: its traceback would hold the request until it is collected.
            outcome: Union[Answer[_Staged], OperationalFailure] = failure.with_traceback(None)
        except BudgetEnded:
            outcome = progress.no_answer()
        except BaseException:  # KeyboardInterrupt above all: recorded, and passed on as it is
            self._budget.cancel()
            self._note(AuditKind.INTERRUPTED, route, progress, started, code="exception")
            raise
        else:
            outcome = answer
        ended = ending(self._budget)
        if ended is not None and self._settled.decision is Decision.PROCEED:
            kind = AuditKind.EXPIRED if ended is Decision.EXPIRED else AuditKind.INTERRUPTED
            self._note(kind, route, progress, started, code=_WHY[ended])
            raise _Ended(ended, called=True)
        if isinstance(outcome, OperationalFailure):
            self._fail(route, outcome, progress, started)
        else:
            self._note_accepted(route, outcome, progress, started)

    def _accepted(self, route: Route, progress: Progress) -> Answer[_Staged]:
        """Return the answer once it is staged and published; the deadline covers all of it.

        Uploads come before it, in their own time within the call's (R-UPL-02).
        """
        question = self._question(route)
        budget = self._budget.child(route.subscription.timeout)
        answer = self._delivery.intercept(question, budget, progress)
        if budget.ended:
            raise late()
        self._settled.state, self._settled.typed = answer.staged
        self._decide()
        return answer

    def _question(self, route: Route) -> Question[_Staged]:
        interception, state, typed = self._interception, self._settled.state, self._settled.typed
        view = route.view(state.event)
        shown = offered(interception.grant, state, view, interception.request)
        references = References(view, {})
        if interception.attachments:
            references = self._uploads.references(
                view, interception.attachments, route.subscription, self._budget
            )

        def stage(effects: tuple[dict[str, Any], ...], check: Callable[[], object]) -> _Staged:
            if interception.attachments:
                effects = references.restored(effects)
            return _stage(interception, state, typed, effects, shown, check)

        return Question(
            route.transport,
            intercept_request(
                references.view, shown.capabilities, references.state(state.advertised())
            ),
            state.event["type"],
            shown.capabilities,
            stage,
        )

    def _decide(self) -> None:
        settled, state = self._settled, self._settled.state
        if state.permission is Permission.DENY:
            settled.decision = Decision.DENY
            settled.reason = state.denial and state.denial.reason
        elif state.flow == "stop":
            settled.decision, settled.reason = Decision.STOP, state.stop

    def _fail(
        self, route: Route, failure: OperationalFailure, progress: Progress, started: float
    ) -> None:
        settled, subscription = self._settled, route.subscription
        settled.failures.append(
            Failure(
                backend=subscription.backend,
                subscription=subscription.index,
                policy=subscription.policy,
                failure_class=failure.failure_class,
                code=failure.code,
                detail=failure.detail,
                attempts=progress.attempts,
            )
        )
        kind = AuditKind.FAILED_OPEN
        if subscription.policy is FailurePolicy.FAIL_OPEN:
            settled.failed_open = True
        else:
            kind = AuditKind.SYNTHETIC_DENIAL
            settled.state = replace(settled.state, permission=Permission.DENY)
            settled.decision, settled.synthetic = Decision.DENY, True
            settled.reason = GENERIC_REASON
        self._audit.failure(kind, subscription, failure, progress.attempts, started)

    def _note_accepted(
        self, route: Route, answer: Answer[_Staged], progress: Progress, started: float
    ) -> None:
        denied = self._settled.decision is Decision.DENY
        self._note(
            AuditKind.EXPLICIT_DENIAL if denied else AuditKind.ACCEPTED,
            route,
            progress,
            started,
            facts=answer.facts,
            effects=tuple(effect["type"] for effect in answer.effects),
            reason=self._settled.reason,
            stderr=answer.stderr,
        )

    def _note(
        self,
        kind: AuditKind,
        route: Route,
        progress: Progress,
        started: float,
        **facts: Any,
    ) -> None:
        self._audit.write(
            kind, route.subscription, attempts=progress.attempts, started=started, **facts
        )


def _stage(
    interception: Interception,
    state: State,
    typed: Mapping[str, Any],
    effects: tuple[dict[str, Any], ...],
    shown: Shown,
    check: Callable[[], object],
) -> _Staged:
    """Return what an answer would make of ``state``. Runs on a worker, within the deadline."""
    staged = settle(state, effects, shown, check)
    typed = interception.codecs.decoded(state, staged, typed)
    beside = list(messages_in(effects, state.event["type"]))
    if beside or staged.event is not state.event:
        check()  # what is not accepted is not remembered
        try:
            interception.lineage.accept(staged.event, beside)
        except InvalidEvent as error:
            raise refused("invalid_edit", f"an effect breaks an identity: {error}") from None
    return _Staged(staged, typed)


_WHY = {Decision.EXPIRED: "out_of_budget", Decision.INTERRUPTED: "interrupted"}


def ending(budget: Budget) -> Optional[Decision]:
    """Return how the call ended by itself: interrupted, expired, or not (None)."""
    if budget.cancelled:
        return Decision.INTERRUPTED
    return Decision.EXPIRED if budget.expired else None


def late() -> OperationalFailure:
    """Return the failure of an answer that was there, but not accepted by the deadline."""
    return OperationalFailure(
        FailureClass.LATE_RESPONSE, "late", "the answer was complete only after the deadline"
    )
