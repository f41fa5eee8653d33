"""One upload on real sockets: its framing, its receipt, its failures, and the time it takes."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Callable, Optional

import pytest
from certificates import Authority
from receiver import (
    NAMED,
    Exchange,
    Receiver,
    accept,
    dripping,
    early,
    hang_up,
    paced,
    receipt,
    redirect,
    reset,
    silent,
    stalled,
    status,
    truncated,
    waiting,
)
from watching import GENEROUS, SLACK, eventually, timed

from ahp_sync import Attachment, TLSIdentity
from ahp_sync.budget import Budget, BudgetEnded
from ahp_sync.failure import FailureClass, OperationalFailure
from ahp_sync.registration import Header
from ahp_sync.snapshots import IN_MEMORY, PIECE, Snapshot
from ahp_sync.tls import client_context
from ahp_sync.transports.upload import Uploader
from ahp_sync.workers import DeliveryExecutor

Receivers = Callable[..., Receiver]
Uploaders = Callable[..., Uploader]

SECRET = "s3cr3t-value"
#: More than the buffers of both sockets hold.
LARGE = 32 << 20
SIZES = [0, 1, 1 << 16, PIECE, PIECE + 1, IN_MEMORY, 5 * IN_MEMORY + 3]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls") / "ca")


@pytest.fixture
def spooled(executor: DeliveryExecutor, tmp_path: Path) -> Iterator[Callable[[int], Snapshot]]:
    """``spooled(size)``: the snapshot of a file of so many bytes, given back afterwards."""
    made: list[Attachment] = []

    def snapshot(size: int) -> Snapshot:
        path = tmp_path / f"{len(made)}.png"
        path.write_bytes(os.urandom(size))
        made.append(Attachment.from_path(path))
        return made[-1].snapshot(executor, Budget(GENEROUS), Budget(GENEROUS))

    yield snapshot
    for one in made:
        one.close()


def upload(uploader: Uploader, snapshot: Snapshot, seconds: float = GENEROUS) -> str:
    budget = Budget(seconds)
    return uploader.upload(snapshot, uploader.credentials(budget), budget)


def fails(
    call: Callable[[], Any], failure_class: str, code: Optional[str] = None
) -> OperationalFailure:
    """See that ``call()`` fails so, not to be repeated, and without a secret in any text."""
    with pytest.raises(OperationalFailure) as caught:
        call()
    failure = caught.value
    assert failure.failure_class is FailureClass(failure_class), failure
    assert code in (None, failure.code), failure
    assert not failure.retryable
    assert SECRET not in f"{failure} {failure!r} {failure.sample}"
    return failure


def small() -> Snapshot:
    return Snapshot.of(b"x" * 3000)


# --- what is sent -----------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("secure", [False, True], ids=["http", "https"])
def test_the_framing_is_exact(
    open_receiver: Receivers,
    open_uploader: Uploaders,
    spooled: Callable[[int], Snapshot],
    authority: Authority,
    secure: bool,
    size: int,
) -> None:
    """Section 14: the exact endpoint, raw octets, their length and digest, and nothing else."""
    receiver = open_receiver(tls=authority.server() if secure else None)
    context = client_context(TLSIdentity(ca_file=authority.ca_file)) if secure else None
    snapshot = spooled(size)
    ref = upload(open_uploader(receiver.endpoint, context=context), snapshot)
    (got,) = receiver.received
    assert got.faults == []
    assert (got.method, got.path) == ("POST", "/in?tenant=7")
    assert (got.size, got.sha256) == (size, snapshot.sha256)
    assert receiver.kept == {ref: got}
    assert dict(got.headers) == {
        "Host": f"127.0.0.1:{receiver.port}",
        "User-Agent": "ahp-sync",
        "Accept": "application/json",
        "Accept-Encoding": "identity",
        "Content-Type": "application/octet-stream",
        "Content-Length": str(size),
        "AHP-Content-SHA256": snapshot.sha256,
    }
    assert len(got.headers) == 7


def test_registered_headers_go_along_and_frame_nothing(
    open_receiver: Receivers, open_uploader: Uploaders
) -> None:
    """R-HDR-04: they take the place of defaults, but not of what section 14 fixes."""
    receiver = open_receiver()
    own = [
        Header("User-Agent", "mine"),
        Header("x-team", "blue"),
        Header("content-type", "application/json"),
        Header("content-length", "7"),
        Header("ahp-content-sha256", "0" * 64),
    ]
    upload(open_uploader(receiver.endpoint, headers=own), small())
    (got,) = receiver.received
    assert got.faults == []
    assert (got.header("User-Agent"), got.header("X-Team")) == ("mine", "blue")


def test_path_and_query_are_kept(open_receiver: Receivers, open_uploader: Uploaders) -> None:
    """To the octet: a signature may depend on it."""
    for path in ("/", "/a//b/../c?x=%2F%2f&y=a+b&z", "/a%20b/c;d?", "/?q=%7e~"):
        receiver = open_receiver(path=path)
        upload(open_uploader(receiver.endpoint), small())
        assert [one.path for one in receiver.received] == [path]


def test_an_upload_shows_its_own_token(
    open_receiver: Receivers, open_uploader: Uploaders, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read when it is sent; where it is missing, nothing is."""
    monkeypatch.setenv("UPLOADS", SECRET)
    receiver = open_receiver(token=SECRET)
    uploader = open_uploader(receiver.endpoint, token_env="UPLOADS")
    upload(uploader, small())
    monkeypatch.delenv("UPLOADS")
    fails(lambda: upload(uploader, small()), "authentication", "credential_missing")
    assert receiver.attempts == 1


