"""How far past its deadline a call comes back, over every fault of the testing backend.

``python -m benchmarks.overshoot FAULT`` serves one fault in a process of its own, so that its work
does not compete with the client for one interpreter.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

from benchmarks.peers import AhpSync
from benchmarks.table import Row

TIMEOUT_MS = 300
CALLS = 10


def overshoots(fault: str) -> list[float]:
    """Return, in ms, how long after the deadline each of several calls ended (negative: before)."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.overshoot", fault],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdin is not None
    try:
        peer = AhpSync(process.stdout.readline().strip(), TIMEOUT_MS)
        found = []
        for _ in range(CALLS):
            started = time.perf_counter()
            peer.call()
            found.append((time.perf_counter() - started) * 1000 - TIMEOUT_MS)
        peer.close()
        return found
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def run() -> list[Row]:
    """Return the median over the calls that met their deadline, and the worst of all calls."""
    from ahp_sync.testing import FAULTS

    faults = [name for name, fault in FAULTS.items() if "http" in fault.expected]
    found = {name: overshoots(name) for name in faults}
    met = [late for times in found.values() for late in times if late >= 0]
    worst = max(found, key=lambda name: max(found[name]))
    note = f"{len(met)} calls of {len(faults)} faults ran into the deadline"
    return [
        Row("overshoot at timeoutMs 300, p50", statistics.median(met), 2, "ms", note),
        Row("overshoot at timeoutMs 300, worst", max(found[worst]), 15, "ms", worst),
    ]


def serve(fault: str) -> None:
    from ahp_sync.testing import HttpBackend

    with HttpBackend(fault) as backend:
        print(backend.url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    serve(sys.argv[1])
