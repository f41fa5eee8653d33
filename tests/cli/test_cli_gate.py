"""``ahp-sync gate``: what runs, what does not, and what is told afterwards."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable, Optional

import pytest
from answering import modify, note, returning, stop
from command_line import AHP_SYNC, PYTHON, ahp_sync, environment, json_file, start
from watching import GENEROUS

from ahp_sync import Client, Outcome, cli
from ahp_sync.testing import HttpBackend, ReceivedRequest, StdioBackend, intercept, observe

REFUSED = 77


def answering(decision: Any) -> Callable[[ReceivedRequest], Any]:
    """Return a script that answers requests with ``decision`` and takes notifications."""
    return lambda request: "ok" if request.rpc_id is None else decision


class Gated:
    """A backend that is asked by the gate and told afterwards, and its configuration."""

    def __init__(self, folder: Path) -> None:
        self.backend = HttpBackend(answering("ok"))
        self.config = folder / "hooks.json"
        self.marker = folder / "ran"
        self.configure()

    def configure(self, **options: Any) -> None:
        """Write the configuration; the options are those of ``intercept``."""
        subscriptions = [intercept(**options), observe(["tool.after"])]
        json_file(self.config, self.backend.registration(subscriptions=subscriptions))

    def decides(self, decision: Any) -> None:
        """Have the backend answer with ``decision``, a step."""
        self.backend.play(answering(decision))

    def run(self, *command: Any, options: tuple[Any, ...] = (), **more: Any) -> Any:
        """Gate a command, to its end."""
        return ahp_sync("gate", "--config", self.config, *options, "--", *command, **more)

    def mark(self, *options: Any, **more: Any) -> Any:
        """Gate a command that leaves a mark."""
        return self.run("touch", self.marker, options=options, **more)

    @property
    def ran(self) -> bool:
        """Whether the command of :meth:`mark` was run."""
        return self.marker.exists()

    @property
    def asked(self) -> list[dict[str, Any]]:
        """The events that the backend was asked about."""
        return [one.event for one in self.backend.requests if one.rpc_id is not None]

    @property
    def told(self) -> dict[str, Any]:
        """The one event that the backend was told of."""
        (event,) = [one.event for one in self.backend.requests if one.rpc_id is None]
        return event


@pytest.fixture
def gated(tmp_path: Path) -> Iterator[Gated]:
    """A gate whose backend permits everything, until told otherwise."""
    gated = Gated(tmp_path)
    with gated.backend:
        yield gated


# --- what is asked --------------------------------------------------------------------------------


def test_the_backend_sees_the_command_line(gated: Gated, tmp_path: Path) -> None:
    """The input is the command as a shell would take it, its words, and the folder."""
    gated.run("touch", "a b", "$HOME", cwd=tmp_path)
    (event,) = gated.asked
    assert event["tool"] == {
        "name": "Bash",
        "origin": "native",
        "input": {
            "command": "touch 'a b' '$HOME'",
            "argv": ["touch", "a b", "$HOME"],
            "cwd": os.path.realpath(tmp_path),
        },
    }
    assert sorted(os.listdir(tmp_path)) == ["$HOME", "a b", "hooks.json"]


def test_name_and_session_go_with_the_call(gated: Gated) -> None:
    """``--name`` and ``--session`` are in both events, which are about one call."""
    gated.run("true", options=("--name", "Deploy", "--session", "s-1"))
    (before,), after = gated.asked, gated.told
    for event in (before, after):
        assert event["tool"]["name"] == "Deploy"
        assert event["session"] == {"id": "s-1"}
    assert before["call"] == after["call"]


def test_words_after_the_command_are_the_commands_own(gated: Gated) -> None:
    """Options and a further ``--`` behind the command are passed on as they are."""
    result = gated.run(*PYTHON, "-c", "import sys; print(sys.argv[1:])", "--", "--name", "x", "--")
    assert result.stdout == "['--', '--name', 'x', '--']\n"


def test_a_folder_that_is_gone_is_left_out(gated: Gated, tmp_path: Path) -> None:
    """A command may be run from a folder that no longer exists."""
    folder = tmp_path / "gone"
    folder.mkdir()
    line = 'rmdir "$PWD" && exec "$@"'
    command = [*AHP_SYNC, "gate", "--config", str(gated.config), "--"]
    subprocess.run(
        ["sh", "-c", line, "sh", *command, "true"],
        cwd=folder,
        env=environment(),
        timeout=30.0,
        check=True,
    )
    assert gated.asked[0]["tool"]["input"].keys() == {"command", "argv"}


# --- a command that may run -----------------------------------------------------------------------


def test_streams_and_exit_code_are_the_commands(gated: Gated) -> None:
    """stdin, stdout, stderr and the exit code pass through, and nothing is added."""
    result = gated.run("sh", "-c", "cat; echo err >&2; exit 3", stdin="in\n")
    assert (result.returncode, result.stdout, result.stderr) == (3, "in\n", "err\n")


def test_success_is_told(gated: Gated) -> None:
    """Exit code 0 is the outcome ok, with a duration."""
    assert gated.mark().returncode == 0
    assert gated.ran
    assert (gated.told["outcome"], gated.told["execution"]) == ("ok", {"status": "executed"})
    assert gated.told["durationMs"] > 0


def test_an_exit_status_is_told(gated: Gated) -> None:
    """Another exit code is passed on, and told as an error."""
    assert gated.run("sh", "-c", "exit 3").returncode == 3
    assert gated.told["outcome"] == "error"
    error = {"message": "exit status 3", "class": "ExitStatus", "status": 3}
    assert gated.told["error"] == error


def test_death_by_a_signal_is_told(gated: Gated) -> None:
    """A killed command gives 128 and the signal, as in a shell."""
    assert gated.run("sh", "-c", "kill -9 $$").returncode == 137
    assert gated.told["error"] == {"message": "killed by SIGKILL", "class": "Signal", "status": 137}


@pytest.mark.parametrize(
    ("command", "code", "kind"),
    [("no-such-command", 127, "FileNotFoundError"), ("/", 126, "PermissionError")],
)
def test_a_command_that_cannot_be_started(command: str, code: int, kind: str, gated: Gated) -> None:
    """127 and 126 as in a shell, one line, and an error that says it was not executed."""
    result = gated.run(command)
    assert (result.returncode, result.stdout) == (code, "")
    assert result.stderr.startswith(f"ahp-sync: {command}: ")
    assert (gated.told["outcome"], gated.told["error"]["class"]) == ("error", kind)
    assert gated.told["execution"]["status"] == "skipped"
    assert "durationMs" not in gated.told


def test_descriptors_are_passed_on(gated: Gated) -> None:
    """What the caller opened for the command reaches it, as ``<(…)`` in a shell needs."""
    reader, writer = os.pipe()
    os.write(writer, b"hello\n")
    os.close(writer)
    result = gated.run("cat", f"/dev/fd/{reader}", pass_fds=(reader,))
    os.close(reader)
    assert (result.returncode, result.stdout) == (0, "hello\n")


def test_nothing_of_the_gate_is_passed_on(gated: Gated) -> None:
    """The command gets no socket, pipe or file of the gate's own."""
    program = "import os; print(sorted(map(int, os.listdir('/proc/self/fd'))))"
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("no /proc")
    result = gated.run(*PYTHON, "-c", program)
    assert result.stdout == "[0, 1, 2, 3]\n"  # 3 is the listing itself


