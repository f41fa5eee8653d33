"""32 threads at once for 5 s, a backend that answers after 20 ms, deadline 100 ms."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

from benchmarks.peers import PEERS
from benchmarks.server import running
from benchmarks.table import Row

THREADS, SECONDS, DELAY_MS, TIMEOUT_MS = 32, 5.0, 20, 100


def storm(name: str, url: str) -> tuple[float, int, int]:
    """Return calls a second, calls that failed, and calls accepted after their deadline."""
    peer = PEERS[name](url, TIMEOUT_MS)
    peer.call()
    samples: list[tuple[float, bool]] = []
    barrier, ends = threading.Barrier(THREADS), []

    def caller() -> None:
        if barrier.wait() == 0:
            ends.append(time.perf_counter() + SECONDS)
        barrier.wait()
        while (started := time.perf_counter()) < ends[0]:
            try:
                allowed = peer.call()
            except Exception:
                allowed = False
            samples.append((time.perf_counter() - started, allowed))

    threads = [threading.Thread(target=caller) for _ in range(THREADS)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - started
    peer.close()
    failed = sum(not allowed for _, allowed in samples)
    late = sum(allowed and seconds * 1000 > TIMEOUT_MS for seconds, allowed in samples)
    return len(samples) / took, failed, late


def run() -> list[Row]:
    """Run bare requests and this library in turn, each in a process of its own, on one server."""
    found = {}
    with running(DELAY_MS) as url:
        for name in ("bare", "ahp_sync"):
            line = subprocess.run(
                [sys.executable, "-m", "benchmarks.load", name, url],
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            ).stdout
            rate, failed, late = line.split()
            found[name] = (float(rate), int(failed), int(late))
    bare, ours = found["bare"], found["ahp_sync"]
    note = f"bare: {bare[0]:.0f}/s, {bare[1]} failed, {bare[2]} late"
    return [
        Row("load: calls/s, ahp_sync / bare", ours[0] / bare[0], 1, "x", note, at_least=True),
        Row("load: calls/s of ahp_sync", ours[0], None, "/s"),
        Row("load: false failures", ours[1], 0, ""),
        Row("load: accepted after the deadline", ours[2], 0, ""),
    ]


if __name__ == "__main__":
    print(*storm(sys.argv[1], sys.argv[2]))
