"""Plays one schedule: calls, held, late and repeated answers, cancellations, in a given order.

The data tells an answer that has been received from one that has been accepted; a call of ours does
both. So each real transport stands behind a gate here, where a received answer waits for its
``accept``. All calls run on threads of their own, as those of a host with several would.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any, Optional

from compare import Mismatch, check_equal, check_message, check_outcome
from playing import encoded, open_client, put, tell
from wires import GENEROUS, Arrival, StdioWire, Wire

from ahp_sync import Budget, Client, Decision, FailureClass, Outcome, Registration
from ahp_sync.testing import intercept, observe
from ahp_sync.transports.base import Message, Reply, Transport
from ahp_sync.transports.factory import TransportFactory

__all__ = ["Schedule", "with_failing_foreign_lines"]

#: The backend that decides; the observers are called as the data calls them.
DECIDER = "decider"


class _Gate:
    """A transport whose answers to the ids in ``guarded`` wait until they are let through."""

    def __init__(self, inner: Transport, guarded: set[str]) -> None:
        self._inner = inner
        self._guarded = guarded
        self.received = {rpc_id: threading.Event() for rpc_id in guarded}
        self.accepted = {rpc_id: threading.Event() for rpc_id in guarded}

    def exchange(self, message: Message, budget: Budget) -> Optional[Reply]:
        reply = self._inner.exchange(message, budget)
        if message.rpc_id in self._guarded:
            self.received[message.rpc_id].set()
            self.accepted[message.rpc_id].wait(GENEROUS)
        return reply

    def close(self, budget: Budget) -> None:
        self._inner.close(budget)


class _Call:
    """One request on its way through the client, on a thread of its own."""

    def __init__(self, client: Client, request: dict[str, Any]) -> None:
        self.request = request
        self.event_id: str = request["id"]
        self.budget = Budget(3 * GENEROUS)
        self.outcome: Optional[Outcome] = None
        self._client = client
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self.outcome = put(self._client, self.request, budget=self.budget)

    def join(self) -> Outcome:
        """Wait for the outcome and return it."""
        self._thread.join(GENEROUS)
        assert self.outcome is not None, f"{self.event_id} did not come back"
        return self.outcome

    @property
    def is_published(self) -> bool:
        """Whether the call came to what its backend answered."""
        over = (Decision.INTERRUPTED, Decision.EXPIRED)
        outcome = self.outcome
        return outcome is not None and outcome.decision not in over and not outcome.failures


class Schedule:
    """Plays the steps of one scenario; use it as a context manager, and :meth:`check` in it."""

    def __init__(self, data: dict[str, Any], wire: Wire) -> None:
        self._data = data
        self._wire = wire
        self._keys = {request["id"]: key for key, request in data["requests"].items()}
        self._calls: dict[str, _Call] = {}
        self._slots: dict[str, str] = {}
        self._published: list[str] = []
        self._cancelled: list[str] = []
        self._repeated: list[str] = []
        self._emitted: list[str] = []
        #: What lets a backend answer: once for each key, and once for each further answer.
        self._released = {key: threading.Event() for key in data["requests"]}
        self._again = {key: threading.Semaphore(0) for key in data["requests"]}
        self._said = {key: threading.Semaphore(0) for key in data["requests"]}
        wire.clear(self._script)
        self._client, self._gate, self._owned = self._open()

    def __enter__(self) -> Schedule:
        return self

    def __exit__(self, *exc_info: object) -> None:
        for key in self._released:
            self._released[key].set()
            self._again[key].release()
        for event in self._gate.accepted.values():
            event.set()
        self._client.close()
        for transport in self._owned:
            transport.close(Budget(GENEROUS))

    def _open(self) -> tuple[Client, _Gate, list[Transport]]:
        names = {step["subscription"] for step in self._data["steps"] if step["op"] == "observe"}
        policy = intercept(["tool.before"], policy="fail-open", timeout_ms=30_000)
        backends = {DECIDER: [policy], **{name: [_observer(name)] for name in sorted(names)}}
        registration = Registration.load(self._wire.registration(backends))
        factory = TransportFactory(
            registration, injected={}, stdio_processes=1, tls={}, proxies={}, trust_env=False
        )
        transports, owned, _ = factory.make()
        decider = f"com.example.{DECIDER}"
        gate = _Gate(transports[decider], set(self._keys))
        client = open_client(
            self._wire, backends, self._event(), transports={**transports, decider: gate}
        )
        return client, gate, owned

    def _event(self) -> dict[str, Any]:
        event: dict[str, Any] = next(iter(self._data["requests"].values()))["params"]["event"]
        return event

    # --- what the backends do -----------------------------------------------------------------

    def _script(self, arrival: Arrival) -> Any:
        if arrival.method == "observe":
            # An observer may say what it likes: nobody listens (R-OBS-05).
            return encoded(next(iter(self._data["responses"].values())))
        key = self._keys.get(arrival.message["id"])
        if key is None:
            return encoded(_neutral(arrival.message["id"]))
        repeats = any(step.get("bypassSDK") for step in self._data["steps"])
        answers = self._answers(key)
        return answers if repeats else next(answers)

    def _answers(self, key: str) -> Iterator[bytes]:
        self._released[key].wait(GENEROUS)
        sequence = self._data.get("responseSequences", {}).get(key, [self._data["responses"][key]])
        yield encoded(sequence[0])
        for step in self._data["steps"]:
            if step.get("bypassSDK") and step["key"] == key:
                self._again[key].acquire(timeout=GENEROUS)
                yield encoded(sequence[-1])
                self._said[key].release()

    # --- the steps ----------------------------------------------------------------------------

    def play(self) -> None:
        """Do all the steps, and wait for what is still under way."""
        for step in self._data["steps"]:
            details = {name: value for name, value in step.items() if name != "op"}
            getattr(self, f"_do_{step['op']}")(**details)
        for key in self._calls:
            self._do_accept(key)

    # The names of the parameters are those of the data.

    def _do_send(self, key: str, slot: str, bypassSDK: bool = False) -> None:
        if not bypassSDK:
            self._slots[slot] = key
            self._calls[key] = _Call(self._client, self._data["requests"][key])
            return
        # Somebody repeats the request behind the client's back, so another answer comes to it.
        self._repeated.append(slot)
        self._again[key].release()
        assert self._said[key].acquire(timeout=GENEROUS)
        if isinstance(self._wire, StdioWire):
            # A process that answers twice is retired (R-STD-07).
            assert self._wire.wait_gone(DECIDER)

    def _do_wait(self, key: str, count: int) -> None:
        wanted = self._data["requests"][key]
        mine = count - len(self._repeated)  # the repeated ones did not come from the client
        assert self._wire.wait(lambda: len(self._requests(wanted["id"])) >= mine)
        for arrival in self._requests(wanted["id"]):
            check_message(arrival.message, wanted)

    def _requests(self, event_id: str) -> list[Arrival]:
        return [
            one
            for one in self._wire.arrivals
            if one.method == "intercept" and one.message["id"] == event_id
        ]

    def _do_release(self, key: str) -> None:
        self._released[key].set()

    def _do_receive(self, slot: str) -> None:
        if slot in self._repeated:
            return
        call = self._calls[self._slots[slot]]
        if call.event_id not in self._cancelled:
            assert self._gate.received[call.event_id].wait(GENEROUS)

    def _do_accept(self, key: str) -> None:
        call = self._calls[key]
        cancelled = call.event_id in self._cancelled
        if not (cancelled or self._gate.received[call.event_id].is_set()):
            time.sleep(0.05)  # what is not to happen gets a moment to happen in
            assert call.outcome is None, "settled before its answer came"
            return
        self._gate.accepted[call.event_id].set()
        call.join()
        if call.is_published and call.event_id not in self._published:
            self._published.append(call.event_id)

    def _do_cancel(self, key: str) -> None:
        call = self._calls[key]
        self._cancelled.append(call.event_id)
        call.budget.cancel()
        call.join()

    def _do_failOpen(self, key: str) -> None:
        """The policy has been applied by the client, or has not: it does not revive anything."""
        call = self._calls[key]
        assert call.event_id in self._cancelled
        assert not call.join().failed_open

    def _do_observe(self, key: str, subscription: str) -> None:
        call = self._calls[key]
        if call.join().decision is Decision.INTERRUPTED:
            # The client told nobody (R-OBS-04), which leaves it to the host to do so.
            check_equal("told of an interrupted call", self._told(), [])
            backends = {subscription: [_observer(subscription)]}
            with open_client(self._wire, backends, self._event()) as client:
                tell(client, call.request["params"]["event"])
                self._wire.wait(lambda: len(self._told()) > 0)

    def _do_emit(self, response: dict[str, Any]) -> None:
        assert isinstance(self._wire, StdioWire)
        self._emitted.append(f"unsolicited:{response['id']}")
        self._wire.emit(DECIDER, encoded(response))

    # --- what came of it ----------------------------------------------------------------------

    def check(self, expected: Mapping[str, Any]) -> None:
        """Raise :class:`Mismatch` unless all is as expected."""
        check_equal("published", self._published, expected["published"])
        check_equal("cancelled", self._cancelled, expected["cancelled"])
        check_equal("states", sorted(self._published), sorted(expected["states"]))
        for call in self._calls.values():
            if call.event_id in expected["states"]:
                check_outcome(call.join(), expected["states"][call.event_id])
            else:
                self._check_unpublished(call)
        check_equal("ignored", self._ignored(), expected["ignored"])
        wanted = sorted(expected["observations"], key=lambda one: str(one["subscription"]))
        self._wire.wait(lambda: len(self._told()) >= len(wanted))
        check_equal("observations", self._told(), wanted)
        self._check_next_call()

    def _check_unpublished(self, call: _Call) -> None:
        """Nothing of its answer may show, whatever ended the call."""
        outcome = call.join()
        original = call.request["params"]["event"]["tool"]["input"]
        assert (outcome.messages, outcome.injections, outcome.candidate) == ((), (), None)
        check_equal("input", outcome.input, original)
        if call.event_id in self._cancelled:
            assert outcome.decision is Decision.INTERRUPTED
        else:
            classes = [failure.failure_class for failure in outcome.failures]
            assert classes == [FailureClass.ID_MISMATCH]

    def _ignored(self) -> list[str]:
        """Return the answers that were given and came to nothing."""
        given = {slot: key for slot, key in self._slots.items() if self._released[key].is_set()}
        late = [
            slot
            for slot, key in given.items()
            if not self._gate.received[self._calls[key].event_id].is_set()
        ]
        # An answer too many is ignored if the calls around it came to their own.
        foreign = self._emitted if len(self._published) == len(self._calls) else []
        return [*late, *self._repeated, *foreign]

    def _told(self) -> list[dict[str, Any]]:
        told = [
            {
                "eventId": one.message["params"]["event"]["id"],
                "subscription": one.backend,
                "input": one.message["params"]["event"]["tool"]["input"],
            }
            for one in self._wire.arrivals
            if one.method == "observe" and one.message["params"]["event"]["id"] in self._keys
        ]
        return sorted(told, key=lambda one: str(one["subscription"]))

    def _check_next_call(self) -> None:
        """The next call over the same connections gets its own answer, and nobody's leftovers."""
        event_id = f"{self._event()['id']}:next"
        request = next(iter(self._data["requests"].values()))
        params = {**request["params"], "event": {**self._event(), "id": event_id}}
        outcome = put(self._client, {**request, "id": event_id, "params": params})
        assert (outcome.decision, outcome.failures) == (Decision.PROCEED, ())
        if outcome.messages or outcome.input != self._event()["tool"]["input"]:
            raise Mismatch("the next call got another one's answer")


def _observer(name: str) -> dict[str, Any]:
    return observe(["tool.before"], content={"default": name})


def _neutral(rpc_id: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": rpc_id, "result": {"protocolVersion": "draft", "effects": []}}


def with_failing_foreign_lines(data: dict[str, Any]) -> dict[str, Any]:
    """Return the data with the call failed that was waiting when another one's answer came."""
    steps = data["steps"]
    lines = [number for number, step in enumerate(steps) if step["op"] == "emit"]
    if not lines:
        return data
    waiting = [step["key"] for step in steps[: lines[0]] if step["op"] == "send"][-1]
    failed = data["requests"][waiting]["id"]
    expected = data["expected"]
    return {
        **data,
        "expected": {
            **expected,
            "published": [name for name in expected["published"] if name != failed],
            "states": {k: v for k, v in expected["states"].items() if k != failed},
            "ignored": [name for name in expected["ignored"] if not name.startswith("unsolicited")],
        },
    }
