"""Attachments through the client: uploaded first, named by the receiver's reference, or settled."""

from __future__ import annotations

import hashlib
import io
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

import pytest
from receiver import Receiver
from watching import SLACK, descriptors, eventually, timed

from ahp_sync import (
    Attachment,
    Budget,
    Capabilities,
    Client,
    Decision,
    FailureClass,
    Grant,
    Inject,
    InvalidEvent,
    Modify,
    Outcome,
)
from ahp_sync.testing import AuditLog, HttpBackend, assert_audit, assert_synthetic_denial, hooks

Backends = Callable[..., HttpBackend]
Clients = Callable[..., Client]

BODY = {"default": "body"}
MEBIBYTE = 1 << 20
WHOLE = Capabilities({"turn.start": Grant(("deny",), modify=Modify(), inject=Inject())})


@pytest.fixture
def ahp_client(ahp_client: Clients) -> Clients:
    """The plugin's, which lets backends decide about turns."""

    def open_(*args: Any, **options: Any) -> Client:
        options.setdefault("capabilities", WHOLE)
        return ahp_client(*args, **options)

    return open_


@pytest.fixture
def receivers() -> Iterator[Callable[..., Receiver]]:
    """``receivers(answer)``: an upload endpoint, closed afterwards."""
    opened: list[Receiver] = []

    def open_(*args: Any, **options: Any) -> Receiver:
        opened.append(Receiver(*args, **options))
        return opened[-1]

    yield open_
    for one in opened:
        one.close()


def subscription(mode: str = "intercept", **more: Any) -> dict[str, Any]:
    decides = {"timeoutMs": 5000, "failurePolicy": "fail-closed"} if mode == "intercept" else {}
    return {"mode": mode, "events": ["turn.start"], "content": BODY, **decides, **more}


def entry(backend: HttpBackend, *subscriptions: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "id": backend.default_id,
        "transport": backend.transport(),
        "subscriptions": list(subscriptions),
        **more,
    }


def start(client: Client, *attachments: Any, **more: Any) -> Outcome:
    items = [{"id": "m-1", "role": "user", "parts": list(attachments)}]
    return client.turn_start(turn="t-1", items=items, trigger="user", **more)


def parts(backend: HttpBackend, number: int = 0) -> list[dict[str, Any]]:
    event = backend.requests[number].message["params"]["event"]
    found: list[dict[str, Any]] = event["items"][0]["parts"]
    return found


def png(data: bytes = b"\x89PNG\x00\xff", **more: Any) -> Attachment:
    return Attachment.from_bytes(data, "image/png", **more)


# --- what is sent -----------------------------------------------------------------------------


def test_a_body_is_uploaded_before_the_event_that_names_it(
    ahp_http_backend: Backends, ahp_client: Clients, receivers: Callable[..., Receiver]
) -> None:
    """R-UPL-01: exact framing, the exact endpoint, and only the reference in the event."""
    backend, receiver = ahp_http_backend("ok"), receivers()
    client = ahp_client(hooks(entry(backend, subscription(upload=receiver.route()))))
    data = os.urandom(1000)
    outcome = start(client, png(data, id="p-1"))
    assert outcome.may_execute
    (upload,) = receiver.received
    assert upload.path == "/in?tenant=7"
    assert upload.body == data
    assert upload.header("Content-Type") == "application/octet-stream"
    assert upload.header("Content-Length") == "1000"
    assert upload.header("AHP-Content-SHA256") == hashlib.sha256(data).hexdigest()
    for absent in ("Transfer-Encoding", "Content-Encoding", "Authorization", "Cookie"):
        assert upload.header(absent) is None
    assert parts(backend) == [
        {
            "id": "p-1",
            "kind": "attachment",
            "mediaType": "image/png",
            "selection": "body",
            "body": {"ref": "ref-1"},
        }
    ]


