"""Calls of a client whose backends say themselves what they subscribe to."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from typing import Any, Callable

import pytest
from asked import Asked, answers, subscribes, wants
from inprocess import (
    GENEROUS,
    SLACK,
    Backend,
    deny,
    fails,
    hangs,
    intercept,
    observe,
    refused,
    stuck,
)

from ahp_sync import (
    GENERIC_REASON,
    AuditKind,
    Budget,
    Client,
    ClientClosed,
    Decision,
    FailurePolicy,
    Outcome,
)
from ahp_sync.testing.audit_log import AuditLog

OpenClient = Callable[..., Client]


def ask(client: Client, **more: Any) -> Outcome:
    """Ask about a call."""
    return client.tool_before(name="Bash", input={}, **more)


def test_the_first_call_asks_and_is_decided_by_the_answer(open_client: OpenClient) -> None:
    """A discovered interceptor decides like a registered one, from the first call on."""
    backend = Asked(subscribes(wants(), observe(["tool.after"])), deny("not this"))
    client = open_client(backend)
    for _ in range(2):
        outcome = ask(client)
        assert (outcome.decision, outcome.reason) == (Decision.DENY, "not this")
        assert not outcome.synthetic
    client.tool_after(name="Bash", input={})
    assert backend.methods == ["configuration", "intercept", "intercept", "observe"]
    assert client.configuration_diagnostics == ()


def test_entering_asks(open_client: OpenClient) -> None:
    """``with`` waits for the answers, so that no call has to."""
    backend, missing = Asked(), Asked(fails(refused), id="com.example.missing")
    client = open_client(backend, missing)
    assert client.configuration_diagnostics == ()
    with client:
        assert backend.methods == ["configuration"]
        (diagnostic,) = client.configuration_diagnostics
        assert diagnostic.backend == missing.id
        assert diagnostic.reason == "configuration_unavailable"
        assert ask(client).may_execute
    with pytest.raises(ClientClosed):
        ask(client)
    assert (backend.times_asked, missing.times_asked) == (1, 1)


def test_a_closed_client_asks_nobody(open_client: OpenClient) -> None:
    """Neither when it is entered nor when it is called."""
    backend = Asked()
    client = open_client(backend)
    client.close()
    for use in (client.__enter__, lambda: ask(client)):
        with pytest.raises(ClientClosed):
            use()
    assert backend.messages == []


def test_an_interrupt_while_entering_closes_the_client(open_client: OpenClient) -> None:
    """Nobody else would: Python calls no ``__exit__`` then."""

    def handler(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    client = open_client(Asked(hangs))
    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        with pytest.raises(KeyboardInterrupt), client:
            pytest.fail("it was entered")
    finally:
        signal.signal(signal.SIGALRM, before)
    assert client.closed


@pytest.mark.parametrize("end", ["expiry", "cancellation", "closing"])
def test_a_call_that_ends_while_it_waits_is_not_permitted(
    end: str, open_client: OpenClient, records: AuditLog
) -> None:
    """Whatever the policies of the backends that are known say; those are not called."""
    known = Backend(None, intercept(policy="fail-open"), id="com.example.known")
    unknown = Asked(hangs)
    client = open_client(known, unknown)
    budget = Budget(0.1 if end == "expiry" else GENEROUS)
    outcomes: list[Outcome] = []
    call = threading.Thread(target=lambda: outcomes.append(ask(client, budget=budget)))
    started = time.monotonic()
    call.start()
    assert unknown.started.wait(GENEROUS)
    if end == "cancellation":
        budget.cancel()
    if end == "closing":
        client.close()
    call.join(GENEROUS)
    assert time.monotonic() - started < 0.1 + 2 * SLACK
    (outcome,) = outcomes
    assert outcome.decision is (Decision.EXPIRED if end == "expiry" else Decision.INTERRUPTED)
    assert not outcome.may_execute
    assert known.messages == []
    assert [record.kind for record in records] == [AuditKind.NOT_CALLED]
    assert client.configuration_diagnostics == ()


def test_telling_waits_for_the_answers_too(open_client: OpenClient) -> None:
    """An observer may be among them; and a call that ends before says so."""
    slow = Asked(subscribes(observe(["session.end"])))
    client = open_client(slow)
    client.session_end(session="s")
    assert slow.methods == ["configuration", "observe"]
    hanging = open_client(Asked(hangs))
    outcome = hanging.session_end(session="s", budget=Budget(0.05))
    assert outcome.decision is Decision.EXPIRED


# --- required backends (T-12) ---------------------------------------------------------------------


def test_a_missing_backend_decides_nothing(open_client: OpenClient) -> None:
    """By default: it is as if it had not been registered, and diagnostics say so."""
    client = open_client(Asked(fails(refused)))
    assert ask(client).may_execute
    assert len(client.configuration_diagnostics) == 1


@pytest.mark.parametrize("required", [True, ["com.example.asked"], {"com.example.asked": 1}])
@pytest.mark.parametrize(
    ("says", "code"),
    [
        (fails(refused), "configuration_unavailable"),
        (answers({}), "configuration_unavailable"),
        (subscribes(wants(events=["unknown.*"])), "no_applicable_subscriptions"),
    ],
)
def test_without_a_required_backend_nothing_is_permitted(
    says: Any, code: str, required: Any, open_client: OpenClient, records: AuditLog
) -> None:
    """Each call is denied as if it had failed closed, and told apart from a denial of its own."""
    told = Backend(None, observe(["tool.before"]), id="com.example.told")
    client = open_client(Asked(says), told, require_configuration=required)
    for _ in range(2):
        outcome = ask(client)
        assert (outcome.decision, outcome.synthetic) == (Decision.DENY, True)
        assert outcome.reason == GENERIC_REASON
        (failure,) = outcome.failures
        assert (failure.backend, failure.subscription) == ("com.example.asked", -1)
        assert (failure.policy, failure.code) == (FailurePolicy.FAIL_CLOSED, code)
    assert {record.kind for record in records} == {AuditKind.SYNTHETIC_DENIAL}
    assert told.methods == ["observe", "observe"]
    (diagnostic,) = client.configuration_diagnostics
    assert diagnostic.reason == code


def test_a_required_backend_that_is_not_approved_of_is_missing(open_client: OpenClient) -> None:
    """The host's own no to its configuration is no permission to go without it."""
    client = open_client(
        Asked(), authorize_configuration=lambda *_: False, require_configuration=True
    )
    assert ask(client).synthetic
    (diagnostic,) = client.configuration_diagnostics
    assert diagnostic.reason == "configuration_not_authorized"


