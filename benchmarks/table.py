"""One row of the table: what was measured, what came out, what must come out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Row:
    """``bound`` is the most that ``value`` may be, or the least where ``at_least`` is set."""

    what: str
    value: float
    bound: float | None
    unit: str
    note: str = ""
    at_least: bool = False

    HEADER: ClassVar[str] = (
        f"{'what':<52} {'measured':>12} {'must be':>12}  {'':<6} note\n" + "-" * 110
    )

    @property
    def reached(self) -> bool:
        """Whether the value keeps the bound, if there is one."""
        if self.bound is None:
            return True
        return self.value >= self.bound if self.at_least else self.value <= self.bound

    def __str__(self) -> str:
        sign = "" if self.bound is None else ">= " if self.at_least else "<= "
        bound = "" if self.bound is None else f"{sign}{self.bound:g}"
        verdict = "" if self.bound is None else "ok" if self.reached else "MISSED"
        measured = f"{self.value:.2f} {self.unit}"
        return f"{self.what:<52} {measured:>12} {bound:>12}  {verdict:<6} {self.note}"
