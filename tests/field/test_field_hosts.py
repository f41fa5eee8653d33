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
    HttpBackend,
    StdioBackend,
    assert_denied,
    assert_proceeds,
    assert_synthetic_denial,
    hooks,
    intercept,
    observe,
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
    observes = mode == "observe"
    script = "never_reads" if observes and transport != "http" else HUNG[transport]
    backend = start(transport, script)
    subscription = observe() if observes else intercept(timeout_ms=20_000)
    code = """
        import json
        # A program that was started in the background by a shell ignores it otherwise.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        log = AuditLog()
        hooks = client(json.loads(sys.argv[1]), audit=log, observe_timeout=20.0)
        event = {"name": "Bash", "input": {"command": "x" * int(sys.argv[2])}}
        print("asking", flush=True)
        try:
            outcome = hooks.tool_before(**event)
        except KeyboardInterrupt:
            print(time.monotonic(), [str(one.kind) for one in log], flush=True)
        else:
            print("an outcome", outcome, flush=True)
    """
    registration = json.dumps(backend.registration(subscriptions=[subscription]))
    with launch(code, registration, "8000000" if observes else "1") as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "asking\n"
            waiting = backend.wait_requests if transport == "http" else backend.wait_processes
            assert waiting(1)
            time.sleep(0.5)  # not an event: the row says so, and the wait itself shows nowhere
            interrupted = time.monotonic()
            process.send_signal(signal.SIGINT)
            stdout, stderr = process.communicate(timeout=GENEROUS)
        finally:
            process.kill()
    ended = time.monotonic()
    assert (process.returncode, stderr) == (0, "")
    when, _, kinds = stdout.partition(" ")
    assert float(when) - interrupted <= 0.5
    if not observes:
        assert kinds.strip() == "['interrupted']"
    assert ended - interrupted <= EXIT + EXIT_SLACK
    if isinstance(backend, StdioBackend):
        assert backend.wait_until_gone(1.0)


# --- F14, F16: forks -----------------------------------------------------------------------------

# Python 3.12 and later warn of any fork with threads around, which is what these are about.
FORKING = ("-W", "ignore::DeprecationWarning")


@pytest.mark.parametrize("transport", HUNG)
def test_f14_a_forked_child_has_workers_of_its_own(
    transport: str, start: Callable[..., Backend]
) -> None:
    """F14: the parent's client is warm; the child is answered in time, and its close is bounded.

    The parent goes on as if nothing had been, also while the child closes.
    """
    backend = start(transport, "ok")
    code = """
        import json
        hooks = client(json.loads(sys.argv[1]))
        def call():
            began = time.monotonic()
            assert ask(hooks).may_execute
            assert time.monotonic() - began < 5.0
        for _ in range(3):
            call()
        children = []
        for _ in range(2):
            pid = os.fork()
            if pid == 0:
                call()
                began = time.monotonic()
                hooks.close()
                assert time.monotonic() - began < 2.5
                try:
                    call()
                except ClientClosed:
                    os._exit(0)
                os._exit(1)
            children.append(pid)
            call()
        for pid in children:
            assert os.waitpid(pid, 0)[1] == 0
            call()
        pid = os.fork()
        if pid == 0:  # a child that neither asks nor closes, and exits in order
            sys.exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        call()
        hooks.close()
        print("done")
    """
    registration = backend.registration(timeout_ms=5000)
    done = host(code, json.dumps(registration), flags=FORKING)
    assert (done.status, done.stdout, done.stderr) == (0, "done\n", ""), done.stderr
    if isinstance(backend, StdioBackend):
        assert backend.wait_until_gone(1.0)


