"""Attachments as content parts: what they may be, and what stands for them in an event."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from ahp_sync import Attachment
from ahp_sync.protocol.content_schema import PART

MAKERS: dict[str, Callable[..., Attachment]] = {
    "bytes": lambda kind, **more: Attachment.from_bytes(b"x", kind, **more),
    "path": lambda kind, **more: Attachment.from_path("x.bin", kind, **more),
    "stream": lambda kind, **more: Attachment.from_stream(
        open(os.devnull, "rb"),  # noqa: SIM115  # closed by the test
        kind,
        max_bytes=1,
        **more,
    ),
}

TEXTUAL = [
    "text/plain",
    "TEXT/html; charset=utf-8",
    "application/json",
    "Application/JSON",
    "application/json; charset=utf-8",
    "application/json ;charset=utf-8",
    "application/vnd.api+json",
    "image/svg+JSON;x=y",
    "application/ld+json\t; profile=x",
]
NOT_TEXTUAL = [
    "image/png",
    "application/jsonl",
    "image/svg+xml",
    "application/x-text",
    "audio/ogg; codecs=opus",
    "application/octet-stream",
    "IMAGE/PNG",
    "application/json-seq",
]


@pytest.mark.parametrize("media_type", TEXTUAL)
def test_text_and_json_are_no_attachments(media_type: str) -> None:
    """R-CON-01: text goes inline, whatever the spelling of its type."""
    with pytest.raises(ValueError, match="inline"):
        Attachment.from_bytes(b"x", media_type)
    with pytest.raises(ValueError, match="inline"):
        Attachment.from_path("x.bin", media_type)


@pytest.mark.parametrize("media_type", NOT_TEXTUAL)
def test_everything_else_is(media_type: str) -> None:
    """R-CON-01, the other half; the type stays as it was written."""
    assert Attachment.from_bytes(b"x", media_type).part()["mediaType"] == media_type


@pytest.mark.parametrize("media_type", ["", "png", "image/", "/png", "image /png", " image/png"])
def test_a_media_type_has_the_form_of_one(media_type: str) -> None:
    with pytest.raises(ValueError, match="media_type"):
        Attachment.from_bytes(b"x", media_type)


@given(
    media_type=st.one_of(
        st.builds(
            "{}/{}{}".format,
            st.sampled_from(["text", "Text", "image", "application", "x"]),
            st.sampled_from(["json", "x+json", "JSON", "jsonl", "a+b+json", "png", "+json"]),
            st.sampled_from(["", ";", "; a=b", " ", "\n", ";json", "/json", ";x+json"]),
        ),
        st.text(max_size=12),
    ),
    id=st.one_of(st.none(), st.text(min_size=1, max_size=3)),
    category=st.one_of(st.none(), st.text(min_size=1, max_size=3)),
    selection=st.sampled_from(["body", "metadata", "omit"]),
)
def test_every_attachment_is_a_part_that_validates(
    media_type: str, id: Any, category: Any, selection: str
) -> None:
    """Whatever is not refused at once is a part of the protocol's schema."""
    try:
        attachment = Attachment.from_bytes(b"x", media_type, id=id, category=category)
    except ValueError:
        return
    part = attachment.part(selection)
    assert Draft202012Validator(PART).is_valid(part), part


def test_the_part_of_an_attachment() -> None:
    """An id that was made up is said to be so; the reference is only in a body."""
    given_id = Attachment.from_bytes(b"x", "image/png", id="shot", category="images")
    assert given_id.part() == {
        "id": "shot",
        "kind": "attachment",
        "mediaType": "image/png",
        "selection": "body",
        "body": {"ref": given_id.ref},
        "category": "images",
    }
    invented = Attachment.from_bytes(b"x", "image/png")
    for selection in ("metadata", "omit"):
        assert invented.part(selection) == {
            "id": invented.id,
            "kind": "attachment",
            "mediaType": "image/png",
            "selection": selection,
            "synthesized": True,
        }
    with pytest.raises(ValueError, match="selection"):
        invented.part("all")


@pytest.mark.parametrize("maker", MAKERS)
def test_attachments_are_told_apart(maker: str) -> None:
    """Ids and references are not given twice, also for the same bytes."""
    made = [MAKERS[maker]("image/png") for _ in range(20)]
    assert len({one.id for one in made}) == len({one.ref for one in made}) == len(made)
    if maker == "stream":
        for one in made:
            one._source._stream.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "guessed"),
    [
        ("shot.png", "image/png"),
        ("SHOT.PNG", "image/png"),
        ("page.pdf", "application/pdf"),
        ("core", "application/octet-stream"),
        ("what.ever-is-this", "application/octet-stream"),
        ("rows.json.gz", "application/gzip"),
        ("notes.txt.bz2", "application/x-bzip2"),
        ("notes.txt.Z", "application/octet-stream"),
    ],
)
def test_the_type_of_a_file_is_guessed_by_its_name(name: str, guessed: str) -> None:
    """A compressed text is no text."""
    assert Attachment.from_path(Path("folder") / name).media_type == guessed


@pytest.mark.parametrize("name", ["notes.txt", "rows.json", "page.html"])
def test_a_file_of_text_is_refused_unless_the_host_says_otherwise(name: str) -> None:
    with pytest.raises(ValueError, match="inline"):
        Attachment.from_path(name)
    assert Attachment.from_path(name, "application/octet-stream").media_type


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: Attachment.from_bytes("x", "image/png"), TypeError),  # type: ignore[arg-type]
        (lambda: Attachment.from_bytes(b"x", None), TypeError),  # type: ignore[arg-type]
        (lambda: Attachment.from_bytes(b"x", "image/png", id=""), ValueError),
        (lambda: Attachment.from_bytes(b"x", "image/png", category=""), ValueError),
        (lambda: Attachment.from_path(b"x.png"), TypeError),  # type: ignore[arg-type]
        (lambda: Attachment.from_path(7), TypeError),  # type: ignore[arg-type]
        (lambda: Attachment.from_path("x.png", ""), ValueError),
        (lambda: Attachment.from_path("x.png", max_bytes=-1), ValueError),
        (lambda: Attachment.from_path("x.png", max_bytes=True), TypeError),
        (lambda: Attachment.from_path("x.png", max_bytes=1.5), TypeError),  # type: ignore[arg-type]
        (lambda: Attachment.from_stream(b"x", "image/png", max_bytes=1), TypeError),  # type: ignore[arg-type]
    ],
)
def test_arguments_that_make_no_sense_are_refused(
    make: Callable[[], Attachment], error: type[Exception]
) -> None:
    with pytest.raises(error):
        make()


def test_nothing_of_the_source_is_in_the_repr(tmp_path: Path) -> None:
    """F51: neither the bytes nor where they are."""
    path = tmp_path / "s3cret.png"
    for one in (Attachment.from_bytes(b"s3cret", "image/png"), Attachment.from_path(path)):
        assert "s3cret" not in repr(one)
        assert "image/png" in repr(one)
        assert one.ref not in repr(one)
