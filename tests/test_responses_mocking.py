"""Users can put a mock in the place of an HTTP backend, with the ``responses`` library."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Callable

import pytest
import requests
import responses

from ahp_sync import AuditKind, Client, FailureClass, Outcome, RetryPolicy
from ahp_sync.testing import (
    AuditLog,
    HttpBackend,
    assert_audit,
    assert_denied,
    assert_failed_open,
    assert_proceeds,
    assert_synthetic_denial,
    hooks,
    intercept,
    observe,
)

URL = "https://guard.example/ahp"
QUICKLY = RetryPolicy(initial_backoff=0.001, jitter=0)


@pytest.fixture
def mocked() -> Iterator[responses.RequestsMock]:
    """A mock that is strict: every response that was prepared has to be asked for."""
    with responses.RequestsMock(assert_all_requests_are_fired=True) as mock:
        yield mock


@pytest.fixture
def hook_client(ahp_client: Callable[..., Client]) -> Callable[..., Client]:
    """``hook_client(*subscriptions)``: a client of one backend at ``URL``, which is not there."""

    def make(*subscriptions: dict[str, Any], **options: Any) -> Client:
        entry = {
            "id": "com.example.guard",
            "transport": {"type": "http", "url": options.pop("url", URL)},
            "subscriptions": list(subscriptions) or [intercept(timeout_ms=5000)],
        }
        return ahp_client(hooks(entry), **{"retry": QUICKLY, **options})

    return make


def ask(client: Client) -> Outcome:
    return client.tool_before(name="Bash", input={"command": "ls"}, event_id="ev-1")


def answer(*effects: dict[str, Any], id: str = "ev-1") -> dict[str, Any]:
    """Return the body of a successful response."""
    result = {"protocolVersion": "draft", "effects": list(effects)}
    return {"jsonrpc": "2.0", "id": id, "result": result}


DENY = {"type": "deny", "reason": "not today"}


# --- answers ----------------------------------------------------------------------------------


def test_a_mocked_denial_denies(
    mocked: responses.RequestsMock, hook_client: Callable[..., Client]
) -> None:
    """The reason is the mock's."""
    mocked.post(URL, json=answer(DENY))
    assert_denied(ask(hook_client()), "not today")


def test_a_mocked_neutral_answer_lets_the_call_run(
    mocked: responses.RequestsMock, hook_client: Callable[..., Client]
) -> None:
    """An empty list of effects, and then none at all."""
    mocked.post(URL, json=answer())
    mocked.post(URL, json={**answer(), "result": {"protocolVersion": "draft"}})
    client = hook_client()
    assert_proceeds(ask(client))
    assert_proceeds(ask(client))


def test_the_mock_sees_the_request_as_it_is_sent(
    mocked: responses.RequestsMock, hook_client: Callable[..., Client]
) -> None:
    """Body, headers and method, so that a test can look at what its harness asks."""
    mocked.post(URL, json=answer())
    outcome = ask(hook_client())
    [call] = mocked.calls
    assert call.request.method == "POST"
    assert call.request.headers["Content-Type"] == "application/json"
    body = call.request.body or b""
    assert call.request.headers["Content-Length"] == str(len(body))
    message = json.loads(body)
    assert (message["method"], message["id"]) == ("hooks/intercept", "ev-1")
    assert message["params"]["event"] == outcome.event


def test_matchers_and_callbacks_work(
    mocked: responses.RequestsMock, hook_client: Callable[..., Client]
) -> None:
    """An answer can be made from the request, as a backend does."""

    def decide(request: requests.PreparedRequest) -> tuple[int, dict[str, str], str]:
        message = json.loads(request.body or b"")
        denial = {**DENY, "reason": message["params"]["event"]["tool"]["name"]}
        return 200, {}, json.dumps(answer(denial, id=message["id"]))

    mocked.add_callback(
        "POST",
        URL,
        decide,
        content_type="application/json",
        match=[responses.matchers.header_matcher({"Accept": "application/json"})],
    )
    assert_denied(hook_client().tool_before(name="Write", input={}), "Write")


def test_an_observer_is_mocked_as_well(
    mocked: responses.RequestsMock, hook_client: Callable[..., Client]
) -> None:
    """A notification is one POST without an id, and its 204 is enough."""
    mocked.post(URL, status=204)
    client = hook_client(observe())
    client.session_start(session="s-1")
    [call] = mocked.calls
    message = json.loads(call.request.body or b"")
    assert message["method"] == "hooks/observe"
    assert "id" not in message


# --- failures ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "failure_class"),
    [
        (302, FailureClass.HTTP_STATUS),
        (401, FailureClass.AUTHENTICATION),
        (404, FailureClass.HTTP_STATUS),
        (500, FailureClass.HTTP_STATUS),
    ],
)
def test_a_mocked_status_is_a_failure(
    mocked: responses.RequestsMock,
    hook_client: Callable[..., Client],
    ahp_audit: AuditLog,
    status: int,
    failure_class: FailureClass,
) -> None:
    """A success under such a status does not count; the mock is asked once."""
    mocked.post(URL, json=answer(), status=status, headers={"Location": URL})
    assert_synthetic_denial(ask(hook_client()), failure_class=failure_class)
    assert len(mocked.calls) == 1
    assert_audit(ahp_audit, http_status=status, attempts=1)


