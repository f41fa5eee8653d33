"""What goes from one interceptor to the next, and what of it is left when one is refused."""

from __future__ import annotations

import json
from typing import Any, Callable, Optional

import pytest
from answering import (
    ALLOW,
    ASK,
    DENY,
    PAYLOADS,
    go_on,
    in_turn,
    inject,
    message,
    modify,
    note,
    part,
    returning,
    says,
    stop,
)
from inprocess import (
    GENEROUS,
    SLACK,
    Act,
    Backend,
    answer,
    fails,
    intercept,
    observe,
    refused,
    stuck,
)
from watching import eventually, timed, workers_are_free

from ahp_sync import (
    GENERIC_REASON,
    Budget,
    Candidate,
    Capabilities,
    Client,
    Denial,
    HostState,
    InvalidEvent,
    Outcome,
)
from ahp_sync.testing import (
    AuditLog,
    HttpBackend,
    assert_asks,
    assert_audit,
    assert_denied,
    assert_failed_open,
    assert_interrupted,
    assert_proceeds,
    assert_stopped,
    assert_supplied,
    assert_synthetic_denial,
)

Clients = Callable[..., Client]
Json = dict[str, Any]

WHOLE = Capabilities.whole(max_continuations=3)
NEUTRAL = {"permission": "none", "candidate": None}


def line_up(
    *acts: Optional[Act], events: Any = ("*",), policy: str = "fail-closed"
) -> list[Backend]:
    """Return one backend for each act, all asked about the same events."""
    return [
        Backend(act, intercept(events, policy=policy, timeout_ms=20_000), id=f"com.example.n{i}")
        for i, act in enumerate(acts)
    ]


def ask(client: Client, event_type: str = "tool.before", **options: Any) -> Outcome:
    return client.dispatch(event_type, PAYLOADS[event_type], **options)


def state_of(backend: Backend) -> Any:
    """Return ``params.state`` of the one request."""
    (request,) = [one for one in backend.messages if "id" in one]
    return request["params"]["state"]


def input_of(backend: Backend) -> Any:
    return backend.events[0]["tool"]["input"]


# --- what the next one is told (R-SET-02, R-CAP-04) -----------------------------------------------


def test_the_state_is_carried_on(open_client: Clients) -> None:
    """R-SET-02: the effective event, and everything that was accepted so far."""
    more = inject(message("i-1", "more"))
    backends = line_up(
        says(modify("input", "merge", {"dry": True}), ALLOW, returning([1]), note("hi")),
        says(more),
        says(ASK),
        None,
    )
    outcome = ask(open_client(*backends, capabilities=WHOLE))
    first, second, third, fourth = map(state_of, backends)
    allowed = {"permission": "allow", "candidate": {"value": [1]}}
    assert first == NEUTRAL
    assert second == allowed
    assert third == {**allowed, "injections": [more]}
    assert fourth == {**third, "permission": "ask"}
    edited = {"command": "ls", "dry": True}
    assert [input_of(one) for one in backends] == [{"command": "ls"}, edited, edited, edited]
    assert_asks(outcome)
    assert outcome.input == edited
    assert (outcome.messages, outcome.injections) == (("hi",), (more,))
    assert outcome.candidate == Candidate([1])


def test_instructions_are_carried_on(open_client: Clients) -> None:
    """R-SET-11: ``flow`` and ``instructions`` appear with the first ``continue`` (T-07)."""
    backends = line_up(None, says(go_on()), says(go_on("a")), None, events=["turn.finish.before"])
    client = open_client(*backends, capabilities=WHOLE)
    outcome = client.dispatch("turn.finish.before", PAYLOADS["turn.finish.before"])
    states = [state_of(one) for one in backends]
    assert states[:2] == [NEUTRAL, NEUTRAL]
    assert states[2] == {**NEUTRAL, "flow": "continue", "instructions": []}
    assert states[3] == {**NEUTRAL, "flow": "continue", "instructions": ["a"]}
    assert outcome.instructions == ("a",)


