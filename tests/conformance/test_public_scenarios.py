"""``scenarios.json``: one request, one canned answer, one outcome."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from compare import check_equal, check_message, check_outcome, settled
from playing import encoded, open_client, put
from public_data import TRANSPORTS, Case, every, need_data, scenarios
from wires import Arrival, Wire

from ahp_sync import Decision, Outcome
from ahp_sync.failure import FailureClass, FailurePolicy
from ahp_sync.testing import intercept

need_data()

#: What an answer is refused for, by the tag that tells why the scenario refuses it.
CLASSES = {
    "schema-invalid": {
        FailureClass.MALFORMED,
        FailureClass.EFFECTS,
        FailureClass.MISSING_RESULT,
        FailureClass.UNSUPPORTED,
    },
    "capability-invalid": {FailureClass.EFFECTS},
    "application-invalid": {FailureClass.EFFECTS},
    "correlation-invalid": {FailureClass.ID_MISMATCH},
}
EVENTS = ("tool.before", "turn.finish.before")


class Host:
    """The clients of one transport: one a failure policy, since both have to be shown."""

    def __init__(self, wire: Wire, event: dict[str, Any]) -> None:
        self.wire = wire
        self.clients = {
            policy: open_client(
                wire,
                {policy.value: [intercept(EVENTS, policy=policy.value, timeout_ms=10_000)]},
                event,
            )
            for policy in FailurePolicy
        }

    def play(self, case: Case, policy: FailurePolicy, **options: Any) -> Outcome:
        """Send the request of a case and let the backend give its answer."""
        answer = encoded(case.data["response"])

        def script(arrival: Arrival) -> Any:
            return answer if arrival.method == "intercept" else None

        self.wire.clear(script)
        return put(self.clients[policy], case.data["request"], **options)


@pytest.fixture(scope="module")
def hosts() -> Iterator[dict[str, Host]]:
    """The hosts of the transports that were used."""
    opened: dict[str, Host] = {}
    yield opened
    for host in opened.values():
        for client in host.clients.values():
            client.close()


@pytest.fixture
def host(hosts: dict[str, Host], wire: Wire, transport: str, case: Case) -> Host:
    """The host for the transport of the case."""
    if transport not in hosts:
        hosts[transport] = Host(wire, case.data["request"]["params"]["event"])
    return hosts[transport]


@every(scenarios())
def test_it_settles_or_is_refused_as_published(
    case: Case, transport: str, host: Host, wire: Wire
) -> None:
    """What was sent is the published request, and what came of its answer the published outcome."""
    for policy in FailurePolicy:
        if not case.data.get("expectError"):
            check_outcome(host.play(case, policy), case.data["expected"])
        elif "hostExpected" in case.data:
            check_host_rule(host, case, policy)
        else:
            check_refused(host.play(case, policy), case, policy)
        check_sent(wire, case.data["request"])


def check_sent(wire: Wire, request: dict[str, Any]) -> None:
    """The interceptor got the request; after a denial or a stop of the host, the event alone.

    Nobody is asked about what the host itself has denied or stopped (R-CAP-05, R-OBS-02).
    """
    state = request["params"].get("state", {})
    if state.get("permission") == "deny" or state.get("flow") == "stop":
        request = {
            "jsonrpc": "2.0",
            "method": "hooks/observe",
            "params": {name: request["params"][name] for name in ("protocolVersion", "event")},
        }
    received = wire.wait_arrivals(1)
    check_equal("messages", len(received), 1)
    check_message(received[0].message, request)


def check_refused(outcome: Outcome, case: Case, policy: FailurePolicy) -> None:
    """One failure of the right class, put to the policy; and nothing of the answer is kept."""
    params = case.data["request"]["params"]
    assert [failure.policy for failure in outcome.failures] == [policy]
    expected = set().union(*(CLASSES[tag] for tag in case.tags if tag in CLASSES))
    assert outcome.failures[0].failure_class in expected, outcome.failures
    unchanged = {**settled_before(params), "messages": [], "injections": []}
    found = settled(outcome)
    if policy is FailurePolicy.FAIL_CLOSED:
        assert (outcome.decision, outcome.synthetic) == (Decision.DENY, True)
        assert outcome.reason is not None and "policy" in outcome.reason
        unchanged.update(decision="deny")
    else:
        assert outcome.failed_open
        assert not outcome.synthetic
    check_equal("outcome", {name: found[name] for name in unchanged}, unchanged)
    wanted = params.get("state", {}).get("candidate")
    check_equal("candidate", outcome.candidate and outcome.candidate.to_json(), wanted)


def settled_before(params: dict[str, Any]) -> dict[str, Any]:
    """Return what a request had settled before it was answered, as far as the data goes."""
    state, event = params.get("state", {}), params["event"]
    words = {
        "decision": state.get("permission", "none").replace("none", "allow"),
        "flow": state.get("flow", "none"),
        "continuationInstructions": state.get("instructions", []),
    }
    flow = params["capabilities"].get("flow", {})
    words["continuationRemaining"] = flow.get("remainingContinuations")
    if "tool" in event:
        words["input"] = event["tool"]["input"]
    return words


def check_host_rule(host: Host, case: Case, policy: FailurePolicy) -> None:
    """The protocol takes the edit; a host whose own reading of it fails refuses the answer.

    ``executed`` is that host's doing, so without its rule nothing is said about it here.
    """
    expected = {k: v for k, v in case.data["hostExpected"].items() if k != "executed"}
    check_outcome(host.play(case, policy), expected)
    check_sent(host.wire, case.data["request"])
    outcome = host.play(case, policy, input_codec=whole_task)
    check_refused(outcome, case, policy)
    assert outcome.typed_input == case.data["request"]["params"]["event"]["tool"]["input"]["task"]


def whole_task(tool_input: dict[str, Any]) -> int:
    """Return the host's own value of an input: its ``task``, a positive whole number."""
    task = tool_input["task"]
    if isinstance(task, bool) or not isinstance(task, int) or task < 1:
        raise ValueError("task must be a positive whole number")
    return task


def test_every_scenario_is_there() -> None:
    """A data set that lost its cases would pass in silence."""
    assert len(list(scenarios())) == 105
    assert TRANSPORTS == ("http", "stdio")
