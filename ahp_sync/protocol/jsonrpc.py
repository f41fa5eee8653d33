"""Strict JSON and JSON-RPC 2.0, both ways: values in, values out, no I/O.

What the standard parser lets through is refused here, since each leniency can hide a decision
(D-18, trap T-06, field bugs F40, F41, F70): duplicate keys, NaN and infinities (also as ``1e999``),
a byte-order mark, any encoding but UTF-8, lone surrogates, numbers and nesting without bound.
"""

from __future__ import annotations

import json
import json.scanner
import math
import re
from typing import Any, Callable, NoReturn, Optional

from ahp_sync.failure import FailureClass, OperationalFailure

__all__ = ["CUT", "MAX_DEPTH", "MAX_DIGITS", "answer_body", "encode", "parse_object", "sample"]

#: The deepest nesting of arrays and objects that is read or sent.
MAX_DEPTH = 100
#: The longest number that is read or sent, in characters without its sign.
MAX_DIGITS = 1000

#: What stands at the end of a sample that is not the whole of it.
CUT = "… (cut)"

_SAMPLE_BYTES = 256
# The C parser holds the interpreter for as long as it runs, and so the deadline of every thread: up
# to this many brackets that is a few milliseconds.
_MANY_BRACKETS = 50_000
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")

_encoder = json.JSONEncoder(allow_nan=False, ensure_ascii=False, separators=(",", ":"))


def encode(message: dict[str, Any]) -> bytes:
    """Serialise a message of plain JSON values (see ``values.plain``) as UTF-8."""
    return _encoder.encode(message).encode()


def sample(body: bytes) -> str:
    """Return a bounded, printable piece of ``body`` for an audit record. It stays untrusted."""
    text = body[:_SAMPLE_BYTES].decode("utf-8", "backslashreplace")
    # Whoever prints it must not print what moves a cursor or breaks a line.
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return shown + (CUT if len(body) > _SAMPLE_BYTES else "")