# --- a command that may not run -------------------------------------------------------------------


def test_a_denied_command_does_not_run(gated: Gated) -> None:
    """77, the backend's reason on stderr, nothing on stdout; told as denied."""
    gated.decides([{"type": "deny", "reason": "not on a Friday"}])
    result = gated.mark()
    assert (result.returncode, result.stdout) == (REFUSED, "")
    assert result.stderr == "ahp-sync: refused: not on a Friday\n"
    assert not gated.ran
    skipped = {"status": "skipped", "reason": "policy"}
    assert (gated.told["outcome"], gated.told["execution"]) == ("denied", skipped)


def test_a_reason_is_shown_and_not_obeyed(gated: Gated) -> None:
    """A backend's text can't move the cursor, or pass for a line of something else."""
    gated.decides([{"type": "deny", "reason": "no\n\x1b[2Jahp-sync: accepted"}])
    result = gated.mark()
    assert result.stderr == "ahp-sync: refused: no\\n\\x1b[2Jahp-sync: accepted\n"


@pytest.mark.parametrize("fault", ["reset", "status_500", "bad_json", "wrong_id", "redirect_302"])
def test_fail_closed_refuses(fault: str, gated: Gated) -> None:
    """A failure of a fail-closed backend refuses, for a reason that shows nothing of it."""
    gated.decides(fault)
    result = gated.mark()
    assert (result.returncode, gated.ran) == (REFUSED, False)
    assert result.stderr == "ahp-sync: refused: Required policy backend unavailable.\n"
    assert gated.told["outcome"] == "denied"


def test_a_hung_backend_refuses_by_its_deadline(gated: Gated) -> None:
    """Fail-closed holds at ``timeoutMs``, whatever the backend does."""
    gated.configure(timeout_ms=300)
    gated.decides("blackhole")
    began = time.monotonic()
    result = gated.mark()
    assert (result.returncode, gated.ran) == (REFUSED, False)
    assert time.monotonic() - began < 5.0


