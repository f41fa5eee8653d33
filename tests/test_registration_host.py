"""A registration before one host: what it narrows, and what it refuses to serve."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ahp_sync.capabilities import Capabilities
from ahp_sync.errors import Problem, RegistrationError
from ahp_sync.grants import Flow, Grant, Modify
from ahp_sync.protocol.events import EVENTS, Mode
from ahp_sync.registration import Registration, Subscription
from ahp_sync.testing import hooks, intercept, observe

FIRST = "$.hooks[0].subscriptions[0]"


def registration(*subscriptions: dict[str, Any], **backend: Any) -> Registration:
    """Return the registration of one backend with these subscriptions."""
    transport = {"type": "http", "url": "https://guard.example.com"}
    entry = {"id": "com.example.guard", "transport": transport, **backend}
    if subscriptions:
        entry["subscriptions"] = list(subscriptions)
    return Registration.load(hooks(entry))


def served(loaded: Registration, capabilities: Capabilities, **more: Any) -> list[Subscription]:
    """Return the subscriptions of all backends as the host serves them."""
    backends = loaded.for_host(capabilities, **more).backends
    return [subscription for backend in backends for subscription in backend.subscriptions]


def refused(loaded: Registration, capabilities: Capabilities, **more: Any) -> list[Problem]:
    """Return the problems for which the host refuses the registration."""
    with pytest.raises(RegistrationError) as caught:
        loaded.for_host(capabilities, **more)
    return list(caught.value.problems)


# --- events (R-REG-02) ----------------------------------------------------------------------------


def test_wildcards_are_narrowed_to_what_the_host_declares() -> None:
    """Both the mode and the host leave events out; the selectors stay as they were (D-13)."""
    loaded = registration(intercept(["*"]), intercept(["tool.*", "session.start"]), observe(["*"]))
    host = Capabilities({"tool.before": Grant(), "turn.start": Grant(), "session.start": Grant()})
    everything, some, told = served(loaded, host)
    assert everything.events == {"tool.before", "turn.start", "session.start"}
    assert some.events == {"tool.before", "session.start"}
    assert told.events == EVENTS.keys()
    assert (everything.selectors, some.selectors) == (("*",), ("tool.*", "session.start"))
    assert loaded.backends[0].subscriptions[0].events > everything.events


def test_what_is_narrowed_for_one_host_can_be_served_by_another() -> None:
    """The selectors are what counts, so the way over a poor host loses nothing."""
    loaded = registration(intercept(["*"]))
    poor = Capabilities({"tool.before": Grant()})
    rich = Capabilities({"tool.before": Grant(), "turn.start": Grant()})
    assert loaded.for_host(poor).for_host(rich) == loaded.for_host(rich)
    assert loaded.for_host(rich).for_host(rich) == loaded.for_host(rich)


@pytest.mark.parametrize(
    ("subscription", "found", "wanted"),
    [
        (
            intercept(["turn.start"]),
            '"turn.start" (this host only lets it be observed)',
            "one of tool.before, or a wildcard over some of them",
        ),
        (
            intercept(["workspace.change.before"]),
            '"workspace.change.before" (this host raises no such event)',
            "one of tool.before, or a wildcard over some of them",
        ),
        (
            observe(["file.changed"]),
            '"file.changed" (this host raises no such event)',
            "one of turn.start, tool.before, tool.after, or a wildcard over some of them",
        ),
        (
            intercept(["turn.*"]),
            '"turn.*" (this host only lets it be observed)',
            "one of tool.before, or a wildcard over some of them",
        ),
        (
            observe(["file.*"]),
            '"file.*" (this host raises no such event)',
            "one of turn.start, tool.before, tool.after, or a wildcard over some of them",
        ),
    ],
)
def test_a_selector_that_selects_nothing_is_refused(
    subscription: dict[str, Any], found: str, wanted: str
) -> None:
    """By its name or as a wildcard: it would be a policy that silently does not apply."""
    host = Capabilities({"tool.before": Grant()}, observe=["tool.after", "turn.start"])
    problem = Problem(f"{FIRST}.events[0]", found, wanted)
    assert refused(registration(subscription), host) == [problem]


def test_a_host_without_interception_refuses_interceptors() -> None:
    """However they select, and in words that say so."""
    (problem,) = refused(registration(intercept(["*"])), Capabilities({}))
    assert problem == Problem(
        f"{FIRST}.events[0]",
        '"*" (this host only lets it be observed)',
        "no intercept subscription: this host declares no event for one",
    )


# --- policy (R-REG-09, R-REG-10) ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("timeout_ms", "wanted"),
    [
        (99, "at least 100, this host's minTimeoutMs"),
        (100, None),
        (30_000, None),
        (30_001, "at most 30000, this host's maxTimeoutMs"),
    ],
)
def test_timeouts_are_within_the_hosts_limits(timeout_ms: int, wanted: str) -> None:
    """Those that the host has; observers have no deadline to be judged."""
    loaded = registration(intercept(timeout_ms=timeout_ms), observe())
    host = Capabilities(limits={"minTimeoutMs": 100, "maxTimeoutMs": 30_000})
    if wanted is None:
        assert len(served(loaded, host)) == 2
    else:
        assert refused(loaded, host) == [Problem(f"{FIRST}.timeoutMs", str(timeout_ms), wanted)]
    assert len(served(loaded, Capabilities())) == 2


@pytest.mark.parametrize("make", [intercept, observe])
def test_a_scope_that_the_host_does_not_enforce_is_refused(make: Any) -> None:
    """A host that leaves a scope out can't hold its promises, and says so at once."""
    loaded = registration(make(scope="managed", disableable=False))
    assert served(loaded, Capabilities())[0].scope == "managed"
    host = Capabilities(policy_scopes=("user", "project"))
    wanted = "a scope that this host enforces: user, project"
    assert refused(loaded, host) == [Problem(f"{FIRST}.scope", '"managed"', wanted)]
    assert len(served(registration(make(scope="project")), host)) == 1
    assert len(served(registration(make()), Capabilities(policy_scopes=()))) == 1