class _Refused(ValueError):
    """Raised inside the parser; the message is the stable code of the fault."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise _Refused("duplicate_key")
    return members


def _check_length(number: str) -> None:
    if len(number) - number.startswith("-") > MAX_DIGITS:
        raise _Refused("number_too_long")


def _integer(text: str) -> int:
    _check_length(text)
    return int(text)


def _float(text: str) -> float:
    _check_length(text)
    number = float(text)
    if math.isinf(number):
        raise _Refused("number_not_finite")
    return number


def _constant(text: str) -> NoReturn:
    raise _Refused("number_not_finite")


_HOOKS: dict[str, Any] = {
    "object_pairs_hook": _object,
    "parse_int": _integer,
    "parse_float": _float,
    "parse_constant": _constant,
}
_quick = json.JSONDecoder(**_HOOKS)


class _PatientDecoder(json.JSONDecoder):
    """For a body of very many values: in Python, so that others get their turn, and checking.

    The scanner of the standard library exists in both languages and behaves the same.
    """

    def __init__(self, check: Callable[[], object]) -> None:
        super().__init__(**_HOOKS)
        # The standard library documents neither the attributes nor the function by types.
        decoder: Any = self
        array, whole = decoder.parse_array, decoder.parse_object

        def checked_array(*args: Any) -> Any:
            check()
            return array(*args)

        def checked_object(*args: Any) -> Any:
            check()
            return whole(*args)

        decoder.parse_array, decoder.parse_object = checked_array, checked_object
        decoder.scan_once = vars(json.scanner)["py_make_scanner"](self)


def parse_object(body: bytes, check: Optional[Callable[[], object]] = None) -> dict[str, Any]:
    """Parse one strict JSON object.

    ``check`` is called now and then while a large body is parsed and may raise to stop it.
    Raises ``OperationalFailure`` of class ``malformed`` whose code says what was wrong.
    """
    try:
        value = _parse(body, check)
    except _Refused as error:
        raise _malformed(str(error), body) from None
    if not isinstance(value, dict):
        raise _malformed("batch" if isinstance(value, list) else "not_an_object", body)
    return value


def _parse(body: bytes, check: Optional[Callable[[], object]]) -> Any:
    if not body.strip():
        raise _Refused("empty")
    if body.startswith(b"\xef\xbb\xbf"):
        raise _Refused("byte_order_mark")
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise _Refused("not_utf8") from None
    brackets = body.count(b"[") + body.count(b"{")
    patient = check is not None and brackets > _MANY_BRACKETS
    decoder = _PatientDecoder(check) if check is not None and patient else _quick
    try:
        value = decoder.decode(text)
    except _Refused:
        raise
    except (ValueError, RecursionError) as error:
        deep = isinstance(error, RecursionError)
        raise _Refused("nested_too_deep" if deep else "not_json") from None
    # Both walks are rare: brackets bound the depth from above, and few bodies escape a surrogate.
    if brackets > MAX_DEPTH and _depth_exceeds(value, MAX_DEPTH):
        raise _Refused("nested_too_deep")
    if _SURROGATE_ESCAPE.search(text) and _has_lone_surrogate(value):
        raise _Refused("lone_surrogate")
    return value


def _depth_exceeds(value: Any, limit: int) -> bool:
    level = [value]
    for _ in range(limit):
        level = [
            inner
            for outer in level
            if isinstance(outer, (dict, list))
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return False
    return any(isinstance(value, (dict, list)) for value in level)


def _has_lone_surrogate(value: Any) -> bool:
    # The parser joins escaped pairs, so that what is left of the range stands alone.
    try:
        _encoder.encode(value).encode()
    except UnicodeEncodeError:
        return True
    return False


def _malformed(code: str, body: bytes) -> OperationalFailure:
    return OperationalFailure(
        FailureClass.MALFORMED,
        code,
        "the answer is not one strict JSON-RPC message",
        sample=sample(body),
    )


# --- responses ------------------------------------------------------------------------------------

_UNSUPPORTED = {-32001: "protocol_version", -32002: "event"}
_UNAVAILABLE = -32003


def answer_body(
    body: bytes, rpc_id: str, check: Optional[Callable[[], object]] = None
) -> dict[str, Any]:
    """Return the ``result`` object of the response to the request ``rpc_id``.

    Raises ``OperationalFailure``: ``malformed`` (R-RPC-01), ``id_mismatch`` (R-RPC-03), and
    ``rpc_error`` or ``unsupported`` for an error response (R-ERR-01, R-ERR-02).
    The order of the checks is that of R-ADM-02.
    """
    message = parse_object(body, check)
    problem = _envelope_problem(message)
    if problem:
        raise _malformed(problem, body)
    found = message["id"]
    if type(found) is not str or found != rpc_id:
        raise OperationalFailure(
            FailureClass.ID_MISMATCH,
            "id_mismatch",
            "the answer carries another id than the request",
            sample=sample(body),
        )
    if "error" in message:
        raise _error_response(message["error"], body)
    result = message["result"]
    if not isinstance(result, dict):
        raise _malformed("result_not_an_object", body)
    return result


def _envelope_problem(message: dict[str, Any]) -> Optional[str]:
    if message.get("jsonrpc") != "2.0":
        return "not_json_rpc"
    if "id" not in message:
        return "no_id"
    if "method" in message:
        return "method_in_response"
    if ("result" in message) == ("error" in message):
        return "result_and_error" if "error" in message else "no_result"
    return None


def _error_response(error: Any, body: bytes) -> OperationalFailure:
    valid = (
        isinstance(error, dict)
        and isinstance(error.get("code"), int)
        and not isinstance(error["code"], bool)
        and isinstance(error.get("message"), str)
    )
    if not valid:
        return _malformed("bad_error_object", body)
    code = error["code"]
    unsupported = _UNSUPPORTED.get(code)
    return OperationalFailure(
        FailureClass.UNSUPPORTED if unsupported else FailureClass.RPC_ERROR,
        f"unsupported_{unsupported}" if unsupported else "rpc_error",
        f"the backend answered with JSON-RPC error {code}",
        retryable=code == _UNAVAILABLE,
        rpc_code=code,
        sample=sample(body),
    )
