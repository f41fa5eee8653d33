"""What a host declares for a client, what a call makes of it, and what backends are told."""

from __future__ import annotations

import dataclasses
from typing import Any, Callable

import pytest
from answering import (
    DENY,
    INTERCEPTED,
    PAYLOADS,
    event_of,
    go_on,
    message,
    modify,
    note,
    says,
    stop,
)
from hypothesis import given
from hypothesis import strategies as st
from inprocess import Backend, intercept, observe

from ahp_sync import Capabilities, Client, Flow, Grant, Inject, InvalidEvent, Modify
from ahp_sync.protocol.events import EVENTS
from ahp_sync.protocol.validation import capabilities_problem, manifest_problem
from ahp_sync.testing import HttpBackend, assert_proceeds, assert_synthetic_denial

Clients = Callable[..., Client]

#: One that answers in nobody's place and asks everybody, at every event.
EVERYWHERE = intercept(INTERCEPTED, timeout_ms=20_000)


def capabilities_of(backend: Backend) -> Any:
    """Return ``params.capabilities`` of the last request."""
    return backend.messages[-1]["params"]["capabilities"]


# --- the declaration ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"intercept": {"tool.befor": Grant()}}, ValueError, "there is no event 'tool.befor'"),
        ({"intercept": {"*": Grant()}}, ValueError, r"there is no event '\*'"),
        ({"intercept": {"turn.end": Grant()}}, ValueError, "turn.end can only be observed"),
        ({"intercept": {"hook.failure": Grant()}}, ValueError, "can only be observed"),
        ({"intercept": {"tool.before": ("deny",)}}, TypeError, "a Grant is wanted"),
        ({"intercept": {"tool.before": None}}, TypeError, "a Grant is wanted"),
        ({"intercept": ["tool.before"]}, TypeError, "intercept must be a mapping"),
        ({"intercept": None}, TypeError, "intercept must be a mapping"),
        (
            {"intercept": {"session.start": Grant(("deny",))}},
            ValueError,
            "deny can't be granted at session.start",
        ),
        (
            {"intercept": {"task.change.before": Grant(modify=Modify())}},
            ValueError,
            "modify can't be granted at task.change.before",
        ),
        (
            {"intercept": {"tool.before": Grant(flow=Flow(("continue",), 1))}},
            ValueError,
            "flow continue can't be granted at tool.before",
        ),
        (
            {"intercept": {"user.message.inbound": Grant(inject=Inject())}},
            ValueError,
            "inject can't be granted at user.message.inbound",
        ),
        ({"observe": "tool.before"}, TypeError, "observe must be a collection"),
        ({"observe": 5}, TypeError, "observe must be a collection"),
        ({"observe": ["tool.*"]}, ValueError, r"there is no event 'tool\.\*'"),
        ({"observe": [5]}, TypeError, "observe must hold strings"),
        ({"limits": {"maxTokens": 5}}, ValueError, "there is no limit 'maxTokens'"),
        ({"limits": {"maxTimeoutMs": -1}}, ValueError, "maxTimeoutMs must not be negative"),
        ({"limits": {"maxTimeoutMs": 1.5}}, TypeError, "maxTimeoutMs must be an integer"),
        ({"limits": ["maxTimeoutMs"]}, TypeError, "limits must be a mapping"),
        ({"policy_scopes": ("system",)}, ValueError, "not 'system'"),
        ({"policy_scopes": "user"}, TypeError, "policy_scopes must be a collection"),
        ({"disableable": 1}, TypeError, "disableable must be True or False"),
        ({"disableable": True}, ValueError, "can't serve the managed scope"),
        ({"tool_paths": "native"}, TypeError, "tool_paths must be a collection"),
        ({"tool_paths": ("",)}, ValueError, "tool_paths must hold names"),
        ({"content_categories": ("text", "text")}, ValueError, "each of them once"),
        ({"content_categories": (5,)}, TypeError, "content_categories must hold strings"),
        ({"correlation_identity_fields": 5}, TypeError, "must be a collection of names"),
        ({"gaps": ("tool.input",)}, TypeError, "a gap must be a path and a reason"),
        ({"gaps": (("path", 5),)}, TypeError, "a gap must be a path and a reason"),
        ({"gaps": (("path", ""),)}, ValueError, "a gap needs a path and a reason"),
    ],
)
def test_what_an_event_can_not_have_can_not_be_declared(
    options: dict[str, Any], error: type[Exception], said: str
) -> None:
    """R-CAP-01: an error when it is made, which names what is wrong."""
    with pytest.raises(error, match=said):
        Capabilities(**options)


