"""p50 of a ``tool_before`` with a real delivery, against bare requests and the official SDK.

Every client has a process of its own; they take turns on one server, block by block, so that a
change of the machine's speed hits all of them. The ratio is the median of the ratios of the blocks.
"""

from __future__ import annotations

import contextlib
import importlib.util
import statistics

from benchmarks.peers import remote
from benchmarks.server import running
from benchmarks.table import Row

ROUNDS = 20
CALLS = {"bare": 300, "default": 300, "fast": 300, "official": 15}
TIMEOUT_MS = 5000


def run() -> list[Row]:
    """Return p50 and the ratios."""
    names = ["bare", "default"]
    names += ["fast"] if importlib.util.find_spec("jsonschema_rs") else []
    names += ["official"] if importlib.util.find_spec("agenthooksprotocol") else []
    p50: dict[str, list[float]] = {name: [] for name in names}
    with running() as url, contextlib.ExitStack() as stack:
        peers = {name: stack.enter_context(remote(name, url, TIMEOUT_MS)) for name in names}
        for peer in peers.values():
            peer.times(100)
        for _ in range(ROUNDS):
            for name, peer in peers.items():
                p50[name].append(statistics.median(peer.times(CALLS[name])))

    def ratio(name: str, other: str) -> float:
        return statistics.median(a / b for a, b in zip(p50[name], p50[other]))

    rows = [
        Row(f"p50 of one call: {name}", statistics.median(p50[name]) * 1e6, None, "us")
        for name in names
    ]
    rows.append(Row("default install / bare requests", ratio("default", "bare"), 1.0, "x"))
    if "fast" in names:
        rows.append(Row("with [fast] / bare requests", ratio("fast", "bare"), 0.75, "x"))
    if "official" in names:
        times = ratio("official", "default")
        rows.append(Row("official SDK / default install", times, 40, "x", at_least=True))
    return rows
