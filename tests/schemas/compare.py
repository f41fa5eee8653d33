"""One comparison: many instances, two opinions of each, and the smallest one that divides them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

__all__ = ["DEFAULT", "NIGHTLY", "compare", "smallest", "told"]

DEFAULT = 200
NIGHTLY = 20 * DEFAULT

# Instances are drawn from a seed, several from each, so hypothesis can't make them smaller.
_BATCH = 10
_PHASES = (Phase.explicit, Phase.generate)


def compare(
    examples: int,
    draw: Callable[[Random], Any],
    ours: Callable[[Any], bool],
    theirs: Callable[[Any], bool],
    *,
    quickly: Callable[[Any], bool] | None = None,
    excused: Callable[[Any], bool] = lambda instance: False,
) -> None:
    """Hold two opinions equal over that many instances of ``draw``, which gets a ``Random``.

    Where ``theirs`` takes long, most of the time ``quickly`` is asked instead, and ``theirs`` when
    that differs. A difference that is ``excused`` is none. Both verdicts have to come up often, or
    the instances were not worth much.
    """
    verdicts = {True: 0, False: 0}

    def divides(instance: Any) -> bool:
        return ours(instance) is not theirs(instance) and not excused(instance)

    def compare_one(instance: Any) -> None:
        verdict = ours(instance)
        verdicts[verdict] += 1
        if quickly is not None and sum(verdicts.values()) % 10 and quickly(instance) is verdict:
            return
        if divides(instance):
            least = smallest(instance, divides)
            raise AssertionError(told(least, ours(least), theirs(least)))

    @settings(max_examples=examples // _BATCH, phases=_PHASES)
    @given(st.randoms(use_true_random=True))
    def run(random: Random) -> None:
        for _ in range(_BATCH):
            compare_one(draw(random))

    run()
    assert min(verdicts.values()) * 10 >= examples, verdicts


def told(instance: Any, ours: bool, theirs: bool) -> str:
    """Return the words for a difference."""
    word = {True: "accepted", False: "refused"}
    return f"{word[ours]} here, {word[theirs]} there: {json.dumps(instance)}"


def smallest(value: Any, is_it: Callable[[Any], bool]) -> Any:
    """Return what is left of ``value`` when nothing more can be left out for ``is_it`` to hold."""
    changed = True
    while changed:
        changed = False
        for less in _less(value):
            if is_it(less):
                value, changed = less, True
                break
    return value


def _less(value: Any) -> Iterator[Any]:
    """Yield the value with one thing less in it."""
    if isinstance(value, dict):
        for name, inner in value.items():
            rest = {other: one for other, one in value.items() if other != name}
            yield rest
            for less in _less(inner):
                yield {**rest, name: less}
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield value[:index] + value[index + 1 :]
            for less in _less(inner):
                yield [*value[:index], less, *value[index + 1 :]]
    elif isinstance(value, str) and len(value) > 1:
        yield value[0]
