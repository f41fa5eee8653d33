"""What every suite does: open a client on a wire, raise an event of the data, and compare."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Callable

import pytest
from compare import Mismatch
from from_wire import WHOLE, grant, host_state, occurrence
from known_differences import DIFFERENCES
from wires import GENEROUS, Wire

from ahp_sync import Client, Harness, Outcome
from ahp_sync.testing import AuditLog

__all__ = ["Adaptations", "check_published", "encoded", "open_client", "put", "tell"]

Json = Mapping[str, Any]


def open_client(
    wire: Wire, backends: Mapping[str, Iterable[Json]], event: Json, **options: Any
) -> Client:
    """Return a client for events like ``event``: of its source and harness. Close it.

    The scenarios' host permits by itself what nobody objects to.
    """
    options.setdefault("capabilities", WHOLE)
    options.setdefault("authorize", lambda proposal: True)
    options.setdefault("observe_timeout", GENEROUS)
    options.setdefault("audit", AuditLog())
    harness = event["harness"]
    return Client(
        wire.registration(backends),
        source=event["source"],
        harness=Harness(harness["name"], harness["version"]),
        **options,
    )


def put(client: Client, request: Json, **options: Any) -> Outcome:
    """Have the client send this ``hooks/intercept`` request, and return the outcome."""
    params = request["params"]
    event_type, payload, common = occurrence(params["event"])
    return client.dispatch(
        event_type,
        payload,
        capabilities=grant(params["capabilities"], event_type),
        state=host_state(params.get("state")),
        **{**common, **options},
    )


def tell(client: Client, event: Json, **options: Any) -> Outcome:
    """Have the client raise the event of a ``hooks/observe`` notification."""
    event_type, payload, common = occurrence(event)
    return client.dispatch(event_type, payload, **{**common, **options})


def encoded(message: Any) -> bytes:
    """Return a message in one line."""
    return json.dumps(message).encode()


#: By the name of a known difference: what makes of a case's data what we do instead.
Adaptations = Mapping[str, Callable[[Any], Any]]


def check_published(check: Callable[[Any], object], data: Any, known: Adaptations) -> None:
    """Check a case; end the test as a known difference where one of ``known`` concerns the case.

    Then all of them together have to make the data true, and none may be left out. ``check``
    raises :class:`Mismatch` where its data is not what happened.
    """
    concerned = [name for name, adapt in known.items() if adapt(data) != data]
    check(_adapted(data, known, concerned))
    for name in concerned:
        try:
            check(_adapted(data, known, [other for other in concerned if other != name]))
        except Mismatch:
            continue
        pytest.fail(f"{name} makes no difference: take it from tests/known_differences.py")
    if concerned:
        pytest.xfail("; ".join(f"{name} ({DIFFERENCES[name].because})" for name in concerned))


def _adapted(data: Any, known: Adaptations, names: Iterable[str]) -> Any:
    for name in names:
        data = known[name](data)
    return data