def test_each_sees_the_effective_event_through_its_own_view(open_client: Clients) -> None:
    """R-SET-02, R-CON-06: an edit is told to the next, as far as that one sees such content."""
    writer, blind, sighted = line_up(
        says(modify("prompt", "merge", [message("m-2", "more")])), None, None
    )
    blind.subscriptions = [intercept(["turn.start"], content={"default": "metadata"})]
    client = open_client(writer, blind, sighted, capabilities=WHOLE)
    client.dispatch("turn.start", PAYLOADS["turn.start"])
    assert [one["id"] for one in blind.events[0]["items"]] == ["m-1", "m-2"]
    assert "text" not in json.dumps(blind.events[0]["items"]).replace('"text/plain"', "").replace(
        '"kind": "text"', ""
    )
    assert sighted.events[0]["items"] == [*PAYLOADS["turn.start"]["items"], message("m-2", "more")]


def test_the_edit_of_a_blind_one_keeps_what_it_did_not_see(open_client: Clients) -> None:
    """R-CON-06: the hidden text is still there for the next and for the host, and nobody else."""
    blind, sighted = line_up(says(modify("prompt", "merge", [message("m-2", "more")])), None)
    blind.subscriptions = [intercept(["turn.start"], content={"default": "omit"})]
    observer = Backend(
        None, observe(["turn.start"], content={"default": "metadata"}), id="com.example.o"
    )
    client = open_client(blind, sighted, observer, capabilities=WHOLE)
    outcome = client.dispatch("turn.start", PAYLOADS["turn.start"])
    whole = [*PAYLOADS["turn.start"]["items"], message("m-2", "more")]
    assert outcome.event["items"] == sighted.events[0]["items"] == whole
    assert b"Hello" not in b"".join([*blind.bodies, *observer.bodies])


def test_over_the_network_as_well(ahp_http_backend: Callable[..., HttpBackend]) -> None:
    """Two real servers: the second is told what the first one did."""
    with (
        HttpBackend([[modify("input", "replace", {"command": "pwd"}), ALLOW]]) as first,
        HttpBackend("ok") as second,
    ):
        document = first.registration(timeout_ms=20_000)
        document["hooks"].append(second.entry(id="com.example.two", timeout_ms=20_000))
        with client_of(document, capabilities=WHOLE) as client:
            outcome = ask(client)
        params = second.requests[0].message["params"]
    assert params["state"] == {"permission": "allow", "candidate": None}
    assert params["event"]["tool"]["input"] == outcome.input == {"command": "pwd"}
    assert_proceeds(outcome)


def client_of(document: Any, **options: Any) -> Client:
    from ahp_sync import Harness

    return Client(document, source="urn:example:tests", harness=Harness("tests", "1"), **options)


# --- whole or not at all (R-SET-03, R-ADM-01) -----------------------------------------------------

#: One bad effect each, whichever of the four verdicts of section 8 it is.
BAD = {
    "malformed": {**note("x"), "extra": 1},
    "unknown": {"type": "retry"},
    "unadvertised": go_on("more"),
    "conflicting": modify("prompt", "merge", [message("m-9", role="assistant")]),
}
INBOUND = PAYLOADS["user.message.inbound"]


@pytest.mark.parametrize("bad", BAD.values(), ids=list(BAD))
@pytest.mark.parametrize("behind", [False, True], ids=["first", "last"])
def test_a_denial_beside_a_bad_effect_is_none(
    bad: Json, behind: bool, open_client: Clients, records: AuditLog
) -> None:
    """R-ADM-01, R-SET-15: fail-open goes on unchanged by it, fail-closed denies synthetically."""
    good = [DENY, note("y"), modify("prompt", "replace", [])]
    effects = [*good, bad] if behind else [bad, *good]
    (backend,) = line_up(says(*effects), events=["user.message.inbound"], policy="fail-open")
    client = open_client(backend, capabilities=WHOLE)
    outcome = client.dispatch("user.message.inbound", INBOUND)
    assert_failed_open(outcome, failure_class="effects")
    assert (outcome.messages, outcome.permission) == ((), "none")
    assert outcome.event["message"] == INBOUND["message"]
    assert_audit(records, kind="failed_open", effects=())

    (backend,) = line_up(says(*effects), events=["user.message.inbound"])
    client = open_client(backend, capabilities=WHOLE)
    outcome = client.dispatch("user.message.inbound", INBOUND)
    assert_synthetic_denial(outcome, failure_class="effects")
    assert outcome.reason == GENERIC_REASON
    assert outcome.messages == ()