def test_many_threads_send_one_snapshot(
    open_receiver: Receivers, open_uploader: Uploaders, spooled: Callable[[int], Snapshot]
) -> None:
    """Each reads it from the start, whoever else does; each receiver has references of its own."""
    snapshot = spooled(3 * IN_MEMORY + 11)
    receivers = [open_receiver() for _ in range(2)]
    uploaders = [open_uploader(receiver.endpoint) for receiver in receivers]
    with ThreadPoolExecutor(8) as threads:
        refs = list(threads.map(lambda n: upload(uploaders[n % 2], snapshot), range(40)))
    assert len(set(refs[::2])) == len(set(refs[1::2])) == 20
    for receiver in receivers:
        assert {(one.size, one.sha256) for one in receiver.received} == {
            (snapshot.size, snapshot.sha256)
        }


def test_a_large_body_is_not_in_memory(
    open_receiver: Receivers, open_uploader: Uploaders, executor: DeliveryExecutor, tmp_path: Path
) -> None:
    """From the file to the socket, a piece at a time."""
    path = tmp_path / "x.png"
    path.write_bytes(os.urandom(LARGE))
    uploader = open_uploader(open_receiver().endpoint)
    upload(uploader, small())
    tracemalloc.start()
    try:
        with Attachment.from_path(path) as attachment:
            upload(uploader, attachment.snapshot(executor, Budget(60), Budget(60)), 60)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 << 20


def test_bytes_in_memory_are_not_copied_whole(
    open_receiver: Receivers, open_uploader: Uploaders
) -> None:
    """They are there once, as the host gave them."""
    snapshot = Snapshot.of(os.urandom(LARGE))
    uploader = open_uploader(open_receiver().endpoint)
    upload(uploader, small())
    tracemalloc.start()
    try:
        upload(uploader, snapshot, 60)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8 << 20


# --- receipts ---------------------------------------------------------------------------------

NO_RECEIPTS = [
    *("no-ref", "empty-ref", "number-ref", "wrong-size", "true-size", "text-size", "no-size"),
    *("wrong-sha256", "upper-sha256", "no-sha256", "extra", "list", "not-json", "not-utf-8"),
    *("empty", "twice"),
]


@pytest.mark.parametrize("answer", NO_RECEIPTS)
def test_what_does_not_confirm_these_very_bytes_is_no_receipt(
    open_receiver: Receivers, open_uploader: Uploaders, answer: str
) -> None:
    """Closed, of the right types, with size and digest of what was sent; not sent again."""
    receiver = open_receiver(answer, "accept")
    uploader = open_uploader(receiver.endpoint)
    failure = fails(lambda: upload(uploader, small()), "malformed", "bad_receipt")
    assert failure.http_status == 201
    assert receiver.attempts == 1
    upload(uploader, small())
    assert receiver.connections == 1, "the answer was read to its end"


def test_a_receipt_is_bounded(open_receiver: Receivers, open_uploader: Uploaders) -> None:
    """What is as large as no receipt is not read."""
    uploader = open_uploader(open_receiver("huge").endpoint)
    fails(lambda: upload(uploader, small()), "malformed", "too_large")