def test_a_mocked_503_is_tried_again(
    mocked: responses.RequestsMock, hook_client: Callable[..., Client], ahp_audit: AuditLog
) -> None:
    """AHP-CORE-004: the same bytes go out again, and the second answer counts."""
    mocked.post(URL, status=503)
    mocked.post(URL, json=answer(DENY))
    assert_denied(ask(hook_client()), "not today")
    first, second = mocked.calls
    assert first.request.body == second.request.body
    assert_audit(ahp_audit, kind=AuditKind.EXPLICIT_DENIAL, attempts=2)


@pytest.mark.parametrize(
    ("raised", "failure_class", "attempts"),
    [
        (requests.ConnectionError, FailureClass.CONNECTION, 3),
        (ConnectionResetError, FailureClass.CONNECTION, 3),
        (requests.Timeout, FailureClass.DEADLINE_EXCEEDED, 1),
        (requests.exceptions.SSLError, FailureClass.CONNECTION, 1),
        (RuntimeError, FailureClass.CONNECTION, 1),
    ],
)
def test_a_mocked_exception_is_a_failure(
    mocked: responses.RequestsMock,
    hook_client: Callable[..., Client],
    raised: type[Exception],
    failure_class: FailureClass,
    attempts: int,
) -> None:
    """What ``requests`` raises becomes a class; connections are tried again, the rest is not."""
    mocked.post(URL, body=raised("the mock says no"))
    client = hook_client(intercept(timeout_ms=5000, policy="fail-open"))
    outcome = ask(client)
    assert_failed_open(outcome, failure_class=failure_class)
    assert len(mocked.calls) == attempts
    assert "mock" not in str(outcome)


def test_an_address_that_is_not_mocked_is_a_failure(
    mocked: responses.RequestsMock, hook_client: Callable[..., Client]
) -> None:
    """Nothing goes to the network while the mock is on; the text of the mock stays inside."""
    outcome = ask(hook_client())
    assert_synthetic_denial(outcome, failure_class=FailureClass.CONNECTION)
    assert "guard.example" not in str(outcome)


@pytest.mark.parametrize(
    ("kind", "failure_class"),
    [
        ({"body": "<h1>It works</h1>", "content_type": "text/html"}, FailureClass.MALFORMED),
        ({"json": [answer()]}, FailureClass.MALFORMED),
        ({"json": answer(id="ev-2")}, FailureClass.ID_MISMATCH),
        ({"json": answer({"type": "allow"})}, FailureClass.EFFECTS),
        ({"body": b"", "content_type": "application/json"}, FailureClass.MALFORMED),
    ],
    ids=["html", "batch", "another id", "not granted", "empty"],
)
def test_a_mocked_answer_is_checked_like_a_real_one(
    mocked: responses.RequestsMock,
    hook_client: Callable[..., Client],
    kind: dict[str, Any],
    failure_class: FailureClass,
) -> None:
    """A mistake in a mock shows as the failure it would be."""
    mocked.post(URL, **kind)
    assert_synthetic_denial(ask(hook_client()), failure_class=failure_class)


# --- the mock itself --------------------------------------------------------------------------


def test_calls_are_counted(
    mocked: responses.RequestsMock, hook_client: Callable[..., Client]
) -> None:
    """One call of the hook is one call of the mock, for each subscription."""
    first = mocked.post(URL, json=answer())
    client = hook_client(intercept(), intercept())
    for _ in range(3):
        assert_proceeds(ask(client))
    assert first.call_count == 6
    mocked.assert_call_count(URL, 6)


def test_a_mock_that_was_not_asked_is_noticed(hook_client: Callable[..., Client]) -> None:
    """``assert_all_requests_are_fired`` tells a harness that forgot its hook."""
    mock = responses.RequestsMock(assert_all_requests_are_fired=True)
    with pytest.raises(AssertionError, match=r"guard\.example"), mock:
        mock.post(URL, json=answer())
        hook_client()


@responses.activate
def test_the_decorator_works(hook_client: Callable[..., Client]) -> None:
    """The default mock, as most test suites use it."""
    responses.post(URL, json=answer(DENY))
    assert_denied(ask(hook_client()), "not today")
    assert len(responses.calls) == 1


def test_pass_through_reaches_a_real_backend(
    hook_client: Callable[..., Client], ahp_http_backend: Callable[..., HttpBackend]
) -> None:
    """A backend may be real while others are mocked."""
    backend = ahp_http_backend("deny")
    with responses.RequestsMock() as mock:
        mock.add_passthru(backend.base_url)
        assert_denied(ask(hook_client(url=backend.url)))
    assert len(backend.requests) == 1


def test_a_client_works_on_after_the_mock(
    hook_client: Callable[..., Client], ahp_http_backend: Callable[..., HttpBackend]
) -> None:
    """Nothing of the mock stays in a client."""
    backend = ahp_http_backend("ok")
    client = hook_client(url=backend.url)
    with responses.RequestsMock() as mock:
        mock.post(backend.url, json=answer(DENY))
        assert_denied(ask(client))
    assert_proceeds(ask(client))
    assert len(backend.requests) == 1
