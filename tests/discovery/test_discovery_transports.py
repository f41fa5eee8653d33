"""Backends that are asked over real HTTP and stdio, and the official SDK's servers among them."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, Union

import pytest
from asked import configuration_result, subscribed, wants
from inprocess import GENEROUS, SLACK
from watching import eventually

from ahp_sync import Budget
from ahp_sync.capabilities import Capabilities
from ahp_sync.protocol.events import Mode
from ahp_sync.protocol.messages import Message
from ahp_sync.registration import Registration
from ahp_sync.retry import RetryPolicy
from ahp_sync.runtime import Runtime
from ahp_sync.testing import HttpBackend, hooks, step
from ahp_sync.testing.answers import result
from ahp_sync.transports.factory import TransportFactory

#: Seconds for a backend whose interpreter has to start first, perhaps on a busy machine.
STARTING = 60.0


@contextmanager
def asking(
    *entries: dict[str, Any], seconds: float = GENEROUS, **options: Any
) -> Iterator[Runtime]:
    """Make a runtime of these registered backends, with transports of its own."""
    registration = Registration.load(hooks(*entries))
    factory = TransportFactory(
        registration, injected={}, stdio_processes=1, tls={}, proxies={}, trust_env=False
    )
    transports, owned, _ = factory.make()
    runtime = Runtime(
        registration,
        transports,
        owned,
        retry=RetryPolicy(),
        max_workers=4,
        capabilities=Capabilities(),
        discovery_seconds=seconds,
        **options,
    )
    try:
        yield runtime
    finally:
        runtime.close(GENEROUS)


def over_http(backend: HttpBackend, **transport: Any) -> dict[str, Any]:
    """Return the backend's entry, without subscriptions."""
    return {"id": "com.example.http", "transport": {**backend.transport(), **transport}}


def exchange(runtime: Runtime, number: int = 0, rpc_id: str = "id-1") -> Any:
    """Send something down a discovered route and return what comes back."""
    route = runtime.routes(Mode.INTERCEPT, "tool.before")[number]
    request = {"jsonrpc": "2.0", "id": rpc_id, "method": "hooks/intercept", "params": {}}
    reply = route.transport.exchange(
        Message(json.dumps(request).encode(), rpc_id), Budget(STARTING)
    )
    assert reply is not None
    return json.loads(reply.body)


# --- HTTP -----------------------------------------------------------------------------------------


def says(*subscriptions: Any, **status: Any) -> Callable[[Any], Any]:
    """Answers configuration requests with these subscriptions, and the rest with a success."""

    def answer(request: Any) -> Any:
        if request.message["method"] != "hooks/configuration":
            return "ok"
        body = result(request.rpc_id, configuration_result(*subscriptions))
        return step("status", answer=body, **{"code": 200, **status})

    return answer


def test_http_with_its_headers_and_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """The request goes the way of events, credentials and all; the connection serves both."""
    monkeypatch.setenv("ASKED_TOKEN", "token-1")
    monkeypatch.setenv("ASKED_KEY", "key-1")
    headers = {"X-Team": "blue", "X-Key": {"valueEnv": "ASKED_KEY"}}
    with HttpBackend(says(wants())) as backend:
        entry = over_http(backend, headers=headers)
        entry["authentication"] = {"type": "bearer", "tokenEnv": "ASKED_TOKEN"}
        with asking(entry) as runtime:
            assert runtime.discover(Budget(GENEROUS))
            assert len(subscribed(runtime)) == 1
            assert exchange(runtime)["id"] == "id-1"
        first, second = backend.requests
    assert first.message["method"] == "hooks/configuration"
    assert first.header("Authorization") == "Bearer token-1"
    assert (first.header("X-Team"), first.header("X-Key")) == ("blue", "key-1")
    assert first.header("Content-Type") == "application/json"
    assert (first.connection, second.connection) == (1, 1)