def test_f14_forks_under_load_meet_no_lock(start: Callable[..., Backend]) -> None:
    """F14: whatever the parent's threads hold at the moment of the fork."""
    backends = [start(transport, "ok") for transport in ("http", "persistent")]
    entries = [
        backend.entry(id=f"com.example.b{n}", timeout_ms=10_000)
        for n, backend in enumerate(backends)
    ]
    code = """
        import json
        hooks = client(json.loads(sys.argv[1]), max_workers=4)
        stop = threading.Event()
        def work():
            while not stop.is_set():
                assert ask(hooks).may_execute
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(12):
            pid = os.fork()
            if pid == 0:
                signal.alarm(20)
                assert ask(hooks).may_execute
                hooks.close()
                os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0
        stop.set()
        for thread in threads:
            thread.join()
        hooks.close()
        print("done")
    """
    done = host(code, json.dumps(hooks(*entries)), flags=FORKING, seconds=60)
    assert (done.status, done.stdout, done.stderr) == (0, "done\n", ""), done.stderr


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_f16_no_connection_is_shared_across_a_fork(
    scheme: str, tmp_path: Path, ahp_http_backend: Callable[..., HttpBackend]
) -> None:
    """F16: two children and their parent, 50 events each; each reply is the caller's own.

    The parent had a connection open before. The server sees connections of each process alone.
    """

    def echo(request: Any) -> Any:
        return {"type": "deny", "reason": request.event["id"]}

    ca_file, context = "", None
    if scheme == "https":
        authority = trustme.CA()
        ca_file = str(tmp_path / "ca.pem")
        authority.cert_pem.write_to_path(ca_file)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(context)
    backend = ahp_http_backend(echo, tls=context)
    code = """
        import json
        registration = json.loads(sys.argv[1])
        tls = {registration["hooks"][0]["id"]: TLSIdentity(ca_file=sys.argv[2])}
        hooks = client(registration, tls=tls if sys.argv[2] else None)
        def calls(count):
            for n in range(count):
                event_id = f"{os.getpid()}-{n}"
                outcome = hooks.tool_before(
                    name="Bash", input={"pid": os.getpid()}, event_id=event_id
                )
                assert not outcome.synthetic, outcome
                assert outcome.reason == event_id, outcome
        calls(1)
        children = []
        for _ in range(2):
            pid = os.fork()
            if pid == 0:
                calls(50)
                os._exit(0)
            children.append(pid)
        calls(50)
        assert [os.waitpid(pid, 0)[1] for pid in children] == [0, 0]
        calls(1)
        print("done")
    """
    registration = json.dumps(backend.registration(timeout_ms=10_000))
    done = host(code, registration, ca_file, flags=FORKING)
    assert (done.status, done.stdout, done.stderr) == (0, "done\n", ""), done.stderr
    pids: dict[int, set[int]] = {}
    for request in backend.requests:
        pids.setdefault(request.connection, set()).add(request.event["tool"]["input"]["pid"])
    assert len(backend.requests) == 152
    assert sorted(map(len, pids.values())) == [1, 1, 1]
    assert len(set.union(*pids.values())) == 3


# --- F48: no lock-out ----------------------------------------------------------------------------


def test_f48_what_was_down_is_asked_again_when_it_is_up(
    ahp_http_backend: Callable[..., HttpBackend], ahp_client: Clients
) -> None:
    """F48: no breaker and no cached refusal; a client of a dead backend can be made and closed."""
    backend = ahp_http_backend("ok")
    registration = backend.registration(timeout_ms=2000)
    client = ahp_client(registration)
    assert_proceeds(ask(client))
    backend.down()
    for _ in range(3):
        assert_synthetic_denial(ask(client), failure_class="connection")
    other = ahp_client(registration)
    assert_synthetic_denial(ask(other), failure_class="connection")
    _, seconds = timed(other.close)
    assert seconds <= EXIT
    backend.up()
    assert_proceeds(ask(client))
    assert_proceeds(ask(ahp_client(registration)))


# --- F65: context --------------------------------------------------------------------------------

TENANT: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="nobody")


