"""The example backends by themselves, and as backends of the command."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional

import pytest
from command_line import json_file

from ahp_sync.examples import http_backend, stdio_backend

GENEROUS = 10.0


def question(tool_input: dict[str, Any], **members: Any) -> dict[str, Any]:
    """Return an interception of a tool call, as far as a backend looks at it."""
    params = {
        "protocolVersion": "draft",
        "event": {"id": "ev-1", "type": "tool.before", "tool": {"name": "t", "input": tool_input}},
        "capabilities": {"effects": ["deny"]},
        **members,
    }
    return {"jsonrpc": "2.0", "id": "ev-1", "method": "hooks/intercept", "params": params}


@pytest.mark.parametrize(
    ("command", "judged"),
    [
        ("ls -la", None),
        ("rm notes.txt", None),
        ("rm -r build", None),
        ("rm -f notes.txt", None),
        ("rm -rf build", "Deleting"),
        ("rm -fr build", "Deleting"),
        ("rm -r -f build", "Deleting"),
        ("rm --recursive --force build", "Deleting"),
        ("rm -Rf build", "Deleting"),
        ("sudo /bin/rm -rf /", "Deleting"),
        ("cd build && rm -rf .", "Deleting"),
        ("true;rm -rf .", "Deleting"),
        ("echo 'rm -rf .'", None),
        ("git push", None),
        ("git push --force-with-lease", None),
        ("git push --force", "Force pushes"),
        ("git -C project push -f origin main", "Force pushes"),
        ("git fetch --force", None),
        ("echo 'unclosed", "The command has an unclosed quote"),
        ("", None),
    ],
)
def test_the_shell_policy(command: str, judged: Optional[str]) -> None:
    """Deleting recursively by force and force pushes are refused, in their usual spellings."""
    reason = http_backend.objection({"command": command})
    assert reason is None if judged is None else reason is not None and reason.startswith(judged)


@pytest.mark.parametrize("tool_input", [{}, {"command": 1}, {"path": "notes.txt"}])
def test_what_is_no_command_is_none_of_its_business(tool_input: dict[str, Any]) -> None:
    """A tool without a command is not judged."""
    assert http_backend.objection(tool_input) is None


# --- over stdio -----------------------------------------------------------------------------------


def over_stdio(policy: Path, *lines: bytes) -> subprocess.CompletedProcess[bytes]:
    """Run the stdio backend on some lines."""
    assert stdio_backend.__file__ is not None
    return subprocess.run(
        [sys.executable, "-I", stdio_backend.__file__, policy],
        input=b"".join(line + b"\n" for line in lines),
        capture_output=True,
        timeout=30.0,
    )


def answers(result: subprocess.CompletedProcess[bytes]) -> list[dict[str, Any]]:
    """Return the answers of a run that went well."""
    assert (result.returncode, result.stderr) == (0, b"")
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """A policy file for the stdio backend."""
    return json_file(tmp_path / "policy.json", {"deny": [{"path": "*.pem", "reason": "No keys."}]})


def test_stdio_judges_paths(policy: Path) -> None:
    """A forbidden file is denied with the reason of its rule, any other is not."""
    asked = [question({"path": "a.pem"}), question({"file_path": "b.pem"}), question({"path": "c"})]
    got = answers(over_stdio(policy, *(json.dumps(one).encode() for one in asked)))
    deny = [{"type": "deny", "reason": "No keys."}]
    assert [one["result"]["effects"] for one in got] == [deny, deny, []]


def test_stdio_answers_what_it_cannot_serve(policy: Path) -> None:
    """Each kind of nonsense gets its JSON-RPC error, and a notification gets nothing."""
    notification = {"jsonrpc": "2.0", "method": "hooks/observe", "params": {}}
    other_event = {"event": {"type": "tool.after", "tool": {"input": {}}}}
    lines = [
        b"\xff",
        b"{",
        b"[]",
        json.dumps({**question({}), "method": "hooks/configuration"}).encode(),
        json.dumps(question({}, protocolVersion="1")).encode(),
        json.dumps(question({}, **other_event)).encode(),
        json.dumps(question({}, event={})).encode(),
        json.dumps(notification).encode(),
    ]
    got = answers(over_stdio(policy, *lines))
    codes = [-32700, -32700, -32600, -32601, -32001, -32002, -32602]
    assert [one["error"]["code"] for one in got] == codes


def test_stdio_offers_nothing_that_was_not_asked_for(policy: Path) -> None:
    """Where the harness does not take denials, there are none."""
    asked = question({"path": "a.pem"}, capabilities={"effects": []})
    (got,) = answers(over_stdio(policy, json.dumps(asked).encode()))
    assert got["result"]["effects"] == []


@pytest.mark.parametrize("content", [None, "{", "[]", "{}", '{"deny": [{}]}'])
def test_stdio_without_a_policy_ends(content: Optional[str], policy: Path) -> None:
    """It does not guess: no answer, exit status 1, the reason on stderr."""
    policy.unlink() if content is None else policy.write_text(content)
    result = over_stdio(policy, json.dumps(question({})).encode())
    assert (result.returncode, result.stdout) == (1, b"")
    assert result.stderr.startswith(b"the policy can't be read: ")


# --- over HTTP ------------------------------------------------------------------------------------


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """Where the HTTP backend writes what it is told."""
    return tmp_path / "observed.jsonl"


@pytest.fixture
def connection(journal: Path) -> Iterator[http.client.HTTPConnection]:
    """A connection to the HTTP backend, which runs as its docstring says."""
    assert http_backend.__file__ is not None
    with subprocess.Popen(
        [sys.executable, "-I", http_backend.__file__, "--port=0", f"--journal={journal}"],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        address = process.stdout.readline().split("/")[2]
        connection = http.client.HTTPConnection(address, timeout=GENEROUS)
        yield connection
        connection.close()
        process.terminate()


def post(connection: http.client.HTTPConnection, body: bytes) -> tuple[int, bytes]:
    """Post a body; return status and body of the answer."""
    connection.request("POST", "/ahp", body)
    response = connection.getresponse()
    return response.status, response.read()


def test_http_answers_on_one_connection(connection: http.client.HTTPConnection) -> None:
    """A denial, a neutral answer, and errors for what it can't serve."""
    status, body = post(connection, json.dumps(question({"command": "rm -rf ."})).encode())
    assert (status, json.loads(body)["result"]["effects"][0]["type"]) == (200, "deny")
    status, body = post(connection, json.dumps(question({"command": "ls"})).encode())
    assert (status, json.loads(body)["result"]["effects"]) == (200, [])
    other = {**question({}), "method": "hooks/configuration"}
    assert json.loads(post(connection, json.dumps(other).encode())[1])["error"]["code"] == -32601
    for nonsense in (b"{", b"[]", b"\xff"):
        status, body = post(connection, nonsense)
        assert (status, json.loads(body)["error"]["code"]) == (400, -32700)


def test_http_keeps_a_journal(connection: http.client.HTTPConnection, journal: Path) -> None:
    """What it is told is accepted without a body and written down."""
    event = {"id": "ev-2", "type": "tool.after"}
    notification = {"jsonrpc": "2.0", "method": "hooks/observe", "params": {"event": event}}
    assert post(connection, json.dumps(notification).encode()) == (202, b"")
    assert [json.loads(line) for line in journal.read_text().splitlines()] == [event]
