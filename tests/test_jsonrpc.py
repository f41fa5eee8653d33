"""Strict JSON and JSON-RPC (design decision 5, R-RPC-01 to 03; F40, F41, F70)."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import JSON, OBJECTS, TEXT

from ahp_sync.budget import Budget, BudgetEnded
from ahp_sync.failure import FailureClass, OperationalFailure
from ahp_sync.protocol.jsonrpc import (
    MAX_DEPTH,
    MAX_DIGITS,
    answer_body,
    encode,
    parse_object,
    sample,
)
from ahp_sync.testing.answers import ANSWERS

ID = "ev-1"


def refusal(body: bytes) -> OperationalFailure:
    """Return the failure that an answer of these bytes to the request ``ev-1`` is."""
    with pytest.raises(OperationalFailure) as raised:
        answer_body(body, ID)
    return raised.value


# --- strict JSON ----------------------------------------------------------------------------------

GOOD = b'{"jsonrpc":"2.0","id":"ev-1","result":{"protocolVersion":"draft","effects":[]}}'
DENY = GOOD.replace(b"[]", b'[{"type":"deny","reason":"no"}]')


def with_note(text: bytes) -> bytes:
    """Return a good answer that carries ``text`` as an unknown member, which is ignored."""
    return GOOD[:-1] + b',"note":' + text + b"}"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "empty"),
        (b" \r\n\t ", "empty"),
        (b"\x0b", "empty"),
        (b"\xef\xbb\xbf" + DENY, "byte_order_mark"),
        (DENY.decode().encode("utf-16"), "not_utf8"),
        (DENY.decode().encode("utf-16-le"), "not_json"),
        (DENY.decode().encode("utf-32"), "not_utf8"),
        (with_note(b'"\xff"'), "not_utf8"),
        (with_note(b'"\xc0\x80"'), "not_utf8"),
        (with_note(b'"\xed\xa0\x80"'), "not_utf8"),  # a surrogate, encoded
        (GOOD[:-1], "not_json"),
        (GOOD + b"x", "not_json"),
        (GOOD + GOOD, "not_json"),
        (GOOD + b"\0", "not_json"),
        (b"\xc2\xa0" + GOOD, "not_json"),  # a blank, but not one of JSON's
        (b"\x0c" + GOOD, "not_json"),
        (with_note(b'"a\nb"'), "not_json"),
        (with_note(b"01"), "not_json"),
        (with_note(b"+1"), "not_json"),
        (with_note(b"1."), "not_json"),
        (with_note(b"'1'"), "not_json"),
        (with_note(b'"\\x41"'), "not_json"),
        (with_note(b"[1,]"), "not_json"),
        (with_note(b"// no\n1"), "not_json"),
        (with_note(b"True"), "not_json"),
        (with_note(b"NaN"), "number_not_finite"),
        (with_note(b"Infinity"), "number_not_finite"),
        (with_note(b"-Infinity"), "number_not_finite"),
        (with_note(b"1e999"), "number_not_finite"),
        (with_note(b"-1e999"), "number_not_finite"),
        (with_note(b"7" * 5000), "number_too_long"),
        (with_note(b"0." + b"7" * 5000), "number_too_long"),
        (with_note(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH), "nested_too_deep"),
        (with_note(b"[" * 200_000 + b"]" * 200_000), "nested_too_deep"),
        (with_note(b'{"a":' * 200_000 + b"1" + b"}" * 200_000), "nested_too_deep"),
        (with_note(b"[" * 200_000), "nested_too_deep"),
        (with_note(b'"\\ud800"'), "lone_surrogate"),
        (with_note(b'{"\\udc00x":1}'), "lone_surrogate"),
        (with_note(b'"\\udc00\\ud800"'), "lone_surrogate"),
        (with_note(b'{"a":1,"a":2}'), "duplicate_key"),
        (with_note(b'{"a":1,"\\u0061":2}'), "duplicate_key"),
        (DENY[:-2] + b',"effects":[]}}', "duplicate_key"),
        (DENY[:-1] + b',"result":{"protocolVersion":"draft"}}', "duplicate_key"),
        (b"[" + GOOD + b"]", "batch"),
        (b"[]", "batch"),
        (b"null", "not_an_object"),
        (b'"ok"', "not_an_object"),
        (b"1", "not_an_object"),
        (b"true", "not_an_object"),
    ],
)
def test_what_is_no_strict_json_object_is_malformed(body: bytes, code: str) -> None:
    """Each leniency of the standard parser could hide a decision (D-18, F40, F41, F70)."""
    failure = refusal(body)
    assert (failure.failure_class, failure.code) == (FailureClass.MALFORMED, code)
    assert not failure.retryable


@pytest.mark.parametrize(
    "text",
    [
        b'"\\ud83d\\ude00"',
        b'"\\u0000"',
        b"-0",
        b"0.1",
        b"1e-999",
        b"1E5",
        b"7" * MAX_DIGITS,
        b"-" + b"7" * MAX_DIGITS,
        b"[" * (MAX_DEPTH - 1) + b"]" * (MAX_DEPTH - 1),
        b"[" + b",".join([b"[]"] * 300) + b"]",
        b'{"":1}',
        '"é\u2028\U0001f600"'.encode(),
    ],
)
def test_good_json_is_read(text: bytes) -> None:
    """Strictness goes no further than the documented bounds."""
    assert answer_body(with_note(text), ID) == {"protocolVersion": "draft", "effects": []}


def test_a_message_may_stand_between_blanks() -> None:
    """JSON's own white space around a message is part of JSON."""
    assert parse_object(b" \t\r\n" + GOOD + b"\r\n ") == json.loads(GOOD)


