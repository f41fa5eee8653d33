"""``ahp-sync gate``: ask before a command runs, run it, tell what became of it."""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import uuid
from typing import Any, Optional, Sequence

from ahp_sync import (
    AuditRecord,
    AuditSink,
    Budget,
    Capabilities,
    Client,
    Decision,
    Flow,
    Grant,
    Outcome,
    Registration,
)
from ahp_sync.cli import command, console, credentials
from ahp_sync.cli.arguments import UsageError, seconds
from ahp_sync.cli.harness import audit_file, open_client
from ahp_sync.cli.signals import Relay

__all__ = ["add_to"]

REFUSED = 77

# A command runs as it was given, or not at all; and there is nobody here to approve one.
_CAPABILITIES = Capabilities(
    {"tool.before": Grant(("deny", "allow", "ask", "message"), flow=Flow(("stop",)))}
)

_EPILOG = f"""\
{credentials.EPILOG}
The backends are asked about a tool call whose input is
  {{"command": "git push --force", "argv": ["git", "push", "--force"],
   "cwd": "/home/me/project"}}

example:
  ahp-sync gate --config hooks.json -- git push --force

exit code: that of the command (128+n if signal n killed it, 127 if it is not
found, 126 if it can't be started); 77 if it was refused and not run; 2 for
wrong usage or configuration
"""

# What ``tool.after`` says of a command that was refused.
_NOT_RUN: dict[Decision, tuple[str, str]] = {
    Decision.EXPIRED: ("timeout", "timeout"),
    Decision.INTERRUPTED: ("cancelled", "cancelled"),
}


def add_to(commands: Any) -> None:
    """Enter the command into the parser."""
    parser = commands.add_parser(
        "gate",
        help="ask the backends before a command runs, and run it only if they permit it",
        usage="%(prog)s --config FILE [options] -- COMMAND [ARG ...]",
        description="Ask the registered backends whether a command may run, run it if so, with\n"
        "this process's streams, and tell the observers how it ended.",
        epilog=_EPILOG,
    )
    parser.add_argument("-c", "--config", metavar="FILE", required=True, help="the registration")
    parser.add_argument("--session", metavar="ID", help="the session that the call belongs to")
    parser.add_argument(
        "--name", default="Bash", help="the tool's name for the backends (default: %(default)s)"
    )
    parser.add_argument(
        "--timeout",
        type=seconds,
        metavar="SECONDS",
        help="the most that asking may take, and telling afterwards (default: no limit but those"
        " of the registration)",
    )
    parser.add_argument("--audit", metavar="FILE", help="append audit records, as JSON lines")
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="tell on stderr how each backend decided"
    )
    credentials.add_to(parser)
    # A command without '--' in front ends up here, and gets an error that says so.
    parser.add_argument("stray", nargs="*", help=argparse.SUPPRESS)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    if options.stray or not options.command:
        raise UsageError("gate: put the command behind '--' (see 'ahp-sync gate --help')")
    with contextlib.ExitStack() as stack:
        if options.verbose:
            stack.enter_context(console.library_warnings())
        relay = stack.enter_context(Relay().listening())
        sinks: list[AuditSink] = [_Dispositions()] if options.verbose else []
        if options.audit:
            sinks.append(stack.enter_context(audit_file(options.audit)))
        registration = Registration.load(options.config)
        secrets = credentials.client_options("gate", options, registration)
        hooks = stack.enter_context(
            open_client(registration, sinks, capabilities=_CAPABILITIES, **secrets)
        )
        return _Gate(hooks, relay, options).run(options.command)


class _Gate:
    """One command's way through the gate."""

    def __init__(self, hooks: Client, relay: Relay, options: argparse.Namespace) -> None:
        self._hooks = hooks
        self._relay = relay
        self._timeout: Optional[float] = options.timeout
        self._call: dict[str, Any] = {
            "name": options.name,
            "session": options.session,
            "call_id": str(uuid.uuid4()),
        }

    def run(self, argv: Sequence[str]) -> int:
        self._call["input"] = _tool_input(argv)
        outcome = self._ask()
        if self._relay.first is not None:  # whatever was decided, somebody wants an end
            self._tell(**_not_run(Decision.INTERRUPTED))
            return 128 + self._relay.first
        for message in outcome.messages:
            console.complain(console.safe(message))
        if not outcome.may_execute:
            objection = outcome.reason or f"The decision is {outcome.decision.value!r}."
            console.complain(f"refused: {console.safe(objection)}")
            self._tell(**_not_run(outcome.decision))
            return REFUSED
        if outcome.failed_open:
            console.complain("warning: a policy backend is unavailable; going on (fail-open)")
        ended = command.run(argv, self._relay)
        if ended.trouble:
            console.complain(f"{console.safe(argv[0])}: {ended.trouble}")
        self._tell(**ended.after)
        return ended.code

    def _ask(self) -> Outcome:
        budget = self._budget()
        with self._relay.to(lambda _: budget.cancel()):
            return self._hooks.tool_before(budget=budget, **self._call)

    def _tell(self, **after: Any) -> None:
        # The exit code is settled by now; nothing that happens here may change it.
        budget = self._budget()
        try:
            with self._relay.to(lambda _: budget.cancel()):
                self._hooks.tool_after(budget=budget, **self._call, **after)
        except Exception as error:
            console.complain(f"warning: tool.after was not sent: {type(error).__name__}")

    def _budget(self) -> Budget:
        return Budget.open_ended() if self._timeout is None else Budget(self._timeout)


def _tool_input(argv: Sequence[str]) -> dict[str, Any]:
    tool_input: dict[str, Any] = {"command": shlex.join(argv), "argv": list(argv)}
    with contextlib.suppress(OSError):  # the folder may be gone
        tool_input["cwd"] = os.getcwd()
    return tool_input


def _not_run(decision: Decision) -> dict[str, Any]:
    outcome, reason = _NOT_RUN.get(decision, ("denied", "policy"))
    return {"outcome": outcome, "execution": {"status": "skipped", "reason": reason}}


class _Dispositions:
    """Tells on stderr what became of each subscription."""

    def write(self, record: AuditRecord) -> None:
        about = f" {record.failure_class}" if record.failure_class else ""
        about += f"/{record.code}: {record.detail}" if record.detail else ""
        about += f": {', '.join(record.effects)}" if record.effects else ""
        took = "" if record.elapsed_ms is None else f" ({record.elapsed_ms:.0f} ms)"
        console.complain(f"{record.event_type} {record.who}: {record.kind.value}{took}{about}")
