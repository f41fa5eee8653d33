"""JSON values, parts and messages at random, all of them valid."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Optional

from hypothesis import strategies as st

__all__ = [
    "COUNTS",
    "EXTENSIONS",
    "FLAGS",
    "JSON",
    "OBJECTS",
    "REFERENCES",
    "ROLES",
    "TEXT",
    "WORDS",
    "Payload",
    "attachment_parts",
    "members",
    "message",
    "messages",
    "often",
    "part",
    "parts",
    "text_part_forms",
    "text_parts",
]

Payload = dict[str, Any]

#: Strings: short, with the odd letter that is not ASCII, and never a lone surrogate.
TEXT = st.sampled_from(["", "a", "b", "héé\u2028", "\U0001f600", "a b\n"]) | st.text(
    st.characters(exclude_categories=["Cs"]), max_size=6
)
WORDS = st.sampled_from(["a", "b", "run", "x-1", "ß", "0"]) | TEXT.filter(bool)
COUNTS = st.sampled_from([0, 1, 2, 7, 10**12])
NUMBERS = st.sampled_from([0, 1, -1, 1.0, 0.5, 1e300, 2**53 + 1, 10**30]) | st.integers(-9, 9)
#: JSON values, with those among them that some parser takes for one another.
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=5,
)
OBJECTS = st.dictionaries(WORDS, JSON, max_size=3)
ROLES = ("system", "developer", "user", "assistant", "tool")
EXTENSIONS = st.dictionaries(
    st.sampled_from(["com.example", "org.acme.x-1_y", "A.b.C9"]), JSON, min_size=1, max_size=2
)
FLAGS = st.booleans()


def members(required: Mapping[str, Any], optional: Optional[Mapping[str, Any]] = None) -> Any:
    """Return objects with these members; a value that is no strategy is constant."""
    return st.fixed_dictionaries(
        {name: _strategy(value) for name, value in required.items()},
        optional={name: _strategy(value) for name, value in (optional or {}).items()},
    )


def _strategy(value: Any) -> st.SearchStrategy[Any]:
    return value if isinstance(value, st.SearchStrategy) else st.just(value)


# --- content --------------------------------------------------------------------------------------

CATEGORIES = st.sampled_from(["text", "images", "files", "reasoning", "skills"])
MEDIA = st.sampled_from(
    ["image/png", "image/svg+xml", "audio/wav", "video/mp4", "application/pdf", "application/jsonl"]
)
REFERENCES = ("ref-1", "ref-2")
_MEASURES = {"size": COUNTS, "sha256": st.sampled_from(["0" * 64, "9af" + "c" * 61])}
_GAP = members({"reason": WORDS}, {"path": WORDS})
_OWN = {"category": CATEGORIES, "synthesized": FLAGS}


@functools.cache
def text_part_forms(identity: str) -> tuple[st.SearchStrategy[Payload], st.SearchStrategy[Payload]]:
    base = {"id": identity, "kind": "text", "mediaType": "text/plain"}
    body = members({**base, "selection": "body", "text": TEXT}, _OWN)
    return body, _withheld(base)


def _withheld(base: Mapping[str, Any]) -> st.SearchStrategy[Payload]:
    gap = members({**base, "selection": "body", "gap": _GAP}, {**_OWN, **_MEASURES})
    hidden = st.sampled_from(["metadata", "omit"])
    return gap | members({**base, "selection": hidden}, {**_OWN, **_MEASURES})


@functools.cache
def _attachment(identity: str) -> st.SearchStrategy[Payload]:
    base = {"id": identity, "kind": "attachment", "mediaType": MEDIA}
    body = {"ref": st.sampled_from(REFERENCES)}
    whole = members({**base, "selection": "body", "body": members(body)}, _OWN)
    return often(whole, _withheld(base))


def often(common: Any, rare: Any) -> Any:
    """Draw from ``common`` three times out of four; shrinks to it."""
    return st.sampled_from([True, True, True, False]).flatmap(lambda one: common if one else rare)


@functools.cache
def part(identity: str) -> st.SearchStrategy[Payload]:
    """Return parts of this id: mostly text with its body."""
    body, withheld = text_part_forms(identity)
    forms = [body] * 5 + [_attachment(identity)] * 2 + [withheld]
    return st.sampled_from(forms).flatmap(lambda drawn: drawn)


def attachment_parts(identity: str) -> st.SearchStrategy[Payload]:
    """Return parts of this id that stand for something other than text."""
    return _attachment(identity)


@functools.cache
def text_parts(prefix: str, *, body: bool = False, max_size: int = 2) -> Any:
    """Return lists of text parts, all with their bodies, or (now and then) without."""

    def one(identity: str) -> st.SearchStrategy[Payload]:
        whole, withheld = text_part_forms(identity)
        return whole if body else often(whole, withheld)

    return _numbered(prefix, one, max_size)


@functools.cache
def parts(prefix: str, max_size: int = 2) -> Any:
    """Return lists of parts, each with an id of its own."""
    return _numbered(prefix, part, max_size)


@functools.cache
def message(identity: str, roles: tuple[str, ...] = ROLES) -> st.SearchStrategy[Payload]:
    """Return messages of this id; the ids of their parts begin with it."""
    return members(
        {"id": identity, "role": st.sampled_from(roles), "parts": parts(f"{identity}-p")},
        {"synthesized": FLAGS},
    )


@functools.cache
def messages(prefix: str = "m", roles: tuple[str, ...] = ROLES, max_size: int = 3) -> Any:
    """Return lists of messages, each with an id of its own."""
    return _numbered(prefix, lambda identity: message(identity, roles), max_size)


def _numbered(prefix: str, one: Any, max_size: int) -> Any:
    ones = [one(f"{prefix}{number}") for number in range(max_size)]
    sizes = [st.tuples(*ones[:size]).map(list) for size in range(max_size + 1)]
    return st.sampled_from(sizes).flatmap(lambda drawn: drawn)