@pytest.mark.parametrize("policy", ["fail-open", "fail-closed"])
@pytest.mark.parametrize(
    "failing", [says(DENY, {"type": "retry"}), fails(refused)], ids=["refused", "broken"]
)
def test_what_was_accepted_before_survives_a_failure(
    failing: Act, policy: str, open_client: Clients
) -> None:
    """R-SET-03, R-SET-12, T-17: edits, messages and injections stay, and observers see them."""
    more = inject(message("i-1", "more"))
    first = says(modify("input", "replace", {"safe": 1}), note("hi"), more, ALLOW, returning(1))
    backends = line_up(first, failing, policy=policy)
    observer = Backend(None, observe(), id="com.example.o")
    outcome = ask(open_client(*backends, observer, capabilities=WHOLE))
    assert outcome.input == observer.events[0]["tool"]["input"] == {"safe": 1}
    assert (outcome.messages, outcome.injections) == (("hi",), (more,))
    assert outcome.candidate == Candidate(1)
    if policy == "fail-open":
        assert_supplied(outcome, 1)
        assert outcome.failed_open
    else:
        assert_denied(outcome, synthetic=True)  # R-SET-09: allow and return were both accepted
        assert not outcome.has_result


@pytest.mark.parametrize(
    ("members", "failure_class"),
    [
        ({"protocolVersion": "1", "effects": None}, "unsupported"),
        ({"effects": [{"type": "retry"}]}, "missing_result"),
        ({"protocolVersion": "draft", "effects": None, "extensions": {"x": 1}}, "malformed"),
        ({"protocolVersion": "draft", "effects": [{"type": "retry"}, DENY]}, "effects"),
    ],
)
def test_an_answer_is_checked_from_the_outside_in(
    members: Json, failure_class: str, open_client: Clients
) -> None:
    """R-ADM-02: the first thing wrong is the one that is told; nothing is kept before the last."""

    def act(backend: Backend, message: Json, budget: Budget) -> bytes:
        return json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": members}).encode()

    outcome = ask(open_client(*line_up(act), capabilities=WHOLE))
    assert_synthetic_denial(outcome, failure_class=failure_class)


@pytest.mark.parametrize(
    ("effects", "check"),
    [
        ([DENY, ALLOW], lambda outcome: assert_denied(outcome, "not here")),
        ([ALLOW, DENY, ASK], lambda outcome: assert_denied(outcome, "not here")),
        ([ALLOW, ASK], assert_asks),
        ([ASK, ALLOW], assert_asks),
        ([ALLOW, ALLOW], assert_proceeds),
        ([returning(1), returning(2)], assert_asks),
        ([returning(1), ALLOW, returning(2)], lambda outcome: assert_supplied(outcome, 2)),
        ([stop("a"), stop("b")], lambda outcome: assert_stopped(outcome, "a")),
        ([stop("a"), DENY], lambda outcome: assert_denied(outcome, "not here")),
        ([DENY, returning(1), ALLOW], lambda outcome: assert_denied(outcome, "not here")),
        ([stop("a"), returning(1), ALLOW], lambda outcome: assert_stopped(outcome, "a")),
        ([ASK, returning(1)], assert_asks),
    ],
)
def test_what_looks_like_a_conflict_and_is_none(
    effects: list[Json], check: Callable[[Outcome], object], open_client: Clients
) -> None:
    """R-ADM-03, R-SET-07, R-SET-09, T-05: it settles, and only an allowed result is deliverable."""
    outcome = ask(open_client(*line_up(says(*effects)), capabilities=WHOLE))
    check(outcome)
    assert outcome.failures == ()
    supplies = any(effect["type"] == "return" for effect in effects)
    assert (outcome.candidate is not None) is supplies
    assert hasattr(outcome, "result") is outcome.has_result


