"""What holds for every subcommand: help, errors, streams."""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import AHP_SYNC, ahp_sync, environment, json_file

from ahp_sync import __version__, cli
from ahp_sync.testing import hooks, intercept

COMMANDS = ("demo", "validate", "gate", "send")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A registration that can be used."""
    transport = {"type": "http", "url": "http://127.0.0.1:9/ahp"}
    entry = {"id": "com.example.one", "transport": transport, "subscriptions": [intercept()]}
    return json_file(tmp_path / "hooks.json", hooks(entry))


def test_without_arguments_the_help_is_shown() -> None:
    """Nothing asked for is wrong usage, and the help says what could be."""
    result = ahp_sync()
    assert (result.returncode, result.stdout) == (2, "")
    assert all(command in result.stderr for command in COMMANDS)


def test_help_names_the_commands() -> None:
    """``--help`` goes to stdout and is no error."""
    result = ahp_sync("--help")
    assert (result.returncode, result.stderr) == (0, "")
    assert all(command in result.stdout for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_fits_a_terminal(command: str) -> None:
    """Each help tells the exit codes, in 80 columns."""
    result = ahp_sync(command, "--help")
    assert (result.returncode, result.stderr) == (0, "")
    assert "exit code: " in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80


def test_version() -> None:
    """``--version`` prints the version of the package."""
    result = ahp_sync("--version")
    assert (result.returncode, result.stdout) == (0, f"ahp-sync {__version__}\n")


@pytest.mark.parametrize(
    "line",
    [
        "nonsense",
        "--bogus",
        "validate",
        "validate --conf x",
        "validate one two",
        "gate -- true",
        "gate --config",
        "gate --config hooks.json true",
        "gate --config hooks.json --",
        "gate --config hooks.json --timeout 0 -- true",
        "gate --config hooks.json --timeout nan -- true",
        "gate --config hooks.json --timeout 1e999 -- true",
        "gate --config hooks.json --timeout soon -- true",
        "gate --config hooks.json --session '' -- true",
        "gate --config hooks.json --audit /nowhere/audit.jsonl -- true",
        "gate --config missing.json -- true",
        "send",
        "send --config missing.json",
        "send --config hooks.json --url http://127.0.0.1:9/",
        "send --config hooks.json --backend com.example.other",
        "send --config hooks.json --observe",
        "send --config hooks.json --per-event",
        "send --config hooks.json --bearer-env TOKEN",
        "send --backend com.example.one -- true",
        "send --",
        "send --url ftp://127.0.0.1/",
        "send --url http://example.com/",
        "send --config hooks.json --event no.such",
        "send --config hooks.json --input nonsense",
        "send --config hooks.json --input []",
        'send --config hooks.json --input \'{"a": 1, "a": 2}\'',
        "send --config hooks.json --input '{\"a\": NaN}'",
        "send --config hooks.json --name ''",
        "send --config hooks.json --payload '{\"id\": 1}'",
        "demo --audit /nowhere/audit.jsonl",
    ],
)
def test_wrong_usage_is_one_line(
    line: str, config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Wrong usage or configuration: one line on stderr, exit code 2, nothing on stdout."""
    monkeypatch.chdir(config.parent)
    code = cli.main(shlex.split(line))
    said = capsys.readouterr()
    assert (code, said.out) == (2, "")
    assert said.err.startswith("ahp-sync: ")
    assert said.err.count("\n") == 1


def test_main_returns_where_argparse_would_exit(capsys: pytest.CaptureFixture[str]) -> None:
    """``main`` takes a command line and returns an exit code, whatever happens."""
    assert cli.main(["--version"]) == 0
    assert cli.main(["gate", "--help"]) == 0


def test_a_mistake_in_the_program_is_one_line_without_secrets(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An unexpected exception is told by its type and place; its text may hold anything."""

    def broken(options: argparse.Namespace) -> int:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(cli.validate, "_run", broken)
    assert cli.main(["validate", "x"]) == 70
    complaint = capsys.readouterr().err
    assert "internal error: ZeroDivisionError" in complaint
    assert "secret" not in complaint
    assert complaint.count("\n") == 1


def test_a_reader_that_leaves_is_no_news(config: Path) -> None:
    """With a closed pipe for stdout the command ends as by SIGPIPE, without a word."""
    reader, writer = os.pipe()
    os.close(reader)
    result = subprocess.run(
        [*AHP_SYNC, "validate", config],
        stdout=writer,
        stderr=subprocess.PIPE,
        env=environment(),
        timeout=30.0,
    )
    os.close(writer)
    assert (result.returncode, result.stderr) == (141, b"")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_a_full_disk_is_one_line(config: Path) -> None:
    """Output that can't be written is an error like any other."""
    with open("/dev/full", "wb") as full:
        result = subprocess.run(
            [*AHP_SYNC, "validate", config],
            stdout=full,
            stderr=subprocess.PIPE,
            env=environment(),
            timeout=30.0,
        )
    assert result.returncode == 1
    assert result.stderr.startswith(b"ahp-sync: ")
    assert result.stderr.count(b"\n") == 1


def test_closed_streams_do_no_harm(config: Path) -> None:
    """Without stdout and stderr the exit code still tells."""
    line = f"exec {shlex.join([*AHP_SYNC, 'validate', str(config)])} >&- 2>&-"
    assert subprocess.run(["sh", "-c", line], env=environment(), timeout=30.0).returncode == 0


def test_an_encoding_without_the_character_is_no_error(tmp_path: Path) -> None:
    """What stdout's encoding lacks is escaped."""
    result = ahp_sync("validate", "ä.json", cwd=tmp_path, env={"PYTHONIOENCODING": "ascii"})
    assert result.returncode == 1
    assert result.stdout.startswith("\\xe4.json: 1 problem\n")


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_foreign_text_is_shown_and_not_obeyed(tmp_path: Path) -> None:
    """Control characters, as in a file name, do not reach the terminal."""
    result = ahp_sync("validate", "a\x1b[31m\nb\u202e.json", cwd=tmp_path)
    assert result.stdout.startswith("a\\x1b[31m\\nb\\u202e.json: 1 problem\n")
