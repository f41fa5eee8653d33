"""What a receiver may see: the projection of an event (R-CON-03 to 06)."""

from __future__ import annotations

import copy
import json
from typing import Any, Callable, Optional

import pytest
from contents import LEVELS, SELECTIONS, Json, events, parts_in
from hypothesis import given
from hypothesis import strategies as st
from inprocess import Backend, observe

from ahp_sync import Client
from ahp_sync.protocol.content import ContentSelection, category_of, project
from ahp_sync.protocol.events import EVENTS
from ahp_sync.protocol.slots import part_paths, parts_of

SECRET = "the secret text"
OPAQUE = ("id", "source", "type", "extensions", "tool", "task", "native")


def effective_level(part: Json, content: ContentSelection) -> str:
    """Return the lower of the two levels of a part."""
    return min(content.level(category_of(part)), part["selection"], key=LEVELS.index)


@given(events(), SELECTIONS, st.booleans())
def test_each_part_has_the_lower_of_two_levels(
    event: Json, content: ContentSelection, native: bool
) -> None:
    """R-CON-04: what is below ``body`` is not in the view; the part itself remains."""
    before = copy.deepcopy(event)
    view = project(event, content, include_native=native)
    assert event == before, "the host's own event was changed"
    originals, seen = parts_of(event), parts_of(view)
    assert len(originals) == len(seen)
    for original, part in zip(originals, seen):
        level = effective_level(original, content)
        assert part["selection"] == level
        for name in ("id", "kind", "mediaType", "category", "synthesized"):
            assert part.get(name) == original.get(name)
        if level == "body":
            assert part == original
        else:
            assert not {"text", "body", "gap"} & set(part)
        if level == "omit":  # nor may be measured what may not be seen (D-22)
            assert not {"size", "sha256"} & set(part)
        elif level == original["selection"]:
            assert part == original


@given(events(), SELECTIONS)
def test_what_is_hidden_is_nowhere_in_the_view(event: Json, content: ContentSelection) -> None:
    """R-CON-04, whatever the slot: no text, reference or reason of a part below ``body``."""
    sent = json.dumps(project(event, content, include_native=True))
    for part in parts_of(event):
        hidden = effective_level(part, content) != "body"
        for canary in (part.get("text"), part.get("body"), part.get("gap")):
            if canary is not None:
                assert (json.dumps(canary) in sent) is not hidden


@given(events(), SELECTIONS)
def test_nothing_but_the_slots_is_touched(event: Json, content: ContentSelection) -> None:
    """R-CON-05: what only looks like content is the host's own to redact."""
    view = project(event, content, include_native=True)
    assert set(view) == set(event)
    for name in OPAQUE:
        assert view.get(name) == event.get(name)


@given(events(), st.booleans())
def test_native_goes_only_where_it_is_asked_for(event: Json, asked: bool) -> None:
    """R-CON-05: ``native`` is removed unless the subscription has ``includeNative``."""
    view = project(event, ContentSelection("body"), include_native=asked)
    assert ("native" in view) == ("native" in event and asked)


@given(events())
def test_whoever_sees_all_of_it_gets_the_event_itself(event: Json) -> None:
    """Nothing is copied where nothing is hidden."""
    for part in parts_of(event):
        if part["selection"] == "omit":
            part.pop("size", None)
            part.pop("sha256", None)
    assert project(event, ContentSelection("body"), include_native=True) is event


def test_an_event_without_content_is_not_copied() -> None:
    """The event before a tool call is on everybody's way."""
    event = {"type": "tool.before", "id": "e", "tool": {"name": "x", "input": {"items": [1]}}}
    assert project(event, ContentSelection("omit"), include_native=False) is event


@given(events(), SELECTIONS)
def test_a_second_projection_hides_nothing_more(event: Json, content: ContentSelection) -> None:
    """A view is what it is for its receiver."""
    view = project(event, content, include_native=False)
    assert project(view, content, include_native=False) is view


@given(events(), SELECTIONS, st.booleans())
def test_the_official_sdk_shows_the_same(
    event: Json, content: ContentSelection, native: bool
) -> None:
    """Two known differences: D-22, and media types in capitals, which are not drawn here."""
    official = pytest.importorskip("agenthooksprotocol._content")
    selection = {"default": content.default, **dict(content.categories)}
    expected = official.project_content(copy.deepcopy(event), selection, native)
    for name in set(expected) - set(OPAQUE):
        for part in parts_in(expected[name]):
            if part["selection"] == "omit":
                part.pop("size", None)
                part.pop("sha256", None)
    assert project(event, content, include_native=native) == expected


def test_the_official_schemas_have_the_same_slots() -> None:
    """R-CON-05, for each of the 32 events."""
    official = pytest.importorskip("agenthooksprotocol._content").normalized_content_slots()
    assert {
        name: (set(part_paths(name)), set(event.messages)) for name, event in EVENTS.items()
    } == {name: (set(parts), set(messages)) for name, (parts, messages) in official.items()}


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
        ("attachment", "image", None, "files"),
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


@pytest.mark.parametrize(
    "part",
    [
        {"id": "p", "kind": "text", "mediaType": "text/plain", "selection": "all", "text": SECRET},
        {"id": "p", "kind": "text", "mediaType": "text/plain", "text": SECRET},
        SECRET,
    ],
)
def test_what_is_no_part_is_not_sent_by_mistake(part: Any) -> None:
    """Events are checked before; should one slip through, it fails here and not at the receiver."""
    event = {"type": "tool.before", "items": [part]}
    with pytest.raises((KeyError, TypeError)):
        project(event, ContentSelection("omit"), include_native=False)


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
