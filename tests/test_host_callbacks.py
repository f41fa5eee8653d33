"""The host's own say: ``authorize``, ``approve`` and codecs (R-SET-13, R-ADM-04)."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, NoReturn, Optional

import pytest
from answering import (
    ALLOW,
    ASK,
    DENY,
    INTERCEPTED,
    PAYLOADS,
    message,
    modify,
    note,
    part,
    returning,
    says,
    stop,
)
from clock import Clock
from inprocess import GENEROUS, SLACK, Act, Backend, deny, fails, intercept, observe, refused
from watching import eventually, statistics, timed, workers_are_free

from ahp_sync import (
    Budget,
    Candidate,
    Capabilities,
    Client,
    ClientClosed,
    Decision,
    HostState,
    InvalidEvent,
    Outcome,
    Proposal,
)
from ahp_sync.budget import BudgetEnded
from ahp_sync.failure import FailureClass, OperationalFailure
from ahp_sync.protocol.events import EVENTS
from ahp_sync.testing import (
    AuditLog,
    HttpBackend,
    assert_asks,
    assert_audit,
    assert_denied,
    assert_expired,
    assert_failed_open,
    assert_interrupted,
    assert_proceeds,
    assert_stopped,
    assert_supplied,
    assert_synthetic_denial,
)

Clients = Callable[..., Client]
Json = dict[str, Any]
Answer = Optional[bool]

WHOLE = Capabilities.whole()
REFUSED = "The host's own policy does not permit this."


def ask(client: Client, event_type: str = "tool.before", **options: Any) -> Outcome:
    return client.dispatch(event_type, PAYLOADS[event_type], **options)


def backend_that(*effects: Json, **options: Any) -> Backend:
    return Backend(says(*effects), intercept(["*"], timeout_ms=20_000, **options))


class Asked:
    """A callback that answers as told and keeps what it was asked about."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.proposals: list[Proposal] = []
        self.threads: list[threading.Thread] = []

    def __call__(self, proposal: Proposal) -> Any:
        self.proposals.append(proposal)
        self.threads.append(threading.current_thread())
        return self.answers[min(len(self.proposals), len(self.answers)) - 1]


# --- who is asked, and what the answer makes of it ------------------------------------------------


@pytest.mark.parametrize(
    ("effects", "authorized", "approved", "check"),
    [
        # access policy gates everything, and no allow passes it by (R-SET-13)
        ([], True, None, assert_asks),
        ([], True, True, assert_proceeds),
        ([], False, True, lambda outcome: assert_denied(outcome, REFUSED)),
        ([], None, True, assert_asks),
        ([ALLOW], False, True, lambda outcome: assert_denied(outcome, REFUSED)),
        ([ALLOW], None, True, assert_asks),
        ([ALLOW], True, False, assert_proceeds),  # an allow spares the prompt
        ([ASK], True, True, assert_proceeds),
        ([ASK], True, False, lambda outcome: assert_denied(outcome, REFUSED)),
        ([ASK], True, None, assert_asks),
        ([ASK], False, True, lambda outcome: assert_denied(outcome, REFUSED)),
        # and so it is with a supplied result
        ([returning(7), ALLOW], True, False, lambda outcome: assert_supplied(outcome, 7)),
        ([returning(7), ALLOW], False, True, lambda outcome: assert_denied(outcome, REFUSED)),
        ([returning(7)], True, True, lambda outcome: assert_supplied(outcome, 7)),
        ([returning(7)], True, False, lambda outcome: assert_denied(outcome, REFUSED)),
        ([returning(7)], True, None, assert_asks),
        ([returning(7), ASK], True, True, lambda outcome: assert_supplied(outcome, 7)),
    ],
)
def test_the_host_has_the_last_word(
    effects: list[Json],
    authorized: Answer,
    approved: Answer,
    check: Callable[[Outcome], object],
    open_client: Clients,
) -> None:
    """R-ROLE-01, R-SET-13, R-SET-09: authorize first, approve only where no backend allowed."""
    authorize, approve = Asked(authorized), Asked(approved)
    client = open_client(
        backend_that(*effects), capabilities=WHOLE, authorize=authorize, approve=approve
    )
    outcome = ask(client)
    check(outcome)
    assert len(authorize.proposals) == 1
    assert len(approve.proposals) == (
        authorized is True and effects != [ALLOW] and ALLOW not in effects
    )
    assert outcome.has_result is (outcome.decision is Decision.SUPPLIED)


