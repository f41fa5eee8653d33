"""A registration, and what a backend may answer in its place, against the official schemas.

We take no document that theirs refuse. Some that they take can't be served, or not safely, and are
refused before anything is sent; each such reason is in ``known_differences.py``.
"""

from __future__ import annotations

import logging
import re
from random import Random
from typing import Any

import pytest
from known_differences import DIFFERENCES

from ahp_sync.failure import OperationalFailure
from ahp_sync.protocol.configuration import configuration_of
from ahp_sync.protocol.registration_schema import CONFIGURATION, REGISTRATION
from ahp_sync.registration import problems
from schemas.compare import DEFAULT, NIGHTLY, compare
from schemas.instances import Draw

official = pytest.importorskip("schemas.official")

# --- registrations --------------------------------------------------------------------------------

#: What is wanted instead, where a document is refused that the official schema takes.
REASONS = {
    "a-scope-that-can-be-sent": "a scope: ASCII without blanks",
    "an-id-of-its-own": "an id of its own for each backend",
    "a-url-that-can-be-sent": "fragment|host|plain http|credentials in auth|port from|ASCII, all",
    "bounded-numbers": r"24 hours|an integer below 2\*\*64",
    "headers-of-the-client": "no such header: the client writes it itself",
    "text-that-can-be-passed-on": "without (?:= and )?NUL|without line breaks",
    "no-secret-in-a-binding": "no literal credential",
    "a-family-that-is-there": "a wildcard over some of them",
    "newline-behind-a-name": "a reverse-DNS name|the name of an environment variable",
}


def reasons(document: Any) -> list[set[str]]:
    """Return, for each problem of a document, the names of the differences that it may be."""
    return [
        {name for name, wanted in REASONS.items() if re.search(wanted, problem.wanted)}
        for problem in problems(document)
    ]


def draw_registration(random: Random) -> Any:
    """Return a document near to what is accepted; half of them without the likeliest reasons."""
    draw = Draw(random, official.names(), official.resolve())
    schema = random.choice([REGISTRATION, {"$ref": "registration.schema.json"}])
    document = draw.near(schema)
    return tidied(document) if random.random() < 0.5 else document


