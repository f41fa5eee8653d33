"""Field bugs of hooks that are processes: what they print, how they exit, what they leave.

A test names the row of the list of field bugs that it belongs to, and does what the row says.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Callable, Optional

import pytest
from watching import SLACK, eventually, host, timed, workers_are_free

from ahp_sync import Client, Outcome, RetryPolicy, ToolDenied
from ahp_sync.testing import (
    AuditLog,
    StdioBackend,
    assert_audit,
    assert_denied,
    assert_failed_open,
    assert_proceeds,
    assert_synthetic_denial,
    hooks,
    intercept,
    step,
)
from ahp_sync.transports.base import RESPONSE_CAP

ONCE = RetryPolicy(max_attempts=1)
LIFECYCLES = ("persistent", "per_event")
POLICIES = ("fail-closed", "fail-open")
Backends = Callable[..., StdioBackend]
Clients = Callable[..., Client]

each_lifecycle = pytest.mark.parametrize("lifecycle", LIFECYCLES)
each_policy = pytest.mark.parametrize("policy", POLICIES)


def ask(client: Client, **more: Any) -> Outcome:
    return client.tool_before(name="Bash", **{"input": {"command": "ls"}, **more})


def shell(script: str, *args: str, **subscription: Any) -> dict[str, Any]:
    """Return the registration of a hook that is a shell script; ``args`` are its ``$1 …``."""
    transport = {
        "type": "stdio",
        "command": "/bin/sh",
        "args": ["-c", script, "hook", *args],
        "lifecycle": subscription.pop("lifecycle", "persistent"),
    }
    entry = {
        "id": "com.example.shell",
        "transport": transport,
        "subscriptions": [intercept(**subscription)],
    }
    return hooks(entry)


# --- F01: how a hook fails ---------------------------------------------------------------------

CRASHES = {"traceback": "process", "silent": "deadline_exceeded", "oops": "malformed"}


@each_lifecycle
@pytest.mark.parametrize("crash", CRASHES)
def test_f01_a_broken_hook_is_no_consent(
    crash: str,
    lifecycle: str,
    ahp_stdio_backend: Backends,
    ahp_client: Clients,
    ahp_audit: AuditLog,
) -> None:
    """F01: a traceback, a hang or rubbish denies under fail-closed; the tool is never called."""
    backend = ahp_stdio_backend(crash, lifecycle=lifecycle)
    client = ahp_client(backend.registration(timeout_ms=500), retry=ONCE)
    runs: list[str] = []
    with pytest.raises(ToolDenied) as denied:
        client.guard(runs.append)("rm")
    assert_synthetic_denial(denied.value.outcome, failure_class=CRASHES[crash])
    assert not runs
    assert_audit(ahp_audit, kind="synthetic_denial", failure_class=CRASHES[crash])
    assert len(ahp_audit) == 1


@each_lifecycle
def test_f01_three_ways_to_fail_are_three_classes(
    lifecycle: str, ahp_stdio_backend: Backends, ahp_client: Clients, ahp_audit: AuditLog
) -> None:
    """F01: under fail-open the call goes on, flagged, and the audit tells the failures apart."""
    entries = [
        ahp_stdio_backend(crash, lifecycle=lifecycle).entry(
            id=f"com.example.{crash}", timeout_ms=500, policy="fail-open"
        )
        for crash in CRASHES
    ]
    client = ahp_client(hooks(*entries), retry=ONCE)
    outcome = ask(client)
    assert_failed_open(outcome)
    assert [one.failure_class.value for one in outcome.failures] == list(CRASHES.values())
    for crash, failure_class in CRASHES.items():
        assert_audit(
            ahp_audit,
            kind="failed_open",
            backend=f"com.example.{crash}",
            failure_class=failure_class,
        )
    assert len(ahp_audit) == 3


# --- F03, F28, F38: processes that stay ----------------------------------------------------------


class Group:
    """The process group of a shell hook that writes its pid to a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def id(self) -> int:
        assert eventually(lambda: self._path.exists() and self._path.read_text().strip())
        return int(self._path.read_text())

    def is_gone(self) -> bool:
        """Return whether nobody of the group runs, and we have reaped who was ours."""
        return not any(
            int(group) == self.id and (state != "Z" or int(parent) == os.getpid())
            for state, parent, group in _processes()
        )


