"""One event, built and checked before anything is sent (section 3 of the wire reference)."""

from __future__ import annotations

import json
import re
import uuid
from datetime import datetime, timedelta, timezone, tzinfo
from typing import Any, Optional

import pytest
from answering import INTERCEPTED, PAYLOADS, event_of
from hypothesis import given
from hypothesis import strategies as st
from strategies import OBJECTS, TEXT

from ahp_sync import Harness, InvalidEvent
from ahp_sync.protocol.jsonrpc import MAX_DEPTH, parse_object
from ahp_sync.protocol.messages import intercept_request, observe_notification
from ahp_sync.protocol.occurrence import Origin, session_object

HARNESS = Harness("tests", "1.0")
ORIGIN = Origin("urn:example:tests", HARNESS)
NOON = datetime(2026, 3, 1, 12, 0, tzinfo=timezone.utc)
#: What the tests' payloads have and their events could do without.
OPTIONAL = {
    "context.compact.before": ("instructions",),
    "context.compact.after": ("items",),
    "user.elicitation.result": ("parentEventId",),
}
BEFORE: dict[str, Any] = {
    "call": {"id": "c"},
    "tool": {"name": "Bash", "origin": "native", "input": {}},
    "path": "native",
}


def event(payload: Optional[dict[str, Any]] = None, **kwargs: Any) -> dict[str, Any]:
    """Return a ``tool.before`` event."""
    return ORIGIN.event("tool.before", BEFORE if payload is None else payload, **kwargs)


def refusal(*args: Any, **kwargs: Any) -> InvalidEvent:
    """Return the error that an event meets."""
    with pytest.raises(InvalidEvent) as raised:
        ORIGIN.event(*args, **kwargs)
    return raised.value


# --- harness and source ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "version", "error"),
    [
        ("", "1", ValueError),
        ("x", "", ValueError),
        ("x", 1, TypeError),
        (None, "1", TypeError),
        (b"x", "1", TypeError),
        ("x", "\ud800", ValueError),
    ],
)
def test_a_harness_has_a_name_and_a_version(name: Any, version: Any, error: type) -> None:
    """Both are non-empty strings that UTF-8 can carry."""
    with pytest.raises(error, match=r"harness (name|version)"):
        Harness(name, version)


@pytest.mark.parametrize(
    "source",
    [
        "urn:example:my-agent",
        "https://example.com/agents/1?x=y#z",
        "a:b",
        "x-9+.:%41",
        "http://[::1]:80/",
        "mailto:a@example.com",
        "file:///srv/agent",
    ],
)
def test_an_absolute_uri_is_a_source(source: str) -> None:
    """Any scheme will do (R-EVT-02)."""
    assert Origin(source, HARNESS).event("tool.before", BEFORE)["source"] == source


@pytest.mark.parametrize(
    "source",
    [
        "",
        "my-agent",
        "/agents/1",
        "//example.com/x",
        "1urn:x",
        "urn:",
        "urn:a b",
        "urn:example:x\n",
        " urn:example:x",
        "urn:example:%4",
        "urn:example:%zz",
        "urn:exämple:x",
        "http://a b/",
        "urn:example:x#a#b",
        'urn:example:"x"',
        "urn:example:\\x",
        "urn:example:{x}",
        "http://[::1/",
    ],
)
def test_anything_else_is_no_source(source: str) -> None:
    """Relative, empty, blank-ridden and badly escaped ones are refused (R-EVT-02)."""
    with pytest.raises(ValueError, match="source must be an absolute URI"):
        Origin(source, HARNESS)


@pytest.mark.parametrize("source", [None, b"urn:x:y", 1])
def test_a_source_is_text(source: Any) -> None:
    """Other types are refused with the name of the argument."""
    with pytest.raises(TypeError, match="source"):
        Origin(source, HARNESS)


@pytest.mark.parametrize("harness", [None, "tests", ("tests", "1"), {"name": "x", "version": "1"}])
def test_a_harness_is_a_harness(harness: Any) -> None:
    """Nothing else stands in for it."""
    with pytest.raises(TypeError, match="harness"):
        Origin("urn:x:y", harness)


# --- ids and time ---------------------------------------------------------------------------------


def test_an_event_id_is_made_up_once_each() -> None:
    """Without an id of the host's, each event has its own, which nobody else has."""
    ids = {event()["id"] for _ in range(100)}
    assert len(ids) == 100
    assert all(uuid.UUID(one).version == 4 for one in ids)


@given(TEXT.filter(bool))
def test_the_hosts_own_id_is_kept(event_id: str) -> None:
    """It is the event's id, and the JSON-RPC id of the request (R-RPC-02)."""
    message = intercept_request(event(event_id=event_id), {"effects": []}, {})
    assert message.rpc_id == event_id
    body = json.loads(message.body)
    assert body["id"] == body["params"]["event"]["id"] == event_id


