"""Field bugs of HTTP clients: connections, credentials, trust, and words that leak.

A test names the row of the list of field bugs that it belongs to, and does what the row says.
"""

from __future__ import annotations

import json
import logging
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Callable

import pytest
import trustme
from watching import descriptors, statistics

from ahp_sync import (
    GENERIC_REASON,
    Client,
    JsonLinesSink,
    LoggingSink,
    Outcome,
    RetryPolicy,
    TLSIdentity,
)
from ahp_sync.testing import (
    AuditLog,
    HttpBackend,
    assert_audit,
    assert_denied,
    assert_failed_open,
    assert_proceeds,
    assert_synthetic_denial,
    hooks,
    intercept,
    observe,
    step,
)

ONCE = RetryPolicy(max_attempts=1)
POLICIES = ("fail-closed", "fail-open")
Backends = Callable[..., HttpBackend]
Clients = Callable[..., Client]

each_policy = pytest.mark.parametrize("policy", POLICIES)


def ask(client: Client, **more: Any) -> Outcome:
    return client.tool_before(name="Bash", **{"input": {"command": "ls"}, **more})


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    """A certificate authority."""
    return trustme.CA()


@pytest.fixture(scope="module")
def other_authority() -> trustme.CA:
    """Another one, that nobody's certificate is from."""
    return trustme.CA()


def pem(authority: trustme.CA, path: Path) -> Path:
    """Write the authority's certificate to ``path``."""
    authority.cert_pem.write_to_path(str(path))
    return path


def server_context(authority: trustme.CA, *names: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*(names or ("127.0.0.1",))).configure_cert(context)
    return context


# --- F22, F60: kept connections ------------------------------------------------------------------


@pytest.mark.parametrize("script", ["close_on_reuse", "reset_on_reuse"])
def test_f22_a_stale_connection_is_made_up_for(
    script: str, ahp_http_backend: Backends, ahp_client: Clients, ahp_audit: AuditLog
) -> None:
    """F22: dropped at its second request, it is replaced; the same bytes, two attempts audited."""
    backend = ahp_http_backend(script)
    client = ahp_client(backend.registration(timeout_ms=5000))
    assert_proceeds(ask(client))
    assert_proceeds(ask(client))
    assert [record.attempts for record in ahp_audit] == [1, 2]
    _, first, second = backend.requests
    assert first.body == second.body
    assert first.connection != second.connection


@each_policy
def test_f22_if_the_new_connection_fails_too_it_is_one_failure(
    policy: str, ahp_http_backend: Backends, ahp_client: Clients, ahp_audit: AuditLog
) -> None:
    """F22: whatever the number of attempts."""
    backend = ahp_http_backend(["ok", "eof"])
    client = ahp_client(backend.registration(timeout_ms=5000, policy=policy))
    assert_proceeds(ask(client))
    outcome = ask(client)
    if policy == "fail-closed":
        assert_synthetic_denial(outcome, failure_class="connection")
    else:
        assert_failed_open(outcome, failure_class="connection")
    assert len(outcome.failures) == 1
    assert len(ahp_audit) == 2


def test_f60_many_threads_and_hosts_swap_no_replies(
    ahp_http_backend: Backends, ahp_client: Clients, ahp_audit: AuditLog
) -> None:
    """F60: 16 threads, 15 hosts, some 3,200 deliveries; each reply has its own id.

    Connections are kept, and their number does not grow.
    """
    backends = [ahp_http_backend("ok") for _ in range(15)]
    entries = [
        backend.entry(id=f"com.example.h{n}", timeout_ms=30_000)
        for n, backend in enumerate(backends)
    ]
    client = ahp_client(hooks(*entries), retry=ONCE)
    ready = threading.Barrier(16)

    def calls() -> None:
        ready.wait()
        for _ in range(14):
            assert_proceeds(ask(client))

    with ThreadPoolExecutor(16) as callers:
        for call in [callers.submit(calls) for _ in range(16)]:
            call.result()
    assert len(ahp_audit) == 16 * 14 * 15
    assert {record.kind.value for record in ahp_audit} == {"accepted"}
    kept = [backend.connections for backend in backends]
    assert max(kept) <= 16
    before = len(descriptors())
    for _ in range(10):
        assert_proceeds(ask(client))
    assert [backend.connections for backend in backends] == kept
    assert len(descriptors()) <= before
    assert statistics(client).load == 0


# --- F23, F25: where a request goes, and as whom -------------------------------------------------