def test_a_denial_has_all_that_its_backend_said(open_client: Clients) -> None:
    """Section 6: its code and extensions are there beside the reason; a policy's has none."""
    said = {"code": "com.example.secrets", "extensions": {"com.example": {"rule": 7}}}
    outcome = ask(open_client(*line_up(says({**DENY, **said})), capabilities=WHOLE))
    assert outcome.denial == Denial("not here", said["code"], said["extensions"])
    outcome = ask(open_client(*line_up(says(DENY)), capabilities=WHOLE))
    assert outcome.denial == Denial("not here", None, None)
    for broken in (says({"type": "retry"}), says()):
        assert ask(open_client(*line_up(broken), capabilities=WHOLE)).denial is None


# --- identities of what is added (R-EVT-03) -------------------------------------------------------


def test_an_injected_message_keeps_to_the_identities(open_client: Clients) -> None:
    """R-EVT-03, T-09: it may not give an id of the event another role, nor an id of its own two."""
    for value in (
        [message("m-1", "x", role="system")],
        [message("m-9", part("m-1-1", "x"))],
        [message("i-1", "x"), message("i-1", "x", role="tool")],
    ):
        backends = line_up(says(inject(*value), note("x")), events=["turn.start"])
        outcome = ask(open_client(*backends, capabilities=WHOLE), "turn.start")
        assert_synthetic_denial(outcome, failure_class="effects")
        assert outcome.failures[0].code == "invalid_edit"
        assert outcome.injections == ()
    same = inject(message("m-1", "Hello", "there"), message("i-1", "x", role="system"))
    backends = line_up(says(same), events=["turn.start"])
    outcome = ask(open_client(*backends, capabilities=WHOLE), "turn.start")
    assert outcome.injections == (same,)


def test_a_returned_message_keeps_to_the_identities(open_client: Clients) -> None:
    """R-EVT-03: the answer of a model that another one supplied, likewise."""
    bad = returning([message("m-1", "Hi!", role="assistant")])
    backends = line_up(says(bad), events=["model.request.before"])
    outcome = ask(open_client(*backends, capabilities=WHOLE), "model.request.before")
    assert_synthetic_denial(outcome, failure_class="effects")
    assert outcome.candidate is None


def test_accepted_identities_are_remembered(open_client: Clients) -> None:
    """R-EVT-03: the next interceptor's answer and the host's own events are held to them."""
    first, second = inject(message("i-1", "x")), inject(message("i-1", "x", role="tool"))
    backends = line_up(says(first), says(second))
    client = open_client(*backends, capabilities=WHOLE)
    outcome = ask(client)
    assert_synthetic_denial(outcome, failure_class="effects")
    assert outcome.injections == (first,)
    with pytest.raises(InvalidEvent, match="the role user that it had before"):
        client.session_start(
            session="s", trigger="startup", items=[message("i-1", "x", role="tool")]
        )


def test_refused_identities_are_not_remembered(open_client: Clients) -> None:
    """R-ADM-01: nothing of a refused answer is kept."""
    bad = says(inject(message("i-1", "x", role="tool")), {"type": "retry"})
    good = says(inject(message("i-1", "x")))
    outcome = ask(open_client(*line_up(bad, good, policy="fail-open"), capabilities=WHOLE))
    assert len(outcome.injections) == len(outcome.failures) == 1


