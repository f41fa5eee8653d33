"""Fixtures that several test modules use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Callable

import pytest
from hypothesis import settings
from inprocess import Backend, document
from tally import Tally

from ahp_sync import Client, Harness
from ahp_sync.testing.audit_log import AuditLog

# The same examples in every run, since a test that fails now and then helps nobody; others are
# looked for with --hypothesis-profile=explore.
settings.register_profile("repeat", deadline=None, derandomize=True)
settings.register_profile("explore", deadline=None, max_examples=2000)
settings.load_profile("repeat")


def pytest_configure(config: pytest.Config) -> None:
    # Here, and not beside the scenarios: the process that prints the summary runs no test itself.
    config.pluginmanager.register(Tally(), "public-scenarios-tally")


@pytest.fixture
def records() -> AuditLog:
    """The audit records of the clients of ``open_client``."""
    return AuditLog()


@pytest.fixture
def open_client(records: AuditLog) -> Iterator[Callable[..., Client]]:
    """``open_client(*backends, **options)``: a client of in-process backends, closed afterwards."""
    clients: list[Client] = []
    opened: list[Backend] = []

    def open_(*backends: Backend, **options: Any) -> Client:
        options.setdefault("source", "urn:example:tests")
        options.setdefault("harness", Harness("tests", "1"))
        options.setdefault("audit", records)
        transports = {backend.id: backend for backend in backends}
        client = Client(document(backends), transports=transports, **options)
        clients.append(client)
        opened.extend(backends)
        return client

    yield open_
    for backend in opened:
        backend.released.set()
    for client in clients:
        client.close()
