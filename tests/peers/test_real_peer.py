"""Tool calls gated through the official SDK's own servers, over HTTP and over stdio."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Iterator

import pytest
from peer import Peer, Server, asks, is_told
from watching import eventually

from ahp_sync import AuditKind, Client, Decision, FailureClass, ToolDenied
from ahp_sync.testing import assert_audit, assert_failed_open, assert_synthetic_denial

pytest.importorskip(
    "agenthooksprotocol", reason="the official SDK is not installed (it needs Python 3.11)"
)
pytest.importorskip("uvicorn", reason="uvicorn, which serves the official SDK, is not installed")

KINDS = ("http", "persistent", "per_event")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("peer") / "log")
    yield server
    server.close()


@pytest.fixture(params=KINDS)
def peer(request: pytest.FixtureRequest, server: Server, tmp_path: Path) -> Iterator[Peer]:
    if request.param == "http":
        peer = Peer("http", server.log, server.url)
    else:
        peer = Peer(request.param, tmp_path / "log")
    yield peer
    peer.close()


def only(*kinds: str) -> pytest.MarkDecorator:
    """Use these kinds of peer instead of all three."""
    return pytest.mark.parametrize("peer", kinds, indirect=True)


def allowed(client: Client, name: str = "Read", **input: Any) -> None:
    outcome = client.tool_before(name=name, input=input)
    assert outcome.decision is Decision.PROCEED, outcome
    assert not outcome.failures


def who(client: Client) -> int:
    """Return the connection's port or the process that served a call."""
    return int(str(client.tool_before(name="who", input={}).reason))


# --- decisions --------------------------------------------------------------------------------


def test_a_call_nobody_objects_to_proceeds(peer: Peer) -> None:
    """A neutral answer of the SDK lets the call run, and is recorded as accepted."""
    allowed(peer.client())
    assert [record.kind for record in peer.records] == [AuditKind.ACCEPTED]


def test_a_denial_comes_with_the_backends_reason(peer: Peer) -> None:
    """R-FAIL-02: an explicit denial is no failure, and is told apart from a synthetic one."""
    outcome = peer.client().tool_before(name="deny", input={"command": "rm -rf ⟨/⟩ 🌍"})
    assert outcome.decision is Decision.DENY
    assert outcome.reason == "rm -rf ⟨/⟩ 🌍 is not allowed"
    assert not outcome.synthetic
    assert not outcome.failures
    assert [record.kind for record in peer.records] == [AuditKind.EXPLICIT_DENIAL]


def test_the_event_arrives_as_the_host_said_it(peer: Peer) -> None:
    """What the SDK's handler is given is what the outcome says was asked."""
    outcome = peer.client().tool_before(
        name="Write",
        input={"text": 'a"b\\c\u2028\x00', "deep": [{"n": [1, -2.5, 1e300, 10**40, None, True]}]},
        call_id="call-1",
        session={"id": "s-1", "cwd": "/tmp", "counters": {"turns": 3}},
        turn={"id": "t-1"},
        extensions={"com.example.trace": {"id": 7}},
    )
    [line] = peer.logged("intercept", 1)
    assert line["event"] == outcome.event


@pytest.mark.parametrize(
    ("policy_of_peer", "tool", "policy", "failure_class", "code"),
    [
        ("guard", "raise", "fail-open", FailureClass.RPC_ERROR, -32004),
        ("guard", "overstep", "fail-closed", FailureClass.RPC_ERROR, -32603),
        ("observer", "Read", "fail-closed", FailureClass.UNSUPPORTED, -32002),
    ],
    ids=["handler raises", "handler oversteps its grants", "no handler"],
)
def test_an_error_response_goes_to_the_policy(
    peer: Peer,
    policy_of_peer: str,
    tool: str,
    policy: str,
    failure_class: FailureClass,
    code: int,
) -> None:
    """R-ERR-02, R-FAIL-01: the SDK's own error answers are failures of their class."""
    client = peer.client(peer.entry(asks(policy), policy=policy_of_peer))
    outcome = client.tool_before(name=tool, input={})
    if policy == "fail-open":
        assert_failed_open(outcome, failure_class=failure_class)
    else:
        assert_synthetic_denial(outcome, failure_class=failure_class)
    assert_audit(peer.records, failure_class=failure_class, rpc_code=code, attempts=1)


