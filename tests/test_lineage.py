"""Identities that stay what they are (R-EVT-03, T-09)."""

from __future__ import annotations

import copy
import json
import threading
import time
from pathlib import Path
from typing import Any, Optional

import pytest
from contents import Json, events
from hypothesis import given
from hypothesis import strategies as st

from ahp_sync.errors import InvalidEvent
from ahp_sync.protocol.lineage import Lineage, identity_problem

SCENARIOS = Path(__file__).parents[2] / "shared" / "conformance" / "catalogue-scenarios.json"
#: Refused for what it says of itself alone: an update that updates nothing (R-PAY-05).
OF_ANOTHER_RULE = "no-op-actual-task"


def tool(name: str, parent: Optional[str] = None, source: str = "urn:x") -> Json:
    event = {"id": name, "source": source, "type": "tool.before", "tool": {"name": "x"}}
    return event if parent is None else {**event, "parentEventId": parent}


def task(
    name: str, when: str, parent: Optional[str] = None, task: str = "t", operation: str = "create"
) -> Json:
    event = {**tool(name, parent), "type": f"task.change.{when}"}
    return {**event, "task": {"id": task, "operation": operation, "change": {"a": 1}}}


def turn(name: str, *messages: Json) -> Json:
    return {**tool(name), "type": "turn.start", "items": list(messages)}


def message(name: str, *parts: str, role: str = "user") -> Json:
    content = [
        {"id": part, "kind": "text", "mediaType": "text/plain", "selection": "omit"}
        for part in parts
    ]
    return {"id": name, "role": role, "parts": content}


def accepted(lineage: Lineage, event: Json) -> bool:
    """Return whether an event is accepted; it is recorded then."""
    problem = lineage.problem(event)
    try:
        lineage.accept(event)
    except InvalidEvent as error:
        assert problem is not None and str(problem) == str(error), "two answers to one question"
        return False
    assert problem is None, "two answers to one question"
    return True


# --- events ---------------------------------------------------------------------------------------


def test_a_retry_is_the_same_event() -> None:
    """AHP-CORE-004: its identities are those of the first attempt."""
    lineage = Lineage()
    for event in (tool("a"), tool("b", "a"), task("c", "before", "b"), turn("d", message("m"))):
        lineage.accept(event)
        lineage.accept(copy.deepcopy(event))


@pytest.mark.parametrize(
    ("first", "second", "path"),
    [
        (tool("a"), tool("a", "b"), "$.parentEventId"),
        (tool("a", "b"), tool("a"), "$.parentEventId"),
        (tool("a", "b"), tool("a", "c"), "$.parentEventId"),
        (tool("a"), turn("a"), "$.id"),
        (task("a", "before"), task("a", "after"), "$.id"),
        (task("a", "before"), task("a", "before", task="u"), "$.id"),
        (task("a", "before"), task("a", "before", operation="remove"), "$.id"),
        (tool("a"), tool("b", "b"), "$.parentEventId"),
        (tool("a", "b"), tool("b", "a"), "$.parentEventId"),
        (task("a", "before"), task("b", "after", "a", task="u"), "$.task.id"),
        (task("a", "before"), task("b", "after", "a", operation="update"), "$.task.operation"),
        (task("b", "after", "a"), task("a", "before", task="u"), "$.task.id"),
        (task("b", "after", "a"), task("a", "before", operation="remove"), "$.task.operation"),
    ],
)
def test_an_event_that_contradicts_another_is_refused(first: Json, second: Json, path: str) -> None:
    """Naming the place, whichever of the two was first; and the refused one leaves no trace."""
    lineage = Lineage()
    lineage.accept(first)
    before = repr(lineage)
    for call in (lineage.check, lineage.accept):
        with pytest.raises(InvalidEvent) as caught:
            call(second)
        assert caught.value.path == path
    assert repr(lineage) == before
    lineage.accept(first)


@pytest.mark.parametrize(
    "sequence",
    [
        [tool("a", "never-sent")],
        [tool("b", "a"), tool("a")],
        [tool("a"), tool("a", "b", source="urn:y")],
        [tool("a", "b"), tool("b", "a", source="urn:y")],
        [task("a", "before"), task("b", "after", "a")],
        [task("b", "after", "a"), task("a", "before")],
        [task("a", "before"), task("b", "before", "a", task="u")],
        [task("a", "after"), task("b", "after", "a", task="u")],
        [tool("a"), task("b", "before", "a"), task("c", "after", "b"), tool("d", "a")],
    ],
)
def test_events_that_do_not_contradict_each_other(sequence: list[Json]) -> None:
    """An unknown parent, a late one, another source, a task that led to another."""
    lineage = Lineage()
    for event in sequence:
        lineage.accept(event)


