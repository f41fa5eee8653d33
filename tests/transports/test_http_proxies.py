"""Proxies: only those that the host names, within the deadline, and told no more than needed."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any, Callable

import pytest
from certificates import Authority
from proxies import Proxy
from watching import SLACK, descriptors, eventually, timed

from ahp_sync import Client, Outcome, RetryPolicy, TLSIdentity
from ahp_sync.testing import (
    AuditLog,
    HttpBackend,
    assert_audit,
    assert_denied,
    assert_proceeds,
    assert_synthetic_denial,
)

Backends = Callable[..., HttpBackend]
Clients = Callable[..., Client]

ONCE = RetryPolicy(max_attempts=1)
BASIC = "Basic " + base64.b64encode(b"me:s3cret").decode()
VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
BEARER = {"type": "bearer", "tokenEnv": "GUARD_TOKEN"}


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """See that every descriptor is closed once clients, proxies and backends are."""
    before = descriptors()
    yield
    assert eventually(lambda: descriptors() <= before), descriptors() - before


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*VARIABLES, "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def proxy(nothing_is_left: None) -> Iterator[Proxy]:
    with Proxy() as proxy:
        yield proxy


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls") / "ca")


@pytest.fixture
def secure(ahp_http_backend: Backends, authority: Authority) -> HttpBackend:
    """A backend behind https, for tunnels."""
    return ahp_http_backend("deny", tls=authority.server())


def trusting(authority: Authority) -> dict[str, TLSIdentity]:
    return {HttpBackend.default_id: TLSIdentity(ca_file=authority.ca_file)}


def ask(client: Client) -> Outcome:
    return client.tool_before(name="Bash", input={"command": "ls"})


# --- which proxy ------------------------------------------------------------------------------


def test_proxies_of_the_environment_are_not_used(
    ahp_http_backend: Backends,
    ahp_client: Clients,
    proxy: Proxy,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """R-HTTP-06, design decision 4: not unless the host asks for them."""
    for name in VARIABLES:
        monkeypatch.setenv(name, proxy.url)
    backend = ahp_http_backend("ok")
    assert_proceeds(ask(ahp_client(backend.registration())))
    assert proxy.heads == []


@pytest.mark.parametrize("name", ["http_proxy", "HTTP_PROXY", "all_proxy"])
def test_proxies_of_the_environment_are_used_when_asked_for(
    ahp_http_backend: Backends,
    ahp_client: Clients,
    proxy: Proxy,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    """``trust_env=True``: as ``requests`` reads them, with or without a scheme."""
    monkeypatch.setenv(name, proxy.address)
    backend = ahp_http_backend("ok")
    assert_proceeds(ask(ahp_client(backend.registration(), trust_env=True)))
    assert proxy.heads[0].startswith(f"POST {backend.url} HTTP/1.1\r\n")


def test_no_proxy_is_honoured(
    ahp_http_backend: Backends,
    ahp_client: Clients,
    proxy: Proxy,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """``trust_env=True`` goes for exceptions too."""
    monkeypatch.setenv("http_proxy", proxy.url)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    backend = ahp_http_backend("ok")
    assert_proceeds(ask(ahp_client(backend.registration(), trust_env=True)))
    assert proxy.heads == []


@pytest.mark.parametrize(
    ("key", "is_used"),
    [
        ("http", True),
        ("http://127.0.0.1", True),
        ("all", True),
        ("https", False),
        ("http://127.0.0.2", False),
    ],
)
def test_a_proxy_is_chosen_by_scheme_and_host(
    ahp_http_backend: Backends, ahp_client: Clients, proxy: Proxy, key: str, is_used: bool
) -> None:
    """The keys of ``proxies`` are those of ``requests``."""
    backend = ahp_http_backend("ok")
    assert_proceeds(ask(ahp_client(backend.registration(), proxies={key: proxy.url})))
    assert bool(proxy.heads) is is_used


@pytest.mark.parametrize("url", ["socks5://127.0.0.1:1080", "ftp://127.0.0.1:21"])
def test_a_proxy_of_another_kind_is_refused_at_construction(
    ahp_http_backend: Backends, ahp_client: Clients, url: str
) -> None:
    """Not at the first call, and not by going without."""
    backend = ahp_http_backend("ok")
    with pytest.raises(ValueError, match="http:// or https://"):
        ahp_client(backend.registration(), proxies={"http": url})


# --- forwarding -------------------------------------------------------------------------------


def test_a_plain_request_is_forwarded(
    ahp_http_backend: Backends,
    ahp_client: Clients,
    proxy: Proxy,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The whole URL stands in the request line, and the connection to the proxy is kept."""
    monkeypatch.setenv("GUARD_TOKEN", "t0ken")
    backend = ahp_http_backend("deny")
    registration = backend.registration(url=f"{backend.url}?a=b%20c", authentication=BEARER)
    client = ahp_client(registration, proxies={"http": proxy.url})
    for _ in range(2):
        assert_denied(ask(client))
    assert proxy.heads[0].startswith(f"POST {backend.url}?a=b%20c HTTP/1.1\r\n")
    assert [request.path for request in backend.requests] == ["/ahp?a=b%20c"] * 2
    assert backend.requests[0].header("authorization") == "Bearer t0ken"
    assert backend.requests[0].header("host") == f"127.0.0.1:{backend.port}"


