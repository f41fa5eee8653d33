"""What backends answer when asked: what is adopted, what is refused, who has to approve."""

from __future__ import annotations

import copy
import logging
from typing import Any, Callable

import pytest
from asked import Asked, answers, configuration_result, open_runtime, subscribed, subscribes, wants
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from inprocess import GENEROUS, Backend, hangs, observe
from strategies import JSON, near

from ahp_sync import Budget, FailurePolicy
from ahp_sync.capabilities import Capabilities
from ahp_sync.discovery import ConfigurationDiagnostic
from ahp_sync.failure import OperationalFailure
from ahp_sync.grants import Grant
from ahp_sync.protocol.configuration import MAX_BYTES, configuration_of
from ahp_sync.protocol.content import ContentSelection
from ahp_sync.protocol.events import EVENTS, Mode
from ahp_sync.protocol.registration_schema import MAX_TIMEOUT_MS
from ahp_sync.registration import BearerBinding, Subscription, UploadRoute

UPLOAD = {"endpoint": "https://uploads.example.com/x", "timeoutMs": 500, "maxBytes": 1024}


def diagnosed(backend: Asked, **options: Any) -> ConfigurationDiagnostic:
    """Return why the backend is not used."""
    with open_runtime(backend, **options) as runtime:
        assert runtime.discover(Budget(GENEROUS))
        for mode in Mode:
            for event in EVENTS:
                assert subscribed(runtime, mode, event) == []
        (diagnostic,) = runtime.configuration_diagnostics
    assert diagnostic.backend == backend.id
    return diagnostic


# --- what is adopted (R-DISC-04) ------------------------------------------------------------------


def test_every_setting_is_adopted() -> None:
    """As it was advertised, but for the events, which are narrowed to the host's."""
    advertised = {
        "events": ["tool.*", "turn.start"],
        "mode": "intercept",
        "timeoutMs": 1234,
        "failurePolicy": "fail-open",
        "content": {"default": "metadata", "text": "body"},
        "includeNative": True,
        "scope": "managed",
        "disableable": False,
        "filters": {"toolKinds": ["shell"]},
        "x-unknown": {"a": 1},
    }
    host = Capabilities({"tool.before": Grant(), "session.start": Grant()})
    backend = Asked(subscribes(observe(["file.*"]), advertised))
    with open_runtime(backend, capabilities=host) as runtime:
        assert runtime.discover(Budget(GENEROUS))
        assert subscribed(runtime) == [
            Subscription(
                backend=backend.id,
                index=1,
                selectors=("tool.*", "turn.start"),
                events=frozenset({"tool.before"}),
                mode=Mode.INTERCEPT,
                timeout_ms=1234,
                policy=FailurePolicy.FAIL_OPEN,
                content=ContentSelection("metadata", (("text", "body"),)),
                include_native=True,
                scope="managed",
                disableable=False,
            )
        ]


def test_what_selects_nothing_here_is_dropped() -> None:
    """A name the host does not declare, a family without an event for the mode, an unknown one."""
    host = Capabilities({"tool.before": Grant()}, observe=["tool.after"])
    backend = Asked(
        subscribes(
            wants(events=["turn.start"]),
            wants(events=["file.*"]),
            wants(events=["unknown.*"]),
            observe(["file.changed", "session.*"]),
            wants(events=["unknown.*", "*", "turn.start"]),
        )
    )
    with open_runtime(backend, capabilities=host) as runtime:
        assert runtime.discover(Budget(GENEROUS))
        (subscription,) = subscribed(runtime)
        assert (subscription.index, subscription.events) == (4, {"tool.before"})
        assert runtime.configuration_diagnostics == ()


def test_a_backend_may_want_nothing_that_the_host_declares() -> None:
    """It is not used then, and that is said."""
    host = Capabilities({"tool.before": Grant()}, observe=())
    diagnostic = diagnosed(Asked(subscribes(wants(events=["turn.*"]))), capabilities=host)
    assert diagnostic.reason == "no_applicable_subscriptions"
    assert diagnostic.detail == "it subscribes to nothing that this host declares"


