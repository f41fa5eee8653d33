"""What of a registration a host can't serve: events, policy, needs (R-REG-02, R-REG-09, R-REG-10).

A registration is checked against the protocol when it is loaded, and against the host's own
declaration here, before anything is started or sent (R-ROLE-02).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Optional

from ahp_sync.findings import Findings, Path, describe
from ahp_sync.protocol.events import EVENTS, Mode, expand, named

if TYPE_CHECKING:
    from ahp_sync.capabilities import Capabilities
    from ahp_sync.grants import Grant
    from ahp_sync.registration import Backend, Header, Subscription

__all__ = ["check_host", "narrowed", "policy_problems"]

#: Where in a subscription, what was found, and what is right.
Complaint = tuple[Path, str, str]


def check_host(
    backends: Iterable[Backend],
    capabilities: Capabilities,
    needs: Mapping[str, Grant],
    environ: Optional[Mapping[str, str]],
    findings: Findings,
) -> None:
    """Note in ``findings`` what the host can't serve; see ``Registration.for_host``."""
    backends = list(backends)
    for position, backend in enumerate(backends):
        path: Path = ("hooks", position)
        for subscription in backend.subscriptions:
            inner = (*path, "subscriptions", subscription.index)
            for place, found, wanted in (
                *_event_problems(subscription, capabilities),
                *policy_problems(subscription, capabilities),
            ):
                findings.add((*inner, *place), found, wanted)
        for place in _unset_variables(backend, environ) if environ is not None else ():
            findings.add((*path, *place), "a variable that is unset or empty", "one that is set")
    for event_type, grant in needs.items():
        for found, wanted in _unmet(event_type, grant, backends, capabilities):
            findings.add((), found, wanted)


def narrowed(subscription: Subscription, capabilities: Capabilities) -> Subscription:
    """Return the subscription with the events that the host declares, perhaps none (D-13)."""
    mode = subscription.mode
    events = expand(subscription.selectors, lambda event: capabilities.supports(event, mode))
    return replace(subscription, events=events)


def _event_problems(subscription: Subscription, capabilities: Capabilities) -> Iterator[Complaint]:
    mode = subscription.mode
    for position, selector in enumerate(subscription.selectors):
        events = named(selector)
        if any(capabilities.supports(event, mode) for event in events):
            continue
        reason = "this host raises no such event"
        if any(event.name in capabilities.observed for event in events):
            reason = "this host only lets it be observed"
        names = [event.name for event in EVENTS.values() if capabilities.supports(event, mode)]
        wanted = f"one of {', '.join(names)}, or a wildcard over some of them"
        if not names:
            wanted = f"no {mode} subscription: this host declares no event for one"
        found = f"{describe(selector, quote=True)} ({reason})"
        yield ("events", position), found, wanted


def policy_problems(subscription: Subscription, capabilities: Capabilities) -> Iterator[Complaint]:
    """Yield what the host can't enforce of a subscription: its deadline, its scope."""
    timeout = subscription.timeout_ms
    if timeout is not None:
        least = capabilities.limits.get("minTimeoutMs", timeout)
        most = capabilities.limits.get("maxTimeoutMs", timeout)
        if timeout < least:
            yield ("timeoutMs",), str(timeout), f"at least {least}, this host's minTimeoutMs"
        if timeout > most:
            yield ("timeoutMs",), str(timeout), f"at most {most}, this host's maxTimeoutMs"
    scopes, scope = capabilities.policy_scopes, subscription.scope
    if scope is not None and scope not in scopes:
        wanted = f"a scope that this host enforces: {', '.join(scopes) or 'it has none'}"
        yield ("scope",), describe(scope, quote=True), wanted
    if subscription.disableable is False and capabilities.disableable:
        wanted = "true, or no such member: this host lets its users switch hooks off"
        yield ("disableable",), "false", wanted


def _unset_variables(backend: Backend, environ: Mapping[str, str]) -> Iterator[Path]:
    from ahp_sync.registration_credentials import bindings_of

    for place, binding in bindings_of(backend):
        variable = getattr(binding, "token_env", None)
        if variable is not None and not environ.get(variable):
            yield (*place, "tokenEnv")
    headers: tuple[Header, ...] = getattr(backend.transport, "headers", ())
    for header in headers:
        if header.value_env is not None and not environ.get(header.value_env):
            yield ("transport", "headers", header.name, "valueEnv")


def _unmet(
    event_type: str, grant: Grant, backends: Iterable[Backend], capabilities: Capabilities
) -> Iterator[tuple[str, str]]:
    grant.check(event_type)
    declared = capabilities.intercept.get(event_type)
    if declared is None or not grant.narrows(declared):
        needed = f"grants {', '.join(grant.names)}" if grant.names else "has backends asked"
        yield f"a host that grants less than is needed at {event_type}", f"one that {needed}"
    if not any(_may_intercept(backend, event_type) for backend in backends):
        yield f"no interceptor of {event_type}", "one, as what it needs was named"


def _may_intercept(backend: Backend, event_type: str) -> bool:
    return backend.is_discovered or any(
        subscription.mode is Mode.INTERCEPT and event_type in subscription.events
        for subscription in backend.subscriptions
    )