# A result for each event that can be supplied one.
RESULTS: Json = {
    "tool.before": 7,
    "model.request.before": [message("m-9", "Hi.", role="assistant")],
    "context.compact.before": [part("p-9", "They said hello.")],
    "user.elicitation.request": {"action": "decline"},
}
YES, NO = (lambda _: True), (lambda _: False)


def check_waiting(outcome: Outcome, value: Any, decision: Decision) -> None:
    assert outcome.decision is decision
    assert outcome.candidate == Candidate(value)
    assert outcome.has_result is (decision is Decision.SUPPLIED)
    assert not outcome.may_execute


@pytest.mark.parametrize("event_type", RESULTS)
@pytest.mark.parametrize(
    ("options", "decision"),
    [
        ({}, Decision.ASK),
        ({"authorize": YES}, Decision.SUPPLIED),
        ({"approve": YES}, Decision.SUPPLIED),
        ({"approve": NO}, Decision.DENY),
        ({"approve": lambda _: None}, Decision.ASK),
    ],
)
def test_a_supplied_result_waits_until_somebody_says_yes(
    event_type: str, options: Json, decision: Decision, open_client: Clients
) -> None:
    """R-SET-09, T-05: it is withheld until the host approves, where no backend allowed it."""
    value = RESULTS[event_type]
    client = open_client(backend_that(returning(value)), capabilities=WHOLE, **options)
    check_waiting(ask(client, event_type), value, decision)


@pytest.mark.parametrize(
    ("effect", "options", "decision"),
    [
        (ALLOW, {}, Decision.SUPPLIED),
        (ALLOW, {"approve": NO}, Decision.SUPPLIED),
        (ALLOW, {"authorize": NO}, Decision.DENY),
        (ASK, {}, Decision.ASK),
        (ASK, {"authorize": YES}, Decision.ASK),
        (ASK, {"approve": YES}, Decision.SUPPLIED),
        (ASK, {"approve": NO}, Decision.DENY),
    ],
)
def test_a_result_beside_a_permission(
    effect: Json, options: Json, decision: Decision, open_client: Clients
) -> None:
    """R-SET-09, R-SET-13: ``allow`` delivers it, and ``ask`` waits for the prompt."""
    client = open_client(backend_that(returning(7), effect), capabilities=WHOLE, **options)
    check_waiting(ask(client), 7, decision)


def test_a_result_of_the_hosts_own_waits_too(open_client: Clients) -> None:
    """R-CAP-05, R-SET-09: it is deliverable with the host's own ``allow``."""
    client = open_client(backend_that(), capabilities=WHOLE)
    assert_asks(ask(client, state=HostState(candidate=Candidate(1))))
    assert_supplied(ask(client, state=HostState("allow", Candidate(1))), 1)


@pytest.mark.parametrize(
    ("effects", "check"),
    [([], assert_proceeds), ([ALLOW], assert_proceeds), ([ASK], assert_asks)],
)
def test_without_a_prompt_only_an_ask_waits(
    effects: list[Json], check: Callable[[Outcome], object], open_client: Clients
) -> None:
    """What nobody objects to goes on; an ``ask`` is left to the host."""
    check(ask(open_client(backend_that(*effects), capabilities=WHOLE)))


@pytest.mark.parametrize(
    ("act", "check"),
    [
        (says(DENY), assert_denied),
        (says(stop(), ALLOW), assert_stopped),
        (fails(refused), assert_synthetic_denial),
    ],
    ids=["deny", "stop", "fail-closed"],
)
def test_the_host_is_not_asked_about_what_is_decided(
    act: Act, check: Callable[[Outcome], object], open_client: Clients
) -> None:
    """AHP only restricts: nothing that the host says undoes a denial."""
    callback = Asked(True)
    client = open_client(Backend(act), capabilities=WHOLE, authorize=callback, approve=callback)
    check(ask(client))
    assert callback.proposals == []


