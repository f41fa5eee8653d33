"""Secrets that a command prints: bounded in time and size, and nothing of it is left behind."""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Callable

import pytest
from watching import GENEROUS, SLACK, descriptors, eventually, host, timed

from ahp_sync.auth.keepers import TokenCommand
from ahp_sync.auth.resolvers import MAX_BYTES, Tokens
from ahp_sync.budget import Budget, BudgetEnded
from ahp_sync.failure import FailureClass, OperationalFailure
from ahp_sync.workers import DeliveryExecutor

SECRET = "s3cr3t-value"
SHORT = 0.3
PYTHON = (sys.executable, "-S", "-E", "-c")

Make = Callable[..., Tokens]


@pytest.fixture
def tokens() -> Iterator[Make]:
    """``tokens(argv, **options)``: what asks the command."""
    executor = DeliveryExecutor(32, name="tests-auth")
    yield lambda *argv, **options: Tokens(TokenCommand(argv, **options), executor)
    executor.shutdown(cancel_futures=True, timeout=GENEROUS)


def sh(line: str) -> tuple[str, str, str]:
    return "sh", "-c", line


def resolved(tokens: Tokens, seconds: float = GENEROUS, ref: str = "r") -> str:
    return tokens.resolve(ref, Budget(seconds))


def refused(tokens: Tokens, ref: str = "r") -> OperationalFailure:
    with pytest.raises(OperationalFailure) as raised:
        resolved(tokens, ref=ref)
    failure = raised.value
    assert failure.failure_class is FailureClass.AUTHENTICATION
    assert failure.__cause__ is None and failure.__context__ is None
    assert SECRET not in f"{failure!r} {failure} {vars(failure)}"
    return failure


def states() -> dict[int, tuple[str, int]]:
    """Return of each process what it is at, and its parent."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, parent = path.read_text().rpartition(")")[2].split()[:2]
            found[int(path.parent.name)] = (state, int(parent))
    return found


def children() -> set[int]:
    """Return our own processes, zombies among them."""
    return {pid for pid, (_, parent) in states().items() if parent == os.getpid()}


def is_gone(pid_file: Path) -> bool:
    """Return whether the process that wrote its id there has ended.

    Whose child it was has to reap it: a zombie of ours would be found by :func:`children`.
    """
    if not begun(pid_file):
        return False
    return states().get(int(pid_file.read_text()), ("Z", 0))[0] == "Z"


def begun(pid_file: Path) -> bool:
    return pid_file.exists() and bool(pid_file.read_text())


# --- what it is given, and what it gives ----------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "secret"), [("printf t", "t"), ("echo t", "t"), (r"printf 't\r\n'", "t")]
)
def test_its_output_is_the_secret(line: str, secret: str, tokens: Make) -> None:
    assert resolved(tokens(*sh(line))) == secret


def test_it_is_run_each_time(tmp_path: Path, tokens: Make) -> None:
    asking = tokens(*sh(f"echo x >>{tmp_path}/count; wc -l <{tmp_path}/count | tr -d ' '"))
    assert [resolved(asking) for _ in range(3)] == ["1", "2", "3"]


def test_there_is_no_shell(tokens: Make) -> None:
    assert resolved(tokens("echo", "$HOME", "a  b;", "`id`")) == "$HOME a  b; `id`"


def test_a_whole_argument_is_replaced_by_the_reference(tokens: Make) -> None:
    """And no part of one, so that a reference can't become more than an argument."""
    asking = tokens("printf", "%s|", "{ref}", "x{ref}")
    assert resolved(asking, ref="a b; $(id)") == "a b; $(id)|x{ref}|"


def test_a_reference_is_never_an_option(tokens: Make) -> None:
    assert refused(tokens("printf", "{ref}"), ref="-v").code == "credential_unusable"
    assert resolved(tokens("echo", SECRET), ref="-v") == SECRET


