"""The pytest plugin, in a pytest of its own, as users load it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import ahp_sync

ROOT = Path(ahp_sync.__file__).parent.parent

USERS_TESTS = """
import os
import threading

import pytest

from ahp_sync.testing import (
    assert_audit, assert_denied, assert_proceeds, assert_synthetic_denial, fault_cases
)

CASES = [case for case in fault_cases() if case.name in ("eof", "wrong_id", "exit_mid")]


def test_a_denial(ahp_client, ahp_http_backend, ahp_audit):
    client = ahp_client(ahp_http_backend("deny").registration(timeout_ms=5000))
    assert_denied(client.tool_before(name="Bash", input={}), "denied by the scripted backend")
    assert_audit(ahp_audit, kind="explicit_denial")


def test_a_process(ahp_stdio_backend, ahp_client):
    backend = ahp_stdio_backend("ok")
    client = ahp_client(backend.registration(timeout_ms=5000), close_timeout=5.0)
    assert_proceeds(client.tool_before(name="Bash", input={}))
    test_a_process.pids = backend.pids()


def test_nothing_is_left_of_it():
    (pid,) = test_a_process.pids
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert threading.active_count() == 1


@pytest.mark.parametrize("case", CASES, ids=str)
def test_faults(case, ahp_fault_backend, ahp_client):
    client = ahp_client(ahp_fault_backend(case).registration(timeout_ms=5000))
    assert_synthetic_denial(client.tool_before(name="Bash", input={}))
"""


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    environment.pop("PYTEST_ADDOPTS", None)
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_fixtures_work_in_a_pytest_of_their_own(tmp_path: Path) -> None:
    """Backends, client and audit log come from the plugin and are ended by it."""
    (tmp_path / "test_users.py").write_text(USERS_TESTS)
    flags = ["-W", "error", "-p", "no:cacheprovider", "-p", "ahp_sync.testing.plugin"]
    done = run("-m", "pytest", "-q", *flags, cwd=tmp_path)
    assert "11 passed" in done.stdout, done.stdout + done.stderr


def test_the_fixtures_explain_themselves(tmp_path: Path) -> None:
    """``pytest --fixtures`` shows a line for each."""
    done = run("-m", "pytest", "--fixtures", "-p", "ahp_sync.testing.plugin", cwd=tmp_path)
    for name in ("http_backend", "stdio_backend", "fault_backend", "client", "audit"):
        assert f"ahp_{name}" in done.stdout
    assert "no docstring available" not in done.stdout.partition("ahp_")[2]


def test_loading_the_plugin_loads_little(tmp_path: Path) -> None:
    """Every run of pytest in the environment pays for it."""
    code = (
        "import sys, ahp_sync.testing.plugin\n"
        "heavy = {'requests', 'urllib3', 'jsonschema', 'ahp_sync.testing.http_backend'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    assert run("-c", code, cwd=tmp_path).stdout == "[]\n"
