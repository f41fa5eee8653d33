"""What the library raises at its host: misuse only. A failure is an outcome instead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ahp_sync.outcome import Outcome

__all__ = [
    "AHPError",
    "ClientClosed",
    "InvalidEvent",
    "Problem",
    "RegistrationError",
    "ToolDenied",
]


@dataclass(frozen=True)
class Problem:
    """One thing wrong with a registration: where, what was found, what is right.

    ``path`` is a JSON path such as ``$.hooks[0].transport.url``. No field holds the value of a
    secret (a header, an environment variable, a token, a URL).
    """

    path: str
    found: str
    wanted: str

    def __str__(self) -> str:
        return f"{self.path}: found {self.found}; wanted {self.wanted}"


class AHPError(Exception):
    """The root of every exception that this library raises on purpose."""


class RegistrationError(AHPError):
    """A registration was refused, before anything was started or sent (R-ROLE-02).

    ``problems`` holds all of them; ``str()`` lists them, one a line.
    """

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__(self.problems)

    def __str__(self) -> str:
        return "\n".join(map(str, self.problems))


class InvalidEvent(AHPError):
    """A hook call was given values that its event can't have; nothing was sent.

    ``path``, ``found`` and ``wanted`` say where, what was there and what is right.
    """

    def __init__(self, path: str, found: str, wanted: str) -> None:
        super().__init__(path, found, wanted)
        self.path = path
        self.found = found
        self.wanted = wanted

    def __str__(self) -> str:
        return f"{self.path}: found {self.found}; wanted {self.wanted}"


class ClientClosed(AHPError):
    """A hook call reached a client that is closed; the network was not touched (R-SHUT-01)."""


class ToolDenied(AHPError):
    """A guarded tool was not run. ``outcome`` tells why, and ``str()`` gives its reason."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome)
        self.outcome = outcome

    def __str__(self) -> str:
        return self.outcome.reason or ""