@pytest.mark.parametrize("ref", ["r", "urn:uuid:1", "\N{SNOWMAN}", " ", "r" * 4000])
def test_the_reference_is_the_receivers_own(
    open_receiver: Receivers, open_uploader: Uploaders, ref: str
) -> None:
    """It means nothing to us, and is given back as it came."""
    assert upload(open_uploader(open_receiver(receipt(ref=ref)).endpoint), small()) == ref


@pytest.mark.parametrize("code", [200, 202, 203, 204, 206, 226, 299])
def test_no_other_success_confirms_anything(
    open_receiver: Receivers, open_uploader: Uploaders, code: int
) -> None:
    """Section 14: not even with the right receipt."""

    def step(one: Exchange) -> None:
        one.read()
        one.answer(code, b"" if code == 204 else one.receipt())

    uploader = open_uploader(open_receiver(step).endpoint)
    assert fails(lambda: upload(uploader, small()), "http_status").http_status == code


# --- failures ---------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [400, 403, 404, 405, 408, 411, 413, 415, 429, 500, 502, 503, 504])
def test_a_refusal_is_told_by_its_status(
    open_receiver: Receivers, open_uploader: Uploaders, code: int
) -> None:
    """And the bytes are not sent again, whatever the status (R-UPL-05)."""
    receiver = open_receiver(status(code, b"why not", Retry_After="0"))
    uploader = open_uploader(receiver.endpoint)
    failure = fails(lambda: upload(uploader, small()), "http_status", f"http_{code}")
    assert failure.sample == "why not"
    assert receiver.attempts == 1