def test_a_failure_that_was_let_pass_is_asked_about(open_client: Clients) -> None:
    """Fail-open is no permission of the host's."""
    callback = Asked(False)
    backend = Backend(fails(refused), intercept(policy="fail-open"))
    outcome = ask(open_client(backend, capabilities=WHOLE, authorize=callback))
    assert_denied(outcome, REFUSED)
    assert outcome.failed_open


@pytest.mark.parametrize("event_type", INTERCEPTED)
def test_authorize_is_asked_at_every_event_that_can_be_denied(
    event_type: str, open_client: Clients
) -> None:
    """And approve at tool calls only, where there is a prompt of the host's to spare."""
    authorize, approve = Asked(True), Asked(True)
    client = open_client(backend_that(), capabilities=WHOLE, authorize=authorize, approve=approve)
    more: Json = {}
    if event_type == "user.elicitation.result":
        more["request"] = ask(client, "user.elicitation.request", event_id="asked").event
        authorize.proposals.clear()
    assert_proceeds(ask(client, event_type, **more))
    assert len(authorize.proposals) == ("deny" in EVENTS[event_type].effects)
    assert len(approve.proposals) == (event_type in ("tool.before", "tool.permission.request"))


def test_the_proposal_is_the_effective_event(open_client: Clients) -> None:
    """As settled, with the permission and the result of the backends; and a copy of it."""
    proposals = Asked(True)
    backend = backend_that(modify("input", "replace", {"deep": [1]}), returning({"r": [1]}))

    def spoils(proposal: Proposal) -> bool:
        proposals(proposal)
        proposal.event["tool"]["input"]["deep"].append(2)
        assert proposal.candidate is not None
        proposal.candidate.value["r"].append(2)
        return True

    client = open_client(backend, capabilities=WHOLE, authorize=spoils, approve=proposals)
    outcome = ask(client)
    first, second = proposals.proposals
    assert first.permission == "none"
    assert second.event == outcome.event
    assert second.event["tool"]["input"] == {"deep": [1]}
    assert second.candidate == Candidate({"r": [1]})
    assert_supplied(outcome, {"r": [1]})


# --- what refuses ---------------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["authorize", "approve"])
@pytest.mark.parametrize("answer", [1, 0, "yes", "", (), object(), Decision.PROCEED])
def test_an_odd_answer_refuses(
    which: str, answer: Any, open_client: Clients, caplog: pytest.LogCaptureFixture
) -> None:
    """Only True is permission; what went wrong is in the log."""
    outcome = ask(open_client(backend_that(), capabilities=WHOLE, **{which: Asked(answer)}))
    assert_denied(outcome, REFUSED)
    assert "neither a bool nor None" in caplog.text