def test_what_may_not_be_disabled_is_refused_where_it_can_be() -> None:
    """A host with a switch of its own for hooks says so, and gets no subscription without one."""
    host = Capabilities(policy_scopes=("user", "project"), disableable=True)
    assert refused(registration(intercept(disableable=False)), host) == [
        Problem(
            f"{FIRST}.disableable",
            "false",
            "true, or no such member: this host lets its users switch hooks off",
        )
    ]
    assert len(served(registration(intercept(disableable=True)), host)) == 1
    managed = registration(intercept(scope="managed", disableable=False))
    paths = [problem.path for problem in refused(managed, host)]
    assert paths == [f"{FIRST}.disableable", f"{FIRST}.scope"]


def test_a_declaration_that_contradicts_itself_is_an_error() -> None:
    """Managed policy and a switch do not go together (R-CAP-06), nor does an unknown scope."""
    with pytest.raises(ValueError, match="managed"):
        Capabilities(disableable=True)
    with pytest.raises(ValueError, match="policy_scopes"):
        Capabilities(policy_scopes=("global",))
    with pytest.raises(TypeError, match="disableable"):
        Capabilities(disableable=0)  # type: ignore[arg-type]


def test_the_manifest_tells_of_it() -> None:
    """``managedPolicy`` is what the host declared."""
    host = Capabilities(policy_scopes=("user",), disableable=True)
    assert host.manifest()["managedPolicy"] == {"scopes": ["user"], "disableable": True}
    everything = {"scopes": ["user", "project", "managed"], "disableable": False}
    assert Capabilities().manifest()["managedPolicy"] == everything


# --- needs and credentials ------------------------------------------------------------------------

HOST = Capabilities(
    {
        "tool.before": Grant(("deny", "ask"), modify=Modify(replace=False), flow=Flow(("stop",))),
        "turn.start": Grant(),
    }
)


@pytest.mark.parametrize(
    ("event", "grant", "found"),
    [
        ("tool.before", Grant(), None),
        ("tool.before", Grant(("ask",)), None),
        ("tool.before", Grant(("deny",), modify=Modify(replace=False)), None),
        ("tool.before", Grant(("allow",)), "a host that grants less"),
        ("tool.before", Grant(modify=Modify(merge=False)), "a host that grants less"),
        ("tool.before", Grant(("return", "ask")), "a host that grants less"),
        ("turn.start", Grant(), "no interceptor of turn.start"),
    ],
)
def test_needs(event: str, grant: Grant, found: str) -> None:
    """A host that grants less than a backend is known to need refuses, rather than each answer."""
    loaded = registration(intercept(["tool.*"]), observe(["*"]))
    if found is None:
        assert served(loaded, HOST, needs={event: grant})
    else:
        (problem,) = refused(loaded, HOST, needs={event: grant})
        assert problem.found.startswith(found)


