"""``lifecycle-scenarios.json``: cancelled, late and repeated, and who hears of it.

Not applicable, and so neither passed nor failed, is what needs attachments' bytes to be sent, and a
schedule that its data keeps for another transport.
"""

from __future__ import annotations

import pytest
from playing import check_published
from playing_chains import play_chain, with_carried_state, with_omitted_parts
from playing_schedules import Schedule, with_failing_foreign_lines
from public_data import Case, every, lifecycles, need_data
from wires import Wire

need_data()

CHAINS = {"omitted-part-stays": with_omitted_parts, "state-is-carried": with_carried_state}
SCHEDULES = {"foreign-line-fails-the-call": with_failing_foreign_lines}
UPLOADS = "uploads on their own, apart from an event that shows them, which this client never makes"


@every(lifecycles())
def test_the_schedule_ends_as_published(case: Case, transport: str, wire: Wire) -> None:
    """What is published, ignored and observed is what the data says, and the next call is sound."""
    if "upload" in case.tags:
        pytest.skip(UPLOADS)
    if transport not in case.data.get("transports", [transport]):
        only = " and ".join(case.data["transports"])
        pytest.skip(f"for {only} only: {case.data.get('inapplicableReason', 'so the data says')}")
    if "chain" in case.tags:
        play_chain(case, wire, CHAINS)
        return
    with Schedule(case.data, wire) as schedule:
        schedule.play()
        check_published(lambda data: schedule.check(data["expected"]), case.data, SCHEDULES)


def test_every_schedule_is_there() -> None:
    """A data set that lost its cases would pass in silence."""
    cases = list(lifecycles())
    assert len(cases) == 30
    assert sum("upload" in case.tags for case in cases) == 6
