"""The bytes of attachments: read when they are wanted, once, by one for all, and given back."""

from __future__ import annotations

import gc
import hashlib
import io
import os
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Callable, Optional

import pytest
from watching import GENEROUS, SLACK, descriptors, eventually, host, timed

from ahp_sync import Attachment
from ahp_sync.budget import Budget, BudgetEnded
from ahp_sync.failure import FailureClass, OperationalFailure
from ahp_sync.snapshots import IN_MEMORY, PIECE, Snapshot
from ahp_sync.sources import Source
from ahp_sync.workers import DeliveryExecutor

SIZES = [0, 1, PIECE, PIECE + 1, IN_MEMORY, IN_MEMORY + 1, 3 * IN_MEMORY + 17]


def octets(size: int) -> bytes:
    """Return bytes of which no two pieces are the same."""
    return b"".join(i.to_bytes(8, "big") for i in range(size // 8 + 1))[:size]


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def read(attachment: Attachment, executor: DeliveryExecutor, seconds: float = GENEROUS) -> Snapshot:
    budget = Budget(seconds)
    return attachment.snapshot(executor, budget, budget)


def content(snapshot: Snapshot) -> bytes:
    return b"".join(snapshot.chunks())


def fails(code: str, call: Callable[[], Any]) -> OperationalFailure:
    """See that ``call()`` fails with ``code``, and that nothing of the host's is in the text."""
    with pytest.raises(OperationalFailure) as caught:
        call()
    failure = caught.value
    assert (failure.failure_class, failure.code) == (FailureClass.PREPARATION, code)
    assert "s3cret" not in str(failure)
    assert not failure.retryable
    return failure


class Stream(io.RawIOBase):
    """A stream that counts the reads, and waits at ``gate`` before each."""

    def __init__(self, data: bytes, gate: Optional[threading.Event] = None) -> None:
        self.reads = 0
        self.entered = threading.Event()
        self._data = io.BytesIO(data)
        self._gate = gate

    def read(self, size: int = -1) -> bytes:
        self.reads += 1
        self.entered.set()
        if self._gate is not None:
            self._gate.wait(GENEROUS)
        return self._data.read(size)


def of_stream(stream: Any, max_bytes: int = 1 << 30) -> Attachment:
    return Attachment.from_stream(stream, "image/png", max_bytes=max_bytes)


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    gate = threading.Event()
    yield gate
    gate.set()


# --- what is read -------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("source", ["bytes", "path", "stream"])
def test_the_bytes_are_those_of_the_source(
    executor: DeliveryExecutor, tmp_path: Path, source: str, size: int
) -> None:
    """From memory and from the spool, in pieces of bounded size, as often as wanted."""
    data, path = octets(size), tmp_path / "x.png"
    path.write_bytes(data)
    made = {
        "bytes": lambda: Attachment.from_bytes(data, "image/png"),
        "path": lambda: Attachment.from_path(path),
        "stream": lambda: of_stream(io.BytesIO(data)),
    }
    with made[source]() as attachment:
        snapshot = read(attachment, executor)
        assert (snapshot.size, snapshot.sha256) == (size, sha256(data))
        for _ in range(2):
            pieces = list(snapshot.chunks())
            assert b"".join(pieces) == data
            # What came in small pieces may be kept as it is.
            assert all(0 < len(piece) <= PIECE for piece in pieces)
        assert read(attachment, executor) is snapshot


def test_bytes_are_as_they_were_given(executor: DeliveryExecutor) -> None:
    """What the host does to its buffer afterwards changes nothing."""
    buffer = bytearray(b"before")
    made = [
        Attachment.from_bytes(buffer, "image/png"),
        Attachment.from_bytes(memoryview(buffer)[::2], "image/png"),
    ]
    buffer[:] = b"after!"
    assert [content(read(one, executor)) for one in made] == [b"before", b"bfr"]


def test_a_relative_path_is_meant_where_it_was_given(
    executor: DeliveryExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x.png").write_bytes(b"here")
    monkeypatch.chdir(tmp_path)
    attachment = Attachment.from_path("x.png")
    monkeypatch.chdir("/")
    assert content(read(attachment, executor)) == b"here"


def test_a_short_read_is_no_end(executor: DeliveryExecutor) -> None:
    """A pipe gives what there is at the moment."""
    reading, writing = os.pipe()
    data = octets(300_000)

    def write() -> None:
        with open(writing, "wb", buffering=0) as file:
            for start in range(0, len(data), 7000):
                file.write(data[start : start + 7000])

    writer = threading.Thread(target=write)
    writer.start()
    with open(reading, "rb", buffering=0) as stream:
        assert content(read(of_stream(stream), executor)) == data
    writer.join()


# --- when, and by whom --------------------------------------------------------------------------


def test_nothing_is_read_before_it_is_wanted(tmp_path: Path) -> None:
    """R-CON-08: construction and parts need no byte, and no file either."""
    before = descriptors()
    stream = Stream(b"x")
    for one in (Attachment.from_path(tmp_path / "not-there-yet.png"), of_stream(stream)):
        one.part("body")
        one.part("metadata")
        one.close()
    assert stream.reads == 0
    assert descriptors() == before


def test_one_reads_for_all(executor: DeliveryExecutor, gate: threading.Event) -> None:
    """50 threads at once get the same snapshot of a stream that can be read but once."""
    data = octets(2 * IN_MEMORY)
    stream = Stream(data, gate)
    with of_stream(stream) as attachment, ThreadPoolExecutor(50) as threads:
        waiting = [threads.submit(read, attachment, executor) for _ in range(50)]
        assert stream.entered.wait(GENEROUS)
        gate.set()
        found = {id(one.result()) for one in waiting}
        assert len(found) == 1
        assert content(waiting[0].result()) == data
    assert stream.reads <= len(data) // PIECE + 2


def test_a_waiter_leaves_in_its_own_time(executor: DeliveryExecutor, gate: threading.Event) -> None:
    """10 with short budgets go, whoever came first among them; the other 10 get the bytes."""
    attachment, call = of_stream(Stream(b"late", gate)), Budget(GENEROUS)

    def wait(seconds: float) -> tuple[str, float]:
        def one() -> str:
            try:
                return content(attachment.snapshot(executor, Budget(seconds), call)).decode()
            except BudgetEnded:
                return "left"

        return timed(one)

    with ThreadPoolExecutor(20) as threads:
        short = [threads.submit(wait, 0.2) for _ in range(10)]
        long = [threads.submit(wait, GENEROUS) for _ in range(10)]
        left = [one.result() for one in short]
        gate.set()
        got = [one.result()[0] for one in long]
    assert {what for what, _ in left} == {"left"}
    assert all(0.2 <= seconds < 0.2 + SLACK for _, seconds in left)
    assert set(got) == {"late"}


class _Held(Source):
    """A source that can be read again, and whose first reading hangs."""

    is_rereadable = True

    def __init__(self, gate: threading.Event) -> None:
        super().__init__()
        self.readings = 0
        self.entered = threading.Event()
        self._gate = gate

    def _read(self, limit: Budget) -> Snapshot:
        self.readings += 1
        if self.readings == 1:
            self.entered.set()
            self._gate.wait(GENEROUS)
        return Snapshot.of(b"read")


def test_the_end_of_another_call_is_not_mine(
    executor: DeliveryExecutor, gate: threading.Event
) -> None:
    """The reader's call is cancelled: who waits with it begins anew."""
    source = _Held(gate)
    attachment, cancelled = Attachment(source, "image/png"), Budget(GENEROUS)

    def first() -> None:
        with pytest.raises(BudgetEnded):
            attachment.snapshot(executor, cancelled.child(), cancelled)

    with ThreadPoolExecutor(2) as threads:
        one = threads.submit(first)
        assert source.entered.wait(GENEROUS)
        other = threads.submit(lambda: timed(lambda: read(attachment, executor)))
        assert eventually(lambda: len(next(iter(source._flights.values()))._gates) == 2)
        cancelled.cancel()
        one.result()
        snapshot, seconds = other.result()
    assert content(snapshot) == b"read"
    assert source.readings == 2
    assert seconds < GENEROUS / 2


def test_a_source_that_hangs_costs_its_bound(
    executor: DeliveryExecutor, gate: threading.Event
) -> None:
    """Its worker is written off until it comes home; a file would be read anew, a stream not."""
    source = _Held(gate)
    attachment = Attachment(source, "image/png")
    _, seconds = timed(
        lambda: fails("source_slow", lambda: attachment.snapshot(executor, Budget(5), Budget(0.2)))
    )
    assert 0.2 <= seconds < 0.2 + SLACK
    assert content(read(attachment, executor)) == b"read"
    assert executor.statistics().written_off == 1
    stream = of_stream(Stream(b"x", gate))
    fails("source_slow", lambda: stream.snapshot(executor, Budget(5), Budget(0.2)))
    fails("source_spent", lambda: read(stream, executor))
    gate.set()
    assert eventually(lambda: executor.statistics().written_off == 0)
    assert content(read(attachment, executor)) == b"read"


def test_want_of_a_worker_is_not_remembered(
    executor: DeliveryExecutor, gate: threading.Event
) -> None:
    """The reading that could not begin is forgotten with the failure."""
    small = DeliveryExecutor(1)
    try:
        for _ in range(17):
            small.start(Budget(GENEROUS), gate.wait)
        attachment = Attachment.from_bytes(b"x", "image/png")
        with pytest.raises(OperationalFailure) as caught:
            read(attachment, small)
        assert caught.value.failure_class is FailureClass.SATURATED
        gate.set()
        assert eventually(lambda: small.statistics().load == 0)
        assert content(read(attachment, small)) == b"x"
    finally:
        small.shutdown(cancel_futures=True)


# --- what can't be read -------------------------------------------------------------------------


def test_a_larger_source_is_refused_and_not_cut(executor: DeliveryExecutor, tmp_path: Path) -> None:
    """R-UPL-02: a file by its size, before a byte is read; a stream at the first byte too many."""
    path = tmp_path / "x.png"
    path.write_bytes(b"12345")
    assert read(Attachment.from_path(path, max_bytes=5), executor).size == 5
    fails("source_too_large", lambda: read(Attachment.from_path(path, max_bytes=4), executor))
    with open(path, "ab") as file:
        file.truncate(1 << 40)  # a hole: reading it would take minutes
    _, seconds = timed(
        lambda: fails("source_too_large", lambda: read(Attachment.from_path(path), executor))
    )
    assert seconds < 2
    assert read(of_stream(io.BytesIO(b"12345"), 5), executor).size == 5
    fails("source_too_large", lambda: read(of_stream(io.BytesIO(b"12345"), 4), executor))
    with open("/dev/zero", "rb", buffering=0) as endless:
        fails("source_too_large", lambda: read(of_stream(endless, 3 * IN_MEMORY), executor))


@pytest.mark.parametrize("kind", ["nothing", "directory", "pipe", "device", "dangling", "nul"])
def test_only_a_regular_file_is_read(executor: DeliveryExecutor, tmp_path: Path, kind: str) -> None:
    """At once: a pipe that nobody writes to would hold the reader for ever."""
    path = tmp_path / "s3cret.png"
    if kind == "directory":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "dangling":
        path.symlink_to(tmp_path / "s3cret-too")
    elif kind == "nul":
        path = Path(f"{path}\0")
    attachment = Attachment.from_path(str(path), "image/png")
    _, seconds = timed(lambda: fails("source_unreadable", lambda: read(attachment, executor)))
    assert seconds < 2


def test_a_file_is_followed_by_name(executor: DeliveryExecutor, tmp_path: Path) -> None:
    """A link to a regular file is as good as the file; one that appears later is found."""
    attachment = Attachment.from_path(tmp_path / "link.png")
    fails("source_unreadable", lambda: read(attachment, executor))
    (tmp_path / "x").write_bytes(b"x")
    (tmp_path / "link.png").symlink_to(tmp_path / "x")
    assert content(read(attachment, executor)) == b"x"


class _Bad:
    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def read(self, size: int) -> Any:
        if isinstance(self._answer, BaseException):
            raise self._answer
        return self._answer


@pytest.mark.parametrize(
    "answer",
    [ValueError("s3cret"), OSError(5, "s3cret"), None, "text", 7, KeyError("s3cret")],
    ids=lambda answer: type(answer).__name__,
)
def test_a_stream_that_gives_no_bytes(executor: DeliveryExecutor, answer: Any) -> None:
    """It fails for all who want it, and what it raised is told by its type alone."""
    attachment = of_stream(_Bad(answer))
    failure = fails("source_unreadable", lambda: read(attachment, executor))
    if isinstance(answer, Exception):
        assert type(answer).__name__ in failure.detail
    fails("source_spent", lambda: read(attachment, executor))


def test_a_file_that_changed_is_refused(executor: DeliveryExecutor, tmp_path: Path) -> None:
    """One attachment is one content; the same content is good, wherever it comes from."""
    path = tmp_path / "x.png"
    path.write_bytes(b"one")
    attachment = Attachment.from_path(path)
    attachment.retain()
    snapshot = read(attachment, executor)
    path.write_bytes(b"two")
    assert read(attachment, executor) is snapshot, "the call goes on with what it has"
    attachment.release()
    fails("source_changed", lambda: read(attachment, executor))
    path.unlink()
    fails("source_unreadable", lambda: read(attachment, executor))
    path.write_bytes(b"one")
    assert content(read(attachment, executor)) == b"one"


def test_no_room_for_the_spool(
    executor: DeliveryExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory for temporary files that is gone, and a limit of the system that is met."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "s3cret"))
    fails("spool_full", lambda: read(of_stream(io.BytesIO(octets(2 * IN_MEMORY))), executor))
    assert read(of_stream(io.BytesIO(octets(IN_MEMORY))), executor).size == IN_MEMORY
    finished = host(
        """
        import io, resource
        # ---
        from ahp_sync.workers import DeliveryExecutor
        from ahp_sync.failure import OperationalFailure
        resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, 2_000_000))
        attachment = Attachment.from_stream(io.BytesIO(b"x" * 4_000_000), "x/y", max_bytes=9 << 20)
        try:
            attachment.snapshot(DeliveryExecutor(2), Budget(10), Budget(10))
        except OperationalFailure as failure:
            print(failure.code)
        """
    )
    assert (finished.status, finished.stdout.strip()) == (0, "spool_full"), finished.stderr


# --- what is given back -------------------------------------------------------------------------


@pytest.fixture
def spools() -> Callable[[], int]:
    """Returns how many files without a name there are, beside those of pytest."""
    before = descriptors()
    return lambda: sum("(deleted)" in name for name in descriptors() - before)


@pytest.mark.parametrize("size", [IN_MEMORY, IN_MEMORY + 1])
def test_only_what_is_large_has_a_file(
    executor: DeliveryExecutor,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    size: int,
    spools: Callable[[], int],
) -> None:
    """One without a name, so that nothing is left whatever becomes of the process."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    attachment = of_stream(io.BytesIO(octets(size)))
    read(attachment, executor)
    assert spools() == (size > IN_MEMORY)
    assert list(tmp_path.iterdir()) == []
    attachment.release()
    assert spools() == (size > IN_MEMORY), "a stream can't be read again"
    attachment.close()
    attachment.close()
    assert spools() == 0
    fails("source_closed", lambda: read(attachment, executor))


def test_the_spool_of_a_file_goes_with_the_last_call(
    executor: DeliveryExecutor, tmp_path: Path, spools: Callable[[], int]
) -> None:
    """Calls side by side share it; the next one reads the file again."""
    path = tmp_path / "x.png"
    path.write_bytes(octets(2 * IN_MEMORY))
    attachment = Attachment.from_path(path)
    attachment.retain()
    attachment.retain()
    first = read(attachment, executor)
    attachment.release()
    assert read(attachment, executor) is first
    attachment.release()
    assert spools() == 0
    fails("source_closed", lambda: content(first))
    attachment.retain()
    assert content(read(attachment, executor)) == path.read_bytes()
    attachment.release()
    assert spools() == 0


def test_who_reads_is_not_disturbed_by_a_close(
    executor: DeliveryExecutor, spools: Callable[[], int]
) -> None:
    """Its descriptor must not become that of another file meanwhile."""
    data = octets(3 * IN_MEMORY)
    attachment = of_stream(io.BytesIO(data))
    pieces = read(attachment, executor).chunks()
    got = [next(pieces)]
    attachment.close()
    with tempfile.TemporaryFile() as other:
        other.write(b"another" * 1000)
        got += list(pieces)
    assert b"".join(got) == data
    assert spools() == 0


def test_a_reader_that_stops_gives_the_file_back(
    executor: DeliveryExecutor, spools: Callable[[], int]
) -> None:
    """The last one of several does, whoever that is."""
    attachment = of_stream(io.BytesIO(octets(3 * IN_MEMORY)))
    snapshot = read(attachment, executor)
    readers = [snapshot.chunks() for _ in range(3)]
    for reader in readers:
        next(reader)
    attachment.close()
    for reader in readers:
        assert spools() == 1
        reader.close()
    assert spools() == 0
    fails("source_closed", lambda: content(snapshot))


def test_readers_and_closers_race(executor: DeliveryExecutor, spools: Callable[[], int]) -> None:
    """Each reader gets all of the bytes or is told; the file is closed by whoever is last."""
    data = octets(IN_MEMORY + 1)

    def reading(snapshot: Snapshot) -> str:
        try:
            return sha256(content(snapshot))
        except OperationalFailure as failure:
            return failure.code

    with ThreadPoolExecutor(8) as threads:
        for _ in range(30):
            attachment = of_stream(io.BytesIO(data))
            snapshot = read(attachment, executor)
            readings = [threads.submit(reading, snapshot) for _ in range(3)]
            closing = [threads.submit(attachment.close) for _ in range(2)]
            readings += [threads.submit(reading, snapshot) for _ in range(3)]
            assert {one.result() for one in readings} <= {sha256(data), "source_closed"}
            assert [one.result() for one in closing] == [None, None]
            assert spools() == 0


def test_an_attachment_that_is_forgotten_gives_all_back(
    executor: DeliveryExecutor, spools: Callable[[], int]
) -> None:
    """Without a word: the tests turn warnings into errors."""
    attachment = of_stream(io.BytesIO(octets(2 * IN_MEMORY)))
    read(attachment, executor)
    assert spools() == 1
    del attachment
    gc.collect()
    assert spools() == 0


@pytest.mark.parametrize("end", ["fails", "too large", "closed", "released", "late"])
def test_a_reading_that_comes_to_nothing_leaves_nothing(
    executor: DeliveryExecutor, gate: threading.Event, end: str, spools: Callable[[], int]
) -> None:
    """The spool that it had begun goes."""
    data, reached = octets(4 * IN_MEMORY), threading.Event()

    class Half(Stream):
        def read(self, size: int = -1) -> bytes:
            if self._data.tell() > 2 * IN_MEMORY and end != "too large":
                reached.set()
                gate.wait(GENEROUS)
                if end == "fails":
                    raise OSError
            return super().read(size)

    attachment = of_stream(Half(data), 3 * IN_MEMORY if end == "too large" else 1 << 30)
    codes = {
        "fails": "source_unreadable",
        "too large": "source_too_large",
        "closed": "source_slow",
        "released": "source_slow",
        "late": "source_slow",
    }
    with ThreadPoolExecutor(1) as threads:
        seconds = 0.3 if end == "late" else GENEROUS
        reading = threads.submit(
            fails,
            codes[end],
            lambda: attachment.snapshot(executor, Budget(GENEROUS), Budget(seconds)),
        )
        if end != "too large":
            assert reached.wait(GENEROUS)
            assert spools() == 1
        if end == "closed":
            attachment.close()
        elif end == "released":
            attachment.release()
        elif end == "fails":
            gate.set()
        reading.result(GENEROUS)
        gate.set()
    assert eventually(lambda: executor.statistics().load == 0)
    assert eventually(lambda: spools() == 0)


def test_many_calls_at_once_on_one_file(
    executor: DeliveryExecutor, tmp_path: Path, spools: Callable[[], int]
) -> None:
    """Reading, sending and giving back in any order: each gets the bytes, and nothing is left."""
    path = tmp_path / "x.png"
    data = octets(IN_MEMORY + 100_000)
    path.write_bytes(data)
    attachment = Attachment.from_path(path)

    def call(_: int) -> str:
        attachment.retain()
        try:
            return sha256(content(read(attachment, executor)))
        finally:
            attachment.release()

    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(call, range(100))) == {sha256(data)}
    gc.collect()
    assert eventually(lambda: spools() == 0)


# --- fork ---------------------------------------------------------------------------------------


def in_child(work: Callable[[], bool]) -> bool:
    """Return what ``work()`` returns in a forked child, which has no other thread."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if work() else 2
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1] == 0


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_reads_for_itself(
    executor: DeliveryExecutor, gate: threading.Event, tmp_path: Path
) -> None:
    """F14: neither the lock nor the reader of the parent is waited for."""
    source = _Held(gate)
    attachment = Attachment(source, "image/png")
    with ThreadPoolExecutor(1) as threads:
        reading = threads.submit(read, attachment, executor)
        assert source.entered.wait(GENEROUS)
        with source._lock:
            assert in_child(lambda: content(read(attachment, DeliveryExecutor(2), 5)) == b"read")
        gate.set()
        assert content(reading.result()) == b"read"


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_shares_what_was_read(executor: DeliveryExecutor) -> None:
    """F16: each process has its own position in the spool, and closes its own copy."""
    data = octets(2 * IN_MEMORY)
    attachment = of_stream(io.BytesIO(data))
    pieces = read(attachment, executor).chunks()
    first = next(pieces)

    def child() -> bool:
        same = content(read(attachment, DeliveryExecutor(2), 5)) == data
        attachment.close()
        return same

    assert in_child(child)
    assert first + b"".join(pieces) == data
    attachment.close()
