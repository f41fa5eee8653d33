"""The pytest plugin: fixtures that start scripted backends and clients, and end them.

It is registered when the package is installed; ``-p ahp_sync.testing.plugin`` loads it otherwise.
Each fixture that starts something is a factory, to be called as often as needed in a test.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Callable, Iterator, Union

import pytest

from ahp_sync.testing.audit_log import AuditLog

if TYPE_CHECKING:
    import ssl

    from ahp_sync.client import Client
    from ahp_sync.registration import RegistrationSource
    from ahp_sync.testing.faults import FaultCase
    from ahp_sync.testing.http_backend import HttpBackend
    from ahp_sync.testing.stdio_backend import StdioBackend

__all__ = [
    "ahp_audit",
    "ahp_client",
    "ahp_fault_backend",
    "ahp_http_backend",
    "ahp_stdio_backend",
]

# The backends are imported when a test asks for one: the plugin is loaded by every run of pytest
# in an environment that has the package.


@pytest.fixture
def ahp_http_backend() -> Iterator[Callable[..., HttpBackend]]:
    """``ahp_http_backend(script="ok", *, tls=None)`` starts an ``HttpBackend`` for this test."""
    from ahp_sync.testing.http_backend import HttpBackend

    with ExitStack() as stack:

        def start(script: Any = "ok", *, tls: Union[ssl.SSLContext, None] = None) -> HttpBackend:
            return stack.enter_context(HttpBackend(script, tls=tls))

        yield start


@pytest.fixture
def ahp_stdio_backend() -> Iterator[Callable[..., StdioBackend]]:
    """``ahp_stdio_backend(script="ok", *, lifecycle="persistent")`` gives a ``StdioBackend``."""
    from ahp_sync.testing.stdio_backend import StdioBackend

    with ExitStack() as stack:

        def start(script: Any = "ok", *, lifecycle: str = "persistent") -> StdioBackend:
            return stack.enter_context(StdioBackend(script, lifecycle=lifecycle))

        yield start


@pytest.fixture
def ahp_fault_backend(
    ahp_http_backend: Callable[..., HttpBackend], ahp_stdio_backend: Callable[..., StdioBackend]
) -> Callable[[FaultCase], Union[HttpBackend, StdioBackend]]:
    """``ahp_fault_backend(case)`` gives the backend that a case of ``fault_cases()`` is about."""

    def start(case: FaultCase) -> Union[HttpBackend, StdioBackend]:
        if case.transport == "http":
            return ahp_http_backend(case.name)
        return ahp_stdio_backend(case.name, lifecycle=case.transport)

    return start


@pytest.fixture
def ahp_audit() -> AuditLog:
    """The ``AuditLog`` that the clients of ``ahp_client`` write their records to."""
    return AuditLog()


@pytest.fixture
def ahp_client(
    ahp_audit: AuditLog,
    # Asked for, so that clients are closed before the backends are.
    ahp_http_backend: object,
    ahp_stdio_backend: object,
) -> Iterator[Callable[..., Client]]:
    """``ahp_client(registration, **options)`` makes a ``Client`` that is closed after the test.

    The options are those of ``Client``; source, harness and audit have test values by default.
    """
    from ahp_sync.client import Client
    from ahp_sync.protocol.occurrence import Harness

    with ExitStack() as stack:

        def make(registration: RegistrationSource, **options: Any) -> Client:
            options.setdefault("source", "urn:example:test")
            options.setdefault("harness", Harness("ahp-sync-testing", "1"))
            options.setdefault("audit", ahp_audit)
            return stack.enter_context(Client(registration, **options))

        yield make
