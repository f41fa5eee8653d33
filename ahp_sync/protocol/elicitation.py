"""Elicitation: the MCP payload inside the text of an event, and hooks that answer for the user.

A text that is selected as body holds the complete params or result of MCP 2025-11-25; one that is
not, or is a gap, says nothing that could be checked or changed (R-ELI-01, R-CON-07). What a hook
answers is a supplied or an edited result, never a human's own word, and nothing here says so; that
a URL was accepted means consent to open it, not that anything was done there (R-ELI-05).
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any, Callable, Optional

from ahp_sync.errors import InvalidEvent
from ahp_sync.failure import OperationalFailure
from ahp_sync.protocol.effects import refused
from ahp_sync.protocol.elicitation_form import misfit
from ahp_sync.protocol.equality import json_equal
from ahp_sync.protocol.jsonrpc import encode, parse_object
from ahp_sync.protocol.validation import elicitation_problem

__all__ = ["answerable", "answered", "check_event", "check_pair", "edited", "rewritten"]

Event = Mapping[str, Any]
Effects = Sequence[Mapping[str, Any]]

_REQUEST, _RESULT = "user.elicitation.request", "user.elicitation.result"

# --- what a host raises ---------------------------------------------------------------------------


def check_event(event: Event) -> None:
    """Check the text of an elicitation event against the event around it (R-ELI-01 to R-ELI-03).

    Events of other types, and text that is not there as body, pass. Raises :class:`InvalidEvent`.
    """
    if event["type"] == _REQUEST:
        _params(event)
    elif event["type"] == _RESULT:
        _result(event)


def check_pair(result: Event, request: Event) -> None:
    """Check that ``result`` belongs to ``request`` and answers it (R-ELI-03, R-ELI-04).

    Both are whole events; each is checked as by :func:`check_event`, too. Raises
    :class:`InvalidEvent`, whose path begins with ``request`` where that event is at fault.
    """
    if not isinstance(request, Mapping) or request.get("type") != _REQUEST:
        raise InvalidEvent("request.type", "another type", _REQUEST)
    params, answer = _params(request, "request"), _result(result)
    _check_correlation(result, request)
    if params is not None and answer is not None:
        _check_answer(params, answer)


def _check_correlation(result: Event, request: Event) -> None:
    asked, told = _block(request, "request"), _block(result)
    pairs = (
        ("parentEventId", result.get("parentEventId"), request.get("id")),
        ("source", result.get("source"), request.get("source")),
        ("session.id", _session_id(result), _session_id(request)),
        ("elicitation.mode", told.get("mode"), asked.get("mode")),
        ("elicitation.server", told.get("server"), asked.get("server")),
    )
    for path, found, wanted in pairs:
        if found != wanted:
            what = "no value" if found is None else "another value"
            raise InvalidEvent(f"$.{path}", what, "that of the request's event")


def _session_id(event: Event) -> Any:
    session = event.get("session")
    return session.get("id") if isinstance(session, Mapping) else None


# --- what a backend answers -----------------------------------------------------------------------


def answerable(view: Event, modes: Container[str], request: Optional[Event] = None) -> bool:
    """Return whether a ``return``, or a ``modify`` of the answers, can be accepted at all.

    :param view: the elicitation event as the receiver sees it.
    :param modes: the names of the modes that are granted, such as ``capabilities.elicitation``.
    :param request: the event of the request, where ``view`` is that of a result.

    What can't be accepted must not be advertised (R-CAP-02, R-ELI-04).
    """
    block = view["elicitation"]
    if block["mode"] not in modes:
        return False
    if view["type"] == _REQUEST:
        return _text(view, "request") is not None
    return (
        _has_content(block["mode"], block["action"])
        and _text(view, "result") is not None
        and request is not None
        and _text(request, "request") is not None
    )


def answered(view: Event, effects: Effects, modes: Container[str]) -> Optional[dict[str, Any]]:
    """Return the result that one response supplies to a request, None where it supplies none.

    ``view`` and ``modes`` are as in :func:`answerable`, ``effects`` the admitted ones. A denial
    needs neither body nor mode (D-16). Raises ``OperationalFailure`` of class ``effects``: for more
    than one ``return`` or ``deny`` (R-ELI-05), and for a result that is not granted or does not
    answer the request (R-ELI-03, R-ELI-04, R-PAY-01).
    """
    ends = [effect for effect in effects if effect["type"] in ("return", "deny")]
    if len(ends) > 1:
        raise refused("conflicting_effects", "an elicitation takes one return or one deny")
    if not ends or ends[0]["type"] == "deny":
        return None
    value: dict[str, Any] = ends[0]["value"]
    try:
        params = _granted(_params(view), view, modes)
        _check_shape("result", value, "return")
        _check_answer(params, value, "return")
    except InvalidEvent as error:
        raise _unfit(error) from None
    return value


def edited(
    view: Event,
    request: Optional[Event],
    effects: Effects,
    modes: Container[str],
    check: Optional[Callable[[], object]] = None,
) -> Optional[dict[str, Any]]:
    """Return the result that one response makes of the user's, None where it edits nothing.

    Edits apply in order, and after each the answers have to fit the request's form. ``request`` is
    the host's own event of it; the rest is as in :func:`answered`, and so are the errors. ``check``
    is called now and then and may raise to stop it. See :func:`rewritten` for the event.
    """
    edits = [effect for effect in effects if effect["type"] == "modify"]
    if not edits:
        return None
    try:
        result = _granted(_result(view), view, modes)
        params = None if request is None else _params(request, "request")
        if request is None or params is None:
            raise refused("unadvertised_effect", "the request of the elicitation is not known")
        _check_correlation(view, request)
        for effect in edits:
            if check is not None:
                check()
            old = result.get("content", {}) if effect["operation"] == "merge" else {}
            result = {**result, "content": {**old, **effect["value"]}}
            _check_answer(params, result)
    except InvalidEvent as error:
        raise _unfit(error) from None
    return result


def rewritten(event: Mapping[str, Any], result: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of the event with ``result`` in its text, and the action in step (R-ELI-04).

    An equal result leaves text and all as they were (R-SET-06). ``event`` has the text as body.
    """
    if json_equal(_result(event), result):
        return dict(event)
    block = event["elicitation"]
    part = {**block["result"], "text": encode(dict(result)).decode()}
    return {**event, "elicitation": {**block, "action": result["action"], "result": part}}


