"""The ``ahp-sync`` command: see the protocol work, check a registration, gate a command, send."""

from __future__ import annotations

import argparse
import sys
import traceback
from typing import Optional, Sequence, Union

from ahp_sync import AHPError, InvalidEvent, RegistrationError, __version__
from ahp_sync.cli import console, demo, gate, send, validate
from ahp_sync.cli.arguments import Parser, UsageError, split_command
from ahp_sync.cli.signals import terminable

__all__ = ["main"]

_COMMANDS = (demo, validate, gate, send)
_USAGE, _BUG, _SIGINT, _SIGPIPE = 2, 70, 2, 13


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run the command line ``argv`` (by default that of the process) and return the exit code.

    2 is wrong usage or configuration, 70 a mistake in this program, and 128+n an end by signal n;
    the rest is each command's own.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    console.set_up()
    try:
        with terminable():
            code = _run(arguments)
    except KeyboardInterrupt as interrupt:
        code = 128 + getattr(interrupt, "signum", _SIGINT)
    except BrokenPipeError:
        code = 128 + _SIGPIPE
    return code


def _run(arguments: list[str]) -> int:
    try:
        options = _parse(arguments)
        code: int = options if isinstance(options, int) else options.run(options)
        console.flush()
        return code
    except UsageError as error:
        console.complain(str(error))
    except RegistrationError as error:
        for problem in error.problems:
            console.complain(f"registration: {problem}")
    except InvalidEvent as error:
        console.complain(f"the event can't be sent: {error}")
    except BrokenPipeError:
        raise
    except (AHPError, OSError, NotImplementedError) as error:
        console.complain(str(error))
        return 1
    except Exception as error:
        # Not its text, which may hold anything.
        where = traceback.extract_tb(error.__traceback__)[-1]
        name = type(error).__name__
        console.complain(f"internal error: {name} in {where.filename}, line {where.lineno}")
        return _BUG
    return _USAGE


def _parse(arguments: list[str]) -> Union[argparse.Namespace, int]:
    parser = _parser()
    if not arguments:
        parser.print_help(sys.stderr)
        return _USAGE
    own, command = split_command(arguments, {"gate", "send"})
    try:
        options = parser.parse_args(own)
    except SystemExit as done:  # --help and --version
        return int(done.code or 0)
    options.command = command
    return options


def _parser() -> Parser:
    parser = Parser(
        prog="ahp-sync",
        description="The synchronous client of the Agent Hooks Protocol, AHP, as a command.",
        epilog="'ahp-sync COMMAND --help' tells more about each command.",
    )
    parser.add_argument("--version", action="version", version=f"ahp-sync {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in _COMMANDS:
        command.add_to(commands)
    return parser
