"""``ahp-sync validate``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import ahp_sync, json_file

from ahp_sync.testing import hooks, intercept, observe


def registration() -> dict[str, Any]:
    """Return a registration that is right, with a secret in every place that may hold one."""
    headers = {"X-Key": "header-secret"}
    url = "https://guard.example.com/ahp?key=query-secret"
    return hooks(
        {
            "id": "com.example.guard",
            "transport": {"type": "http", "url": url, "headers": headers},
            "subscriptions": [intercept(timeout_ms=800), observe(["session.*"])],
        },
        {
            "id": "com.example.local",
            "transport": {
                "type": "stdio",
                "command": "guard",
                "args": ["--key", "argument-secret"],
                "env": {"KEY": "env-secret"},
                "lifecycle": "per_event",
            },
            "subscriptions": [observe(["tool.after"])],
        },
    )


def with_discovery() -> dict[str, Any]:
    """Return a registration with a backend that says itself what it subscribes to."""
    document = registration()
    del document["hooks"][1]["subscriptions"]
    return document


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    """A registration with three mistakes."""
    document = registration()
    document["hooks"][0]["id"] = "guard"
    del document["hooks"][0]["subscriptions"][0]["failurePolicy"]
    document["hooks"][1]["transport"]["lifecycle"] = "eternal"
    return json_file(tmp_path / "hooks.json", document)


PLACES = [
    "$.hooks[0].id",
    "$.hooks[0].subscriptions[0].failurePolicy",
    "$.hooks[1].transport.lifecycle",
]


def test_a_valid_file_is_described(tmp_path: Path) -> None:
    """Exit code 0, and what the file says, without the secrets in it."""
    result = ahp_sync("validate", json_file(tmp_path / "hooks.json", registration()))
    assert (result.returncode, result.stderr) == (0, "")
    assert "hooks.json: valid\n" in result.stdout
    assert "com.example.guard  https://guard.example.com/ahp\n" in result.stdout
    assert "intercept  tool.before  800 ms, fail-closed\n" in result.stdout
    assert "com.example.local  guard (per_event)\n" in result.stdout
    assert "secret" not in result.stdout


def test_discovered_backends_are_named(tmp_path: Path) -> None:
    """Of a backend without subscriptions it is said that it is asked for them at run time."""
    path = json_file(tmp_path / "hooks.json", with_discovery())
    result = ahp_sync("validate", path)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.endswith(
        "com.example.local  guard (per_event)\n"
        "  asked at run time what it subscribes to (hooks/configuration)\n"
    )
    found = json.loads(ahp_sync("validate", path, "--json").stdout)
    assert (found["valid"], found["discovered"]) == (True, ["com.example.local"])


def test_every_problem_is_told_at_once(wrong: Path) -> None:
    """Exit code 1, and each problem with its place, what was found and what is right."""
    result = ahp_sync("validate", wrong)
    assert result.returncode == 1
    assert "hooks.json: 3 problems\n" in result.stdout
    blocks = result.stdout.strip().split("\n\n")[1:]
    assert [block.split("\n")[0] for block in blocks] == PLACES
    assert blocks[0].split("\n")[1:] == [
        '  found:  "guard"',
        '  wanted: a reverse-DNS name such as "com.acme.guard"',
    ]
    assert "secret" not in result.stdout + result.stderr


def test_the_result_as_json(wrong: Path) -> None:
    """``--json`` prints one object with the same problems."""
    result = ahp_sync("validate", "--json", wrong)
    found = json.loads(result.stdout)
    assert (result.returncode, result.stderr, found["valid"]) == (1, "", False)
    assert [problem["path"] for problem in found["problems"]] == PLACES
    assert all(problem.keys() == {"path", "found", "wanted"} for problem in found["problems"])


def test_ignored_members_are_warned_about(tmp_path: Path) -> None:
    """A member that means nothing is no problem; it is named all the same."""
    document = {**registration(), "hoooks": 1}
    path = json_file(tmp_path / "hooks.json", document)
    result = ahp_sync("validate", path)
    assert result.returncode == 0
    assert result.stderr == "ahp-sync: warning: registration: $.hoooks is unknown and ignored\n"
    in_json = ahp_sync("validate", path, "--json")
    assert json.loads(in_json.stdout)["warnings"] == [
        "registration: $.hoooks is unknown and ignored"
    ]
    assert in_json.stderr == ""


@pytest.mark.parametrize("content", [None, b"", b"{", b"[]", b'{"a": 1, "a": 2}', b"\xff"])
def test_what_is_no_registration_is_a_problem(content: bytes, tmp_path: Path) -> None:
    """A missing, empty, broken or unreadable file: exit code 1, told like any problem."""
    path = tmp_path / "hooks.json"
    if content is not None:
        path.write_bytes(content)
    result = ahp_sync("validate", path)
    assert (result.returncode, result.stderr) == (1, "")
    assert "problem" in result.stdout
    assert "  found:  " in result.stdout
