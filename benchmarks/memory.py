"""Growth of the resident set over 20,000 calls, after a warm-up. Linux only."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks.peers import AhpSync
from benchmarks.server import running
from benchmarks.table import Row

WARM_UP, CALLS = 2_000, 20_000


def resident() -> float:
    """Return the resident set in MiB."""
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS"))


def measure(url: str) -> float:
    """Return the growth in MiB."""
    peer = AhpSync(url, 5000)
    for _ in range(WARM_UP):
        peer.call()
    before = resident()
    for _ in range(CALLS):
        peer.call()
    growth = resident() - before
    peer.close()
    return growth


def run() -> list[Row]:
    """Return the growth, measured in a process of its own."""
    with running() as url:
        arguments = [sys.executable, "-m", "benchmarks.memory", url]
        growth = float(subprocess.run(arguments, stdout=subprocess.PIPE, check=True).stdout)
    return [Row("RSS growth over 20,000 calls", growth, 2, "MiB")]


if __name__ == "__main__":
    print(measure(sys.argv[1]))
