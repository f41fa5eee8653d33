"""Registration documents drawn at random: nothing escapes, and the official schema agrees."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ahp_sync.errors import RegistrationError
from ahp_sync.protocol.events import EVENTS
from ahp_sync.registration import Registration, problems

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)

PYTHON = st.recursive(
    JSON
    | st.binary()
    | st.complex_numbers()
    | st.text(st.characters(categories=["Cs"]))
    | st.integers(min_value=10**4400, max_value=10**4401),
    lambda inner: (
        st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.none() | st.integers() | st.binary() | st.text(), inner, max_size=4)
    ),
    max_leaves=12,
)

# Values that stand somewhere in documents, good or not quite, so that a mutation may fit.
LIKELY = st.sampled_from(
    [
        *("draft", "http", "stdio", "bearer", "oauth", "intercept", "observe", "managed", "body"),
        *("fail-open", "fail-closed", "per_event", "tool.before", "tool.*", "*", "omit", "A_1"),
        *("com.acme.x", "com.acme.guard", "http://localhost", "https://h:1/?q#f", "https://a@b/"),
        *("https://[::1]/[]", "https://h_h/%41", "http://127.0.0.1:80", "https://h/\x7f", "a\n"),
        *(0, 1, 2.0, 1.5, 10**9, True, False, None, [], {}, [""], {"default": "body"}),
        *({"valueEnv": "A"}, {"valueRef": "a"}, {"type": "bearer", "tokenEnv": "A"}),
    ]
).map(copy.deepcopy)

NAMES = st.sampled_from(
    [
        *("id", "transport", "authentication", "subscriptions", "contentReceiver", "url", "args"),
        *("command", "env", "cwd", "headers", "type", "tokenEnv", "tokenRef", "token", "mode"),
        *("events", "timeoutMs", "failurePolicy", "content", "scope", "disableable", "upload"),
        *("filters", "toolKinds", "paths", "includeNative", "Host", "X-A", "x y", "zzz"),
    ]
)


def urls() -> st.SearchStrategy[str]:
    """Return URLs that a backend may have."""
    name = st.from_regex(
        r"[a-z0-9]([a-z0-9-]{0,9}[a-z0-9])?(\.[a-z][a-z0-9]{1,5})?", fullmatch=True
    )
    host = name | st.sampled_from(["10.1.2.3", "[2001:db8::1]"])
    base = host.map(lambda text: f"https://{text}") | st.sampled_from(
        ["http://localhost", "http://127.0.0.9", "http://[::1]"]
    )
    port = st.integers(1, 65535).map(":{}".format) | st.just("")
    path = st.from_regex(r"(/[A-Za-z0-9._~!$&'()*+,;=:@-]*(%[0-9A-F]{2})?){0,3}", fullmatch=True)
    query = st.from_regex(r"(\?[A-Za-z0-9/?=&%-]{0,0}[a-z=&/?]*)?", fullmatch=True)
    return st.builds("{}{}{}{}".format, base, port, path, query)


#: The families none of whose events can be intercepted.
NO_DECISIONS = {"file.*", "hook.*"}


def subscriptions() -> st.SearchStrategy[dict[str, Any]]:
    """Return subscriptions that this version serves."""
    level = st.sampled_from(["body", "metadata", "omit"])
    extra: dict[str, st.SearchStrategy[Any]] = {
        "includeNative": st.booleans(),
        "scope": st.sampled_from(["project", "user"]),
        "disableable": st.booleans(),
        "filters": st.fixed_dictionaries(
            {}, optional={"paths": st.lists(st.text("abc", min_size=1), unique=True)}
        ),
    }
    content = st.dictionaries(st.text("abc", max_size=5), level).flatmap(
        lambda categories: level.map(lambda default: {**categories, "default": default})
    )
    wildcards = ["*", *sorted({f"{event.family}.*" for event in EVENTS.values()} - NO_DECISIONS)]
    asked = [event.name for event in EVENTS.values() if event.interceptable]
    observe = {
        "events": st.lists(st.sampled_from([*EVENTS, *wildcards]), min_size=1, unique=True),
        "mode": st.just("observe"),
        "content": content,
    }
    intercept = {
        "events": st.lists(st.sampled_from([*asked, *wildcards]), min_size=1, unique=True),
        "mode": st.just("intercept"),
        "content": content,
        "timeoutMs": st.integers(1, 86_400_000) | st.integers(1, 1000).map(float),
        "failurePolicy": st.sampled_from(["fail-open", "fail-closed"]),
    }
    return st.fixed_dictionaries(observe, optional=extra) | st.fixed_dictionaries(
        intercept, optional=extra
    )


def backends() -> st.SearchStrategy[dict[str, Any]]:
    """Return backends that this version serves."""
    environment_name = st.from_regex("[A-Za-z_][A-Za-z0-9_]{0,9}", fullmatch=True)
    text = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=9)
    latin = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), max_size=9)
    http = st.fixed_dictionaries(
        {"type": st.just("http"), "url": urls()},
        optional={
            "headers": st.dictionaries(
                st.from_regex(r"X-[!#$%&'*+.^_`|~0-9A-Za-z-]{1,9}", fullmatch=True),
                latin | environment_name.map(lambda name: {"valueEnv": name}),
                max_size=3,
            )
        },
    )
    stdio = st.fixed_dictionaries(
        {
            "type": st.just("stdio"),
            "command": text.filter(bool),
            "lifecycle": st.sampled_from(["persistent", "per_event"]),
        },
        optional={
            "args": st.lists(text),
            "cwd": text.filter(bool),
            "env": st.dictionaries(environment_name, text, max_size=3),
        },
    )
    shared = {
        "id": st.from_regex(
            r"[A-Za-z][A-Za-z0-9_-]{0,5}(\.[A-Za-z][a-z_-]{0,5}){1,3}", fullmatch=True
        ),
    }
    extra = {"subscriptions": st.lists(subscriptions(), min_size=1, max_size=3)}
    bearer = environment_name.map(lambda name: {"type": "bearer", "tokenEnv": name})
    return st.fixed_dictionaries(
        {**shared, "transport": http}, optional={**extra, "authentication": bearer}
    ) | st.fixed_dictionaries({**shared, "transport": stdio}, optional=extra)


def documents() -> st.SearchStrategy[dict[str, Any]]:
    """Return registration documents that this version serves."""
    hooks = st.lists(backends(), min_size=1, max_size=3, unique_by=lambda backend: backend["id"])
    return hooks.map(lambda hooks: {"protocolVersion": "draft", "hooks": hooks})


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every (container, key) below a value."""
    if isinstance(value, (dict, list)):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield value, key
            yield from places(inner)