def test_stop_over_continue_through_the_client(open_client: Clients) -> None:
    """R-SET-10: nothing is gone on with, though the instructions are there to read."""
    backends = line_up(says(go_on("a"), stop("no")), None, events=["turn.finish.before"])
    client = open_client(*backends, capabilities=WHOLE)
    outcome = client.dispatch("turn.finish.before", PAYLOADS["turn.finish.before"])
    assert_stopped(outcome, "no")
    assert (outcome.flow, outcome.instructions) == ("stop", ("a",))
    assert [one.methods for one in backends] == [["intercept"], ["observe"]]


def test_an_edit_may_not_take_the_identity_of_an_earlier_message(open_client: Clients) -> None:
    """T-09, R-EVT-03: what an earlier event told of an id stands against an edit of a later one."""
    (backend,) = line_up(None, says(modify("prompt", "merge", [message("m-7", "x")])))[1:]
    client = open_client(backend, capabilities=WHOLE)
    told = {**PAYLOADS["turn.start"], "items": [message("m-7", "x", role="system")]}
    backend.act = says()
    assert_proceeds(client.dispatch("turn.start", told))
    backend.act = says(modify("prompt", "merge", [message("m-7", "x")]))
    outcome = client.dispatch("turn.start", PAYLOADS["turn.start"])
    assert_synthetic_denial(outcome, failure_class="effects")
    assert outcome.failures[0].code == "invalid_edit"


def test_a_transport_may_fail_before_the_good_answer(open_client: Clients) -> None:
    """R-RETRY-01: the one answer that counts is staged; what failed before leaves no trace."""
    (backend,) = line_up(
        in_turn(fails(lambda: refused(retryable=True)), says(modify("input", "merge", {"n": 1})))
    )
    outcome = ask(open_client(backend, capabilities=WHOLE))
    assert_proceeds(outcome)
    assert outcome.input == {"command": "ls", "n": 1}
    assert backend.bodies[0] == backend.bodies[1]


# --- very many effects ----------------------------------------------------------------------------

MANY = 100_000


def test_very_many_effects_are_settled(open_client: Clients) -> None:
    """R-SET-12: all of them, in order, where there is time enough."""
    effects = [note(str(number)) for number in range(MANY)]
    (backend,) = line_up(says(*effects))
    backend.subscriptions[0]["timeoutMs"] = 60_000
    outcome = ask(open_client(backend, capabilities=WHOLE, audit=()))
    assert_proceeds(outcome)
    assert outcome.messages == tuple(effect["text"] for effect in effects)


@pytest.mark.parametrize("policy", ["fail-open", "fail-closed"])
def test_very_many_effects_do_not_outlast_the_deadline(policy: str, open_client: Clients) -> None:
    """AHP-FAIL-002: checking and staging are inside it, and a late result is dropped."""
    body = json.dumps([modify("prompt", "merge", [message(f"m-{n}", "x")]) for n in range(9_000)])

    def act(backend: Backend, message: Json, budget: Budget) -> bytes:
        return answer(message["id"]).replace(b'"effects": []', b'"effects": ' + body.encode())

    (backend,) = line_up(act, events=["turn.start"], policy=policy)
    backend.subscriptions[0]["timeoutMs"] = 300
    client = open_client(backend, capabilities=WHOLE)
    outcome, seconds = timed(lambda: client.dispatch("turn.start", PAYLOADS["turn.start"]))
    check = assert_failed_open if policy == "fail-open" else assert_synthetic_denial
    check(outcome, failure_class="deadline_exceeded")
    assert outcome.event["items"] == PAYLOADS["turn.start"]["items"]
    assert seconds <= 0.3 + 4 * SLACK
    assert workers_are_free(client)


def test_very_many_effects_over_the_network() -> None:
    """The same through a real server, whose answer is there at once and takes long to check."""
    with (
        HttpBackend([[note("")] * MANY]) as backend,
        client_of(backend.registration(timeout_ms=60), capabilities=WHOLE) as client,
    ):
        outcome, seconds = timed(lambda: ask(client))
    assert_synthetic_denial(outcome, failure_class="deadline_exceeded")
    assert outcome.messages == ()
    assert seconds <= 0.06 + 4 * SLACK


