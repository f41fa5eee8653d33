"""Wrapping a Python tool function: ask, run with the effective input, tell."""

from __future__ import annotations

import functools
import inspect
import json
import logging
import time
from typing import Any, Callable, Mapping, Optional

from ahp_sync.budget import Budget, positive_seconds
from ahp_sync.errors import AHPError, ToolDenied
from ahp_sync.outcome import Decision, Outcome
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


class Guard:
    """One guarded function; :attr:`wrapper` is what stands in its place. See ``Client.guard``.

    ``before`` and ``after`` are the client's ``tool_before`` and ``tool_after``.
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        *,
        before: Callable[..., Outcome],
        after: Callable[..., Outcome],
        name: Optional[str],
        session: Optional[Session],
        seconds: Optional[float],
    ) -> None:
        if not callable(fn):
            raise TypeError(f"only a function can be guarded, not {type(fn).__name__}")
        for is_kind in (
            inspect.iscoroutinefunction,
            inspect.isasyncgenfunction,
            inspect.isgeneratorfunction,
        ):
            if is_kind(fn):
                raise TypeError("a coroutine or generator function can't be guarded")
        self._before = before
        self._after = after
        self._fn = fn
        self._name = name or getattr(fn, "__name__", type(fn).__name__)
        self._session = session
        self._seconds = None if seconds is None else positive_seconds(seconds, "seconds")
        try:
            self._signature = inspect.signature(fn)
        except ValueError:
            raise TypeError(f"the arguments of {self._name!r} can't be told, wrap it") from None

        @functools.wraps(fn)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return self._call(args, kwargs)

        self.wrapper = wrapper

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        common: dict[str, Any] = {
            "name": self._name,
            "call_id": new_id(),
            "session": self._session,
        }
        given = plain(bound.arguments, "$.tool.input")
        outcome = self._before(input=given, budget=self._budget(), **common)
        common["input"] = outcome.input
        if not outcome.may_execute:
            result, execution = _NOT_RUN.get(outcome.decision, _DENIED)
            self._tell(outcome=result, execution=execution, **common)
            raise ToolDenied(outcome)
        self._apply(outcome, given, bound)
        return self._run(bound, common)

    def _apply(
        self, outcome: Outcome, given: Mapping[str, Any], bound: inspect.BoundArguments
    ) -> None:
        """Put the effective input into the arguments, but only where a backend changed it."""
        effective: Mapping[str, Any] = outcome.input
        for name in bound.arguments:
            if name in effective and effective[name] != given[name]:
                bound.arguments[name] = effective[name]

    def _run(self, bound: inspect.BoundArguments, common: dict[str, Any]) -> Any:
        started = time.monotonic()
        try:
            result = self._fn(*bound.args, **bound.kwargs)
        except BaseException as error:
            told = _failed(error)
            self._tell(duration_ms=_ms_since(started), **told, **common)
            raise
        self._tell(outcome="ok", output=_text(result), duration_ms=_ms_since(started), **common)
        return result

    def _tell(self, **after: Any) -> None:
        # The tool has run, or was refused: whatever is wrong with the report must not hide that.
        try:
            self._after(budget=self._budget(), **after)
        except AHPError as error:
            _log.warning("tool.after of %s was not sent: %s", self._name, type(error).__name__)

    def _budget(self) -> Optional[Budget]:
        return None if self._seconds is None else Budget(self._seconds)


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


def _words(how: Callable[[Any], str], thing: Any) -> str:
    """Return the tool's own words for something, or none where it fails to find them."""
    try:
        return how(thing)
    except Exception:
        return ""


def _ms_since(started: float) -> float:
    return round((time.monotonic() - started) * 1000, 3)
