"""TLS: who is trusted, who one is, and a handshake that takes no longer than the deadline."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Callable, Optional

import pytest
from certificates import Authority
from watching import SLACK, descriptors, eventually, timed

from ahp_sync import Client, Outcome, RetryPolicy, TLSIdentity
from ahp_sync.testing import (
    AuditLog,
    HttpBackend,
    assert_audit,
    assert_denied,
    assert_failed_open,
    assert_proceeds,
    assert_synthetic_denial,
    hooks,
    step,
)

Backends = Callable[..., HttpBackend]
Clients = Callable[..., Client]

ONCE = RetryPolicy(max_attempts=1)


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """See that every descriptor is closed once clients and backends are."""
    before = descriptors()
    yield
    assert eventually(lambda: descriptors() <= before), descriptors() - before


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls") / "ca")


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """An authority that the client has no reason to trust."""
    return Authority(tmp_path_factory.mktemp("tls") / "stranger")


def ask(client: Client) -> Outcome:
    return client.tool_before(name="Bash", input={"command": "ls"})


def trusting(authority: Authority, **more: Any) -> dict[str, TLSIdentity]:
    return {HttpBackend.default_id: TLSIdentity(ca_file=authority.ca_file, **more)}


def known_as(authority: Authority, issuer: Authority, name: str) -> dict[str, TLSIdentity]:
    cert, key = issuer.client(name)
    return trusting(authority, cert_file=cert, key_file=key)


# --- trust ------------------------------------------------------------------------------------


def test_a_backend_of_a_trusted_authority_is_asked(
    ahp_http_backend: Backends, ahp_client: Clients, authority: Authority
) -> None:
    """A CA file of one's own, by address and by name, on a connection that is kept."""
    backend = ahp_http_backend("deny", tls=authority.server())
    for url in (backend.url, f"https://localhost:{backend.port}/ahp"):
        client = ahp_client(backend.registration(url=url), tls=trusting(authority))
        for _ in range(3):
            assert_denied(ask(client))
    assert backend.connections == 2


@pytest.mark.parametrize("policy", ["fail-closed", "fail-open"])
def test_a_certificate_of_an_unknown_authority_is_refused(
    ahp_http_backend: Backends,
    ahp_client: Clients,
    ahp_audit: AuditLog,
    authority: Authority,
    stranger: Authority,
    policy: str,
) -> None:
    """R-HTTP-05: verification is always on; nothing of the message is sent, and once is enough."""
    backend = ahp_http_backend("ok", tls=stranger.server())
    for tls in ({}, trusting(authority)):
        outcome = ask(ahp_client(backend.registration(policy=policy), tls=tls))
        check = assert_failed_open if policy == "fail-open" else assert_synthetic_denial
        check(outcome, failure_class="connection")
    assert_audit(ahp_audit, code="tls_certificate", attempts=1, count=2)
    assert backend.requests == []


YESTERDAY = datetime.now(timezone.utc) - timedelta(days=1)


@pytest.mark.parametrize(
    "certificate",
    [
        {"names": ("guard.example",)},
        {"names": ("127.0.0.2",)},
        {"names": ("localhost",)},
        {"not_before": YESTERDAY - timedelta(days=1), "not_after": YESTERDAY},
    ],
    ids=["another name", "another address", "a name for an address", "expired"],
)
def test_a_certificate_that_does_not_fit_is_refused(
    ahp_http_backend: Backends,
    ahp_client: Clients,
    ahp_audit: AuditLog,
    authority: Authority,
    certificate: dict[str, Any],
) -> None:
    """R-HTTP-05: host name and validity are part of verification."""
    names = certificate.pop("names", ())
    backend = ahp_http_backend("ok", tls=authority.server(*names, **certificate))
    client = ahp_client(backend.registration(), tls=trusting(authority))
    assert_synthetic_denial(ask(client), failure_class="connection")
    assert_audit(ahp_audit, code="tls_certificate", attempts=1)
    assert backend.requests == []


