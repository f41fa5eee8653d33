"""Bearer tokens by reference, from the client to the wire: in time, or not sent at all."""

from __future__ import annotations

import contextvars
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

import pytest
from inprocess import Backend
from watching import GENEROUS, SLACK, eventually, timed, workers_are_free

from ahp_sync import GENERIC_REASON, Client, Harness, Outcome, RegistrationError
from ahp_sync.auth.keepers import TokenCommand, TokenFile
from ahp_sync.auth.resolvers import MAX_STUCK
from ahp_sync.testing import (
    HttpBackend,
    assert_denied,
    assert_failed_open,
    assert_synthetic_denial,
    hooks,
    observe,
)
from ahp_sync.testing.audit_log import AuditLog

Backends = Callable[..., HttpBackend]
Clients = Callable[..., Client]

SECRET = "s3cr3t-value"
BEARER = {"type": "bearer", "tokenRef": "guard"}


def ask(client: Client, **options: Any) -> Outcome:
    return client.tool_before(name="Bash", input={"command": "ls"}, **options)


def check(outcome: Outcome, policy: str) -> None:
    """See that the policy was followed after an authentication failure."""
    found = assert_failed_open if policy == "fail-open" else assert_synthetic_denial
    found(outcome, failure_class="authentication")


policies = pytest.mark.parametrize("policy", ["fail-closed", "fail-open"])


class Hanging:
    """A resolver that does not return until it is let go."""

    def __init__(self) -> None:
        self.calls = 0
        self._go = threading.Event()

    def __call__(self, ref: str) -> str:
        self.calls += 1
        self._go.wait(GENEROUS)
        return SECRET

    def let_go(self) -> None:
        self._go.set()


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    hanging = Hanging()
    yield hanging
    hanging.let_go()


def test_a_transport_of_the_hosts_own_has_credentials_of_its_own() -> None:
    """Nothing that only a transport of ours would need is asked for at construction."""
    backend = Backend()
    binding = {"type": "bearer", "tokenRef": "x"}
    transport = {"type": "http", "url": "https://guard.example.com/"}
    document = hooks({**backend.entry(), "transport": transport, "authentication": binding})
    options: dict[str, Any] = {"source": "urn:example:tests", "harness": Harness("tests", "1")}
    with pytest.raises(RegistrationError, match="a reference to nothing"):
        Client(document, **options)
    with Client(document, transports={backend.id: backend}, **options) as client:
        assert ask(client).may_execute


def test_each_delivery_carries_what_its_resolver_says_then(
    ahp_http_backend: Backends, ahp_client: Clients, tmp_path: Path
) -> None:
    """A function, a file that is replaced, and a command: found at dispatch, and never kept."""
    path = tmp_path / "token"
    sources: list[Any] = [
        lambda ref: path.read_text(),
        TokenFile(path),
        TokenCommand(["cat", str(path)]),
    ]
    backend = ahp_http_backend("deny")
    for source in sources:
        client = ahp_client(
            backend.registration(authentication=BEARER, timeout_ms=10_000), tokens=source
        )
        for value in ("first", "second"):
            path.write_text(value)
            path.chmod(0o600)
            assert_denied(ask(client))
            assert backend.requests[-1].header("Authorization") == f"Bearer {value}"


def test_a_resolver_sees_the_tenant_of_the_call(
    ahp_http_backend: Backends, ahp_client: Clients
) -> None:
    """F65, through two executors."""
    tenant: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="nobody")
    backend = ahp_http_backend("deny")
    client = ahp_client(
        backend.registration(authentication=BEARER, timeout_ms=10_000),
        tokens=lambda ref: f"of-{tenant.get()}",
    )

    def call(name: str) -> None:
        tenant.set(name)
        assert_denied(ask(client))
        assert backend.requests[-1].header("Authorization") == f"Bearer of-{name}"

    for name in ("ann", "bob", "ann"):
        contextvars.copy_context().run(call, name)


