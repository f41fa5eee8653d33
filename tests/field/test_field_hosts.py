"""Field bugs of host programs: how they end, fork, share threads, and carry context.

A test names the row of the list of field bugs that it belongs to, and does what the row says.
"""

from __future__ import annotations

import contextvars
import json
import logging
import signal
import ssl
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Callable, Optional

import pytest
import trustme
from watching import GENEROUS, SLACK, host, launch, timed, workers_are_free

from ahp_sync import AuditRecord, Budget, Client, Outcome, ToolDenied
from ahp_sync.testing import (
    AuditLog,
    HttpBackend,
    StdioBackend,
    assert_denied,
    assert_proceeds,
    assert_synthetic_denial,
    hooks,
    intercept,
    observe,
    step,
)
from ahp_sync.transports.base import Message, Reply

Backend = Any
Clients = Callable[..., Client]

#: What a stuck or late machine may add to a bound of whole seconds.
EXIT_SLACK = 1.0
#: Seconds within which a program is gone after its main function returned (``close_timeout``).
EXIT = 2.0


def ask(client: Client, **more: Any) -> Outcome:
    return client.tool_before(name="Bash", **{"input": {"command": "ls"}, **more})


@pytest.fixture
def start(
    ahp_http_backend: Callable[..., HttpBackend], ahp_stdio_backend: Callable[..., StdioBackend]
) -> Callable[..., Backend]:
    """``start(transport, script)`` starts a backend."""

    def start(transport: str, script: Any) -> Backend:
        if transport == "http":
            return ahp_http_backend(script)
        return ahp_stdio_backend(script, lifecycle=transport)

    return start


# --- F05, F29: the end ---------------------------------------------------------------------------

HUNG = {"http": "blackhole", "persistent": "silent", "per_event": "silent"}


@pytest.mark.parametrize("close", ["hooks.close()", "", "del hooks"], ids=["close", "kept", "del"])
@pytest.mark.parametrize("transport", HUNG)
def test_f05_a_hung_delivery_does_not_keep_the_interpreter(
    transport: str, close: str, start: Callable[..., Backend]
) -> None:
    """F05: with and without ``close``; nothing on stderr, and no process left."""
    backend = start(transport, HUNG[transport])
    code = f"""
        import json
        hooks = client(json.loads(sys.argv[1]))
        outcome = ask(hooks)
        assert outcome.synthetic, outcome
        {close}
        print(time.monotonic())
    """
    done = host(code, json.dumps(backend.registration(timeout_ms=300)), flags=("-W", "error"))
    ended = time.monotonic()
    assert (done.status, done.stderr) == (0, "")
    assert ended - float(done.stdout) <= EXIT + EXIT_SLACK
    if isinstance(backend, StdioBackend):
        assert backend.wait_until_gone(1.0)


@pytest.mark.parametrize("close", ["hooks.close()", ""], ids=["close", "kept"])
def test_f05_a_worker_that_nothing_reaches_does_not_either(close: str) -> None:
    """F05: it is stuck in name resolution for 30 s."""
    registration = hooks(
        {
            "id": "com.example.stuck",
            "transport": {"type": "http", "url": "http://localhost:9/ahp"},
            "subscriptions": [intercept(timeout_ms=300)],
        }
    )
    code = f"""
        import json, socket
        socket.getaddrinfo = lambda *more, **options: time.sleep(30)
        hooks = client(json.loads(sys.argv[1]))
        assert ask(hooks).synthetic
        {close}
        print(time.monotonic())
    """
    done = host(code, json.dumps(registration), flags=("-W", "error"))
    assert (done.status, done.stderr) == (0, "")
    assert done.seconds <= 0.3 + EXIT + 2 * EXIT_SLACK


@pytest.mark.parametrize("transport", HUNG)
@pytest.mark.parametrize("mode", ["intercept", "observe"])
def test_f29_ctrl_c_ends_the_wait_and_the_program(
    mode: str, transport: str, start: Callable[..., Backend]
) -> None:
    """F29: KeyboardInterrupt comes within half a second, is no decision, and is audited.

    The program is gone within the bound for its exit, and so are its processes.
    """
    if mode == "observe" and transport != "http":
        transport_script: Any = "never_reads"
    else:
        transport_script = HUNG[transport]
    backend = start(transport, transport_script)
    subscription = intercept(timeout_ms=20_000) if mode == "intercept" else observe()
    code = """
        import json
        log = AuditLog()
        hooks = client(json.loads(sys.argv[1]), audit=log, observe_timeout=20.0)
        print("asking", flush=True)
        try:
            outcome = ask(hooks, **json.loads(sys.argv[2]))
        except KeyboardInterrupt:
            print(time.monotonic(), [str(one.kind) for one in log], flush=True)
        else:
            print("an outcome", outcome, flush=True)
    """
    more = {} if mode == "intercept" else {"input": {"command": "x" * 8_000_000}}
    registration = backend.registration(subscriptions=[subscription])
    with launch(code, json.dumps(registration), "{}" if not more else BIG) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "asking\n"
        waiting = backend.wait_requests if transport == "http" else backend.wait_processes
        assert waiting(1)
        time.sleep(0.5)
        interrupted = time.monotonic()
        process.send_signal(signal.SIGINT)
        try:
            stdout, stderr = process.communicate(timeout=GENEROUS)
        finally:
            process.kill()
    ended = time.monotonic()
    assert (process.returncode, stderr) == (0, "")
    when, _, kinds = stdout.partition(" ")
    assert float(when) - interrupted <= 0.5
    if mode == "intercept":
        assert kinds.strip() == "['interrupted']"
    assert ended - interrupted <= EXIT + EXIT_SLACK
    if isinstance(backend, StdioBackend):
        assert backend.wait_until_gone(1.0)
