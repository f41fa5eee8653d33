"""What a backend answers when it is asked for its subscriptions: values in, values out.

An answer is taken as it is or refused; nothing in it is repaired (R-DISC-03). It is a stranger's:
what a failure says of it names places and what is right there, and quotes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Callable, Optional, Union

from ahp_sync.failure import FailureClass, OperationalFailure
from ahp_sync.protocol.events import EventType, Mode, named
from ahp_sync.protocol.messages import PROTOCOL_VERSION

__all__ = ["MAX_BYTES", "configuration_of", "subscribable"]

#: The largest answer that is read, in bytes: what a whole registration may have.
MAX_BYTES = 1 << 20

# R-REG-01. A family that nobody knows selects nothing, and is dropped for that (R-DISC-04).
_WILDCARD = re.compile(r"\*|[a-z][a-z0-9]*\.\*")


def subscribable(event: EventType, mode: Mode) -> bool:
    """Return whether the protocol lets a subscription of this mode have this event."""
    return mode is Mode.OBSERVE or event.interceptable


def configuration_of(
    result: dict[str, Any], check: Optional[Callable[[], object]] = None
) -> dict[str, Any]:
    """Return the ``configuration`` of the result of a ``hooks/configuration`` request.

    :param check: called now and then and may raise, since a long list takes long to validate.

    Raises ``OperationalFailure``: ``missing_result``, ``unsupported`` (R-VER-01), ``malformed``.
    """
    _check_result(result)
    configuration = result["configuration"]
    if not isinstance(configuration, dict) or "subscriptions" not in configuration:
        raise _malformed("$.configuration", "an object with a list of subscriptions")
    _check_schema(configuration, check)
    for position, subscription in enumerate(configuration["subscriptions"]):
        _check_lists(f"$.configuration.subscriptions[{position}]", subscription)
    return configuration


def _check_result(result: dict[str, Any]) -> None:
    for name in ("protocolVersion", "configuration"):
        if name not in result:
            raise OperationalFailure(
                FailureClass.MISSING_RESULT, "no_configuration", f"the result has no {name}"
            )
    if result["protocolVersion"] != PROTOCOL_VERSION:
        raise OperationalFailure(
            FailureClass.UNSUPPORTED,
            "protocol_version",
            f"the result's protocolVersion is not {PROTOCOL_VERSION!r}",
        )
    for foreign in ("manifest", "effects"):
        if foreign in result:
            raise OperationalFailure(
                FailureClass.MALFORMED,
                "conflicting_members",
                f"the result of a configuration request must not have {foreign!r}",
            )


def _check_schema(configuration: dict[str, Any], check: Optional[Callable[[], object]]) -> None:
    from jsonschema import Draft202012Validator

    from ahp_sync.protocol.registration_schema import CONFIGURATION

    listed = CONFIGURATION["properties"]["subscriptions"]
    subscriptions = configuration["subscriptions"]
    if not isinstance(subscriptions, list) or not subscriptions:
        raise _malformed("$.configuration.subscriptions", listed["description"])
    validator = Draft202012Validator(listed["items"])
    for position, subscription in enumerate(subscriptions):
        if check is not None:
            check()
        for error in validator.iter_errors(subscription):
            path, schema = list(error.absolute_path), error.schema
            if error.validator == "required":
                missing = next(name for name in schema["required"] if name not in error.instance)
                path, schema = [*path, missing], schema["properties"][missing]
            place = _place(f"$.configuration.subscriptions[{position}]", path)
            raise _malformed(place, schema["description"])


def _check_lists(place: str, subscription: dict[str, Any]) -> None:
    """Check what the schema leaves out: that names exist in the mode, and stand once each."""
    mode = Mode(subscription["mode"])
    for position, selector in enumerate(subscription["events"]):
        if not _selects(selector, mode):
            wanted = f"an event of the draft in {mode} mode, family.* or *"
            raise _malformed(f"{place}.events[{position}]", wanted)
    lists = {"events": subscription["events"]}
    for name in ("toolKinds", "paths"):
        lists[f"filters.{name}"] = subscription.get("filters", {}).get(name, [])
    lists["upload.auth.scopes"] = subscription.get("upload", {}).get("auth", {}).get("scopes", [])
    for name, entries in lists.items():
        if len(set(entries)) != len(entries):
            raise _malformed(f"{place}.{name}", "a list with each entry once")


def _selects(selector: str, mode: Mode) -> bool:
    if _WILDCARD.fullmatch(selector) is not None:
        return True
    return any(subscribable(event, mode) for event in named(selector))


def _place(base: str, path: Iterable[Union[str, int]]) -> str:
    """Return a place in the answer, as far as the protocol named it and not the backend."""
    from ahp_sync.protocol.registration_schema import FILTERS, SUBSCRIPTION_MEMBERS, UPLOAD

    known = {*SUBSCRIPTION_MEMBERS, *FILTERS["properties"], *UPLOAD["properties"], "default"}
    for step in path:
        if isinstance(step, str) and step not in known:
            break
        base += f"[{step}]" if isinstance(step, int) else f".{step}"
    return base


def _malformed(place: str, wanted: str) -> OperationalFailure:
    return OperationalFailure(
        FailureClass.MALFORMED, "bad_configuration", f"{place} must be {wanted}"
    )
