"""The hook methods of ``task.*``, ``workspace.*`` and ``file.*`` events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional, Sequence

from ahp_sync.hooks.base import Dispatcher
from ahp_sync.hooks.making import given, identity
from ahp_sync.hooks.options import CallOptions
from ahp_sync.outcome import Outcome
from ahp_sync.protocol.payloads import (
    ChangedFile,
    Id,
    Json,
    Operation,
    Part,
    WorkspaceKind,
    WorkspaceState,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["WorkHooks"]


class WorkHooks(Dispatcher):
    """``task.change.before/after``, ``workspace.change.before/after`` and ``file.changed``."""

    def task_change_before(
        self,
        *,
        task_id: Id,
        operation: Operation,
        change: Json,
        prior: Optional[Json] = None,
        description: Optional[str] = None,
        items: Optional[Sequence[Part]] = None,
        **options: Unpack[CallOptions],
    ) -> Outcome:
        """Ask whether a task of the agent's may change (``task.change.before``).

        A backend may deny it. The payload is :class:`~ahp_sync.payloads.TaskChangeBefore`.

        :param task_id: the task's id, the same in all events about it.
        :param operation: create, update or remove.
        :param change: the members of the task that change, as the host has them, with their new
            values; ``prior`` has the old ones.
        :param description: the task in words.

        Everything else, and what it returns and raises, is as in :meth:`tool_before`.
        """
        payload = _task(task_id, operation, change, prior, description, items)
        return self._send("task.change.before", payload, options)

    def task_change_after(
        self,
        *,
        task_id: Id,
        operation: Operation,
        change: Json,
        prior: Optional[Json] = None,
        description: Optional[str] = None,
        items: Optional[Sequence[Part]] = None,
        **options: Unpack[CallOptions],
    ) -> Outcome:
        """Tell that a task of the agent's has changed (``task.change.after``).

        It is only observed. The payload is :class:`~ahp_sync.payloads.TaskChangeAfter`.

        :param change: something has to be other than in ``prior``, unless the task was removed
            (R-PAY-05).

        Everything else is as in :meth:`task_change_before`.
        """
        payload = _task(task_id, operation, change, prior, description, items)
        return self._send("task.change.after", payload, options)

    def workspace_change_before(
        self,
        *,
        kind: WorkspaceKind,
        change: WorkspaceState,
        prior: Optional[WorkspaceState] = None,
        reason: Optional[str] = None,
        items: Optional[Sequence[Part]] = None,
        **options: Unpack[CallOptions],
    ) -> Outcome:
        """Ask whether the agent may work elsewhere (``workspace.change.before``).

        A backend may deny it or modify the workspace. The payload is
        :class:`~ahp_sync.payloads.WorkspaceChangeBefore`.

        :param kind: cwd, roots or switch.
        :param change: the new ``cwd``, the new ``workspaceRoots`` (each once), or both; ``prior``
            has the old ones.
        :param reason: why, in words.

        The effective change is ``outcome.event["workspace"]["change"]``. Everything else, and what
        it returns and raises, is as in :meth:`tool_before`.
        """
        payload = _workspace(kind, change, prior, reason, items)
        return self._send("workspace.change.before", payload, options)

    def workspace_change_after(
        self,
        *,
        kind: WorkspaceKind,
        change: WorkspaceState,
        prior: Optional[WorkspaceState] = None,
        reason: Optional[str] = None,
        items: Optional[Sequence[Part]] = None,
        **options: Unpack[CallOptions],
    ) -> Outcome:
        """Tell that the agent works elsewhere (``workspace.change.after``).

        It is only observed. The payload is :class:`~ahp_sync.payloads.WorkspaceChangeAfter`.

        :param change: something has to be other than in ``prior`` (R-PAY-05).

        Everything else is as in :meth:`workspace_change_before`.
        """
        payload = _workspace(kind, change, prior, reason, items)
        return self._send("workspace.change.after", payload, options)

    def file_changed(
        self,
        *,
        changes: Sequence[ChangedFile],
        items: Optional[Sequence[Part]] = None,
        **options: Unpack[CallOptions],
    ) -> Outcome:
        """Tell that files of the workspace have changed (``file.changed``).

        It is only observed. The payload is :class:`~ahp_sync.payloads.FileChanged`.

        :param changes: at least one; each with its ``path``, the ``operation`` (create, update or
            remove) and whether it was ``agentCaused``, perhaps with parts ``before`` and ``after``.

        Everything else, and what it returns and raises, is as in :meth:`tool_before`.
        """
        payload = {"changes": changes, **given(items=items)}
        return self._send("file.changed", payload, options)


def _task(
    task_id: Id,
    operation: Operation,
    change: Json,
    prior: Optional[Json],
    description: Optional[str],
    items: Optional[Sequence[Part]],
) -> dict[str, Any]:
    task = {
        **identity(task_id),
        "operation": operation,
        "change": change,
        **given(prior=prior, description=description),
    }
    return {"task": task, **given(items=items)}


def _workspace(
    kind: WorkspaceKind,
    change: WorkspaceState,
    prior: Optional[WorkspaceState],
    reason: Optional[str],
    items: Optional[Sequence[Part]],
) -> dict[str, Any]:
    workspace = {"kind": kind, "change": change, **given(prior=prior, reason=reason)}
    return {"workspace": workspace, **given(items=items)}
