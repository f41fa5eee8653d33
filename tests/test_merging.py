"""Edits of content lists: nothing hidden is laid open or lost by them (R-CON-06, R-EFF-02/03)."""

from __future__ import annotations

import copy
import json
import time
from dataclasses import replace
from typing import Any, Optional

import pytest
from contents import CANARY, SELECTIONS, Json, events, message_lists, numbered, parts, text_lists
from hypothesis import assume, given, reject
from hypothesis import strategies as st

from ahp_sync.failure import OperationalFailure
from ahp_sync.protocol.content import ContentSelection, project
from ahp_sync.protocol.equality import json_equal
from ahp_sync.protocol.merging import (
    Merged,
    merged,
    references_in,
    unknown_reference,
    withholds_text,
)
from ahp_sync.protocol.slots import parts_of

List = list[Json]
HIDDEN = ContentSelection("metadata")

#: A host's content list, with the event type and the member it stands in.
HOSTS = st.tuples(st.just("turn.start"), st.just("items"), message_lists()) | st.tuples(
    st.just("context.compact.after"), st.just("summary"), text_lists()
)
Host = tuple[str, str, List]


def seen(host: Host, content: ContentSelection) -> List:
    """Return the list as a receiver sees it."""
    name, member, entries = host
    view: List = project({"type": name, member: entries}, content, include_native=False)[member]
    return view


def text(name: str, words: str = "hello", **members: Any) -> Json:
    part = {"id": name, "kind": "text", "mediaType": "text/plain", "selection": "body"}
    return {**part, "text": words, **members}


def image(name: str, ref: str = "ref-1", **members: Any) -> Json:
    part = {"id": name, "kind": "attachment", "mediaType": "image/png", "selection": "body"}
    return {**part, "body": {"ref": ref}, **members}


def message(name: str, *content: Json, role: str = "user") -> Json:
    return {"id": name, "role": role, "parts": list(content)}


def shown(entries: List, content: ContentSelection = HIDDEN) -> List:
    """Return a list of messages as a receiver sees it."""
    return seen(("turn.start", "items", entries), content)


@st.composite
def edits(draw: st.DrawFn, view: List) -> List:
    """Return what a backend makes of a list: entries as they were or changed, in any order."""
    value: List = []
    for entry in draw(st.lists(st.sampled_from(view), max_size=5) if view else st.just([])):
        new = copy.deepcopy(entry)
        change = draw(st.sampled_from(["none", "none", "part", "drop", "role", "id", "text"]))
        content = new.get("parts", [new])
        if change == "part" and "parts" in new:
            content.append(numbered(draw(parts()), "written"))
        elif change == "drop" and "parts" in new and content:
            content.pop(draw(st.integers(0, len(content) - 1)))
        elif change == "role" and "parts" in new:
            new["role"] = "tool"
        elif change == "id":
            new["id"] = "z"
        elif change == "text" and content:
            part = draw(st.sampled_from(content))
            part.update(text(part["id"], "the backend's own words"))
        value.append(new)
    return value


def accepted(operation: str, value: List, view: List, host: List) -> Merged:
    """Return both lists after an edit; one that changes what was not shown is not looked at."""
    try:
        return merged(operation, value, view, host)
    except OperationalFailure:
        reject()


# --- merge ----------------------------------------------------------------------------------------


@given(HOSTS, SELECTIONS, st.data())
def test_an_append_keeps_all_that_is_there(
    host: Host, content: ContentSelection, data: st.DataObject
) -> None:
    """Hidden entries, doubled ones, all of them; what is added stands behind them as it came."""
    view = seen(host, content)
    added = data.draw(edits(view))
    new = merged("merge", added, view, host[2])
    assert new.host == host[2] + added
    assert new.view == view + added


# --- replace --------------------------------------------------------------------------------------


@given(HOSTS, SELECTIONS)
def test_what_comes_back_as_it_went_out_changes_nothing(
    host: Host, content: ContentSelection
) -> None:
    """R-SET-06: an identical replace is no change of the host's value."""
    before = copy.deepcopy(host[2])
    view = seen(host, content)
    new = merged("replace", copy.deepcopy(view), view, host[2])
    assert json_equal(new.host, before)
    assert json_equal(new.view, view)