def test_fail_open_runs_with_a_warning(gated: Gated) -> None:
    """A failure of a fail-open backend lets the command run, and says so."""
    gated.configure(policy="fail-open")
    gated.decides("status_500")
    result = gated.mark()
    assert (result.returncode, gated.ran) == (0, True)
    assert result.stderr.startswith("ahp-sync: warning: a policy backend is unavailable")
    assert result.stderr.count("\n") == 1


def test_the_timeout_refuses(gated: Gated) -> None:
    """``--timeout`` ends the asking, and an incomplete answer is no permission."""
    gated.configure(policy="fail-open", timeout_ms=20_000)
    gated.decides("blackhole")
    result = gated.mark("--timeout", "0.3")
    assert (result.returncode, gated.ran) == (REFUSED, False)
    assert result.stderr == "ahp-sync: refused: The hook call ran out of time.\n"
    assert gated.told["outcome"] == "timeout"


@pytest.mark.parametrize(
    "content", ["", "{", '{"protocolVersion": "draft", "hooks": []}', "[" * 100_000]
)
def test_a_broken_configuration_runs_nothing(content: str, gated: Gated) -> None:
    """A configuration that can't be used is exit code 2, and the command is not run."""
    gated.config.write_text(content)
    result = gated.mark()
    assert (result.returncode, result.stdout, gated.ran) == (2, "", False)
    assert result.stderr.startswith("ahp-sync: registration: ")


def test_every_problem_of_the_configuration_is_told(gated: Gated) -> None:
    """Each is a line, as many as there are."""
    gated.configure(timeout_ms=0, policy="perhaps")
    result = gated.mark()
    assert (result.returncode, result.stderr.count("\n"), gated.ran) == (2, 2, False)


def test_words_that_cannot_be_shown_are_not_run(gated: Gated) -> None:
    """A command line that JSON can't carry can't be judged."""
    result = gated.run(b"touch", os.fsencode(gated.marker), b"\xff")
    assert (result.returncode, gated.ran, gated.asked) == (2, False, [])
    assert result.stderr.startswith("ahp-sync: the event can't be sent: ")


def test_an_audit_file_that_cannot_be_written_runs_nothing(gated: Gated, tmp_path: Path) -> None:
    """Who asks for records gets them, or nothing happens."""
    result = gated.mark("--audit", tmp_path / "no" / "audit.jsonl")
    assert (result.returncode, gated.ran, gated.asked) == (2, False, [])


def test_a_closed_stderr_changes_nothing(gated: Gated, tmp_path: Path) -> None:
    """A refusal that nobody can read is a refusal, and does not end up on stdout."""
    gated.decides("deny")
    gate = [*AHP_SYNC, "gate", "--config", str(gated.config), "--"]
    result = subprocess.run(
        ["sh", "-c", 'exec "$@" 2>&-', "sh", *gate, "touch", str(gated.marker)],
        stdout=subprocess.PIPE,
        env=environment(),
        timeout=30.0,
    )
    assert (result.returncode, result.stdout, gated.ran) == (REFUSED, b"", False)


# --- what else a backend may answer ---------------------------------------------------------------


def test_what_the_gate_does_is_what_it_offers(gated: Gated) -> None:
    """A command runs as it was given or not at all, so there is nothing to edit or to return."""
    gated.mark()
    (request,) = [one for one in gated.backend.requests if one.rpc_id is not None]
    assert request.message["params"]["capabilities"] == {
        "effects": ["deny", "allow", "ask", "message", "flow"],
        "flow": {"operations": ["stop"]},
    }


@pytest.mark.parametrize(
    "effect", [modify("input", "merge", {"command": "true"}), returning("done")]
)
def test_a_changed_command_is_not_permitted(effect: dict[str, Any], gated: Gated) -> None:
    """What was not offered is refused, with all that came with it."""
    gated.decides([{"type": "allow"}, effect])
    result = gated.mark()
    assert (result.returncode, gated.ran) == (REFUSED, False)
    assert result.stderr == "ahp-sync: refused: Required policy backend unavailable.\n"


def test_nobody_is_there_to_approve(gated: Gated) -> None:
    """An ``ask`` is a refusal that says why."""
    gated.decides([{"type": "ask"}])
    result = gated.mark()
    assert (result.returncode, result.stdout, gated.ran) == (REFUSED, "", False)
    assert result.stderr == "ahp-sync: refused: The user has to approve this first.\n"
    assert gated.told["outcome"] == "denied"


def test_a_stop_is_a_refusal(gated: Gated) -> None:
    """In the backend's own words, even with an ``allow`` beside it (T-05)."""
    gated.decides([stop("three failures"), {"type": "allow"}])
    result = gated.mark()
    assert (result.returncode, gated.ran) == (REFUSED, False)
    assert result.stderr == "ahp-sync: refused: three failures\n"