def test_nothing_is_uploaded_or_told_of_another_receivers_reference(
    ahp_http_backend: Backends, ahp_client: Clients, receivers: Callable[..., Receiver]
) -> None:
    """R-UPL-05: each receiver has its own, an observer of the same one shares it."""
    first, second, receiver, other = (
        ahp_http_backend("ok"),
        ahp_http_backend("ok"),
        receivers(),
        receivers(),
    )
    other.received.append(None)  # type: ignore[arg-type]  # so that its references differ
    client = ahp_client(
        hooks(
            entry(
                first,
                subscription(upload=receiver.route()),
                subscription("observe", upload=receiver.route()),
                id="com.example.a",
            ),
            entry(second, subscription(upload=other.route()), id="com.example.b"),
        )
    )
    attachment = png()
    for _ in range(2):
        assert start(client, attachment).may_execute
    assert (receiver.attempts, other.attempts) == (1, 1)
    assert len(first.requests) == 4
    assert {parts(first, number)[0]["body"]["ref"] for number in range(4)} == {"ref-1"}
    assert {parts(second, number)[0]["body"]["ref"] for number in range(2)} == {"ref-2"}


@pytest.mark.parametrize("level", ["metadata", "omit"])
def test_nothing_is_read_for_who_may_not_see_it(
    ahp_http_backend: Backends,
    ahp_client: Clients,
    receivers: Callable[..., Receiver],
    level: str,
) -> None:
    """R-CON-08: nor for a subscription to something else."""

    class Unread(io.RawIOBase):
        def read(self, size: int = -1) -> bytes:
            raise AssertionError("it was read")

    backend, receiver = ahp_http_backend("ok"), receivers()
    hidden = subscription(upload=receiver.route(), content={"default": level})
    unmatched = subscription(upload=receiver.route(), events=["turn.finish.before"])
    capabilities = Capabilities({"turn.start": Grant(("deny",)), "turn.finish.before": Grant()})
    client = ahp_client(hooks(entry(backend, hidden, unmatched)), capabilities=capabilities)
    attachment = Attachment.from_stream(Unread(), "image/png", max_bytes=10)  # type: ignore[arg-type]
    outcome = start(client, attachment)
    assert outcome.may_execute
    assert receiver.attempts == 0
    assert parts(backend)[0]["selection"] == level
    assert "body" not in parts(backend)[0]


def test_uploads_have_credentials_of_their_own(
    ahp_http_backend: Backends,
    ahp_client: Clients,
    receivers: Callable[..., Receiver],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """R-UPL-03: never those of the events; registered headers go along, but frame nothing."""
    monkeypatch.setenv("EVENTS", "for-events")
    monkeypatch.setenv("FILES", "for-files")
    backend, receiver = ahp_http_backend("ok"), receivers(token="for-files")
    auth = {"type": "bearer", "tokenEnv": "FILES"}
    headers = {"X-Team": "blue", "Content-Type": "application/vnd.x+json"}
    backend_entry = entry(backend, subscription(upload=receiver.route(auth=auth)))
    backend_entry["transport"]["headers"] = headers
    backend_entry["authentication"] = {"type": "bearer", "tokenEnv": "EVENTS"}
    assert start(ahp_client(hooks(backend_entry)), png()).may_execute
    (upload,) = receiver.received
    assert upload.header("Authorization") == "Bearer for-files"
    assert upload.header("X-Team") == "blue"
    assert upload.header("Content-Type") == "application/octet-stream"
    assert backend.requests[0].header("Authorization") == "Bearer for-events"
    assert backend.requests[0].header("Content-Type") == "application/vnd.x+json"

    anonymous = receivers(token="for-files")
    backend_entry["subscriptions"] = [subscription(upload=anonymous.route())]
    outcome = start(ahp_client(hooks(backend_entry)), png())
    assert_synthetic_denial(outcome, failure_class="authentication")
    assert anonymous.attempts == 1  # never sent again (R-AUTH-04)
    assert anonymous.received[0].header("Authorization") is None


# --- what fails -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "failure_class"),
    [
        *((status, "http_status") for status in (200, 202, 204, 400, 403, 404, 413, 500, 503)),
        (401, "authentication"),
        ("redirect", "http_status"),
        ("early", "http_status"),
        *(
            (name, "malformed")
            for name in (
                *("wrong-size", "true-size", "wrong-sha256", "upper-sha256", "extra", "no-ref"),
                *("empty-ref", "list", "not-json", "twice", "huge"),
            )
        ),
        ("reset", "connection"),
    ],
)
@pytest.mark.parametrize("policy", ["fail-closed", "fail-open"])
def test_a_failed_upload_goes_to_the_policy_of_its_subscription(
    ahp_http_backend: Backends,
    ahp_client: Clients,
    ahp_audit: AuditLog,
    receivers: Callable[..., Receiver],
    answer: Any,
    failure_class: str,
    policy: str,
) -> None:
    """Section 14: and the event is not sent without what it should name."""
    backend, receiver = ahp_http_backend("ok"), receivers(answer)
    one = subscription(upload=receiver.route(), failurePolicy=policy)
    client = ahp_client(hooks(entry(backend, one)))
    outcome = start(client, png(os.urandom(4 * MEBIBYTE if answer == "early" else 3000)))
    (failure,) = outcome.failures
    assert failure.failure_class is FailureClass(failure_class)
    assert outcome.may_execute == (policy == "fail-open") == outcome.failed_open
    assert backend.requests == []
    assert receiver.attempts == 1
    assert_audit(ahp_audit, failure_class=failure_class)


