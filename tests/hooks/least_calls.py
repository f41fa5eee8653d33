"""One call of each hook method, with the arguments that it needs."""

from __future__ import annotations

from typing import Any

__all__ = ["LEAST"]

LEAST: dict[str, dict[str, Any]] = {
    "session.start": {"session": "s"},
    "session.end": {"session": "s"},
    "config.change.before": {"source": "s", "scope": "s", "settings": [], "summary": "s"},
    "config.change.after": {"source": "s", "scope": "s", "settings": [], "summary": "s"},
    "turn.start": {"turn": "t"},
    "turn.finish.before": {"turn": "t"},
    "turn.end": {"turn": "t"},
    "turn.progress": {"turn": "t", "item": "m", "text": ""},
    "model.request.before": {
        "model": {"id": "m", "provider": "p"},
        "attempt": "a",
        "items": [],
    },
    "model.response.after": {
        "model": {"id": "m", "provider": "p"},
        "attempt": "a",
        "finish_reason": "stop",
    },
    "model.error": {
        "model": {"id": "m", "provider": "p"},
        "attempt": "a",
        "error": {"message": "m", "class": "c"},
    },
    "model.switch.before": {
        "current": {"id": "m", "provider": "p"},
        "proposed": {"id": "n", "provider": "p"},
        "reason": "r",
    },
    "model.switch.after": {
        "previous": {"id": "m", "provider": "p"},
        "current": {"id": "n", "provider": "p"},
        "reason": "r",
    },
    "tool.before": {"name": "n", "input": {}},
    "tool.after": {"name": "n", "input": {}},
    "tool.permission.request": {"name": "n", "input": {}, "call_id": "c"},
    "tool.permission.resolved": {
        "name": "n",
        "input": {},
        "call_id": "c",
        "decision": "deny",
        "decided_by": "user",
    },
    "tool.progress": {"name": "n", "input": {}, "call_id": "c", "output": ""},
    "tool.batch.after": {
        "batch": "b",
        "calls": [
            {
                "call": {"id": "c"},
                "tool": {"name": "n", "origin": "native", "input": {}},
                "path": "native",
                "outcome": "ok",
                "execution": {"status": "executed"},
            }
        ],
    },
    "context.compact.before": {"trigger": "auto"},
    "context.compact.after": {"summary": ""},
    "task.change.before": {"task_id": "t", "operation": "create", "change": {}},
    "task.change.after": {"task_id": "t", "operation": "create", "change": {}},
    "user.attention": {"kind": "k", "message": "", "title": ""},
    "user.elicitation.request": {"server": "s"},
    "user.elicitation.result": {"server": "s", "action": "cancel"},
    "user.message.inbound": {"channel": "c", "sender": "s", "text": ""},
    "user.message.outbound": {"channel": "c", "text": ""},
    "workspace.change.before": {"kind": "cwd", "change": {"cwd": "/"}},
    "workspace.change.after": {"kind": "cwd", "change": {"cwd": "/"}},
    "file.changed": {"changes": [{"path": "p", "operation": "create", "agentCaused": True}]},
    "hook.failure": {
        "backend_id": "b",
        "reason": "r",
        "policy": "fail-open",
        "parent_event_id": "e",
    },
}