@pytest.mark.parametrize("entry", ["machine 127.0.0.1", "default"])
@pytest.mark.parametrize("bearer", [True, False], ids=["bearer", "anonymous"])
def test_f23_netrc_has_no_say(
    bearer: bool,
    entry: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ahp_http_backend: Backends,
    ahp_client: Clients,
) -> None:
    """F23: the hub sees exactly the configured header, or none at all."""
    for name in ("netrc", ".netrc", "_netrc"):
        path = tmp_path / name
        path.write_text(f"{entry} login somebody password from-netrc\n")
        path.chmod(0o600)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HUB_TOKEN", "configured-token")
    backend = ahp_http_backend("ok")
    binding = {"type": "bearer", "tokenEnv": "HUB_TOKEN"} if bearer else None
    client = ahp_client(
        backend.registration(timeout_ms=5000, authentication=binding), trust_env=True
    )
    assert_proceeds(ask(client))
    (request,) = backend.requests
    wanted = ["Bearer configured-token"] if bearer else []
    assert request.header_values("Authorization") == wanted


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("where", ["port", "host", "scheme"])
def test_f25_a_redirect_is_not_followed(
    where: str,
    code: int,
    authority: trustme.CA,
    monkeypatch: pytest.MonkeyPatch,
    ahp_http_backend: Backends,
    ahp_client: Clients,
    ahp_audit: AuditLog,
) -> None:
    """F25: not to another port, host or scheme; nobody there receives a thing."""
    monkeypatch.setenv("HUB_TOKEN", "secret-token")
    tls = server_context(authority, "127.0.0.1", "localhost") if where == "scheme" else None
    other = ahp_http_backend("ok", tls=tls)
    location = other.url.replace("127.0.0.1", "localhost") if where == "host" else other.url
    backend = ahp_http_backend(step("redirect", code=code, location=location))
    client = ahp_client(
        backend.registration(
            timeout_ms=5000, authentication={"type": "bearer", "tokenEnv": "HUB_TOKEN"}
        )
    )
    assert_synthetic_denial(ask(client), failure_class="http_status")
    assert_audit(ahp_audit, kind="synthetic_denial", code=f"http_{code}", http_status=code)
    assert other.connections == 0
    assert len(backend.requests) == 1


# --- F69: trust -----------------------------------------------------------------------------------


@pytest.mark.parametrize("variable", ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"])
@pytest.mark.parametrize("names", ["another authority", "no file"])
def test_f69_the_environment_does_not_override_explicit_trust(
    names: str,
    variable: str,
    authority: trustme.CA,
    other_authority: trustme.CA,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ahp_http_backend: Backends,
    ahp_client: Clients,
) -> None:
    """F69: the authority given in code is the one that counts."""
    elsewhere = tmp_path / "missing.pem"
    if names == "another authority":
        pem(other_authority, elsewhere)
    monkeypatch.setenv(variable, str(elsewhere))
    backend = ahp_http_backend("ok", tls=server_context(authority))
    tls = {backend.default_id: TLSIdentity(ca_file=pem(authority, tmp_path / "ca.pem"))}
    client = ahp_client(backend.registration(timeout_ms=5000), tls=tls, trust_env=True)
    assert_proceeds(ask(client))


def test_f69_the_environment_does_not_add_trust_either(
    authority: trustme.CA,
    other_authority: trustme.CA,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ahp_http_backend: Backends,
    ahp_client: Clients,
    ahp_audit: AuditLog,
) -> None:
    """F69: with another authority given in code, the right one in a variable is not asked."""
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(pem(authority, tmp_path / "ca.pem")))
    monkeypatch.setenv("CURL_CA_BUNDLE", str(tmp_path / "ca.pem"))
    backend = ahp_http_backend("ok", tls=server_context(authority))
    tls = {backend.default_id: TLSIdentity(ca_file=pem(other_authority, tmp_path / "other.pem"))}
    client = ahp_client(backend.registration(timeout_ms=5000), tls=tls, trust_env=True)
    assert_synthetic_denial(ask(client), failure_class="connection")
    assert_audit(ahp_audit, code="tls_certificate", attempts=1)
    assert not backend.requests


