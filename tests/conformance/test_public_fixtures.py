"""``fixtures/``: single documents, each in its role, good ones and bad ones."""

from __future__ import annotations

import json
from typing import Any

import pytest
from compare import Mismatch
from from_wire import WHOLE
from playing import check_published
from playing_documents import check_answer, check_manifest_sent, check_message_sent
from public_data import Case, every, fixtures, need_data
from wires import Wire

from ahp_sync import Client, Harness, RegistrationError

need_data()

NOT_ASKED = "a question to a harness, which a host answers by itself, with client.manifest()"


def with_several_denies(data: dict[str, Any]) -> dict[str, Any]:
    """Return the entry of an answer that denies more than once as valid."""
    effects = _effects(data)
    several = sum(effect.get("type") == "deny" for effect in effects) > 1
    return {**data, "expectedValid": True} if several else data


def _effects(data: dict[str, Any]) -> list[dict[str, Any]]:
    effects = json.loads(data["bytes"]).get("result", {}).get("effects", [])
    return effects if isinstance(effects, list) else []


KNOWN = {"several-denies": with_several_denies}


@every(fixtures())
def test_a_document_is_what_it_is_published_as(
    case: Case, transport: str, request: pytest.FixtureRequest
) -> None:
    """A valid document does in its role what it says; an invalid one can't, and leaves no trace."""
    body = case.data["bytes"]
    if case.tags == ("registration",):
        _check_registration(body, _is_valid(case.data))
        return
    if case.data["schema"] == "capabilities-request":
        pytest.skip(NOT_ASKED)
    if "multiline" in case.name and transport == "http":
        pytest.skip("a line break in a message is of no meaning over HTTP")
    wire: Wire = request.getfixturevalue("wire")

    def check(data: dict[str, Any]) -> None:
        wire.clear()
        if case.data["schema"] == "capabilities-response":
            check_manifest_sent(json.loads(body)["result"]["manifest"], wire)
        elif case.tags == ("response",):
            check_answer(body, data, _is_valid(data), wire)
        else:
            check_message_sent(body, _is_valid(data), wire)

    check_published(check, case.data, KNOWN)


def _is_valid(data: dict[str, Any]) -> bool:
    valid: bool = data.get("contextualExpectedValid", data["expectedValid"])
    return valid


def _check_registration(body: bytes, valid: bool) -> None:
    harness = Harness("fixtures", "1")
    try:
        Client(
            json.loads(body), source="urn:example:x", harness=harness, capabilities=WHOLE
        ).close()
    except RegistrationError as error:
        if valid:
            raise Mismatch(str(error)) from error
    else:
        if not valid:
            raise Mismatch("accepted")


def test_every_document_is_there() -> None:
    """A data set that lost its cases would pass in silence."""
    cases = list(fixtures())
    assert len(cases) == 95
    assert sum(_is_valid(case.data) for case in cases) == 21