@given(HOSTS, SELECTIONS, st.data())
def test_an_untouched_entry_keeps_what_is_hidden_in_it(
    host: Host, content: ContentSelection, data: st.DataObject
) -> None:
    """Wherever it is put, and whatever is done to the others."""
    view = seen(host, content)
    value = data.draw(edits(view))
    new = accepted("replace", value, view, host[2])
    assert len(new.host) == len(value)
    for entry, kept in zip(value, new.host):
        originals = [own for own, old in zip(host[2], view) if json_equal(old, entry)]
        if originals:
            assert kept in originals
        elif "parts" in entry:
            assert {**kept, "parts": entry["parts"]} == entry
            check_parts(entry, kept, host[2], view)
        else:
            assert kept == entry


def check_parts(entry: Json, kept: Json, host: List, view: List) -> None:
    """The untouched parts of a changed message keep what is hidden in them; others are new."""
    pairs = [(own, old) for own, old in zip(host, view) if old["id"] == entry["id"]]
    candidates = [
        [
            [own for own, old in zip(of_host["parts"], of_view["parts"]) if json_equal(old, part)]
            or [part]
            for part in entry["parts"]
        ]
        for of_host, of_view in pairs
    ] or [[[part] for part in entry["parts"]]]
    assert any(
        all(part in options for part, options in zip(kept["parts"], candidate))
        for candidate in candidates
    )
    assert len(kept["parts"]) == len(entry["parts"])


@given(HOSTS, SELECTIONS, st.data())
def test_no_edit_makes_a_hidden_thing_visible(
    host: Host, content: ContentSelection, data: st.DataObject
) -> None:
    """Not to the same receiver, and not by mixing the receiver's words with the host's."""
    view = seen(host, content)
    known = json.dumps(view)
    for operation in data.draw(st.lists(st.sampled_from(["merge", "replace"]), max_size=3)):
        before = seen((*host[:2], host[2]), content)
        value = data.draw(edits(before))
        new = accepted(operation, value, before, host[2])
        own = [json.dumps(part) for part in every_part(host[2]) + every_part(value)]
        assert all(json.dumps(part) in own for part in every_part(new.host))
        known += json.dumps(value)
        host = (*host[:2], list(new.host))
        for part in every_part(seen(host, content)):
            hidden = part.get("text") or part.get("gap") or part.get("body")
            assert hidden is None or json.dumps(hidden) in known


@given(message_lists(), SELECTIONS, st.data())
def test_the_receiver_sees_the_outcome_of_its_edits(
    host: List, content: ContentSelection, data: st.DataObject
) -> None:
    """Kept, moved and dropped entries: the new view is what the new list looks like to it."""
    view = shown(host, content)
    keep = data.draw(st.permutations(range(len(host))))[: data.draw(st.integers(0, len(host)))]
    new = merged("replace", [copy.deepcopy(view[i]) for i in keep], view, host)
    assert json_equal(list(new.view), shown(list(new.host), content))


def every_part(entries: Any) -> List:
    """Return the parts of messages, or the parts of a list of parts."""
    return [part for entry in entries for part in entry.get("parts", [entry])]


def test_a_changed_message_keeps_its_other_parts() -> None:
    """An edit of a text does not cost the picture beside it."""
    host = [message("m", text("t"), image("i")), message("n", image("j", "ref-2"))]
    view = shown(host, ContentSelection("metadata", (("text", "body"),)))
    value = copy.deepcopy(view)
    value[0]["parts"][0]["text"] = "goodbye"
    new = merged("replace", value, view, host)
    assert new.host == [message("m", text("t", "goodbye"), image("i")), host[1]]
    assert new.view == value


