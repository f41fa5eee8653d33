"""The backends of the demo: real processes, and real faults that befall them."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Iterator, Optional

from ahp_sync import Budget, examples

__all__ = ["Stage"]

_HTTP_BACKEND, _STDIO_BACKEND = (
    Path(examples.__file__).with_name(name) for name in ("http_backend.py", "stdio_backend.py")
)
# The examples need the standard library only; isolated, nothing of the user's can get in the way.
_PYTHON = (sys.executable, "-I")
# How long starting or stopping a process may take on a busy machine.
_SECONDS = 15.0

_POLICY = {"deny": [{"path": "*.pem", "reason": "Keys are for people only."}]}


class Stage:
    """Starts the HTTP backend in ``folder`` and says how to register both; a context manager.

    The stdio backend is started by the client, as every stdio backend is. Raises :class:`OSError`
    where the HTTP backend does not start.
    """

    #: Deadlines of the two interceptors, in milliseconds.
    HTTP_MS, STDIO_MS = 1000, 3000

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._policy = folder / "policy.json"
        self._policy.write_text(json.dumps(_POLICY))
        self._journal = folder / "observed.jsonl"
        self._process = subprocess.Popen(
            [
                *_PYTHON,
                str(_HTTP_BACKEND),
                "--port=0",
                f"--journal={self._journal}",
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            # Out of reach of a Ctrl-C: it is ended below, in order.
            start_new_session=True,
        )
        try:
            self.url = self._address()
        except BaseException:
            self.close()
            raise

    def _address(self) -> str:
        budget, said = Budget(_SECONDS), b""
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        while not said.endswith(b"\n"):
            ready, _, _ = select.select([descriptor], [], [], budget.remaining())
            piece = os.read(descriptor, 1024) if ready else b""
            if not piece:
                raise OSError("the demo's HTTP backend did not start")
            said += piece
        return said.decode().split()[-1]

    # --- how they are registered ---

    def guarded(self) -> dict[str, Any]:
        """Return a registration by which both backends are asked, and one told."""
        return _registration(
            _http(self.url, _intercept(self.HTTP_MS, "fail-closed"), _observe("tool.after")),
            {
                "id": "com.example.files",
                "transport": {
                    "type": "stdio",
                    "command": _PYTHON[0],
                    "args": [*_PYTHON[1:], str(_STDIO_BACKEND), str(self._policy)],
                    "lifecycle": "persistent",
                },
                "subscriptions": [_intercept(self.STDIO_MS, "fail-open")],
            },
        )

    def watched(self) -> dict[str, Any]:
        """Return a registration by which one backend is told, and none asked."""
        return _registration(_http(self.url, _observe("tool.before", "tool.after")))

    # --- what befalls them ---

    @contextlib.contextmanager
    def hung_http_backend(self) -> Iterator[None]:
        """Stop the HTTP backend, meanwhile: it still accepts connections and never answers."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            self._await_stop()
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def _await_stop(self) -> None:
        # A signal is on its way for a while, in which a thread can answer one more request.
        budget = Budget(_SECONDS)
        while os.waitpid(self._process.pid, os.WUNTRACED | os.WNOHANG) == (0, 0):
            budget.sleep(0.001)
            if budget.ended:
                raise OSError("the demo's HTTP backend did not stop")

    @contextlib.contextmanager
    def crashing_stdio_backend(self) -> Iterator[None]:
        """Take the stdio backend's policy away, meanwhile: it ends, as often as it is started."""
        hidden = self._policy.with_suffix(".hidden")
        self._policy.rename(hidden)
        try:
            yield
        finally:
            hidden.rename(self._policy)

    # --- what came of it ---

    def was_told_of(self, call_id: str, event_type: str) -> bool:
        """Return whether the HTTP backend has noted this event of this call."""
        lines = self._journal.read_text().splitlines() if self._journal.exists() else []
        events = [json.loads(line) for line in lines]
        return any(e["call"]["id"] == call_id and e["type"] == event_type for e in events)

    def close(self) -> None:
        """End the HTTP backend, stopped or not."""
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def __enter__(self) -> Stage:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()


def _registration(*backends: dict[str, Any]) -> dict[str, Any]:
    return {"protocolVersion": "draft", "hooks": list(backends)}


def _http(url: str, *subscriptions: dict[str, Any]) -> dict[str, Any]:
    transport = {"type": "http", "url": url}
    return {"id": "com.example.shell", "transport": transport, "subscriptions": [*subscriptions]}


def _intercept(timeout_ms: int, policy: str) -> dict[str, Any]:
    return {
        "events": ["tool.before"],
        "mode": "intercept",
        "timeoutMs": timeout_ms,
        "failurePolicy": policy,
        "content": {"default": "body"},
    }


def _observe(*events: str) -> dict[str, Any]:
    return {"events": [*events], "mode": "observe", "content": {"default": "body"}}
