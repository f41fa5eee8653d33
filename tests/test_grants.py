"""What may be granted at an event, and how a grant is narrowed (R-CAP-01)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Optional

import pytest
from answering import INTERCEPTED
from hypothesis import given
from hypothesis import strategies as st

from ahp_sync import Elicitation, Flow, Grant, Inject, Modify
from ahp_sync.protocol.events import EVENTS
from ahp_sync.protocol.validation import capabilities_problem

PLAIN = ("deny", "allow", "ask", "return", "message")

# --- what makes no sense --------------------------------------------------------------------------


CONTINUES = ("continue",)


@pytest.mark.parametrize(
    ("kind", "options", "error", "said"),
    [
        (Modify, {"replace": False, "merge": False}, ValueError, "needs replace or merge"),
        (Modify, {"replace": 1}, TypeError, "replace must be True or False, not 1"),
        (Modify, {"merge": None}, TypeError, "merge must be True or False"),
        (Flow, {"operations": ()}, ValueError, "flow operations must not be empty"),
        (Flow, {"operations": "stop"}, TypeError, "flow operations must be a collection"),
        (Flow, {"operations": 5}, TypeError, "flow operations must be a collection"),
        (Flow, {"operations": ("pause",)}, ValueError, "of stop, continue, not 'pause'"),
        (Flow, {"operations": ("stop", "stop")}, ValueError, "names something twice"),
        (Flow, {"operations": CONTINUES}, ValueError, "needs max_continuations"),
        (Flow, {"max_continuations": -1}, ValueError, "max_continuations must not be negative"),
        (Flow, {"max_continuations": 1.0}, TypeError, "max_continuations must be an integer"),
        (Flow, {"max_continuations": True}, TypeError, "max_continuations must be an integer"),
        (Flow, {"continuation_count": "1"}, TypeError, "continuation_count must be an integer"),
        (Flow, {"remaining_continuations": -1}, ValueError, "remaining_continuations must not"),
        (Inject, {"deliver_at": ()}, ValueError, "deliver_at must not be empty"),
        (Inject, {"deliver_at": "now"}, TypeError, "deliver_at must be a collection"),
        (Inject, {"deliver_at": ("later",)}, ValueError, "of now, next_turn, not 'later'"),
        (Elicitation, {"form": "yes"}, TypeError, "form must be True or False"),
        (Elicitation, {"url": 0}, TypeError, "url must be True or False"),
        (Grant, {"effects": "deny"}, TypeError, "effects must be a collection"),
        (Grant, {"effects": ("retry",)}, ValueError, "not 'retry'"),
        (Grant, {"effects": ("com.example.vendor",)}, ValueError, "not 'com.example.vendor'"),
        (Grant, {"effects": ("modify",)}, ValueError, "not 'modify'"),
        (Grant, {"effects": ("deny", "deny")}, ValueError, "names something twice"),
        (Grant, {"modify": True}, TypeError, "modify must be of type Modify"),
        (Grant, {"flow": ("stop",)}, TypeError, "flow must be of type Flow"),
        (Grant, {"inject": {}}, TypeError, "inject must be of type Inject"),
        (Grant, {"elicitation": Inject()}, TypeError, "elicitation must be of type Elicitation"),
        (Grant.whole, {"event_type": "tool.befor"}, ValueError, "there is no event 'tool.befor'"),
        (Grant.whole, {"event_type": "turn.end"}, ValueError, "turn.end can only be observed"),
    ],
)
def test_what_the_protocol_does_not_know_is_refused(
    kind: Any, options: dict[str, Any], error: type[Exception], said: str
) -> None:
    """At once, and the message names the value."""
    with pytest.raises(error, match=said):
        kind(**options)


def test_any_collection_will_do() -> None:
    """A list, a set or a generator; what is kept is a tuple, so a grant can be a key."""
    assert Grant(["deny"]) == Grant({"deny"}) == Grant(name for name in ["deny"])  # type: ignore[arg-type]
    assert len({Grant(["deny"]), Grant(("deny",))}) == 1  # type: ignore[arg-type]


@pytest.mark.parametrize("event_type", INTERCEPTED)
def test_an_event_can_be_granted_what_the_table_has_and_no_more(event_type: str) -> None:
    """Section 4: each effect, each flow operation, one by one."""
    event = EVENTS[event_type]
    singles: dict[str, Grant] = {name: Grant((name,)) for name in PLAIN}
    singles["modify"] = Grant(modify=Modify())
    singles["inject"] = Grant(inject=Inject())
    for name, grant in singles.items():
        assert _granted(grant, event_type) is (name in (*event.effects, "message")), name
    for operation in ("stop", "continue"):
        grant = Grant(flow=Flow((operation,), max_continuations=1))
        assert _granted(grant, event_type) is (operation in event.flow), operation
    assert _granted(Grant(), event_type)
    assert _granted(Grant.whole(event_type), event_type)


def _granted(grant: Grant, event_type: str) -> bool:
    try:
        grant.check(event_type)
    except ValueError as error:
        assert event_type in str(error)
        return False
    return True


# --- on the wire ----------------------------------------------------------------------------------

FLOWS = st.builds(
    Flow,
    st.sampled_from([("stop",), ("continue",), ("stop", "continue"), ("continue", "stop")]),
    st.integers(0, 4),
    st.none() | st.integers(0, 4),
    st.none() | st.integers(0, 4),
)
GRANTS = st.builds(
    Grant,
    st.lists(st.sampled_from(PLAIN), unique=True),
    st.none() | st.sampled_from([Modify(), Modify(merge=False), Modify(replace=False)]),
    st.none() | FLOWS,
    st.none() | st.sampled_from([Inject(), Inject(("now",)), Inject(("next_turn",))]),
    st.none() | st.builds(Elicitation, st.booleans(), st.booleans()),
)


@given(st.sampled_from(INTERCEPTED), GRANTS)
def test_what_is_granted_is_valid_on_the_wire(event_type: str, grant: Grant) -> None:
    """R-CAP-01: whatever passes for the event is ``params.capabilities`` by its schema."""
    if _granted(grant, event_type):
        assert capabilities_problem(event_type, grant.to_json(event_type)) is None


def test_each_block_is_there_exactly_with_its_effect() -> None:
    """Section 7: the details go with the name in ``effects``, and neither stands alone."""
    assert Grant().to_json("tool.before") == {"effects": []}
    grant = Grant(("deny",), Modify(merge=False), Flow(), Inject(("now",)))
    assert grant.to_json("tool.before") == {
        "effects": ["deny", "modify", "flow", "inject"],
        "modify": {"input": {"replace": True, "merge": False}},
        "flow": {"operations": ["stop"]},
        "inject": {"context": {"append": True, "deliverAt": ["now"]}},
    }
    assert Grant(elicitation=Elicitation(False, False)).to_json("user.elicitation.request") == {
        "effects": [],
        "elicitation": {},
    }


@pytest.mark.parametrize(
    ("flow", "block"),
    [
        (Flow(), {"operations": ["stop"]}),
        (
            Flow(("stop", "continue"), 3),
            {
                "operations": ["stop", "continue"],
                "maxContinuations": 3,
                "continuationCount": 0,
                "remainingContinuations": 3,
            },
        ),
        (
            Flow(("continue",), 3, 2),
            {
                "operations": ["continue"],
                "maxContinuations": 3,
                "continuationCount": 2,
                "remainingContinuations": 1,
            },
        ),
        (
            Flow(("continue",), 3, 7),
            {
                "operations": ["continue"],
                "maxContinuations": 3,
                "continuationCount": 7,
                "remainingContinuations": 0,
            },
        ),
        (
            Flow(("continue",), remaining_continuations=4),
            {"operations": ["continue"], "continuationCount": 0, "remainingContinuations": 4},
        ),
    ],
)
def test_continuations_are_counted(flow: Flow, block: dict[str, Any]) -> None:
    """R-CAP-03: what is left is the difference, where it is not said outright; never negative."""
    assert flow.to_json() == block


# --- narrowing ------------------------------------------------------------------------------------


def wider(mine: Mapping[str, Any], declared: Mapping[str, Any]) -> Optional[str]:
    """Return where the block ``mine`` allows what ``declared`` does not, by the wire alone."""
    for name, value in mine.items():
        if name in ("continuationCount", "append"):
            continue  # the count is a fact and no limit (T-13)
        if name not in declared:
            if name in ("maxContinuations", "remainingContinuations"):
                continue  # whether that matters is told by the operations
            return name
        other = declared[name]
        if isinstance(value, Mapping):
            found = wider(value, other)
            if found is not None:
                return f"{name}.{found}"
        elif isinstance(value, list):
            if not set(value) <= set(other):
                return name
        elif "continue" in mine.get("operations", ["continue"]) and value > other:
            return name
    return None


@given(st.sampled_from(INTERCEPTED), GRANTS, GRANTS)
def test_narrowing_never_widens(event_type: str, mine: Grant, declared: Grant) -> None:
    """R-CAP-01: subsets of names, true to false only, numbers not above the declared ones."""
    if mine.narrows(declared):
        assert set(mine.names) <= set(declared.names)
        assert wider(mine.to_json(event_type), declared.to_json(event_type)) is None


@given(FLOWS, FLOWS)
def test_a_flow_is_narrowed_exactly_if_nothing_of_it_is_wider(mine: Flow, declared: Flow) -> None:
    """R-CAP-01: by itself, since whole grants that narrow one another are rare at random."""
    assert mine.narrows(declared) is (wider(mine.to_json(), declared.to_json()) is None)


@given(GRANTS, GRANTS, GRANTS)
def test_narrowing_is_an_order(one: Grant, two: Grant, three: Grant) -> None:
    """Every grant narrows itself; what narrows something narrower narrows the wider as well."""
    assert one.narrows(one)
    assert Grant().narrows(one)
    if one.narrows(two) and two.narrows(three):
        assert set(one.names) <= set(three.names)


@given(st.sampled_from(INTERCEPTED), GRANTS)
def test_the_whole_is_the_widest(event_type: str, grant: Grant) -> None:
    """What an event can be granted at all narrows everything that it can be granted."""
    if _granted(grant, event_type):
        whole = Grant.whole(event_type, max_continuations=9)
        without_modes = Grant(grant.effects, grant.modify, grant.flow, grant.inject)
        assert without_modes.narrows(whole)
        whole.check(event_type)


def test_the_count_is_no_limit() -> None:
    """T-13: a counter above the declared one widens nothing."""
    declared = Flow(("continue",), 3, continuation_count=0)
    assert Flow(("continue",), 3, continuation_count=2).narrows(declared)
    assert not Flow(("continue",), 4, continuation_count=4).narrows(declared)
    assert Flow(("stop",)).narrows(Flow(("stop", "continue"), 1))
    assert not Flow(("stop", "continue"), 1).narrows(Flow(("stop",)))