def test_a_declaration_does_not_change() -> None:
    """Frozen, and a copy of what it was made of."""
    grants = {"tool.before": Grant(("deny",))}
    limits = {"maxTimeoutMs": 5}
    declared = Capabilities(grants, limits=limits)
    grants["turn.start"] = Grant()
    limits["minTimeoutMs"] = 1
    assert set(declared.intercept) == {"tool.before"}
    assert dict(declared.limits) == {"maxTimeoutMs": 5}
    with pytest.raises(dataclasses.FrozenInstanceError):
        declared.disableable = True  # type: ignore[misc]
    with pytest.raises(TypeError):
        declared.intercept["turn.start"] = Grant()  # type: ignore[index]


def test_the_default_denies_tool_calls_and_tells_everything() -> None:
    """What the first version of a client could do, and the whole of observation."""
    declared = Capabilities()
    assert declared.intercept == {"tool.before": Grant(("deny",))}
    assert declared.observed == set(EVENTS)
    assert declared == Capabilities()


def test_what_is_intercepted_is_observed_as_well() -> None:
    """An uncalled interceptor has to be told (R-OBS-02), whatever else is observed."""
    declared = Capabilities({"turn.start": Grant()}, observe=())
    assert declared.observed == {"turn.start"}


# --- for one call ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("narrowed", "widens"),
    [
        (Grant(("deny",)), False),
        (Grant(), False),
        (Grant(("deny", "ask")), True),
        (Grant(modify=Modify(merge=False)), False),
        (Grant(modify=Modify()), True),
        (Grant(inject=Inject(("now",))), True),
        (Grant(flow=Flow(("stop",))), True),
    ],
)
def test_a_call_may_grant_less_and_never_more(
    narrowed: Grant, widens: bool, open_client: Clients
) -> None:
    """R-CAP-01: widening is an error of the call, before anything is sent."""
    declared = Grant(("deny", "message"), Modify(merge=False))
    backend = Backend()
    client = open_client(backend, capabilities=Capabilities({"tool.before": declared}))
    if widens:
        with pytest.raises(InvalidEvent, match=r"what was declared for tool\.before") as caught:
            client.dispatch("tool.before", PAYLOADS["tool.before"], capabilities=narrowed)
        assert caught.value.path == "capabilities"
        assert backend.messages == []
        return
    outcome = client.dispatch("tool.before", PAYLOADS["tool.before"], capabilities=narrowed)
    assert_proceeds(outcome)
    assert capabilities_of(backend) == narrowed.to_json("tool.before")


def test_an_answer_is_measured_by_what_this_call_granted(open_client: Clients) -> None:
    """What was declared but not offered this time is refused (R-CAP-02)."""
    backend = Backend(says(note("hi")))
    client = open_client(backend, capabilities=Capabilities({"tool.before": Grant(("message",))}))
    assert_proceeds(client.tool_before(name="Bash", input={}))
    outcome = client.tool_before(name="Bash", input={}, capabilities=Grant())
    assert_synthetic_denial(outcome, failure_class="effects")


@pytest.mark.parametrize("grant", ["deny", ("deny",), {"effects": ["deny"]}])
def test_a_grant_is_a_grant(grant: Any, open_client: Clients) -> None:
    """Nothing else stands in for it."""
    with pytest.raises(TypeError, match="capabilities must be a Grant"):
        open_client(Backend()).tool_before(name="Bash", input={}, capabilities=grant)


def test_nothing_can_be_granted_where_nothing_was_declared(open_client: Clients) -> None:
    """Not even nothing: nobody may decide there, so nobody is asked."""
    backend = Backend(says(note("hi")), observe(["turn.start"]))
    client = open_client(backend)
    assert_proceeds(client.dispatch("turn.start", PAYLOADS["turn.start"]))
    assert backend.methods == ["observe"]
    with pytest.raises(InvalidEvent, match=r"what was declared for turn\.start"):
        client.dispatch("turn.start", PAYLOADS["turn.start"], capabilities=Grant())


def test_an_event_that_was_not_declared_is_not_raised(open_client: Clients) -> None:
    """A host that says it tells nothing of turns does not."""
    client = open_client(Backend(), capabilities=Capabilities(observe=("tool.after",)))
    with pytest.raises(InvalidEvent) as caught:
        client.dispatch("turn.start", PAYLOADS["turn.start"])
    assert caught.value.path == "$.type"


@pytest.mark.parametrize("wrong", [5, {"tool.before": Grant()}, Grant(("deny",)), "deny"])
def test_a_client_takes_a_declaration(wrong: Any, open_client: Clients) -> None:
    """Nothing else stands in for it."""
    with pytest.raises(TypeError, match="capabilities must be Capabilities"):
        open_client(Backend(), capabilities=wrong)