# --- the host's own state (R-CAP-05) --------------------------------------------------------------


@pytest.mark.parametrize(
    ("seed", "check"),
    [
        (
            HostState("deny"),
            lambda outcome: assert_denied(outcome, "The host's own policy does not permit this."),
        ),
        (HostState(flow="stop"), assert_stopped),
        (HostState("allow", Candidate(1), "stop"), assert_stopped),
        (HostState("deny", flow="stop"), assert_denied),
    ],
)
def test_what_the_host_has_settled_nobody_is_asked_about(
    seed: HostState, check: Callable[[Outcome], object], open_client: Clients, records: AuditLog
) -> None:
    """R-CAP-05, R-SET-08: the interceptors are told, and so are the observers."""
    first, second = line_up(says(ALLOW), says(ALLOW))
    observer = Backend(None, observe(), id="com.example.o")
    outcome = ask(open_client(first, second, observer, capabilities=WHOLE), state=seed)
    check(outcome)
    assert not outcome.synthetic
    assert [one.methods for one in (first, second, observer)] == [["observe"]] * 3
    assert_audit(records, kind="not_called", code="settled_by_host", count=2)


def test_a_seed_is_where_the_chain_begins(open_client: Clients) -> None:
    """All of it is told, and what nobody changes comes out again."""
    more = inject(message("i-1", "more"), deliver_at="next_turn")
    seed = HostState("allow", Candidate({"a": 1}, {"from": "cache"}), injections=[more])
    (backend,) = line_up(None)
    outcome = ask(open_client(backend, capabilities=WHOLE), state=seed)
    assert state_of(backend) == {
        "permission": "allow",
        "candidate": {"value": {"a": 1}, "provenance": {"from": "cache"}},
        "injections": [more],
    }
    assert_supplied(outcome, {"a": 1})
    assert outcome.candidate == seed.candidate
    assert (outcome.permission, outcome.injections) == ("allow", (more,))


@pytest.mark.parametrize(
    ("effect", "kept"),
    [
        (modify("input", "merge", {"x": 1}), False),
        (modify("input", "replace", {"command": "ls"}), True),
        (note("x"), True),
    ],
)
def test_an_edit_invalidates_what_the_host_brought(
    effect: Json, kept: bool, open_client: Clients
) -> None:
    """R-SET-05: the host's approval and result were for the input as it was."""
    (backend,) = line_up(says(effect))
    seed = HostState("allow", Candidate("cached"))
    outcome = ask(open_client(backend, capabilities=WHOLE), state=seed)
    assert outcome.permission == ("allow" if kept else "none")
    if kept:
        assert_supplied(outcome, "cached")
    else:
        assert outcome.candidate is None
        assert_proceeds(outcome)


def test_an_ask_of_the_host_stays(open_client: Clients) -> None:
    """R-SET-05, R-SET-07: neither an edit nor an ``allow`` takes it back."""
    (backend,) = line_up(says(modify("input", "merge", {"x": 1}), ALLOW))
    outcome = ask(open_client(backend, capabilities=WHOLE), state=HostState("ask"))
    assert_asks(outcome)
    assert outcome.reason == "The user has to approve this first."