def _granted(body: Optional[dict[str, Any]], view: Event, modes: Container[str]) -> dict[str, Any]:
    if body is None:
        raise refused("unadvertised_effect", "the receiver was not shown the elicitation")
    if view["elicitation"]["mode"] not in modes:
        raise refused("unadvertised_effect", "this mode of elicitation was not advertised")
    return body


def _unfit(error: InvalidEvent) -> OperationalFailure:
    return refused("invalid_answer", str(error))


# --- bodies ---------------------------------------------------------------------------------------


def _params(event: Event, root: str = "$") -> Optional[dict[str, Any]]:
    """Return the params in the text of a request, None where there is no text."""
    path = f"{root}.elicitation"
    text = _text(event, "request", root)
    if text is None:
        return None
    params = _parsed(text, f"{path}.request")
    _check_shape("request", params, f"{path}.request")
    mode = params.get("mode", "form")
    if mode != _block(event, root).get("mode"):
        raise InvalidEvent(f"{path}.mode", "another mode than the text has", mode)
    return params


def _result(event: Event) -> Optional[dict[str, Any]]:
    """Return the result in the text of the event of one, None where there is no text."""
    text = _text(event, "result")
    if text is None:
        return None
    result, block = _parsed(text, "$.elicitation.result"), event["elicitation"]
    _check_shape("result", result, "$.elicitation.result")
    if result["action"] != block["action"]:
        raise InvalidEvent(
            "$.elicitation.action", "another action than the text has", result["action"]
        )
    _check_content(block["mode"], result, "$.elicitation.result")
    return result


def _block(event: Event, root: str = "$") -> Mapping[str, Any]:
    block = event.get("elicitation")
    if not isinstance(block, Mapping):
        raise InvalidEvent(f"{root}.elicitation", "no object", "an elicitation")
    return block


def _text(event: Event, stage: str, root: str = "$") -> Optional[str]:
    part = _block(event, root).get(stage)
    if not isinstance(part, Mapping) or part.get("selection") != "body":
        return None
    text = part.get("text")
    return text if isinstance(text, str) else None


def _parsed(text: str, path: str) -> dict[str, Any]:
    try:
        return parse_object(text.encode("utf-8", "surrogatepass"))
    except OperationalFailure as failure:
        raise InvalidEvent(path, f"text with a fault ({failure.code})", _OBJECT) from None


_OBJECT = "one JSON object without duplicate keys"


def _check_shape(stage: str, body: Any, path: str) -> None:
    problem = elicitation_problem(stage, body)
    if problem is not None:
        raise InvalidEvent(path, f"a fault at {problem.path} of its text", problem.wanted)


def _check_answer(params: Event, result: Event, path: str = "$.elicitation.result") -> None:
    """Check a result of the right shape against the request that it answers."""
    mode = params.get("mode", "form")
    _check_content(mode, result, path)
    if _has_content(mode, result["action"]):
        problem = misfit(params["requestedSchema"], result.get("content", {}))
        if problem is not None:
            raise InvalidEvent(path, f"a misfit at content.{problem.field}", problem.wanted)


def _check_content(mode: str, result: Event, path: str) -> None:
    if "content" in result and not _has_content(mode, result["action"]):
        raise InvalidEvent(path, "content", "none of it but for an accepted form")


def _has_content(mode: str, action: str) -> bool:
    return mode == "form" and action == "accept"
