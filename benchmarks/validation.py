"""What it takes to validate one ``tool.before``: the event, and the response with its effect.

Each engine has a process of its own: ``python -m benchmarks.validation ENGINE`` prints the median
of the microseconds of one event and one response together.
"""

from __future__ import annotations

import importlib.util
import json
import statistics
import subprocess
import sys
import time
from typing import Any

from benchmarks.table import Row

BOUNDS = {"jsonschema": 300, "jsonschema-rs": 40}
RUNS, BLOCK = 60, 50

EVENT: dict[str, Any] = {
    "id": "3f0c5c1e-9d1b-4d8e-9f65-1f1f64f9a111",
    "session": {"id": "session-1", "cwd": "/home/me/project"},
    "turn": {"id": "turn-1"},
    "call": {"id": "call-1"},
    "path": "native",
    "tool": {
        "name": "Bash",
        "origin": "native",
        "input": {"command": "git push --force", "timeout": 30, "background": False},
    },
}
RESPONSES: dict[str, list[dict[str, Any]]] = {
    "deny": [{"type": "deny", "reason": "No force pushes here."}],
    "modify": [
        {
            "type": "modify",
            "target": "input",
            "operation": "merge",
            "value": {"command": "git push", "timeout": 10},
        }
    ],
}


def run() -> list[Row]:
    """Return the time of each engine that is installed, for either response."""
    rows = []
    for engine, bound in BOUNDS.items():
        if importlib.util.find_spec(engine.replace("-", "_")) is None:
            continue
        command = [sys.executable, "-m", "benchmarks.validation", engine]
        found = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        for name, microseconds in found.items():
            what = f"validating tool.before and a {name}: {engine}"
            rows.append(Row(what, microseconds, bound, "us"))
    return rows


def measure(engine: str) -> dict[str, float]:
    if engine == "jsonschema":
        sys.modules["jsonschema_rs"] = None  # type: ignore[assignment]
    from ahp_sync import Grant
    from ahp_sync.protocol import validation
    from ahp_sync.protocol.effects import admitted_effects

    assert validation.engine() == engine
    capabilities = Grant.whole("tool.before").to_json("tool.before")
    found = {}
    for name, effects in RESPONSES.items():
        result = {"protocolVersion": "draft", "effects": effects}
        times = []
        for _ in range(RUNS):
            started = time.perf_counter()
            for _ in range(BLOCK):
                problem = validation.event_problem("tool.before", EVENT)
                admitted_effects(result, "tool.before", capabilities)
            times.append((time.perf_counter() - started) / BLOCK)
            assert problem is None
        found[name] = statistics.median(times) * 1e6
    return found


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1])))