@pytest.mark.parametrize(
    ("seed", "path"),
    [
        (HostState("maybe"), "state.permission"),
        (HostState(None), "state.permission"),  # type: ignore[arg-type]
        (HostState(5), "state.permission"),  # type: ignore[arg-type]
        (HostState(flow="halt"), "state.flow"),
        (HostState(instructions=[""]), "state.instructions[0]"),
        (HostState(instructions="go on"), "state.instructions"),
        (HostState(instructions=[5]), "state.instructions[0]"),  # type: ignore[list-item]
        (HostState(candidate="x"), "state.candidate"),  # type: ignore[arg-type]
        (HostState(candidate={}), "state.candidate"),  # type: ignore[arg-type]
        (HostState(candidate=Candidate({1})), "state.candidate.value"),
        (HostState(candidate=Candidate(1, "x")), "state.candidate.provenance"),  # type: ignore[arg-type]
        (HostState(injections=[{"type": "inject"}]), "state.injections[0]"),
        (HostState(injections=[note("x")]), "state.injections[0]"),
        (HostState(injections="x"), "state.injections"),  # type: ignore[arg-type]
        (HostState(injections=5), "state.injections"),  # type: ignore[arg-type]
    ],
)
def test_a_state_that_is_none_is_refused(
    seed: HostState, path: str, open_client: Clients, records: AuditLog
) -> None:
    """The error names the place; nothing is sent."""
    (backend,) = line_up(None)
    client = open_client(backend, capabilities=WHOLE)
    with pytest.raises(InvalidEvent) as caught:
        ask(client, state=seed)
    assert caught.value.path.startswith(path)
    assert (backend.messages, len(records)) == ([], 0)
    assert_proceeds(ask(client))


@pytest.mark.parametrize("seed", [{"permission": "allow"}, "deny", 5])
def test_a_state_is_a_host_state(seed: Any, open_client: Clients) -> None:
    """Nothing else stands in for it."""
    with pytest.raises(TypeError, match="state must be a HostState"):
        ask(open_client(Backend()), state=seed)


def test_a_candidate_has_the_form_of_its_event(open_client: Clients) -> None:
    """R-PAY-01: messages for a model, text for a compaction, an answer for an elicitation."""
    client = open_client(Backend(), capabilities=WHOLE, authorize=lambda proposal: True)
    good = {
        "model.request.before": [message("m-9", "x", role="assistant")],
        "context.compact.before": [part("p-9", "x")],
        "user.elicitation.request": {"action": "decline"},
    }
    for event_type, value in good.items():
        seed = HostState(candidate=Candidate(value))
        assert_supplied(client.dispatch(event_type, PAYLOADS[event_type], state=seed), value)
        with pytest.raises(InvalidEvent):
            seed = HostState(candidate=Candidate({"what": "else"}))
            client.dispatch(event_type, PAYLOADS[event_type], state=seed)


# --- the end of the call --------------------------------------------------------------------------


def test_an_interruption_keeps_what_was_accepted_and_nothing_later(open_client: Clients) -> None:
    """R-SET-14: no permission, whatever was allowed; a late answer never revives anything."""
    first, second = line_up(says(modify("input", "replace", {"safe": 1}), ALLOW, note("hi")), stuck)
    observer = Backend(None, observe(), id="com.example.o")
    client = open_client(first, second, observer, capabilities=WHOLE)
    budget = Budget(30)
    second.act = _cancelling(budget, stuck)
    outcome = ask(client, budget=budget)
    assert_interrupted(outcome)
    assert (outcome.input, outcome.permission, outcome.messages) == ({"safe": 1}, "allow", ("hi",))
    before = str(outcome)
    second.released.set()
    assert workers_are_free(client)
    assert str(outcome) == before
    assert observer.messages == []


def _cancelling(budget: Budget, then: Act) -> Act:
    def act(backend: Backend, message: Json, own: Budget) -> Optional[bytes]:
        budget.cancel()
        return then(backend, message, own)

    return act


def test_a_late_edit_is_dropped(open_client: Clients) -> None:
    """AHP-FAIL-002: staged or not, it does not reach an event that was settled without it."""

    def late(backend: Backend, message: Json, budget: Budget) -> bytes:
        backend.released.wait(GENEROUS)
        return answer(message["id"], modify("input", "merge", {"late": True}))

    slow, next_one = line_up(late, None, policy="fail-open")
    slow.subscriptions[0]["timeoutMs"] = 100
    client = open_client(slow, next_one, capabilities=WHOLE)
    outcome = ask(client)
    assert_failed_open(outcome, failure_class="deadline_exceeded")
    slow.released.set()
    assert eventually(lambda: workers_are_free(client))
    assert outcome.input == input_of(next_one) == {"command": "ls"}
