"""A backend made with the official SDK that says itself what it subscribes to.

``sdk_asked.py (http | stdio)`` serves until it is stopped. It wants to decide about tool calls, and
denies each; over HTTP it prints its port. At ``/silent`` it serves no configuration.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from typing import Any

from agenthooksprotocol import effect
from agenthooksprotocol.configuration import Configuration
from agenthooksprotocol.server import asgi, hooks, serve

CONFIGURATION = {
    "subscriptions": [
        {
            "events": ["tool.*", "unknown.*"],
            "mode": "intercept",
            "timeoutMs": 30_000,
            "failurePolicy": "fail-closed",
            "content": {"default": "body"},
        }
    ]
}


def deny(context: Any) -> hooks.ToolBeforeReply:
    return hooks.ToolBeforeReply(effects=(effect.Deny(reason="as I asked to"),))


INTERCEPT = hooks.InterceptHandlers(tool_before=deny)
ASKED = hooks.Handlers(intercept=INTERCEPT, configuration=Configuration.from_dict(CONFIGURATION))
SILENT = hooks.Handlers(intercept=INTERCEPT)


async def route(scope: Any, receive: Any, send: Any) -> None:
    await APPS[scope["path"]](scope, receive, send)


APPS = {"/": asgi.App(ASKED), "/silent": asgi.App(SILENT)}


def main() -> None:
    if sys.argv[1] == "stdio":
        asyncio.run(serve(ASKED))
        return
    import uvicorn

    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    print(listener.getsockname()[1], flush=True)
    config = uvicorn.Config(route, lifespan="off", log_level="warning")
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