def _processes() -> Iterator[Sequence[str]]:
    """Yield state, parent and group of every process that there is."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError):
                yield Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[:3]


@pytest.fixture
def group(tmp_path: Path) -> Any:
    """A :class:`Group`, ended at last."""
    group = Group(tmp_path / "pid")
    yield group
    with suppress(ProcessLookupError, AssertionError):
        os.killpg(group.id, signal.SIGKILL)


needs_proc = pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="needs /proc")


@needs_proc
@each_lifecycle
def test_f03_a_grandchild_with_the_pipes_delays_nobody(
    lifecycle: str, group: Group, tmp_path: Path, ahp_client: Clients
) -> None:
    """F03: ``sleep 30 & wait`` and 1 s; a second later nobody of that group is alive."""
    script = 'echo $$ > "$1.draft"; mv "$1.draft" "$1"; sleep 30 & wait'
    client = ahp_client(
        shell(script, str(tmp_path / "pid"), lifecycle=lifecycle, timeout_ms=1000), max_workers=1
    )
    outcome, seconds = timed(lambda: ask(client))
    assert_synthetic_denial(outcome, failure_class="deadline_exceeded")
    assert seconds <= 1.0 + SLACK
    assert eventually(group.is_gone, 1.0)
    assert workers_are_free(client)


@needs_proc
@each_lifecycle
def test_f28_sigterm_may_be_ignored(
    lifecycle: str, group: Group, tmp_path: Path, ahp_client: Clients
) -> None:
    """F28: the caller does not pay for the grace; SIGKILL follows; ``close`` is bounded."""
    script = 'trap "" TERM; echo $$ > "$1.draft"; mv "$1.draft" "$1"; sleep 60'
    client = ahp_client(shell(script, str(tmp_path / "pid"), lifecycle=lifecycle, timeout_ms=500))
    outcome, seconds = timed(lambda: ask(client))
    assert_synthetic_denial(outcome, failure_class="deadline_exceeded")
    assert seconds <= 0.5 + SLACK
    assert eventually(group.is_gone, 0.2 + 0.5)
    _, seconds = timed(client.close)
    assert seconds <= 2.0 + SLACK


def test_f28_close_does_not_wait_for_one_that_ignores_it(
    ahp_stdio_backend: Backends, ahp_client: Clients
) -> None:
    """F28: an idle process that ignores SIGTERM and the end of its input is gone after close."""
    backend = ahp_stdio_backend(["ok", "ignores_sigterm"])
    client = ahp_client(backend.registration(timeout_ms=300), retry=ONCE)
    assert_proceeds(ask(client))
    assert_synthetic_denial(ask(client), failure_class="deadline_exceeded")
    _, seconds = timed(client.close)
    assert seconds <= 2.0 + SLACK
    assert backend.wait_until_gone(1.0)


def test_f38_close_ends_the_server_behind_the_wrapper(
    ahp_stdio_backend: Backends, ahp_client: Clients
) -> None:
    """F38: the real server ignores the end of its input; both are gone in 2 s; twice is fine."""
    backend = ahp_stdio_backend("wrapper")
    client = ahp_client(backend.registration(timeout_ms=5000))
    assert_proceeds(ask(client))
    wrapper, server = backend.pids()
    assert sorted(backend.alive()) == sorted((wrapper, server))
    _, seconds = timed(client.close)
    assert seconds <= 2.0 + SLACK
    assert backend.wait_until_gone(SLACK)
    _, seconds = timed(client.close)
    assert seconds <= SLACK


@pytest.mark.parametrize("dropped", ["", "del hooks"], ids=["kept", "deleted"])
def test_f38_a_forgotten_client_ends_its_processes_at_exit(
    dropped: str, ahp_stdio_backend: Backends
) -> None:
    """F38: whoever does not close leaves nothing behind either."""
    backend = ahp_stdio_backend("wrapper")
    code = f"""
        import json
        hooks = client(json.loads(sys.argv[1]))
        assert ask(hooks).may_execute
        {dropped}
        print("done")
    """
    done = host(code, json.dumps(backend.registration(timeout_ms=5000)))
    assert (done.status, done.stdout, done.stderr) == (0, "done\n", ""), done.stderr
    assert len(backend.pids()) == 2
    assert backend.wait_until_gone(1.0)


# --- F08: exit status and body -------------------------------------------------------------------

BODIES: Mapping[str, Optional[Any]] = {
    "allow": "ok",
    "deny": "deny",
    "empty": None,
    "junk": "html",
}


@each_policy
@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("code", [0, 1, 2, 127, -9])
def test_f08_only_exit_0_with_a_valid_body_decides(
    code: int,
    body: str,
    policy: str,
    ahp_stdio_backend: Backends,
    ahp_client: Clients,
    ahp_audit: AuditLog,
) -> None:
    """F08, R-STD-05: in every other cell the policy applies, and the audit has both facts."""
    then = BODIES[body]
    script = (
        step("exit_mid", code=code)
        if then is None
        else step("answer_then_exit", code=code, then=then)
    )
    backend = ahp_stdio_backend(script, lifecycle="per_event")
    client = ahp_client(backend.registration(timeout_ms=5000, policy=policy), retry=ONCE)
    outcome = ask(client)
    (record,) = ahp_audit.records
    assert record.exit_status == code
    if code == 0 and body == "allow":
        assert_proceeds(outcome)
        return
    if code == 0 and body == "deny":
        assert_denied(outcome, "denied by the scripted backend")
        return
    expected = "process" if code else "connection" if body == "empty" else "malformed"
    if policy == "fail-closed":
        assert_synthetic_denial(outcome, failure_class=expected)
    else:
        assert_failed_open(outcome, failure_class=expected)
    assert ("sample" in record.untrusted) == (body != "empty")


# --- F11: hooks that can't be started ------------------------------------------------------------


@each_policy
@each_lifecycle
@pytest.mark.parametrize(
    "fault", ["missing_command", "not_executable", "directory_command", "bad_shebang", "cwd_gone"]
)
def test_f11_what_can_not_be_started_is_a_failure_like_any_other(
    fault: str,
    lifecycle: str,
    policy: str,
    ahp_stdio_backend: Backends,
    ahp_client: Clients,
    ahp_audit: AuditLog,
) -> None:
    """F11: class ``process``, the policy, one record; no OSError, no descriptor left."""
    backend = ahp_stdio_backend(fault, lifecycle=lifecycle)
    client = ahp_client(backend.registration(timeout_ms=5000, policy=policy))
    outcome = ask(client)
    if policy == "fail-closed":
        assert_synthetic_denial(outcome, failure_class="process")
    else:
        assert_failed_open(outcome, failure_class="process")
    assert_audit(ahp_audit, failure_class="process", code="launch_failed")
    assert len(ahp_audit) == 1


# --- F27: the environment ------------------------------------------------------------------------

ALLOWED = {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR", "TEMP", "TMP"}
SECRETS = ("OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "HUB_TOKEN", "LD_PRELOAD_X")


@each_lifecycle
def test_f27_a_hook_inherits_no_secret_of_the_host(
    lifecycle: str,
    monkeypatch: pytest.MonkeyPatch,
    ahp_stdio_backend: Backends,
    ahp_client: Clients,
) -> None:
    """F27: only the allow-list and what the registration says, which wins."""
    for name in SECRETS:
        monkeypatch.setenv(name, "canary")
    monkeypatch.setenv("LC_TIME", "C")
    monkeypatch.setenv("TZ", "UTC")
    explicit = {"OWN_KEY": "key", "TZ": "Europe/Vienna", "LITERAL": "$HUB_TOKEN"}
    backend = ahp_stdio_backend("env_dump", lifecycle=lifecycle)
    client = ahp_client(backend.registration(timeout_ms=5000, env=explicit))
    outcome = ask(client)
    assert_denied(outcome)
    seen = json.loads(outcome.reason or "")
    assert {name: seen.get(name) for name in explicit} == explicit
    assert (seen["PATH"], seen["LC_TIME"]) == (os.environ["PATH"], "C")
    others = set(seen) - set(explicit) - ALLOWED
    assert {name for name in others if not name.startswith("LC_")} == set()
    assert "canary" not in seen.values()


# --- F31, F33, F34, F36: what a hook prints ------------------------------------------------------


@each_policy
@pytest.mark.parametrize("verdict", ["deny", "ok"])
@pytest.mark.parametrize("fault", ["noise", "banner"])
@each_lifecycle
def test_f31_noise_before_the_answer_is_a_strict_failure(
    lifecycle: str,
    fault: str,
    verdict: str,
    policy: str,
    ahp_stdio_backend: Backends,
    ahp_client: Clients,
    ahp_audit: AuditLog,
) -> None:
    """F31, D-17: one rule for denials and permissions; a sample of the noise is kept."""
    text = "shell ready " + "\u2026" * 5000
    first = step("noise", text=text, then=verdict) if fault == "noise" else step(fault, text=text)
    backend = ahp_stdio_backend([first, verdict], lifecycle=lifecycle)
    client = ahp_client(backend.registration(timeout_ms=5000, policy=policy))
    outcome = ask(client)
    if policy == "fail-closed":
        assert_synthetic_denial(outcome, failure_class="malformed")
    else:
        assert_failed_open(outcome, failure_class="malformed")
    (record,) = assert_audit(ahp_audit, failure_class="malformed")
    assert record.untrusted["sample"].startswith("shell ready")
    assert len(record.untrusted["sample"]) < 3000
    assert "shell ready" not in str(outcome.failures)


@each_lifecycle
def test_f33_much_goes_in_while_much_comes_out(
    lifecycle: str, ahp_stdio_backend: Backends, ahp_client: Clients
) -> None:
    """F33: 8 MB of event for a hook that answers 1 MB before it reads on; no deadlock."""
    backend = ahp_stdio_backend("answers_before_reading", lifecycle=lifecycle)
    client = ahp_client(backend.registration(timeout_ms=20_000))
    outcome = ask(client, input={"command": "x" * 8_000_000})
    assert_denied(outcome, "denied by the scripted backend")


@each_lifecycle
def test_f33_a_hook_that_never_reads_is_left_in_time(
    lifecycle: str, ahp_stdio_backend: Backends, ahp_client: Clients
) -> None:
    """F33: 8 MB that nobody takes; the writer is not stuck and the process gone."""
    backend = ahp_stdio_backend(["never_reads", "ok"], lifecycle=lifecycle)
    client = ahp_client(backend.registration(timeout_ms=1000), max_workers=1)
    outcome, seconds = timed(lambda: ask(client, input={"command": "x" * 8_000_000}))
    assert_synthetic_denial(outcome, failure_class="deadline_exceeded")
    assert seconds <= 1.0 + SLACK
    assert backend.wait_until_gone()
    assert workers_are_free(client)


#: A host program that calls once to warm up and then measures by how much a call lets its peak of
#: memory grow, in KiB. It prints the decision, the last failure and the growth.
MEASURED = """
import json, resource
warm, measured, timeout = json.loads(sys.argv[1]), json.loads(sys.argv[2]), float(sys.argv[3])
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with client(warm) as hooks:
    assert ask(hooks).may_execute
