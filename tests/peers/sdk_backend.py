"""A policy backend made with the official SDK: the program that the peer tests start.

``sdk_backend.py (http | stdio) LOG [POLICY]`` serves until it is stopped. Over HTTP it prints its
port, and the policies have paths of their own. Every message that reaches a handler is appended to
LOG as a line of JSON, with ``who`` served it: the client's port over HTTP, else the process id.

What the ``guard`` policy says to a call depends on the tool's name; see :func:`decide`. The
``observer`` policy has no handler for interceptions, ``protected`` is ``guard`` behind a token.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from contextvars import ContextVar
from typing import Any

from agenthooksprotocol import effect
from agenthooksprotocol.server import asgi, hooks, serve

#: The token of the ``protected`` policy.
TOKEN = "peer-token-7f3a"
#: What a handler that raises has in its message: it must not come out anywhere.
SECRET = "backend-secret-51c2"

PID = os.getpid()
who: ContextVar[int] = ContextVar("who", default=PID)


def decide(context: hooks.ToolBeforeContext) -> hooks.ToolBeforeReply:
    """Decide about a call by the name of its tool."""
    log("intercept", context)
    tool = context.event.tool
    if tool.name == "deny":
        return denial(f"{tool.input['command']} is not allowed")
    if tool.name == "who":
        return denial(str(who.get()))
    if tool.name == "raise":
        raise RuntimeError(SECRET)
    if tool.name == "overstep":
        return hooks.ToolBeforeReply(effects=(effect.Allow(),))
    return hooks.ToolBeforeReply()


def denial(reason: str) -> hooks.ToolBeforeReply:
    return hooks.ToolBeforeReply(effects=(effect.Deny(reason=reason),))


def told(context: Any) -> None:
    log("observe", context)


def log(method: str, context: Any) -> None:
    line = {"method": method, "who": who.get(), "event": context.raw["params"]["event"]}
    descriptor = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(descriptor, json.dumps(line).encode() + b"\n")
    os.close(descriptor)


OBSERVE = hooks.ObserveHandlers(
    tool_before=told, tool_after=told, session_start=told, session_end=told
)
POLICIES = {
    "guard": hooks.Handlers(intercept=hooks.InterceptHandlers(tool_before=decide), observe=OBSERVE),
    "observer": hooks.Handlers(observe=OBSERVE),
}


class Router:
    """Routes by path, asks for the token where there is one, and notes the client's port."""

    def __init__(self) -> None:
        self.apps = {f"/{name}": asgi.App(handlers) for name, handlers in POLICIES.items()}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        who.set(scope["client"][1])
        path = scope["path"]
        if path == "/protected":
            if dict(scope["headers"]).get(b"authorization") != f"Bearer {TOKEN}".encode():
                await send({"type": "http.response.start", "status": 401, "headers": []})
                await send({"type": "http.response.body", "body": b""})
                return
            path = "/guard"
        await self.apps[path](scope, receive, send)


def main() -> None:
    if sys.argv[1] == "stdio":
        asyncio.run(serve(POLICIES[sys.argv[3]]))
        return
    import uvicorn

    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    print(listener.getsockname()[1], flush=True)
    config = uvicorn.Config(Router(), lifespan="off", log_level="warning")
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
