"""Telling the observers of a settled event: side by side, bounded, whatever they answer."""

from __future__ import annotations

import time
from typing import Any, Sequence

from ahp_sync.audit import AuditKind, EventAudit
from ahp_sync.budget import Budget, BudgetEnded
from ahp_sync.chain import Route
from ahp_sync.delivery import Delivery, Notice, Progress
from ahp_sync.failure import OperationalFailure
from ahp_sync.protocol.messages import observe_notification

__all__ = ["observe"]


def observe(
    event: dict[str, Any],
    routes: Sequence[Route],
    delivery: Delivery,
    budget: Budget,
    audit: EventAudit,
) -> None:
    """Send ``event``, as settled, to every route, within ``budget`` for all of them together.

    A failure is recorded and changes nothing (R-OBS-05). Nothing is sent once the call has ended,
    by interruption (R-OBS-04) or for want of time. Raises only what interrupts the host.
    """
    if not routes:
        return
    started = time.monotonic()
    notices = [
        Notice(route.transport, observe_notification(route.view(event)), Progress())
        for route in routes
    ]
    try:
        results = delivery.observe(notices, budget)
    except BudgetEnded:  # there was no time left to begin
        results = [BudgetEnded() for _ in routes]
    for route, notice, result in zip(routes, notices, results):
        if result is not None:
            failure = (
                result
                if isinstance(result, OperationalFailure)
                else _untold(budget, notice.progress)
            )
            audit.failure(
                AuditKind.OBSERVATION_FAILED,
                route.subscription,
                failure,
                notice.progress.attempts,
                started,
            )


def _untold(budget: Budget, progress: Progress) -> OperationalFailure:
    """Return why an observer was not told, or not known to be told, before the budget ended."""
    failure = progress.no_answer()
    if budget.cancelled:
        failure.code, failure.detail = "interrupted", "the call was interrupted"
    return failure