@pytest.mark.parametrize("answer", ["stall", "deaf"])
def test_an_upload_costs_its_own_time_and_no_more(
    ahp_http_backend: Backends,
    ahp_client: Clients,
    receivers: Callable[..., Receiver],
    answer: str,
) -> None:
    """R-UPL-02: ``upload.timeoutMs``, or what the call has left; ``timeoutMs`` is untouched."""
    backend, receiver = ahp_http_backend("ok"), receivers(answer)
    one = subscription(upload=receiver.route(timeoutMs=300), timeoutMs=100)
    data = os.urandom(32 * MEBIBYTE)
    client = ahp_client(hooks(entry(backend, one)))
    outcome, seconds = timed(lambda: start(client, png(data)))
    assert_synthetic_denial(outcome, failure_class="deadline_exceeded")
    assert 0.3 <= seconds < 0.3 + 2 * SLACK
    outcome, seconds = timed(lambda: start(client, png(data), budget=Budget(0.1)))
    assert outcome.decision is Decision.EXPIRED
    assert seconds < 0.1 + 2 * SLACK
    assert backend.requests == []


def test_credentials_that_hang_are_a_failure_of_theirs(
    ahp_http_backend: Backends, ahp_client: Clients, receivers: Callable[..., Receiver]
) -> None:
    """They take the upload's time, and nothing is sent; the class says whose fault it was."""
    backend, receiver, released = ahp_http_backend("ok"), receivers(), threading.Event()

    def resolve(ref: str) -> str:
        released.wait(20)
        return "late"

    route = receiver.route(timeoutMs=300, auth={"type": "bearer", "tokenRef": "files"})
    one = subscription(upload=route, timeoutMs=100)
    client = ahp_client(hooks(entry(backend, one)), tokens=resolve)
    try:
        outcome, seconds = timed(lambda: start(client, png(id="p-1"), png(id="p-2")))
    finally:
        released.set()
    assert_synthetic_denial(outcome, failure_class="authentication")
    assert outcome.failures[0].code == "credentials_late"
    assert 0.3 <= seconds < 0.3 + 2 * SLACK
    assert (receiver.attempts, len(backend.requests)) == (0, 0)


def test_an_upload_does_not_consume_the_deadline(
    ahp_http_backend: Backends, ahp_client: Clients, receivers: Callable[..., Receiver]
) -> None:
    """R-UPL-02: one that takes longer than ``timeoutMs`` leaves all of it."""
    backend, receiver = ahp_http_backend("ok"), receivers()
    receiver.delay = 0.6
    one = subscription(upload=receiver.route(), timeoutMs=500)
    assert start(ahp_client(hooks(entry(backend, one))), png()).may_execute


def test_a_failed_upload_counts_when_its_turn_comes(
    ahp_http_backend: Backends, ahp_client: Clients, receivers: Callable[..., Receiver]
) -> None:
    """R-UPL-04: an earlier denial stays an explicit one; who was not asked is told (R-OBS-02)."""
    denies, later, receiver = ahp_http_backend("deny"), ahp_http_backend("ok"), receivers(500)
    client = ahp_client(
        hooks(
            entry(denies, subscription(content={"default": "omit"}), id="com.example.a"),
            entry(later, subscription(upload=receiver.route()), id="com.example.b"),
        )
    )
    outcome = start(client, png())
    assert outcome.decision is Decision.DENY
    assert not outcome.synthetic
    assert outcome.failures == ()
    assert later.requests[0].message["method"] == "hooks/observe"
    assert "gap" in parts(later)[0]