log = AuditLog()
with client(measured, audit=log) as hooks:
    before, began = peak(), time.monotonic()
    outcome = ask(hooks)
    seconds = time.monotonic() - began
    print(json.dumps({
        "decision": outcome.decision,
        "codes": [f"{one.failure_class}/{one.code}" for one in outcome.failures],
        "growth": peak() - before,
        "seconds": seconds,
        "stderr": log.records[0].untrusted.get("stderr", ""),
    }))
"""


def measured(backend: Any, warm: Any, timeout_ms: int = 10_000) -> dict[str, Any]:
    """Return what :data:`MEASURED` prints of ``backend``, after a first call to ``warm``."""
    registrations = (warm.registration(), backend.registration(timeout_ms=timeout_ms))
    done = host(MEASURED, *map(json.dumps, registrations), str(timeout_ms))
    assert (done.status, done.stderr) == (0, ""), done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@each_lifecycle
def test_f34_a_flood_of_stderr_blocks_nothing_and_is_not_kept(
    lifecycle: str, ahp_stdio_backend: Backends
) -> None:
    """F34: 10 MiB of it, then a valid permission; the audit has its end, marked as cut."""
    backend = ahp_stdio_backend("floods_stderr", lifecycle=lifecycle)
    found = measured(backend, ahp_stdio_backend("ok", lifecycle=lifecycle))
    assert (found["decision"], found["codes"]) == ("proceed", [])
    assert found["stderr"].startswith("[cut] ")
    assert 60_000 < len(found["stderr"]) <= (1 << 16) + 10
    assert found["growth"] < 4096


@each_lifecycle
def test_f36_an_endless_line_is_refused_early(lifecycle: str, ahp_stdio_backend: Backends) -> None:
    """F36: too large, well before the deadline; less than twice the cap is held."""
    backend = ahp_stdio_backend("floods_stdout", lifecycle=lifecycle)
    found = measured(backend, ahp_stdio_backend("ok", lifecycle=lifecycle))
    assert (found["decision"], found["codes"]) == ("deny", ["malformed/too_large"])
    assert found["seconds"] < 5.0
    assert found["growth"] < 2 * RESPONSE_CAP // 1024
    assert backend.wait_until_gone()


@each_lifecycle
def test_f36_a_line_up_to_the_cap_is_taken(
    lifecycle: str, ahp_stdio_backend: Backends, ahp_client: Clients
) -> None:
    """F36: honest large answers work, to the byte; one more is too large."""
    script = [step("padded", size=RESPONSE_CAP), step("padded", size=RESPONSE_CAP + 1)]
    backend = ahp_stdio_backend(script, lifecycle=lifecycle)
    client = ahp_client(backend.registration(timeout_ms=10_000))
    assert_denied(ask(client), "denied by the scripted backend")
    outcome = ask(client)
    assert_synthetic_denial(outcome, failure_class="malformed")
    assert outcome.failures[0].code == "too_large"
