"""``ahp-sync validate``: everything wrong with a registration, at once."""

from __future__ import annotations

import argparse
import json
from typing import Any

from ahp_sync import Registration
from ahp_sync.cli import console
from ahp_sync.registration import Backend, HttpEndpoint, Problem, Subscription, problems

__all__ = ["add_to"]

_EPILOG = """\
example:
  ahp-sync validate hooks.json

exit code: 0 if the file can be used, 1 if not, 2 for wrong usage
"""


def add_to(commands: Any) -> None:
    """Enter the command into the parser."""
    parser = commands.add_parser(
        "validate",
        help="check a registration (hooks.json) and print everything wrong with it",
        description="Check a registration (hooks.json) and print everything wrong with it, or\n"
        "what it says. Nothing is started or sent, and no value of a secret is printed.\n"
        "What a particular host can't serve, only that host can say.",
        epilog=_EPILOG,
    )
    parser.add_argument("file", metavar="FILE", help="the registration")
    parser.add_argument("--json", action="store_true", help="print the result as one JSON object")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    warnings: list[str] = []
    with console.library_warnings(warnings.append):
        found = problems(options.file)
    if options.json:
        _print_json(options.file, found, warnings)
    else:
        _print(options.file, found, warnings)
    return 1 if found else 0


def _print_json(file: str, found: list[Problem], warnings: list[str]) -> None:
    result = {
        "file": file,
        "valid": not found,
        "problems": [
            {"path": problem.path, "found": problem.found, "wanted": problem.wanted}
            for problem in found
        ],
        "warnings": warnings,
        "discovered": [] if found else [backend.id for backend in _discovered(file)],
    }
    console.say(json.dumps(result, indent=2))


def _print(file: str, found: list[Problem], warnings: list[str]) -> None:
    verdict = console.count(len(found), "problem") if found else "valid"
    console.say(f"{console.safe(file)}: {verdict}")
    for problem in found:
        console.say(f"\n{console.safe(problem.path)}")
        console.say(f"  found:  {console.safe(problem.found)}")
        console.say(f"  wanted: {console.safe(problem.wanted)}")
    if not found:
        _describe(Registration.load(file))
    for warning in warnings:
        console.complain(f"warning: {console.safe(warning)}")


def _discovered(file: str) -> list[Backend]:
    return [backend for backend in Registration.load(file).backends if backend.is_discovered]


def _describe(registration: Registration) -> None:
    for backend in registration.backends:
        transport = backend.transport
        if isinstance(transport, HttpEndpoint):
            where = transport.display_url
        else:
            where = f"{transport.command} ({transport.lifecycle})"
        console.say(f"\n{backend.id}  {console.safe(where)}")
        for subscription in backend.subscriptions:
            console.say(f"  {_summary(subscription)}")
        if backend.is_discovered:
            console.say("  asked at run time what it subscribes to (hooks/configuration)")


def _summary(subscription: Subscription) -> str:
    events = ", ".join(map(console.safe, subscription.selectors))
    if subscription.policy is None:
        return f"observe    {events}"
    return f"intercept  {events}  {subscription.timeout_ms} ms, {subscription.policy}"
