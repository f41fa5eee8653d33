"""F51: what goes out as a credential stands in no log, no outcome, no message and no record."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any, Callable

import pytest
from proxies import Proxy

from ahp_sync import Client, RegistrationError, RetryPolicy
from ahp_sync.testing import AuditLog, HttpBackend, ReceivedRequest, intercept, observe, step

Backends = Callable[..., HttpBackend]
Clients = Callable[..., Client]

# Each begins with letters of its own, so that a piece of one is found as well.
BEARER = "berlin-bearer-6f1c9e52aa0d4b7c"
FROM_ENV = 'ennis-from-"env"-71b3-/-9d2f4c6e8a'
LITERAL = "lisbon-literal-0a4e8c2f6b1d3957"
QUERY = "quebec-query-5d7f1b3a9c8e2046"
PROXY = "prague-proxy-3c5a7e9d1f2b4680"
CANARIES = (BEARER, FROM_ENV, LITERAL, QUERY, PROXY)
PIECE = 8


@pytest.fixture
def everything(caplog: pytest.LogCaptureFixture) -> Iterator[logging.Handler]:
    """All loggers, those of ``urllib3`` and ``requests`` above all, at DEBUG."""
    for name in ("", "urllib3", "requests", "ahp_sync"):
        caplog.set_level(logging.DEBUG, logger=name)
    yield caplog.handler


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GUARD_TOKEN", BEARER)
    monkeypatch.setenv("GUARD_KEY", FROM_ENV)


def registration(backend: HttpBackend, **more: Any) -> dict[str, Any]:
    return backend.registration(
        url=f"{backend.url}?token={QUERY}",
        headers={"X-Env": {"valueEnv": "GUARD_KEY"}, "X-Literal": LITERAL, **more},
        authentication={"type": "bearer", "tokenEnv": "GUARD_TOKEN"},
        subscriptions=[intercept(timeout_ms=300, policy="fail-open"), observe()],
    )


def assert_clean(text: str) -> None:
    """Assert that not even a piece of a canary is in the text."""
    for canary in CANARIES:
        for start in range(len(canary) - PIECE + 1):
            piece = canary[start : start + PIECE]
            assert piece not in text, f"{piece!r} of {canary!r} in: {text}"


def shown(client: Client, audit: AuditLog, caplog: pytest.LogCaptureFixture) -> str:
    """Make a call and return all that anybody could read of it."""
    outcome = client.tool_before(name="Bash", input={"command": "ls"})
    records = [(str(record), json.dumps(record.to_json())) for record in audit]
    logged = [(record.getMessage(), str(record.args), caplog.text) for record in caplog.records]
    failures = [(str(failure), repr(failure)) for failure in outcome.failures]
    return "\n".join(map(str, (outcome, repr(outcome), failures, records, logged, repr(client))))


def echo_path(request: ReceivedRequest) -> dict[str, str]:
    return {"type": "deny", "reason": f"no {request.path}"}


@pytest.mark.parametrize(
    "answer",
    [
        *("ok", "deny", "refused", "status_500", "status_401", "redirect_302", "bad_json", "html"),
        *("wrong_id", "rpc_error", "reset", "truncated", "huge_length", "blackhole", "not_http"),
        *("echo_headers", "echo_headers_raw", step("echo_headers_raw", code=500)),
        *(step("echo_headers_raw", code=401), step("redirect", location="/?" + QUERY)),
        echo_path,
    ],
    ids=lambda answer: getattr(answer, "__name__", None) or str(answer),
)
def test_no_secret_is_shown(
    ahp_http_backend: Backends,
    ahp_client: Clients,
    ahp_audit: AuditLog,
    everything: logging.Handler,
    caplog: pytest.LogCaptureFixture,
    answer: Any,
) -> None:
    """F51: refused, failed, malformed, or sent back by the backend; everything at DEBUG."""
    client = ahp_client(registration(ahp_http_backend(answer)), retry=RetryPolicy(max_attempts=2))
    assert_clean(shown(client, ahp_audit, caplog))


def test_the_canaries_do_go_out(ahp_http_backend: Backends, ahp_client: Clients) -> None:
    """Otherwise the tests of this module would say nothing."""
    backend = ahp_http_backend("ok")
    ahp_client(registration(backend)).tool_before(name="Bash", input={})
    [request, _] = backend.requests
    sent = f"{request.path} {request.headers}"
    for canary in (BEARER, LITERAL, QUERY):
        assert canary in sent
    assert request.header("x-env") == FROM_ENV


@pytest.mark.parametrize("code", [200, 401, 500])
def test_a_sample_is_not_cut_in_the_middle_of_a_secret(
    ahp_http_backend: Backends,
    ahp_client: Clients,
    ahp_audit: AuditLog,
    caplog: pytest.LogCaptureFixture,
    code: int,
) -> None:
    """F51: the sample of an unreadable answer is bounded; its end may be anywhere."""
    for padding in range(0, 240, 3):
        ahp_audit.clear()

        def answer(request: ReceivedRequest, padding: int = padding) -> Any:
            echoed = "-" * padding + " ".join(value for _, value in request.headers)
            return step("status", code=code, answer=echoed.encode())

        client = ahp_client(registration(ahp_http_backend(answer)))
        assert_clean(shown(client, ahp_audit, caplog))


def test_a_proxys_password_is_not_shown(
    ahp_http_backend: Backends,
    ahp_client: Clients,
    ahp_audit: AuditLog,
    everything: logging.Handler,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """F51: neither by a proxy that is used, nor by one that is not there or of a wrong kind."""
    backend = ahp_http_backend("ok")
    with Proxy() as proxy:
        address = proxy.address
        proxies = {"http": f"http://me:{PROXY}@{address}"}
        assert_clean(shown(ahp_client(registration(backend), proxies=proxies), ahp_audit, caplog))
    assert_clean(shown(ahp_client(registration(backend), proxies=proxies), ahp_audit, caplog))
    with pytest.raises(ValueError, match="prox") as error:
        ahp_client(registration(backend), proxies={"http": f"socks5://me:{PROXY}@{address}"})
    assert_clean(str(error.value))


@pytest.mark.parametrize("value", [None, "", f"{FROM_ENV}\nX: y", f"€{FROM_ENV}", f" {FROM_ENV}"])
@pytest.mark.parametrize("variable", ["GUARD_TOKEN", "GUARD_KEY"])
def test_an_unusable_secret_is_not_shown(
    ahp_http_backend: Backends,
    ahp_client: Clients,
    ahp_audit: AuditLog,
    everything: logging.Handler,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    value: str | None,
) -> None:
    """R-AUTH-06: the failure names the variable, never what is in it."""
    if value is None:
        monkeypatch.delenv(variable)
    else:
        monkeypatch.setenv(variable, value)
    text = shown(ahp_client(registration(ahp_http_backend("ok"))), ahp_audit, caplog)
    assert variable in text
    assert_clean(text)


def test_a_registration_error_shows_no_secret(
    ahp_http_backend: Backends, ahp_client: Clients
) -> None:
    """Errors at construction say where and what, not the value."""
    backend = ahp_http_backend("ok")
    document = registration(backend, **{"Host": LITERAL, "X Y": LITERAL, "X-Z": f"{LITERAL}\n"})
    document["hooks"][0]["authentication"]["token"] = BEARER
    document["hooks"][0]["transport"]["url"] = f"http://me:{PROXY}@guard.example/?token={QUERY}"
    with pytest.raises(RegistrationError) as error:
        ahp_client(document)
    assert_clean(f"{error.value} {error.value!r}")