@pytest.mark.parametrize("denied", [False, True])
def test_messages_are_for_the_user(denied: bool, gated: Gated) -> None:
    """On stderr, escaped, each a line; before the command runs or is refused."""
    deny = [{"type": "deny", "reason": "no"}] if denied else []
    gated.decides([note("mind\nit"), *deny, note("\x1b[2J")])
    result = gated.run("sh", "-c", "echo ran >&2")
    assert result.returncode == (REFUSED if denied else 0)
    last = "ahp-sync: refused: no\n" if denied else "ran\n"
    assert result.stderr == f"ahp-sync: mind\\nit\nahp-sync: \\x1b[2J\n{last}"


def test_an_allow_runs_it(gated: Gated) -> None:
    """And says nothing."""
    gated.decides([{"type": "allow"}])
    result = gated.mark()
    assert (result.returncode, result.stderr, gated.ran) == (0, "", True)


# --- mistakes -------------------------------------------------------------------------------------


def test_a_mistake_in_the_library_runs_nothing(
    gated: Gated, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever goes wrong while asking, the command is not run."""

    def broken(hooks: Client, **call: Any) -> Outcome:
        raise ZeroDivisionError

    monkeypatch.setattr(Client, "tool_before", broken)
    line = ["gate", "--config", str(gated.config), "--", "touch", str(gated.marker)]
    assert (cli.main(line), gated.ran) == (70, False)


def test_a_mistake_in_the_report_changes_nothing(
    gated: Gated, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever goes wrong while telling, the exit code is the command's."""

    def broken(hooks: Client, **call: Any) -> Outcome:
        raise ZeroDivisionError

    monkeypatch.setattr(Client, "tool_after", broken)
    assert cli.main(["gate", "--config", str(gated.config), "--", "sh", "-c", "exit 3"]) == 3


# --- records --------------------------------------------------------------------------------------


def test_audit_records_go_to_a_file(gated: Gated, tmp_path: Path) -> None:
    """``--audit`` appends JSON lines."""
    file = tmp_path / "audit.jsonl"
    gated.mark("--audit", file)
    gated.decides("deny")
    gated.mark("--audit", file)
    records = [json.loads(line) for line in file.read_text().splitlines()]
    assert [record["kind"] for record in records] == ["accepted", "explicit_denial"]


def test_verbose_tells_what_each_backend_did(gated: Gated) -> None:
    """With ``--verbose`` the operator sees the failure that the refusal hides."""
    gated.decides("status_500")
    result = gated.mark("--verbose")
    assert "tool.before com.example.http[0]: synthetic_denial" in result.stderr
    assert "http_status/http_500" in result.stderr
    gated.decides([{"type": "ask"}, note("hi")])
    first, _, refused = gated.mark("--verbose").stderr.splitlines()
    assert first.startswith("ahp-sync: tool.before com.example.http[0]: accepted (")
    assert first.endswith(" ms): ask, message")
    assert refused == "ahp-sync: refused: The user has to approve this first."


# --- the end --------------------------------------------------------------------------------------


def test_an_observer_that_hangs_does_not_hold_the_gate(gated: Gated) -> None:
    """The exit code is the command's, and it comes, whatever becomes of the report."""
    gated.backend.play(lambda request: "blackhole" if request.rpc_id is None else "ok")
    began = time.monotonic()
    assert gated.run("sh", "-c", "exit 3").returncode == 3
    assert time.monotonic() - began < GENEROUS


def test_no_backend_process_stays(tmp_path: Path) -> None:
    """Not even one that ignores being asked to end."""
    with StdioBackend("ignores_sigterm") as backend:
        document = backend.registration(timeout_ms=500, policy="fail-open")
        config = json_file(tmp_path / "hooks.json", document)
        began = time.monotonic()
        result = ahp_sync("gate", "--config", config, "--", "true")
        assert (result.returncode, backend.alive()) == (0, [])
        assert len(backend.pids()) == 1
        assert time.monotonic() - began < GENEROUS


def test_the_command_may_run_as_long_as_it_likes(gated: Gated) -> None:
    """No deadline of the hook calls is one of the command."""
    gated.configure(timeout_ms=100)
    command: Optional[subprocess.Popen[str]] = None
    try:
        command = start("gate", "--config", gated.config, "--timeout", "2", "--", "sleep", "60")
        assert gated.backend.wait_requests(1)
        with pytest.raises(subprocess.TimeoutExpired):
            command.wait(0.5)
    finally:
        if command is not None:
            command.terminate()
            command.communicate(timeout=GENEROUS)
            assert command.returncode == 143
