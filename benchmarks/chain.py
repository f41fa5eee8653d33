"""What each further interceptor costs, and what each further observer does not.

The cost of an interceptor is what a call takes beyond one that asks nobody, by their number: it has
to be the same for 1, 4 and 16 of them. Observers are told side by side, so that 16 of a backend
that takes 20 ms must not take twice as long as one.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from typing import Any

from benchmarks.peers import INPUT
from benchmarks.server import running
from benchmarks.table import Row

ROUNDS, CALLS = 20, {0: 200, 1: 100, 4: 30, 16: 10}
OBSERVERS, OBSERVE_ROUNDS, DELAY_MS = (1, 16), 40, 20


def run() -> list[Row]:
    """Return the cost of an interceptor in chains of 1, 4 and 16, and the price of 16 observers."""
    return [*interceptors(), observers()]


def interceptors() -> list[Row]:
    p50: dict[int, list[float]] = {length: [] for length in CALLS}
    with running() as url, contextlib.ExitStack() as stack:
        clients = {
            length: stack.enter_context(client(url, [intercept()] * length or [elsewhere()]))
            for length in CALLS
        }
        for _ in range(ROUNDS + 1):
            for length, calls in CALLS.items():
                p50[length].append(statistics.median(times(clients[length].tool_before, calls)))
    costs = {
        length: statistics.median(
            (whole - nobody) / length for whole, nobody in zip(p50[length][1:], p50[0][1:])
        )
        for length in CALLS
        if length
    }
    rows = [
        Row(f"cost of an interceptor in a chain of {length}", cost * 1e6, None, "us")
        for length, cost in costs.items()
    ]
    spread = max(costs.values()) / min(costs.values())
    return [*rows, Row("dearest chain / cheapest chain, by interceptor", spread, 1.15, "x")]


def observers() -> Row:
    p50 = {}
    with running(DELAY_MS) as url:
        for number in OBSERVERS:
            with client(url, [observe()] * number) as hooks:
                times(hooks.tool_after, 5)
                p50[number] = statistics.median(times(hooks.tool_after, OBSERVE_ROUNDS))
    one, many = (p50[number] for number in OBSERVERS)
    note = f"{one * 1e3:.1f} ms and {many * 1e3:.1f} ms"
    return Row("16 observers / one, a backend of 20 ms", many / one, 2.0, "x", note)


def times(hook: Any, calls: int) -> list[float]:
    found = []
    for _ in range(calls):
        started = time.perf_counter()
        outcome = hook(name="Bash", call_id="c", input=INPUT)
        found.append(time.perf_counter() - started)
        assert outcome.may_execute and not outcome.failures
    return found


def client(url: str, subscriptions: list[dict[str, Any]]) -> Any:
    from ahp_sync import Client, Harness

    backend = {
        "id": "com.example.policy",
        "transport": {"type": "http", "url": url},
        "subscriptions": subscriptions,
    }
    return Client(
        {"protocolVersion": "draft", "hooks": [backend]},
        source="urn:example:bench",
        harness=Harness("bench", "1"),
    )


def intercept() -> dict[str, Any]:
    return {
        "events": ["tool.before"],
        "mode": "intercept",
        "timeoutMs": 5000,
        "failurePolicy": "fail-closed",
        "content": {"default": "body"},
    }


def observe() -> dict[str, Any]:
    return {"events": ["tool.after"], "mode": "observe", "content": {"default": "body"}}


def elsewhere() -> dict[str, Any]:
    """A subscription that has nothing to do with the calls that are timed."""
    return {**observe(), "events": ["session.end"]}