@pytest.mark.parametrize("content", [None, "", "no certificate"], ids=["missing", "empty", "text"])
def test_f69_an_unusable_file_is_refused_at_once(
    content: Any, tmp_path: Path, ahp_http_backend: Backends, ahp_client: Clients
) -> None:
    """F69: by the constructor, with the name of the argument; nothing is sent."""
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_text(content)
    backend = ahp_http_backend("silent_tls")
    with pytest.raises((OSError, ValueError), match="ca_file"):
        ahp_client(
            backend.registration(timeout_ms=5000),
            tls={backend.default_id: TLSIdentity(ca_file=path)},
        )
    assert backend.connections == 0


# --- F49, F51: what is said about a failure ------------------------------------------------------

TOOL = {"name": "Bash", "input": {"command": "ls"}, "call_id": "call-1"}
EVENTS: dict[str, Callable[[Client], Outcome]] = {
    "tool.before": lambda client: client.tool_before(**TOOL),
    "tool.after": lambda client: client.tool_after(**TOOL),
    "session.start": lambda client: client.session_start(session="s-1"),
    "session.end": lambda client: client.session_end(session="s-1"),
}


@each_policy
@pytest.mark.parametrize("event", EVENTS)
def test_f49_an_unreachable_backend_is_blamed_and_nobody_else(
    event: str,
    policy: str,
    ahp_http_backend: Backends,
    ahp_client: Clients,
    ahp_audit: AuditLog,
) -> None:
    """F49: the same rule for every event; the failure names subscription and class.

    What the model is told is generic (R-FAIL-04), and no text shows the address.
    """
    backend = ahp_http_backend("refused")
    subscriptions = [observe()]
    if event == "tool.before":
        subscriptions = [intercept(timeout_ms=5000, policy=policy)]
    url = f"{backend.url}?token=secret-token"
    client = ahp_client(backend.registration(url=url, subscriptions=subscriptions), retry=ONCE)
    outcome = EVENTS[event](client)
    (record,) = ahp_audit.records
    assert (record.failure_class, record.code) == ("connection", "connect_refused")
    assert (record.backend, record.subscription) == (backend.default_id, 0)
    if event != "tool.before":
        assert_proceeds(outcome)
        assert record.kind.value == "observation_failed"
        return
    (failure,) = outcome.failures
    assert str(failure).startswith(f"{backend.default_id}[0] connection/connect_refused")
    if policy == "fail-closed":
        assert_synthetic_denial(outcome)
        assert outcome.reason == GENERIC_REASON
    else:
        assert_failed_open(outcome)
    shown = f"{outcome} {failure!r} {record} {record.to_json()}"
    assert "secret-token" not in shown
    assert str(backend.port) not in shown
    assert "user" not in (outcome.reason or "")


CANARY = "canary-5d41402abc4b2a76"
#: What a hub does to make its client complain, and whether it is there at all.
PROVOKED: dict[str, Any] = {
    "refused": "refused",
    "500": "status_500",
    "401": step("status", code=401, answer="html"),
    "malformed": "html",
    "reset": "reset",
    "bad-header": step("raw", pieces=[b"HTTP/1.1 200 OK\r\nbroken header\r\n\r\n"]),
    "echo": "echo_headers",
    "echo-malformed": "echo_headers_raw",
    "echo-500": step("echo_headers_raw", code=500),
    "echo-401": step("echo_headers_raw", code=401),
    "echo-all": lambda request: step(
        "status", code=404, answer=f"{request.path} {request.headers}".encode()
    ),
    "echo-json": lambda request: step(
        "status", code=200, answer=json.dumps([request.path, *request.headers]).encode()
    ),
    "blackhole": "blackhole",
}


@pytest.fixture
def everything(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], str]]:
    """``everything()`` is all that was logged at any level, arguments and tracebacks included."""
    for name in (None, "urllib3", "requests", "ahp_sync"):
        caplog.set_level(logging.DEBUG, name)

    def shown() -> str:
        records = [f"{record.__dict__} {record.getMessage()}" for record in caplog.records]
        return "\n".join([caplog.text, *records])

    yield shown


