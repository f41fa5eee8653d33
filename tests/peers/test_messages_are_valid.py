"""Every message that our client sends passes the official SDK's validator."""

from __future__ import annotations

import contextlib
import json
from typing import Any, Optional

import pytest
from hook_calls import CHANGED, ENTRIES, SOURCES, TOOLS, VALID, Call
from hypothesis import example, given, settings

from ahp_sync import Client, Harness, InvalidEvent
from ahp_sync.testing import hooks, intercept, observe
from ahp_sync.transports.base import Message, Reply

runtime = pytest.importorskip(
    "agenthooksprotocol.runtime", reason="the official SDK is not installed (it needs Python 3.11)"
)


def cases(count: int) -> settings:
    """The same cases in every run: a test that fails now and then helps nobody."""
    return settings(max_examples=count, deadline=None, derandomize=True)


VIEWS: list[dict[str, str]] = [
    {"default": "body"},
    {"default": "omit"},
    {"default": "metadata", "text": "body", "images": "omit"},
]
ID = "com.example.recorder"
BACKEND = {
    "id": ID,
    "transport": {"type": "http", "url": "http://127.0.0.1:9/"},
    "subscriptions": [
        *(intercept(content=view) for view in VIEWS),
        *(observe(content=view) for view in VIEWS),
        intercept(includeNative=True),
        observe(includeNative=True),
    ],
}


class Recorder:
    """A transport of the host's own that keeps what goes through it, and objects to nothing."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    def exchange(self, message: Message, budget: object) -> Optional[Reply]:
        self.messages.append(message)
        if message.rpc_id is None:
            return None
        answer = {"jsonrpc": "2.0", "id": message.rpc_id, "result": {"protocolVersion": "draft"}}
        return Reply(json.dumps(answer).encode())

    def close(self, budget: object) -> None:
        pass


class Bench:
    """A client, what it sends, and the SDK's opinion of that."""

    def __init__(self) -> None:
        self.validator = runtime.Validator()
        self._recorder = Recorder()

    def client(self, **options: Any) -> Client:
        options = {"source": "urn:example:bench", "harness": Harness("bench", "1"), **options}
        return Client(hooks(BACKEND), transports={ID: self._recorder}, **options)

    def sent(self, call: Call, client: Optional[Client] = None) -> list[Message]:
        """Make the call and return the messages it sent; none if the client refuses it."""
        method, arguments = call
        self._recorder.messages.clear()
        # Each call comes from a client of its own: the ids in one mean nothing in the next.
        with contextlib.ExitStack() as stack:
            hooks_of_call = client or stack.enter_context(self.client())
            try:
                outcome = getattr(hooks_of_call, method)(**arguments)
            except InvalidEvent:
                assert not self._recorder.messages
                return []
        assert not outcome.failures
        observers = len(VIEWS) + 1
        expected = observers * 2 if outcome.event["type"] == "tool.before" else observers
        assert len(self._recorder.messages) == expected
        return list(self._recorder.messages)

    def validate(self, messages: list[Message]) -> None:
        """Raise what the SDK raises for a message that it takes for invalid."""
        for message in messages:
            kind = "observe-notification" if message.rpc_id is None else "intercept-request"
            self.validator.validate(kind, json.loads(message.body))

    def accepts(self, **members: Any) -> bool:
        """Return whether the SDK takes an event with these members for valid."""
        head = {"id": "e", "source": "urn:x", "time": "2026-01-01T00:00:00Z"}
        event = {**head, "harness": {"name": "h", "version": "1"}, **members}
        body = {"jsonrpc": "2.0", "method": "hooks/observe"}
        params = {"protocolVersion": "draft", "event": event}
        try:
            self.validator.validate("observe-notification", {**body, "params": params})
        except runtime.ProtocolError:
            return False
        return True


@pytest.fixture(scope="module")
def bench() -> Bench:
    return Bench()


@cases(100)
@given(call=VALID)
def test_every_valid_call_is_sent_as_valid_messages(bench: Bench, call: Call) -> None:
    """All arguments of the four typed methods, through every content view."""
    messages = bench.sent(call)
    assert messages, "refused"
    bench.validate(messages)


@cases(400)
@given(call=CHANGED)
@example(call=("tool_after", {"name": "x", "input": {}, "outcome": []}))
@example(call=("session_start", {"session": "s", "manifest": {}}))
def test_a_spoiled_call_is_refused_or_still_valid(bench: Bench, call: Call) -> None:
    """R-ROLE-02: nothing that the SDK would refuse is ever sent."""
    bench.validate(bench.sent(call))


@cases(100)
@given(tool=TOOLS)
def test_a_tool_is_refused_where_the_sdk_refuses_it(bench: Bench, tool: dict[str, Any]) -> None:
    """Section 5: an mcp connection is complete, or says what is missing; no more, no less."""
    arguments = {"name": "x", "input": {}, **tool}
    sent = bool(bench.sent(("tool_before", arguments)))
    assert sent == bench.accepts(type="tool.before", call={"id": "c"}, path="p", tool=arguments)


@cases(200)
@given(entry=ENTRIES)
def test_a_manifest_is_refused_where_the_sdk_refuses_it(
    bench: Bench, entry: dict[str, Any]
) -> None:
    """R-CAP-06: what an event may grant, and which details belong to a grant."""
    [message, *_] = bench.sent(("session_start", {"session": "s"}))
    event = json.loads(message.body)["params"]["event"]
    manifest = {**event["manifest"], "events": [entry]}
    sent = bool(bench.sent(("session_start", {"session": "s", "manifest": manifest})))
    assert sent == bench.accepts(**{**event, "manifest": manifest})


@cases(100)
@given(source=SOURCES)
@example(source="http://a@b@c")
@example(source="http://host:port")
@example(source="http://[1::2::3]")
@example(source="urn:example:x\n")
def test_a_source_is_refused_at_construction_or_valid(bench: Bench, source: str) -> None:
    """R-EVT-02: a source that is no URI would spoil every message."""
    try:
        client = bench.client(source=source)
    except ValueError:
        return
    with client:
        bench.validate(bench.sent(("tool_before", {"name": "x", "input": {}}), client))