# --- what is advertised ---------------------------------------------------------------------------


def options_for(event_type: str) -> dict[str, Any]:
    """Return what a call of this event needs besides its payload."""
    if event_type != "user.elicitation.result":
        return {}
    return {"request": event_of("user.elicitation.request", id="asked")}


@pytest.mark.parametrize("event_type", INTERCEPTED)
def test_every_request_advertises_exactly_what_was_granted(
    event_type: str, open_client: Clients
) -> None:
    """R-CAP-02: with everything granted at each of the 19 events, and what is offered is valid."""
    backend = Backend(None, EVERYWHERE)
    client = open_client(backend, capabilities=Capabilities.whole(max_continuations=2))
    client.dispatch(event_type, PAYLOADS[event_type], **options_for(event_type))
    grant = Grant.whole(event_type, max_continuations=2)
    assert capabilities_of(backend) == grant.to_json(event_type)
    assert capabilities_problem(event_type, capabilities_of(backend)) is None


def test_the_same_over_the_network() -> None:
    """One event with every block there is, through a real server."""
    with HttpBackend() as backend:
        document = backend.registration(subscriptions=[EVERYWHERE])
        with client_of(document, capabilities=Capabilities.whole()) as client:
            client.dispatch("tool.after", PAYLOADS["tool.after"])
        block = backend.requests[0].message["params"]["capabilities"]
    assert block == {
        "effects": ["message", "modify", "flow", "inject"],
        "modify": {"output": {"replace": True, "merge": True}},
        "flow": {
            "operations": ["stop", "continue"],
            "maxContinuations": 1,
            "continuationCount": 0,
            "remainingContinuations": 1,
        },
        "inject": {"context": {"append": True, "deliverAt": ["now", "next_turn"]}},
    }


def client_of(document: Any, **options: Any) -> Client:
    from ahp_sync import Harness

    return Client(document, source="urn:example:tests", harness=Harness("tests", "1"), **options)


# --- continuations (R-CAP-03) ---------------------------------------------------------------------

FINISH = PAYLOADS["turn.finish.before"]


def turns(*backends: Backend, open_client: Clients, most: int = 3) -> Client:
    """Return a client whose turns may be continued ``most`` times."""
    grant = Grant(("message",), flow=Flow(("stop", "continue"), max_continuations=most))
    return open_client(*backends, capabilities=Capabilities({"turn.finish.before": grant}))


def finisher(act: Any = None, number: int = 0, **more: Any) -> Backend:
    """Return a backend that is asked about turns."""
    subscription = intercept(["turn.finish.before"], **more)
    return Backend(act, subscription, id=f"com.example.n{number}")


@pytest.mark.parametrize(("count", "left"), [(0, 3), (1, 2), (2.0, 1), (3, 0), (4, 0), (10**20, 0)])
def test_the_count_of_the_event_is_that_of_the_flow(
    count: Any, left: int, open_client: Clients
) -> None:
    """``continuationCount`` of the turn flows into the capabilities, and what is left with it."""
    backend = finisher()
    client = turns(backend, open_client=open_client)
    outcome = client.dispatch("turn.finish.before", {**FINISH, "continuationCount": count})
    assert capabilities_of(backend)["flow"] == {
        "operations": ["stop", "continue"],
        "maxContinuations": 3,
        "continuationCount": count,
        "remainingContinuations": left,
    }
    assert outcome.remaining_continuations == left


def test_what_is_left_shrinks_along_the_chain(open_client: Clients) -> None:
    """Each response with a ``continue`` consumes one; the instructions accumulate (R-SET-11)."""
    backends = [
        finisher(says(go_on("a"), go_on("b")), 1),
        finisher(says(note("fine")), 2),
        finisher(says(go_on("c")), 3),
        finisher(None, 4),
    ]
    client = turns(*backends, open_client=open_client)
    outcome = client.dispatch("turn.finish.before", {**FINISH, "continuationCount": 1})
    left = [capabilities_of(one)["flow"]["remainingContinuations"] for one in backends]
    assert left == [2, 1, 1, 0]
    assert {capabilities_of(one)["flow"]["continuationCount"] for one in backends} == {1}
    assert_proceeds(outcome)
    assert (outcome.flow, outcome.instructions) == ("continue", ("a", "b", "c"))
    assert outcome.remaining_continuations == 0