@pytest.mark.parametrize("value", ["another CA", "a missing file"])
def test_ca_variables_of_the_environment_are_ignored(
    ahp_http_backend: Backends,
    ahp_client: Clients,
    authority: Authority,
    stranger: Authority,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    value: str,
) -> None:
    """F69: the explicit file counts, and no variable makes a stranger trusted."""
    named = stranger.ca_file if value == "another CA" else tmp_path / "missing.pem"
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"):
        monkeypatch.setenv(name, str(named))
    monkeypatch.setenv("SSL_CERT_DIR", str(named.parent))
    backend = ahp_http_backend("ok", tls=authority.server())
    assert_proceeds(ask(ahp_client(backend.registration(), tls=trusting(authority))))
    foreign = ahp_http_backend("ok", tls=stranger.server())
    assert_synthetic_denial(ask(ahp_client(foreign.registration())), failure_class="connection")


def test_each_backend_has_a_trust_of_its_own(
    ahp_http_backend: Backends, ahp_client: Clients, authority: Authority, stranger: Authority
) -> None:
    """``tls`` is by backend id; what one is trusted for, the other is not."""
    first = ahp_http_backend("ok", tls=authority.server())
    second = ahp_http_backend("ok", tls=stranger.server())
    client = ahp_client(
        hooks(
            first.entry(id="com.example.a", policy="fail-open"),
            second.entry(id="com.example.b", policy="fail-open"),
        ),
        tls={
            "com.example.a": TLSIdentity(ca_file=authority.ca_file),
            "com.example.b": TLSIdentity(ca_file=authority.ca_file),
        },
    )
    outcome = ask(client)
    assert [failure.backend for failure in outcome.failures] == ["com.example.b"]
    assert (len(first.requests), len(second.requests)) == (1, 0)


# --- identity ---------------------------------------------------------------------------------


def test_a_client_certificate_is_shown(
    ahp_http_backend: Backends, ahp_client: Clients, authority: Authority
) -> None:
    """A backend that demands one gets it; key and certificate are in files of their own."""
    backend = ahp_http_backend("deny", tls=authority.server(asks=authority))
    tls = known_as(authority, authority, "harness")
    assert_denied(ask(ahp_client(backend.registration(), tls=tls)))
    shown = backend.connection_log[0].peer_certificate
    assert shown is not None
    assert ((("commonName", "harness"),)) in shown["subject"]


@pytest.mark.parametrize("shows", [None, "a stranger's"])
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_without_the_right_client_certificate_nothing_is_served(
    ahp_http_backend: Backends,
    ahp_client: Clients,
    authority: Authority,
    stranger: Authority,
    shows: Optional[str],
    version: ssl.TLSVersion,
) -> None:
    """The backend ends the handshake; under TLS 1.3 the client learns it only afterwards."""
    server = authority.server(asks=authority)
    server.maximum_version = version
    backend = ahp_http_backend("ok", tls=server)
    tls = known_as(authority, stranger, "nobody") if shows else trusting(authority)
    client = ahp_client(backend.registration(), tls=tls, retry=ONCE)
    assert_synthetic_denial(ask(client), failure_class="connection")
    assert backend.requests == []


# --- construction -----------------------------------------------------------------------------


def test_unusable_files_are_refused_at_construction(
    ahp_http_backend: Backends, ahp_client: Clients, authority: Authority, tmp_path: Path
) -> None:
    """F69: a bad path or file is an error of the configuration that names it, not of a call."""
    missing, junk = tmp_path / "missing.pem", tmp_path / "junk.pem"
    junk.write_text("not a certificate")
    cert, key = authority.client("someone")
    other = authority.client("other")[1]
    backend = ahp_http_backend("ok", tls=authority.server())

    def client(**identity: Any) -> Client:
        return ahp_client(backend.registration(), tls={backend.default_id: TLSIdentity(**identity)})

    for name in ("ca_file", "cert_file"):
        with pytest.raises(OSError, match=f"{name} can't be read.*missing"):
            client(**{name: missing})
        with pytest.raises(ValueError, match=f"{name} .*junk"):
            client(**{name: junk})
    with pytest.raises(OSError, match=r"key_file can't be read.*missing"):
        client(cert_file=cert, key_file=missing)
    with pytest.raises(ValueError, match="someone"):
        client(cert_file=cert, key_file=other)
    with pytest.raises(ValueError, match="cert_file"):
        client(key_file=key)
    assert backend.connections == 0