def test_observation_goes_on_without_a_required_backend(open_client: OpenClient) -> None:
    """What nobody may decide about is not denied, and others are told."""
    told = Backend(None, observe(["session.end"]), id="com.example.told")
    client = open_client(Asked(fails(refused)), told, require_configuration=True)
    assert client.session_end(session="s").failures == ()
    assert told.methods == ["observe"]


def test_other_backends_need_not_be_required(open_client: OpenClient) -> None:
    """The option names which; with registered subscriptions there is nothing to require."""
    backends = Asked(fails(refused)), Backend(id="com.example.known")
    client = open_client(*backends, require_configuration=["com.example.known"])
    assert ask(client).may_execute


@pytest.mark.parametrize(
    ("option", "value", "error"),
    [
        ("require_configuration", "com.example.asked", TypeError),
        ("require_configuration", 1, TypeError),
        ("require_configuration", None, TypeError),
        ("require_configuration", ["com.example.nobody"], ValueError),
        ("authorize_configuration", True, TypeError),
    ],
)
def test_options_that_make_no_sense(
    option: str, value: Any, error: type[Exception], open_client: OpenClient
) -> None:
    """They are refused at construction, before anything is asked."""
    backend = Asked()
    with pytest.raises(error, match=option):
        open_client(backend, **{option: value})
    assert backend.messages == []


# --- forks ----------------------------------------------------------------------------------------


def forked(work: Callable[[], bool]) -> bool:
    """Return what ``work`` returns in a forked child; False if it hangs or raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads and forks are the point
        pid = os.fork()
    if pid == 0:
        status = 1
        try:
            signal.alarm(int(GENEROUS))
            status = 0 if work() else 1
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.mark.parametrize("when", ["before", "while", "after"])
def test_a_child_asks_anew(when: str, open_client: OpenClient) -> None:
    """However far its parent was; what the parent learnt or waits for is the parent's."""
    backend = Asked(stuck if when == "while" else None, deny("no"))
    client = open_client(backend)
    waiting = threading.Thread(target=lambda: ask(client, budget=Budget(GENEROUS)), daemon=True)
    if when == "while":
        waiting.start()
        assert backend.started.wait(GENEROUS)
    elif when == "after":
        ask(client)

    def child() -> bool:
        backend.says = subscribes(wants())
        asked_before = backend.times_asked
        denied = ask(client).decision is Decision.DENY
        return denied and backend.times_asked == asked_before + 1

    assert forked(child)
    backend.released.set()
    if when == "while":
        waiting.join(GENEROUS)