def tidied(value: Any, place: str = "") -> Any:
    """Return the value with ids of their own, no fragments and no numbers out of all bounds."""
    if isinstance(value, dict):
        return {name: tidied(inner, f"{place}.{name}") for name, inner in value.items()}
    if isinstance(value, list):
        return [tidied(inner, f"{place}{index}") for index, inner in enumerate(value)]
    if isinstance(value, str):
        if re.fullmatch(r"\.hooks\d+\.id", place) and "." in value:
            return f"x{re.sub('[^0-9]', '', place)}.{value}"
        return value.partition("#")[0] if "://" in value else value
    return value if isinstance(value, bool) or not isinstance(value, (int, float)) else value % 1e6


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Members that nobody knows are warned about, here as nowhere else."""
    caplog.set_level(logging.CRITICAL, "ahp_sync")


def check_registration(examples: int) -> None:
    """Compare on many documents; a refusal of ours is excused where each problem has its reason."""

    def excused(document: Any) -> bool:
        return bool(problems(document)) and all(reasons(document))

    compare(
        examples,
        draw_registration,
        lambda document: not problems(document),
        official.check("registration.schema.json"),
        quickly=official.quick_check("registration.schema.json"),
        excused=excused,
    )


def test_the_same_registrations_are_accepted() -> None:
    """What theirs refuse we refuse, and what we refuse in addition is listed."""
    check_registration(5 * DEFAULT)


@pytest.mark.nightly
def test_the_same_registrations_are_accepted_all_night() -> None:
    """The same, for longer."""
    check_registration(5 * NIGHTLY)


HTTP = {"type": "http", "url": "https://example.com/"}
STDIO = {"type": "stdio", "command": "x", "lifecycle": "persistent"}
OBSERVE = {"events": ["*"], "mode": "observe", "content": {"default": "omit"}}
INTERCEPT = {**OBSERVE, "mode": "intercept", "timeoutMs": 1, "failurePolicy": "fail-open"}
BEARER = {"type": "bearer", "tokenEnv": "T"}
OAUTH = {
    "type": "oauth",
    "resource": "https://example.com/",
    "issuer": "https://login.example.com",
    "clientId": "c",
    "flow": "client_credentials",
}


def one(transport: Any = HTTP, subscription: Any = OBSERVE, **more: Any) -> dict[str, Any]:
    """Return a document with one backend."""
    backend = {"id": "com.example.x", "transport": transport, "subscriptions": [subscription]}
    return {"protocolVersion": "draft", "hooks": [{**backend, **more}]}


WITNESSES = [
    ("a-scope-that-can-be-sent", one(authentication={**OAUTH, "scopes": ["a b"]})),
    ("an-id-of-its-own", {**one(), "hooks": one()["hooks"] * 2}),
    ("a-url-that-can-be-sent", one({**HTTP, "url": "https://example.com/#x"})),
    ("a-url-that-can-be-sent", one({**HTTP, "url": "http://example.com/"})),
    ("a-url-that-can-be-sent", one({**HTTP, "url": "https://a:b@example.com/"})),
    ("bounded-numbers", one(subscription={**INTERCEPT, "timeoutMs": 86_400_001})),
    ("headers-of-the-client", one({**HTTP, "headers": {"Content-Length": "1"}})),
    ("text-that-can-be-passed-on", one({**STDIO, "args": ["a\0b"]})),
    ("text-that-can-be-passed-on", one({**HTTP, "headers": {"X-Team": "ł"}})),
    ("no-secret-in-a-binding", one(authentication={**BEARER, "token": "t"})),
    ("a-family-that-is-there", one(subscription={**OBSERVE, "events": ["unknown.*"]})),
    ("newline-behind-a-name", one(authentication={**BEARER, "tokenEnv": "T\n"})),
]


@pytest.mark.parametrize(("difference", "document"), WITNESSES)
def test_a_listed_difference_is_there(difference: str, document: dict[str, Any]) -> None:
    """Ours refuses, for that reason alone, what theirs accepts."""
    assert difference in DIFFERENCES
    assert official.check("registration.schema.json")(document)
    found = reasons(document)
    assert found
    assert all(difference in names for names in found), problems(document)


def test_every_reason_is_listed_and_shown() -> None:
    """Nothing is excused that is not on the list, or that nobody has seen."""
    assert set(REASONS) == {difference for difference, _ in WITNESSES}
    assert set(REASONS) <= set(DIFFERENCES)


# --- configurations -------------------------------------------------------------------------------


def configuration_accepted(configuration: Any) -> bool:
    """Return whether a backend's answer with this configuration is taken."""
    try:
        configuration_of({"protocolVersion": "draft", "configuration": configuration})
    except OperationalFailure:
        return False
    return True


def draw_configuration(random: Random) -> Any:
    """Return a configuration near to what is accepted; theirs knows the events, ours does not."""
    draw = Draw(random, official.names(), official.resolve())
    theirs = {"$ref": "configuration.schema.json"}
    configuration = draw.near(random.choice([CONFIGURATION, theirs, theirs, theirs]))
    return tidied(configuration) if random.random() < 0.5 else configuration


def check_configuration(examples: int) -> None:
    """Compare on many configurations; only a time without bound makes a difference."""

    def excused(configuration: Any) -> bool:
        bounded = tidied(configuration)
        alike = official.check("configuration.schema.json")(bounded)
        return not configuration_accepted(configuration) and (
            configuration_accepted(bounded) is alike
        )

    compare(
        examples,
        draw_configuration,
        configuration_accepted,
        official.check("configuration.schema.json"),
        quickly=official.quick_check("configuration.schema.json"),
        excused=excused,
    )


def test_the_same_configurations_are_accepted() -> None:
    """A backend's own subscriptions are those that the official schema has (R-DISC-03)."""
    check_configuration(DEFAULT)


@pytest.mark.nightly
def test_the_same_configurations_are_accepted_all_night() -> None:
    """The same, for longer."""
    check_configuration(NIGHTLY)