@pytest.mark.parametrize(
    ("more", "detail"),
    [
        ({"timeout_ms": 99}, "timeoutMs is 99, not at least 100, this host's minTimeoutMs"),
        ({"timeout_ms": 9001}, "timeoutMs is 9001, not at most 9000, this host's maxTimeoutMs"),
        (
            {"scope": "managed", "disableable": False},
            'scope is "managed", not a scope that this host enforces: user, project',
        ),
        (
            {"disableable": False},
            "disableable is false, not true, or no such member: this host lets its users switch"
            " hooks off",
        ),
    ],
)
def test_what_the_host_cant_enforce_is_not_adopted(more: dict[str, Any], detail: str) -> None:
    """Nothing of the answer is: an answer is used whole or not at all (R-REG-09, R-REG-10)."""
    host = Capabilities(
        limits={"minTimeoutMs": 100, "maxTimeoutMs": 9000},
        policy_scopes=("user", "project"),
        disableable=True,
    )
    subscription = {**wants(), **({} if "timeout_ms" not in more else {"timeoutMs": 1})}
    if "timeout_ms" in more:
        subscription["timeoutMs"] = more["timeout_ms"]
    else:
        subscription.update(more)
    diagnostic = diagnosed(Asked(subscribes(wants(), subscription)), capabilities=host)
    assert diagnostic.reason == "no_applicable_subscriptions"
    assert diagnostic.detail == f"subscriptions[1].{detail}"


# --- what is refused (R-DISC-03) ------------------------------------------------------------------

GOOD = configuration_result(wants())


def without(member: str) -> dict[str, Any]:
    """Return the result without a member."""
    return {name: value for name, value in GOOD.items() if name != member}


def with_(**more: Any) -> dict[str, Any]:
    """Return the result with a changed subscription."""
    return configuration_result(wants(), {**wants(), **more})


IN_SECOND = "malformed/bad_configuration: $.configuration.subscriptions[1]"


@pytest.mark.parametrize(
    ("result", "detail"),
    [
        (without("protocolVersion"), "missing_result/no_configuration: the result has no protoc"),
        (without("configuration"), "missing_result/no_configuration: the result has no configu"),
        ({**GOOD, "protocolVersion": "0.1"}, "unsupported/protocol_version: the result's proto"),
        ({**GOOD, "manifest": {}}, "malformed/conflicting_members: the result of a configura"),
        ({**GOOD, "effects": []}, "malformed/conflicting_members: the result of a configurati"),
        ({**GOOD, "configuration": None}, "malformed/bad_configuration: $.configuration must be"),
        ({**GOOD, "configuration": {}}, "malformed/bad_configuration: $.configuration must be"),
        (configuration_result(), "malformed/bad_configuration: $.configuration.subscriptions must"),
        (configuration_result(None), "malformed/bad_configuration: $.configuration.subscriptions["),
        (with_(events=["tool.befor"]), f"{IN_SECOND}.events[0] must be an event of the draft in"),
        (with_(events=["tool.progress"]), f"{IN_SECOND}.events[0] must be an event of the draft"),
        (with_(events=["tool.*", "Tool.*"]), f"{IN_SECOND}.events[1] must be an event of the dr"),
        (with_(events=["tool.*", "tool.*"]), f"{IN_SECOND}.events must be a list with each en"),
        (with_(filters={"paths": ["a", "a"]}), f"{IN_SECOND}.filters.paths must be a list with"),
        (with_(events=[]), f"{IN_SECOND}.events must be a list of at least one event name"),
        (with_(timeoutMs=0), f"{IN_SECOND}.timeoutMs must be a whole number of milliseconds"),
        (with_(timeoutMs="5"), f"{IN_SECOND}.timeoutMs must be a whole number of milliseconds"),
        (with_(failurePolicy="open"), f"{IN_SECOND}.failurePolicy must be "),
        (with_(mode="observe"), f"{IN_SECOND}."),
        (with_(mode="watch"), f"{IN_SECOND}.mode must be "),
        (with_(content={}), f'{IN_SECOND}.content.default must be "body" or "metadata" or'),
        (with_(scope="managed"), f"{IN_SECOND}.disableable must be false, as"),
        (with_(upload={}), f"{IN_SECOND}.upload.endpoint must be an https URL"),
        (with_(upload={**UPLOAD, "endpoint": "http://x.example"}), f"{IN_SECOND}.upload"),
        ([], "malformed/result_not_an_object: the answer is not one strict JSON-RPC message"),
    ],
)
def test_an_answer_that_is_not_right_is_refused_whole(result: Any, detail: str) -> None:
    """Nothing in it is repaired, and what is said of it is in words of ours."""
    diagnostic = diagnosed(Asked(answers(result)))
    assert diagnostic.reason == "configuration_unavailable"
    assert diagnostic.detail.startswith(detail)


