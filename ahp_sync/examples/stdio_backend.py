"""An example backend over stdio: some files are not for the agent.

    python stdio_backend.py POLICY.json

POLICY.json holds ``{"deny": [{"path": "*.pem", "reason": "Keys are for people only."}]}``: patterns
for the ``path`` or ``file_path`` of a tool's input. Each line of standard input is one JSON-RPC
message; each request is answered by one line on standard output, where nothing else may ever be
printed. Register it with ``"lifecycle": "persistent"`` or ``"per_event"``: it serves both.

The policy is read anew for each request. A backend that can't read its policy must not guess: this
one ends, and the ``failurePolicy`` of its subscription says what that means for the tool call.
"""

from __future__ import annotations

import fnmatch
import json
import sys
from typing import Any, Dict, List, Optional

VERSION = "draft"


def main(arguments: List[str]) -> int:
    """Answer every line until standard input ends; return the exit status."""
    if len(arguments) != 1:
        print("usage: stdio_backend.py POLICY.json", file=sys.stderr)
        return 2
    for line in sys.stdin.buffer:
        try:
            answer = respond(line, arguments[0])
        except PolicyUnreadable as error:
            print(error, file=sys.stderr)
            return 1
        if answer is not None:
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()
    return 0


def respond(line: bytes, policy: str) -> Optional[Dict[str, Any]]:
    """Return the answer to one message, or None for a notification, which never gets one."""
    try:
        message = json.loads(line.decode())
    except ValueError:
        return error_response(None, -32700, "not JSON in UTF-8")
    if not isinstance(message, dict):
        return error_response(None, -32600, "not a JSON-RPC object")
    if "id" not in message:
        return None
    if message.get("method") != "hooks/intercept":
        return error_response(message["id"], -32601, "unknown method")
    try:
        return intercept(message["id"], message["params"], policy)
    except (AttributeError, KeyError, TypeError):
        return error_response(message["id"], -32602, "invalid params")


def intercept(rpc_id: Any, params: Dict[str, Any], policy: str) -> Dict[str, Any]:
    """Return the response to the question whether something may be done."""
    event = params["event"]
    if params["protocolVersion"] != VERSION:
        return error_response(rpc_id, -32001, "unsupported_protocol_version")
    if event["type"] != "tool.before":
        return error_response(rpc_id, -32002, "unsupported_event")
    reason = objection(event["tool"]["input"], policy)
    # No effects means "nothing against it". Only what the harness offers may be used.
    deny = reason is not None and "deny" in params["capabilities"]["effects"]
    effects = [{"type": "deny", "reason": reason}] if deny else []
    result = {"protocolVersion": VERSION, "effects": effects}
    return {"jsonrpc": "2.0", "id": rpc_id, "result": result}


def objection(tool_input: Dict[str, Any], policy: str) -> Optional[str]:
    """Return why the policy is against a tool call with this input, or None."""
    path = tool_input.get("path", tool_input.get("file_path"))
    for rule in rules(policy):
        if isinstance(path, str) and fnmatch.fnmatch(path, rule["path"]):
            return str(rule["reason"])
    return None


class PolicyUnreadable(Exception):
    """There is no policy to judge by."""


def rules(policy: str) -> List[Dict[str, str]]:
    """Return the rules of the policy file. Raises :class:`PolicyUnreadable`."""
    try:
        with open(policy, encoding="utf-8") as file:
            deny = json.load(file)["deny"]
        return [{"path": rule["path"], "reason": rule["reason"]} for rule in deny]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise PolicyUnreadable(f"the policy can't be read: {error}") from error


def error_response(rpc_id: Any, code: int, text: str) -> Dict[str, Any]:
    """Return a JSON-RPC error response."""
    return {"jsonrpc": "2.0", "id": rpc_id, "error": {"code": code, "message": text}}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