def test_a_long_loop_is_found_at_its_last_link() -> None:
    """Wherever in the chain that is."""
    chain = [tool(str(index), str((index + 1) % 50)) for index in range(50)]
    for last in range(50):
        lineage = Lineage()
        for event in chain[last + 1 :] + chain[:last]:
            lineage.accept(event)
        assert not accepted(lineage, chain[last])


# --- messages and parts ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "path"),
    [
        ([message("m")], [message("m", role="tool")], "$.items[0].role"),
        ([message("m")], [message("n"), message("m", role="tool")], "$.items[1].role"),
        ([message("m", "p")], [message("n", "p")], "$.items[0].parts[0].id"),
        (
            [message("m", "p")],
            [message("n", "q"), message("n", "q", "p")],
            "$.items[1].parts[1].id",
        ),
        ([message("m", "p")], [message("n", "p", role="tool")], "$.items[0].parts[0].id"),
        ([message("m")], [message("n", "m", role="tool")], "$.items[0].parts[0].id"),
        ([message("m", "p")], [message("p", "m")], "$.items[0].parts[0].id"),
        ([message("m", "p"), message("p", "q")], [message("q", "m")], "$.items[0].parts[0].id"),
    ],
)
def test_an_id_keeps_its_role_and_its_message(
    first: list[Json], second: list[Json], path: str
) -> None:
    """R-EVT-03: from one event to the next, and inside of one."""
    lineage = Lineage()
    lineage.accept(turn("a", *first))
    before = repr(lineage)
    with pytest.raises(InvalidEvent) as caught:
        lineage.accept(turn("b", *second, message("fresh", "new")))
    assert caught.value.path == path
    assert repr(lineage) == before
    assert accepted(lineage, turn("b", message("fresh", "other", role="tool")))
    problem = identity_problem(turn("c", *first, *second))
    assert problem is not None and problem.path.startswith("$.items[")


def test_content_that_holds_itself() -> None:
    """An id of a message is none of its own parts'."""
    problem = identity_problem(turn("a", message("m", "p"), message("n", "n")))
    assert problem is not None and problem.path == "$.items[1].parts[0].id"


@pytest.mark.parametrize(
    "messages",
    [
        [message("m", "p"), message("m", "p")],
        [message("m", "p", "p"), message("m")],
        [message("m", "n"), message("n", "q")],
        [],
    ],
)
def test_an_id_may_be_repeated(messages: list[Json]) -> None:
    """In one list, too, as long as it says the same."""
    assert identity_problem(turn("a", *messages)) is None
    lineage = Lineage()
    lineage.accept(turn("a", *messages))
    lineage.accept(turn("b", *messages))


def test_the_messages_of_another_source_are_others() -> None:
    """All of it within one source."""
    lineage = Lineage()
    lineage.accept(turn("a", message("m", "p")))
    lineage.accept({**turn("a", message("m", "p", role="tool")), "source": "urn:y"})


def test_an_edited_event_is_checked_without_being_recorded() -> None:
    """T-09: what a backend makes up must not spoil the events to come."""
    lineage = Lineage()
    lineage.accept(turn("a", message("m", "p")))
    edited = turn("a", message("m", "p", role="assistant"))
    with pytest.raises(InvalidEvent):
        lineage.check(edited)
    lineage.check(turn("a", message("m", "p"), message("n", "q", role="assistant")))
    lineage.accept(turn("b", message("n", "q", role="tool")))


@given(events())
def test_an_event_that_is_of_one_piece_is_accepted(event: Json) -> None:
    """With or without a memory, in any of its slots; and what is refused is so with both."""
    event = {**event, "task": {"id": "t", "operation": "create", "change": {}}}
    lineage = Lineage()
    assert accepted(lineage, event) is (identity_problem(event) is None)


# --- equal to the official SDK --------------------------------------------------------------------


class AnyEvent:
    """Stands for the official validator: what is compared here is the lineage alone."""

    def validate(self, kind: str, value: object) -> None:
        """Take everything."""


IDS = st.sampled_from(["a", "b", "c", "d"])
MESSAGES = st.builds(
    lambda name, role, content: message(name, *content, role=role),
    IDS,
    st.sampled_from(["user", "user", "tool"]),
    st.lists(IDS, max_size=2),
)
EVENTS = (
    st.builds(tool, IDS, st.none() | IDS, st.sampled_from(["urn:x", "urn:x", "urn:y"]))
    | st.builds(
        task,
        IDS,
        st.sampled_from(["before", "after"]),
        st.none() | IDS,
        st.sampled_from(["t", "t", "u"]),
        st.sampled_from(["create", "create", "remove"]),
    )
    | st.builds(lambda name, content: turn(name, *content), IDS, st.lists(MESSAGES, max_size=3))
)