@pytest.mark.skipif(not hasattr(sys, "set_int_max_str_digits"), reason="no such limit here")
def test_the_interpreters_own_limit_on_digits_does_not_matter() -> None:
    """A long number is the same failure whatever the host has set (F41)."""
    before = sys.get_int_max_str_digits()
    for digits in (640, 0):
        sys.set_int_max_str_digits(digits)
        try:
            assert refusal(with_note(b"7" * 5000)).code == "number_too_long"
            assert answer_body(with_note(b"7" * 600), ID)
        finally:
            sys.set_int_max_str_digits(before)


@given(st.binary(max_size=200))
def test_any_bytes_are_an_operational_failure_at_worst(body: bytes) -> None:
    """Nothing a peer can send raises anything else (F41)."""
    try:
        parse_object(body)
        answer_body(body, ID)
    except OperationalFailure:
        pass


FRAGMENTS = st.lists(
    st.sampled_from(b'{}[]",:0127-.eE\\ \n').map(lambda byte: bytes([byte]))
    | st.sampled_from([b'"a"', b"null", b"true", b"NaN", b'"id"', b'"result"', b'"error"'])
    | st.sampled_from([b'"\\ud800"', b"1e400", b"\xff", b"\xc3\xa9"]),
    max_size=40,
).map(b"".join)


@given(FRAGMENTS, st.integers(0, len(DENY)), st.integers(0, len(DENY)))
def test_any_spoiled_answer_is_an_operational_failure_at_worst(
    noise: bytes, start: int, end: int
) -> None:
    """Nor does what looks like an answer, with something else somewhere in it."""
    for body in (noise, DENY[:start] + noise + DENY[end:]):
        try:
            answer_body(body, ID)
        except OperationalFailure as failure:
            assert failure.failure_class is not FailureClass.CONNECTION


@given(OBJECTS)
def test_what_we_send_can_be_read_again(message: dict[str, Any]) -> None:
    """Our own strict reader gets the same value back, of the same types."""
    body = encode(message)
    assert b"\n" not in body
    assert repr(parse_object(body)) == repr(message)


@given(JSON)
def test_the_reader_agrees_with_the_standard_one(value: Any) -> None:
    """On good JSON, however it is written, the result is the same."""
    message = {"a": value}
    for text in (json.dumps(message), json.dumps(message, ensure_ascii=False, indent=1)):
        assert repr(parse_object(text.encode())) == repr(message)


def test_the_check_stops_the_reading_of_a_large_body() -> None:
    """A budget that ends while megabytes are parsed ends the parsing."""
    body = with_note(b"[" + b",".join([b'{"a":1}'] * 100_000) + b"]")
    budget = Budget(10)
    budget.cancel()
    with pytest.raises(BudgetEnded):
        parse_object(body, budget.check)


# --- responses ------------------------------------------------------------------------------------

MALFORMED, MISMATCH = FailureClass.MALFORMED, FailureClass.ID_MISMATCH


def response(**members: Any) -> bytes:
    """Return a good response with these members in place of its own; None takes one out."""
    message = {"jsonrpc": "2.0", "id": ID, "result": {"protocolVersion": "draft"}, **members}
    return json.dumps({name: one for name, one in message.items() if one != "-"}).encode()


