"""Good instances of schema documents, with every optional member: by hand, for the hot ones."""

from __future__ import annotations

from typing import Any

from ahp_sync import Capabilities

__all__ = ["GOOD", "MESSAGE", "PARTS", "SHA", "modify"]

SHA = "0123456789abcdef" * 4
PARTS: list[dict[str, Any]] = [
    {"id": "p1", "kind": "text", "mediaType": "text/plain", "selection": "body", "text": ""},
    {
        "id": "p2",
        "kind": "attachment",
        "mediaType": "image/svg+xml",
        "selection": "metadata",
        "size": 3,
        "sha256": SHA,
        "category": "images",
        "synthesized": True,
    },
    {
        "id": "p3",
        "kind": "text",
        "mediaType": "text/plain",
        "selection": "body",
        "gap": {"reason": "lost", "path": "$.x"},
        "size": 0,
    },
    {"id": "p4", "kind": "attachment", "mediaType": "application/jsonl", "selection": "omit"},
    {
        "id": "p5",
        "kind": "attachment",
        "mediaType": "image/png",
        "selection": "body",
        "body": {"ref": "r"},
    },
]
MESSAGE: dict[str, Any] = {"id": "m", "role": "tool", "parts": PARTS, "synthesized": False}
ENVELOPE: dict[str, Any] = {
    "id": "e",
    "session": {
        "id": "s",
        "cwd": "/",
        "workspaceRoots": ["/"],
        "model": "m",
        "agent": {"id": "a", "type": "t"},
        "counters": {"calls": 1},
        "synthesized": True,
    },
    "turn": {"id": "t", "synthesized": True},
    "parentEventId": "e0",
    "gaps": [{"path": "p", "reason": "r"}],
    "extensions": {"com.example.x": None},
    "synthesized": True,
}
MCP = {
    "server": {"id": "srv", "name": "n"},
    "toolName": "t",
    "provenance": "inferred",
    "connection": {"transport": "http", "url": "https://example.com/x"},
}
CALL: dict[str, Any] = {
    "call": {"id": "c", "synthesized": True},
    "tool": {"name": "Bash", "input": {"a": [1]}, "origin": "native", "kind": "shell"},
    "path": "native",
    "batch": {"id": "b", "callIds": ["c", "d"], "synthesized": True},
}


def modify(target: str, value: Any) -> dict[str, Any]:
    """Return a ``modify`` that replaces the target."""
    return {"type": "modify", "target": target, "operation": "replace", "value": value}


AFTER: dict[str, Any] = {**ENVELOPE, **CALL, "items": [MESSAGE]}
#: By the key of the document.
GOOD: dict[str, list[Any]] = {
    "event:tool.before": [
        {**ENVELOPE, **CALL, "items": PARTS},
        {**CALL, "tool": {"name": "t", "input": {}, "origin": "mcp", "mcp": MCP}},
    ],
    "event:tool.after": [
        {
            **AFTER,
            "outcome": "ok",
            "execution": {"status": "executed"},
            "durationMs": 1.5,
            "fileChanges": [
                {"path": "a", "change": "modified", "before": PARTS[0], "after": PARTS[1]},
                {"path": "b", "change": "moved", "previousPath": "a"},
                {"path": "c", "change": "created", "after": PARTS[0]},
                {"path": "d", "change": "deleted", "before": PARTS[0]},
            ],
        },
        {
            **AFTER,
            "outcome": "error",
            "execution": {"status": "executed"},
            "error": {"message": "m", "class": "c", "code": "x", "status": 5, "native": [1]},
        },
        {**AFTER, "outcome": "denied", "execution": {"status": "skipped", "reason": "policy"}},
        {
            **AFTER,
            "outcome": "cancelled",
            "execution": {"status": "skipped", "reason": "other", "detail": "d"},
        },
    ],
    "event:session.start": [
        {
            **ENVELOPE,
            "trigger": "fork",
            "permissionMode": "default",
            "manifest": Capabilities().manifest(),
            "items": [MESSAGE],
            "resumedFrom": {"id": "s0"},
        }
    ],
    "event:session.end": [
        {
            **ENVELOPE,
            "outcome": "completed",
            "reason": "r",
            "counters": {"calls": 2.0},
            "items": PARTS,
        }
    ],
    "effect:deny": [
        {"type": "deny", "reason": "no", "code": "a.b", "extensions": {"com.example.x": {}}}
    ],
    "effect:allow": [{"type": "allow"}],
    "effect:ask": [{"type": "ask"}],
    "effect:message": [{"type": "message", "text": ""}],
    "effect:inject": [
        {
            "type": "inject",
            "target": "context",
            "operation": "append",
            "deliverAt": "next_turn",
            "value": [MESSAGE],
        }
    ],
    "effect:flow": [
        {"type": "flow", "operation": "stop", "reason": "r"},
        {"type": "flow", "operation": "continue"},
        {"type": "flow", "operation": "continue", "instruction": "i"},
    ],
    "effect:modify.object": [modify("input", {"a": None})],
    "effect:modify.workspace": [modify("workspace", {"cwd": "/", "workspaceRoots": []})],
    "effect:modify.messages": [modify(name, [MESSAGE]) for name in ("prompt", "content", "output")],
    "effect:modify.text": [modify(name, PARTS[:1]) for name in ("instructions", "summary")],
    "effect:modify.answers": [modify("content", {"a": "x", "b": 1.5, "c": True, "d": ["y"]})],
    "effect:return.json": [{"type": "return", "value": None}, {"type": "return", "value": [1]}],
    "effect:return.messages": [{"type": "return", "value": []}],
    "effect:return.text": [{"type": "return", "value": PARTS[:1]}],
    "effect:return.elicitation": [{"type": "return", "value": {"action": "decline", "_meta": {}}}],
}
