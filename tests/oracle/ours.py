"""What our client makes of a case, over transports in this process: all but the sockets."""

from __future__ import annotations

import json
from typing import Any, Optional

from conformance.from_wire import grant, occurrence

from ahp_sync import (
    Candidate,
    Capabilities,
    Client,
    Harness,
    HostState,
    InvalidEvent,
    RetryPolicy,
)
from ahp_sync.budget import Budget
from ahp_sync.transports.base import Message, Reply
from oracle.cases import Case
from oracle.verdicts import Sent, Verdict, plain

__all__ = ["ours"]

_NO_RETRY = RetryPolicy(max_attempts=1)


class _Backend:
    """Answers one interception after another, and keeps what it was sent."""

    def __init__(self, backend: str, answers: list[bytes], sent: list[Sent]) -> None:
        self._backend = backend
        self._answers = answers
        self._sent = sent
        self._asked = 0

    def exchange(self, message: Message, budget: Budget) -> Optional[Reply]:
        """Answer, if it is a question."""
        received = json.loads(message.body)
        self._sent.append(Sent(self._backend, received))
        if message.rpc_id is None:
            return None
        self._asked += 1
        return Reply(self._answers[self._asked - 1])

    def close(self, budget: Budget) -> None:
        """Nothing is open."""


def ours(case: Case) -> Verdict:
    """Return what our client makes of ``case``."""
    sent: list[Sent] = []
    transports = {
        backend: _Backend(
            backend, [one.answer.body() for one in subscriptions if one.answer is not None], sent
        )
        for backend, subscriptions in case.backends
    }
    event_type, payload, options = occurrence(case.whole_event)
    if case.narrowed:
        options["capabilities"] = grant(case.capabilities, event_type)
    with Client(
        case.registration(),
        source=case.whole_event["source"],
        harness=Harness(**case.whole_event["harness"]),
        capabilities=Capabilities(
            intercept={event_type: grant(case.declared, event_type)}, observe=[event_type]
        ),
        transports=transports,
        retry=_NO_RETRY,
        observe_timeout=30.0,
        audit=[],
    ) as client:
        try:
            outcome = client.dispatch(
                event_type,
                payload,
                state=_state(case.state),
                request=case.request_event,
                **options,
            )
        except InvalidEvent as error:
            return Verdict(host_error=f"InvalidEvent: {error}", sent=sent)
    return _verdict(outcome, sent)


def _state(block: Any) -> Optional[HostState]:
    """Return the host's own state for ``params.state``, whatever it holds."""
    if block is None:
        return None
    candidate = block["candidate"]
    if isinstance(candidate, dict) and "value" in candidate:
        candidate = Candidate(candidate["value"], candidate.get("provenance"))
    return HostState(**{**block, "candidate": candidate})


def _verdict(outcome: Any, sent: list[Sent]) -> Verdict:
    candidate = outcome.candidate
    return Verdict(
        event=plain(outcome.event),
        permission=outcome.permission,
        candidate=None if candidate is None else plain(candidate.to_json()),
        flow=outcome.flow,
        instructions=list(outcome.instructions),
        injections=plain(list(outcome.injections)),
        messages=list(outcome.messages),
        remaining=outcome.remaining_continuations,
        refused=[(one.backend, one.subscription) for one in outcome.failures],
        synthetic=outcome.synthetic,
        decision=outcome.decision.value,
        sent=sent,
        details=[f"{one.failure_class.value}/{one.code}: {one.detail}" for one in outcome.failures],
    )
