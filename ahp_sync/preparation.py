"""What has to be uploaded before a message that names it can be sent (section 14).

Only what the view of one subscription shows as a body is read and uploaded, when that
subscription's turn comes, within ``upload.timeoutMs`` and the call's own budget; none of it counts
against ``timeoutMs`` (R-UPL-02, R-UPL-04).
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Callable, Hashable, Optional

from ahp_sync.auth.credentials import late_credentials
from ahp_sync.budget import Budget, BudgetEnded
from ahp_sync.errors import InvalidEvent
from ahp_sync.failure import FailureClass, OperationalFailure
from ahp_sync.protocol.references import References, local_references
from ahp_sync.workers import DeliveryExecutor, Job

if TYPE_CHECKING:
    from ahp_sync.registration import Subscription, UploadRoute
    from ahp_sync.transports.upload import Uploader
    from ahp_sync.uploads import Attachment

__all__ = ["Uploads"]

#: How many bodies of one delivery are uploaded at the same time.
AT_ONCE = 4

_Receiver = tuple[str, "UploadRoute"]


class Uploads:
    """Uploads attachments for receivers, and remembers what each of them calls them.

    :param executor: what the uploads run on.
    :param make: makes the uploader of a backend's route.

    All methods may be called from several threads at once.
    """

    def __init__(
        self, executor: DeliveryExecutor, make: Callable[[str, UploadRoute], Uploader]
    ) -> None:
        self._executor = executor
        self._make = make
        # Re-entrant: a finalizer that closes a forgotten client may run inside a locked section.
        self._lock = threading.RLock()
        self._uploaders: dict[_Receiver, Uploader] = {}
        self._attachments: weakref.WeakValueDictionary[str, Attachment] = (
            weakref.WeakValueDictionary()
        )
        # What receivers confirmed, as long as the host keeps the attachment (R-UPL-05).
        self._confirmed: weakref.WeakKeyDictionary[Attachment, dict[Hashable, str]] = (
            weakref.WeakKeyDictionary()
        )

    def attachments(
        self, event: dict[str, Any], brought: Iterable[Attachment]
    ) -> dict[str, Attachment]:
        """Return an event's attachments by local reference: those ``brought``, and earlier ones.

        Raises :class:`InvalidEvent` for one that is not in a part of the event, and for a reference
        to one that the host has given up.
        """
        new = {attachment.ref: attachment for attachment in brought}
        refs = local_references(event)
        if not (new or refs):
            return {}
        with self._lock:
            self._attachments.update(new)
            known = {ref: self._attachments.get(ref) for ref in refs}
        if not new.keys() <= known.keys():
            raise InvalidEvent("$", "an attachment", "one only where a part of content is")
        found = {ref: attachment for ref, attachment in known.items() if attachment is not None}
        if len(found) < len(known):
            raise InvalidEvent("$", "a reference to an attachment that is gone", "one that is kept")
        return found

    def references(
        self,
        view: dict[str, Any],
        attachments: Mapping[str, Attachment],
        subscription: Subscription,
        call: Budget,
    ) -> References:
        """Upload what a view shows, and return the receiver's references for it.

        Blocks within ``call``, the budget of the hook call. Raises ``OperationalFailure``, and
        ``BudgetEnded`` where the call itself ended.
        """
        wanted = local_references(view) if attachments else []
        if not wanted:
            return References(view, {})
        route = subscription.upload
        if route is None:
            raise OperationalFailure(
                FailureClass.PREPARATION,
                "no_upload_endpoint",
                "an attachment is selected as body, and the subscription has no upload endpoint",
            )
        budget = call.child(route.timeout)
        uploader = self._uploader(subscription.backend, route)
        receiver, each = (subscription.backend, route), [budget.child() for _ in wanted]
        works = [
            self._work(uploader, receiver, attachments[ref], its, call)
            for ref, its in zip(wanted, each)
        ]
        try:
            refs = self._all(works, budget)
        except BudgetEnded:
            call.check()
            if any(its.doing is not None for its in each):
                raise late_credentials() from None
            raise OperationalFailure(
                FailureClass.DEADLINE_EXCEEDED,
                "upload_timed_out",
                "the attachments were not uploaded in the time for it",
            ) from None
        return References(view, dict(zip(wanted, refs)))

    def close(self, budget: Budget) -> None:
        """Close the connections; uploads under way end with the budgets of their calls."""
        with self._lock:
            uploaders = list(self._uploaders.values())
        for uploader in uploaders:
            uploader.close(budget)

    def abandon_after_fork(self) -> None:
        """Close this process's copies of the parent's connections; theirs stay open (F16)."""
        for uploader in list(self._uploaders.values()):
            uploader.abandon_after_fork()

    def _uploader(self, backend: str, route: UploadRoute) -> Uploader:
        key = (backend, route)
        found = self._uploaders.get(key)
        if found is None:
            made = self._make(backend, route)
            with self._lock:
                found = self._uploaders.setdefault(key, made)
        return found

    def _work(
        self,
        uploader: Uploader,
        receiver: _Receiver,
        attachment: Attachment,
        budget: Budget,
        call: Budget,
    ) -> Callable[[], str]:
        def work() -> str:
            applied = uploader.credentials(budget)
            key = (receiver, uploader.identity(applied))
            known = self._known(attachment, key)
            if known is None:
                snapshot = attachment.snapshot(self._executor, budget, call)
                known = uploader.upload(snapshot, applied, budget)
                budget.check()  # what was confirmed too late is not published
                with self._lock:
                    self._confirmed.setdefault(attachment, {})[key] = known
            return known

        return work

    def _known(self, attachment: Attachment, key: Hashable) -> Optional[str]:
        with self._lock:
            return self._confirmed.get(attachment, {}).get(key)

    def _all(self, works: Sequence[Callable[[], str]], budget: Budget) -> list[str]:
        """Do the works on workers, a few at once; the first failure ends the others."""
        results: list[str] = []
        jobs: list[Job] = []
        try:
            for work in works:
                if len(jobs) - len(results) == AT_ONCE:
                    results.append(self._executor.finish(jobs[len(results)], budget))
                jobs.append(self._executor.start(budget, work))
            while len(results) < len(jobs):
                results.append(self._executor.finish(jobs[len(results)], budget))
        except BaseException:
            budget.abort()
            for job in jobs[len(results) :]:
                self._leave(job, budget)
            raise
        return results

    def _leave(self, job: Job, budget: Budget) -> None:
        try:
            self._executor.finish(job, budget)  # which leaves it at once
        except (OperationalFailure, BudgetEnded):
            pass