def test_a_part_that_is_removed_is_gone() -> None:
    """R-UPL-06: neither list has it afterwards, and a further edit can't bring it back."""
    host = [message("m", text("t"), image("i"))]
    view = shown(host, ContentSelection("metadata", (("text", "body"),)))
    once = merged("replace", [message("m", text("t"))], view, host)
    assert once.host == [message("m", text("t"))]
    twice = merged("replace", view, *once)
    assert image("i") not in twice.host[0]["parts"]


def test_edits_of_one_response_follow_one_another() -> None:
    """Each is made on the outcome of the one before, on both lists."""
    host = [message("m", image("i")), message("n", image("j"))]
    view = shown(host)
    added = message("o", text("t"))
    new = merged("merge", [added], view, host)
    new = merged("replace", [new.view[2], new.view[1]], *new)
    assert new.host == [added, host[1]]
    new = merged("replace", [*new.view, added], *new)
    assert new.host == [added, host[1], added]


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        ([0, 1, 2], [0, 1, 2]),
        ([2, 0], [2, 0]),
        ([0, 0, 0], [0, 1, 1]),
        ([1], [0]),
        ([2, 2], [2, 2]),
    ],
)
def test_entries_that_look_the_same_pair_up_in_order(
    places: list[int], expected: list[int]
) -> None:
    """One id, two entries that differ in nothing that is shown: the order is all there is."""
    host = [message("m", image("i", "one")), message("m", image("i", "two")), message("n")]
    view = shown(host)
    new = merged("replace", [copy.deepcopy(view[place]) for place in places], view, host)
    assert new.host == [host[place] for place in expected]


@pytest.mark.parametrize("changed", [0, 1])
@pytest.mark.parametrize("order", [1, -1])
def test_a_changed_double_does_not_take_the_place_of_the_untouched_one(
    changed: int, order: int
) -> None:
    """Entries that are as they were are paired first."""
    host = [message("m", image("i", word), text("t", word)) for word in ("one", "two")]
    view = shown(host, ContentSelection("metadata", (("text", "body"),)))
    value, expected = copy.deepcopy(view), copy.deepcopy(host)
    for entries in (value, expected):
        entries[changed]["parts"][1]["text"] = "new"
    assert merged("replace", value[::order], view, host).host == expected[::order]


@pytest.mark.parametrize(
    "change",
    [{"category": "images"}, {"selection": "omit"}, {"mediaType": "image/gif"}, {"size": 3}],
    ids=str,
)
@pytest.mark.parametrize("content", [HIDDEN, ContentSelection("omit")], ids=["metadata", "omit"])
def test_a_part_that_was_not_shown_whole_is_not_relabelled(
    change: Json, content: ContentSelection
) -> None:
    """R-CON-06, T-08: it would cost the host the body, or show it to others under a new name."""
    host = [message("m", text("t"), image("i", category="reasoning"))]
    view = shown(host, replace(content, categories=(("text", "body"),)))
    value = copy.deepcopy(view)
    value[0]["parts"][1].update(change)
    if value == view:
        value[0]["parts"][1]["synthesized"] = True
    with pytest.raises(OperationalFailure, match="not shown whole"):
        merged("replace", value, view, host)


def test_a_hidden_part_can_be_dropped_or_given_other_content() -> None:
    """What the receiver means to do away with is gone; its neighbours stay."""
    host = [message("m", image("i"), image("j"))]
    view = shown(host)
    redacted = text("i", "[removed]")
    value = [message("m", redacted, view[0]["parts"][1])]
    assert merged("replace", value, view, host).host == [message("m", redacted, image("j"))]
    value = [message("m", view[0]["parts"][1])]
    assert merged("replace", value, view, host).host == [message("m", image("j"))]


def test_a_part_that_was_shown_whole_may_be_relabelled() -> None:
    """There is nothing behind a description without a body that it could cost."""
    bare = {**image("i"), "selection": "metadata"}
    del bare["body"]
    host = [message("m", bare, image("j"))]
    view = shown(host)
    value = [message("m", {**bare, "category": "files"}, view[0]["parts"][1])]
    assert merged("replace", value, view, host).host == [
        message("m", {**bare, "category": "files"}, image("j"))
    ]


