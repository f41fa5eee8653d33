"""Bad arguments of a client and of its calls: a clear error, before anything is started or sent."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Callable

import pytest
from inprocess import Backend, document, intercept, observe, ok

from ahp_sync import Client, Harness, InvalidEvent, Outcome, RegistrationError, TLSIdentity
from ahp_sync.testing import AuditLog

Clients = Callable[..., Client]
ME = "com.example.one"

CLIENT = [
    ("source", 5, TypeError, "source must be a URI string, not int"),
    ("source", "my-agent", ValueError, "source must be an absolute URI"),
    ("harness", "agent 1.0", TypeError, "harness must be a Harness, not str"),
    ("retry", 3, TypeError, "retry must be a RetryPolicy, not int"),
    ("max_workers", 0, ValueError, "max_workers must be a positive integer, not 0"),
    ("max_workers", True, ValueError, "max_workers must be a positive integer, not True"),
    ("observe_timeout", 0, ValueError, "observe_timeout must be a positive, finite number"),
    ("close_timeout", "1", TypeError, "close_timeout must be a number of seconds, not str"),
    ("audit", 3, TypeError, r"an audit sink needs a write\(record\) method; 3 has none"),
    ("audit", [AuditLog(), {}], TypeError, "an audit sink needs a write"),
    ("audit", AuditLog, TypeError, "an audit sink needs a write"),
    ("transports", 5, TypeError, "transports must be a mapping, not int"),
    ("transports", [ME], TypeError, "transports must be a mapping, not list"),
    ("transports", {"nope": Backend()}, ValueError, "transports: .* no backend 'nope'"),
    ("transports", {ME: None}, TypeError, f"transports: that of '{ME}' has no exchange method"),
    ("transports", {ME: Backend}, TypeError, f"transports: that of '{ME}' has no exchange"),
    ("stdio_processes", 0, ValueError, "stdio_processes must be at least 1"),
    ("stdio_processes", "2", TypeError, "stdio_processes must be an integer"),
    ("tls", TLSIdentity(), TypeError, "tls must be a mapping, not TLSIdentity"),
    ("tls", {"nope": TLSIdentity()}, ValueError, "tls: the registration has no backend 'nope'"),
    ("tls", {ME: "ca.pem"}, TypeError, f"tls: '{ME}' needs a TLSIdentity"),
    ("tls", {ME: TLSIdentity()}, ValueError, f"tls: the backend '{ME}' is not reached over https"),
    ("proxies", "http://proxy", TypeError, "proxies must be a mapping, not str"),
    ("proxies", {"http": 5}, TypeError, "proxies must map strings to strings"),
    ("proxies", {"http": "socks5://p"}, ValueError, "proxies: a proxy's URL must begin with"),
    ("trust_env", "no", TypeError, "trust_env must be True or False, not str"),
    ("registration", 5, RegistrationError, r"\$: found a value of type int"),
]


@pytest.mark.parametrize(
    ("name", "bad", "error", "message"), CLIENT, ids=[f"{row[0]}-{row[1]!r:.20}" for row in CLIENT]
)
def test_a_client_refuses_what_makes_no_sense(
    name: str, bad: Any, error: type[Exception], message: str
) -> None:
    """The error names the argument and says what is right."""
    options: dict[str, Any] = {
        "registration": document([Backend()]),
        "source": "urn:example:tests",
        "harness": Harness("tests", "1"),
        name: bad,
    }
    with pytest.raises(error, match=message):
        Client(options.pop("registration"), **options)


@pytest.mark.parametrize(
    ("name", "version", "error"),
    [("", "1", ValueError), ("a", "", ValueError), (None, "1", TypeError), ("a", 1, TypeError)],
)
def test_a_harness_has_a_name_and_a_version(
    name: Any, version: Any, error: type[Exception]
) -> None:
    """Both are non-empty strings, and the message says which one is not."""
    with pytest.raises(error, match=r"harness (name|version) must"):
        Harness(name, version)


# --- the hook methods -------------------------------------------------------------------------

USED: dict[str, dict[str, Any]] = {
    "tool_before": {"name": "Bash", "input": {}},
    "tool_after": {"name": "Bash", "input": {}, "call_id": "c-1"},
    "session_start": {"session": "s-1"},
    "session_end": {"session": "s-1"},
}
#: Method, argument, a bad value, and the path and a word of the error.
CALLS: list[tuple[str, str, Any, str, str]] = [
    ("tool_before", "name", "", "$.tool.name", "non-empty"),
    ("tool_before", "name", None, "$.tool.name", "string"),
    ("tool_before", "input", "ls", "$.tool.input", "object"),
    ("tool_before", "input", None, "$.tool.input", "object"),
    ("tool_before", "input", {"a": {1}}, "$.tool.input.a", "JSON value"),
    ("tool_before", "input", {1: 2}, "$.tool.input", "string keys"),
    ("tool_before", "call_id", "", "$.call.id", "non-empty"),
    ("tool_before", "origin", "elsewhere", "$.tool", "mcp"),
    ("tool_before", "kind", 5, "$.tool.kind", "string"),
    ("tool_before", "path", None, "$.path", "string"),
    ("tool_before", "batch", {}, "$.batch", "callIds"),
    ("tool_before", "batch", {"id": "b", "callIds": []}, "$.batch.callIds", "at least 1"),
    ("tool_after", "outcome", "fine", "$.outcome", "denied"),
    ("tool_after", "outcome", "error", "$", "error"),
    ("tool_after", "error", {"message": "m", "class": "c"}, "$.error", "absent"),
    ("tool_after", "error", "boom", "$.error", "object"),
    ("tool_after", "output", 5, "$.items[0].parts[0].text", "string"),
    ("tool_after", "items", [{}], "$.items[0]", "parts"),
    ("tool_after", "execution", {}, "$.execution", "status"),
    ("tool_after", "duration_ms", -1, "$.durationMs", "at least 0"),
    ("tool_after", "duration_ms", float("inf"), "$.durationMs", "finite"),
    ("tool_after", "file_changes", [{}], "$.fileChanges[0]", "path"),
    ("session_start", "session", None, "$", "session"),
    ("session_start", "trigger", "whim", "$.trigger", "startup"),
    ("session_start", "trigger", "clear", "$", "resumedFrom"),
    ("session_start", "permission_mode", "", "$.permissionMode", "non-empty"),
    ("session_start", "items", 5, "$.items", "array"),
    ("session_start", "manifest", {}, "$.manifest", "events"),
    ("session_end", "session", None, "$", "session"),
    ("session_end", "outcome", "whim", "$.outcome", "completed"),
    ("session_end", "reason", None, "$.reason", "string"),
    ("session_end", "counters", {"a": -1}, "$.counters.a", "at least 0"),
    ("session_end", "counters", {"a": 1.5}, "$.counters.a", "integer"),
]
#: What all of them take.
COMMON = [
    ("session", 5, "$.session", "session id or object"),
    ("session", "", "$.session.id", "non-empty"),
    ("session", {"id": 5}, "$.session.id", "string"),
    ("parent_event_id", "", "$.parentEventId", "non-empty"),
    ("extensions", {"bad key": 1}, "$.extensions", "reverse-DNS"),
    ("native", object(), "$.native", "JSON value"),
    ("event_id", "", "$.id", "non-empty"),
    ("event_id", 5, "$.id", "string"),
    ("time", "now", "$.time", "time zone"),
    ("time", datetime(2026, 1, 1), "$.time", "time zone"),
]
ROWS = [*CALLS, *((method, *row) for method in USED for row in COMMON)]


@pytest.mark.parametrize(
    ("method", "name", "bad", "path", "word"),
    ROWS,
    ids=[f"{row[0]}-{row[1]}-{row[2]!r:.20}" for row in ROWS],
)
def test_a_call_with_values_that_no_event_has_is_refused(
    method: str,
    name: str,
    bad: Any,
    path: str,
    word: str,
    open_client: Clients,
    records: AuditLog,
) -> None:
    """The error names the place and what is right there; nothing is sent, and nothing audited."""
    backend = Backend(ok, intercept(), observe())
    with pytest.raises(InvalidEvent) as caught:
        getattr(open_client(backend), method)(**{**USED[method], name: bad})
    assert caught.value.path == path
    assert word in caught.value.wanted
    assert (backend.messages, len(records)) == ([], 0)


@pytest.mark.parametrize("budget", [5, 0.5, True, "1"])
@pytest.mark.parametrize("method", USED)
def test_a_budget_is_a_budget(method: str, budget: Any, open_client: Clients) -> None:
    """A bare number is refused: it would not say when it began."""
    backend = Backend(ok, intercept(), observe())
    with pytest.raises(TypeError, match="budget must be a Budget, not"):
        getattr(open_client(backend), method)(**USED[method], budget=budget)
    assert backend.messages == []


@pytest.mark.parametrize(
    ("event_type", "payload", "path"),
    [
        ("tool.befor", {}, "$.type"),
        ("turn.begin", {}, "$.type"),
        ("turn.start", {}, "$"),
        ("*", {}, "$.type"),
        (5, {}, "$.type"),
        ([], {}, "$.type"),
        ("tool.before", None, "$"),
        ("tool.before", ["call"], "$"),
        ("tool.before", {}, "$"),
        ("tool.before", {"id": "mine"}, "$.id"),
        ("tool.before", {"harness": {}}, "$.harness"),
        ("tool.before", {5: 6}, "$"),
    ],
)
def test_dispatch_refuses_what_is_no_event(
    event_type: Any, payload: Any, path: str, open_client: Clients
) -> None:
    """Unknown types, and payloads that are not of their type, are never sent."""
    backend = Backend(ok, intercept(), observe())
    with pytest.raises(InvalidEvent) as caught:
        open_client(backend).dispatch(event_type, payload)
    assert caught.value.path == path
    assert backend.messages == []


def test_dispatch_does_what_the_typed_methods_do(open_client: Clients) -> None:
    """The same event by its members."""
    backend = Backend(ok, intercept())
    client = open_client(backend)
    payload = {
        "call": {"id": "c-1"},
        "tool": {"name": "Bash", "input": {}, "origin": "native"},
        "path": "native",
    }
    results: list[Outcome] = [
        client.dispatch("tool.before", payload, session="s-1", event_id="e-1"),
        client.tool_before(name="Bash", input={}, call_id="c-1", session="s-1", event_id="e-1"),
    ]
    assert all(outcome.may_execute for outcome in results)
    by_payload, by_method = ({**event, "time": ""} for event in backend.events)
    assert by_payload == by_method


def test_a_refused_call_leaves_the_client_as_it_was(open_client: Clients) -> None:
    """It is counted out again, so that closing does not wait for it, and the next one is served."""
    client = open_client(Backend())
    with pytest.raises(InvalidEvent):
        client.tool_before(name="", input={})
    assert client.tool_before(name="Bash", input={}).may_execute
    assert not client._runtime()._calls
