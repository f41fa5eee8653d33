"""The clients that are compared: one ``call()`` asks about one tool call; may it run?

``python -m benchmarks.peers NAME URL TIMEOUT_MS`` reads a number of calls a line and answers each
line with the list of their times, in seconds: so every client has a process of its own.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any, Protocol

INPUT = {"command": "git status"}


class Peer(Protocol):
    def call(self) -> bool: ...

    def close(self) -> None: ...


def registration(url: str, timeout_ms: int, policy: str = "fail-closed") -> dict[str, Any]:
    """Return a hooks.json with one interceptor of tool.before."""
    subscription = {
        "events": ["tool.before"],
        "mode": "intercept",
        "timeoutMs": timeout_ms,
        "failurePolicy": policy,
        "content": {"default": "body"},
    }
    backend = {
        "id": "com.example.policy",
        "transport": {"type": "http", "url": url},
        "subscriptions": [subscription],
    }
    return {"protocolVersion": "draft", "hooks": [backend]}


class Bare:
    """What people write by hand: ``requests``, no policy, no checks."""

    def __init__(self, url: str, timeout_ms: int) -> None:
        import requests

        self.session, self.url, self.timeout = requests.Session(), url, timeout_ms / 1000

    def call(self) -> bool:
        ident = str(uuid.uuid4())
        event = {
            "id": ident,
            "source": "urn:example:bench",
            "type": "tool.before",
            "time": datetime.now(timezone.utc).isoformat(),
            "path": "native",
            "harness": {"name": "bench", "version": "1"},
            "call": {"id": "c"},
            "tool": {"name": "Bash", "origin": "native", "input": INPUT},
        }
        message = {
            "jsonrpc": "2.0",
            "id": ident,
            "method": "hooks/intercept",
            "params": {
                "protocolVersion": "draft",
                "event": event,
                "capabilities": {"effects": ["deny"]},
                "state": {"permission": "none", "candidate": None},
            },
        }
        answer = self.session.post(self.url, json=message, timeout=self.timeout).json()
        return not answer["result"]["effects"]

    def close(self) -> None:
        self.session.close()


class AhpSync:
    """This library, with whatever validator is installed."""

    def __init__(self, url: str, timeout_ms: int) -> None:
        from ahp_sync import Client, Harness

        self.client = Client(
            registration(url, timeout_ms),
            source="urn:example:bench",
            harness=Harness("bench", "1"),
        )

    def call(self) -> bool:
        return self.client.tool_before(name="Bash", call_id="c", input=INPUT).may_execute

    def close(self) -> None:
        self.client.close()


class AhpSyncDefault(AhpSync):
    """This library as ``pip install ahp-sync`` gives it: without ``jsonschema-rs``."""

    def __init__(self, url: str, timeout_ms: int) -> None:
        sys.modules["jsonschema_rs"] = None  # type: ignore[assignment]
        super().__init__(url, timeout_ms)
        from ahp_sync.protocol.validation import engine

        assert engine() == "jsonschema", engine()


class AhpSyncFast(AhpSync):
    """This library as ``pip install 'ahp-sync[fast]'`` gives it."""

    def __init__(self, url: str, timeout_ms: int) -> None:
        super().__init__(url, timeout_ms)
        from ahp_sync.protocol.validation import engine

        assert engine() == "jsonschema-rs", engine()


class Official:
    """The official asynchronous SDK, as a synchronous program reaches it: a blocking portal."""

    def __init__(self, url: str, timeout_ms: int) -> None:
        from anyio.from_thread import start_blocking_portal

        self.owner = start_blocking_portal()
        self.portal = self.owner.__enter__()
        self.hooks = self.portal.call(self.open, registration(url, timeout_ms))

    @staticmethod
    async def open(document: dict[str, Any]) -> Any:
        from agenthooksprotocol import Hooks, capability, event

        before = capability.ToolBeforeCapabilities(
            intercept=capability.ToolBeforeIntercept(deny=True)
        )
        hooks = Hooks(
            document,
            source="urn:example:bench",
            capabilities=capability.HostCapabilities(tool_before=before),
            harness=event.Harness(name="bench", version="1"),
        )
        return await hooks.__aenter__()

    async def ask(self) -> bool:
        from agenthooksprotocol import Permission, event, state

        tool = event.ToolBeforeInput(
            call_id="c", name="Bash", path="native", origin="native", input=INPUT
        )
        result = await self.hooks.tool_before(tool, initial_state=state.initial(Permission.NONE))
        return bool(result.permission != Permission.DENY)

    def call(self) -> bool:
        return bool(self.portal.call(self.ask))

    def close(self) -> None:
        self.portal.call(self.hooks.aclose)
        self.owner.__exit__(None, None, None)


PEERS = {
    "bare": Bare,
    "ahp_sync": AhpSync,
    "default": AhpSyncDefault,
    "fast": AhpSyncFast,
    "official": Official,
}


class Remote:
    """A peer in a process of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def times(self, calls: int) -> list[float]:
        """Have it call so often; returns the seconds of each call."""
        assert self.process.stdin is not None and self.process.stdout is not None
        print(calls, file=self.process.stdin, flush=True)
        times: list[float] = json.loads(self.process.stdout.readline())
        return times


@contextlib.contextmanager
def remote(name: str, url: str, timeout_ms: int) -> Iterator[Remote]:
    """Start a peer and yield it; it is ended at the end."""
    arguments = [sys.executable, "-m", "benchmarks.peers", name, url, str(timeout_ms)]
    with subprocess.Popen(
        arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield Remote(process)
        assert process.stdin is not None
        process.stdin.close()


def serve(name: str, url: str, timeout_ms: int) -> None:
    peer: Peer = PEERS[name](url, timeout_ms)
    for line in sys.stdin:
        times = []
        for _ in range(int(line)):
            started = time.perf_counter()
            allowed = peer.call()
            times.append(time.perf_counter() - started)
            assert allowed, f"{name} did not get its answer"
        print(json.dumps(times), flush=True)
    peer.close()


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2], int(sys.argv[3]))
