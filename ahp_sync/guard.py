"""Wrapping a Python tool function: ask, run with the effective input, tell."""

from __future__ import annotations

import functools
import inspect
import json
import logging
import operator
import time
from collections import OrderedDict
from dataclasses import replace
from typing import Any, Callable, Mapping, Optional

from ahp_sync.budget import Budget, positive_seconds
from ahp_sync.errors import AHPError, InvalidEvent, ToolDenied
from ahp_sync.grants import Grant
from ahp_sync.outcome import Decision, Outcome
from ahp_sync.protocol.equality import json_equal
from ahp_sync.protocol.jsonrpc import MAX_DEPTH
from ahp_sync.protocol.occurrence import Session, new_id
from ahp_sync.protocol.values import plain

__all__ = ["Guard"]

_log = logging.getLogger("ahp_sync")

# What ``tool.after`` says of a call that was not run.
_NOT_RUN: dict[Decision, tuple[str, dict[str, str]]] = {
    Decision.EXPIRED: ("timeout", {"status": "skipped", "reason": "timeout"}),
    Decision.INTERRUPTED: ("cancelled", {"status": "skipped", "reason": "cancelled"}),
}
_DENIED = ("denied", {"status": "skipped", "reason": "policy"})
# Of a call whose result a backend supplied (R-PAY-04).
_SUPPLIED = {"status": "skipped", "reason": "supplied_result"}

# Ends of ``tool.after`` with which an output that backends have a say in is not given out.
_WITHHELD = (Decision.DENY, Decision.INTERRUPTED, Decision.EXPIRED)

