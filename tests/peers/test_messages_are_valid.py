"""Every message that our client sends passes the official SDK's validator."""

from __future__ import annotations

import json
from typing import Any, Iterator, Optional

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hook_calls import VALID, Call

from ahp_sync import Client, Harness
from ahp_sync.testing.registrations import hooks, intercept, observe
from ahp_sync.transports.base import Message, Reply

runtime = pytest.importorskip(
    "agenthooksprotocol.runtime", reason="the official SDK is not installed (it needs Python 3.11)"
)
VALIDATOR = runtime.Validator()


class Recorder:
    """A transport of the host's own that keeps what goes through it, and agrees to everything."""

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

def client_of(recorder):
    views = [{"default": "body"}, {"default": "omit"}, {"default": "metadata", "text": "body", "images": "omit"}]
    entry = {"id": "com.example.r", "transport": {"type": "http", "url": "http://127.0.0.1:9/"},
      "subscriptions": [*(intercept(content=v) for v in views), *(observe(content=v) for v in views), observe(includeNative=True)]}
    return Client(hooks(entry), source="urn:x", harness=Harness("h","1"), transports={"com.example.r": recorder})

RECORDER = Recorder()
CLIENT = client_of(RECORDER)

@settings(max_examples=2000, deadline=None)
@given(VALID)
def test_valid(call):
    method, arguments = call
    RECORDER.messages.clear()
    getattr(CLIENT, method)(**arguments)
    assert RECORDER.messages
    for m in RECORDER.messages:
        kind = "observe-notification" if m.rpc_id is None else "intercept-request"
        VALIDATOR.validate(kind, json.loads(m.body))

from hook_calls import CHANGED
from ahp_sync import InvalidEvent
@settings(max_examples=6000, deadline=None)
@given(CHANGED)
def test_changed(call):
    method, arguments = call
    RECORDER.messages.clear()
    try:
        getattr(CLIENT, method)(**arguments)
    except InvalidEvent:
        assert not RECORDER.messages
        return
    assert RECORDER.messages
    for m in RECORDER.messages:
        kind = "observe-notification" if m.rpc_id is None else "intercept-request"
        VALIDATOR.validate(kind, json.loads(m.body))
