"""Plays one chain: several subscriptions of several backends, and one event.

The wire names no subscription. A backend of the data has one of each mode at most, so backend and
method together tell which one a message was for.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from compare import check_equal, check_message
from playing import Adaptations, check_published, encoded, open_client, put
from public_data import Case
from wires import GENEROUS, Arrival, Wire

from ahp_sync import Budget, Decision, Outcome
from ahp_sync.testing import intercept, observe

__all__ = ["play_chain", "with_carried_state", "with_omitted_parts"]


@dataclass(frozen=True)
class _Played:
    outcome: Outcome
    arrivals: list[Arrival]


def play_chain(case: Case, wire: Wire, known: Adaptations) -> None:
    """Play a chain and check all that its data says of it."""
    subscriptions = _Subscriptions(case.data["chain"]["subscriptions"])
    played = _play(case.data, subscriptions, wire)
    check_published(lambda data: _check(data, subscriptions, played), case.data, known)


class _Subscriptions:
    """The subscriptions of a chain, by their place in our registration and on the wire."""

    def __init__(self, entries: list[dict[str, Any]]) -> None:
        self.backends: dict[str, list[dict[str, Any]]] = {}
        self._places: dict[tuple[str, int], str] = {}
        self._modes: dict[tuple[str, str], str] = {}
        self.backend_of: dict[str, str] = {}
        for entry in entries:
            backend, name = entry["backend"], entry["id"]
            mine = self.backends.setdefault(backend, [])
            self._places[f"com.example.{backend}", len(mine)] = name
            assert (backend, entry["mode"]) not in self._modes, "the wire could not tell them apart"
            self._modes[backend, entry["mode"]] = name
            self.backend_of[name] = backend
            content = {"default": entry["content"]}
            if entry["mode"] == "observe":
                mine.append(observe(["tool.before"], content=content))
            else:
                policy = entry["failurePolicy"]
                mine.append(
                    intercept(["tool.before"], policy=policy, content=content, timeout_ms=10_000)
                )

    def asked(self, arrival: Arrival) -> str:
        """Return the subscription that a request was for."""
        return self._modes[arrival.backend, "intercept"]

    def at(self, backend: str, index: int) -> str:
        """Return the subscription at this place of the registration."""
        return self._places[backend, index]


def _play(data: dict[str, Any], subscriptions: _Subscriptions, wire: Wire) -> _Played:
    answers: Iterator[Any] = iter(data["responseSequences"]["a"])
    budget, held = Budget(3 * GENEROUS), threading.Event()

    def script(arrival: Arrival) -> Any:
        if arrival.method == "observe":
            return None
        if data["chain"]["interrupt"]:
            budget.cancel()
            held.wait(GENEROUS)
        return encoded(next(answers))

    wire.clear(script)
    request = data["requests"]["a"]
    with open_client(wire, subscriptions.backends, request["params"]["event"]) as client:
        outcome = put(client, request, budget=budget)
        held.set()
        wire.wait_arrivals(len(data["expected"]["called"]) + len(data["expected"]["observations"]))
    return _Played(outcome, wire.arrivals)


def _check(data: dict[str, Any], subscriptions: _Subscriptions, played: _Played) -> None:
    expected, proof, outcome = data["expected"], data["chainProof"], played.outcome
    requests = [one for one in played.arrivals if one.method == "intercept"]
    check_equal("called", [subscriptions.asked(one) for one in requests], expected["called"])
    for request, wanted in zip(requests, proof["requests"]):
        check_message(request.message, wanted)
    _check_told(expected["observations"], proof["observations"], subscriptions, played)
    failures = [subscriptions.at(one.backend, one.subscription) for one in outcome.failures]
    check_equal("failures", failures, expected["failures"])
    check_equal("input", outcome.input, expected["input"])
    if data["chain"]["interrupt"]:
        assert outcome.decision is Decision.INTERRUPTED


def _check_told(
    names: list[str],
    proof: list[dict[str, Any]],
    subscriptions: _Subscriptions,
    played: _Played,
) -> None:
    """Observers may be told in any order (R-OBS-05), so each backend's are compared by itself."""
    told = [one for one in played.arrivals if one.method == "observe"]
    backends = [subscriptions.backend_of[name] for name in names]
    check_equal("told", sorted(one.backend for one in told), sorted(backends))
    for backend, wanted in zip(backends, proof):
        for arrival in (one for one in told if one.backend == backend):
            check_message(arrival.message, wanted)


# --- what we do instead, and the official SDK does too --------------------------------------------


def with_omitted_parts(data: dict[str, Any]) -> dict[str, Any]:
    """Return the data with the parts back in the views of ``omit`` (R-CON-04)."""
    data = copy.deepcopy(data)
    content = {one["id"]: one["content"] for one in data["chain"]["subscriptions"]}
    event = data["requests"]["a"]["params"]["event"]
    omitted = [{**part, "selection": "omit"} for part in event["items"]]
    for names, messages in (
        (data["expected"]["called"], data["chainProof"]["requests"]),
        (data["expected"]["observations"], data["chainProof"]["observations"]),
    ):
        for name, message in zip(names, messages):
            if content[name] == "omit":
                message["params"]["event"]["items"] = omitted
    return data


def with_carried_state(data: dict[str, Any]) -> dict[str, Any]:
    """Return the data with the permission told to those after the one that gave it (R-CAP-04)."""
    data, permission = copy.deepcopy(data), "none"
    failed = data["expected"]["failures"]
    asked = zip(
        data["expected"]["called"], data["chainProof"]["requests"], data["responseSequences"]["a"]
    )
    for name, request, response in asked:
        request["params"]["state"]["permission"] = permission
        if name not in failed and {"type": "allow"} in response["result"]["effects"]:
            permission = "allow"
    return data