_VARIADIC: dict[Any, type] = {
    inspect.Parameter.VAR_POSITIONAL: list,
    inspect.Parameter.VAR_KEYWORD: dict,
}
# The types of which there is a copy that nobody could tell from the original.
_CONTAINERS = (dict, list, tuple)
# What another argument would be taken for, if it were among those of ``**``.
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class Guard:
    """One guarded function; :attr:`wrapper` is what stands in its place. See ``Client.guard``.

    ``before`` and ``after`` are the client's ``tool_before`` and ``tool_after``, ``grants`` what it
    declares for the two events.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        *,
        before: Callable[..., Outcome],
        after: Callable[..., Outcome],
        grants: Mapping[str, Grant],
        name: Optional[str],
        session: Optional[Session],
        seconds: Optional[float],
        on_outcome: Optional[Callable[[Outcome], object]],
    ) -> None:
        if not callable(fn):
            raise TypeError(f"only a function can be guarded, not {type(fn).__name__}")
        if _works_later(fn):
            raise TypeError("a coroutine or generator function can't be guarded")
        if not (on_outcome is None or callable(on_outcome)):
            raise TypeError(f"on_outcome must be callable, not {type(on_outcome).__name__}")
        self._before = before
        self._after = after
        self._on_outcome = on_outcome
        self._grants = grants
        self._fn = fn
        self._name = name or getattr(fn, "__name__", type(fn).__name__)
        self._session = session
        self._seconds = None if seconds is None else positive_seconds(seconds, "seconds")
        try:
            self._signature = inspect.signature(fn)
        except ValueError:
            raise TypeError(f"the arguments of {self._name!r} can't be told, wrap it") from None

        parameters = self._signature.parameters.values()
        self._named = {one.name for one in parameters if one.kind in _BY_NAME}

        @functools.wraps(fn)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return self._call(args, kwargs)

        self.wrapper = wrapper

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        bound = self._signature.bind(*args, **kwargs)
        for name, value in bound.arguments.items():
            bound.arguments[name] = _own(value)
        bound.apply_defaults()
        common: dict[str, Any] = {
            "name": self._name,
            "call_id": new_id(),
            "session": self._session,
        }
        given = plain(bound.arguments, "$.tool.input")
        outcome = self._before(
            input=given,
            input_codec=functools.partial(self._rebound, bound, given),
            capabilities=self._enforced("tool.before"),
            budget=self._budget(),
            **common,
        )
        self._pass_on(outcome)
        common["input"] = outcome.input
        if outcome.has_result:
            self._tell(output=_text(outcome.result), execution=_SUPPLIED, **common)
            return outcome.result
        if not outcome.may_execute:
            result, execution = _NOT_RUN.get(outcome.decision, _DENIED)
            self._tell(outcome=result, execution=execution, **common)
            raise ToolDenied(outcome)
        return self._run(outcome.typed_input, common)

    def _rebound(
        self, bound: inspect.BoundArguments, given: Mapping[str, Any], effective: dict[str, Any]
    ) -> inspect.BoundArguments:
        """Return the arguments with the effective input in them, but only where it is another.

        What the caller passed was copied before it was checked, so that the function runs with what
        was asked about, whatever becomes of the caller's lists and dictionaries meanwhile.

        Raises :class:`TypeError` for an input that the function has no such arguments for.
        """
        if effective.keys() != bound.arguments.keys():
            raise TypeError("the function has other arguments")
        arguments = dict(bound.arguments)
        for name, value in effective.items():
            if not json_equal(value, given[name]):
                arguments[name] = self._argument(name, value)
        return inspect.BoundArguments(self._signature, OrderedDict(arguments))

    def _argument(self, name: str, value: Any) -> Any:
        wanted = _VARIADIC.get(self._signature.parameters[name].kind)
        if wanted is not None and not isinstance(value, wanted):
            raise TypeError(f"{name!r} takes a {wanted.__name__}")
        if wanted is dict and not self._named.isdisjoint(value):
            raise TypeError(f"{name!r} takes none of the other arguments")
        return tuple(value) if wanted is list else value

    def _run(self, bound: inspect.BoundArguments, common: dict[str, Any]) -> Any:
        started = time.monotonic()
        try:
            result = self._fn(*bound.args, **bound.kwargs)
        except BaseException as error:
            told = _failed(error)
            self._tell(duration_ms=_ms_since(started), **told, **common)
            raise
        duration, is_text = _ms_since(started), isinstance(result, str)
        outcome = self._tell(
            editable=is_text, outcome="ok", output=_text(result), duration_ms=duration, **common
        )
        if outcome is None:
            return result
        if outcome.decision in _WITHHELD and self._grants.get("tool.after") is not None:
            raise ToolDenied(outcome)
        return _edited(outcome) if is_text else result

    def _enforced(self, event_type: str, *, editable: bool = True) -> Optional[Grant]:
        """Return what was declared for the event, less what a wrapper can't see to (R-CAP-02).

        Without ``on_outcome`` nobody hears of messages, injections and the flow after the tool has
        run, and only a text that the tool returned can be put another in the place of.
        """
        grant = self._grants.get(event_type)
        if grant is None:
            return None
        if self._on_outcome is None:
            effects = tuple(name for name in grant.effects if name != "message")
            stops = event_type == "tool.before"
            flow = grant.flow if stops else None
            grant = replace(grant, effects=effects, inject=None, flow=flow)
        return grant if editable else replace(grant, modify=None)

    def _pass_on(self, outcome: Outcome) -> None:
        if self._on_outcome is not None:
            self._on_outcome(outcome)

    def _tell(self, *, editable: bool = False, **after: Any) -> Optional[Outcome]:
        grant = self._enforced("tool.after", editable=editable)
        # The tool has run, or was refused: whatever is wrong with the report must not hide that,
        # unless its output is one that backends have a say in, which none has had now.
        try:
            outcome = self._after(budget=self._budget(), capabilities=grant, **after)
        except AHPError as error:
            if grant is not None and after.get("outcome") == "ok":
                raise
            _log.warning("tool.after of %s was not sent: %s", self._name, type(error).__name__)
            return None
        self._pass_on(outcome)
        return outcome

    def _budget(self) -> Optional[Budget]:
        return None if self._seconds is None else Budget(self._seconds)


def _own(value: Any, depth: int = 2) -> Any:
    """Return ``value`` with all plain dictionaries and lists in it copied, also those in tuples.

    Everything else stays the caller's own object: what can't change, and types that the function
    may count on.
    """
    kind = type(value)
    if kind not in _CONTAINERS:
        return value
    if depth > MAX_DEPTH:  # at the latest of one that holds itself
        raise InvalidEvent("$.tool.input", "a deeper value", f"at most {MAX_DEPTH} levels")
    if kind is dict:
        return {key: _own(inner, depth + 1) for key, inner in value.copy().items()}
    inner = [_own(one, depth + 1) for one in value]
    if kind is list:
        return inner
    return value if all(map(operator.is_, inner, value)) else tuple(inner)


def _works_later(fn: Callable[..., Any]) -> bool:
    """Return whether a call only makes what does the work when it is awaited or iterated over."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    kinds = (
        inspect.iscoroutinefunction,
        inspect.isasyncgenfunction,
        inspect.isgeneratorfunction,
    )
    called = (fn, getattr(type(fn), "__call__", None))  # noqa: B004
    return any(is_kind(one) for is_kind in kinds for one in called)


def _failed(error: BaseException) -> dict[str, Any]:
    if not isinstance(error, Exception):  # KeyboardInterrupt, SystemExit
        return {"outcome": "cancelled", "execution": {"status": "executed"}}
    name = type(error).__name__
    return {"outcome": "error", "error": {"message": _words(str, error) or name, "class": name}}


def _text(result: Any) -> Optional[str]:
    if result is None or isinstance(result, str):
        return result
    try:
        return json.dumps(result, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return _words(repr, result) or f"<{type(result).__name__}>"


def _edited(outcome: Outcome) -> str:
    """Return the tool's text as the backends left it; what they took out is no text any more."""
    parts = [part for message in outcome.event["items"] for part in message["parts"]]
    return "".join(part.get("text", "") for part in parts)


def _words(how: Callable[[Any], str], thing: Any) -> str:
    """Return the tool's own words for something, or none where it fails to find them."""
    try:
        return how(thing)
    except Exception:
        return ""


def _ms_since(started: float) -> float:
    return round((time.monotonic() - started) * 1000, 3)