@pytest.mark.parametrize("provoked", PROVOKED)
@pytest.mark.parametrize("mode", ["intercept", "observe"])
def test_f51_no_secret_is_logged_shown_or_kept(
    provoked: str,
    mode: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    everything: Callable[[], str],
    ahp_http_backend: Backends,
    ahp_client: Clients,
    ahp_audit: AuditLog,
) -> None:
    """F51: not the bearer, not a header, not a token in the URL, wherever the hub echoes them."""
    bearer, header, query = (f"{CANARY}-{kind}" for kind in ("bearer", "header", "query"))
    monkeypatch.setenv("HUB_TOKEN", bearer)
    monkeypatch.setenv("HUB_KEY", header)
    backend = ahp_http_backend(PROVOKED[provoked])
    subscription = intercept(timeout_ms=1000) if mode == "intercept" else observe()
    registration = backend.registration(
        url=f"{backend.url}?token={query}",
        headers={"X-Key": {"valueEnv": "HUB_KEY"}},
        authentication={"type": "bearer", "tokenEnv": "HUB_TOKEN"},
        subscriptions=[subscription],
    )
    path = tmp_path / "audit.jsonl"
    with JsonLinesSink(path) as lines:
        client = ahp_client(
            registration, audit=[ahp_audit, lines, LoggingSink()], observe_timeout=0.5
        )
        outcome = ask(client)
    if provoked != "refused":
        (request, *_) = backend.requests
        assert request.header("Authorization") == f"Bearer {bearer}"
        assert (request.header("X-Key"), query in request.path) == (header, True)
    failures = [f"{failure} {failure!r}" for failure in outcome.failures]
    shown = [everything(), repr(client), repr(outcome), str(outcome.reason), *failures]
    shown += [repr(record) + str(record.to_json()) for record in ahp_audit]
    shown.append(path.read_text())
    assert CANARY not in "\n".join(shown)


@pytest.mark.parametrize("token", ["bad\ntoken", "bad token", "", "b\u00e4d"])
def test_f51_a_secret_that_can_not_be_sent_is_not_shown_either(
    token: str,
    monkeypatch: pytest.MonkeyPatch,
    everything: Callable[[], str],
    ahp_http_backend: Backends,
    ahp_client: Clients,
    ahp_audit: AuditLog,
) -> None:
    """F51: the failure names the variable; nothing is sent without the credential (R-AUTH-01)."""
    monkeypatch.setenv("HUB_TOKEN", token and f"{CANARY}{token}")
    backend = ahp_http_backend("ok")
    binding = {"type": "bearer", "tokenEnv": "HUB_TOKEN"}
    client = ahp_client(backend.registration(timeout_ms=5000, authentication=binding))
    outcome = ask(client)
    assert_synthetic_denial(outcome, failure_class="authentication")
    assert "HUB_TOKEN" in outcome.failures[0].detail
    assert CANARY not in f"{everything()} {outcome!r} {ahp_audit.records}"
    assert backend.connections == 0


@pytest.mark.parametrize("secret", [CANARY, f"{CANARY}/with+slashes/=="])
@pytest.mark.parametrize("escaped", [False, True], ids=["plain", "escaped"])
def test_f51_a_secret_is_not_shown_in_part_either(
    escaped: bool,
    secret: str,
    monkeypatch: pytest.MonkeyPatch,
    ahp_http_backend: Backends,
    ahp_client: Clients,
    ahp_audit: AuditLog,
) -> None:
    """F51: wherever a sample of an unreadable answer is cut, and however JSON writes it."""
    monkeypatch.setenv("HUB_TOKEN", secret)
    echoed = secret.replace("/", "\\/") if escaped else secret
    paddings = iter(range(200, 260))

    def script(request: Any) -> Any:
        body = f"{'.' * next(paddings)}{echoed}{'.' * 300}".encode()
        return step("status", code=200, answer=body)

    binding = {"type": "bearer", "tokenEnv": "HUB_TOKEN"}
    backend = ahp_http_backend(script)
    client = ahp_client(backend.registration(timeout_ms=5000, authentication=binding))
    for _ in range(60):
        assert_synthetic_denial(ask(client), failure_class="malformed")
    samples = [record.untrusted["sample"] for record in ahp_audit]
    assert not [sample for sample in samples if CANARY[:8] in sample]
    assert any("[redacted]" in sample for sample in samples)


def test_f51_a_denial_that_echoes_a_secret_is_shown_without_it(
    monkeypatch: pytest.MonkeyPatch,
    ahp_http_backend: Backends,
    ahp_client: Clients,
) -> None:
    """F51: the reason goes to the model; the rest of it stays."""
    monkeypatch.setenv("HUB_TOKEN", CANARY)
    backend = ahp_http_backend({"type": "deny", "reason": f"not with {CANARY}, please"})
    binding = {"type": "bearer", "tokenEnv": "HUB_TOKEN"}
    client = ahp_client(backend.registration(timeout_ms=5000, authentication=binding))
    assert_denied(ask(client), "not with [redacted], please")
