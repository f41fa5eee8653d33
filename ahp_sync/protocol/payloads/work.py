"""Payloads of ``task.*``, ``workspace.*`` and ``file.*`` events."""

from __future__ import annotations

from typing import Literal, Sequence, TypedDict

from ahp_sync.protocol.payloads.content import Part
from ahp_sync.protocol.payloads.objects import Json, PayloadWithParts

__all__ = [
    "ChangedFile",
    "FileChanged",
    "Operation",
    "Task",
    "TaskChangeAfter",
    "TaskChangeBefore",
    "Workspace",
    "WorkspaceChangeAfter",
    "WorkspaceChangeBefore",
    "WorkspaceKind",
    "WorkspaceState",
]

#: What is done with a task or a file.
Operation = Literal["create", "update", "remove"]

#: What changes of a workspace.
WorkspaceKind = Literal["cwd", "roots", "switch"]


class _Task(TypedDict):
    id: str
    operation: Operation
    change: Json


class Task(_Task, total=False):
    """A task of the agent's; ``change`` and ``prior`` are members of it, as the host has them.

    ``prior`` is what they were before. ``synthesized``: the id was made up (R-EVT-04).
    """

    prior: Json
    description: str
    synthesized: bool


class TaskChangeBefore(PayloadWithParts):
    """``task.change.before``: a task is about to change.

    Interceptable: deny.
    """

    task: Task


class TaskChangeAfter(PayloadWithParts):
    """``task.change.after``: a task has changed, and not to what it was before (R-PAY-05).

    Only observed.
    """

    task: Task


class WorkspaceState(TypedDict, total=False):
    """Where the agent works, at least one of both; the roots are unique."""

    cwd: str
    workspaceRoots: Sequence[str]


class _Workspace(TypedDict):
    kind: WorkspaceKind
    change: WorkspaceState


class Workspace(_Workspace, total=False):
    """A change of the workspace; ``prior`` is what it was before, ``reason`` why, in words."""

    prior: WorkspaceState
    reason: str


class WorkspaceChangeBefore(PayloadWithParts):
    """``workspace.change.before``: the agent is about to work elsewhere.

    Interceptable: deny, modify(workspace).
    """

    workspace: Workspace


class WorkspaceChangeAfter(PayloadWithParts):
    """``workspace.change.after``: the agent works elsewhere, not where it did (R-PAY-05).

    Only observed.
    """

    workspace: Workspace


class _ChangedFile(TypedDict):
    path: str
    operation: Operation
    agentCaused: bool


class ChangedFile(_ChangedFile, total=False):
    """A file that changed; ``agentCaused``: by the agent. ``before`` and ``after``: its content."""

    before: Part
    after: Part


class FileChanged(PayloadWithParts):
    """``file.changed``: files of the workspace have changed, at least one.

    Only observed.
    """

    changes: Sequence[ChangedFile]
