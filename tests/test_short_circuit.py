"""Who is told what when a chain ends early: R-OBS-01 to R-OBS-04."""

from __future__ import annotations

from typing import Any, Callable, Optional

import pytest
from answering import (
    ALLOW,
    DENY,
    INTERCEPTED,
    PAYLOADS,
    event_of,
    message,
    modify,
    note,
    returning,
    says,
    stop,
)
from inprocess import Act, Backend, fails, hangs, intercept, observe, refused

from ahp_sync import Budget, Capabilities, Client, HostState, Outcome
from ahp_sync.protocol.events import EVENTS
from ahp_sync.testing import (
    AuditLog,
    HttpBackend,
    assert_audit,
    assert_denied,
    assert_interrupted,
    assert_proceeds,
    assert_stopped,
)

Clients = Callable[..., Client]
Json = dict[str, Any]

WHOLE = Capabilities.whole()
EDIT = modify("input", "replace", {"safe": 1})


def line_up(*acts: Optional[Act], **options: Any) -> list[Backend]:
    """Return one interceptor of everything for each act."""
    return [
        Backend(act, intercept(["*"], timeout_ms=20_000, **options), id=f"com.example.n{number}")
        for number, act in enumerate(acts)
    ]


def ask(client: Client, **options: Any) -> Outcome:
    return client.dispatch("tool.before", PAYLOADS["tool.before"], event_id="e-1", **options)


def methods(*backends: Backend) -> list[list[str]]:
    return [one.methods for one in backends]


ASKED, TOLD = ["intercept"], ["observe"]
LEFT_OUT: list[str] = []


@pytest.mark.parametrize(
    "ends",
    [
        says(DENY),
        says(stop()),
        says(stop(), ALLOW, returning(1)),
        fails(refused),
        says({"type": "retry"}),
    ],
    ids=["deny", "stop", "stop and result", "failure", "refused"],
)
def test_the_uncalled_become_observers_of_the_effective_event(
    ends: Act, open_client: Clients, records: AuditLog
) -> None:
    """R-SET-08, R-OBS-01, R-OBS-02: as edited, and without an id, capabilities or a state."""
    editor, ender, first, second = line_up(says(EDIT), ends, None, None)
    outcome = ask(open_client(editor, ender, first, second, capabilities=WHOLE))
    assert not outcome.may_execute
    assert methods(editor, ender, first, second) == [ASKED, ASKED, TOLD, TOLD]
    for one in (first, second):
        (told,) = one.messages
        assert "id" not in told
        assert told["params"].keys() == {"protocolVersion", "event"}
        assert told["params"]["event"] == outcome.event
        assert told["params"]["event"]["tool"]["input"] == {"safe": 1}
    assert_audit(records, kind="not_called", code="short_circuit", count=2)


def test_whoever_was_called_gets_no_second_copy(open_client: Clients) -> None:
    """R-OBS-02: not the one that ended the chain, nor one that failed open, nor one that edited."""
    called = line_up(says(EDIT), fails(refused), says({"type": "retry"}), policy="fail-open")
    ender = Backend(says(DENY), intercept(), id="com.example.end")
    assert_denied(ask(open_client(*called, ender, capabilities=WHOLE)), "not here")
    assert methods(*called, ender) == [ASKED] * 4


def test_a_whole_chain_tells_nobody_twice(open_client: Clients) -> None:
    """Without an early end there is nobody uncalled."""
    backends = line_up(None, says(note("x")), says(EDIT))
    assert_proceeds(ask(open_client(*backends, capabilities=WHOLE)))
    assert methods(*backends) == [ASKED] * 3


def test_an_observe_subscription_of_the_same_backend_is_its_own(open_client: Clients) -> None:
    """R-OBS-03: of a called one and of an uncalled one alike; the uncalled is told of both."""
    both = Backend(says(EDIT), intercept(), observe(), id="com.example.both")
    ender = Backend(says(DENY), intercept(), observe(), id="com.example.end")
    uncalled = Backend(None, observe(), intercept(), intercept(), id="com.example.uncalled")
    ask(open_client(both, ender, uncalled, capabilities=WHOLE))
    assert methods(both, ender, uncalled) == [
        ["intercept", "observe"],
        ["intercept", "observe"],
        ["observe", "observe", "observe"],
    ]


