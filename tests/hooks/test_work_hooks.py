"""The payloads of ``config.*``, ``task.*``, ``workspace.*``, ``file.*`` and ``hook.*`` events."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recording_hooks import RecordingHooks

from ahp_sync import InvalidEvent
from ahp_sync.protocol.changes import check_change
from ahp_sync.protocol.equality import json_equal


@pytest.fixture
def hooks() -> RecordingHooks:
    return RecordingHooks()


def refused(hooks: RecordingHooks, method: str, **arguments: Any) -> str:
    """Make the call; return the path of what is wrong with it."""
    with pytest.raises(InvalidEvent) as raised:
        getattr(hooks, method)(**arguments)
        _ = hooks.event
    return raised.value.path


CONFIG: dict[str, Any] = {
    "source": "file",
    "scope": "project",
    "settings": ["model", "sandbox"],
    "summary": "two settings",
}


def test_a_configuration_change_is_one_object(hooks: RecordingHooks) -> None:
    """It names the settings, and has nothing of their values."""
    assert hooks.sent("config_change_before", **CONFIG) == {"change": CONFIG}
    after = hooks.sent("config_change_after", **CONFIG, path="/x", mcp_servers=[{"id": "s"}])
    assert after == {"change": {**CONFIG, "path": "/x", "mcpServers": [{"id": "s"}]}}


def test_a_task_change_is_one_object(hooks: RecordingHooks) -> None:
    """The task's own id stands in it, and says if it was made up."""
    task_id: Any = {"id": "t-1", "synthesized": True}
    hooks.task_change_before(
        task_id=task_id, operation="update", change={"done": True}, prior={}, description="tidy"
    )
    assert hooks.event["task"] == {
        "id": "t-1",
        "synthesized": True,
        "operation": "update",
        "change": {"done": True},
        "prior": {},
        "description": "tidy",
    }


def test_a_workspace_change_is_one_object(hooks: RecordingHooks) -> None:
    """With what was before and why, if the host knows."""
    hooks.workspace_change_before(
        kind="roots", change={"workspaceRoots": ["/a"]}, prior={"workspaceRoots": []}, reason="cd"
    )
    assert hooks.event["workspace"] == {
        "kind": "roots",
        "change": {"workspaceRoots": ["/a"]},
        "prior": {"workspaceRoots": []},
        "reason": "cd",
    }


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({}, "$.workspace.change"),
        ({"cwd": ""}, "$.workspace.change.cwd"),
        ({"root": "/"}, "$.workspace.change"),
        ({"workspaceRoots": ["/a", "/a"]}, "$.workspace.change.workspaceRoots"),
    ],
)
def test_a_workspace_is_somewhere_and_each_root_is_there_once(
    hooks: RecordingHooks, change: Any, path: str
) -> None:
    """Section 4, before and after."""
    for method in ("workspace_change_before", "workspace_change_after"):
        assert refused(hooks, method, kind="switch", change=change) == path


def test_files_have_changed(hooks: RecordingHooks) -> None:
    """At least one, and by whom."""
    change: Any = {"path": "a", "operation": "remove", "agentCaused": False}
    hooks.file_changed(changes=[change])
    assert hooks.event["changes"] == [change]
    assert refused(hooks, "file_changed", changes=[]) == "$.changes"


def test_a_failure_belongs_to_an_event(hooks: RecordingHooks) -> None:
    """R-FAIL-05: the parent is the event at which it happened."""
    hooks.hook_failure(
        backend_id="com.example.one",
        reason="late",
        policy="fail-closed",
        parent_event_id="ev-1",
        session="s",
        turn="t",
    )
    event = hooks.event
    assert event["failure"] == {
        "backendId": "com.example.one",
        "reason": "late",
        "policy": "fail-closed",
    }
    assert event["parentEventId"] == "ev-1"
    assert (event["session"], event["turn"]) == ({"id": "s"}, {"id": "t"})


# --- a change has changed something (R-PAY-05) ----------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.floats(0, 2) | st.sampled_from(["", "a"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.just("x"), inner),
    max_leaves=4,
)
STATE = st.dictionaries(st.sampled_from(["a", "b", "c"]), JSON, max_size=3)


@pytest.mark.parametrize(
    ("change", "prior"),
    [
        ({"done": True}, {"done": True, "other": 1}),
        ({"tags": ("a", "b")}, {"tags": ["a", "b"]}),
        ({"n": 1}, {"n": 1.0}),
        ({}, {"done": True}),
    ],
)
def test_a_task_that_is_as_it_was_has_not_changed(
    hooks: RecordingHooks, change: Any, prior: Any
) -> None:
    """Numbers are compared by value, and a tuple is a list on the wire (R-SET-06)."""
    call = {"task_id": "t", "change": change, "prior": prior}
    for operation in ("create", "update"):
        path = refused(hooks, "task_change_after", **call, operation=operation)
        assert path == "$.task.change"
    hooks.task_change_after(**call, operation="remove")
    hooks.task_change_before(**call, operation="update")


@pytest.mark.parametrize(
    ("change", "prior"),
    [
        ({"done": True}, {"done": 1}),
        ({"done": None}, {}),
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}),
        ({"done": True}, None),
    ],
)
def test_a_task_that_is_other_than_it_was_has_changed(
    hooks: RecordingHooks, change: Any, prior: Any
) -> None:
    """True is not 1, and null is not nothing."""
    hooks.task_change_after(task_id="t", operation="update", change=change, prior=prior)
    assert hooks.event["task"]["change"] == change


def test_a_workspace_that_is_as_it_was_has_not_changed(hooks: RecordingHooks) -> None:
    """The order of the roots counts."""
    roots: Any = {"workspaceRoots": ["/a", "/b"]}
    call: dict[str, Any] = {"kind": "roots", "change": roots}
    same = refused(hooks, "workspace_change_after", **call, prior={**roots, "cwd": "/"})
    assert same == "$.workspace.change"
    hooks.workspace_change_after(**call, prior={"workspaceRoots": ["/b", "/a"]})
    hooks.workspace_change_before(**call, prior=roots)


@pytest.mark.parametrize(
    "arguments",
    [
        {"change": 5, "prior": 5},
        {"change": [], "prior": []},
        {"change": {"a": object()}, "prior": {}},
        {"change": {"a": 1}, "prior": "x"},
    ],
)
def test_what_is_no_change_at_all_is_named_as_such(
    hooks: RecordingHooks, arguments: dict[str, Any]
) -> None:
    """The rule leaves it to those that know better."""
    path = refused(hooks, "task_change_after", task_id="t", operation="update", **arguments)
    assert path.startswith("$.task.")


@given(change=STATE, prior=STATE)
def test_a_change_tells_of_one_unless_every_member_was_the_same(change: Any, prior: Any) -> None:
    """The rule itself, over any states."""
    changed = [
        name for name in change if name not in prior or not json_equal(change[name], prior[name])
    ]
    payload = {"task": {"id": "t", "operation": "update", "change": change, "prior": prior}}
    if changed:
        check_change("task.change.after", payload)
    else:
        with pytest.raises(InvalidEvent):
            check_change("task.change.after", payload)
    check_change("task.change.before", payload)
