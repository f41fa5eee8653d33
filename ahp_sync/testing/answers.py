"""Answers of a backend as bytes: good ones, and every way to spoil one. Pure functions.

Each entry of :data:`ANSWERS` takes the JSON-RPC id of the request (and sometimes options) and
returns one message without its line end. Both scripted backends send these, so a fault means the
same on every transport. The stdio backend's child process loads this file by its path: it may
import nothing but a few light modules of the standard library.
"""

from __future__ import annotations

import json
from typing import Any, Callable, Dict, Sequence

__all__ = ["ANSWERS", "Answer", "deny", "effects", "ok", "result"]

Answer = Callable[..., bytes]

#: Name of an answer -> function of the request's id. The docstrings describe the entries.
ANSWERS: Dict[str, Answer] = {}

DENY = {"type": "deny", "reason": "denied by the scripted backend"}


def _answer(function: Answer) -> Answer:
    ANSWERS[function.__name__] = function
    return function


def _dump(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def _envelope(rpc_id: object, members: str, *, start: str = '"jsonrpc":"2.0",') -> bytes:
    """Return a response with ``members`` as it stands, so that a fault can spoil any of it."""
    return f'{{{start}"id":{_dump(rpc_id)},{members}}}'.encode()


def _result(rpc_id: object, members: str) -> bytes:
    return _envelope(rpc_id, f'"result":{{"protocolVersion":"draft",{members}}}')


def result(rpc_id: object, value: object) -> bytes:
    """A success response that carries ``value`` as its result, whatever it is."""
    return _envelope(rpc_id, f'"result":{_dump(value)}')


# --- good answers ----------------------------------------------------------------------------


@_answer
def effects(rpc_id: object, effects: Sequence[object] = ()) -> bytes:
    """A success with the given list of effects."""
    return _result(rpc_id, f'"effects":{_dump(list(effects))}')


@_answer
def ok(rpc_id: object) -> bytes:
    """A success with an empty list of effects: the backend has nothing against it."""
    return effects(rpc_id)


@_answer
def neutral(rpc_id: object) -> bytes:
    """A success without the member ``effects``: the same as an empty list (R-RPC-04)."""
    return result(rpc_id, {"protocolVersion": "draft"})


@_answer
def deny(rpc_id: object, reason: str = DENY["reason"]) -> bytes:
    """An explicit denial with ``reason``."""
    return effects(rpc_id, [{"type": "deny", "reason": reason}])


@_answer
def padded(rpc_id: object, size: int = 1 << 20) -> bytes:
    """A denial of exactly ``size`` bytes; an unknown member of the result holds the padding."""
    bare = _result(rpc_id, f'"effects":{_dump([DENY])},"padding":""')
    return bare[:-3] + b"x" * (size - len(bare)) + bare[-3:]


@_answer
def many_effects(rpc_id: object, count: int = 20_000) -> bytes:
    """A valid list of ``count`` denials: it arrives at once but takes long to check."""
    return effects(rpc_id, [DENY] * count)


# --- bytes and JSON that cannot be read --------------------------------------------------------


@_answer
def empty(rpc_id: object) -> bytes:
    """Nothing: an empty body, or an empty line."""
    return b""


@_answer
def html(rpc_id: object) -> bytes:
    """A page for people."""
    return b"<!doctype html><title>Welcome</title><p>It works!</p>"


@_answer
def bom(rpc_id: object) -> bytes:
    """A denial after a UTF-8 byte-order mark."""
    return b"\xef\xbb\xbf" + deny(rpc_id)


@_answer
def utf16(rpc_id: object) -> bytes:
    """A denial in UTF-16 with a byte-order mark."""
    return deny(rpc_id).decode().encode("utf-16")


@_answer
def bad_utf8(rpc_id: object) -> bytes:
    """A denial with a byte that no UTF-8 text contains, in a member nobody needs."""
    return _result(rpc_id, f'"effects":{_dump([DENY])},"note":"?"').replace(b"?", b"\xff")


@_answer
def bad_json(rpc_id: object) -> bytes:
    """A success without its last brace."""
    return ok(rpc_id)[:-1]


@_answer
def trailing_junk(rpc_id: object) -> bytes:
    """A success with a word behind it."""
    return ok(rpc_id) + b" done"


@_answer
def dup_keys(rpc_id: object) -> bytes:
    """A denial whose ``effects`` come a second time, empty: the last one would hide it."""
    return _result(rpc_id, f'"effects":{_dump([DENY])},"effects":[]')


@_answer
def dup_keys_nested(rpc_id: object) -> bytes:
    """An effect whose ``type`` comes twice, deny and then message."""
    return _result(
        rpc_id, '"effects":[{"type":"deny","reason":"no","type":"message","text":"fine"}]'
    )


@_answer
def nan(rpc_id: object) -> bytes:
    """A success with a NaN in an extension."""
    return _result(rpc_id, '"effects":[],"note":NaN')


@_answer
def infinity(rpc_id: object) -> bytes:
    """A success with a minus infinity in an extension."""
    return _result(rpc_id, '"effects":[],"note":-Infinity')


@_answer
def huge_float(rpc_id: object) -> bytes:
    """A success with 1e999, which a float reads as infinity."""
    return _result(rpc_id, '"effects":[],"note":1e999')


@_answer
def big_int(rpc_id: object, digits: int = 5_000) -> bytes:
    """A success with an integer of 5,000 digits."""
    return _result(rpc_id, f'"effects":[],"note":{"7" * digits}')


@_answer
def deep(rpc_id: object, depth: int = 200_000) -> bytes:
    """A success with 200,000 nested arrays."""
    return _result(rpc_id, f'"effects":[],"note":{"[" * depth}{"]" * depth}')


@_answer
def lone_surrogate(rpc_id: object) -> bytes:
    r"""A denial whose reason is half a surrogate pair, ``\ud800``."""
    return _result(rpc_id, '"effects":[{"type":"deny","reason":"\\ud800"}]')


# --- JSON that is no response ------------------------------------------------------------------


@_answer
def json_null(rpc_id: object) -> bytes:
    """``null``."""
    return b"null"


@_answer
def json_array(rpc_id: object) -> bytes:
    """``[]``."""
    return b"[]"


@_answer
def json_object(rpc_id: object) -> bytes:
    """``{}``."""
    return b"{}"


@_answer
def json_string(rpc_id: object) -> bytes:
    """A string."""
    return b'"ok"'


@_answer
def batch(rpc_id: object) -> bytes:
    """The right answer in an array of one."""
    return b"[" + ok(rpc_id) + b"]"


@_answer
def no_jsonrpc(rpc_id: object) -> bytes:
    """A success without the member ``jsonrpc``."""
    return _envelope(rpc_id, '"result":{"protocolVersion":"draft"}', start="")


@_answer
def wrong_jsonrpc(rpc_id: object) -> bytes:
    """A success of JSON-RPC 1.0."""
    return _envelope(rpc_id, '"result":{"protocolVersion":"draft"}', start='"jsonrpc":"1.0",')


@_answer
def method_in_response(rpc_id: object) -> bytes:
    """A success that is a request as well: it has a ``method``."""
    return _envelope(rpc_id, '"method":"hooks/intercept","result":{"protocolVersion":"draft"}')


@_answer
def echoed_request(rpc_id: object) -> bytes:
    """A request with the right id, and no result."""
    return _envelope(rpc_id, '"method":"hooks/intercept","params":{"protocolVersion":"draft"}')


@_answer
def result_and_error(rpc_id: object) -> bytes:
    """Both a result and an error."""
    return _envelope(
        rpc_id, '"result":{"protocolVersion":"draft"},"error":{"code":-32603,"message":"broken"}'
    )


@_answer
def result_null(rpc_id: object) -> bytes:
    """A result that is null."""
    return result(rpc_id, None)


@_answer
def no_id(rpc_id: object) -> bytes:
    """A success without an id."""
    return b'{"jsonrpc":"2.0","result":{"protocolVersion":"draft","effects":[]}}'


# --- another id --------------------------------------------------------------------------------


@_answer
def wrong_id(rpc_id: object) -> bytes:
    """A denial of somebody else's request."""
    return deny("somebody-else")


@_answer
def null_id(rpc_id: object) -> bytes:
    """A success whose id is null."""
    return ok(None)


@_answer
def wrong_type_id(rpc_id: object) -> bytes:
    """A success whose id is a number."""
    return ok(7)


@_answer
def null_id_error(rpc_id: object) -> bytes:
    """A JSON-RPC error whose id is null: it answers nobody (R-RPC-03)."""
    return rpc_error(None, -32600)


# --- errors and versions -----------------------------------------------------------------------


@_answer
def rpc_error(rpc_id: object, code: int = -32603, message: str = "broken inside") -> bytes:
    """A JSON-RPC error with ``code``."""
    return _envelope(rpc_id, f'"error":{_dump({"code": code, "message": message})}')


@_answer
def backend_unavailable(rpc_id: object) -> bytes:
    """The JSON-RPC error -32003, worth another attempt."""
    return rpc_error(rpc_id, -32003)


@_answer
def unsupported_version(rpc_id: object) -> bytes:
    """The JSON-RPC error -32001."""
    return rpc_error(rpc_id, -32001)


@_answer
def unsupported_event(rpc_id: object) -> bytes:
    """The JSON-RPC error -32002."""
    return rpc_error(rpc_id, -32002)


@_answer
def wrong_version(rpc_id: object) -> bytes:
    """A success of another protocol version."""
    return result(rpc_id, {"protocolVersion": "1999-01-01", "effects": []})


@_answer
def no_version(rpc_id: object) -> bytes:
    """A success without ``result.protocolVersion``."""
    return result(rpc_id, {"effects": []})


# --- effects -----------------------------------------------------------------------------------


@_answer
def effects_null(rpc_id: object) -> bytes:
    """``effects`` is null."""
    return _result(rpc_id, '"effects":null')


@_answer
def effects_object(rpc_id: object) -> bytes:
    """``effects`` is one effect instead of a list."""
    return _result(rpc_id, f'"effects":{_dump(DENY)}')


@_answer
def unknown_effect(rpc_id: object) -> bytes:
    """A denial, and an effect of a type that does not exist."""
    return effects(rpc_id, [DENY, {"type": "retry"}])


@_answer
def unadvertised_effect(rpc_id: object) -> bytes:
    """An ``allow`` that was not among the capabilities of the request."""
    return effects(rpc_id, [{"type": "allow"}])


@_answer
def extra_member(rpc_id: object) -> bytes:
    """A denial with a member that effects do not have."""
    return effects(rpc_id, [{**DENY, "severity": "high"}])


@_answer
def empty_reason(rpc_id: object) -> bytes:
    """A denial with an empty reason."""
    return deny(rpc_id, "")


@_answer
def no_reason(rpc_id: object) -> bytes:
    """A denial without a reason."""
    return effects(rpc_id, [{"type": "deny"}])


@_answer
def conflicting(rpc_id: object) -> bytes:
    """A denial beside a ``configuration``, which belongs to another method's result."""
    value: Any = {"protocolVersion": "draft", "effects": [DENY], "configuration": {}}
    return result(rpc_id, value)