class Local:
    """A backend in this process: it does what ``act`` says, on the client's worker."""

    def __init__(self, act: Callable[[dict[str, Any]], Optional[str]]) -> None:
        self._act = act

    def exchange(self, message: Message, budget: Budget) -> Optional[Reply]:
        """Deny with what ``act`` returns, or let it pass."""
        received = json.loads(message.body)
        reason = self._act(received["params"]["event"])
        if message.rpc_id is None:
            return None
        effects = [] if reason is None else [{"type": "deny", "reason": reason}]
        result = {"protocolVersion": "draft", "effects": effects}
        body = json.dumps({"jsonrpc": "2.0", "id": message.rpc_id, "result": result})
        return Reply(body.encode())

    def close(self, budget: Budget) -> None:
        """Nothing to close."""


def local(*subscriptions: Any) -> tuple[str, dict[str, Any]]:
    """Return the id and the registration of a backend in this process."""
    entry = {
        "id": "com.example.local",
        "transport": {"type": "http", "url": "http://127.0.0.1:9/ahp"},
        "subscriptions": list(subscriptions or [intercept(timeout_ms=5000)]),
    }
    return "com.example.local", hooks(entry)


class TenantSink:
    """An audit sink that notes whose call a record belongs to, and who the context says it is."""

    def __init__(self) -> None:
        self.seen: list[tuple[Optional[str], str]] = []

    def write(self, record: AuditRecord) -> None:
        """Take one record."""
        self.seen.append((record.session, TENANT.get()))


def test_f65_workers_see_the_context_of_their_caller_and_keep_nothing(
    ahp_client: Clients, caplog: pytest.LogCaptureFixture
) -> None:
    """F65: two tenants at once, 100 rounds, four workers; backend, log and audit agree."""
    log = logging.getLogger("tests.tenants")
    logged: list[tuple[str, str]] = []

    class Tag(logging.Filter):
        def filter(self, record: logging.LogRecord) -> bool:
            logged.append((record.getMessage(), TENANT.get()))
            return True

    def act(event: dict[str, Any]) -> str:
        log.warning("%s", event["session"]["id"])
        found = TENANT.get()
        TENANT.set("left behind")
        return found

    tag, sink = Tag(), TenantSink()
    log.addFilter(tag)
    backend_id, registration = local()
    client = ahp_client(
        registration, transports={backend_id: Local(act)}, max_workers=4, audit=sink
    )
    together = threading.Barrier(2)

    def tenant(name: str) -> None:
        TENANT.set(name)
        for _ in range(100):
            together.wait(GENEROUS)
            assert_denied(ask(client, session=name), name)
            assert TENANT.get() == name

    try:
        with ThreadPoolExecutor(2) as callers:
            for call in [callers.submit(tenant, name) for name in ("red", "blue")]:
                call.result()
        fresh = contextvars.Context()
        assert_denied(fresh.run(lambda: ask(client, session="nobody")), "nobody")
    finally:
        log.removeFilter(tag)
    assert all(said == seen for said, seen in logged)
    assert all(said == seen for said, seen in sink.seen)
    assert (len(logged), len(sink.seen)) == (201, 201)


# --- F71: hooks within hooks ---------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["intercept", "observe"])
@pytest.mark.parametrize("how", ["call", "guard"])
def test_f71_a_hook_that_calls_a_hook_does_not_wait_for_itself(
    how: str, mode: str, ahp_client: Clients
) -> None:
    """F71: one worker, and a backend in this process that asks the same client once more."""
    depths: list[int] = []

    def act(event: dict[str, Any]) -> Optional[str]:
        depth = event["tool"]["input"]["depth"]
        depths.append(depth)
        return "deep enough" if depth == 1 else call(depth + 1)

    def call(depth: int) -> Optional[str]:
        if how == "call":
            return client.tool_before(name="Bash", input={"depth": depth}).reason
        try:
            client.guard(lambda depth: None, name="Bash")(depth)
        except ToolDenied as denied:
            return str(denied)
        return None

    subscription = intercept(timeout_ms=5000) if mode == "intercept" else observe(["tool.before"])
    backend_id, registration = local(subscription)
    client = ahp_client(
        registration, transports={backend_id: Local(act)}, max_workers=1, observe_timeout=5.0
    )
    outcome, seconds = timed(lambda: client.tool_before(name="Bash", input={"depth": 0}))
    assert seconds <= 1.0
    assert depths == [0, 1]
    if mode == "intercept":
        assert_denied(outcome, "deep enough")
    assert workers_are_free(client)


