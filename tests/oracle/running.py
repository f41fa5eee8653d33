"""Putting the cases to both clients, and counting what they were."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any, Callable, Optional

from hypothesis import HealthCheck, given, settings
from hypothesis import seed as seeded

from oracle.cases import Case
from oracle.differences import Judgement, judge
from oracle.official import official
from oracle.ours import ours

__all__ = ["Tally", "compare", "compared", "draw_cases"]

#: How slow a machine is must not decide about a test.
CHECKS = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much)


class Tally:
    """What the cases so far were, and how our client took the answers in them."""

    def __init__(self) -> None:
        self.cases = 0
        self.accepted: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.effects: Counter[str] = Counter()
        self.known: Counter[str] = Counter()

    def note(self, case: Case, judgement: Judgement) -> None:
        """Count one case."""
        self.cases += 1
        self.known.update(judgement.known)
        asked = [sent.backend for sent in judgement.first.asked]
        for backend, subscriptions in case.backends:
            for index, subscription in enumerate(subscriptions):
                if subscription.answer is None or backend not in asked:
                    continue
                asked.remove(backend)
                if (backend, index) in judgement.first.refused:
                    self.refused[subscription.answer.kind] += 1
                else:
                    self.accepted[subscription.answer.kind] += 1
                    self.effects.update(one["type"] for one in subscription.answer.effects)

    @property
    def share(self) -> float:
        """The share of the answers that were accepted."""
        accepted, refused = sum(self.accepted.values()), sum(self.refused.values())
        return accepted / max(1, accepted + refused)

    def __str__(self) -> str:
        kinds = sorted(self.accepted.keys() | self.refused.keys())
        lines = [f"{self.cases} cases, {self.share:.0%} of the answers accepted"]
        lines += [f"  {kind}: {self.accepted[kind]} of {self.total(kind)}" for kind in kinds]
        lines += [f"  accepted {name}: {count}" for name, count in sorted(self.effects.items())]
        lines += [f"  known {name}: {count}" for name, count in sorted(self.known.items())]
        return "\n".join(lines)

    def total(self, kind: str) -> int:
        """How many answers of this kind there were."""
        return self.accepted[kind] + self.refused[kind]


#: What is wrong with a case, if anything.
Problem = Callable[[Case], Optional[str]]

#: Seconds for making a failing case small: a test that takes longer is killed, and tells nothing.
SMALLER = 30.0


class _Failures:
    """Finds problems; once it has spent its time on smaller ones, it finds known ones only."""

    def __init__(self, problem: Problem, seconds: float) -> None:
        self._problem = problem
        self._seconds = seconds
        self._known: dict[str, str] = {}
        self._until: Optional[float] = None

    def look(self, case: Case) -> Optional[str]:
        """Return what is wrong with a case, if it is known or there is time to find out."""
        key = repr(case)
        if key in self._known or (self._until and time.monotonic() > self._until):
            return self._known.get(key)
        told = self._problem(case)
        if told is not None:
            self._known[key] = told
            self._until = self._until or time.monotonic() + self._seconds
        return told


def draw_cases(
    strategy: Any,
    examples: int,
    problem: Problem,
    seed: Optional[int] = None,
    smaller: float = SMALLER,
) -> None:
    """Raise ``AssertionError`` if ``problem`` finds one in any of so many cases, made small.

    The cases are the same in every run, unless there is a ``seed``. ``smaller`` is how many seconds
    may be spent on a failing case.
    """
    found = _Failures(problem, smaller)

    @settings(
        max_examples=examples,
        derandomize=seed is None,
        deadline=None,
        database=None,
        print_blob=seed is not None,
        suppress_health_check=CHECKS,
    )
    @given(strategy)
    def one(case: Case) -> None:
        told = found.look(case)
        assert told is None, told

    if seed is None:
        one()
    else:
        seeded(seed)(one)()


def compared(case: Case) -> Judgement:
    """Return what our client and the official SDK make of a case."""
    return judge(case, ours, official)


def compare(strategy: Any, examples: int, tally: Tally, seed: Optional[int] = None) -> None:
    """Compare both clients over so many cases. Fails with a small case where they differ."""

    def problem(case: Case) -> Optional[str]:
        judgement = compared(case)
        tally.note(case, judgement)
        return f"seed {seed}\n{judgement}" if judgement.wrong else None

    draw_cases(strategy, examples, problem, seed)