def test_needs_of_discovered_backends() -> None:
    """What they intercept is not known yet; what the host grants is."""
    assert served(registration(), HOST, needs={"turn.start": Grant()}) == []
    (problem,) = refused(registration(), HOST, needs={"turn.start": Grant(("deny",))})
    assert problem.wanted == "one that grants deny"


def test_a_need_that_no_event_has_is_a_mistake_of_the_host() -> None:
    """It is no matter of the registration."""
    with pytest.raises(ValueError, match="allow"):
        registration(intercept()).for_host(HOST, needs={"turn.start": Grant(("allow",))})


def test_variables_are_looked_for_where_that_is_asked_for() -> None:
    """By default not before something is sent (R-HDR-03, R-AUTH-01); values are never shown."""
    headers = {"X-Key": {"valueEnv": "KEY"}, "X-Team": "blue"}
    loaded = registration(
        intercept(),
        transport={"type": "http", "url": "https://guard.example.com", "headers": headers},
        authentication={"type": "bearer", "tokenEnv": "TOKEN"},
    )
    assert served(loaded, Capabilities())
    assert served(loaded, Capabilities(), environ={"KEY": "k", "TOKEN": "t"})
    problems = refused(loaded, Capabilities(), environ={"KEY": ""})
    assert [problem.path for problem in problems] == [
        "$.hooks[0].authentication.tokenEnv",
        "$.hooks[0].transport.headers.X-Key.valueEnv",
    ]
    assert {problem.found for problem in problems} == {"a variable that is unset or empty"}


def test_a_binding_that_a_header_replaces_needs_no_variable() -> None:
    """A registered ``Authorization`` switches it off (R-HDR-02)."""
    headers = {"authorization": "Basic abc"}
    loaded = registration(
        intercept(),
        transport={"type": "http", "url": "https://guard.example.com", "headers": headers},
        authentication={"type": "bearer", "tokenEnv": "TOKEN"},
    )
    assert served(loaded, Capabilities(), environ={})


def test_all_problems_are_told_at_once() -> None:
    """Of every backend and subscription, in the order of places."""
    transport = {"type": "stdio", "command": "guard", "lifecycle": "persistent"}
    decides = intercept(["turn.start", "tool.*"], timeout_ms=5, scope="project")
    loaded = Registration.load(
        hooks(
            *(
                {"id": name, "transport": transport, "subscriptions": [observe(), decides]}
                for name in ("com.example.a", "com.example.b")
            )
        )
    )
    host = Capabilities(limits={"minTimeoutMs": 100}, policy_scopes=("user",))
    paths = [problem.path for problem in refused(loaded, host, needs={"turn.start": Grant()})]
    assert paths == ["$"] + [
        f"$.hooks[{backend}].subscriptions[1].{member}"
        for backend in range(2)
        for member in ("events[0]", "scope", "timeoutMs")
    ]


# --- any host -------------------------------------------------------------------------------------

FAMILIES = sorted({f"{event.family}.*" for event in EVENTS.values()})
HOSTS = st.builds(
    lambda asked, told: Capabilities({name: Grant() for name in asked}, observe=told),
    st.sets(st.sampled_from([e.name for e in EVENTS.values() if e.interceptable])),
    st.sets(st.sampled_from(list(EVENTS))),
)


@settings(max_examples=200)
@given(
    host=HOSTS,
    mode=st.sampled_from(Mode),
    selectors=st.lists(st.sampled_from([*EVENTS, *FAMILIES, "*"]), min_size=1, unique=True),
)
def test_what_a_host_serves(host: Capabilities, mode: Mode, selectors: list[str]) -> None:
    """All that it declares and the selectors name, nothing else; and no selector names nothing."""
    declared = host.intercept if mode is Mode.INTERCEPT else host.observed

    def chosen(selector: str) -> set[str]:
        family = selector[:-1] if selector.endswith("*") else "none"
        return {name for name in declared if name == selector or name.startswith(family)}

    make = intercept if mode is Mode.INTERCEPT else observe
    try:
        loaded = registration(make(selectors))
    except RegistrationError:
        # The protocol itself lets nobody decide about it.
        assert mode is Mode.INTERCEPT
        assert any(not chosen(selector) for selector in selectors)
        return
    if all(chosen(selector) for selector in selectors):
        (subscription,) = served(loaded, host)
        assert subscription.events == set().union(*map(chosen, selectors))
    else:
        places = [problem.path for problem in refused(loaded, host)]
        assert places == [
            f"{FIRST}.events[{position}]"
            for position, selector in enumerate(selectors)
            if not chosen(selector)
        ]