@pytest.mark.parametrize(
    ("script", "detail"),
    [
        (says(wants(), code=201), "http_status/http_201: HTTP 201 is not 200"),
        ("no_content", "http_status/http_204"),
        ("redirect_307", "http_status/http_307"),
        ("status_503", "http_status/http_503"),
        ("status_401", "authentication/unauthorized"),
        ("html", "malformed/not_json"),
        ("ok", "missing_result/no_configuration"),
        ("wrong_id", "id_mismatch/id_mismatch"),
        ("reset", "connection/"),
        ("echo_headers_raw", "malformed/not_json"),
        ("echo_headers", "missing_result/no_configuration"),
    ],
)
def test_http_answers_that_are_none(
    script: Any, detail: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Each leaves the backend out after one request, and shows nothing of what was sent."""
    monkeypatch.setenv("ASKED_TOKEN", "token-1")
    with HttpBackend(script) as backend:
        entry = over_http(backend)
        entry["authentication"] = {"type": "bearer", "tokenEnv": "ASKED_TOKEN"}
        with asking(entry) as runtime:
            assert runtime.discover(Budget(GENEROUS))
            (diagnostic,) = runtime.configuration_diagnostics
            assert subscribed(runtime) == []
            assert backend.wait_closed(), "the connection stays open, though nobody needs it"
        assert len(backend.requests) == 1
    assert diagnostic.reason == "configuration_unavailable"
    assert diagnostic.detail.startswith(detail)
    assert "token-1" not in repr(diagnostic) + caplog.text


def test_without_its_credential_a_backend_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing goes out without it, and none is looked for elsewhere (R-AUTH-02)."""
    monkeypatch.delenv("ASKED_TOKEN", raising=False)
    with HttpBackend(says(wants())) as backend:
        entry = over_http(backend)
        entry["authentication"] = {"type": "bearer", "tokenEnv": "ASKED_TOKEN"}
        with asking(entry) as runtime:
            assert runtime.discover(Budget(GENEROUS))
            (diagnostic,) = runtime.configuration_diagnostics
        assert backend.connections == 0
    assert diagnostic.detail.startswith("authentication/credential_missing")


@pytest.mark.parametrize("script", ["blackhole", "drip_body", "drip_header", "endless_continue"])
def test_http_backends_that_never_end(script: str) -> None:
    """The time for asking covers all of the answer, and the connection is given up with it."""
    with HttpBackend(script) as backend, asking(over_http(backend), seconds=0.3) as runtime:
        started = time.monotonic()
        assert runtime.discover(Budget(GENEROUS))
        assert time.monotonic() - started < 0.3 + SLACK
        (diagnostic,) = runtime.configuration_diagnostics
        assert diagnostic.detail == "no answer within 0.3 s"
        assert backend.wait_closed()


# --- stdio ----------------------------------------------------------------------------------------

CHILD = """
import json, os, sys, time
mistake, subscriptions = sys.argv[1], json.loads(sys.argv[2])
if mistake == "exit":
    sys.exit(3)
for line in sys.stdin:
    request = json.loads(line)
    result = {"protocolVersion": "draft", "pid": os.getpid()}
    if request["method"] == "hooks/configuration":
        result["configuration"] = {"subscriptions": subscriptions}
    if mistake == "banner":
        print("hello", flush=True)
    if mistake == "hang":
        time.sleep(60)
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
"""


def over_stdio(
    folder: Path, *subscriptions: Any, mistake: str = "", lifecycle: str = "persistent"
) -> dict[str, Any]:
    """Return the entry of a child that answers with these subscriptions, without any."""
    program = folder / "child.py"
    program.write_text(textwrap.dedent(CHILD))
    transport = {
        "type": "stdio",
        "command": sys.executable,
        "args": ["-S", "-E", str(program), mistake, json.dumps(subscriptions)],
        "lifecycle": lifecycle,
    }
    return {"id": "com.example.stdio", "transport": transport}


def test_a_persistent_process_serves_on(tmp_path: Path) -> None:
    """The one that was asked is the one that decides; one id never goes twice down it."""
    entry = over_stdio(tmp_path, wants(), wants())
    with asking(entry, seconds=STARTING) as runtime:
        assert runtime.discover(Budget(STARTING))
        assert [one.index for one in subscribed(runtime)] == [0, 1]
        pids = [exchange(runtime, 0, f"id-{number}")["result"]["pid"] for number in range(3)]
        assert len(set(pids)) == 1
        assert exchange(runtime, 1, "id-2")["result"]["pid"] != pids[0]


def test_a_process_for_every_event_is_asked_like_any_other(tmp_path: Path) -> None:
    """With a process for the one question."""
    entry = over_stdio(tmp_path, wants(), lifecycle="per_event")
    with asking(entry, seconds=STARTING) as runtime:
        assert runtime.discover(Budget(STARTING))
        assert runtime.configuration_diagnostics == ()
        assert exchange(runtime)["id"] == "id-1"


@pytest.mark.parametrize("lifecycle", ["persistent", "per_event"])
@pytest.mark.parametrize(
    ("mistake", "detail"),
    [("exit", ("process/", "connection/")), ("banner", "malformed/"), ("hang", "no answer within")],
)
def test_a_process_that_is_left_out_is_ended(
    mistake: str, detail: Union[str, tuple[str, ...]], lifecycle: str, tmp_path: Path
) -> None:
    """However it failed, nobody needs it any more."""
    entry = over_stdio(tmp_path, wants(), mistake=mistake, lifecycle=lifecycle)
    with asking(entry, seconds=STARTING if mistake != "hang" else 0.5) as runtime:
        assert runtime.discover(Budget(STARTING))
        (diagnostic,) = runtime.configuration_diagnostics
        assert diagnostic.reason == "configuration_unavailable"
        assert diagnostic.detail.startswith(detail)
        transport, *_ = runtime._owned
        assert eventually(lambda: "0 processes" in repr(transport))


def test_a_command_that_does_not_exist(tmp_path: Path) -> None:
    """It can't be asked, and that is said."""
    entry = over_stdio(tmp_path)
    entry["transport"]["command"] = str(tmp_path / "nothing")
    with asking(entry) as runtime:
        assert runtime.discover(Budget(GENEROUS))
        (diagnostic,) = runtime.configuration_diagnostics
    assert diagnostic.detail.startswith("process/launch_failed")


# --- the official SDK -----------------------------------------------------------------------------

PROGRAM = str(Path(__file__).with_name("sdk_asked.py"))


@pytest.fixture(scope="module")
def sdk() -> None:
    """Skip where the official SDK is missing."""
    pytest.importorskip(
        "agenthooksprotocol", reason="the official SDK is not installed (it needs Python 3.11)"
    )


@pytest.fixture(scope="module")
def sdk_url(sdk: None) -> Iterator[str]:
    """The address of the SDK's ASGI application."""
    pytest.importorskip("uvicorn", reason="uvicorn, which serves the SDK, is not installed")
    with subprocess.Popen(
        [sys.executable, PROGRAM, "http"], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        process.terminate()


def assert_is_adopted(entry: dict[str, Any]) -> None:
    with asking({"id": "com.example.sdk", **entry}, seconds=STARTING) as runtime:
        assert runtime.discover(Budget(STARTING))
        assert runtime.configuration_diagnostics == ()
        (subscription,) = subscribed(runtime)
        assert subscription.selectors == ("tool.*", "unknown.*")
        assert subscription.events == {"tool.before"}


def test_the_official_server_over_http(sdk_url: str) -> None:
    """Its answer is adopted."""
    assert_is_adopted({"transport": {"type": "http", "url": f"{sdk_url}/"}})


@pytest.mark.parametrize("lifecycle", ["persistent", "per_event"])
def test_the_official_server_over_stdio(lifecycle: str, sdk: None) -> None:
    """Likewise."""
    command = {"command": sys.executable, "args": [PROGRAM, "stdio"], "lifecycle": lifecycle}
    assert_is_adopted({"transport": {"type": "stdio", **command}})


def test_an_official_server_without_a_configuration(sdk_url: str) -> None:
    """It knows no such method, and is left out for that."""
    url = f"{sdk_url}/silent"
    with asking({"id": "com.example.sdk", "transport": {"type": "http", "url": url}}) as runtime:
        assert runtime.discover(Budget(GENEROUS))
        (diagnostic,) = runtime.configuration_diagnostics
    assert diagnostic.detail.startswith("rpc_error/rpc_error: the backend answered with JSON-RPC")
