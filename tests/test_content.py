"""What a receiver may see: the projection of an event (R-CON-03 to 06)."""

from __future__ import annotations

import copy
import json
from typing import Any, Callable, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inprocess import Backend, observe

from ahp_sync import Client
from ahp_sync.protocol.content import ContentSelection, category_of, project

LEVELS = ("omit", "metadata", "body")
CATEGORIES = ("text", "images", "audio", "video", "files", "reasoning", "own")
MEDIA = ("image/png", "IMAGE/svg+xml", "audio/ogg", "video/mp4", "application/pdf", "x/y")
SECRET = "the secret text"


@st.composite
def parts(draw: st.DrawFn) -> dict[str, Any]:
    """Return a part of any form of section 13."""
    kind = draw(st.sampled_from(["text", "attachment"]))
    selection = draw(st.sampled_from(LEVELS))
    part: dict[str, Any] = {
        "id": draw(st.sampled_from(["p1", "p2"])),
        "kind": kind,
        "mediaType": "text/plain" if kind == "text" else draw(st.sampled_from(MEDIA)),
        "selection": selection,
    }
    category = draw(st.none() | st.sampled_from(CATEGORIES))
    if category:
        part["category"] = category
    if selection == "body" and kind == "text" and draw(st.booleans()):
        part["text"] = SECRET
        return part
    if selection == "body":
        part["gap"] = {"reason": SECRET}
    if draw(st.booleans()):
        part.update(size=12, sha256="0" * 64)
    return part


SELECTIONS = st.builds(
    ContentSelection,
    st.sampled_from(LEVELS),
    st.dictionaries(st.sampled_from(CATEGORIES), st.sampled_from(LEVELS)).map(
        lambda chosen: tuple(chosen.items())
    ),
)


@st.composite
def events(draw: st.DrawFn) -> dict[str, Any]:
    """Return an event with parts in every slot that this version serves."""
    event: dict[str, Any] = {"id": "e", "extensions": {"a.b": SECRET}, "tool": {"input": {"a": 1}}}
    shape = draw(st.sampled_from(["messages", "parts", "none"]))
    some = draw(st.lists(parts(), max_size=3))
    if shape == "messages":
        event["items"] = [{"id": "m", "role": "tool", "parts": some}]
    elif shape == "parts":
        event["items"] = some
    if draw(st.booleans()):
        sides = draw(st.dictionaries(st.sampled_from(["before", "after"]), parts(), max_size=2))
        event["fileChanges"] = [{"path": "a", "change": "modified", **sides}]
    if draw(st.booleans()):
        event["native"] = {"raw": SECRET}
    return event


def parts_of(event: dict[str, Any]) -> list[dict[str, Any]]:
    """Return all parts of an event, in order."""
    found: list[dict[str, Any]] = []
    for item in event.get("items", []):
        found += item.get("parts", [item])
    for change in event.get("fileChanges", []):
        found += [change[side] for side in ("before", "after") if side in change]
    return found


@given(events(), SELECTIONS, st.booleans())
def test_each_part_has_the_lower_of_two_levels(
    event: dict[str, Any], content: ContentSelection, native: bool
) -> None:
    """R-CON-04: what is below ``body`` is not in the view; the part itself remains."""
    before = copy.deepcopy(event)
    view = project(event, content, include_native=native)
    assert event == before, "the host's own event was changed"
    originals, seen = parts_of(event), parts_of(view)
    assert [part["id"] for part in seen] == [part["id"] for part in originals]
    for original, part in zip(originals, seen):
        wanted = content.level(category_of(original))
        level = min(wanted, original["selection"], key=LEVELS.index)
        assert part["selection"] == level
        for name in ("id", "kind", "mediaType", "category", "synthesized"):
            assert part.get(name) == original.get(name)
        if level == "body":
            assert part == original
        else:
            assert not {"text", "body", "gap"} & set(part)
        if wanted == "omit":  # nor may be measured what may not be seen (D-22)
            assert not {"size", "sha256"} & set(part)


@given(events(), SELECTIONS)
def test_nothing_but_the_slots_is_touched(event: dict[str, Any], content: ContentSelection) -> None:
    """R-CON-05: extensions, tool input and the rest are the host's own to redact."""
    view = project(event, content, include_native=True)
    assert set(view) == set(event)
    for name in ("id", "extensions", "tool", "native"):
        assert view.get(name) == event.get(name)


@given(events(), st.booleans())
def test_native_goes_only_where_it_is_asked_for(event: dict[str, Any], asked: bool) -> None:
    """R-CON-05: ``native`` is removed unless the subscription has ``includeNative``."""
    view = project(event, ContentSelection("body"), include_native=asked)
    assert ("native" in view) == ("native" in event and asked)


@given(events())
def test_whoever_sees_nothing_sees_no_secret(event: dict[str, Any]) -> None:
    """With ``omit`` as the default no text of a part leaves the process."""
    del event["extensions"]
    view = project(event, ContentSelection("omit"), include_native=False)
    assert SECRET not in json.dumps(view)


@pytest.mark.parametrize(
    ("kind", "media_type", "category", "expected"),
    [
        ("text", "text/plain", None, "text"),
        ("text", "text/plain", "reasoning", "reasoning"),
        ("attachment", "image/png", None, "images"),
        ("attachment", "IMAGE/PNG", None, "images"),
        ("attachment", "audio/ogg; codecs=opus", None, "audio"),
        ("attachment", "video/mp4", None, "video"),
        ("attachment", "application/pdf", None, "files"),
        ("attachment", "imagery/png", None, "files"),
        ("attachment", "image", None, "images"),
        ("attachment", "image/png", "text", "text"),
    ],
)
def test_the_category_of_a_part(
    kind: str, media_type: str, category: Optional[str], expected: str
) -> None:
    """R-CON-03: an explicit one, else by kind and media type."""
    part = {"kind": kind, "mediaType": media_type}
    assert category_of(part if category is None else {**part, "category": category}) == expected


def test_an_unlisted_category_has_the_default() -> None:
    """R-CON-03."""
    content = ContentSelection("metadata", (("text", "body"),))
    assert [content.level(name) for name in ("text", "files", "own")] == [
        "body",
        "metadata",
        "metadata",
    ]


def test_each_subscription_gets_a_view_of_its_own(open_client: Callable[..., Client]) -> None:
    """R-CON-06: the same event and ids for all of them, each with its own content on the wire."""
    views = [{"default": "body"}, {"default": "omit"}, {"default": "omit", "text": "metadata"}]
    backend = Backend(None, *(observe(content=view) for view in views), observe(includeNative=True))
    open_client(backend).tool_after(
        name="Bash", input={"a": 1}, call_id="c", output=SECRET, native={"raw": SECRET}
    )
    assert len({event["id"] for event in backend.events}) == 1
    seen = {
        (event["items"][0]["parts"][0]["selection"], "native" in event) for event in backend.events
    }
    expected = {("body", False), ("omit", False), ("metadata", False), ("body", True)}
    assert seen == expected
    for body in backend.bodies:
        if b'"omit"' in body or b'"metadata"' in body:
            assert SECRET.encode() not in body