def test_f71_deep_nesting_is_served_or_saturated_in_time(ahp_client: Clients) -> None:
    """F71: no place is lent out for ever; every level is back by its own deadline."""
    times: list[float] = []

    def act(event: dict[str, Any]) -> Optional[str]:
        depth = event["tool"]["input"]["depth"]
        return call(depth + 1).reason if depth < 8 else "deep enough"

    def call(depth: int) -> Outcome:
        outcome, seconds = timed(lambda: client.tool_before(name="Bash", input={"depth": depth}))
        times.append(seconds)
        return outcome

    backend_id, registration = local(intercept(timeout_ms=500))
    client = ahp_client(registration, transports={backend_id: Local(act)}, max_workers=2)
    assert not call(0).may_execute
    assert workers_are_free(client)
    assert max(times) <= 0.5 + SLACK
    assert_denied(client.tool_before(name="Bash", input={"depth": 8}), "deep enough")


def test_f71_an_audit_sink_may_call_a_hook(ahp_client: Clients) -> None:
    """F71: the record is written outside every lock."""

    class Nesting:
        def __init__(self) -> None:
            self.depth = 0

        def write(self, record: AuditRecord) -> None:
            if self.depth < 3:
                self.depth += 1
                assert_proceeds(ask(client))

    sink = Nesting()
    backend_id, registration = local()
    client = ahp_client(
        registration, transports={backend_id: Local(lambda event: None)}, max_workers=1, audit=sink
    )
    assert_proceeds(ask(client))
    assert sink.depth == 3


# --- F72: gevent ---------------------------------------------------------------------------------

GEVENT = """
    from gevent import monkey
    monkey.patch_all()
    # ---
    import json
    http, stdio, hung, silent = map(json.loads, sys.argv[1:5])
    def smoke(hooks):
        for name in ("http", "stdio"):
            began = time.monotonic()
            assert ask(hooks[name]).may_execute, name
            assert time.monotonic() - began < 5, name
        for name in ("hung", "silent"):
            began = time.monotonic()
            outcome = ask(hooks[name])
            assert outcome.synthetic, outcome
            assert time.monotonic() - began < 0.3 + 1.0, name
        import gevent
        jobs = [gevent.spawn(ask, hooks[n]) for n in ("http", "stdio") * 4]
        assert all(job.get(timeout=10).may_execute for job in jobs)
    def close(hooks):
        for each in hooks.values():
            began = time.monotonic()
            each.close()
            assert time.monotonic() - began < 2.5
    def make():
        names = ("http", "stdio", "hung", "silent")
        return {n: client(r) for n, r in zip(names, (http, stdio, hung, silent))}
"""
ALONE = """
    hooks = make()
    smoke(hooks)
    close(hooks)
    print("done")
"""
PREFORK = """
    hooks = make()
    if sys.argv[5] == "warm":
        smoke(hooks)
    pid = os.fork()
    if pid == 0:
        smoke(hooks)
        close(hooks)
        print("worker", flush=True)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    smoke(hooks)
    close(hooks)
    print("done")
"""


@pytest.mark.parametrize("how", ["alone", "cold", "warm"])
def test_f72_a_host_patched_by_gevent_is_served(how: str, start: Callable[..., Backend]) -> None:
    """F72: answers, deadlines and close work, alone and in a prefork worker; nothing hangs."""
    pytest.importorskip("gevent")
    scripts = (
        ("http", "ok"),
        ("persistent", "ok"),
        ("http", "blackhole"),
        ("persistent", "silent"),
    )
    registrations = [
        json.dumps(
            start(transport, script).registration(timeout_ms=5000 if script == "ok" else 300)
        )
        for transport, script in scripts
    ]
    code = GEVENT + (ALONE if how == "alone" else PREFORK)
    done = host(code, *registrations, how, flags=FORKING)
    assert done.stderr == ""
    assert (done.status, done.stdout.split()[-1]) == (0, "done")
