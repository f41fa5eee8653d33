"""Telling the observers of settled events: side by side, bounded, whatever they answer."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ahp_sync.audit import AuditKind, EventAudit
from ahp_sync.budget import Budget, BudgetEnded
from ahp_sync.chain import Route
from ahp_sync.delivery import Delivery, Notice, Progress
from ahp_sync.failure import Failure, OperationalFailure
from ahp_sync.protocol.messages import observe_notification

__all__ = ["Telling", "failure_payloads", "observe"]


@dataclass(frozen=True)
class Telling:
    """An event, as settled, for one observer."""

    event: dict[str, Any]
    route: Route
    audit: EventAudit


def observe(tellings: Sequence[Telling], delivery: Delivery, budget: Budget) -> None:
    """Tell all of them, within ``budget`` for all together.

    A failure is recorded and changes nothing (R-OBS-05). Nothing is sent once the call has ended,
    by interruption (R-OBS-04) or for want of time. Raises only what interrupts the host.
    """
    if not tellings:
        return
    started = time.monotonic()
    progress = [Progress() for _ in tellings]
    try:
        budget.check()  # what won't be sent is not worth a view, nor need it be fit for one
        notices = [_notice(one, its) for one, its in zip(tellings, progress)]
        results = delivery.observe(notices, budget)
    except BudgetEnded:  # there was no time left to begin
        results = [BudgetEnded() for _ in tellings]
    for one, its, result in zip(tellings, progress, results):
        if result is not None:
            failure = result if isinstance(result, OperationalFailure) else _untold(budget, its)
            one.audit.failure(
                AuditKind.OBSERVATION_FAILED,
                one.route.subscription,
                failure,
                its.attempts,
                started,
            )


def _notice(telling: Telling, progress: Progress) -> Notice:
    route = telling.route
    return Notice(route.transport, observe_notification(route.view(telling.event)), progress)


def failure_payloads(failures: Iterable[Failure]) -> Iterable[tuple[Failure, dict[str, Any]]]:
    """Yield each interceptor's failure with the payload of its ``hook.failure`` event (R-FAIL-05).

    The reason is our own word for it, the class and the code; nothing of the backend is in it.
    """
    for failure in failures:
        if failure.policy is not None:
            reason = f"{failure.failure_class.value}/{failure.code}"
            yield (
                failure,
                {
                    "failure": {
                        "backendId": failure.backend,
                        "reason": reason,
                        "policy": failure.policy.value,
                    }
                },
            )


def _untold(budget: Budget, progress: Progress) -> OperationalFailure:
    """Return why an observer was not told, or not known to be told, before the budget ended."""
    failure = progress.no_answer()
    if budget.cancelled:
        failure.code, failure.detail = "interrupted", "the call was interrupted"
    return failure
