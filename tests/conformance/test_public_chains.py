"""``observation-chain-scenarios.json``: who is asked, who is told, after what."""

from __future__ import annotations

from playing_chains import play_chain, with_carried_state, with_omitted_parts
from public_data import Case, chains, every, need_data
from wires import Wire

need_data()

KNOWN = {"omitted-part-stays": with_omitted_parts, "state-is-carried": with_carried_state}


@every(chains())
def test_the_chain_runs_as_published(case: Case, transport: str, wire: Wire) -> None:
    """Asked, told and failed are the published subscriptions, and every message is the proof's."""
    play_chain(case, wire, KNOWN)


def test_every_chain_is_there() -> None:
    """A data set that lost its cases would pass in silence."""
    assert len(list(chains())) == 9