# --- observation ------------------------------------------------------------------------------


def test_tool_before_is_observed_after_it_is_settled(peer: Peer) -> None:
    """R-OBS-01: the interceptor is asked first, then the observer is told the same event."""
    client = peer.client(peer.entry(asks(), is_told()))
    outcome = client.tool_before(name="Read", input={"path": "a"}, call_id="call-1")
    assert outcome.may_execute
    [line] = peer.logged("observe", 1)
    assert line["event"] == outcome.event
    assert len(peer.logged("intercept", 1)) == 1


def test_a_denied_call_is_observed(peer: Peer) -> None:
    """R-OBS-02: an observer is told of a call that may not run as well."""
    client = peer.client(peer.entry(asks(), is_told()))
    assert not client.tool_before(name="deny", input={"command": "x"}).may_execute
    [line] = peer.logged("observe", 1)
    assert line["event"]["tool"]["name"] == "deny"


def test_an_interceptor_that_was_not_called_is_told(peer: Peer) -> None:
    """R-OBS-02: after a denial the next interceptor gets a notification instead of a request."""
    client = peer.client(
        peer.entry(asks(), id="com.example.first"), peer.entry(asks(), id="com.example.second")
    )
    assert not client.tool_before(name="deny", input={"command": "x"}).may_execute
    assert len(peer.logged("observe", 1)) == 1
    assert len(peer.logged("intercept", 1)) == 1


AFTER: dict[str, dict[str, Any]] = {
    "ok": {"output": "done", "duration_ms": 12.5},
    "error": {"error": {"message": "no such file", "class": "OSError"}, "duration_ms": 1},
    "denied": {},
    "cancelled": {"execution": {"status": "skipped", "reason": "cancelled"}},
    "timeout": {"execution": {"status": "executed"}, "duration_ms": 30_000},
}


def test_tool_after_is_observed_in_every_outcome(peer: Peer) -> None:
    """The five outcomes of a call are valid messages for the SDK, and arrive whole."""
    client = peer.client(peer.entry(is_told()))
    outcomes = ["ok", "error"] if peer.kind == "per_event" else list(AFTER)  # it is slow to start
    told = [
        client.tool_after(
            name="Bash", input={"command": "ls"}, call_id=outcome, outcome=outcome, **AFTER[outcome]
        )
        for outcome in outcomes
    ]
    assert [one.decision for one in told] == [Decision.PROCEED] * len(outcomes)
    lines = peer.logged("observe", len(outcomes))
    arrived = {line["event"]["outcome"]: line["event"] for line in lines}
    assert arrived == {one.event["outcome"]: one.event for one in told}
    assert len(peer.records) == 0


def test_a_session_is_observed_from_start_to_end(peer: Peer) -> None:
    """``session.start`` with our own manifest, and ``session.end``, are valid for the SDK."""
    client = peer.client(peer.entry(is_told()))
    told = [
        client.session_start(session="s-1"),
        client.session_start(session="s-2", trigger="fork", resumed_from="s-1"),
        client.session_end(session="s-1", counters={"turns": 2}),
        client.session_end(session="s-2", outcome="cancelled", reason="the user left"),
    ]
    lines = peer.logged("observe", len(told))
    arrived = {line["event"]["id"]: line["event"] for line in lines}
    assert arrived == {one.event["id"]: one.event for one in told}


def test_an_observer_without_a_handler_changes_nothing(peer: Peer) -> None:
    """R-ERR-03: a notification never gets an error, so there is nothing to record."""
    client = peer.client(peer.entry(asks(), policy="observer"), peer.entry(is_told()))
    client.session_start(session="s-1")
    assert peer.logged("observe", 1)[0]["event"]["type"] == "session.start"
    assert len(peer.records) == 0


# --- processes and connections ----------------------------------------------------------------


@only("http", "persistent")
def test_one_connection_or_process_serves_call_after_call(peer: Peer) -> None:
    """Keep-alive over HTTP, one persistent process over stdio."""
    client = peer.client(peer.entry(asks(), is_told()))
    served = [who(client) for _ in range(20)]
    assert len(set(served)) == 1
    assert {line["who"] for line in peer.logged("observe", 20)} == set(served)


