"""Putting the cases to both clients, and counting what they were."""

from __future__ import annotations

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


def draw_cases(
    strategy: Any, examples: int, check: Callable[[Case], None], seed: Optional[int] = None
) -> None:
    """Call ``check`` with so many cases; one that fails is made smaller first.

    The cases are the same in every run, unless there is a ``seed``.
    """

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
        check(case)

    if seed is None:
        one()
    else:
        seeded(seed)(one)()


def compared(case: Case) -> Judgement:
    """Return what our client and the official SDK make of a case."""
    return judge(case, ours, official)


def compare(strategy: Any, examples: int, tally: Tally, seed: Optional[int] = None) -> None:
    """Compare both clients over so many cases. Fails with a small case where they differ."""

    def check(case: Case) -> None:
        judgement = compared(case)
        tally.note(case, judgement)
        assert not judgement.wrong, f"seed {seed}\n{judgement}"

    draw_cases(strategy, examples, check, seed)