def test_an_observer_is_told_with_a_gap(
    ahp_http_backend: Backends,
    ahp_client: Clients,
    ahp_audit: AuditLog,
    receivers: Callable[..., Receiver],
) -> None:
    """R-CON-07: it decides nothing, and hears of the event nevertheless."""
    backend, receiver = ahp_http_backend("ok"), receivers(413)
    client = ahp_client(hooks(entry(backend, subscription("observe", upload=receiver.route()))))
    assert start(client, png(id="p-1")).may_execute
    assert backend.wait(lambda: backend.requests)
    (part,) = parts(backend)
    assert part["gap"] == {"reason": "http_status/http_413"}
    assert "body" not in part
    assert_audit(ahp_audit, code="http_413")


def test_a_body_without_an_endpoint_is_a_failure(
    ahp_http_backend: Backends, ahp_client: Clients
) -> None:
    """R-CON-07: never inline bytes, paths or URLs instead."""
    backend = ahp_http_backend("ok")
    outcome = start(ahp_client(hooks(entry(backend, subscription()))), png())
    assert_synthetic_denial(outcome, failure_class="preparation")
    assert backend.requests == []


def test_more_than_the_receiver_takes_is_not_sent(
    ahp_http_backend: Backends, ahp_client: Clients, receivers: Callable[..., Receiver]
) -> None:
    """R-UPL-02: ``maxBytes`` refuses, never truncates."""
    backend, receiver = ahp_http_backend("ok"), receivers()
    client = ahp_client(hooks(entry(backend, subscription(upload=receiver.route(maxBytes=10)))))
    assert start(client, png(b"x" * 10)).may_execute
    assert_synthetic_denial(start(client, png(b"x" * 11)), failure_class="preparation")
    assert receiver.attempts == 1


# --- several --------------------------------------------------------------------------------------


def test_several_bodies_go_side_by_side_and_within_bounds(
    ahp_http_backend: Backends, ahp_client: Clients, receivers: Callable[..., Receiver]
) -> None:
    """At most four of one delivery at once; also where there is one worker only."""
    backend, receiver = ahp_http_backend("ok"), receivers()
    receiver.delay = 0.1
    registration = hooks(entry(backend, subscription(upload=receiver.route())))
    outcome = start(ahp_client(registration), *[png(bytes([n]), id=f"p-{n}") for n in range(10)])
    assert outcome.may_execute
    assert 2 <= receiver.most_active <= 4
    assert len({part["body"]["ref"] for part in parts(backend)}) == 10
    by_ref = {f"ref-{n + 1}": upload.body for n, upload in enumerate(receiver.received)}
    assert [by_ref[part["body"]["ref"]] for part in parts(backend)] == [
        bytes([n]) for n in range(10)
    ]
    narrow = ahp_client(registration, max_workers=1)
    path_like = [Attachment.from_stream(io.BytesIO(b"s"), "image/png", max_bytes=9)]
    assert start(narrow, *path_like).may_execute


# --- edits ----------------------------------------------------------------------------------------


def test_an_edit_keeps_the_hosts_own_reference(
    ahp_http_backend: Backends, ahp_client: Clients, receivers: Callable[..., Receiver]
) -> None:
    """R-EFF-02, R-UPL-06: what is carried over stays, what is taken out does not come back."""

    def keeps_one(request: Any) -> Any:
        items = request.message["params"]["event"]["items"]
        items[0]["parts"] = items[0]["parts"][1:]
        return {"type": "modify", "target": "prompt", "operation": "replace", "value": items}

    first, second = ahp_http_backend(keeps_one), ahp_http_backend("ok")
    receiver, other = receivers(), receivers()
    client = ahp_client(
        hooks(
            entry(first, subscription(upload=receiver.route()), id="com.example.a"),
            entry(second, subscription(upload=other.route()), id="com.example.b"),
        ),
        capabilities=WHOLE,
    )
    gone, kept = png(b"1", id="p-1"), png(b"2", id="p-2")
    outcome = start(client, gone, kept)
    assert outcome.may_execute, outcome.failures
    assert receiver.attempts == 2
    assert [upload.body for upload in other.received] == [b"2"]
    (part,) = outcome.event["items"][0]["parts"]
    assert outcome.attachments[part["body"]["ref"]] is kept
    # The outcome's event can be used for the next one, as long as the attachment is there.
    again = client.turn_start(turn="t-2", items=outcome.event["items"], trigger="user")
    assert again.may_execute, again.failures
    assert other.attempts == 1