def test_where_nothing_is_left_a_continue_is_refused(open_client: Clients) -> None:
    """As unadvertised: with fail-open the turn ends as it would have."""
    last = finisher(says(go_on("more")), 1)
    more = finisher(says(note("x"), go_on("and more")), 2, policy="fail-open")
    client = turns(last, more, open_client=open_client, most=1)
    outcome = client.dispatch("turn.finish.before", FINISH)
    assert (outcome.instructions, outcome.messages) == (("more",), ())
    assert [failure.code for failure in outcome.failures] == ["unadvertised_effect"]
    assert outcome.failed_open


def test_a_stop_consumes_nothing(open_client: Clients) -> None:
    """R-SET-11: even with a ``continue`` beside it."""
    client = turns(finisher(says(go_on("a"), stop("no"))), open_client=open_client)
    outcome = client.dispatch("turn.finish.before", FINISH)
    assert (outcome.flow, outcome.reason, outcome.remaining_continuations) == ("stop", "no", 3)


def test_a_narrowed_flow_is_counted_too(open_client: Clients) -> None:
    """What the turn has used up can't be granted once more by a call (R-CAP-01, R-CAP-03)."""
    backend = finisher()
    client = turns(backend, open_client=open_client)
    used = {**FINISH, "continuationCount": 2}
    fewer = Grant(flow=Flow(("continue",), remaining_continuations=1))
    client.dispatch("turn.finish.before", used, capabilities=fewer)
    assert capabilities_of(backend)["flow"]["remainingContinuations"] == 1
    more = Grant(flow=Flow(("continue",), remaining_continuations=2))
    with pytest.raises(InvalidEvent, match=r"what was declared for turn\.finish"):
        client.dispatch("turn.finish.before", used, capabilities=more)


def test_without_a_continue_there_is_no_count(open_client: Clients) -> None:
    """None is not zero."""
    assert open_client(Backend()).tool_before(name="Bash", input={}).remaining_continuations is None


# --- content (R-EFF-03, R-CON-07) -----------------------------------------------------------------


@pytest.mark.parametrize("level", ["metadata", "omit"])
def test_who_can_not_see_a_text_is_not_offered_to_replace_it(
    level: str, open_client: Clients
) -> None:
    """R-EFF-03, D-15: an append is; and ``replace`` is refused where it was not offered."""
    blind = Backend(None, intercept(["turn.start"], content={"default": level}))
    sighted = Backend(None, intercept(["turn.start"]), id="com.example.two")
    client = open_client(blind, sighted, capabilities=Capabilities.whole())
    client.dispatch("turn.start", PAYLOADS["turn.start"])
    assert capabilities_of(blind)["modify"] == {"prompt": {"replace": False, "merge": True}}
    assert capabilities_of(sighted)["modify"] == {"prompt": {"replace": True, "merge": True}}
    blind.act = says(modify("prompt", "replace", []))
    outcome = client.dispatch("turn.start", PAYLOADS["turn.start"])
    assert_synthetic_denial(outcome, failure_class="effects")


def test_who_sees_all_texts_may_replace_them_beside_hidden_pictures(open_client: Clients) -> None:
    """Only withheld text stands in the way; a picture keeps its place by merging (R-CON-06)."""
    picture = {
        "id": "p-9",
        "kind": "attachment",
        "mediaType": "image/png",
        "selection": "body",
        "body": {"ref": "blob-1"},
    }
    content = {"default": "omit", "text": "body"}
    backend = Backend(None, intercept(["turn.start"], content=content))
    client = open_client(backend, capabilities=Capabilities.whole())
    items = [message("m-1", "look", picture)]
    client.dispatch("turn.start", {**PAYLOADS["turn.start"], "items": items})
    assert capabilities_of(backend)["modify"]["prompt"]["replace"]


def test_a_gap_hides_a_text_as_well(open_client: Clients) -> None:
    """R-EFF-03: whoever the text is missing for can't replace it."""
    gap = {
        "id": "p-9",
        "kind": "text",
        "mediaType": "text/plain",
        "selection": "body",
        "gap": {"reason": "too_large"},
    }
    backend = Backend(None, intercept(["turn.start"]))
    client = open_client(backend, capabilities=Capabilities.whole())
    client.dispatch("turn.start", {**PAYLOADS["turn.start"], "items": [message("m-1", gap)]})
    assert capabilities_of(backend)["modify"] == {"prompt": {"replace": False, "merge": True}}


def test_what_only_replaces_is_not_offered_at_all(open_client: Clients) -> None:
    """Neither the effect nor an empty block of it (section 7)."""
    backend = Backend(None, intercept(["turn.start"], content={"default": "omit"}))
    grant = Grant(("deny",), Modify(merge=False))
    client = open_client(backend, capabilities=Capabilities({"turn.start": grant}))
    client.dispatch("turn.start", PAYLOADS["turn.start"])
    assert capabilities_of(backend) == {"effects": ["deny"]}


