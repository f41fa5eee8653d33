"""``catalogue-scenarios.json``: events to observe, their lineage, and registrations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Optional

import pytest
from compare import check_equal, check_message
from from_wire import grant
from playing import open_client, tell
from public_data import Case, catalogue, every, need_data
from wires import Wire

from ahp_sync import (
    Capabilities,
    Client,
    Grant,
    Harness,
    InvalidEvent,
    Modify,
    Registration,
    RegistrationError,
)
from ahp_sync.testing import observe

need_data()

EVENTS = [case for case in catalogue() if "registration" not in case.tags]
REGISTRATIONS = [case for case in catalogue() if "registration" in case.tags]


# --- events ---------------------------------------------------------------------------------------


class Host:
    """A host with one client a source, that remembers what it has raised before."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._clients: dict[str, Client] = {}
        self._raised: set[str] = set()

    def close(self) -> None:
        """Close the clients."""
        for client in self._clients.values():
            client.close()

    def play(self, case: Case) -> list[Optional[Exception]]:
        """Raise the events of a case and return what each was refused with, if it was."""
        self._raise_parents(case)
        self._wire.clear()
        return [self._raise(step["message"]["params"]["event"]) for step in case.data["steps"]]

    def _raise(self, event: dict[str, Any]) -> Optional[Exception]:
        self._raised.add(event["id"])
        source = event["source"]
        if source not in self._clients:
            everything = {"observer": [observe(["*"])]}
            self._clients[source] = open_client(self._wire, everything, event)
        before = len(self._wire.arrivals)
        try:
            tell(self._clients[source], event)
        except InvalidEvent as error:
            return error
        self._wire.wait_arrivals(before + 1)
        return None

    def _raise_parents(self, case: Case) -> None:
        """Raise what the suite has raised before, if this case follows from it."""
        parents = {event.get("parentEventId") for event in _events(case)}
        mine = {event["id"] for event in _events(case)}
        for earlier in EVENTS[: EVENTS.index(case)]:
            for event in _events(earlier):
                if event["id"] in parents - mine - self._raised:
                    self._raise(event)


def _events(case: Case) -> Iterator[dict[str, Any]]:
    return (step["message"]["params"]["event"] for step in case.data["steps"])


@pytest.fixture(scope="module")
def hosts() -> Iterator[dict[str, Host]]:
    """The hosts of the transports that were used."""
    opened: dict[str, Host] = {}
    yield opened
    for host in opened.values():
        host.close()


@every(EVENTS)
def test_an_event_is_told_unchanged_or_refused(
    case: Case, transport: str, hosts: dict[str, Host], wire: Wire
) -> None:
    """An accepted event arrives as it was raised, a refused one is refused before it is sent."""
    host = hosts.setdefault(transport, Host(wire))
    refusals = host.play(case)
    deliveries = case.data["expected"]["deliveries"]
    accepted = [delivery["accepted"] for delivery in deliveries]
    check_equal("accepted", [refusal is None for refusal in refusals], accepted)
    wanted = [
        message
        for message, delivery in zip(case.data["expected"]["sent"], deliveries)
        if delivery["accepted"]
    ]
    received = wire.wait_arrivals(len(wanted))
    check_equal("messages", len(received), len(wanted))
    for arrival, message in zip(received, wanted):
        check_message(arrival.message, message)


# --- registrations --------------------------------------------------------------------------------


def host_of_the_catalogue(interactive: bool) -> Capabilities:
    """Return what the suite's host declares: the events of its own data, and tool calls to decide.

    One that has nobody to ask can't enforce ``ask``; neither does the suite's a managed scope.
    """
    names = {event["type"] for case in EVENTS for event in _events(case)}
    effects = ("deny", "allow", "ask") if interactive else ("deny", "allow")
    return Capabilities(
        {"tool.before": Grant(effects, modify=Modify())},
        observe=names,
        policy_scopes=("user", "project"),
    )


def register(step: dict[str, Any]) -> None:
    """Register as a host does that looks for what is needed before it goes on.

    Raises what the API raises where a registration is not accepted, or a need has no words in it.
    """
    capabilities = host_of_the_catalogue(step["context"]["interactive"])
    needs = {
        need["event"]: grant(_with_both_operations(need), need["event"])
        for need in step["requirements"]
    }
    registration = Registration.load(step["registration"]).for_host(
        capabilities, needs=needs, environ=step["context"]["environment"]
    )
    Client(
        registration,
        source="urn:example:tests",
        harness=Harness("tests", "1"),
        capabilities=capabilities,
    ).close()


def _with_both_operations(need: dict[str, Any]) -> dict[str, Any]:
    """Return it with the operations that it leaves out; on the wire both are named."""
    targets = need.get("modify", {})
    both = {name: {"replace": False, "merge": False, **one} for name, one in targets.items()}
    return {**need, "modify": both} if both else need


@every(REGISTRATIONS)
def test_a_registration_is_accepted_or_refused(case: Case, transport: str) -> None:
    """It is refused before anything is started: whole, or because a need can't be expressed."""
    [step] = case.data["steps"]
    [expected] = case.data["expected"]["registrations"]
    if expected["accepted"]:
        register(step)
    elif any(set(need.get("modify", ())) - {"input"} for need in step["requirements"]):
        # A grant knows the one target that an event has; there is no way to ask for another.
        with pytest.raises(TypeError, match="modify must be of type Modify"):
            register(step)
    else:
        with pytest.raises(RegistrationError):
            register(step)


def test_every_event_and_registration_is_there() -> None:
    """A data set that lost its cases would pass in silence."""
    assert (len(EVENTS), len(REGISTRATIONS)) == (34, 13)
