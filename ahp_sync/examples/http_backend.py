"""An example backend over HTTP: some shell commands are not for the agent.

    python http_backend.py [--port 8750] [--journal FILE]

It listens on loopback, prints where, and answers every POST with one JSON-RPC response. Commands
stand in the ``command`` of a tool's input. What it is only told about (``hooks/observe``) it writes
to the journal, one event a line.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Dict, Iterator, List, Optional, Set

VERSION = "draft"

# --- the policy -----------------------------------------------------------------------------------


def objection(tool_input: Dict[str, Any]) -> Optional[str]:
    """Return why the policy is against a tool call with this input, or None."""
    command = tool_input.get("command")
    if not isinstance(command, str):
        return None
    try:
        found = [objection_to(words) for words in simple_commands(command)]
    except ValueError:
        return "The command has an unclosed quote, so that it can't be judged."
    return next(filter(None, found), None)


def objection_to(words: List[str]) -> Optional[str]:
    """Judge one simple command, such as ``["rm", "-rf", "build"]``."""
    while words and words[0] in ("sudo", "nohup", "time"):
        words = words[1:]
    program = os.path.basename(words[0]) if words else ""
    given = options_in(words[1:])
    if program == "rm" and given & {"r", "R", "recursive"} and given & {"f", "force"}:
        return "Deleting recursively by force is not allowed; name the files to delete."
    if program == "git" and "push" in words and given & {"f", "force"}:
        return "Force pushes are not allowed: they rewrite history that others build on."
    return None


def simple_commands(command: str) -> Iterator[List[str]]:
    """Split a shell command at ``;``, ``&&``, pipes and the like. Raises :class:`ValueError`."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words: List[str] = []
    for word in lexer:
        if set(word) <= set(";&|()<>"):
            yield words
            words = []
        else:
            words.append(word)
    yield words


def options_in(words: List[str]) -> Set[str]:
    """Return the options among the words: long names, and each letter of the short ones."""
    found = set()
    for word in words:
        if word.startswith("--"):
            found.add(word[2:])
        elif word.startswith("-"):
            found.update(word[1:])
    return found


# --- the protocol ---------------------------------------------------------------------------------


def respond(message: Dict[str, Any]) -> Dict[str, Any]:
    """Return the response to a request."""
    if message.get("method") != "hooks/intercept":
        return error_response(message["id"], -32601, "unknown method")
    try:
        return intercept(message["id"], message["params"])
    except (AttributeError, KeyError, TypeError):
        return error_response(message["id"], -32602, "invalid params")


def intercept(rpc_id: Any, params: Dict[str, Any]) -> Dict[str, Any]:
    """Return the response to the question whether something may be done."""
    event = params["event"]
    if params["protocolVersion"] != VERSION:
        return error_response(rpc_id, -32001, "unsupported_protocol_version")
    if event["type"] != "tool.before":
        return error_response(rpc_id, -32002, "unsupported_event")
    reason = objection(event["tool"]["input"])
    # No effects means "nothing against it". Only what the harness offers may be used.
    deny = reason is not None and "deny" in params["capabilities"]["effects"]
    effects = [{"type": "deny", "reason": reason}] if deny else []
    result = {"protocolVersion": VERSION, "effects": effects}
    return {"jsonrpc": "2.0", "id": rpc_id, "result": result}


def error_response(rpc_id: Any, code: int, text: str) -> Dict[str, Any]:
    """Return a JSON-RPC error response."""
    return {"jsonrpc": "2.0", "id": rpc_id, "error": {"code": code, "message": text}}


# --- HTTP -----------------------------------------------------------------------------------------


class Backend(ThreadingHTTPServer):
    """The server; ``journal`` is the file for observed events, or None."""

    daemon_threads = True

    def __init__(self, port: int, journal: Optional[str]) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.journal = journal

    def note(self, message: Dict[str, Any]) -> None:
        """Take a notification."""
        if self.journal and message.get("method") == "hooks/observe":
            with open(self.journal, "a", encoding="utf-8") as file:
                file.write(json.dumps(message["params"]["event"]) + "\n")

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say what went wrong; a harness that hung up is no news, its deadline had passed."""
        error = sys.exc_info()[1]
        if not isinstance(error, ConnectionError):
            print(f"{type(error).__name__}: {error}", file=sys.stderr)


class Handler(BaseHTTPRequestHandler):
    """One connection of a harness, which is kept alive."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body leave together; two small packets would wait for each other
    server: Backend

    def do_POST(self) -> None:
        """Answer one message: 200 with a response, or 202 without a body for a notification."""
        try:
            message = json.loads(self.rfile.read(int(self.headers["Content-Length"])).decode())
            rpc_id = message.get("id")
        except (AttributeError, TypeError, ValueError):
            self.answer(400, error_response(None, -32700, "not a JSON-RPC object in UTF-8"))
            return
        if rpc_id is None:
            self.server.note(message)
            self.answer(202, None)
        else:
            self.answer(200, respond(message))

    def answer(self, status: int, response: Optional[Dict[str, Any]]) -> None:
        """Send a response, or an empty body."""
        body = b"" if response is None else json.dumps(response).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Keep quiet about each request."""


def main(arguments: List[str]) -> int:
    """Serve until interrupted; return the exit status."""
    parser = argparse.ArgumentParser(description="An example policy backend for shell commands.")
    parser.add_argument("--port", type=int, default=8750, help="0 for any free one (default: 8750)")
    parser.add_argument("--journal", metavar="FILE", help="append observed events to this file")
    options = parser.parse_args(arguments)
    with Backend(options.port, options.journal) as backend:
        print(f"listening on http://127.0.0.1:{backend.server_port}/ahp", flush=True)
        try:
            backend.serve_forever()
        except KeyboardInterrupt:
            pass
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
