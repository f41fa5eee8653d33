"""``ahp-sync demo``: five calls that end as they should, and nothing left behind."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import time
from pathlib import Path

import pytest
from command_line import ahp_sync, environment, start
from watching import GENEROUS, eventually

from ahp_sync import Decision, cli
from ahp_sync.cli import demo

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="stdio backends need POSIX")


def processes(folder: Path) -> list[int]:
    """Return the processes that have ``folder`` in their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(folder) in path.read_bytes().decode(errors="replace"):
                found.append(int(path.parent.name))
        except OSError:  # gone meanwhile
            pass
    return [pid for pid in found if pid != os.getpid()]


def test_all_five_calls_end_as_they_should(tmp_path: Path) -> None:
    """Exit code 0, a row for each call, the audit file named, no process left, in a few seconds."""
    began = time.monotonic()
    result = ahp_sync("demo", env={"TMPDIR": str(tmp_path)})
    assert time.monotonic() - began < GENEROUS
    assert (result.returncode, result.stderr) == (0, "")
    rows = [re.split(r"  +", line) for line in result.stdout.split("\n\n")[0].splitlines()]
    assert [cell.split()[0] for cell in rows[0]] == ["call", "decision", "how", "ms", "deadline"]
    assert [(row[2], row[3]) for row in rows[1:]] == [
        ("proceed", "explicit"),
        ("deny", "explicit"),
        ("deny", "synthetic"),
        ("proceed", "failed open"),
        ("proceed", "only observed"),
    ]
    hung = rows[3]
    assert float(hung[5]) <= float(hung[4]) < float(hung[5]) + 250
    assert "Force pushes are not allowed" in result.stdout
    audit = Path(result.stdout.split("audit records: ")[1].strip())
    assert audit.is_file()
    assert processes(tmp_path) == []


def test_the_audit_file_can_be_chosen(tmp_path: Path) -> None:
    """``--audit`` has the records there, one a line, and leaves no folder behind."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    file = tmp_path / "audit.jsonl"
    result = ahp_sync("demo", "--audit", file, env={"TMPDIR": str(temporary)})
    assert (result.returncode, os.listdir(temporary)) == (0, [])
    kinds = [json.loads(line)["kind"] for line in file.read_text().splitlines()]
    assert kinds == [
        *("accepted", "accepted"),
        *("explicit_denial", "not_called"),
        *("synthetic_denial", "not_called"),
        *("accepted", "failed_open"),
    ]


def test_another_end_is_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A call that ends otherwise than it should is named."""
    wrong = demo._Step("Bash", {"command": "rm -rf /"}, Decision.PROCEED, "explicit")
    monkeypatch.setattr(demo, "_STEPS", (wrong,))
    assert cli.main(["demo", "--audit", str(tmp_path / "audit.jsonl")]) == 1
    assert "1  NOT AS IT SHOULD BE" in capsys.readouterr().out


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_an_interrupted_demo_leaves_nothing_behind(name: str, code: int, tmp_path: Path) -> None:
    """Not even while one of its backends is stopped, and quietly."""
    if not Path("/proc/self").exists():
        pytest.skip("no /proc")
    file = tmp_path / "audit.jsonl"
    with start(
        "demo",
        "--audit",
        file,
        env=environment({"TMPDIR": str(tmp_path)}),
        start_new_session=True,
    ) as process:
        # Two calls are over, so that the third is on its way to the stopped backend.
        assert eventually(lambda: file.exists() and file.read_text().count("\n") == 4)
        assert len(processes(tmp_path)) == 3
        process.send_signal(getattr(signal, name))
        output, complaints = process.communicate(timeout=GENEROUS)
    assert (process.returncode, output, complaints) == (code, "", "")
    assert processes(tmp_path) == []
    assert os.listdir(tmp_path) == ["audit.jsonl"]
