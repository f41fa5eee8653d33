"""Lines, tails and samples of untrusted bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ahp_sync.transports.framing import LineReader, Tail, excerpt, response_id

CHUNKS = st.lists(st.text("ab\n", max_size=12).map(str.encode))


@given(CHUNKS)
def test_lines_do_not_depend_on_the_chunks_they_come_in(chunks: list[bytes]) -> None:
    """R-STD-01: a line ends at its newline and nowhere else."""
    reader = LineReader(1000)
    lines = [line for chunk in chunks for line in reader.feed(chunk)]
    assert [*lines, bytes(reader.partial)] == b"".join(chunks).split(b"\n")
    assert not reader.overflowed


@given(CHUNKS, st.integers(1, 6))
def test_no_line_and_no_memory_exceeds_the_cap(chunks: list[bytes], cap: int) -> None:
    """F36: lines before the one that is too long still count, nothing behind it does."""
    reader = LineReader(cap)
    lines = [line for chunk in chunks for line in reader.feed(chunk)]
    whole = b"".join(chunks).split(b"\n")
    fitting = whole[: next((i for i, line in enumerate(whole) if len(line) > cap), len(whole))]
    assert reader.overflowed == (len(fitting) < len(whole))
    assert lines == (fitting if reader.overflowed else fitting[:-1])
    assert len(reader.partial) <= cap


@given(st.lists(st.binary(max_size=20)), st.integers(1, 30))
def test_a_tail_is_the_end_of_the_stream(chunks: list[bytes], limit: int) -> None:
    """F34: bounded, and marked where something is missing."""
    tail = Tail(limit)
    for chunk in chunks:
        tail.add(chunk)
    whole = b"".join(chunks)
    kept = whole[-limit:].decode("utf-8", "replace")
    assert tail.take() == (f"[cut] {kept}" if len(whole) > limit else kept or None)
    assert tail.take() is None


def test_samples_are_bounded_text() -> None:
    """F31: whatever the bytes are."""
    assert excerpt(b"") is None
    assert excerpt(b"\xff") == "\ufffd"
    assert excerpt(b"x" * 3000) == "x" * 2048 + " [cut]"


def test_ids_are_found_in_messages_only() -> None:
    """F41: hostile lines cost neither an error nor minutes."""
    assert response_id(b' {"id": "a", "result": {}}\r') == "a"
    for line in (
        b"",
        b"noise",
        b'["id"]',
        b"{}",
        b'{"id": 1}',
        b'{"id": ["a"]}',
        b"\xff",
        b'{"id"',
    ):
        assert response_id(line) is None
    assert response_id(b'{"x": ' + b"[" * 200_000 + b"}") is None
    assert response_id(b'{"x": ' + b"9" * 1_000_000 + b', "id": "a"}') == "a"
