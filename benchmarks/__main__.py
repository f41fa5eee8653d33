"""Run the benchmarks and print one table: ``python -m benchmarks [NAME …]``.

Names: latency, chain, validation, tokens, uploads, overshoot, load, close, startup, memory. Exits
with 1 if a bound is missed. The machine should be idle: the bounds are meant for that.
"""

from __future__ import annotations

import importlib
import sys

from benchmarks.table import Row

NAMES = (
    *("latency", "chain", "validation", "tokens", "uploads", "overshoot", "load", "close"),
    *("startup", "memory"),
)


def main() -> int:
    names = sys.argv[1:] or NAMES
    unknown = set(names) - set(NAMES)
    if unknown:
        print(f"no such benchmark: {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
        return 2
    missed = 0
    print(Row.HEADER, flush=True)
    for name in names:
        for row in importlib.import_module(f"benchmarks.{name}").run():
            print(row, flush=True)
            missed += not row.reached
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