def test_a_401_is_final(
    open_receiver: Receivers, open_uploader: Uploaders, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-AUTH-04: there is no replay, with another token neither."""
    monkeypatch.setenv("UPLOADS", "old-token")

    def step(one: Exchange) -> None:
        monkeypatch.setenv("UPLOADS", "new-token")
        status(401, WWW_Authenticate='Bearer error="invalid_token"')(one)

    receiver = open_receiver(step)
    uploader = open_uploader(receiver.endpoint, token_env="UPLOADS")
    fails(lambda: upload(uploader, small()), "authentication", "upload_unauthorized")
    assert receiver.attempts == 1


@pytest.mark.parametrize("code", [300, 301, 302, 303, 304, 307, 308])
def test_a_redirect_is_not_followed(
    open_receiver: Receivers,
    open_uploader: Uploaders,
    monkeypatch: pytest.MonkeyPatch,
    code: int,
) -> None:
    """F23: neither the bytes nor the token go anywhere else."""
    monkeypatch.setenv("UPLOADS", SECRET)
    other = open_receiver()
    receiver = open_receiver(redirect(other.endpoint, code))
    uploader = open_uploader(receiver.endpoint, token_env="UPLOADS")
    fails(lambda: upload(uploader, small()), "http_status", f"http_{code}")
    assert (receiver.attempts, other.connections) == (1, 0)


@pytest.mark.parametrize("secure", [False, True], ids=["http", "https"])
@pytest.mark.parametrize("octets", [0, 1 << 16, 4 << 20])
@pytest.mark.parametrize("code", [413, 401])
def test_an_answer_before_the_end_counts(
    open_receiver: Receivers,
    open_uploader: Uploaders,
    spooled: Callable[[int], Snapshot],
    authority: Authority,
    secure: bool,
    octets: int,
    code: int,
) -> None:
    """The receiver closes while the bytes are still coming: that is no lost connection."""
    receiver = open_receiver(
        early(code, octets=octets), "accept", tls=authority.server() if secure else None
    )
    context = client_context(TLSIdentity(ca_file=authority.ca_file)) if secure else None
    uploader = open_uploader(receiver.endpoint, context=context)
    snapshot = spooled(LARGE)
    failure = fails(
        lambda: upload(uploader, snapshot), "authentication" if code == 401 else "http_status"
    )
    assert failure.http_status == code
    assert upload(uploader, snapshot)
    assert receiver.connections == 2, "the first one is of no use any more"


def test_a_receipt_before_the_end_confirms_nothing(
    open_receiver: Receivers, open_uploader: Uploaders, spooled: Callable[[int], Snapshot]
) -> None:
    """Who has not read all of it can't know."""
    snapshot = spooled(LARGE)

    def step(one: Exchange) -> None:
        one.read(1000)
        one.answer(201, one.receipt(size=snapshot.size, sha256=snapshot.sha256))
        one.end()

    uploader = open_uploader(open_receiver(step).endpoint)
    fails(lambda: upload(uploader, snapshot), "malformed", "bad_receipt")


@pytest.mark.parametrize(
    "step",
    [reset(), reset(octets=1 << 20), hang_up(octets=1000), hang_up(), truncated()],
    ids=["reset", "reset later", "hang-up", "hang-up at the end", "truncated"],
)
def test_a_lost_connection_is_one(
    open_receiver: Receivers,
    open_uploader: Uploaders,
    spooled: Callable[[int], Snapshot],
    step: Any,
) -> None:
    """And nobody knows what arrived, so nothing is sent again."""
    receiver = open_receiver(step)
    uploader = open_uploader(receiver.endpoint)
    fails(lambda: upload(uploader, spooled(LARGE)), "connection")
    assert receiver.attempts == 1


def test_nobody_there(open_uploader: Uploaders) -> None:
    """A port where nobody listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        uploader = open_uploader(f"http://127.0.0.1:{bound.getsockname()[1]}/in")
        fails(lambda: upload(uploader, small()), "connection", "connect_refused")


def test_a_receiver_of_an_unknown_authority_gets_nothing(
    open_receiver: Receivers, open_uploader: Uploaders, authority: Authority
) -> None:
    """R-HTTP-05."""
    receiver = open_receiver(tls=authority.server())
    uploader = open_uploader(receiver.endpoint, context=client_context(TLSIdentity()))
    fails(lambda: upload(uploader, small()), "connection", "tls_certificate")
    assert receiver.attempts == 0


def test_more_than_the_receiver_takes_is_not_sent(
    open_receiver: Receivers, open_uploader: Uploaders
) -> None:
    """R-UPL-02: refused, not cut, and before a connection is made."""
    receiver = open_receiver()
    uploader = open_uploader(receiver.endpoint, max_bytes=3000)
    over = Snapshot.of(b"x" * 3001)
    fails(lambda: upload(uploader, over), "preparation", "too_large_for_receiver")
    assert receiver.connections == 0
    assert upload(uploader, small())


def test_an_attachment_that_is_closed_meanwhile(
    open_receiver: Receivers,
    open_uploader: Uploaders,
    executor: DeliveryExecutor,
    tmp_path: Path,
) -> None:
    """Before the upload: a failure of preparation. During it: nothing happens to it."""
    path, gate = tmp_path / "x.png", threading.Event()
    path.write_bytes(os.urandom(LARGE))

    def step(one: Exchange) -> None:
        one.read(1000)
        gate.wait(GENEROUS)
        accept()(one)

    receiver = open_receiver(step)
    uploader = open_uploader(receiver.endpoint)
    attachment = Attachment.from_path(path)
    snapshot = attachment.snapshot(executor, Budget(GENEROUS), Budget(GENEROUS))
    with ThreadPoolExecutor(1) as threads:
        under_way = threads.submit(upload, uploader, snapshot)
        assert eventually(lambda: receiver.attempts)
        attachment.close()
        gate.set()
        assert under_way.result()
    assert receiver.received[0].sha256 == snapshot.sha256
    fails(lambda: upload(uploader, snapshot), "preparation", "source_closed")


# --- time -------------------------------------------------------------------------------------


@pytest.mark.parametrize("secure", [False, True], ids=["http", "https"])
@pytest.mark.parametrize(
    "step",
    [stalled(), stalled(octets=5 << 20), silent(), dripping(0.05), paced(0.02, 1 << 14)],
    ids=["stall", "stall later", "silent", "drip", "slow"],
)
def test_an_upload_ends_in_its_time(
    open_receiver: Receivers,
    open_uploader: Uploaders,
    spooled: Callable[[int], Snapshot],
    authority: Authority,
    secure: bool,
    step: Any,
) -> None:
    """F02, F53: whatever the receiver is slow at; and the connection is closed at once."""
    receiver = open_receiver(step, tls=authority.server() if secure else None)
    context = client_context(TLSIdentity(ca_file=authority.ca_file)) if secure else None
    uploader, snapshot = open_uploader(receiver.endpoint, context=context), spooled(LARGE)

    def late() -> None:
        with pytest.raises(BudgetEnded):
            upload(uploader, snapshot, 0.6)

    _, seconds = timed(late)
    assert 0.6 <= seconds < 0.6 + SLACK
    assert eventually(lambda: receiver.open_connections == 0, 2)


@pytest.mark.parametrize("step", [stalled(), silent()], ids=["sending", "receiving"])
def test_a_cancelled_upload_ends_at_once(
    open_receiver: Receivers,
    open_uploader: Uploaders,
    spooled: Callable[[int], Snapshot],
    step: Any,
) -> None:
    """Whatever it is blocked on is shut."""
    receiver, budget = open_receiver(step), Budget(60)
    uploader, snapshot = open_uploader(receiver.endpoint), spooled(LARGE)
    applied = uploader.credentials(budget)
    with ThreadPoolExecutor(1) as threads:
        under_way = threads.submit(uploader.upload, snapshot, applied, budget)
        assert eventually(lambda: receiver.attempts)
        time.sleep(0.2)  # by now it is blocked
        began = time.monotonic()
        budget.cancel()
        assert isinstance(under_way.exception(GENEROUS), BudgetEnded)
        assert time.monotonic() - began < SLACK


# --- connections ------------------------------------------------------------------------------


def test_a_connection_serves_again(
    open_receiver: Receivers, open_uploader: Uploaders, spooled: Callable[[int], Snapshot]
) -> None:
    """After a receipt, and after a refusal that was read whole; not beyond the close."""
    receiver = open_receiver("accept", 500, "accept", 401, "accept")
    uploader = open_uploader(receiver.endpoint)
    for size in (0, 3000, 2 * IN_MEMORY, 10, 1):
        try:
            upload(uploader, spooled(size))
        except OperationalFailure as failure:
            assert failure.http_status in (500, 401)
    assert (receiver.attempts, receiver.connections) == (5, 1)
    uploader.close(Budget(1))
    assert eventually(lambda: receiver.open_connections == 0)


def test_a_connection_that_was_dropped_is_replaced(
    open_receiver: Receivers, open_uploader: Uploaders
) -> None:
    """F22: the receiver closed it while nobody used it."""

    def step(one: Exchange) -> None:
        accept()(one)
        one.end()

    receiver = open_receiver(step)
    uploader = open_uploader(receiver.endpoint)
    for number in range(1, 4):
        upload(uploader, small())
        assert eventually(lambda: receiver.open_connections == 0)
        assert receiver.connections == number


def test_uploads_wait_for_no_connection(open_receiver: Receivers, open_uploader: Uploaders) -> None:
    """As many at once as there are threads."""
    receiver = open_receiver(waiting(threading.Barrier(10)))
    uploader = open_uploader(receiver.endpoint)
    with ThreadPoolExecutor(10) as threads:
        assert len(set(threads.map(lambda _: upload(uploader, small()), range(10)))) == 10
    assert receiver.most_active == 10


# --- secrets ----------------------------------------------------------------------------------


def test_no_secret_is_told(
    open_receiver: Receivers,
    open_uploader: Uploaders,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """F51: token, header and query, although the receiver repeats them in each answer."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("UPLOADS", f"token-{SECRET}")
    headers = [Header("X-Key", f"key-{SECRET}")]

    def echo(code: int) -> Callable[[Exchange], None]:
        def step(one: Exchange) -> None:
            one.read()
            shown = [one.upload.path, *(value for _, value in one.upload.headers)]
            one.answer(code, " ".join(shown).encode())

        return step

    for code in (201, 200, 400, 401, 403, 500):
        receiver = open_receiver(echo(code), path=f"/in?signature=q-{SECRET}")
        uploader = open_uploader(receiver.endpoint, token_env="UPLOADS", headers=headers)
        with pytest.raises(OperationalFailure) as caught:
            upload(uploader, small())
        assert SECRET not in f"{caught.value} {caught.value!r} {caught.value.sample}"
        assert "[redacted]" in (caught.value.sample or "")
        assert SECRET not in repr(uploader.credentials(Budget(1)))
        assert SECRET not in repr(uploader)
        (got,) = receiver.received
        assert SECRET in got.path
        assert got.header("Authorization") == f"Bearer token-{SECRET}"
    assert SECRET not in caplog.text


def test_every_named_answer_is_tried() -> None:
    """So that a new one is not forgotten here."""
    tried = {*NO_RECEIPTS, "huge", "truncated", "redirect", "early", "reset", "hang-up"}
    assert tried | {"accept", "stall", "deaf", "drip"} == set(NAMED)