@st.composite
def mutants(draw: st.DrawFn, values: st.SearchStrategy[Any]) -> dict[str, Any]:
    """Return documents with one or two members changed, added or taken away."""
    document = draw(documents())
    for _ in range(draw(st.integers(1, 2))):
        everywhere = list(places(document))
        if not everywhere:
            break
        container, key = draw(st.sampled_from(everywhere))
        action = draw(st.sampled_from(["change", "add", "take"]))
        if action == "take":
            del container[key]
        elif action == "add" and isinstance(container, dict):
            container[draw(NAMES)] = draw(values)
        else:
            container[key] = draw(values)
    return document


@settings(deadline=None, max_examples=150)
@given(JSON | PYTHON | mutants(JSON | PYTHON | LIKELY))
def test_only_registration_errors_are_raised(source: Any) -> None:
    """Whatever stands in a mapping, loading gives a registration or a RegistrationError."""
    assume(not isinstance(source, str))  # a path
    found = problems(source)
    try:
        Registration.load(source)
    except RegistrationError as error:
        assert list(error.problems) == found != []
        assert len(str(error).splitlines()) == len(found)
    else:
        assert found == []


@settings(deadline=None, max_examples=100)
@given(documents())
def test_good_documents_are_loaded(document: dict[str, Any]) -> None:
    """What the protocol allows and this version serves is accepted whole."""
    registration = Registration.load(document)
    assert [backend.id for backend in registration.backends] == [
        backend["id"] for backend in document["hooks"]
    ]
    for backend, raw in zip(registration.backends, document["hooks"]):
        assert [subscription.index for subscription in backend.subscriptions] == list(
            range(len(raw.get("subscriptions", ())))
        )
        assert all(subscription.events <= set(EVENTS) for subscription in backend.subscriptions)


# --- the official schema as oracle ----------------------------------------------------------------


@pytest.fixture(scope="module")
def official() -> Any:
    """Return the registration check of the official SDK: it raises what it refuses."""
    runtime = pytest.importorskip("agenthooksprotocol.runtime")
    return runtime.Validator()


@settings(deadline=None, max_examples=100)
@given(document=documents())
def test_good_documents_are_officially_good(official: Any, document: dict[str, Any]) -> None:
    """The documents that the other test has us accept are accepted by the official SDK too."""
    official.validate("registration", document)


@settings(deadline=None, max_examples=200)
@given(document=mutants(LIKELY))
def test_what_we_accept_is_officially_good(official: Any, document: dict[str, Any]) -> None:
    """A document near a good one is refused by us, or accepted by the official SDK."""
    if not problems(document):
        official.validate("registration", document)
