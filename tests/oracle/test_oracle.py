"""Our client and the official SDK come to the same, case by case, but for what is listed."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from typing import Optional

import pytest

pytest.importorskip("agenthooksprotocol", reason="the official SDK needs Python 3.11 or later")

from oracle.cases import GRANTS, Case
from oracle.differences import judge
from oracle.drawn import cases, chains, faulty
from oracle.ours import ours
from oracle.responses import REFUSABLE
from oracle.running import Tally, compare, draw_cases
from oracle.verdicts import Verdict

#: How many cases there are: for each effect at each event, of answers with something wrong at each
#: event, and of any kind. About 1,000 in all, and 20,000 at night.
EFFECT, REFUSED, MIXED, CHAINS, FAULTY = 5, 12, 180, 200, 60


def _compare_event(event: str, times: int = 1, seed: Optional[int] = None) -> None:
    for effect in (*GRANTS[event].effects, "message"):
        tally = Tally()
        compare(cases(event, effect), EFFECT * times, tally, seed)
        assert tally.effects[effect], f"no answer with {effect} was accepted\n{tally}"
    tally = Tally()
    compare(cases(event, REFUSABLE), REFUSED * times, tally, seed)
    assert tally.refused, f"no answer was refused\n{tally}"


@pytest.mark.parametrize("event", GRANTS)
def test_each_event(event: str) -> None:
    """What a backend answers is accepted by both or neither, and settles the same.

    Each effect that the event can have is accepted, and something is refused.
    """
    _compare_event(event)


def test_one_interceptor() -> None:
    """The same over all events, grants, selections and states; about half of it is accepted."""
    tally = Tally()
    compare(cases(), MIXED, tally)
    print(tally)
    assert 0.35 <= tally.share <= 0.85, tally
    assert len(tally.refused) >= 4, tally


def test_chains() -> None:
    """Several interceptors get the same state, in the same order, and observers the same event."""
    tally = Tally()
    compare(chains(), CHAINS, tally)
    print(tally)
    assert 0.35 <= tally.share <= 0.85, tally


def test_faults_of_the_host() -> None:
    """What one client takes from its host, the other takes, too."""
    compare(faulty(), FAULTY, Tally())


@pytest.fixture(scope="module")
def seed() -> int:
    """Another one every night; ORACLE_SEED takes the one of a failure."""
    chosen = int(os.environ.get("ORACLE_SEED") or random.SystemRandom().randrange(2**32))
    print(f"ORACLE_SEED={chosen}")
    return chosen


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("event", GRANTS)
def test_each_event_at_night(event: str, seed: int) -> None:
    """As by day, and other cases each time."""
    _compare_event(event, 20, seed)


@pytest.mark.nightly
@pytest.mark.timeout(7200)
def test_one_interceptor_at_night(seed: int) -> None:
    """As by day, and other cases each time."""
    compare(cases(), MIXED * 20, Tally(), seed)


@pytest.mark.nightly
@pytest.mark.timeout(7200)
def test_chains_at_night(seed: int) -> None:
    """As by day, and other cases each time."""
    compare(chains(), CHAINS * 20, Tally(), seed)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_faults_of_the_host_at_night(seed: int) -> None:
    """As by day, and other cases each time."""
    compare(faulty(), FAULTY * 20, Tally(), seed)


def _forgetful(case: Case) -> Verdict:
    verdict = ours(case)
    return replace(verdict, messages=verdict.messages[:1])


def test_a_difference_is_found_and_made_small() -> None:
    """A client that forgets all messages but the first fails, by a case of two messages."""

    def problem(case: Case) -> Optional[str]:
        judgement = judge(case, _forgetful, ours)
        return str(judgement) if judgement.wrong else None

    with pytest.raises(AssertionError) as failure:
        draw_cases(cases("config.change.before", "message"), 100, problem, smaller=5.0)
    told = str(failure.value)
    assert told.count('{"type": "message", "text": ""}') == 2
    assert "messages\n    ours:   ['']\n    theirs: ['', '']" in told
