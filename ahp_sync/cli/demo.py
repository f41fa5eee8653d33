"""``ahp-sync demo``: a short agent loop against real backends, with real faults."""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, ContextManager, Iterator, Sequence

from ahp_sync import AuditKind, AuditRecord, AuditSink, Client, Decision, Outcome, Registration
from ahp_sync.cli import console
from ahp_sync.cli.arguments import UsageError
from ahp_sync.cli.harness import Records, audit_file, open_client
from ahp_sync.cli.stage import Stage

__all__ = ["add_to"]

_DESCRIPTION = """\
Five tool calls of a small agent loop, against two backends that are started
for it: one over HTTP (shell commands, fail-closed) and one over stdio (files,
fail-open). One call proceeds, one is denied, one meets a hung backend, one a
crashed backend, and one is only observed. No tool is run.
"""
_EPILOG = """\
The backends are ahp_sync/examples/http_backend.py and stdio_backend.py:
examples to copy.

exit code: 0 if all five calls ended as they should, otherwise 1
"""

_SESSION = "demo"
_OBSERVE_SECONDS = 1.0
# How much later than its deadline a call may come back on a busy machine, in milliseconds.
_SLACK_MS = 250.0


def add_to(commands: Any) -> None:
    """Enter the command into the parser."""
    parser = commands.add_parser(
        "demo",
        help="see it work: five tool calls against backends that are started for it",
        description=_DESCRIPTION,
        epilog=_EPILOG,
    )
    parser.add_argument(
        "--audit",
        metavar="FILE",
        help="append the audit records to this file (default: one in a new temporary folder)",
    )
    parser.set_defaults(run=_run)


# --- the five calls -------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Step:
    """One call: what the agent wants, what befalls the backends, how it should end."""

    tool: str
    input: dict[str, str]
    decision: Decision
    how: str
    fault: Callable[[Stage], ContextManager[object]] = contextlib.nullcontext

    def __str__(self) -> str:
        return f"{self.tool} {next(iter(self.input.values()))}"


_EXPLICIT, _SYNTHETIC, _OPEN, _OBSERVED = "explicit", "synthetic", "failed open", "only observed"

_STEPS = (
    _Step("Write", {"path": "notes.txt"}, Decision.PROCEED, _EXPLICIT),
    _Step("Bash", {"command": "git push --force"}, Decision.DENY, _EXPLICIT),
    _Step(
        "Bash", {"command": "make test"}, Decision.DENY, _SYNTHETIC, fault=Stage.hung_http_backend
    ),
    _Step(
        "Write",
        {"path": "report.txt"},
        Decision.PROCEED,
        _OPEN,
        fault=Stage.crashing_stdio_backend,
    ),
    _Step("Read", {"path": "notes.txt"}, Decision.PROCEED, _OBSERVED),
)


@dataclass(frozen=True)
class _Row:
    """What became of one call; ``deadline_ms`` is that of all whom it had to wait for."""

    step: _Step
    outcome: Outcome
    how: str
    elapsed_ms: float
    deadline_ms: float
    told: bool

    @property
    def as_it_should(self) -> bool:
        return (
            (self.outcome.decision, self.how) == (self.step.decision, self.step.how)
            and self.elapsed_ms <= self.deadline_ms + _SLACK_MS
            and self.told
        )


class _Agent:
    """The loop: ask, act, tell."""

    def __init__(self, stage: Stage, guarded: Client, watched: Client, audit: Records) -> None:
        self._stage = stage
        self._guarded = guarded
        self._watched = watched
        self._audit = audit

    def call(self, number: int, step: _Step) -> _Row:
        hooks = self._watched if step.how == _OBSERVED else self._guarded
        call: dict[str, Any] = {
            "name": step.tool,
            "input": step.input,
            "call_id": f"call-{number}",
            "session": _SESSION,
        }
        noted = len(self._audit.records)
        with step.fault(self._stage):
            started = time.monotonic()
            outcome = hooks.tool_before(**call)
            elapsed_ms = (time.monotonic() - started) * 1000
        asked = _asked(self._audit.records[noted:])
        if outcome.may_execute:
            hooks.tool_after(output="(a demo: the tool was not run)", **call)
        else:
            hooks.tool_after(outcome="denied", **call)
        return _Row(
            step=step,
            outcome=outcome,
            how=_how(outcome, asked),
            elapsed_ms=elapsed_ms,
            deadline_ms=sum(record.timeout_ms or 0 for record in asked) or _OBSERVE_SECONDS * 1000,
            told=self._stage.was_told_of(call["call_id"], "tool.after")
            and (bool(asked) or self._stage.was_told_of(call["call_id"], "tool.before")),
        )


def _asked(records: Sequence[AuditRecord]) -> list[AuditRecord]:
    told = (AuditKind.NOT_CALLED, AuditKind.OBSERVATION_FAILED)
    return [record for record in records if record.kind not in told]


def _how(outcome: Outcome, asked: Sequence[AuditRecord]) -> str:
    if outcome.synthetic:
        return _SYNTHETIC
    if outcome.failed_open:
        return _OPEN
    return _EXPLICIT if asked else _OBSERVED


# --- the command ----------------------------------------------------------------------------------


def _run(options: argparse.Namespace) -> int:
    if os.name != "posix":
        raise UsageError("demo: stdio backends need a POSIX system")
    folder = Path(tempfile.mkdtemp(prefix="ahp-sync-demo-"))
    try:
        audit = Path(options.audit or folder / "audit.jsonl")
        with console.library_warnings(), audit_file(str(audit)) as file:
            rows = _play(folder, file)
    finally:
        if options.audit:
            shutil.rmtree(folder, ignore_errors=True)
    for line in _lines(rows):
        console.say(line)
    console.say(f"\naudit records: {audit.absolute()}")
    return 0 if all(row.as_it_should for row in rows) else 1


def _play(folder: Path, file: AuditSink) -> list[_Row]:
    records = Records()
    with contextlib.ExitStack() as stack:
        stage = stack.enter_context(Stage(folder))
        guarded, watched = (
            stack.enter_context(
                open_client(
                    Registration.load(registration),
                    [file, records],
                    observe_timeout=_OBSERVE_SECONDS,
                )
            )
            for registration in (stage.guarded(), stage.watched())
        )
        agent = _Agent(stage, guarded, watched, records)
        return [agent.call(number, step) for number, step in enumerate(_STEPS, 1)]


def _lines(rows: Sequence[_Row]) -> Iterator[str]:
    """Yield the table, and below it what there is to say of some calls."""
    heading = ("call", "decision", "how", "ms", "deadline ms")
    cells = [
        (
            f"{number}  {row.step}",
            row.outcome.decision.value,
            row.how,
            f"{row.elapsed_ms:.1f}",
            f"{row.deadline_ms:.0f}",
        )
        for number, row in enumerate(rows, 1)
    ]
    yield from console.table([heading, *cells], right=(3, 4), fit=console.width())
    yield ""
    for number, row in enumerate(rows, 1):
        for note in _notes(row):
            yield from console.wrapped(f"{number}  {note}", indent="   ")


def _notes(row: _Row) -> Iterator[str]:
    if row.outcome.reason:
        yield f"reason: {console.safe(row.outcome.reason)}"
    for failure in row.outcome.failures:
        attempts = console.count(failure.attempts, "attempt")
        yield f"{failure} ({attempts}, {failure.policy})"
    if row.how == _OBSERVED:
        yield "nobody was asked; the observer was told"
    if not row.as_it_should:
        yield f"NOT AS IT SHOULD BE: {row.step.decision.value} ({row.step.how}) was expected"
