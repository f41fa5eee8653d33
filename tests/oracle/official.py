"""What the official SDK makes of a case: its harness, over its own HTTP client, in this process.

The harness, its settlement and its validation are as shipped. One validator serves all cases, and
remembers what it found valid: it looks at each message about ten times.
"""

from __future__ import annotations

import asyncio
import copy
import functools
import json
from collections.abc import Mapping
from typing import Any, Optional

import pytest

from oracle.cases import Case
from oracle.verdicts import Sent, Verdict, plain

pytest.importorskip("agenthooksprotocol", reason="the official SDK needs Python 3.11 or later")
pytest.importorskip("httpx", reason="the official SDK's HTTP client needs httpx")

import httpx
from agenthooksprotocol import _elicitation, _hooks
from agenthooksprotocol.capability import HostCapabilities
from agenthooksprotocol.event import Harness
from agenthooksprotocol.runtime import Validator
from agenthooksprotocol.transports.http import HTTPTransport

__all__ = ["harness", "inconsistent", "official"]

Json = Any
URL = "http://127.0.0.1:9/ahp"


class _Remembering(Validator):
    """A validator that does not look twice at the same JSON."""

    def __init__(self) -> None:
        super().__init__()
        self._valid: set[tuple[str, str]] = set()

    def validate(self, kind: str, value: Any) -> Any:
        try:
            key = (kind, json.dumps(value))
        except (TypeError, ValueError, RecursionError):
            return super().validate(kind, value)
        if key not in self._valid:
            super().validate(kind, value)
            if len(self._valid) > 2000:
                self._valid.clear()
            self._valid.add(key)
        return value


class _Declared(HostCapabilities):  # type: ignore[misc]
    """A host's declaration as it goes over the wire, whatever the typed one can't say."""

    def __new__(cls, declarations: Mapping[str, Json]) -> _Declared:
        made = object.__new__(cls)
        object.__setattr__(made, "_wire_form", declarations)
        return made

    def __init__(self, declarations: Mapping[str, Json]) -> None:
        pass

    def to_wire(self) -> Any:
        return copy.deepcopy(self._wire_form)


@functools.cache
def _validator() -> Validator:
    return _Remembering()


@functools.cache
def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


class _Backend:
    """Answers one interception after another, and keeps what it was sent."""

    def __init__(self, backend: str, answers: list[bytes], sent: list[Sent]) -> None:
        self._backend = backend
        self._answers = answers
        self._sent = sent
        self._asked = 0

    def __call__(self, request: httpx.Request) -> httpx.Response:
        message = json.loads(request.content)
        self._sent.append(Sent(self._backend, message))
        if "id" not in message:
            return httpx.Response(204)
        self._asked += 1
        return httpx.Response(200, content=self._answers[self._asked - 1])


def official(case: Case) -> Verdict:
    """Return what the official SDK makes of ``case``."""
    return _loop().run_until_complete(_dispatched(case))


async def _dispatched(case: Case) -> Verdict:
    sent: list[Sent] = []
    clients = []
    transports = {}
    for backend, subscriptions in case.backends:
        answers = [one.answer.body() for one in subscriptions if one.answer is not None]
        client = httpx.AsyncClient(transport=httpx.MockTransport(_Backend(backend, answers, sent)))
        clients.append(client)
        transports[backend] = HTTPTransport(URL, client=client, validator=_validator())
    try:
        try:
            modes = {"modes": ["intercept", "observe"], "capabilities": case.declared}
            hooks = harness(case, case.registration(), {case.event: modes}, transports)
            payload, options = _arguments(case)
            result = await hooks.dispatch(case.event, payload, **options)
        except Exception as error:  # whatever it raises, the host has no outcome
            return Verdict(host_error=f"{type(error).__name__}: {error}", sent=sent)
        return _verdict(result, sent)
    finally:
        for client in clients:
            await client.aclose()


def harness(
    case: Case,
    document: Json,
    declared: Mapping[str, Json],
    transports: Optional[Mapping[str, HTTPTransport]] = None,
) -> _hooks.Hooks:
    """Return the SDK's client of a registration, for a host that declares so much."""
    event = case.whole_event
    # Made as the SDK makes it; only that the validator is the one we keep.
    original = _hooks.Validator
    _hooks.Validator = _validator
    try:
        return _hooks.Hooks(
            document,
            source=event["source"],
            harness=Harness(**event["harness"]),
            capabilities=_Declared(declared),
            transport=dict(transports or {}),
        )
    finally:
        _hooks.Validator = original


def _arguments(case: Case) -> tuple[Json, dict[str, Json]]:
    payload = {
        name: value
        for name, value in case.whole_event.items()
        if name not in ("id", "source", "type", "harness")
    }
    options: dict[str, Json] = {
        "event_id": case.whole_event["id"],
        "initial_state": case.state,
        "original_request": _original(case),
    }
    if case.narrowed:
        options["capabilities"] = case.capabilities
    return payload, options


def _original(case: Case) -> Optional[Json]:
    event = case.request_event
    if event is None:
        return None
    return {
        "jsonrpc": "2.0",
        "id": event["id"],
        "method": "hooks/intercept",
        "params": {"protocolVersion": "draft", "event": event, "capabilities": {"effects": []}},
    }


def _verdict(result: Any, sent: list[Sent]) -> Verdict:
    state = result._state
    candidate = state.get("candidate")
    failed = [one for one in result.diagnostics if one["mode"] == "intercept"]
    return Verdict(
        event=plain(dict(result.event)),
        permission=state.get("permission", "none"),
        candidate=None if candidate is None else plain(dict(candidate)),
        flow=state.get("flow") or "none",
        instructions=plain(list(state.get("continuationInstructions") or [])),
        injections=plain(list(state.get("injections") or [])),
        messages=plain(list(state.get("messages") or [])),
        remaining=state.get("continuationRemaining"),
        refused=[(one["backend"], one["subscription"]) for one in failed],
        synthetic=any(one["synthetic_denial"] for one in failed),
        sent=sent,
        details=[f"{one['code']}: {one['error']}" for one in failed],
    )


def inconsistent(case: Case) -> bool:
    """Return whether the elicitation that the host itself brought contradicts itself.

    That is, whether its text is not what it should be, or its result no answer to its request.
    """
    if "elicitation" not in case.event:
        return False
    validate, event = _validator().validate, case.whole_event
    try:
        if case.event.endswith(".request"):
            _elicitation.read_selected(event["elicitation"], "request", None, validate)
        else:
            asked = _original(case)
            told = None if asked is None else {**asked, "id": event["id"]}
            if told is not None:
                told["params"] = {**told["params"], "event": event}
                _elicitation.validate_exchange(asked, told, None, validate, "com.example.host")
    except Exception:  # of many types, and all of them say no
        return True
    return False