@pytest.mark.parametrize("event_id", ["", 0, 7, b"x", ["x"], "\ud800", True])
def test_an_id_that_is_none_is_refused(event_id: Any) -> None:
    """An id is a non-empty string; nothing is silently made up in its place."""
    assert refusal("tool.before", BEFORE, event_id=event_id).path == "$.id"


RFC_3339 = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)", re.ASCII
)
ZONES = st.timedeltas(timedelta(hours=-23, minutes=-59), timedelta(hours=23, minutes=59)).map(
    timezone
)


@given(st.datetimes(timezones=ZONES))
def test_a_time_is_written_as_rfc_3339_has_it(time: datetime) -> None:
    """Whatever its zone, also one with seconds in it, it names the same millisecond."""
    try:
        text = event(time=time)["time"]
    except InvalidEvent:
        assert time.year in (1, 9999)
        return
    assert RFC_3339.fullmatch(text)
    again = datetime.fromisoformat(text)
    assert abs(again - time) < timedelta(milliseconds=1)


def test_the_time_is_now_unless_the_host_says_otherwise() -> None:
    """In UTC, with milliseconds."""
    before = datetime.now(timezone.utc)
    told = datetime.fromisoformat(event()["time"])
    assert told.utcoffset() == timedelta(0)
    assert timedelta(milliseconds=-1) <= told - before < timedelta(seconds=10)


class NoZone(tzinfo):
    """A zone that does not know its offset."""

    def utcoffset(self, when: Optional[datetime]) -> None:
        return None

    dst = utcoffset

    def tzname(self, when: Optional[datetime]) -> str:
        return "nowhere"


@pytest.mark.parametrize(
    "time",
    [datetime(2026, 1, 1), datetime(2026, 1, 1, tzinfo=NoZone()), "2026-01-01T00:00:00Z", 0, 1.5],
)
def test_a_time_without_a_zone_is_refused(time: Any) -> None:
    """A naive time would be read differently by each side."""
    assert refusal("tool.before", BEFORE, time=time).path == "$.time"


# --- types and members ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "event_type", ["", "tool", "tool.*", "tool.before ", "Tool.before", "x.y", None, 1, ["x"], {}]
)
def test_an_unknown_type_is_refused(event_type: Any) -> None:
    """Whatever it is, with the place and what is right."""
    assert refusal(event_type, BEFORE).path == "$.type"


@pytest.mark.parametrize("event_type", INTERCEPTED)
def test_every_event_is_built_of_its_payload(event_type: str) -> None:
    """The client's own members stand beside those of the payload, and nothing else."""
    payload = PAYLOADS[event_type]
    built = ORIGIN.event(event_type, payload, event_id="e-1", time=NOON)
    assert built == {
        "id": "e-1",
        "source": "urn:example:tests",
        "type": event_type,
        "time": "2026-03-01T12:00:00.000+00:00",
        "harness": {"name": "tests", "version": "1.0"},
        **payload,
    }


@pytest.mark.parametrize("event_type", INTERCEPTED)
def test_every_event_needs_its_payload(event_type: str) -> None:
    """None of them is empty, and the error says what is missing."""
    for name in PAYLOADS[event_type]:
        if name in ("session", "batch"):
            continue  # which most events can do without
        less = {key: value for key, value in PAYLOADS[event_type].items() if key != name}
        if name not in OPTIONAL.get(event_type, ()):
            assert refusal(event_type, less).path == "$"


@pytest.mark.parametrize("name", ["id", "source", "type", "time", "harness"])
def test_the_clients_own_members_are_not_the_hosts(name: str) -> None:
    """A payload can't pretend to be another event, source or harness (R-EVT-02)."""
    assert refusal("tool.before", {**BEFORE, name: "x"}).path == f"$.{name}"


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"call": None}, "$.call"),
        ({"call": {"id": ""}}, "$.call.id"),
        ({"call": {"id": "c", "x": 1}}, "$.call"),
        ({"tool": {"name": "Bash", "origin": "native"}}, "$.tool"),
        ({"tool": {"name": "", "origin": "native", "input": {}}}, "$.tool.name"),
        ({"tool": {"name": "Bash", "origin": "native", "input": []}}, "$.tool.input"),
        ({"tool": {"name": "Bash", "origin": "native", "input": {"a": 1j}}}, "$.tool.input.a"),
        ({"path": ""}, "$.path"),
        ({"outcome": "ok"}, "$"),
        ({"session": {}}, "$.session"),
        ({"session": {"id": "s", "counters": {"n": -1}}}, "$.session.counters.n"),
        ({"extensions": {"nodots": 1}}, "$.extensions"),
        ({"extensions": {"x.y\n": 1}}, "$.extensions"),
        ({"parentEventId": ""}, "$.parentEventId"),
        ({"turn": {"id": ""}}, "$.turn.id"),
        ({"gaps": [{"path": "x"}]}, "$.gaps[0]"),
        ({"synthesized": 1}, "$.synthesized"),
    ],
)
def test_a_member_that_is_wrong_is_named(change: dict[str, Any], path: str) -> None:
    """The error has the JSON path of what is wrong, and says what is right."""
    error = refusal("tool.before", {**BEFORE, **change})
    assert error.path.startswith(path)
    assert error.wanted


