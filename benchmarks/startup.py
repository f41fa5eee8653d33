"""``import ahp_sync`` against ``import requests``, each in fresh interpreters, taking turns."""

from __future__ import annotations

import statistics
import subprocess
import sys

from benchmarks.table import Row

ROUNDS = 15
CODE = "import time; s = time.perf_counter(); import {}; print(time.perf_counter() - s)"


def seconds(module: str) -> float:
    """Return how long one fresh interpreter took to import the module."""
    arguments = [sys.executable, "-c", CODE.format(module)]
    return float(subprocess.run(arguments, stdout=subprocess.PIPE, check=True).stdout)


def run() -> list[Row]:
    """Return the ratio of the medians."""
    times: dict[str, list[float]] = {"ahp_sync": [], "requests": []}
    for _ in range(ROUNDS):
        for module, found in times.items():
            found.append(seconds(module))
    ours, theirs = (statistics.median(times[module]) for module in times)
    note = f"{ours * 1e3:.0f} ms against {theirs * 1e3:.0f} ms"
    return [Row("import ahp_sync / import requests", ours / theirs, 1.2, "x", note)]
