"""Reading command lines: one-line errors, and values checked where they are read."""

from __future__ import annotations

import argparse
import json
import math
from typing import Any, Collection, NoReturn, Optional

__all__ = ["Parser", "UsageError", "json_object", "seconds", "split_command"]


class UsageError(Exception):
    """The command line, or a file that it names, can't be used; the text is for the user."""


class Parser(argparse.ArgumentParser):
    """A parser that takes no abbreviations, keeps the layout of its epilog, and raises."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        """Raise :class:`UsageError`."""
        # The program's name goes in front of every complaint, so that only the rest is needed.
        _, _, command = self.prog.partition(" ")
        prefix = f"{command}: " if command else ""
        raise UsageError(f"{prefix}{message} (see '{self.prog} --help')")


def split_command(
    arguments: list[str], takers: Collection[str]
) -> tuple[list[str], Optional[list[str]]]:
    """Return the arguments before the first ``--`` and the command line after it, or None.

    Only for the subcommands in ``takers``. It is done before ``argparse`` sees them, whose
    treatment of ``--`` differs between versions of Python.
    """
    if not arguments or arguments[0] not in takers or "--" not in arguments:
        return arguments, None
    position = arguments.index("--")
    return arguments[:position], arguments[position + 1 :]


def seconds(text: str) -> float:
    """Return a positive, finite number of seconds, for ``type=``."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number of seconds")
    return number


def json_object(text: str) -> dict[str, Any]:
    """Return the JSON object that ``text`` holds, for ``type=``."""
    try:
        value = json.loads(text, object_pairs_hook=_members)
    except (ValueError, RecursionError) as error:
        raise argparse.ArgumentTypeError(f"not readable as JSON: {error}") from None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError('a JSON object is wanted, such as \'{"command": "ls"}\'')
    return value


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("the same name stands twice in one object")
    return members