def raw(body: bytes) -> Callable[..., bytes]:
    """Answers with these bytes, whatever the request; ``ID`` stands for its id."""
    return lambda backend, message, budget: body.replace(b"ID", message["id"].encode())


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        (b"", "malformed/empty"),
        (b"[]", "malformed/batch"),
        (b'{"jsonrpc":"2.0","id":"other","result":{}}', "id_mismatch/id_mismatch"),
        (b'{"jsonrpc":"2.0","id":null,"result":{}}', "id_mismatch/id_mismatch"),
        (b'{"jsonrpc":"2.0","id":"ID","result":{},"result":{}}', "malformed/duplicate_key"),
        (
            b'{"jsonrpc":"2.0","id":"ID","error":{"code":-32601,"message":"secret"}}',
            "rpc_error/rpc_error: the backend answered with JSON-RPC error -32601",
        ),
        (
            b'{"jsonrpc":"2.0","id":"ID","result":{"x":"' + b"x" * MAX_BYTES + b'"}}',
            "malformed/too_large",
        ),
    ],
)
def test_an_answer_that_is_no_success_is_refused(body: bytes, detail: str) -> None:
    """Envelope, id and size are checked as for any other answer (R-RPC-03, R-ERR-02)."""
    diagnostic = diagnosed(Asked(raw(body)))
    assert diagnostic.reason == "configuration_unavailable"
    assert diagnostic.detail.startswith(detail)
    assert "secret" not in diagnostic.detail


def test_no_answer_is_a_failure() -> None:
    """A transport of the host's may take the request for a notification."""
    diagnostic = diagnosed(Asked(lambda backend, message, budget: None))
    assert diagnostic.detail == "malformed/empty: there was no answer"


@pytest.mark.parametrize("status", [201, 202, 206])
def test_only_status_200_is_a_success(status: int) -> None:
    """Unlike for interceptions, where any 2xx is (R-HTTP-02)."""
    diagnostic = diagnosed(Asked(status=status))
    assert diagnostic.detail == f"http_status/http_{status}: HTTP {status} is not 200"


def test_a_backend_cant_put_text_into_diagnostics(caplog: pytest.LogCaptureFixture) -> None:
    """Nor into the log, wherever it puts it: it may be the credential that it was sent."""
    canary = "canary51c2"
    good = wants()
    mistakes: list[dict[str, Any]] = [
        {canary: 1, **good, "timeoutMs": canary},
        {**good, "events": [canary]},
        {**good, "content": {"default": "body", canary: canary}},
        {**good, "content": {"default": canary}},
        {**good, "filters": {"paths": [canary, canary]}},
        {**good, "filters": {"paths": [{canary: canary}]}},
        {**good, "mode": canary},
        {**good, "scope": canary},
        {**good, "upload": {**UPLOAD, "auth": {"type": canary}}},
        {**good, "upload": {**UPLOAD, "endpoint": f"https:{canary}"}},
        {canary: canary},
    ]
    shown = []
    with caplog.at_level(logging.DEBUG, "ahp_sync"):
        for mistake in mistakes:
            diagnostic = diagnosed(Asked(subscribes(mistake)))
            assert diagnostic.reason == "configuration_unavailable"
            shown.append(repr(diagnostic))
    assert canary not in "".join(shown) + caplog.text


def test_a_long_answer_is_given_up_when_time_is_over() -> None:
    """Validation looks at the budget now and then."""
    looks = []

    def check() -> None:
        looks.append(1)
        if len(looks) == 5:
            raise OverflowError

    with pytest.raises(OverflowError):
        configuration_of(configuration_result(*[wants()] * 100), check)


# --- who has to approve (R-DISC-05, T-11) ---------------------------------------------------------