def test_a_forwarding_proxy_gets_its_own_credentials(
    ahp_http_backend: Backends, ahp_client: Clients, proxy: Proxy
) -> None:
    """They stand in the proxy's URL, and nowhere in what the backend receives."""
    backend = ahp_http_backend("ok")
    client = ahp_client(
        backend.registration(), proxies={"http": f"http://me:s3cret@{proxy.address}"}
    )
    assert_proceeds(ask(client))
    assert proxy.header(0, "proxy-authorization") == BASIC
    assert "s3cret" not in str(backend.requests)


# --- tunnels ----------------------------------------------------------------------------------


def test_a_secure_request_goes_through_a_tunnel(
    secure: HttpBackend,
    ahp_client: Clients,
    authority: Authority,
    proxy: Proxy,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The proxy learns host and port, no more; the tunnel is kept for the next call."""
    monkeypatch.setenv("GUARD_TOKEN", "t0ken")
    client = ahp_client(
        secure.registration(authentication=BEARER, headers={"X-Key": "k3y"}),
        proxies={"https": f"http://me:s3cret@{proxy.address}"},
        tls=trusting(authority),
    )
    for _ in range(3):
        assert_denied(ask(client))
    [head] = proxy.heads
    assert head.startswith(f"CONNECT 127.0.0.1:{secure.port} HTTP/1.")
    assert proxy.header(0, "proxy-authorization") == BASIC
    assert [word for word in ("t0ken", "k3y", "/ahp") if word in head] == []
    assert secure.connections == 1
    assert secure.requests[0].header("authorization") == "Bearer t0ken"
    assert secure.requests[0].header("proxy-authorization") is None


def test_a_tunnel_does_not_weaken_verification(
    secure: HttpBackend, ahp_client: Clients, proxy: Proxy
) -> None:
    """The certificate is that of the backend, and an unknown authority's is refused."""
    client = ahp_client(secure.registration(), proxies={"https": proxy.url})
    assert_synthetic_denial(ask(client), failure_class="connection")
    assert secure.requests == []


@pytest.mark.parametrize("status", ["407 Proxy Authentication Required", "502 Bad Gateway"])
def test_a_refused_tunnel_is_a_connection_failure(
    secure: HttpBackend,
    ahp_client: Clients,
    ahp_audit: AuditLog,
    authority: Authority,
    status: str,
) -> None:
    """What the proxy answers is not the backend's answer."""
    answer = f"HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n".encode()
    with Proxy(refuses=answer) as proxy:
        client = ahp_client(
            secure.registration(),
            proxies={"https": proxy.url},
            tls=trusting(authority),
            retry=ONCE,
        )
        assert_synthetic_denial(ask(client), failure_class="connection")
    assert_audit(ahp_audit, failure_class="connection", http_status=None)
    assert secure.connections == 0


def test_a_refused_forward_is_a_status(ahp_http_backend: Backends, ahp_client: Clients) -> None:
    """A forwarding proxy's own status can't be told from the backend's."""
    answer = b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n"
    backend = ahp_http_backend("ok")
    with Proxy(refuses=answer) as proxy:
        client = ahp_client(backend.registration(), proxies={"http": proxy.url}, retry=ONCE)
        assert_synthetic_denial(ask(client), failure_class="http_status")


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_silent_proxy_costs_the_deadline_and_no_more(
    ahp_http_backend: Backends, ahp_client: Clients, authority: Authority, scheme: str
) -> None:
    """AHP-FAIL-002: the tunnel's set-up counts, and its socket is closed in time."""
    backend = ahp_http_backend("ok", tls=authority.server() if scheme == "https" else None)
    more: dict[str, Any] = {"tls": trusting(authority)} if scheme == "https" else {}
    with Proxy(silent=True) as proxy:
        client = ahp_client(
            backend.registration(timeout_ms=300), proxies={scheme: proxy.url}, **more
        )
        outcome, seconds = timed(lambda: ask(client))
    assert_synthetic_denial(outcome, failure_class="deadline_exceeded")
    assert 0.3 <= seconds < 0.3 + SLACK
    assert backend.connections == 0


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_is_not_there_is_a_connection_failure(
    ahp_http_backend: Backends, ahp_client: Clients, authority: Authority, scheme: str
) -> None:
    """Nothing falls back to the direct way."""
    backend = ahp_http_backend("ok", tls=authority.server() if scheme == "https" else None)
    more: dict[str, Any] = {"tls": trusting(authority)} if scheme == "https" else {}
    closed = Proxy()
    url = closed.url
    closed.close()
    client = ahp_client(backend.registration(), proxies={scheme: url}, retry=ONCE, **more)
    assert_synthetic_denial(ask(client), failure_class="connection")
    assert backend.connections == 0
