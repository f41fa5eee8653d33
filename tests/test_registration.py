"""The registration document: what is accepted and what becomes of it, what is refused and how."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Optional

import pytest

from ahp_sync.errors import AHPError, Problem, RegistrationError
from ahp_sync.failure import FailurePolicy
from ahp_sync.registration import (
    Backend,
    BearerBinding,
    ContentSelection,
    Header,
    HttpEndpoint,
    Lifecycle,
    Mode,
    OAuthBinding,
    OAuthFlow,
    Registration,
    StdioCommand,
    Subscription,
    UploadRoute,
    problems,
)

Document = dict[str, Any]


def http_document() -> Document:
    """Return a document with one HTTP backend, one interceptor and one observer."""
    return {
        "protocolVersion": "draft",
        "hooks": [
            {
                "id": "com.acme.guard",
                "transport": {
                    "type": "http",
                    "url": "https://guard.acme.example:8443/ahp?tenant=7",
                    "headers": {"X-Team": "blue", "X-Key": {"valueEnv": "GUARD_KEY"}},
                },
                "authentication": {"type": "bearer", "tokenEnv": "GUARD_TOKEN"},
                "subscriptions": [
                    {
                        "events": ["tool.*"],
                        "mode": "intercept",
                        "timeoutMs": 800,
                        "failurePolicy": "fail-closed",
                        "content": {"default": "metadata", "text": "body"},
                    },
                    {
                        "events": ["session.*", "tool.after"],
                        "mode": "observe",
                        "content": {"default": "omit"},
                        "includeNative": True,
                    },
                ],
            }
        ],
    }


def stdio_document() -> Document:
    """Return a document with one stdio backend and one observer."""
    return {
        "protocolVersion": "draft",
        "hooks": [
            {
                "id": "com.acme.local",
                "transport": {
                    "type": "stdio",
                    "command": "acme-hook",
                    "args": ["--strict", ""],
                    "lifecycle": "per_event",
                    "cwd": "/srv",
                    "env": {"MODE": "strict"},
                },
                "subscriptions": [
                    {"events": ["*"], "mode": "observe", "content": {"default": "omit"}}
                ],
            }
        ],
    }


def change(document: Document, path: str, value: Any) -> Document:
    """Set the member at a dotted path, such as ``hooks.0.id``; ``...`` takes it away."""
    *way, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    place: Any = document
    for step in way:
        place = place[step]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return document


# --- accepted -------------------------------------------------------------------------------------


def test_http_backend() -> None:
    """Everything a document says of an HTTP backend arrives in the frozen values."""
    registration = Registration.load(http_document())

    assert registration.backends == (
        Backend(
            id="com.acme.guard",
            transport=HttpEndpoint(
                "https://guard.acme.example:8443/ahp?tenant=7",
                (Header("X-Team", value="blue"), Header("X-Key", value_env="GUARD_KEY")),
            ),
            authentication=BearerBinding("GUARD_TOKEN"),
            subscriptions=(
                Subscription(
                    backend="com.acme.guard",
                    index=0,
                    selectors=("tool.*",),
                    events=frozenset(
                        {
                            *("tool.before", "tool.after", "tool.permission.request"),
                            "tool.batch.after",
                        }
                    ),
                    mode=Mode.INTERCEPT,
                    timeout_ms=800,
                    policy=FailurePolicy.FAIL_CLOSED,
                    content=ContentSelection("metadata", (("text", "body"),)),
                    include_native=False,
                ),
                Subscription(
                    backend="com.acme.guard",
                    index=1,
                    selectors=("session.*", "tool.after"),
                    events=frozenset({"session.start", "session.end", "tool.after"}),
                    mode=Mode.OBSERVE,
                    timeout_ms=None,
                    policy=None,
                    content=ContentSelection("omit"),
                    include_native=True,
                ),
            ),
        ),
    )


def test_stdio_backend() -> None:
    """Everything a document says of a stdio backend arrives in the frozen values."""
    (backend,) = Registration.load(stdio_document()).backends

    assert backend.authentication is None
    assert backend.transport == StdioCommand(
        command="acme-hook",
        args=("--strict", ""),
        lifecycle=Lifecycle.PER_EVENT,
        cwd="/srv",
        env=(("MODE", "strict"),),
    )


def test_a_registration_is_its_own_source() -> None:
    """A loaded registration is taken as it is."""
    registration = Registration.load(http_document())
    assert Registration.load(registration) is registration
    assert problems(registration) == []


def test_the_document_is_not_kept() -> None:
    """Later changes to the mapping do not reach the registration, and loading changes nothing."""
    document = http_document()
    registration = Registration.load(document)
    assert document == http_document()
    document["hooks"][0]["transport"]["headers"]["X-Team"] = "red"
    assert registration == Registration.load(http_document())


def test_timeout_in_seconds() -> None:
    """``timeout`` is in seconds for an interceptor and refused for an observer."""
    interceptor, observer = Registration.load(http_document()).backends[0].subscriptions
    assert interceptor.timeout == 0.8
    with pytest.raises(TypeError, match="timeoutMs"):
        _ = observer.timeout


@pytest.mark.parametrize("timeout", [1, 100, 30_000, 86_400_000, 2.0])
def test_timeouts_that_are_integers(timeout: float) -> None:
    """From one millisecond to 24 hours; JSON Schema counts 2.0 among the integers (T-16)."""
    document = change(http_document(), "hooks.0.subscriptions.0.timeoutMs", timeout)
    found = Registration.load(document).backends[0].subscriptions[0].timeout_ms
    assert found == timeout
    assert type(found) is int


def test_content_levels() -> None:
    """A category that is not listed has the default level (R-CON-03)."""
    content = Registration.load(http_document()).backends[0].subscriptions[0].content
    assert (content.level("text"), content.level("images")) == ("body", "metadata")


def test_the_last_of_equal_header_names_wins() -> None:
    """Header names are equal ignoring case, and the last of them counts (R-HDR-01)."""
    headers = {"X-A": "1", "X-B": "2", "x-a": {"valueEnv": "A"}}
    document = change(http_document(), "hooks.0.transport.headers", headers)
    transport = Registration.load(document).backends[0].transport
    assert isinstance(transport, HttpEndpoint)
    assert transport.headers == (Header("X-B", value="2"), Header("x-a", value_env="A"))


@pytest.mark.parametrize("value", ["", "a b\tc", "naïve", "ÿ", "~"])
def test_header_literals(value: str) -> None:
    """Empty and Latin-1 literals are fine (R-HDR-03)."""
    assert problems(change(http_document(), "hooks.0.transport.headers.X-Team", value)) == []


@pytest.mark.parametrize(
    "url",
    [
        "https://guard.example",
        "https://guard.example:1/a%20b;c?d=/e",
        "https://10.0.0.1/",
        "https://[2001:db8::1]:8443/",
        "https://guard.example./",
        "http://localhost:8080/ahp",
        "http://127.0.0.1",
        "http://127.255.0.9:80/",
        "http://[::1]:9000/",
    ],
)
def test_urls(url: str) -> None:
    """https goes anywhere, plain http to this machine only (R-HTTP-05)."""
    assert problems(change(http_document(), "hooks.0.transport.url", url)) == []


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://guard.example:8443/ahp?key=s#f", "https://guard.example:8443/ahp"),
        ("https://user:pass@guard.example/ahp", "https://guard.example/ahp"),
        ("https://user:pa/ss@guard.example/ahp", "(not a URL)"),
        ("file:///etc/passwd", "(not a URL)"),
    ],
)
def test_display_url(url: str, shown: str) -> None:
    """The URL that is shown has no user information, query or fragment, however it was made."""
    assert HttpEndpoint(url).display_url == shown


def test_a_backend_without_subscriptions_is_discovered() -> None:
    """It is asked for them at run time; one that has some is not (R-DISC-01)."""
    document = change(http_document(), "hooks.0.subscriptions", ...)
    (discovered,) = Registration.load(document).backends
    (explicit,) = Registration.load(http_document()).backends
    assert (discovered.subscriptions, discovered.is_discovered) == ((), True)
    assert not explicit.is_discovered


@pytest.mark.parametrize(
    ("extra", "scope", "disableable"),
    [
        ({"scope": "managed", "disableable": False}, "managed", False),
        ({"scope": "project", "disableable": True}, "project", True),
        ({"scope": "user"}, "user", None),
        ({"filters": {"toolKinds": ["shell"], "paths": ["/a", "/b"]}}, None, None),
        ({"filters": {}}, None, None),
    ],
)
def test_scope_and_filters(
    extra: Document, scope: Optional[str], disableable: Optional[bool]
) -> None:
    """Scopes are kept for the host to judge, filters are hints (R-REG-08, R-REG-09)."""
    document = http_document()
    document["hooks"][0]["subscriptions"][0].update(extra)
    subscription = Registration.load(document).backends[0].subscriptions[0]
    (plain, _) = Registration.load(http_document()).backends[0].subscriptions
    assert (subscription.scope, subscription.disableable) == (scope, disableable)
    assert replace(subscription, scope=None, disableable=None) == plain


def test_unknown_members_are_ignored_with_a_warning_each(caplog: pytest.LogCaptureFixture) -> None:
    """What is unknown is named in the log and activates nothing (R-UNK-01, R-REG-04, F62)."""
    document = http_document()
    backend = document["hooks"][0]
    document["$ref"] = "http://127.0.0.1:9/schema.json"
    document["x\n" + "y" * 100] = 1
    backend["retries"] = 9
    backend["transport"]["command"] = "rm"
    backend["transport"]["headers"]["X-Key"]["prefix"] = "p"
    backend["authentication"]["realm"] = "r"
    backend["subscriptions"][0]["async"] = True
    backend["subscriptions"][1]["filters"] = {"users": []}

    with caplog.at_level(logging.WARNING, "ahp_sync"):
        assert Registration.load(document) == Registration.load(http_document())

    assert [record.getMessage().split()[1] for record in caplog.records] == [
        '$["$ref"]',
        '$["x…"]',
        "$.hooks[0].retries",
        "$.hooks[0].transport.command",
        "$.hooks[0].transport.headers.X-Key.prefix",
        "$.hooks[0].authentication.realm",
        "$.hooks[0].subscriptions[0].async",
        "$.hooks[0].subscriptions[1].filters.users",
    ]


# --- refused --------------------------------------------------------------------------------------

URL, HEADERS = "hooks.0.transport.url", "hooks.0.transport.headers"
AUTHENTICATION = "hooks.0.authentication"
INTERCEPTOR, OBSERVER = "hooks.0.subscriptions.0", "hooks.0.subscriptions.1"
SCHEME = "an absolute URL that begins with lower-case https://"
NO_SUCH_HEADER = "no such header: the client writes it itself"
UNIT = "a whole number of milliseconds from 1 to 86400000 (24 hours); there is no default"

HTTP_REFUSALS = [
    ("protocolVersion", ..., "nothing", '"draft"'),
    ("protocolVersion", "0.1", '"0.1"', '"draft"'),
    ("hooks", ..., "nothing", "a list of at least one backend"),
    ("hooks", [], "an empty list", "a list of at least one backend"),
    ("hooks", {}, "an object", "a list of at least one backend"),
    ("hooks.0", "com.acme", "a string", "a backend object"),
    ("hooks.0.id", ..., "nothing", "a reverse-DNS name"),
    ("hooks.0.id", "guard", '"guard"', "a reverse-DNS name"),
    ("hooks.0.id", "com.acme\n", '"com.acme\\n"', "a reverse-DNS name"),
    ("hooks.0.id", "com.0acme", '"com.0acme"', "a reverse-DNS name"),
    ("hooks.0.contentReceiver", {}, "an object", "no contentReceiver"),
    ("hooks.0.transport", ..., "nothing", 'an object whose type is "http" or "stdio"'),
    ("hooks.0.transport", "https://x", "a string", "an object whose type is"),
    ("hooks.0.transport.type", ..., "nothing", '"http" or "stdio"'),
    ("hooks.0.transport.type", "tcp", '"tcp"', '"http" or "stdio"'),
    (URL, ..., "nothing", "the URL of the backend"),
    (URL, 5, "a number", "the URL of the backend"),
    (URL, "", "no such URL", SCHEME),
    (URL, "guard.example/ahp", "no such URL", SCHEME),
    (URL, "ws://guard.example", "no such URL", SCHEME),
    (URL, "HTTPS://guard.example", "a scheme that is not lower-case", SCHEME),
    (URL, "https:///ahp", "no host", "a host name"),
    (URL, "https://guard_example..com/", "no valid host", "a host name"),
    (URL, "https://guard\\.evil.example/", "no valid host", "a host name"),
    (URL, "https://guard\\@evil.example/", "user information", "credentials in"),
    (URL, "https://gu%61rd.example/", "no valid host", "a host name"),
    (URL, "https://guärd.example/", "no valid host", "a host name"),
    (URL, "https://[fe80::1%25eth0]/", "no valid host", "a host name"),
    (URL, "https://[::1/", "no valid host", "a host name"),
    (URL, "https://guard.example:0/", "no valid port", "a port from 1 to 65535"),
    (URL, "https://guard.example:65536/", "no valid port", "a port from 1 to 65535"),
    (URL, "https://guard.example:/", "no valid port", "a port from 1 to 65535"),
    (URL, "https://guard.example:https/", "no valid port", "a port from 1 to 65535"),
    (URL, "https://me@guard.example/", "user information before the host", "credentials in"),
    (URL, "https://guard.example/#top", "a fragment", "no #fragment"),
    (URL, "https://guard.example/a b", "characters that no URL has", "ASCII"),
    (URL, "https://guard.example/\n", "characters that no URL has", "ASCII"),
    (URL, "https://guard.example/%zz", "characters that no URL has", "ASCII"),
    (URL, "http://guard.example/", 'plain http to the remote host "guard.example"', "https"),
    (URL, "http://localhost.evil.example/", "plain http to the remote host", "https"),
    (URL, "http://127.1/", 'plain http to the remote host "127.1"', "https"),
    (URL, "http://0.0.0.0/", "plain http to the remote host", "https"),
    (URL, "http://[::2]/", "plain http to the remote host", "https"),
    (HEADERS, [], "an empty list", "an object of header names and values"),
    (f"{HEADERS}.X-Team", 5, "a number", "a string, or an object such as"),
    (f"{HEADERS}.X-Team", None, "null", "a string, or an object such as"),
    (f"{HEADERS}.X-Team", "a\r\nHost: b", "a string", "text of Latin-1 characters"),
    (f"{HEADERS}.X-Team", "a\x00", "a string", "text of Latin-1 characters"),
    (f"{HEADERS}.X-Team", "a\n", "a string", "text of Latin-1 characters"),
    (f"{HEADERS}.X-Team", " a", "a string", "text of Latin-1 characters"),
    (f"{HEADERS}.X-Team", "Ω", "a string", "text of Latin-1 characters"),
    (f"{HEADERS}.X-Key.valueEnv", ..., "nothing", "the name of an environment variable"),
    (f"{HEADERS}.X-Key.valueEnv", "A-B", "a string", "the name of an environment variable"),
    (f"{HEADERS}.X-Key.valueEnv", "A\n", "a string", "the name of an environment variable"),
    (f"{HEADERS}.AHP-Content-SHA256", "0", "a header that frames", NO_SUCH_HEADER),
    (f"{HEADERS}.X-Key.value", "secret", "a string", "no literal credential"),
    (f"{HEADERS}.Host", "a", "a header that frames or carries the message", NO_SUCH_HEADER),
    (f"{HEADERS}.content-LENGTH", "1", "a header that frames", NO_SUCH_HEADER),
    (f"{HEADERS}.Proxy-Authorization", "a", "a header that frames", NO_SUCH_HEADER),
    (f"{HEADERS}.Transfer-Encoding", "chunked", "a header that frames", NO_SUCH_HEADER),
    (AUTHENTICATION, None, "null", "an object such as"),
    (AUTHENTICATION, "token", "a string", "an object such as"),
    (f"{AUTHENTICATION}.type", ..., "nothing", ""),
    (f"{AUTHENTICATION}.type", "mtls", "a string", '"bearer" or "oauth"'),
    (f"{AUTHENTICATION}.tokenEnv", ..., "nothing", "the name of an environment variable"),
    (f"{AUTHENTICATION}.tokenEnv", "9A", "a string", "the name of an environment variable"),
    (f"{AUTHENTICATION}.tokenEnv", "", "an empty string", "the name of an environment"),
    (f"{AUTHENTICATION}.token", "secret", "a string", "no literal credential"),
    (f"{AUTHENTICATION}.value", "secret", "a string", "no literal credential"),
    (f"{AUTHENTICATION}.client_secret", "secret", "a string", "no literal credential"),
    (f"{AUTHENTICATION}.apiKey", "secret", "a string", "no literal credential"),
    (f"{AUTHENTICATION}.PASSWORD", "secret", "a string", "no literal credential"),
    ("hooks.0.subscriptions", None, "null", "a list of at least one subscription, or no such"),
    ("hooks.0.subscriptions", [], "an empty list", "a list of at least one subscription"),
    (INTERCEPTOR, None, "null", "a subscription object"),
    (f"{INTERCEPTOR}.mode", ..., "nothing", '"intercept" or "observe"'),
    (f"{INTERCEPTOR}.mode", "Intercept", '"Intercept"', '"intercept" or "observe"'),
    (f"{INTERCEPTOR}.timeoutMs", ..., "nothing", UNIT),
    (f"{INTERCEPTOR}.timeoutMs", 0, "0", UNIT),
    (f"{INTERCEPTOR}.timeoutMs", -1, "-1", UNIT),
    (f"{INTERCEPTOR}.timeoutMs", 1.5, "1.5", UNIT),
    (f"{INTERCEPTOR}.timeoutMs", True, "true", UNIT),
    (f"{INTERCEPTOR}.timeoutMs", None, "null", UNIT),
    (f"{INTERCEPTOR}.timeoutMs", "5", '"5"', UNIT),
    (f"{INTERCEPTOR}.timeoutMs", 1e12, "1000000000000.0", UNIT),
    (f"{INTERCEPTOR}.timeoutMs", 86_400_001, "86400001", UNIT),
    (f"{INTERCEPTOR}.failurePolicy", ..., "nothing", '"fail-open" or "fail-closed"; there is no'),
    (f"{INTERCEPTOR}.failurePolicy", "open", '"open"', '"fail-open" or "fail-closed"'),
    (f"{INTERCEPTOR}.failurePolicy", None, "null", '"fail-open" or "fail-closed"'),
    (f"{INTERCEPTOR}.content", ..., "nothing", "an object with a default"),
    (f"{INTERCEPTOR}.content.default", ..., "nothing", '"body" or "metadata" or "omit"'),
    (f"{INTERCEPTOR}.content.text", "full", '"full"', '"body" or "metadata" or "omit"'),
    (f"{INTERCEPTOR}.includeNative", 1, "1", "true or false"),
    (f"{INTERCEPTOR}.upload", None, "null", "an upload object"),
    (f"{INTERCEPTOR}.filters", [], "an empty list", "an object of hints"),
    (f"{INTERCEPTOR}.filters", {"paths": "/a"}, "a string", "a list of strings"),
    (f"{INTERCEPTOR}.scope", "global", '"global"', '"managed" or "project" or "user"'),
    (f"{INTERCEPTOR}.scope", "managed", "nothing", 'false, as the scope is "managed"'),
    (f"{INTERCEPTOR}.disableable", "no", '"no"', "true or false"),
    (f"{INTERCEPTOR}.events", ..., "nothing", "a list of at least one event name"),
    (f"{INTERCEPTOR}.events", [], "an empty list", "a list of at least one event name"),
    (f"{INTERCEPTOR}.events", "tool.before", "a string", "a list of at least one event name"),
    (f"{INTERCEPTOR}.events.0", 1, "1", "an event name"),
    (
        f"{INTERCEPTOR}.events.0",
        "tool.befor",
        '"tool.befor" (no such event)',
        "one of session.start",
    ),
    (
        f"{INTERCEPTOR}.events.0",
        "tool.progress",
        '"tool.progress" (can only be observed)',
        "one of",
    ),
    (f"{INTERCEPTOR}.events.0", "session.end", '"session.end" (can only be observed)', "one of"),
    (
        f"{INTERCEPTOR}.events.0",
        "file.*",
        '"file.*" (can only be observed)',
        "one of session.start",
    ),
    (f"{INTERCEPTOR}.events.0", "hook.*", '"hook.*" (can only be observed)', "one of"),
    (f"{INTERCEPTOR}.events.0", "unknown.*", '"unknown.*" (no such family of', "one of"),
    (f"{INTERCEPTOR}.events.0", "tool*", '"tool*" (no such event)', "one of"),
    (f"{INTERCEPTOR}.events.0", "*.before", '"*.before" (no such event)', "one of"),
    (f"{INTERCEPTOR}.events.0", "Tool.*", '"Tool.*" (no such', "one of"),
    (f"{OBSERVER}.events.0", "turn.ended", '"turn.ended" (no such event)', "one of"),
    (f"{OBSERVER}.events.0", "user.elicitation.*", '"user.elicitation.*" (no such', "one of"),
    (f"{OBSERVER}.events.0", "tool.after", "", ""),
    (f"{OBSERVER}.timeoutMs", 100, "100", "no timeoutMs in an observe subscription"),
    (f"{OBSERVER}.failurePolicy", "fail-open", '"fail-open"', "no failurePolicy in an observe"),
]

# Where the problem stands at another place than the change.
ELSEWHERE = {
    (f"{INTERCEPTOR}.filters", "a string"): f"{INTERCEPTOR}.filters.paths",
    (f"{INTERCEPTOR}.scope", "nothing"): f"{INTERCEPTOR}.disableable",
    (f"{OBSERVER}.events.0", ""): f"{OBSERVER}.events.1",
}

COMMAND = "hooks.0.transport"
STDIO_REFUSALS = [
    (f"{COMMAND}.command", ..., "nothing", "the program to start"),
    (f"{COMMAND}.command", "", "an empty string", "the program to start"),
    (f"{COMMAND}.command", "a\x00b", "a string", "the program to start"),
    (f"{COMMAND}.args", "--strict", "a string", "a list of strings"),
    (f"{COMMAND}.args.0", 5, "a number", "a string without NUL"),
    (f"{COMMAND}.args.0", "\x00", "a string", "a string without NUL"),
    (f"{COMMAND}.lifecycle", ..., "nothing", '"persistent" or "per_event"'),
    (f"{COMMAND}.lifecycle", "forever", '"forever"', '"persistent" or "per_event"'),
    (f"{COMMAND}.cwd", "", "an empty string", "a directory"),
    (f"{COMMAND}.env", [], "an empty list", "an object of variable names"),
    (f"{COMMAND}.env.MODE", 1, "a number", "a literal string without NUL"),
    (f"{COMMAND}.env.A=B", "x", "a name that no environment variable can have", "at least one"),
    ("hooks.0.authentication", {"type": "bearer", "tokenEnv": "T"}, "an object", "no authentic"),
]


def json_path(path: str) -> str:
    """Return the JSON path for a dotted one."""
    steps = path.split(".")
    return "$" + "".join(f"[{step}]" if step.isdigit() else f".{step}" for step in steps)


@pytest.mark.parametrize(
    ("make", "path", "value", "found", "wanted"),
    [
        pytest.param(make, *row, id=f"{row[0]}-{row[1]!r}")
        for make, rows in ((http_document, HTTP_REFUSALS), (stdio_document, STDIO_REFUSALS))
        for row in rows
    ],
)
def test_refused(
    make: Callable[[], Document], path: str, value: Any, found: str, wanted: str
) -> None:
    """One mistake is one problem, with its path, what was found and what is right."""
    document = change(make(), path, value)
    place = json_path(ELSEWHERE.get((path, found), path)).replace(".A=B", '["A…"]')

    if (path, found) == (f"{OBSERVER}.events.0", ""):
        found, wanted = "an earlier entry again", "each entry once"
    assert [problem.path for problem in problems(document)] == [place]
    (problem,) = problems(document)
    assert problem.found.startswith(found)
    assert problem.wanted.startswith(wanted)
    with pytest.raises(RegistrationError) as caught:
        Registration.load(document)
    assert caught.value.problems == (problem,)


def test_a_header_name_is_a_token() -> None:
    """The name is shown only as far as it looks like one: the rest may be a secret."""
    document = change(http_document(), f"{HEADERS}.Authorization: Bearer abc", "x")
    assert problems(document) == [
        Problem(
            '$.hooks[0].transport.headers["Authorization…"]',
            "a name that is not an HTTP token",
            "letters, digits and any of !#$%&'*+.^_`|~-",
        )
    ]


def test_backend_ids_are_unique() -> None:
    """The second backend of one id is refused, however else it differs (R-REG-04)."""
    document = http_document()
    document["hooks"].append(copy.deepcopy(document["hooks"][0]))
    assert [str(problem) for problem in problems(document)] == [
        "$.hooks[1].id: found the id of hooks[0] again; wanted an id of its own for each backend"
    ]


def test_a_url_may_have_several_problems() -> None:
    """All that is wrong with one value is told at once, without showing any of it."""
    document = change(http_document(), URL, "http://me:pw@guard.example:0/ #f")
    assert [problem.found for problem in problems(document)] == [
        "plain http to a remote host",
        "user information before the host",
        "no valid port",
        "characters that no URL has",
        "a fragment",
    ]


def test_all_problems_at_once() -> None:
    """Mistakes all over the document are told together, one a line, in the order of places."""
    document = http_document()
    document["hooks"].append({"id": "com.acme.guard", "transport": {"type": "stdio"}})
    change(document, URL, "http://guard.example")
    change(document, f"{INTERCEPTOR}.timeoutMs", 0)
    change(document, f"{INTERCEPTOR}.failurePolicy", ...)
    change(document, f"{OBSERVER}.events", ["*", "turn.ended"])
    document["hooks"] += [http_document()["hooks"][0] for _ in range(9)]
    for position, backend in enumerate(document["hooks"][2:]):
        backend["id"] = f"com.acme.b{position}"
    change(document, "hooks.10.id", 7)

    with pytest.raises(AHPError) as caught:
        Registration.load(document)

    assert [line.partition(":")[0] for line in str(caught.value).splitlines()] == [
        "$.hooks[0].subscriptions[0].failurePolicy",
        "$.hooks[0].subscriptions[0].timeoutMs",
        "$.hooks[0].subscriptions[1].events[1]",
        "$.hooks[0].transport.url",
        "$.hooks[1].id",
        "$.hooks[1].transport.command",
        "$.hooks[1].transport.lifecycle",
        "$.hooks[10].id",
    ]


# --- credentials and uploads ----------------------------------------------------------------------

OAUTH = {
    "type": "oauth",
    "resource": "https://guard.acme.example/ahp",
    "issuer": "https://login.acme.example",
    "clientId": "agent",
    "clientSecretRef": "agent-secret",
    "flow": "client_credentials",
    "scopes": ["hooks:ask", "hooks:tell"],
}
UPLOAD = {
    "endpoint": "https://files.acme.example/in?tenant=7",
    "timeoutMs": 2000,
    "maxBytes": 1024,
    "auth": {"type": "bearer", "tokenRef": "files"},
}


def test_bindings_and_uploads_arrive_in_the_frozen_values() -> None:
    """R-REG-07: each of them with credentials of its own."""
    document = change(http_document(), AUTHENTICATION, OAUTH)
    change(document, f"{HEADERS}.X-Key", {"valueRef": "key"})
    (backend,) = Registration.load(change(document, f"{INTERCEPTOR}.upload", UPLOAD)).backends
    assert backend.authentication == OAuthBinding(
        resource="https://guard.acme.example/ahp",
        issuer="https://login.acme.example",
        client_id="agent",
        flow=OAuthFlow.CLIENT_CREDENTIALS,
        scopes=("hooks:ask", "hooks:tell"),
        client_secret_ref="agent-secret",
    )
    assert isinstance(backend.transport, HttpEndpoint)
    assert backend.transport.headers[1] == Header("X-Key", value_ref="key")
    upload = backend.subscriptions[0].upload
    assert upload == UploadRoute(UPLOAD["endpoint"], 2000, 1024, BearerBinding(token_ref="files"))
    assert upload.timeout == 2.0
    assert backend.subscriptions[1].upload is None


@pytest.mark.parametrize(
    ("path", "value", "places"),
    [
        (f"{AUTHENTICATION}.tokenRef", "a", ["authentication.tokenEnv"]),
        (AUTHENTICATION, {"type": "bearer", "tokenRef": ""}, ["authentication.tokenRef"]),
        (f"{HEADERS}.X-Key.valueRef", "a", ["transport.headers.X-Key.valueEnv"]),
        (AUTHENTICATION, {**OAUTH, "issuer": "http://x.example"}, ["authentication.issuer"]),
        (AUTHENTICATION, {**OAUTH, "flow": "implicit"}, ["authentication.flow"]),
        (AUTHENTICATION, {**OAUTH, "scopes": ["a", "a"]}, ["authentication.scopes[1]"]),
        (AUTHENTICATION, {**OAUTH, "scopes": ["a b"]}, ["authentication.scopes[0]"]),
        (AUTHENTICATION, {**OAUTH, "client_secret": "x"}, ["authentication.client_secret"]),
        (AUTHENTICATION, {"type": "oauth", "resource": "r"}, None),
        (f"{INTERCEPTOR}.upload", {**UPLOAD, "timeoutMs": 0}, ["upload.timeoutMs"]),
        (f"{INTERCEPTOR}.upload", {**UPLOAD, "maxBytes": -1}, ["upload.maxBytes"]),
        (f"{INTERCEPTOR}.upload", {**UPLOAD, "auth": {"type": "mtls"}}, ["upload.auth.type"]),
        (f"{INTERCEPTOR}.upload", {**UPLOAD, "endpoint": "https://a@b/"}, ["upload.endpoint"]),
        (f"{INTERCEPTOR}.upload", {**UPLOAD, "endpoint": "http://b.example/"}, None),
        (f"{INTERCEPTOR}.upload", {}, None),
    ],
)
def test_bad_bindings_and_uploads_are_refused(path: str, value: Any, places: Any) -> None:
    """R-REG-04, R-REG-07: each mistake at its place."""
    found = [problem.path for problem in problems(change(http_document(), path, value))]
    assert found
    if places is not None:
        assert len(found) == 1
        assert found[0].endswith(places[0])


def test_a_content_type_for_uploads_is_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    """T-10: how a body is framed is not for a registration to say."""
    document = change(http_document(), f"{HEADERS}.Content-Type", "application/x-hooks+json")
    Registration.load(document)
    assert "is not sent with uploads" not in caplog.text
    Registration.load(change(document, f"{INTERCEPTOR}.upload", UPLOAD))
    assert "Content-Type is not sent with uploads" in caplog.text


# --- secrets --------------------------------------------------------------------------------------

CANARY = "CANARY-5e5f1c"

SECRET_PLACES = [
    (http_document, URL),
    (http_document, f"{HEADERS}.X-Team"),
    (http_document, f"{HEADERS}.X-Key"),
    (http_document, f"{HEADERS}.X-Key.valueEnv"),
    (http_document, f"{HEADERS}.X-Key.value"),
    (http_document, f"{HEADERS}.X-Key.valueRef"),
    (http_document, AUTHENTICATION),
    (http_document, f"{AUTHENTICATION}.type"),
    (http_document, f"{AUTHENTICATION}.token"),
    (http_document, f"{AUTHENTICATION}.tokenEnv"),
    (http_document, f"{AUTHENTICATION}.tokenRef"),
    (http_document, f"{AUTHENTICATION}.note"),
    (stdio_document, AUTHENTICATION),
    (stdio_document, f"{COMMAND}.args"),
    (stdio_document, f"{COMMAND}.args.0"),
    (stdio_document, f"{COMMAND}.env"),
    (stdio_document, f"{COMMAND}.env.MODE"),
]

SECRET_FORMS = [
    CANARY,
    f"{CANARY}\n",
    f"\x00{CANARY}",
    f"Ω{CANARY}",
    f"Bearer {CANARY}",
    f"https://me:{CANARY}@guard.example/",
    f"http://me:{CANARY}/x@guard.example/",
    f"http://{CANARY}/x@guard.example/",
    f"https://guard.example/?key={CANARY}",
    f"https://guard.example/?key={CANARY}#x",
    f"https://guard.example:{CANARY}/",
    f"HTTPS://{CANARY}/",
    [CANARY],
    {"token": CANARY},
    {f"Bearer {CANARY}": CANARY},
]


@pytest.mark.parametrize("secret", SECRET_FORMS, ids=repr)
def test_secrets_are_never_shown(secret: Any, caplog: pytest.LogCaptureFixture) -> None:
    """No error, log line or repr holds what stands where a secret may stand (F51)."""
    shown = []
    for make, path in SECRET_PLACES:
        document = change(make(), path, copy.deepcopy(secret))
        shown += [repr(problem) + str(problem) for problem in problems(document)]
        try:
            registration = Registration.load(document)
        except RegistrationError as error:
            shown.append(str(error) + repr(error))
        else:
            shown.append(repr(registration))
            shown += [
                backend.transport.display_url
                for backend in registration.backends
                if isinstance(backend.transport, HttpEndpoint)
            ]
    assert shown
    assert CANARY not in "".join(shown) + caplog.text