def test_an_identity_has_a_backend_to_go_with(
    ahp_http_backend: Backends, ahp_client: Clients, authority: Authority
) -> None:
    """A misspelt id, or a backend that is not reached over https, is refused at construction."""
    backend = ahp_http_backend("ok")
    identity = TLSIdentity(ca_file=authority.ca_file)
    for backend_id in ("com.example.misspelt", backend.default_id):
        with pytest.raises(ValueError, match=backend_id):
            ahp_client(backend.registration(), tls={backend_id: identity})


def test_an_encrypted_key_is_refused_without_a_question(
    ahp_http_backend: Backends, ahp_client: Clients, authority: Authority, tmp_path: Path
) -> None:
    """OpenSSL would ask for the password on the terminal, for ever."""
    from cryptography.hazmat.primitives import serialization as how

    cert, key = authority.client("locked")
    private = how.load_pem_private_key(key.read_bytes(), None)
    locked = tmp_path / "locked.key"
    locked.write_bytes(
        private.private_bytes(
            how.Encoding.PEM,
            how.PrivateFormat.TraditionalOpenSSL,
            how.BestAvailableEncryption(b"password"),
        )
    )
    backend = ahp_http_backend("ok", tls=authority.server())
    identity = TLSIdentity(ca_file=authority.ca_file, cert_file=cert, key_file=locked)
    with pytest.raises(ValueError, match="encrypted"):
        ahp_client(backend.registration(), tls={backend.default_id: identity})


# --- time -------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", ["silent_tls", "drip_tls"])
def test_a_handshake_costs_the_deadline_and_no_more(
    ahp_http_backend: Backends, ahp_client: Clients, answer: str
) -> None:
    """F53: silence, or a byte each 50 ms; the socket is closed at once."""
    backend = ahp_http_backend(answer)
    outcome, seconds = timed(lambda: ask(ahp_client(backend.registration(timeout_ms=300))))
    assert_synthetic_denial(outcome, failure_class="deadline_exceeded")
    assert 0.3 <= seconds < 0.3 + SLACK
    assert backend.wait_closed(0.5)
    assert backend.wait(lambda: backend.connection_log[0].closed_by == "client")


def test_a_server_that_speaks_no_tls_is_a_connection_failure(
    ahp_http_backend: Backends, ahp_client: Clients
) -> None:
    """F53: at once, and without falling back to plain HTTP."""
    backend = ahp_http_backend("not_tls")
    client = ahp_client(backend.registration(timeout_ms=5000), retry=ONCE)
    outcome, seconds = timed(lambda: ask(client))
    assert_synthetic_denial(outcome, failure_class="connection")
    assert seconds < 2
    assert backend.requests == []


@pytest.mark.parametrize("answer", ["blackhole", "drip_body"])
def test_an_answer_over_tls_costs_the_deadline_and_no_more(
    ahp_http_backend: Backends, ahp_client: Clients, authority: Authority, answer: str
) -> None:
    """F02, R-HTTP-07: as over plain HTTP, and its connection is not used again."""
    backend = ahp_http_backend([answer, "ok"], tls=authority.server())
    client = ahp_client(backend.registration(timeout_ms=300), tls=trusting(authority))
    outcome, seconds = timed(lambda: ask(client))
    assert_synthetic_denial(outcome, failure_class="deadline_exceeded")
    assert 0.3 <= seconds < 0.3 + SLACK
    assert_proceeds(ask(client))
    assert backend.connections == 2


def test_a_stale_tls_connection_is_replaced(
    ahp_http_backend: Backends, ahp_client: Clients, authority: Authority
) -> None:
    """F22, over TLS."""
    backend = ahp_http_backend(step("close_on_reuse", then="deny"), tls=authority.server())
    client = ahp_client(backend.registration(timeout_ms=5000), tls=trusting(authority))
    for _ in range(3):
        assert_denied(ask(client))


def test_threads_share_a_tls_backend(
    ahp_http_backend: Backends, ahp_client: Clients, authority: Authority
) -> None:
    """F60, over TLS: every caller gets its own answer."""
    backend = ahp_http_backend(
        lambda request: {"type": "deny", "reason": request.event["call"]["id"]},
        tls=authority.server(),
    )
    client = ahp_client(backend.registration(timeout_ms=10_000), tls=trusting(authority))

    def call(number: int) -> Optional[str]:
        return client.tool_before(name="x", input={}, call_id=str(number)).reason

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(call, range(100))) == [str(number) for number in range(100)]
    assert backend.connections <= 8
