"""One hook call from its checked event to its outcome: interceptors, the host's say, observers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Mapping, Optional, TypeVar

from ahp_sync.approval import HostPolicy
from ahp_sync.audit import Auditor, EventAudit
from ahp_sync.budget import Budget, BudgetEnded
from ahp_sync.chain import Chain, Interception, Settled, ending
from ahp_sync.errors import InvalidEvent
from ahp_sync.failure import OperationalFailure
from ahp_sync.grants import Grant
from ahp_sync.observation import (
    Telling,
    failure_payloads,
    observe,
    shows_content,
    tellings,
    with_content,
)
from ahp_sync.outcome import Decision, Outcome
from ahp_sync.protocol.events import Mode
from ahp_sync.protocol.occurrence import Origin
from ahp_sync.protocol.validation import state_problem
from ahp_sync.protocol.values import plain
from ahp_sync.runtime import Runtime
from ahp_sync.settlement import HostState, State

if TYPE_CHECKING:
    from ahp_sync.uploads import Attachment

__all__ = ["Call", "begin"]

T = TypeVar("T")

# The level that ``params.state`` stands on in a message.
_STATE_LEVEL = 3

_OVER = (Decision.INTERRUPTED, Decision.EXPIRED)
_FINAL = (*_OVER, Decision.DENY, Decision.STOP)

# What the model is told where no backend said anything.
_REASONS = {
    Decision.INTERRUPTED: "The hook call was interrupted.",
    Decision.EXPIRED: "The hook call ran out of time.",
    Decision.ASK: "The user has to approve this first.",
    Decision.DENY: "The host's own policy does not permit this.",
}


def begin(event: dict[str, Any], host: Optional[HostState], grant: Optional[Grant]) -> State:
    """Return the state of an event before anybody is asked about it.

    Raises :class:`InvalidEvent` for a state of the host's own that the protocol does not know.
    """
    remaining = None
    if grant is not None and grant.flow is not None and "continue" in grant.flow.operations:
        remaining = grant.flow.remaining
    if host is None:
        return State(event, remaining=remaining)
    if not isinstance(host, HostState):
        raise TypeError(f"state must be a HostState, not {type(host).__name__}")
    state = plain(host.to_json(), "state", _STATE_LEVEL)
    problem = state_problem(event["type"], state)
    if problem is not None:
        raise InvalidEvent(f"state{problem.path[1:]}", "another value", problem.wanted)
    return State.begin(event, state, remaining)


class Call:
    """Settles one event within ``budget``; what it needs of the client is handed to it.

    :param tells_failures: whether the host declares ``hook.failure``.
    """

    def __init__(
        self,
        runtime: Runtime,
        budget: Budget,
        *,
        auditor: Auditor,
        policy: HostPolicy,
        origin: Origin,
        observe_timeout: float,
        tells_failures: bool,
    ) -> None:
        self._runtime = runtime
        self._budget = budget
        self._auditor = auditor
        self._policy = policy
        self._origin = origin
        self._observe_timeout = observe_timeout
        self._tells_failures = tells_failures

    def settle(self, interception: Interception, *, asks: bool) -> Outcome:
        """Ask, decide, tell, and return the outcome. ``asks``: whether anybody may decide at all.

        Raises :class:`InvalidEvent` where a codec of the host refuses the host's own values.
        """
        event = interception.state.event
        audit = EventAudit(self._auditor, event)
        self._runtime.discover(self._budget)  # if the budget ends first, the chain notices
        typed = self._brought(interception)
        routes = self._runtime.routes(Mode.INTERCEPT, event["type"]) if asks else ()
        runtime = self._runtime
        chain = Chain(interception, runtime.delivery, runtime.uploads, self._budget, audit, typed)
        settled = chain.run(routes)
        if asks and settled.decision is Decision.PROCEED:
            self._ask_the_host(settled, audit)
        self._tell(settled, audit, interception.attachments)
        # An interruption overrides an approval even now; an expiry no longer changes it, since the
        # interception is complete and observation never changes what was decided.
        if settled.decision not in _FINAL and self._budget.cancelled:
            settled.decision = Decision.INTERRUPTED
        return _outcome(settled, interception.attachments)

    def _brought(self, interception: Interception) -> dict[str, Any]:
        if not interception.codecs:
            return {}
        try:
            return self._host(lambda: interception.codecs.brought(interception.state))
        except (BudgetEnded, OperationalFailure):  # no time was left for it, or no worker
            self._give_up()
            return {}

    def _host(self, callback: Callable[[], T]) -> T:
        return self._runtime.delivery.host(callback, self._budget)

    def _ask_the_host(self, settled: Settled, audit: EventAudit) -> None:
        try:
            settled.decision = self._policy.decide(settled.state, self._host)
        except BudgetEnded:
            self._give_up()
        # Whatever was answered, the call may have ended meanwhile (R-ADM-04).
        ended = ending(self._budget)
        if ended is not None:
            settled.decision = ended
        if settled.decision is Decision.DENY:
            audit.host_denial()

    def _give_up(self) -> None:
        # What is not complete must not be taken for permitted, whyever it is not.
        if ending(self._budget) is None:
            self._budget.cancel()

    def _tell(
        self, settled: Settled, audit: EventAudit, attachments: Mapping[str, Attachment]
    ) -> None:
        event = settled.state.event
        routes = self._runtime.routes(Mode.OBSERVE, event["type"])
        if settled.decision not in _OVER:
            routes = [*settled.uncalled, *routes]
        told = tellings(event, routes, audit)
        if self._tells_failures and settled.failures:
            told += self._failures(settled)
        runtime, budget = self._runtime, self._budget
        waits: list[Telling] = []
        if attachments:
            waits = [one for one in told if shows_content(one)]
            told = [one for one in told if not shows_content(one)]
        observe(told, runtime.delivery, budget.child(self._observe_timeout))
        if waits:  # nobody else has to wait for what they are to see
            ready = with_content(waits, runtime.delivery, runtime.uploads, attachments, budget)
            observe(ready, runtime.delivery, budget.child(self._observe_timeout))

    def _failures(self, settled: Settled) -> list[Telling]:
        """Return the ``hook.failure`` events, for everybody but the backend that failed."""
        routes = self._runtime.routes(Mode.OBSERVE, "hook.failure")
        if not routes:
            return []
        parent = settled.state.event
        told: list[Telling] = []
        common = {"parentEventId": parent["id"]}
        if "session" in parent:
            common["session"] = parent["session"]
        for payload in failure_payloads(settled.failures):
            event = self._origin.event("hook.failure", {**payload, **common})
            told += tellings(event, routes, EventAudit(self._auditor, event))
        return told


def _outcome(settled: Settled, attachments: Mapping[str, Attachment]) -> Outcome:
    state, decision = settled.state, settled.decision
    reason = settled.reason
    if reason is None or decision in _OVER:
        reason = _REASONS.get(decision)
    return Outcome(
        decision=decision,
        event=state.event,
        reason=reason,
        synthetic=settled.synthetic and decision is Decision.DENY,
        permission=state.permission.value,
        candidate=state.candidate,
        denial=state.denial,
        messages=state.messages,
        injections=state.injections,
        flow=state.flow or "none",
        instructions=state.instructions or (),
        remaining_continuations=state.remaining,
        typed_input=settled.typed.get("input"),
        typed_result=settled.typed.get("result"),
        failures=tuple(settled.failures),
        failed_open=settled.failed_open,
        attachments=attachments,
    )
