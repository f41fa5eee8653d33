"""Local references and those of receivers: what each is sent, and what is made of its answer."""

from __future__ import annotations

from typing import Any

import pytest

from ahp_sync.failure import OperationalFailure
from ahp_sync.protocol.references import LOCAL, References, local_references, with_gaps

ONE, TWO = f"{LOCAL}1", f"{LOCAL}2"


def image(ref: str, **more: Any) -> dict[str, Any]:
    return {
        "id": f"p-{ref[-1]}",
        "kind": "attachment",
        "mediaType": "image/png",
        "selection": "body",
        "body": {"ref": ref},
        **more,
    }


def message(*parts: dict[str, Any], name: str = "m-1") -> dict[str, Any]:
    return {"id": name, "role": "user", "parts": list(parts)}


def event(*messages: dict[str, Any]) -> dict[str, Any]:
    return {"type": "model.request.before", "items": list(messages)}


def test_local_references_are_found_once_and_in_order() -> None:
    """Those of the host's own making are none of ours."""
    shown = event(message(image(TWO), image(ONE), image("theirs")), message(image(TWO), name="m-2"))
    assert local_references(shown) == [TWO, ONE]


def test_a_receiver_is_sent_its_own_references() -> None:
    """R-UPL-05: and the event itself stays as it is."""
    shown = event(message(image(ONE), image("theirs")))
    sent = References(shown, {ONE: "r-1"}).view
    assert sent == event(message(image("r-1", id="p-1"), image("theirs")))
    assert shown == event(message(image(ONE), image("theirs")))


def test_a_part_that_is_carried_over_gets_its_local_reference_back() -> None:
    """R-EFF-02: as a whole only; the same reference may stand for two attachments."""
    shown = event(message(image(ONE), image(TWO)))
    references = References(shown, {ONE: "same", TWO: "same"})
    kept = [image("same", id="p-2"), image("same", id="p-1", category="files")]
    effects = (
        {
            "type": "modify",
            "target": "request",
            "operation": "replace",
            "value": [message(*kept)],
        },
        {"type": "return", "value": [message(kept[0], name="m-9")]},
        {"type": "deny", "reason": "no"},
    )
    modify, returned, deny = references.restored(effects)
    assert modify["value"] == [message(image(TWO), kept[1])]
    assert returned["value"] == [message(image(TWO), name="m-9")]
    assert deny is effects[2]


def test_a_local_reference_in_an_answer_is_refused() -> None:
    """No receiver can know one, so that it was told by somebody."""
    references = References(event(message(image(ONE))), {ONE: "r-1"})
    effects = ({"type": "inject", "value": [message(image(TWO))]},)
    with pytest.raises(OperationalFailure, match="none that was shown"):
        references.restored(effects)


def test_the_state_tells_no_other_receivers_references() -> None:
    """What this one was not given as a body is metadata in the candidate and in injections."""
    references = References(event(message(image(ONE))), {ONE: "r-1"})
    parts = (image(ONE), image(TWO))
    state = {
        "permission": "none",
        "candidate": {"value": [message(*parts)]},
        "injections": [{"type": "inject", "value": [message(*parts)]}],
    }
    hidden = {**image(TWO, selection="metadata")}
    del hidden["body"]
    expected = [message(image("r-1", id="p-1"), hidden)]
    told = references.state(state)
    assert told["candidate"]["value"] == expected
    assert told["injections"][0]["value"] == expected
    assert state["candidate"]["value"] == [message(*parts)]


def test_a_missing_body_is_a_gap() -> None:
    """R-CON-07: the part is still there, with the reason."""
    shown = event(message(image(ONE), image(TWO)))
    gapped = {**image(ONE), "gap": {"reason": "http_status/http_413"}}
    del gapped["body"]
    assert with_gaps(shown, {ONE}, "http_status/http_413") == event(message(gapped, image(TWO)))
