"""Starting the official SDK's servers, and registering them with a client."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from watching import eventually

from ahp_sync import Client, Harness
from ahp_sync.testing import AuditLog, hooks, intercept, observe

PROGRAM = str(Path(__file__).with_name("sdk_backend.py"))
#: For what is over soon, except where the machine is busy compiling the SDK for the first time.
GENEROUS = 30.0


class Server:
    """The SDK's ASGI application under uvicorn, in a process of its own."""

    def __init__(self, log: Path) -> None:
        self.log = log
        self._process = subprocess.Popen(
            [sys.executable, PROGRAM, "http", str(log)], stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.url = f"http://127.0.0.1:{int(self._process.stdout.readline())}"

    def close(self) -> None:
        self._process.terminate()
        self._process.communicate(timeout=GENEROUS)


class Peer:
    """One way to reach the SDK's server: ``http``, ``persistent`` or ``per_event``."""

    def __init__(self, kind: str, log: Path, url: str = "") -> None:
        self.kind = kind
        self.records = AuditLog()
        self._url = url
        self._log = log
        self._seen = len(self._lines())
        self._clients: list[Client] = []

    def entry(
        self, *subscriptions: dict[str, Any], policy: str = "guard", id: str = "", **more: Any
    ) -> dict[str, Any]:
        """Return a backend's entry that leads to one of the peer's policies."""
        transport: dict[str, Any] = {"type": "http", "url": f"{self._url}/{policy}"}
        if self.kind != "http":
            transport = {
                "type": "stdio",
                "command": sys.executable,
                "args": [PROGRAM, "stdio", str(self._log), policy],
                "lifecycle": self.kind,
            }
        return {
            "id": id or f"com.example.{policy}",
            "transport": transport,
            "subscriptions": list(subscriptions) or [asks()],
            **more,
        }

    def client(self, *entries: dict[str, Any], **options: Any) -> Client:
        """Return a client of these backends; it is closed with the peer."""
        client = Client(
            hooks(*(entries or [self.entry()])),
            source="urn:example:peer-tests",
            harness=Harness("peer-tests", "1"),
            audit=self.records,
            observe_timeout=GENEROUS,
            **options,
        )
        self._clients.append(client)
        return client

    def logged(self, method: str, count: int) -> list[dict[str, Any]]:
        """Wait until ``count`` messages of a method have come, and return their log entries."""

        def lines() -> list[dict[str, Any]]:
            return [line for line in self._lines()[self._seen :] if line["method"] == method]

        assert eventually(lambda: len(lines()) >= count, GENEROUS), f"only {lines()}"
        return lines()

    def _lines(self) -> list[dict[str, Any]]:
        text = self._log.read_text() if self._log.exists() else ""
        return [json.loads(line) for line in text.splitlines()]

    def close(self) -> None:
        for client in self._clients:
            client.close()


def asks(policy: str = "fail-closed", **more: Any) -> dict[str, Any]:
    """Return an intercept subscription whose deadline leaves time for a start of the SDK."""
    return intercept(timeout_ms=int(GENEROUS * 1000), policy=policy, **more)


def is_told(**more: Any) -> dict[str, Any]:
    """Return an observe subscription to everything."""
    return observe(**more)
