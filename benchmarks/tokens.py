"""What a cached OAuth token adds to a call, against a token that stands in a registered header.

Two clients of one process take turns on one server, block by block; the cost is the median of the
differences of the blocks. The token is a real one, from the authorization server of the tests.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from ahp_sync import Client, Harness, TLSIdentity
from benchmarks.server import running
from benchmarks.table import Row

ROUNDS = 40
CALLS = 150
BOUND_US = 15.0

_TESTS = Path(__file__).parents[1] / "tests"


def run() -> list[Row]:
    """Return the cost of a cached token for each call."""
    sys.path[:0] = [str(_TESTS), str(_TESTS / "auth")]
    from authorization_server import SERVICE, AuthorizationServer
    from certificates import Authority

    with tempfile.TemporaryDirectory() as folder, running() as url:
        authority = Authority(Path(folder) / "ca")
        with AuthorizationServer(authority) as server:
            oauth = {
                "type": "oauth",
                "issuer": server.issuer,
                "resource": url,
                "clientId": SERVICE.client_id,
                "clientSecretRef": "secret",
                "flow": "client_credentials",
            }
            options = {
                "tokens": {"secret": lambda ref: SERVICE.secret},
                "tls": {server.issuer: TLSIdentity(ca_file=authority.ca_file)},
            }
            header = {"Authorization": "Bearer " + "x" * 40}
            with (
                _client(url, {"headers": header}) as fixed,
                _client(url, {}, {"authentication": oauth}, **options) as cached,
            ):
                return [_cost(fixed, cached), _asked(server)]


def _asked(server: Any) -> Row:
    return Row("token requests meanwhile", len(server.token_requests), 1, "")


def _cost(fixed: Client, cached: Client) -> Row:
    for client in (fixed, cached):
        _p50(client)
    costs = [_p50(cached) - _p50(fixed) for _ in range(ROUNDS)]
    return Row("a cached token, per call", statistics.median(costs) * 1e6, BOUND_US, "us")


def _p50(client: Client) -> float:
    times = []
    for _ in range(CALLS):
        started = time.perf_counter()
        outcome = client.tool_before(name="Bash", input={"command": "ls"})
        times.append(time.perf_counter() - started)
        assert outcome.may_execute, outcome.failures
    return statistics.median(times)


def _client(url: str, transport: Any, more: Any = None, **options: Any) -> Client:
    subscription = {
        "events": ["tool.before"],
        "mode": "intercept",
        "timeoutMs": 5000,
        "failurePolicy": "fail-closed",
        "content": {"default": "body"},
    }
    backend = {
        "id": "com.example.bench",
        "transport": {"type": "http", "url": url, **transport},
        "subscriptions": [subscription],
        **(more or {}),
    }
    registration = {"protocolVersion": "draft", "hooks": [backend]}
    return Client(
        registration,
        source="urn:example:bench",
        harness=Harness("bench", "1"),
        audit=[],
        **options,
    )
