"""``import ahp_sync`` against ``import requests``, each in fresh interpreters, taking turns.

Both are compiled beforehand, as pip does with what it installs.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile

from benchmarks.table import Row

ROUNDS = 15
CODE = "import time; s = time.perf_counter(); import {}; print(time.perf_counter() - s)"


def seconds(module: str, compiled: str) -> float:
    """Return how long one fresh interpreter took to import the module.

    What it compiles is kept in the folder ``compiled``, for the next one.
    """
    arguments = [sys.executable, "-c", CODE.format(module)]
    environ = {name: value for name, value in os.environ.items() if name != _DONT_COMPILE}
    environ["PYTHONPYCACHEPREFIX"] = compiled
    done = subprocess.run(arguments, stdout=subprocess.PIPE, check=True, env=environ)
    return float(done.stdout)


_DONT_COMPILE = "PYTHONDONTWRITEBYTECODE"


def run() -> list[Row]:
    """Return the ratio of the medians."""
    times: dict[str, list[float]] = {"ahp_sync": [], "requests": []}
    with tempfile.TemporaryDirectory() as compiled:
        for module in times:
            seconds(module, compiled)
        for _ in range(ROUNDS):
            for module, found in times.items():
                found.append(seconds(module, compiled))
    ours, theirs = (statistics.median(times[module]) for module in times)
    note = f"{ours * 1e3:.0f} ms against {theirs * 1e3:.0f} ms"
    return [Row("import ahp_sync / import requests", ours / theirs, 1.2, "x", note)]