def test_a_downgraded_interceptor_sees_no_more_than_it_would_have(open_client: Clients) -> None:
    """R-OBS-03: it keeps its own content selection and ``includeNative``."""
    ender = Backend(says(DENY), intercept(["turn.start"]), id="com.example.end")
    blind = Backend(
        None, intercept(["turn.start"], content={"default": "omit"}), id="com.example.blind"
    )
    native = Backend(None, intercept(["turn.start"], includeNative=True), id="com.example.native")
    client = open_client(ender, blind, native, capabilities=WHOLE)
    client.dispatch("turn.start", PAYLOADS["turn.start"], native={"raw": 1})
    assert methods(blind, native) == [TOLD, TOLD]
    assert b"Hello" not in blind.bodies[0]
    assert b"raw" not in blind.bodies[0]
    assert native.events[0]["native"] == {"raw": 1}
    assert native.events[0]["items"] == PAYLOADS["turn.start"]["items"]


@pytest.mark.parametrize("seed", [HostState("deny"), HostState(flow="stop")])
def test_a_chain_that_never_began_tells_all(seed: HostState, open_client: Clients) -> None:
    """R-CAP-05, R-OBS-02: the host had settled it before anybody was asked."""
    backends = line_up(says(EDIT), says(ALLOW))
    outcome = ask(open_client(*backends, capabilities=WHOLE), state=seed)
    assert methods(*backends) == [TOLD, TOLD]
    assert outcome.input == {"command": "ls"}


@pytest.mark.parametrize("policy", ["fail-open", "fail-closed"])
def test_after_an_interruption_nobody_is_told(
    policy: str, open_client: Clients, records: AuditLog
) -> None:
    """R-OBS-04: neither the uncalled nor the observers, and the record says why."""
    budget = Budget(30)

    def cancels(backend: Backend, received: Json, own: Budget) -> Optional[bytes]:
        budget.cancel()
        return hangs(backend, received, own)

    first, second = line_up(cancels, None, policy=policy)
    observer = Backend(None, observe(), id="com.example.o")
    outcome = ask(open_client(first, second, observer, capabilities=WHOLE), budget=budget)
    assert_interrupted(outcome)
    assert methods(first, second, observer) == [ASKED, LEFT_OUT, LEFT_OUT]
    assert_audit(records, kind="not_called", code="interrupted", count=1)
    assert_audit(records, kind="observation_failed", count=1)


def test_an_interruption_behind_an_early_end_tells_nobody_either(open_client: Clients) -> None:
    """R-OBS-04: the denial stands, and is told to nobody."""
    budget = Budget(30)

    class Cancelling:
        def write(self, record: object) -> None:
            budget.cancel()

    first, second = line_up(says(DENY), None)
    client = open_client(first, second, capabilities=WHOLE, audit=Cancelling())
    assert_denied(ask(client, budget=budget), "not here")
    assert methods(first, second) == [ASKED, LEFT_OUT]


@pytest.mark.parametrize(
    "event_type",
    [name for name in INTERCEPTED if "deny" in EVENTS[name].effects or EVENTS[name].flow],
)
def test_every_event_that_can_be_ended_is_ended(event_type: str, open_client: Clients) -> None:
    """The same at each of them: the next one is told and not asked."""
    ends = DENY if "deny" in EVENTS[event_type].effects else stop()
    first, second = line_up(says(ends), None)
    client = open_client(first, second, capabilities=WHOLE)
    outcome = client.dispatch(event_type, PAYLOADS[event_type])
    (assert_denied if ends is DENY else assert_stopped)(outcome)
    assert methods(first, second) == [ASKED, TOLD]


def test_over_the_network(ahp_http_backend: Callable[..., HttpBackend]) -> None:
    """Two servers: one denies after an edit of the first, and the uncalled one is notified."""
    from ahp_sync import Harness

    editor, ender, last = (
        ahp_http_backend([[EDIT]]),
        ahp_http_backend(DENY),
        ahp_http_backend("ok"),
    )
    document = editor.registration(timeout_ms=20_000)
    for number, one in enumerate((ender, last)):
        document["hooks"].append(one.entry(id=f"com.example.n{number}", timeout_ms=20_000))
    with Client(
        document, source="urn:x:y", harness=Harness("t", "1"), capabilities=WHOLE
    ) as client:
        assert_denied(ask(client), "not here")
    (told,) = last.requests
    assert told.message["method"] == "hooks/observe"
    assert told.rpc_id is None
    assert told.event["tool"]["input"] == {"safe": 1}


def test_the_uncalled_and_the_observers_see_an_appended_message(open_client: Clients) -> None:
    """R-OBS-01: accepted content only, and all of it."""
    more = message("m-9", "more")
    writer, ender, uncalled = line_up(
        says(modify("prompt", "merge", [more])), says(modify("prompt", "merge", [more]), DENY), None
    )
    client = open_client(writer, ender, uncalled, capabilities=WHOLE)
    client.dispatch("turn.start", PAYLOADS["turn.start"])
    assert uncalled.events[0]["items"] == [*event_of("turn.start")["items"], more, more]