@pytest.mark.parametrize(
    ("body", "failure_class", "code"),
    [
        (response(jsonrpc="-"), MALFORMED, "not_json_rpc"),
        (response(jsonrpc="1.0"), MALFORMED, "not_json_rpc"),
        (response(jsonrpc=2.0), MALFORMED, "not_json_rpc"),
        (response(id="-"), MALFORMED, "no_id"),
        (response(method="hooks/intercept"), MALFORMED, "method_in_response"),
        (response(result="-"), MALFORMED, "no_result"),
        (response(error={"code": 1, "message": "m"}), MALFORMED, "result_and_error"),
        (response(result=None), MALFORMED, "result_not_an_object"),
        (response(result=[]), MALFORMED, "result_not_an_object"),
        (response(result="draft"), MALFORMED, "result_not_an_object"),
        (response(id=None), MISMATCH, "id_mismatch"),
        (response(id=1), MISMATCH, "id_mismatch"),
        (response(id=[ID]), MISMATCH, "id_mismatch"),
        (response(id="ev-2"), MISMATCH, "id_mismatch"),
        (response(id="EV-1"), MISMATCH, "id_mismatch"),
        (response(id="ev-1 "), MISMATCH, "id_mismatch"),
        (response(id=""), MISMATCH, "id_mismatch"),
        # An error that answers nobody is not taken for ours (R-RPC-03).
        (
            response(result="-", id=None, error={"code": -32600, "message": "m"}),
            MISMATCH,
            "id_mismatch",
        ),
    ],
)
def test_each_fault_of_an_envelope_has_its_class(
    body: bytes, failure_class: FailureClass, code: str
) -> None:
    """Malformed envelopes and foreign ids are told apart (R-ADM-02)."""
    failure = refusal(body)
    assert (failure.failure_class, failure.code) == (failure_class, code)
    assert not failure.retryable


@pytest.mark.parametrize(
    "error",
    [
        None,
        [],
        "no",
        {},
        {"code": 1},
        {"message": "m"},
        {"code": "1", "message": "m"},
        {"code": 1.5, "message": "m"},
        {"code": True, "message": "m"},
        {"code": None, "message": "m"},
        {"code": 1, "message": 1},
        {"code": 1, "message": None},
    ],
)
def test_an_error_that_is_none_is_malformed(error: Any) -> None:
    """A JSON-RPC error has an integer code and a text."""
    failure = refusal(response(result="-", error=error))
    assert (failure.failure_class, failure.code) == (MALFORMED, "bad_error_object")


@pytest.mark.parametrize(
    ("code", "failure_class", "name", "retryable"),
    [
        (-32700, FailureClass.RPC_ERROR, "rpc_error", False),
        (-32600, FailureClass.RPC_ERROR, "rpc_error", False),
        (-32603, FailureClass.RPC_ERROR, "rpc_error", False),
        (-32001, FailureClass.UNSUPPORTED, "unsupported_protocol_version", False),
        (-32002, FailureClass.UNSUPPORTED, "unsupported_event", False),
        (-32003, FailureClass.RPC_ERROR, "rpc_error", True),
        (-32004, FailureClass.RPC_ERROR, "rpc_error", False),
        (0, FailureClass.RPC_ERROR, "rpc_error", False),
        (10**90, FailureClass.RPC_ERROR, "rpc_error", False),
    ],
)
def test_an_error_response_keeps_only_its_code(
    code: int, failure_class: FailureClass, name: str, retryable: bool
) -> None:
    """The backend's own words go nowhere but into the sample (R-ERR-01, R-ERR-02)."""
    failure = refusal(response(result="-", error={"code": code, "message": "secret words"}))
    assert (failure.failure_class, failure.code) == (failure_class, name)
    assert (failure.retryable, failure.rpc_code) == (retryable, code)
    assert "secret" not in failure.detail
    assert "secret" not in str(failure)
    assert "secret" in (failure.sample or "")


@given(TEXT.filter(bool), OBJECTS)
def test_any_id_and_any_result_come_back(rpc_id: str, result: dict[str, Any]) -> None:
    """A response whose id is that of the request is read, whatever the id looks like."""
    body = encode({"jsonrpc": "2.0", "id": rpc_id, "result": result})
    assert answer_body(body, rpc_id) == result
    with pytest.raises(OperationalFailure):
        answer_body(body, rpc_id + "x")


# The faults that only admission sees: the envelope is in order.
ADMITTED_LATER = {
    *("ok", "neutral", "effects", "deny", "padded", "many_effects", "wrong_version", "no_version"),
    *("effects_null", "effects_object", "unknown_effect", "unadvertised_effect", "extra_member"),
    *("empty_reason", "no_reason", "conflicting"),
}


@pytest.mark.parametrize("name", sorted(ANSWERS))
def test_every_scripted_answer_is_read_or_refused_as_documented(name: str) -> None:
    """The answers of the scripted backends are good envelopes, or else operational failures."""
    body = ANSWERS[name](ID)
    if name in ADMITTED_LATER:
        assert isinstance(answer_body(body, ID), dict)
    else:
        assert refusal(body).failure_class in {
            MALFORMED,
            MISMATCH,
            FailureClass.RPC_ERROR,
            FailureClass.UNSUPPORTED,
        }


# --- samples --------------------------------------------------------------------------------------


@given(st.binary(max_size=600))
def test_a_sample_is_bounded_text(body: bytes) -> None:
    """Whatever came, an audit record can hold a piece of it, printable and in UTF-8."""
    text = sample(body)
    text.encode()
    assert len(text) <= 4 * 256 + 10
    assert text.isprintable()


def test_a_sample_says_when_it_is_cut() -> None:
    """A reader of the record knows that there was more."""
    assert sample(b"oops") == "oops"
    assert sample(b"x" * 1000).endswith("(cut)")