def test_a_reference_of_somebody_elses_is_refused(
    ahp_http_backend: Backends, ahp_client: Clients, receivers: Callable[..., Receiver]
) -> None:
    """R-EFF-02: an attachment that was not shown can't be put into the event."""

    def injects(request: Any) -> Any:
        part = dict(request.message["params"]["event"]["items"][0]["parts"][0])
        part["body"] = {"ref": "of-another-tenant"}
        message = {"id": "m-9", "role": "user", "parts": [part]}
        return {"type": "modify", "target": "prompt", "operation": "merge", "value": [message]}

    backend, receiver = ahp_http_backend(injects), receivers()
    client = ahp_client(
        hooks(entry(backend, subscription(upload=receiver.route()))),
        capabilities=Capabilities({"turn.start": Grant(("deny",), modify=Modify(merge=True))}),
    )
    outcome = start(client, png(id="p-1"))
    assert_synthetic_denial(outcome, failure_class="effects")


# --- mistakes and the end -------------------------------------------------------------------------


def test_an_attachment_stands_where_a_part_does(
    ahp_http_backend: Backends, ahp_client: Clients
) -> None:
    """Elsewhere it would be read by nobody, and its stand-in would be sent."""
    client = ahp_client(hooks(entry(ahp_http_backend("ok"), subscription())))
    with pytest.raises(InvalidEvent, match="only where a part of content is"):
        client.tool_before(name="Bash", input={"file": png()})
    gone = png()
    items = [{"id": "m-1", "role": "user", "parts": [gone.part()]}]
    del gone
    with pytest.raises(InvalidEvent, match="an attachment that is gone"):
        client.turn_start(turn="t-1", items=items, trigger="user")


def test_nothing_is_left_of_a_large_body(
    ahp_http_backend: Backends,
    ahp_client: Clients,
    receivers: Callable[..., Receiver],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The temporary file has no name, and is closed at the end of the call, failed or not."""
    spool = tmp_path / "spool"
    spool.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(spool))
    large = tmp_path / "large.bin"
    large.write_bytes(os.urandom(3 * MEBIBYTE + 1))
    backend, receiver = ahp_http_backend("ok"), receivers()
    client = ahp_client(hooks(entry(backend, subscription(upload=receiver.route(timeoutMs=2000)))))
    assert start(client, png()).may_execute  # the connections are there
    before = descriptors()
    attachment = Attachment.from_path(large)
    assert attachment.media_type == "application/octet-stream"
    assert start(client, attachment).may_execute
    assert receiver.received[-1].sha256 == hashlib.sha256(large.read_bytes()).hexdigest()
    assert eventually(lambda: descriptors() <= before), descriptors() - before
    receiver.answer = "stall"
    assert_synthetic_denial(
        start(client, Attachment.from_path(large)), failure_class="deadline_exceeded"
    )
    assert eventually(lambda: len(descriptors()) <= len(before)), descriptors() - before
    assert list(spool.iterdir()) == []


def test_many_calls_share_one_reading(
    ahp_http_backend: Backends, ahp_client: Clients, receivers: Callable[..., Receiver]
) -> None:
    """R-CON-08: a source is read at most once, whoever comes first."""

    class Once(io.BytesIO):
        reads = 0

        def read(self, size: Any = -1) -> bytes:
            type(self).reads += 1
            return super().read(size)

    backend, receiver = ahp_http_backend("ok"), receivers()
    client = ahp_client(hooks(entry(backend, subscription(upload=receiver.route()))))
    attachment = Attachment.from_stream(Once(b"x" * 1000), "image/png", max_bytes=1000)
    outcomes: list[Outcome] = []
    threads = [
        threading.Thread(target=lambda: outcomes.append(start(client, attachment)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert [outcome.may_execute for outcome in outcomes] == [True] * 8
    assert Once.reads == 2  # all of it, and the end
    assert json.dumps([upload.size for upload in receiver.received]).count("1000") >= 1