def test_its_environment_is_that_of_a_backend(
    tokens: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The short list, as it is now, and what the host adds; none of the host's secrets (F27)."""
    program = "import json, os; print(json.dumps(dict(os.environ)))"
    asking = tokens(*PYTHON, program, env={"VAULT": "v", "HOME": "/nowhere"})
    monkeypatch.setenv("AWS_SECRET", SECRET)
    monkeypatch.setenv("LC_TIME", "C")
    seen = json.loads(resolved(asking))
    assert (seen["VAULT"], seen["HOME"], seen["LC_TIME"]) == ("v", "/nowhere", "C")
    assert seen["PATH"] == os.environ["PATH"]
    assert "AWS_SECRET" not in seen


def test_it_has_nothing_to_read(tokens: Make) -> None:
    program = (
        "import os, sys; "
        "print(sys.stdin.read() == '', os.fstat(0).st_rdev == os.stat('/dev/null').st_rdev)"
    )
    assert resolved(tokens(*PYTHON, program)) == "True True"


def test_it_inherits_no_descriptor(tokens: Make) -> None:
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    try:
        program = f"import os; os.fstat({writer})"
        assert refused(tokens(*PYTHON, program)).code == "command_failed"
    finally:
        os.close(reader)
        os.close(writer)


# --- what is refused ------------------------------------------------------------------------------


def test_an_exit_status_counts_more_than_output(tokens: Make) -> None:
    failure = refused(tokens(*sh(f"echo {SECRET}; echo {SECRET} >&2; exit 3")))
    assert (failure.code, "status 3" in failure.detail) == ("command_failed", True)


def test_a_command_that_is_killed_fails(tokens: Make) -> None:
    assert refused(tokens(*sh(f"echo {SECRET}; kill -9 $$"))).code == "command_failed"


@pytest.mark.parametrize("argv", [("/nowhere/at-all",), ("/",), ("",), ("no-such-program-here",)])
def test_a_program_that_can_not_be_started(argv: tuple[str, ...], tokens: Make) -> None:
    failure = refused(tokens(*argv))
    assert failure.code == "command_not_started"
    assert "nowhere" not in failure.detail


@pytest.mark.parametrize("line", ["true", "echo"])
def test_no_output_is_no_secret(line: str, tokens: Make) -> None:
    assert refused(tokens(*sh(line))).code == "credential_missing"


def test_output_that_is_no_utf8(tokens: Make) -> None:
    assert refused(tokens("printf", r"\377")).code == "credential_unusable"


def test_the_longest_and_one_byte_more(tokens: Make) -> None:
    program = "import sys; sys.stdout.write('x' * int(sys.argv[1]))"
    assert resolved(tokens(*PYTHON, program, str(MAX_BYTES))) == "x" * MAX_BYTES
    assert refused(tokens(*PYTHON, program, str(MAX_BYTES + 1))).code == "credential_unusable"


def test_a_flood_of_output_ends_the_command(tmp_path: Path, tokens: Make) -> None:
    pid = tmp_path / "pid"
    failure, seconds = timed(lambda: refused(tokens(*sh(f"echo $$ >{pid}; exec yes"))))
    assert (failure.code, seconds < GENEROUS / 2) == ("credential_unusable", True)
    assert eventually(lambda: is_gone(pid))


def test_a_flood_on_stderr_harms_nobody(tokens: Make) -> None:
    program = f"import sys; sys.stderr.write({SECRET!r} * 500_000); print({SECRET!r})"
    assert resolved(tokens(*PYTHON, program)) == SECRET


@pytest.mark.parametrize(
    ("argv", "error"),
    [("echo x", TypeError), (b"echo", TypeError), ([b"echo"], TypeError), (["a", 1], TypeError)],
)
def test_arguments_that_are_none(argv: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        TokenCommand(argv)


@pytest.mark.parametrize("argv", [[], ["a\0b"]])
def test_arguments_that_make_no_command(argv: list[str]) -> None:
    with pytest.raises(ValueError):
        TokenCommand(argv)


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
def test_seconds_that_are_none(seconds: float) -> None:
    with pytest.raises(ValueError):
        TokenCommand(["true"], seconds=seconds)


# --- its end --------------------------------------------------------------------------------------


def test_one_that_hangs_is_ended_by_its_own_bound(tmp_path: Path, tokens: Make) -> None:
    pid = tmp_path / "pid"
    asking = tokens(*sh(f"echo $$ >{pid}; exec sleep 60"), seconds=SHORT)
    failure, seconds = timed(lambda: refused(asking))
    assert failure.code == "credential_late"
    assert SHORT * 0.9 <= seconds < GENEROUS / 2
    assert eventually(lambda: is_gone(pid))


def test_the_budget_comes_first(tmp_path: Path, tokens: Make) -> None:
    pid = tmp_path / "pid"
    asking = tokens(*sh(f"echo $$ >{pid}; exec sleep 60"))

    def ask() -> None:
        with pytest.raises(BudgetEnded):
            resolved(asking, 1.0)

    _, seconds = timed(ask)
    assert seconds < 1.0 + SLACK
    assert eventually(lambda: is_gone(pid))


def test_a_cancelled_call_ends_it(tmp_path: Path, tokens: Make) -> None:
    pid, budget = tmp_path / "pid", Budget(GENEROUS)
    asking = tokens(*sh(f"echo $$ >{pid}; exec sleep 60"))
    canceller = threading.Thread(target=lambda: eventually(lambda: begun(pid)) and budget.cancel())
    canceller.start()
    with pytest.raises(BudgetEnded):
        asking.resolve("r", budget)
    canceller.join(GENEROUS)
    assert eventually(lambda: is_gone(pid))


def test_one_that_ignores_sigterm_is_killed_with_its_children(tmp_path: Path, tokens: Make) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    line = (
        f"trap '' TERM; (echo $(exec sh -c 'echo $PPID') >{second}; sleep 60; true) &"
        f" echo $$ >{first}; sleep 60; true"
    )
    refused(tokens(*sh(line), seconds=1.0))
    assert eventually(lambda: is_gone(first) and is_gone(second))


def test_a_grandchild_that_holds_the_pipe_is_not_waited_for(tmp_path: Path, tokens: Make) -> None:
    """The secret is there once the command has exited (F03); the rest of its group is ended."""
    pid = tmp_path / "pid"
    line = f"sleep 60 & echo $! >{pid}; echo {SECRET}"
    secret, seconds = timed(lambda: resolved(tokens(*sh(line))))
    assert (secret, seconds < 2.0) == (SECRET, True)
    assert eventually(lambda: is_gone(pid))


def test_nothing_is_left_behind(tokens: Make) -> None:
    """No descriptor, no thread, no zombie, whatever the commands came to."""
    before_us = children()
    good, bad = tokens("echo", SECRET), tokens(*sh("exit 1"))
    missing, late = tokens("/nowhere"), tokens("sleep", "60", seconds=0.05)
    resolved(good)

    def others() -> list[threading.Thread]:
        return [one for one in threading.enumerate() if "stdio" in one.name]

    assert eventually(lambda: not others())
    before = descriptors()
    for _ in range(5):
        resolved(good)
        for asking in (bad, missing, late):
            refused(asking)
    assert eventually(lambda: not others())
    assert eventually(lambda: descriptors() == before)
    assert children() == before_us


def test_many_at_once(tokens: Make) -> None:
    asking, found = tokens("echo", "{ref}"), {}

    def ask(ref: str) -> None:
        found[ref] = resolved(asking, ref=ref, seconds=30.0)

    threads = [threading.Thread(target=ask, args=(f"r{number}",)) for number in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30.0)
    assert found == {f"r{number}": f"r{number}" for number in range(24)}


def test_a_host_that_ignores_sigchld_gets_no_doubtful_secret() -> None:
    """Nobody can tell the status then, and an unknown one is not taken for success."""
    result = host(
        """
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        from ahp_sync.auth.keepers import TokenCommand
        from ahp_sync.failure import OperationalFailure
        try:
            print(TokenCommand(["echo", "x"]).resolve("r", Budget(5)))
        except OperationalFailure as failure:
            print(failure.code)
        """
    )
    assert (result.stdout, result.stderr) == ("command_failed\n", "")


def test_a_forked_child_asks_for_itself() -> None:
    """And leaves alone what its parent runs, which goes on and answers there."""
    result = host(
        """
        from ahp_sync.auth.keepers import TokenCommand
        slow = TokenCommand(["sh", "-c", "sleep 0.5; echo $0", "{ref}"])
        found = []
        asking = threading.Thread(target=lambda: found.append(slow.resolve("parent", Budget(5))))
        asking.start()
        time.sleep(0.2)
        child = os.fork()
        if child == 0:
            print(slow.resolve("child", Budget(5)), flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        asking.join()
        print(*found)
        """,
        flags=("-W", "ignore::DeprecationWarning"),
    )
    assert (result.stdout, result.stderr) == ("child\nparent\n", "")


def test_nothing_of_it_is_shown(tokens: Make, caplog: pytest.LogCaptureFixture) -> None:
    """Neither the output nor the arguments, which may hold a secret themselves (F51)."""
    caplog.set_level(logging.DEBUG)
    source = TokenCommand(["sh", "-c", f"echo {SECRET}; echo {SECRET} >&2; exit 1"])
    assert SECRET not in repr(source)
    refused(tokens("sh", "-c", f"echo {SECRET}; echo {SECRET} >&2; exit 1"))
    assert SECRET not in caplog.text