@pytest.mark.parametrize(
    ("event_type", "gone"),
    [
        ("context.compact.before", {"modify", "return"}),
        ("context.compact.after", {"modify"}),
        ("user.elicitation.request", {"return"}),
        ("user.elicitation.result", {"modify"}),
    ],
)
def test_what_depends_on_a_body_needs_it_in_the_view(
    event_type: str, gone: set[str], open_client: Clients
) -> None:
    """R-CON-07, R-ELI-04, D-16: it is not offered otherwise; a ``deny`` is, all the same."""
    blind = Backend(None, intercept([event_type], content={"default": "metadata"}))
    client = open_client(blind, capabilities=Capabilities.whole())
    client.dispatch(event_type, PAYLOADS[event_type], **options_for(event_type))
    whole = Grant.whole(event_type)
    assert set(capabilities_of(blind)["effects"]) == set(whole.names) - gone
    assert capabilities_problem(event_type, capabilities_of(blind)) is None


def test_instructions_that_are_not_there_hide_nothing(open_client: Clients) -> None:
    """D-21: a compaction without any can be supplied; there is nothing to edit."""
    payload = {"trigger": "auto", "items": []}
    backend = Backend(None, intercept(["context.compact.before"], content={"default": "omit"}))
    client = open_client(backend, capabilities=Capabilities.whole())
    client.dispatch("context.compact.before", payload)
    effects = capabilities_of(backend)["effects"]
    assert "return" in effects
    assert "modify" not in effects


# --- the manifest (R-CAP-06) ----------------------------------------------------------------------

DECLARATIONS = st.builds(
    Capabilities,
    st.dictionaries(st.sampled_from(INTERCEPTED), st.just(None)).map(
        lambda chosen: {name: Grant.whole(name, max_continuations=3) for name in chosen}
    ),
    st.lists(st.sampled_from(sorted(EVENTS)), unique=True),
    gaps=st.lists(st.just(("tool.output", "not recorded")), max_size=1).map(tuple),
    limits=st.dictionaries(
        st.sampled_from(["maxUploadBytes", "maxContinuations", "minTimeoutMs", "maxTimeoutMs"]),
        st.integers(0, 10**9),
    ),
    policy_scopes=st.lists(st.sampled_from(["user", "project"]), unique=True),
    disableable=st.booleans(),
)


@given(DECLARATIONS)
def test_every_manifest_is_valid_by_our_schema(declared: Capabilities) -> None:
    """Whatever is declared; and it says of each event what can be done there."""
    manifest = declared.manifest()
    assert manifest_problem(manifest) is None
    entries = {entry["event"]: entry for entry in manifest["events"]}
    assert set(entries) == declared.observed
    for name, entry in entries.items():
        assert ("intercept" in entry["modes"]) is (name in declared.intercept)
        assert ("capabilities" in entry) is (name in declared.intercept)


def test_every_manifest_is_valid_by_the_official_schema() -> None:
    """The same by the SDK's own validator."""
    runtime = pytest.importorskip(
        "agenthooksprotocol.runtime", reason="the official SDK is not installed"
    )
    validator = runtime.Validator()
    chosen = Capabilities(
        {"turn.finish.before": Grant.whole("turn.finish.before")},
        observe=("turn.end",),
        gaps=(("tool.output", "not recorded"),),
        limits={"minTimeoutMs": 100, "maxContinuations": 3},
        policy_scopes=("user",),
        disableable=True,
    )
    for declared in (Capabilities(), Capabilities.whole(), Capabilities({}, ()), chosen):
        response = {
            "jsonrpc": "2.0",
            "id": "q-1",
            "result": {"protocolVersion": "draft", "manifest": declared.manifest()},
        }
        validator.validate("capabilities-response", response)


def test_a_session_brings_the_manifest_along(open_client: Clients) -> None:
    """It is the client's own, and the same that it gives a host that serves the query."""
    backend = Backend(None, observe(["session.start"]))
    client = open_client(backend, capabilities=Capabilities.whole())
    client.session_start(session="s-1")
    assert backend.events[0]["manifest"] == client.manifest() == Capabilities.whole().manifest()


def test_a_denial_can_be_declared_away(open_client: Clients) -> None:
    """A host that declares no deny accepts none: as a failure, whose policy decides."""
    backend = Backend(says(DENY), intercept(policy="fail-open"))
    client = open_client(backend, capabilities=Capabilities({"tool.before": Grant(("message",))}))
    outcome = client.tool_before(name="Bash", input={})
    assert outcome.may_execute
    assert outcome.failed_open