@given(OBJECTS.filter(lambda members: not set(members) & {"id", "x"}))
def test_unknown_members_of_the_event_are_kept(members: dict[str, Any]) -> None:
    """The top level of an event is open (R-EVT-01)."""
    extra = {f"x{name}": one for name, one in members.items()}
    built = event({**BEFORE, **extra})
    assert {name: built[name] for name in extra} == extra


def test_the_event_is_the_hosts_no_longer() -> None:
    """Neither a later change of the arguments nor of one event shows in another."""
    payload = json.loads(json.dumps(BEFORE))
    native: dict[str, Any] = {"a": [1]}
    first = event(payload, native=native)
    payload["tool"]["input"]["late"] = native["a"][:] = [2]
    first["harness"]["name"] = "somebody else"
    assert first["tool"]["input"] == {}
    assert first["native"] == {"a": [1]}
    assert event()["harness"] == {"name": "tests", "version": "1.0"}


def test_the_deepest_event_is_not_too_deep_as_a_message() -> None:
    """What is accepted can be read by a reader as strict as our own (F41)."""
    accepted = 0
    for levels in range(MAX_DEPTH - 10, MAX_DEPTH + 1):
        value: Any = 1
        for _ in range(levels):
            value = [value]
        for payload, native in ((event_with_input(value), None), (BEFORE, value)):
            try:
                built = event(payload, native=native)
            except InvalidEvent:
                continue
            accepted += 1
            parse_object(intercept_request(built, {}, {}).body)
            parse_object(observe_notification(built).body)
    assert accepted


def event_with_input(value: Any) -> dict[str, Any]:
    """Return a payload with ``value`` in the tool's input."""
    return {**BEFORE, "tool": {**BEFORE["tool"], "input": {"value": value}}}


# --- sessions -------------------------------------------------------------------------------------


def test_a_session_is_an_id_or_an_object() -> None:
    """A plain id is enough; an object is copied."""
    given_ = {"id": "s", "cwd": "/"}
    assert session_object(None) is None
    assert session_object("s") == {"id": "s"}
    assert session_object(given_) == given_
    assert session_object(given_) is not given_


@pytest.mark.parametrize("session", [1, b"s", ["s"], object()])
def test_anything_else_is_no_session(session: Any) -> None:
    """With the place of the mistake."""
    with pytest.raises(InvalidEvent) as raised:
        session_object(session)
    assert raised.value.path == "$.session"


# --- elicitation ----------------------------------------------------------------------------------


def test_a_result_is_checked_against_its_request() -> None:
    """R-ELI-04: same source, session, mode and parent; the error names the member."""
    asked = ORIGIN.event("user.elicitation.request", PAYLOADS["user.elicitation.request"])
    told = {**PAYLOADS["user.elicitation.result"], "parentEventId": asked["id"]}
    built = ORIGIN.event("user.elicitation.result", told, request=asked)
    assert built["parentEventId"] == asked["id"]
    for change, path in (
        ({"parentEventId": "another"}, "$.parentEventId"),
        ({"session": {"id": "another"}}, "$.session.id"),
    ):
        error = refusal("user.elicitation.result", {**told, **change}, request=asked)
        assert error.path == path
    foreign = {**asked, "source": "urn:example:others"}
    assert refusal("user.elicitation.result", told, request=foreign).path == "$.source"
    other = event_of("turn.start")
    assert refusal("user.elicitation.result", told, request=other).path == "request.type"


def test_the_text_of_an_elicitation_is_read() -> None:
    """R-ELI-01: one JSON object, strictly, without a key twice."""
    payload = json.loads(json.dumps(PAYLOADS["user.elicitation.request"]))
    for text in ("", "[]", "{", '{"mode": "form", "mode": "form"}', '{"n": NaN}', "{} {}"):
        payload["elicitation"]["request"]["text"] = text
        assert refusal("user.elicitation.request", payload).path == "$.elicitation.request"
