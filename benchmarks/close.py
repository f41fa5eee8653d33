"""``close()`` with 64 calls in flight, all on a backend that never answers."""

from __future__ import annotations

import threading
import time

from benchmarks.peers import registration
from benchmarks.table import Row

CALLS = 64


def run() -> list[Row]:
    """Return how long close took, and when the last caller was back."""
    from ahp_sync import Client, Decision, Harness
    from ahp_sync.testing import HttpBackend

    back: list[float] = []
    decisions = []

    def caller() -> None:
        decisions.append(client.tool_before(name="Bash", input={}).decision)
        back.append(time.perf_counter())

    with HttpBackend("blackhole") as backend:
        client = Client(
            registration(backend.url, 30_000), source="urn:x:bench", harness=Harness("bench", "1")
        )
        threads = [threading.Thread(target=caller) for _ in range(CALLS)]
        for thread in threads:
            thread.start()
        assert backend.wait_requests(CALLS, 20)
        started = time.perf_counter()
        client.close()
        took = time.perf_counter() - started
        for thread in threads:
            thread.join(20)
        last = max(back) - started
    interrupted = sum(decision is Decision.INTERRUPTED for decision in decisions)
    note = (
        f"{interrupted} of {CALLS} calls came back interrupted, the last after {last * 1e3:.0f} ms"
    )
    return [
        Row("close() with 64 calls in flight", took * 1000, 250, "ms", note),
        Row("calls that came back interrupted", interrupted, CALLS, "", at_least=True),
    ]
