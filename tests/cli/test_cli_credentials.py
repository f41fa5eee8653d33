"""Secrets and TLS identities that ``gate`` and ``send`` are given on the command line."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional

import pytest
from certificates import Authority
from command_line import ahp_sync, json_file

from ahp_sync.testing import HttpBackend, ReceivedRequest, observe

SECRET = "s3cr3t-value"
BEARER = {"type": "bearer", "tokenRef": "guard"}
REFUSED = 77


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "ca")


def denying(request: ReceivedRequest) -> str:
    """Deny, which shows that the backend was asked."""
    return "ok" if request.rpc_id is None else "deny"


@pytest.fixture
def backend() -> Iterator[HttpBackend]:
    with HttpBackend(denying) as backend:
        yield backend


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(f"{SECRET}\n")
    path.chmod(0o600)
    return path


def config(folder: Path, backend: HttpBackend, **entry: Any) -> Path:
    return json_file(folder / "hooks.json", backend.registration(timeout_ms=10_000, **entry))


def run(command: str, config: Path, *options: Any) -> Any:
    """Ask the backends of ``config`` with either command; 77 is a denial by them."""
    line = (command, "--config", config, *options)
    result = ahp_sync(*line, "--", "true") if command == "gate" else ahp_sync(*line)
    assert SECRET not in result.stdout + result.stderr
    return result


def authorization(backend: HttpBackend) -> list[Optional[str]]:
    return [request.header("Authorization") for request in backend.requests]


both = pytest.mark.parametrize("command", ["gate", "send"])


def is_usage_error(result: Any, *words: str) -> bool:
    """Return whether it ended in one line that has ``words`` in it, having done nothing."""
    (line,) = result.stderr.splitlines()
    assert all(word in line for word in words), line
    return (result.returncode, result.stdout) == (2, "")


# --- secrets --------------------------------------------------------------------------------------


@both
def test_a_secret_from_a_file(
    command: str, tmp_path: Path, backend: HttpBackend, token: Path
) -> None:
    hooks = config(tmp_path, backend, authentication=BEARER)
    result = run(command, hooks, "--token-file", f"guard={token}")
    assert result.returncode == REFUSED
    assert set(authorization(backend)) == {f"Bearer {SECRET}"}


@both
def test_a_secret_from_a_command(
    command: str, tmp_path: Path, backend: HttpBackend, token: Path
) -> None:
    """Its words are those of a shell, but nothing of it is expanded or run by one."""
    hooks = config(tmp_path, backend, authentication=BEARER)
    program = "import sys; print(open(sys.argv[1]).read(), end=sys.argv[2][6:])"
    line = f"\"{sys.executable}\" -S -E -c \"{program}\" '{token}' '$(id);'"
    result = run(command, hooks, "--token-command", f"guard={line}")
    assert result.returncode == REFUSED
    assert set(authorization(backend)) == {f"Bearer {SECRET}"}


@both
def test_several_secrets(command: str, tmp_path: Path, backend: HttpBackend, token: Path) -> None:
    headers = {"X-Key": {"valueRef": "key"}}
    hooks = config(tmp_path, backend, authentication=BEARER, headers=headers)
    options = ("--token-file", f"guard={token}", "--token-command", "key=echo a=b")
    assert run(command, hooks, *options).returncode == REFUSED
    assert set(authorization(backend)) == {f"Bearer {SECRET}"}
    assert {request.header("X-Key") for request in backend.requests} == {"a=b"}


@both
def test_a_reference_without_an_option_is_a_usage_error(
    command: str, tmp_path: Path, backend: HttpBackend, token: Path
) -> None:
    headers = {"X-Key": {"valueRef": "key"}}
    hooks = config(tmp_path, backend, authentication=BEARER, headers=headers)
    result = run(command, hooks)
    assert is_usage_error(result, command, "--token-file", "'guard', 'key'")
    assert is_usage_error(run(command, hooks, "--token-file", f"guard={token}"), "'key'")
    assert backend.requests == []


@both
@pytest.mark.parametrize(
    ("option", "value", "word"),
    [
        ("--token-file", SECRET, "REF=PATH"),
        ("--token-file", "guard=", "REF=PATH"),
        ("--token-file", f"={SECRET}", "REF=PATH"),
        ("--token-command", f"echo {SECRET}", "REF=COMMAND"),
        ("--token-command", "guard= ", "REF=COMMAND"),
        ("--token-command", f"guard=echo '{SECRET}", "no command line"),
    ],
)
def test_an_option_that_makes_no_sense(
    command: str, option: str, value: str, word: str, tmp_path: Path, backend: HttpBackend
) -> None:
    """What was given is not repeated: it may hold the secret."""
    hooks = config(tmp_path, backend, authentication=BEARER)
    result = run(command, hooks, option, value)
    assert is_usage_error(result, option, word)


@both
def test_one_secret_in_two_places_is_a_usage_error(
    command: str, tmp_path: Path, backend: HttpBackend, token: Path
) -> None:
    hooks = config(tmp_path, backend, authentication=BEARER)
    options = ("--token-file", f"guard={token}", "--token-command", "guard=echo x")
    assert is_usage_error(run(command, hooks, *options), "'guard'", "twice")


@pytest.mark.parametrize("option", ["--token-file", "--token-command"])
def test_a_backend_named_on_the_command_line_refers_to_no_secret(
    option: str, backend: HttpBackend
) -> None:
    result = ahp_sync("send", "--url", backend.url, option, "guard=x")
    assert is_usage_error(result, option, "--config")


@both
@pytest.mark.parametrize("policy", ["fail-closed", "fail-open"])
def test_a_secret_that_is_not_to_be_had_follows_the_policy(
    command: str, policy: str, tmp_path: Path, backend: HttpBackend, token: Path
) -> None:
    """It is looked for when it is needed; and nothing is sent without it."""
    token.chmod(0o644)
    hooks = config(tmp_path, backend, authentication=BEARER, policy=policy)
    result = run(command, hooks, "--token-file", f"guard={token}")
    assert (result.returncode == 0) is (policy == "fail-open")
    assert backend.requests == []


def test_send_shows_what_was_wrong_with_it(
    tmp_path: Path, backend: HttpBackend, token: Path
) -> None:
    token.chmod(0o644)
    hooks = config(tmp_path, backend, authentication=BEARER)
    result = run("send", hooks, "--json", "--token-file", f"guard={token}")
    verdict = json.loads(result.stdout)["deliveries"][0]["verdict"]
    assert (verdict["failure_class"], verdict["code"]) == ("authentication", "credential_exposed")


# --- TLS ------------------------------------------------------------------------------------------


@both
def test_whom_to_trust_and_who_to_be(command: str, tmp_path: Path, authority: Authority) -> None:
    """For every backend over https; one over http has nothing of it."""
    cert, key = authority.client("ann")
    tls = authority.server(asks=authority)
    with HttpBackend(denying, tls=tls) as secure, HttpBackend("ok") as plain:
        document = secure.registration(timeout_ms=10_000)
        document["hooks"] += [plain.entry(id="com.example.plain", subscriptions=[observe()])]
        hooks = json_file(tmp_path / "hooks.json", document)
        known = ("--ca-file", authority.ca_file, "--client-cert", cert, "--client-key", key)
        assert run(command, hooks, *known).returncode == REFUSED
        before = len(secure.requests)
        for less in ((), known[:2], known[2:]):
            # Fail-closed: the gate refuses, too, but the backend was not asked.
            assert run(command, hooks, *less).returncode != 0
        assert len(secure.requests) == before


def test_a_backend_named_on_the_command_line_has_them_too(
    authority: Authority, tmp_path: Path
) -> None:
    with HttpBackend(denying, tls=authority.server()) as backend:
        result = ahp_sync("send", "--url", backend.url, "--ca-file", authority.ca_file)
    assert result.returncode == REFUSED


@both
@pytest.mark.parametrize("option", ["--ca-file", "--client-cert"])
@pytest.mark.parametrize("content", [None, "no PEM"])
def test_a_file_that_is_unusable_is_a_usage_error(
    command: str, option: str, content: Optional[str], tmp_path: Path, authority: Authority
) -> None:
    path = tmp_path / "file.pem"
    if content is not None:
        path.write_text(content)
    with HttpBackend(denying, tls=authority.server()) as backend:
        result = run(command, config(tmp_path, backend), option, path)
        assert is_usage_error(result, str(path))


@both
def test_a_key_needs_a_certificate(command: str, tmp_path: Path, authority: Authority) -> None:
    _, key = authority.client("ann")
    with HttpBackend(denying, tls=authority.server()) as backend:
        result = run(command, config(tmp_path, backend), "--client-key", key)
        assert is_usage_error(result, "--client-key", "--client-cert")


@both
def test_options_for_tls_need_a_backend_that_has_it(
    command: str, tmp_path: Path, backend: HttpBackend, authority: Authority
) -> None:
    """Else whoever wrote http by mistake would believe to be safe."""
    result = run(command, config(tmp_path, backend), "--ca-file", authority.ca_file)
    assert is_usage_error(result, "https")


# --- validate -------------------------------------------------------------------------------------


def test_validate_takes_every_binding(tmp_path: Path) -> None:
    """One with references, OAuth and an upload endpoint is valid; nothing is resolved."""
    transport = {"type": "http", "url": "https://guard.example.com/ahp"}
    oauth = {
        "type": "oauth",
        "resource": "https://guard.example.com/ahp",
        "issuer": "https://login.example.com",
        "clientId": "harness",
        "flow": "client_credentials",
        "clientSecretRef": "client",
        "scopes": ["hooks"],
    }
    upload = {
        "endpoint": "https://guard.example.com/content",
        "timeoutMs": 1000,
        "maxBytes": 1_000_000,
        "auth": {"type": "bearer", "tokenRef": "upload"},
    }
    subscriptions = [{**observe(), "upload": upload}]
    entries = [
        {
            "id": f"com.example.{name}",
            "transport": transport,
            "authentication": authentication,
            "subscriptions": subscriptions,
        }
        for name, authentication in (("bearer", BEARER), ("oauth", oauth))
    ]
    hooks = json_file(tmp_path / "hooks.json", {"protocolVersion": "draft", "hooks": entries})
    result = ahp_sync("validate", hooks)
    assert (result.returncode, result.stderr) == (0, ""), result.stdout
