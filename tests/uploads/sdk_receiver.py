"""A receiver made with the official SDK, and a backend that looks at what it received.

``sdk_receiver.py`` prints its port and serves until it is stopped. Uploads go to ``/in``, with
:data:`TOKEN`, and to ``/small``, which takes :data:`SMALL` octets; the backend is at ``/hooks`` and
denies each turn, with the size and the digest of the attachment that the first message names.
"""

from __future__ import annotations

import hashlib
import socket
from typing import Any, Optional

from agenthooksprotocol import effect
from agenthooksprotocol.server import asgi, attachments, hooks

#: The token that may upload, and one that is known and may not.
TOKEN, NOT_ALLOWED = "upload-token-91c4", "events-token-17aa"
#: What the endpoints take, in octets.
LARGEST, SMALL = 8 << 20, 1000

Answer = tuple[int, Optional[object]]


class Memory:
    """Keeps what was received, by reference."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    async def commit(self, *, scope: object, ref: str, data: bytes) -> None:
        assert ref not in self.kept
        self.kept[ref] = data


MEMORY = Memory()


async def with_token(shown: Optional[str]) -> Answer:
    if shown == f"Bearer {TOKEN}":
        return 201, "tenant"
    return (403 if shown == f"Bearer {NOT_ALLOWED}" else 401), None


async def anybody(shown: Optional[str]) -> Answer:
    return 201, "everybody"


def look(context: Any) -> hooks.TurnStartReply:
    part = context.raw["params"]["event"]["items"][0]["parts"][0]
    data = MEMORY.kept[part["body"]["ref"]]
    reason = f"{len(data)} {hashlib.sha256(data).hexdigest()}"
    return hooks.TurnStartReply(effects=(effect.Deny(reason=reason),))


APPS = {
    "/in": attachments.App(authorize=with_token, storage=MEMORY, max_bytes=LARGEST),
    "/small": attachments.App(authorize=anybody, storage=MEMORY, max_bytes=SMALL),
    "/hooks": asgi.App(hooks.Handlers(intercept=hooks.InterceptHandlers(turn_start=look))),
}


async def route(scope: Any, receive: Any, send: Any) -> None:
    await APPS[scope["path"]](scope, receive, send)


def main() -> None:
    import uvicorn

    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    print(listener.getsockname()[1], flush=True)
    config = uvicorn.Config(route, lifespan="off", log_level="warning")
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
