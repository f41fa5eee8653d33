"""Telling the observers of settled events: side by side, bounded, whatever they answer."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Callable, Mapping, Optional

from ahp_sync.audit import AuditKind, EventAudit
from ahp_sync.budget import Budget, BudgetEnded
from ahp_sync.chain import Route
from ahp_sync.delivery import Delivery, Notice, Progress
from ahp_sync.failure import Failure, OperationalFailure
from ahp_sync.protocol.messages import observe_notification
from ahp_sync.protocol.references import local_references, with_gaps

if TYPE_CHECKING:
    from ahp_sync.preparation import Uploads
    from ahp_sync.uploads import Attachment

__all__ = [
    "Telling",
    "failure_payloads",
    "observe",
    "shows_content",
    "tellings",
    "with_content",
]


@dataclass(frozen=True)
class Telling:
    """An event, as settled, for one observer."""

    event: dict[str, Any]
    route: Route
    audit: EventAudit
    #: What is sent instead of the subscription's plain view, where attachments were uploaded.
    view: Optional[dict[str, Any]] = None


def tellings(event: dict[str, Any], routes: Iterable[Route], audit: EventAudit) -> list[Telling]:
    """Return who is to be told of an event: all ``routes``, but of a failure not who failed.

    Telling of it must not depend on reaching the backend that it is about (R-FAIL-05).
    """
    failed = event["failure"]["backendId"] if event["type"] == "hook.failure" else None
    return [Telling(event, one, audit) for one in routes if one.subscription.backend != failed]


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
            _record(one, failure, its.attempts, started)


def _notice(telling: Telling, progress: Progress) -> Notice:
    route, view = telling.route, telling.view
    if view is None:
        view = route.view(telling.event)
    return Notice(route.transport, observe_notification(view), progress)


def shows_content(telling: Telling) -> bool:
    """Return whether an observer is to see an attachment, which takes time."""
    return bool(local_references(telling.route.view(telling.event)))


def with_content(
    tellings: Sequence[Telling],
    delivery: Delivery,
    uploads: Uploads,
    attachments: Mapping[str, Attachment],
    budget: Budget,
) -> list[Telling]:
    """Upload what the observers are to see, side by side, each in its own time within ``budget``.

    Where that fails, it is recorded, and the observer is told with a gap instead (R-CON-07).
    Returns what is left to be told; nothing where ``budget`` ended.
    """
    views = [one.route.view(one.event) for one in tellings]

    def uploading(view: dict[str, Any], one: Telling) -> Callable[[], dict[str, Any]]:
        subscription = one.route.subscription
        return lambda: uploads.references(view, attachments, subscription, budget).view

    started = time.monotonic()
    works = [uploading(view, one) for view, one in zip(views, tellings)]
    told = []
    try:
        results = delivery.together(works, budget)
    except BudgetEnded:
        results = [BudgetEnded() for _ in works]
    for one, view, result in zip(tellings, views, results):
        if isinstance(result, BudgetEnded):
            failure = _untold(budget, Progress())
            _record(one, failure, 0, started)
            continue
        if isinstance(result, OperationalFailure):
            _record(one, result, 0, started)
            result = with_gaps(view, attachments, f"{result.failure_class.value}/{result.code}")
        told.append(replace(one, view=result))
    return told


def _record(telling: Telling, failure: OperationalFailure, attempts: int, started: float) -> None:
    telling.audit.failure(
        AuditKind.OBSERVATION_FAILED, telling.route.subscription, failure, attempts, started
    )


def failure_payloads(failures: Iterable[Failure]) -> Iterable[dict[str, Any]]:
    """Yield the payload of the ``hook.failure`` event of each interceptor's failure (R-FAIL-05).

    The reason is our own word for it, the class and the code; nothing of the backend is in it.
    """
    for failure in failures:
        if failure.policy is not None:
            reason = f"{failure.failure_class.value}/{failure.code}"
            yield {
                "failure": {
                    "backendId": failure.backend,
                    "reason": reason,
                    "policy": failure.policy.value,
                }
            }


def _untold(budget: Budget, progress: Progress) -> OperationalFailure:
    """Return why an observer was not told, or not known to be told, before the budget ended."""
    failure = progress.no_answer()
    if budget.cancelled:
        failure.code, failure.detail = "interrupted", "the call was interrupted"
    return failure