@policies
@pytest.mark.parametrize(
    "value", ["two words", "line\nbreak", "gr\u00fc\u00dfe", "", None, "tail\n"], ids=repr
)
def test_what_is_no_token_is_not_sent(
    policy: str, value: Any, ahp_http_backend: Backends, ahp_client: Clients
) -> None:
    """R-AUTH-01: nor is the message, without it."""
    backend = ahp_http_backend("ok")
    registration = backend.registration(authentication=BEARER, policy=policy, timeout_ms=10_000)
    check(ask(ahp_client(registration, tokens=lambda ref: value)), policy)
    assert backend.connections == 0


@policies
def test_a_resolver_that_fails_is_asked_once_and_shows_nothing(
    policy: str,
    ahp_http_backend: Backends,
    ahp_client: Clients,
    ahp_audit: AuditLog,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    calls = []

    def fail(ref: str) -> str:
        calls.append(ref)
        raise ValueError(SECRET)

    backend = ahp_http_backend("ok")
    registration = backend.registration(authentication=BEARER, policy=policy, timeout_ms=10_000)
    outcome = ask(ahp_client(registration, tokens=fail))
    check(outcome, policy)
    assert (calls, backend.connections) == (["guard"], 0)
    for shown in (repr(outcome), repr(ahp_audit.records), caplog.text):
        assert SECRET not in shown


@policies
def test_one_that_hangs_costs_its_delivery_its_deadline(
    policy: str, hanging: Hanging, ahp_http_backend: Backends, ahp_client: Clients
) -> None:
    """And the delivery fails as what it is: a credential that could not be had."""
    backend = ahp_http_backend("ok")
    registration = backend.registration(authentication=BEARER, policy=policy, timeout_ms=200)
    client = ahp_client(registration, tokens=hanging)
    outcome, seconds = timed(lambda: ask(client))
    check(outcome, policy)
    assert seconds < 0.2 + SLACK
    assert backend.connections == 0
    hanging.let_go()
    assert workers_are_free(client)


def test_it_holds_up_no_other_backend(
    hanging: Hanging, ahp_http_backend: Backends, ahp_client: Clients
) -> None:
    """Not even of a client with a single worker, while a call waits for the hung one."""
    slow, fast = ahp_http_backend("ok"), ahp_http_backend("ok")
    other, told = {"type": "bearer", "tokenRef": "other"}, [observe(["tool.after"])]
    registration = hooks(
        slow.entry(id="com.example.slow", authentication=BEARER, timeout_ms=3000),
        fast.entry(id="com.example.fast", authentication=other, subscriptions=told),
    )
    tokens = {"guard": hanging, "other": lambda ref: SECRET}
    client = ahp_client(registration, tokens=tokens, max_workers=1, observe_timeout=2.0)
    waiting = threading.Thread(target=ask, args=(client,))
    waiting.start()
    assert eventually(lambda: hanging.calls)
    outcome, seconds = timed(lambda: client.tool_after(name="Bash", input={}, outcome="ok"))
    hanging.let_go()
    waiting.join(GENEROUS)
    assert (len(fast.requests), outcome.failures, seconds < 1.0) == (1, (), True)


def test_many_stuck_calls_are_refused_at_once_and_it_recovers(
    hanging: Hanging, ahp_http_backend: Backends, ahp_client: Clients, ahp_audit: AuditLog
) -> None:
    backend = ahp_http_backend("deny")
    client = ahp_client(
        backend.registration(authentication=BEARER, timeout_ms=1500), tokens=hanging, max_workers=16
    )
    threads = [threading.Thread(target=ask, args=(client,)) for _ in range(MAX_STUCK + 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(GENEROUS)
    # The last worker may notice its end just after its caller.
    assert eventually(lambda: timed(lambda: ask(client))[1] < 1.0)
    assert_synthetic_denial(ask(client), failure_class="authentication")
    assert ahp_audit.records[-1].code == "resolver_stuck"
    assert backend.connections == 0
    hanging.let_go()
    assert eventually(lambda: ask(client).reason != GENERIC_REASON)
    assert_denied(ask(client))
