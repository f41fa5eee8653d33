"""Random content: parts, messages, and events of every type that hold some."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, Optional

from hypothesis import strategies as st

from ahp_sync.protocol.content import ContentSelection
from ahp_sync.protocol.events import EVENTS, Path

__all__ = [
    "CANARY",
    "LEVELS",
    "SELECTIONS",
    "Json",
    "events",
    "message_lists",
    "numbered",
    "parts",
    "parts_in",
    "text_lists",
]

Json = dict[str, Any]

LEVELS = ("omit", "metadata", "body")
CATEGORIES = ("text", "images", "audio", "video", "files", "reasoning", "own")
MEDIA = ("image/png", "image/svg+xml", "audio/ogg", "video/mp4", "application/pdf", "x/y")
#: In every text, reference and reason of a generated part, with a number of its own.
CANARY = "canary"

SELECTIONS = st.builds(
    ContentSelection,
    st.sampled_from(LEVELS),
    st.dictionaries(st.sampled_from(CATEGORIES), st.sampled_from(LEVELS)).map(
        lambda chosen: tuple(chosen.items())
    ),
)
_IDS = ["a", "b", "c", "d"]


@st.composite
def parts(draw: st.DrawFn, kinds: tuple[str, ...] = ("text", "attachment")) -> Json:
    """Return a part of any form of section 13."""
    kind = draw(st.sampled_from(kinds))
    part: Json = {
        "id": draw(st.sampled_from(_IDS)),
        "kind": kind,
        "mediaType": "text/plain" if kind == "text" else draw(st.sampled_from(MEDIA)),
        "selection": draw(st.sampled_from(LEVELS)),
    }
    if draw(st.booleans()):
        part["category"] = draw(st.sampled_from(CATEGORIES))
    if draw(st.booleans()):
        part["synthesized"] = True
    if part["selection"] == "body" and draw(st.integers(0, 3)):
        part.update({"text": CANARY} if kind == "text" else {"body": {"ref": CANARY}})
        return part
    if part["selection"] == "body":
        part["gap"] = {"reason": CANARY}
    if draw(st.booleans()):
        part.update(size=12, sha256="0" * 64)
    return part


@st.composite
def _messages(draw: st.DrawFn) -> Json:
    return {
        "id": draw(st.sampled_from(["m1", "m2", "m3"])),
        "role": draw(st.sampled_from(["user", "assistant"])),
        "parts": draw(st.lists(parts(), max_size=3)),
    }


def message_lists() -> st.SearchStrategy[list[Json]]:
    """Return lists of messages; an id may come twice."""
    return st.lists(_messages(), max_size=4).map(numbered)


def text_lists() -> st.SearchStrategy[list[Json]]:
    """Return lists of text parts; an id may come twice."""
    return st.lists(parts(kinds=("text",)), max_size=4).map(numbered)


@st.composite
def events(draw: st.DrawFn, event_type: Optional[str] = None) -> Json:
    """Return an event of any type, with content in any of its slots and look-alikes elsewhere."""
    name = event_type or draw(st.sampled_from(list(EVENTS)))
    content: Json = {}
    for paths, leaf in ((EVENTS[name].parts, parts()), (EVENTS[name].messages, _messages())):
        for path in paths:
            if draw(st.integers(0, 3)):
                content = _overlaid(content, draw(_at(path, leaf)))
    event: Json = {"id": "e", "source": "urn:x", "type": name, **numbered(content)}
    opaque = {"kind": "text", "mediaType": "text/plain", "selection": "body", "text": "opaque"}
    event["extensions"] = {"a.b": [opaque]}
    event["tool"] = {"input": {"parts": [opaque]}}
    event["task"] = {"change": {"items": [opaque]}}
    if draw(st.booleans()):
        event["native"] = {"items": [opaque]}
    return event


def numbered(value: Any, word: str = CANARY) -> Any:
    """Return a copy with a number after each canary, so that each can be told from the others."""
    counter = itertools.count(1)

    def copy(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: copy(inner) for name, inner in value.items()}
        if isinstance(value, list):
            return [copy(inner) for inner in value]
        return f"{word}-{next(counter)}." if value == CANARY else value

    return copy(value)


def parts_in(value: Any) -> Iterator[Json]:
    """Yield all that looks like a part, in order."""
    if isinstance(value, dict):
        if "mediaType" in value:
            yield value
        else:
            for inner in value.values():
                yield from parts_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from parts_in(inner)


def _at(path: Path, leaf: st.SearchStrategy[Json]) -> st.SearchStrategy[Any]:
    if not path:
        return leaf
    inner = _at(path[1:], leaf)
    if path[0] == "*":
        return st.lists(inner, max_size=3)
    return st.builds(lambda value: {path[0]: value}, inner)


def _overlaid(one: Any, other: Any) -> Any:
    if isinstance(one, dict) and isinstance(other, dict):
        both = {name: _overlaid(one[name], other[name]) for name in one.keys() & other.keys()}
        return {**one, **other, **both}
    if isinstance(one, list) and isinstance(other, list):
        return [_overlaid(a, b) for a, b in itertools.zip_longest(one, other, fillvalue={})]
    return other
