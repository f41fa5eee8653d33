"""Counts what became of the public cases, by suite and tag, and says so at the end of the run."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any, NamedTuple

import pytest

__all__ = ["PROPERTY", "Tally", "describe"]

#: The user property of a test by which it is counted.
PROPERTY = "public case"

#: What may become of a case; only the first is a pass.
PASSED, FAILED, DIFFERS, INAPPLICABLE = "passed", "failed", "known difference", "not applicable"


class _Row(NamedTuple):
    """A line of the table. The empty tag stands for the whole suite, and comes first."""

    suite: str
    tag: str


def describe(suite: str, name: str, tags: tuple[str, ...], transport: str) -> dict[str, Any]:
    """Return the value of the property for one case over one transport."""
    return {"suite": suite, "name": name, "tags": list(tags), "transport": transport}


class Tally:
    """A plugin that listens to the reports of the tests and adds its table to the summary."""

    def __init__(self) -> None:
        self._counts: dict[_Row, dict[str, Counter[str]]] = {}
        # What is not a pass: by verdict and reason the cases, each with its transports.
        self._notes: dict[str, dict[str, dict[str, list[str]]]] = {DIFFERS: {}, INAPPLICABLE: {}}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test once: by its call, or by what kept it from being called."""
        facts = dict(report.user_properties).get(PROPERTY)
        if not isinstance(facts, dict) or (report.when != "call" and report.passed):
            return
        verdict = PASSED
        if hasattr(report, "wasxfail"):
            verdict = DIFFERS
        elif report.skipped:
            verdict = INAPPLICABLE
        elif report.failed:
            verdict = FAILED
        for tag in ("", *facts["tags"]):
            columns = self._counts.setdefault(_Row(facts["suite"], tag), {})
            columns.setdefault(facts["transport"], Counter())[verdict] += 1
        if verdict in self._notes:
            cases = self._notes[verdict].setdefault(_reason(report, verdict), {})
            cases.setdefault(f"{facts['suite']}/{facts['name']}", []).append(facts["transport"])

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print ``passed/total`` for each suite, tag and transport, and what is not a pass."""
        if not self._counts:
            return
        terminalreporter.section("public scenarios: passed/total")
        for line in self._lines():
            terminalreporter.write_line(line)
        for verdict, notes in self._notes.items():
            for reason, cases in notes.items():
                terminalreporter.write_line(f"{verdict}: {reason}")
                listed = ", ".join(f"{case} ({'+'.join(where)})" for case, where in cases.items())
                for line in textwrap.wrap(listed, 96, break_on_hyphens=False):
                    terminalreporter.write_line(f"    {line}")

    def _lines(self) -> Iterator[str]:
        suites = list(dict.fromkeys(row.suite for row in self._counts))
        rows = sorted(self._counts, key=lambda row: (suites.index(row.suite), row.tag))
        table = [[f"  {row.tag}" if row.tag else row.suite, *self._cells(row)] for row in rows]
        widths = [max(map(len, column)) for column in zip_longest(*table, fillvalue="")]
        for line in table:
            yield "  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip()

    def _cells(self, row: _Row) -> Iterator[str]:
        for transport, counts in self._counts[row].items():
            yield f"{transport} {_fraction(counts)}"


def _fraction(counts: Counter[str]) -> str:
    """Return passed/total; what does not apply is in neither, and told beside it."""
    total = sum(counts.values()) - counts[INAPPLICABLE]
    others = [f"{counts[key]} {key}" for key in (FAILED, DIFFERS, INAPPLICABLE) if counts[key]]
    return f"{counts[PASSED]}/{total}" + (f" ({', '.join(others)})" if others else "")


def _reason(report: pytest.TestReport, verdict: str) -> str:
    if verdict == DIFFERS:
        return str(report.wasxfail).replace("reason: ", "", 1)
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.replace("Skipped: ", "", 1)