@given(st.lists(EVENTS, min_size=2, max_size=8))
def test_the_official_sdk_refuses_the_same(sequence: list[Json]) -> None:
    """Event by event, a refused one leaving no trace on either side."""
    official = pytest.importorskip("agenthooksprotocol.lineage").TaskLineage(AnyEvent())
    runtime = pytest.importorskip("agenthooksprotocol.runtime")
    lineage = Lineage()
    for event in sequence:
        try:
            official.accept(event)
            expected = True
        except runtime.ProtocolError:
            expected = False
        assert accepted(lineage, event) is expected, event


def test_the_lineage_scenarios() -> None:
    """The public ones, all in one lineage, since they build on one another."""
    if not SCENARIOS.exists():
        pytest.skip("../shared/conformance is not here")
    scenarios = [
        scenario
        for scenario in json.loads(SCENARIOS.read_text("utf-8"))["scenarios"]
        if scenario["category"] == "lineage"
    ]
    assert len(scenarios) == 13
    lineage = Lineage()
    for scenario in scenarios:
        if scenario["id"] == OF_ANOTHER_RULE:
            continue
        sent = [step["message"]["params"]["event"] for step in scenario["steps"]]
        expected = [delivery["accepted"] for delivery in scenario["expected"]["deliveries"]]
        assert [accepted(lineage, event) for event in sent] == expected, scenario["id"]


# --- bounded, shared, fast enough -----------------------------------------------------------------


@given(st.lists(EVENTS, max_size=12), st.integers(1, 4))
def test_forgetting_refuses_nothing(sequence: list[Json], limit: int) -> None:
    """What a client that forgets nothing accepts, one that forgets accepts as well."""
    whole, forgetful = Lineage(), Lineage(limit)
    for event in sequence:
        if accepted(whole, event):
            assert accepted(forgetful, event)


def test_the_least_recently_used_is_forgotten_first() -> None:
    """An event that is only somebody's parent is in use, too."""
    lineage = Lineage(3)
    for name in ("a", "b", "c"):
        lineage.accept(tool(name))
    lineage.accept(tool("a"))
    lineage.accept(tool("d", "b"))
    lineage.accept(tool("c", "a"))  # forgotten, and so free to be another
    assert not accepted(lineage, tool("b", "z"))
    for name in ("m", "n", "o", "m", "p"):
        lineage.accept(turn(f"of {name}", message(name)))
    assert not accepted(lineage, turn("x", message("m", role="tool")))
    assert accepted(lineage, turn("y", message("n", role="tool")))


def test_its_memory_is_bounded() -> None:
    """However many events there are, and however many messages one of them has."""
    lineage = Lineage(10)
    for index in range(100):
        lineage.accept(tool(f"t{index}", f"t{index - 1}"))
        lineage.accept(task(f"late{index}", "after", "parent of all"))
        lineage.accept(turn(f"e{index}", *(message(f"m{index}.{i}", f"p{i}") for i in [index])))
    many = [message(f"big{index}", f"part{index}") for index in range(100)]
    lineage.accept(turn("many", *many))
    assert repr(lineage) == "<Lineage: 10 events, 10 messages and parts>"
    assert len(lineage._children) <= 10
    assert sum(map(len, lineage._children.values())) <= 10


@pytest.mark.parametrize("limit", [0, -1])
def test_a_lineage_remembers_something(limit: int) -> None:
    """A limit of nothing is a mistake."""
    with pytest.raises(ValueError, match="at least 1"):
        Lineage(limit)


def test_of_many_threads_one_gives_an_id_its_parent() -> None:
    """Check and record are one step."""
    for _ in range(20):
        lineage, start = Lineage(), threading.Barrier(8)
        winners: list[int] = []
        threads = [
            threading.Thread(target=race, args=(lineage, start, number, winners))
            for number in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert len(winners) == 1


def race(lineage: Lineage, start: threading.Barrier, number: int, winners: list[int]) -> None:
    """Be one of those that claim the same id, each with a parent of its own."""
    start.wait(60)
    try:
        lineage.accept(tool("a", f"parent {number}"))
    except InvalidEvent:
        return
    winners.append(number)


@pytest.mark.parametrize("kind", ["content", "events"])
def test_long_chains_take_no_longer_than_others(kind: str) -> None:
    """Neither a host that links each event to the last, nor a backend that builds a tower."""
    started = time.monotonic()
    lineage = Lineage(100_000)
    if kind == "events":
        for index in range(20_000):
            lineage.accept(tool(str(index), str(index - 1)))
    else:
        tower: list[Any] = [message(str(index), str(index + 1)) for index in range(20_000)]
        for messages in (tower, tower[::-1]):
            assert identity_problem(turn("a", *messages)) is None
            lineage.accept(turn("a", *messages))
        assert not accepted(lineage, turn("b", message("20000", "0")))
    assert time.monotonic() - started < 20  # in proportion: a fraction of a second