def test_without_an_approver_answers_are_used() -> None:
    """Unless they ask for uploads, which need approval; no credential is looked for."""
    with open_runtime(Asked()) as runtime:
        assert runtime.discover(Budget(GENEROUS))
        assert len(subscribed(runtime)) == 1
    diagnostic = diagnosed(Asked(subscribes(wants(), wants(upload=UPLOAD))))
    assert diagnostic.reason == "configuration_not_authorized"
    assert diagnostic.detail == "it asks for uploads, and there is no authorize_configuration"


def test_the_approver_sees_the_whole_answer() -> None:
    """Body content, native events, managed scope and what is unknown: all of it, in a copy."""
    subscription = {**wants(includeNative=True), "scope": "managed", "disableable": False}
    result = configuration_result({**subscription, "x": [1]}, observe(["file.*"]))
    result["configuration"]["note"] = "hello"
    backend = Asked(answers(result))
    seen = []

    def authorize(backend_id: str, configuration: Any) -> bool:
        seen.append((backend_id, copy.deepcopy(configuration)))
        configuration["subscriptions"][0]["failurePolicy"] = "fail-open"
        configuration["subscriptions"][0]["events"].append("session.start")
        configuration["subscriptions"].append({})
        return True

    with open_runtime(backend, authorize_configuration=authorize) as runtime:
        assert runtime.discover(Budget(GENEROUS))
        (subscription,) = subscribed(runtime)
    assert seen == [(backend.id, result["configuration"])]
    assert subscription.policy is FailurePolicy.FAIL_CLOSED
    assert subscription.events == {"tool.before"}


@pytest.mark.parametrize(
    "answer", [False, None, 1, "yes", [True], object()], ids=lambda a: type(a).__name__
)
def test_only_true_is_an_approval(answer: Any) -> None:
    """What merely looks like it is none."""
    diagnostic = diagnosed(Asked(), authorize_configuration=lambda *_: answer)
    assert diagnostic.reason == "configuration_not_authorized"
    assert diagnostic.detail == "authorize_configuration did not return True"