@only("per_event")
def test_each_event_has_a_process_of_its_own(peer: Peer) -> None:
    """R-STD-05: a per-event backend is started anew for every message, and ended."""
    client = peer.client()
    served = [who(client) for _ in range(3)]
    assert len(set(served)) == 3
    assert eventually(lambda: not any(map(is_alive, served)))


def test_concurrent_callers_get_their_own_answers(peer: Peer) -> None:
    """Eight threads at once on one backend: nobody gets what was meant for another."""
    calls = 8 if peer.kind == "per_event" else 80  # the SDK takes long to start
    client = peer.client(stdio_processes=2)

    def ask(number: int) -> str:
        outcome = client.tool_before(name="deny", input={"command": f"command {number}"})
        assert not outcome.failures
        return str(outcome.reason)

    with ThreadPoolExecutor(8) as threads:
        reasons = list(threads.map(ask, range(calls)))
    assert reasons == [f"command {number} is not allowed" for number in range(calls)]


@only("persistent")
def test_one_id_never_goes_twice_down_one_process(peer: Peer) -> None:
    """R-STD-07, trap T-01: the SDK lets a duplicate answer settle the next request of one id."""
    client = peer.client(peer.entry(asks(), asks()))
    allowed(client)
    first, second = peer.logged("intercept", 2)
    assert first["event"]["id"] == second["event"]["id"]
    assert first["who"] != second["who"]


@only("persistent")
def test_a_dead_process_is_replaced(peer: Peer) -> None:
    """F48: the backend is back with the next call, without a new client."""
    client = peer.client()
    dead = who(client)
    os.kill(dead, signal.SIGKILL)
    assert who(client) != dead


@only("persistent")
def test_closing_ends_the_process(peer: Peer) -> None:
    """R-SHUT-01: no process is left behind."""
    client = peer.client()
    served = who(client)
    client.close()
    assert not is_alive(served)


# --- credentials, and the whole way -----------------------------------------------------------

BEARER = {"type": "bearer", "tokenEnv": "PEER_TOKEN"}


@only("http")
def test_a_protected_backend_takes_the_token(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    """R-AUTH-01: the token is read from the environment at delivery."""
    from sdk_backend import TOKEN

    monkeypatch.setenv("PEER_TOKEN", TOKEN)
    allowed(peer.client(peer.entry(asks(), policy="protected", authentication=BEARER)))


@only("http")
@pytest.mark.parametrize("token", ["wrong", None])
def test_a_protected_backend_without_the_token_is_a_failure(
    peer: Peer, monkeypatch: pytest.MonkeyPatch, token: str | None
) -> None:
    """R-AUTH-02: a wrong or missing token is an authentication failure, tried once."""
    monkeypatch.delenv("PEER_TOKEN", raising=False)
    if token is not None:
        monkeypatch.setenv("PEER_TOKEN", token)
    client = peer.client(peer.entry(asks(), policy="protected", authentication=BEARER))
    outcome = client.tool_before(name="Read", input={})
    assert_synthetic_denial(outcome, failure_class=FailureClass.AUTHENTICATION)
    assert_audit(peer.records, failure_class=FailureClass.AUTHENTICATION, attempts=1)


@only("http", "persistent")
def test_a_guarded_function_is_asked_about_and_told_about(peer: Peer) -> None:
    """The whole way of a tool: before, run, after; and a denial instead of a run."""
    client = peer.client(peer.entry(asks(), is_told(events=["tool.after"])))
    runs = []

    def run(command: str) -> str:
        runs.append(command)
        return f"ran {command}"

    assert client.guard(run)(command="ls") == "ran ls"
    with pytest.raises(ToolDenied, match="rm is not allowed"):
        client.guard(run, name="deny")(command="rm")
    assert runs == ["ls"]
    lines = peer.logged("observe", 2)
    told = {line["event"]["outcome"]: line["event"] for line in lines}
    assert told["ok"]["items"][0]["parts"][0]["text"] == "ran ls"
    assert told["denied"]["execution"] == {"status": "skipped", "reason": "policy"}


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
