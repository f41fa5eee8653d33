"""The problems of a document that the host gave, collected by place and worded without secrets."""

from __future__ import annotations

import json
import re
from typing import Any, Union

from ahp_sync.errors import Problem

__all__ = ["Findings", "Path", "describe", "json_path"]

#: The way to a value: member names and list positions from the root.
Path = tuple[Union[str, int], ...]

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{0,64}")


class Findings:
    """Collects problems; several may stand at one place, each once."""

    def __init__(self) -> None:
        self._by_path: dict[Path, dict[Problem, None]] = {}
        self._unreadable: set[Path] = set()

    def add(self, path: Path, found: str, wanted: str) -> None:
        """Note a problem, unless the value at this place was unreadable anyway."""
        if path not in self._unreadable:
            problem = Problem(json_path(path), found, wanted)
            self._by_path.setdefault(path, {})[problem] = None

    def add_unreadable(self, path: Path, found: str, wanted: str) -> None:
        """Note that there is no JSON value at this place; nothing else is said of it then."""
        self.add(path, found, wanted)
        self._unreadable.add(path)

    def __contains__(self, path: object) -> bool:
        return path in self._by_path

    def problems(self) -> list[Problem]:
        """Return all problems, sorted by place."""
        paths = sorted(self._by_path, key=_order)
        return [problem for path in paths for problem in self._by_path[path]]


def _order(path: Path) -> list[tuple[bool, int, str]]:
    # Numbers and names do not compare; a list's positions sort as numbers.
    return [(True, step, "") if isinstance(step, int) else (False, 0, step) for step in path]


def json_path(path: Path) -> str:
    """Return the path as text, such as ``$.hooks[0].transport.url``.

    A member's name is cut where it stops looking like one, since what stands in the wrong place
    may be a secret, or many lines long.
    """
    return "$" + "".join(map(_step, path))


def _step(step: Union[str, int]) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    if len(step) <= 64 and _PLAIN_NAME.fullmatch(step):
        return f".{step}"
    match = _TOKEN.match(step)
    head = match[0] if match else ""
    return f'["{head}"]' if head == step else f'["{head}…"]'


def describe(value: Any, *, quote: bool) -> str:
    """Say what a JSON value is. Only with ``quote`` is a string or a number shown itself."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    if value == "":
        return "an empty string"
    if not quote:
        return "a string" if isinstance(value, str) else "a number"
    return json.dumps(value if not isinstance(value, str) or len(value) <= 64 else value[:63] + "…")