def test_a_list_without_secrets_is_one_list() -> None:
    """Nobody has to compare what can't differ."""
    host = [message("m", text("t"))]
    assert shown(host, ContentSelection("body")) is host
    for operation in ("merge", "replace"):
        new = merged(operation, [message("n")], host, host)
        assert new.view is new.host


def test_long_lists_of_doubles_take_no_longer_than_others() -> None:
    """A backend's answer of a few MB must not keep the call past its deadline."""
    host = [message("m", image("i", str(index))) for index in range(10_000)]
    view = shown(host)
    changed = [message("m", text(str(index))) for index in range(20_000)]
    started = time.monotonic()
    new = merged("replace", [*changed, *view], view, host)
    assert time.monotonic() - started < 20  # in proportion: half a second; squared: minutes
    assert new.host[len(changed) :] == host


# --- what a receiver can't do ---------------------------------------------------------------------


@given(HOSTS, SELECTIONS)
def test_a_list_withholds_text_if_any_is_missing(host: Host, content: ContentSelection) -> None:
    """R-EFF-03: metadata, omit and gap alike. What is true of an attachment is no matter."""
    view = seen(host, content)
    whole = all("text" in part for part in every_part(view) if part["kind"] == "text")
    assert withholds_text(view) is not whole


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (text("t"), False),
        (text("t", ""), False),
        (image("i"), False),
        ({**image("i"), "selection": "omit"}, False),
        ({"id": "t", "kind": "text", "mediaType": "text/plain", "selection": "omit"}, True),
        ({"id": "t", "kind": "text", "mediaType": "text/plain", "selection": "metadata"}, True),
        (
            {
                "id": "t",
                "kind": "text",
                "mediaType": "text/plain",
                "selection": "body",
                "gap": {"reason": "too large"},
            },
            True,
        ),
    ],
)
def test_which_parts_withhold_text(part: Json, expected: bool) -> None:
    """R-EFF-03, in messages and in lists of parts."""
    assert withholds_text([part]) is expected
    assert withholds_text([message("m"), message("n", text("x"), part)]) is expected


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ([message("m", image("i"))], None),
        ([message("new", text("t"), image("i"))], None),
        ([message("m", image("f", "ref-2"))], None),
        ([message("m", {"id": "i", "kind": "attachment", "selection": "metadata"})], None),
        ([], None),
        ([message("m", text("t")), message("n", text("t"), image("i", "x"))], "[1].parts[1]"),
        ([message("m", image("j"))], "[0].parts[0]"),
        ([message("m", image("i", "ref-2"))], "[0].parts[0]"),
        ([message("m", image("i", mediaType="audio/ogg"))], "[0].parts[0]"),
        ([message("m", image("i", category="images"))], "[0].parts[0]"),
        ([image("x")], "[0]"),
    ],
)
def test_only_attachments_that_were_shown_are_taken_back(value: List, path: Optional[str]) -> None:
    """R-EFF-02: the part with that id, unchanged, from any place of the event."""
    view = {
        "type": "tool.after",
        "items": [message("m", text("t"), image("i"))],
        "fileChanges": [{"path": "a", "change": "created", "after": image("f", "ref-2")}],
    }
    expected = None if path is None else f"{path}.body.ref"
    assert unknown_reference(value, references_in(view)) == expected


@given(events("tool.after"), SELECTIONS, st.data())
def test_no_reference_but_the_shown_ones(
    event: Json, content: ContentSelection, data: st.DataObject
) -> None:
    """A guess at what is hidden is refused like any other invention."""
    attachments = [part for part in parts_of(event) if "body" in part]
    assume(attachments)
    part = data.draw(st.sampled_from(attachments))
    view = project(event, content, include_native=False)
    known = any(json_equal(part, other) for other in parts_of(view))
    assert (unknown_reference([message("m", part)], references_in(view)) is None) is known
    invented = {**part, "body": {"ref": f"{CANARY}-0."}}
    assert (
        unknown_reference([message("m", invented)], references_in(view)) == "[0].parts[0].body.ref"
    )