@pytest.mark.parametrize("error", [ValueError("why"), SystemExit(0), KeyboardInterrupt()])
def test_an_approver_that_raises_approves_of_nothing(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    """The host finds its own mistake in the log."""

    def authorize(*_: Any) -> bool:
        raise error

    diagnostic = diagnosed(Asked(), authorize_configuration=authorize)
    assert diagnostic.reason == "configuration_not_authorized"
    assert diagnostic.detail == f"authorize_configuration raised {type(error).__name__}"
    assert "authorize_configuration failed on backend com.example.asked" in caplog.text


def test_an_approver_that_hangs_approves_of_nothing() -> None:
    """The time for asking is its time, too; a late yes is none."""
    backend = Asked()

    def authorize(*_: Any) -> bool:
        return backend.released.wait(GENEROUS)

    diagnostic = diagnosed(backend, seconds=0.2, authorize_configuration=authorize)
    assert diagnostic.reason == "configuration_not_authorized"
    assert diagnostic.detail == "authorize_configuration did not return within 0.2 s"


def test_the_approver_is_not_asked_about_what_is_not_right() -> None:
    """Only about answers that could be used; and not once the time is over."""
    asked: list[str] = []

    def authorize(backend_id: str, configuration: Any) -> bool:
        asked.append(backend_id)
        return True

    late = Asked(id="com.example.late")

    def answers_late(backend: Backend, message: Any, budget: Budget) -> Any:
        backend.released.wait(GENEROUS)
        return subscribes(wants())(backend, message, budget)

    late.says = answers_late
    backends = late, Asked(answers({}), id="com.example.bad"), Asked(hangs, id="com.example.hangs")
    with open_runtime(*backends, seconds=0.2, authorize_configuration=authorize) as runtime:
        assert runtime.discover(Budget(GENEROUS))
        assert len(runtime.configuration_diagnostics) == 3
    assert asked == []


def test_uploads_that_are_approved_of_are_adopted() -> None:
    """R-DISC-04, R-DISC-05: unchanged; no credential is looked up before its time."""
    seen = []

    def authorize(backend_id: str, configuration: Any) -> bool:
        seen.append(configuration["subscriptions"][1]["upload"])
        return True

    upload = {**UPLOAD, "auth": {"type": "bearer", "tokenEnv": "TOKEN"}}
    backend = Asked(subscribes(wants(), wants(upload=upload)))
    with open_runtime(backend, authorize_configuration=authorize) as runtime:
        assert runtime.discover(Budget(GENEROUS))
        adopted = [one.upload for one in subscribed(runtime)]
    assert seen == [upload]
    assert adopted == [
        None,
        UploadRoute(UPLOAD["endpoint"], 500, 1024, BearerBinding("TOKEN")),
    ]


def test_an_upload_for_what_is_not_raised_here_keeps_nothing_back() -> None:
    """A subscription that is dropped anyway needs none."""
    host = Capabilities({"tool.before": Grant()}, observe=())
    says = subscribes(wants(), wants(events=["turn.start"], upload=UPLOAD))
    with open_runtime(
        Asked(says), capabilities=host, authorize_configuration=lambda *_: True
    ) as runtime:
        assert runtime.discover(Budget(GENEROUS))
        assert len(subscribed(runtime)) == 1


# --- the official schema as oracle ----------------------------------------------------------------

LEVELS = st.sampled_from(["body", "metadata", "omit"])
WILDCARDS = ("*", "tool.*", "file.*", "unknown.*")
ASKED = [event.name for event in EVENTS.values() if event.interceptable]


def advertised() -> st.SearchStrategy[dict[str, Any]]:
    """Return subscriptions that are right."""
    names = st.lists(st.sampled_from("ab"), unique=True)
    optional = {
        "includeNative": st.booleans(),
        "disableable": st.booleans(),
        "scope": st.sampled_from(["project", "user"]),
        "upload": st.just(UPLOAD),
        "filters": st.fixed_dictionaries(
            {}, optional={"paths": names, "toolKinds": names, "events": st.just(["x", "x"])}
        ),
    }
    content = st.fixed_dictionaries({"default": LEVELS}, optional={"text": LEVELS, "x": LEVELS})

    def of(mode: str, events: list[str], **more: Any) -> st.SearchStrategy[dict[str, Any]]:
        selectors = st.lists(st.sampled_from([*events, *WILDCARDS]), min_size=1, unique=True)
        members = {"mode": st.just(mode), "events": selectors, "content": content, **more}
        return st.fixed_dictionaries(members, optional=optional)

    policy = st.sampled_from(["fail-open", "fail-closed"])
    return of("observe", list(EVENTS)) | of(
        "intercept", ASKED, timeoutMs=st.integers(1, 30_000), failurePolicy=policy
    )


@st.composite
def results(draw: st.DrawFn) -> Any:
    """Return results that are right, or nearly."""
    result = configuration_result(*draw(st.lists(advertised(), min_size=1, max_size=2)))
    change = draw(st.sampled_from(["none", "near", "near", "selector", "member"]))
    if change == "near":
        return near(draw, result)
    if change == "selector":
        strange = st.sampled_from([*EVENTS, "Tool.*", "tool*", "*.*", "a1.*", "1a.*"])
        result["configuration"]["subscriptions"][0]["events"].append(draw(strange))
    if change == "member":
        result[draw(st.sampled_from(["manifest", "effects", "extensions", "x"]))] = draw(JSON)
    return result


def is_beyond_our_bounds(value: Any) -> bool:
    """Whether a value holds what we refuse anywhere: a NUL, a final line end, more than a day."""
    if isinstance(value, dict):
        return any(map(is_beyond_our_bounds, value.values()))
    if isinstance(value, list):
        return any(map(is_beyond_our_bounds, value))
    if isinstance(value, str):
        return "\0" in value or value.endswith("\n")
    return isinstance(value, (int, float)) and value > MAX_TIMEOUT_MS


@pytest.fixture(scope="module")
def official() -> Any:
    """Return the check of the official SDK: it raises what it refuses."""
    runtime = pytest.importorskip("agenthooksprotocol.runtime")
    return runtime.Validator()


@settings(max_examples=300)
@given(result=results())
def test_answers_are_judged_as_the_official_sdk_does(official: Any, result: Any) -> None:
    """What it accepts we accept, but for our bounds, and what it refuses we refuse."""
    assume(isinstance(result, dict))
    message = {"jsonrpc": "2.0", "id": "1", "result": result}
    try:
        official.validate("configuration-response", message)
    except Exception:
        accepted = False
    else:
        accepted = True
    try:
        configuration_of(result)
    except OperationalFailure:
        assert not accepted or is_beyond_our_bounds(result)
    else:
        assert accepted