@pytest.mark.parametrize("which", ["authorize", "approve"])
@pytest.mark.parametrize(
    "error",
    [
        ValueError("token=hunter2"),
        BudgetEnded(),
        OperationalFailure(FailureClass.CONNECTION, "x", "y"),
        SystemExit(0),
        KeyboardInterrupt(),
        GeneratorExit(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_callback_that_raises_refuses(
    which: str,
    error: BaseException,
    open_client: Clients,
    records: AuditLog,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Whatever it is: it neither permits, nor passes for an end of the call, nor ends the host."""

    def callback(proposal: Proposal) -> NoReturn:
        raise error

    outcome = ask(open_client(backend_that(), capabilities=WHOLE, **{which: callback}))
    assert_denied(outcome, REFUSED)
    assert f"the host's callback failed and so refused: {type(error).__name__}" in caplog.text
    assert "hunter2" not in caplog.text
    assert [record.kind.value for record in records] == ["accepted", "host_denial"]


def test_a_refusal_of_the_host_is_recorded_as_its_own(
    open_client: Clients, records: AuditLog
) -> None:
    """Neither a backend's denial nor a synthetic one; and observers are told as of any other."""
    backend = backend_that()
    observer = Backend(None, observe(), id="com.example.o")
    outcome = ask(open_client(backend, observer, capabilities=WHOLE, authorize=Asked(False)))
    assert not outcome.synthetic
    (record,) = assert_audit(records, kind="host_denial", backend=None, subscription=None)
    assert (record.who, record.mode, record.policy) == ("host", None, None)
    assert observer.methods == ["observe"]


@pytest.mark.parametrize("which", ["authorize", "approve"])
@pytest.mark.parametrize("wrong", [True, "yes", {}])
def test_a_callback_can_be_called(which: str, wrong: Any, open_client: Clients) -> None:
    """An error when the client is made."""
    with pytest.raises(TypeError, match=f"{which} must be callable"):
        open_client(Backend(), **{which: wrong})


# --- where they run, and how long -----------------------------------------------------------------


def test_callbacks_run_on_another_thread_with_the_callers_context(open_client: Clients) -> None:
    """So that the caller can leave them; what it set in its context is there."""
    import contextvars

    tenant: contextvars.ContextVar[str] = contextvars.ContextVar("tenant")
    seen: list[tuple[threading.Thread, str]] = []

    def callback(proposal: Proposal) -> bool:
        seen.append((threading.current_thread(), tenant.get()))
        return True

    tenant.set("acme")
    client = open_client(backend_that(), capabilities=WHOLE, authorize=callback, approve=callback)
    assert_proceeds(ask(client))
    assert [name for _, name in seen] == ["acme", "acme"]
    assert threading.current_thread() not in [thread for thread, _ in seen]


class Hanging:
    """A callback that says True once it is released."""

    def __init__(self) -> None:
        self.started = threading.Event()
        self.released = threading.Event()

    def __call__(self, value: Any) -> bool:
        self.started.set()
        assert self.released.wait(GENEROUS)
        return True


@pytest.mark.parametrize("which", ["authorize", "approve"])
def test_a_callback_that_hangs_ends_with_the_call(
    which: str, open_client: Clients, records: AuditLog
) -> None:
    """R-ADM-04, R-DL-02: expired by its deadline; what it says later changes nothing."""
    hanging = Hanging()
    observer = Backend(None, observe(), id="com.example.o")
    client = open_client(
        backend_that(ASK, note("hi")), observer, capabilities=WHOLE, **{which: hanging}
    )
    outcome, seconds = timed(lambda: ask(client, budget=Budget(0.2)))
    assert_expired(outcome)
    assert 0.2 <= seconds <= 0.2 + SLACK
    assert (outcome.messages, outcome.permission) == (("hi",), "ask")
    before = (str(outcome), len(records))
    hanging.released.set()
    assert workers_are_free(client)
    assert (str(outcome), len(records)) == before
    assert observer.messages == []


@pytest.mark.parametrize("which", ["authorize", "approve"])
@pytest.mark.parametrize("how", ["cancel", "close"])
def test_a_callback_does_not_hold_whoever_ends_the_call(
    which: str, how: str, open_client: Clients
) -> None:
    """Cancelled, or closed with its client: interrupted, at once (R-SET-14)."""
    hanging = Hanging()
    client = open_client(backend_that(), capabilities=WHOLE, **{which: hanging})
    budget = Budget(30)
    with ThreadPoolExecutor(1) as caller:
        call = caller.submit(ask, client, budget=budget)
        assert hanging.started.wait(GENEROUS)
        began = time.monotonic()
        if how == "cancel":
            budget.cancel()
        else:
            client.close(timeout=0.1)
        outcome = call.result(GENEROUS)
        seconds = time.monotonic() - began
    assert_interrupted(outcome)
    assert seconds <= 0.1 + SLACK
    hanging.released.set()


@pytest.mark.parametrize("which", ["authorize", "approve"])
@pytest.mark.parametrize("decision", [Decision.EXPIRED, Decision.INTERRUPTED], ids=str)
@pytest.mark.parametrize("answer", [True, False, None])
def test_the_end_is_looked_at_again_after_them(
    which: str, decision: Decision, answer: Answer, open_client: Clients, records: AuditLog
) -> None:
    """R-ADM-04: what they answered no longer counts, neither a permission nor a refusal."""
    clock = Clock()
    budget = Budget(100, clock=clock)

    def ends(proposal: Proposal) -> Answer:
        if decision is Decision.EXPIRED:
            clock.advance(101)
        else:
            budget.cancel()
        return answer

    observer = Backend(None, observe(), id="com.example.o")
    client = open_client(backend_that(), observer, capabilities=WHOLE, **{which: ends})
    outcome = ask(client, budget=budget)
    assert outcome.decision is decision
    assert not outcome.may_execute
    assert observer.messages == []
    assert assert_audit(records, kind="host_denial", count=0) == []


@pytest.mark.parametrize("workers", [1, 2])
def test_a_callback_may_call_hooks_of_the_same_client(workers: int, open_client: Clients) -> None:
    """R-ADM-04: no lock is held, and a pool of one does not wait for itself."""
    backend = backend_that()
    nested: list[Outcome] = []

    def callback(proposal: Proposal) -> bool:
        if proposal.event["tool"]["name"] == "inner":
            return True
        nested.append(client.tool_before(name="inner", input={}))
        return nested[-1].may_execute

    client = open_client(
        backend, capabilities=WHOLE, authorize=callback, approve=callback, max_workers=workers
    )
    assert_proceeds(ask(client, budget=Budget(GENEROUS)))
    assert len(nested) == 2
    assert all(outcome.may_execute for outcome in nested)


def test_many_calls_ask_the_host_at_once(open_client: Clients) -> None:
    """16 threads with four workers, each call with its own answer: nobody gets another's."""

    def callback(proposal: Proposal) -> bool:
        return bool(proposal.event["tool"]["input"]["n"] % 2)

    client = open_client(
        backend_that(), capabilities=WHOLE, authorize=callback, approve=callback, max_workers=4
    )

    def call(number: int) -> bool:
        outcome = client.tool_before(name="Bash", input={"n": number}, budget=Budget(60))
        assert outcome.decision in (Decision.PROCEED, Decision.DENY)
        return outcome.may_execute

    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(call, range(160))) == [bool(n % 2) for n in range(160)]


def test_a_callback_waits_for_a_worker_no_longer_than_the_call(open_client: Clients) -> None:
    """With every worker taken the answer does not come; that is no permission."""
    hanging = Hanging()
    bystander = Backend(None, observe(["session.end"]))
    client = open_client(bystander, capabilities=WHOLE, authorize=hanging, max_workers=1)
    with ThreadPoolExecutor(1) as caller:
        first = caller.submit(ask, client, budget=Budget(30))
        assert hanging.started.wait(GENEROUS)
        outcome, seconds = timed(lambda: ask(client, budget=Budget(0.1)))
        hanging.released.set()
        assert_proceeds(first.result(GENEROUS))
    assert_expired(outcome)
    assert seconds <= 0.1 + SLACK


def test_a_host_that_no_worker_is_left_to_ask_has_not_permitted(
    open_client: Clients, caplog: pytest.LogCaptureFixture
) -> None:
    """The queue is full: refused where it was to be asked, interrupted where it was to read."""
    hanging = Hanging()
    bystander = Backend(None, observe(["session.end"]))
    client = open_client(bystander, capabilities=WHOLE, authorize=hanging, max_workers=1)
    with ThreadPoolExecutor(17) as callers:
        calls = [callers.submit(ask, client, budget=Budget(30)) for _ in range(17)]
        assert eventually(lambda: statistics(client).load == 17)
        assert_denied(ask(client), REFUSED)
        assert "was not asked and so refused: no_worker" in caplog.text
        assert_interrupted(ask(client, input_codec=sorted))
        hanging.released.set()
        assert all(call.result(GENEROUS).may_execute for call in calls)


@pytest.mark.parametrize("which", ["authorize", "approve", "codec"])
def test_ctrl_c_is_the_hosts_own(which: str, open_client: Clients) -> None:
    """It is raised where the host waits, permits nothing, and the client works on afterwards."""
    hanging = Hanging()
    options: Json = {} if which == "codec" else {which: hanging}
    client = open_client(backend_that(), capabilities=WHOLE, max_workers=2, **options)

    def interrupt() -> None:
        assert hanging.started.wait(GENEROUS)
        time.sleep(0.05)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        ask(client, input_codec=hanging if which == "codec" else None)
    hanging.released.set()
    assert workers_are_free(client)
    assert_proceeds(ask(client))


def test_a_callback_may_close_the_client(open_client: Clients) -> None:
    """Then nothing is permitted any more, this call included, and nobody waits for himself."""

    def closes(proposal: Proposal) -> bool:
        client.close()
        return True

    client = open_client(backend_that(), capabilities=WHOLE, authorize=closes)
    outcome, seconds = timed(lambda: ask(client))
    assert_interrupted(outcome)
    assert seconds <= 1.0 + SLACK
    with pytest.raises(ClientClosed):
        ask(client)


def test_an_ask_of_the_host_itself_is_put_to_it(open_client: Clients) -> None:
    """At events, too, where no backend could have asked for it."""
    approve = Asked(True, False)
    client = open_client(backend_that(), capabilities=WHOLE, approve=approve)
    assert_proceeds(ask(client, "turn.start", state=HostState("ask")))
    assert_denied(ask(client, "turn.start", state=HostState("ask")), REFUSED)
    assert [proposal.permission for proposal in approve.proposals] == ["ask", "ask"]


def test_they_work_over_the_network(ahp_http_backend: Callable[..., HttpBackend]) -> None:
    """The same with a real server."""
    from ahp_sync import Harness

    backend = ahp_http_backend([[ALLOW]])
    with Client(
        backend.registration(timeout_ms=20_000),
        source="urn:example:tests",
        harness=Harness("tests", "1"),
        capabilities=WHOLE,
        authorize=Asked(True, False),
    ) as client:
        assert_proceeds(ask(client))
        assert_denied(ask(client), REFUSED)


# --- codecs ---------------------------------------------------------------------------------------


def test_a_codec_reads_what_the_host_brought_and_what_a_backend_left(
    open_client: Clients,
) -> None:
    """``typed_input`` is of the effective input, ``typed_result`` of the candidate."""
    plain = ask(
        open_client(backend_that(), capabilities=WHOLE), input_codec=sorted, result_codec=str
    )
    assert (plain.typed_input, plain.typed_result) == (["command"], None)
    edits = backend_that(modify("input", "merge", {"a": 1}), ALLOW, returning(5))
    outcome = ask(
        open_client(edits, capabilities=WHOLE), input_codec=sorted, result_codec=lambda r: [r]
    )
    assert (outcome.typed_input, outcome.typed_result) == (["a", "command"], [5])
    assert_supplied(outcome, 5)


def test_without_codecs_nothing_is_typed(open_client: Clients) -> None:
    """And no worker is asked for it."""
    outcome = ask(open_client(backend_that(returning(5)), capabilities=WHOLE))
    assert (outcome.typed_input, outcome.typed_result) == (None, None)


def test_a_codec_is_given_a_copy(open_client: Clients) -> None:
    """What it does to it shows nowhere."""

    def spoils(value: Json) -> str:
        value.clear()
        return "read"

    backend = backend_that(modify("input", "merge", {"deep": [1]}))
    outcome = ask(open_client(backend, capabilities=WHOLE), input_codec=spoils)
    assert outcome.typed_input == "read"
    assert outcome.input == {"command": "ls", "deep": [1]}


def test_a_codec_reads_each_value_once(open_client: Clients) -> None:
    """What an answer leaves alone is not read again; an invalidated result is typed no more."""
    inputs: list[Json] = []
    first = Backend(says(note("x")), intercept(timeout_ms=20_000))
    second = Backend(says(modify("input", "replace", {"b": 1})), intercept(), id="com.example.two")
    third = Backend(says(note("y")), intercept(), id="com.example.three")
    client = open_client(first, second, third, capabilities=WHOLE)
    outcome = ask(
        client,
        state=HostState(candidate=Candidate("old")),
        input_codec=inputs.append,
        result_codec=len,
    )
    assert inputs == [{"command": "ls"}, {"b": 1}]
    assert outcome.candidate is None
    assert outcome.typed_result is None


def refuses(value: Any) -> Any:
    """A codec that knows only the host's own command."""
    if value != {"command": "ls"}:
        raise ValueError("token=hunter2")
    return value


@pytest.mark.parametrize("policy", ["fail-open", "fail-closed"])
def test_an_edit_that_the_host_can_not_take_is_refused(
    policy: str, open_client: Clients, records: AuditLog
) -> None:
    """R-PAY-02: as a failure of class ``effects``, with all that came with it."""
    backend = backend_that(modify("input", "replace", {"x": 1}), note("hi"), DENY, policy=policy)
    outcome = ask(open_client(backend, capabilities=WHOLE), input_codec=refuses)
    check = assert_failed_open if policy == "fail-open" else assert_synthetic_denial
    check(outcome, failure_class="effects")
    assert (outcome.input, outcome.messages) == ({"command": "ls"}, ())
    assert outcome.typed_input == {"command": "ls"}
    assert outcome.failures[0].code == "refused_by_host"
    assert "hunter2" not in str(outcome) + str(records.records)


@pytest.mark.parametrize("policy", ["fail-open", "fail-closed"])
def test_a_result_that_the_host_can_not_take_is_refused(policy: str, open_client: Clients) -> None:
    """Likewise."""
    backend = backend_that(returning("five"), policy=policy)
    outcome = ask(open_client(backend, capabilities=WHOLE), result_codec=int)
    check = assert_failed_open if policy == "fail-open" else assert_synthetic_denial
    check(outcome, failure_class="effects")
    assert outcome.candidate is None


@pytest.mark.parametrize("error", [SystemExit, BudgetEnded, KeyboardInterrupt], ids=str)
def test_whatever_a_codec_raises_refuses(error: type[BaseException], open_client: Clients) -> None:
    """An exit on a worker ends nothing but the answer."""

    def codec(value: Any) -> NoReturn:
        raise error

    outcome = ask(open_client(backend_that(returning(1)), capabilities=WHOLE), result_codec=codec)
    assert_synthetic_denial(outcome, failure_class="effects")


def test_a_codec_that_hangs_is_bounded_by_the_answers_deadline(open_client: Clients) -> None:
    """AHP-FAIL-002: reading is part of accepting; the result of a late one is dropped."""
    hanging = Hanging()
    backend = Backend(says(returning(1)), intercept(timeout_ms=200, policy="fail-open"))
    client = open_client(backend, capabilities=WHOLE)
    outcome, seconds = timed(lambda: ask(client, result_codec=hanging))
    assert_failed_open(outcome, failure_class="deadline_exceeded")
    assert 0.2 <= seconds <= 0.2 + SLACK
    hanging.released.set()
    assert workers_are_free(client)
    assert (outcome.candidate, outcome.typed_result) == (None, None)


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ({"input_codec": refuses}, "$.tool.input"),
        (
            {"result_codec": int, "state": HostState(candidate=Candidate("x"))},
            "state.candidate.value",
        ),
    ],
)
@pytest.mark.parametrize("error", [None, SystemExit, BudgetEnded], ids=str)
def test_what_the_host_itself_can_not_read_is_an_error_of_the_call(
    options: Json,
    path: str,
    error: Optional[type[BaseException]],
    open_client: Clients,
    records: AuditLog,
) -> None:
    """Before anything is sent; its own error is the cause."""
    backend = backend_that()
    client = open_client(backend, capabilities=WHOLE)
    if error is not None:

        def raises(value: Any) -> NoReturn:
            raise error

        options = {name: raises if "codec" in name else one for name, one in options.items()}
    with pytest.raises(InvalidEvent) as caught:
        client.tool_before(name="Bash", input={"other": 1}, **options)
    assert caught.value.path == path
    assert isinstance(caught.value.__cause__, error or ValueError)
    assert (backend.messages, len(records)) == ([], 0)


def test_a_codec_of_the_hosts_own_values_ends_with_the_call(open_client: Clients) -> None:
    """Nobody is asked any more, and nothing is permitted."""
    hanging = Hanging()
    backend = backend_that()
    client = open_client(backend, capabilities=WHOLE)
    outcome, seconds = timed(lambda: ask(client, input_codec=hanging, budget=Budget(0.1)))
    assert_expired(outcome)
    assert seconds <= 0.1 + SLACK
    assert backend.messages == []
    hanging.released.set()
    assert eventually(lambda: workers_are_free(client))


@pytest.mark.parametrize("options", [{"input_codec": 5}, {"result_codec": "int"}])
def test_a_codec_can_be_called(options: Mapping[str, Any], open_client: Clients) -> None:
    """Nothing else stands in for it."""
    with pytest.raises(TypeError, match=r"_codec must be callable"):
        ask(open_client(Backend(deny())), **options)


@pytest.fixture(autouse=True)
def _log_errors(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "ahp_sync")
