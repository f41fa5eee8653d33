"""Finding the secrets that a registration refers to, by whatever the host keeps them in."""

from __future__ import annotations

import inspect
import logging
import threading
from collections import Counter
from collections.abc import Coroutine, Mapping
from typing import Any, Callable, Optional, Protocol, Union

from ahp_sync.budget import Budget, BudgetEnded
from ahp_sync.failure import FailureClass, OperationalFailure
from ahp_sync.workers import DeliveryExecutor

__all__ = ["MAX_BYTES", "TokenResolver", "TokenSource", "Tokens", "no_secret", "secret_of"]

_log = logging.getLogger("ahp_sync")

#: The longest secret that is read from a file or a command, in bytes.
MAX_BYTES = 8192

#: So many calls of a resolver that outlived their budgets may hang under one reference.
MAX_STUCK = 8


class TokenResolver(Protocol):
    """Finds a secret within a budget."""

    def resolve(self, ref: str, budget: Budget) -> str:
        """Return the secret that is known as ``ref``, or raise. Takes its time from ``budget``."""


_One = Union[Callable[[str], str], TokenResolver]

#: What a client takes as ``tokens``: a function of the reference, a resolver, or one of the two for
#: each reference.
TokenSource = Union[_One, Mapping[str, _One]]


class Tokens:
    """Asks the host's resolver, on a thread that nobody has to wait for beyond a budget.

    :param source: the client's option ``tokens``. Raises :class:`TypeError` for what is none.
    :param executor: what the resolver runs on.
    """

    def __init__(self, source: Optional[TokenSource], executor: DeliveryExecutor) -> None:
        _check(source)
        self._source = dict(source) if isinstance(source, Mapping) else source
        self._executor = executor
        self._lock = threading.RLock()
        self._stuck: Counter[str] = Counter()

    def resolve(self, ref: str, budget: Budget) -> str:
        """Return the secret that the host knows as ``ref``.

        The resolver sees the context variables of whoever calls this (F65). Raises
        ``OperationalFailure`` of class ``authentication`` where there is none, and ``BudgetEnded``.
        One that hangs holds eight threads at most; it is not asked again until one comes back.
        """
        resolver = self._resolver(ref)
        with self._lock:
            if self._stuck[ref] >= MAX_STUCK:
                raise no_secret("resolver_stuck", f"the resolver of {ref!r} does not return")
        call = _Call()
        try:
            return self._executor.run(budget, lambda: self._ask(resolver, ref, budget, call))
        except OperationalFailure as failure:
            if failure.failure_class is FailureClass.AUTHENTICATION:
                raise
            detail = f"no thread was free to resolve {ref!r}"
            raise no_secret("resolver_saturated", detail) from None
        finally:
            self._leave(ref, call)

    def _ask(self, resolver: Any, ref: str, budget: Budget, call: _Call) -> str:
        with self._lock:
            if call.left:
                raise BudgetEnded
            call.runs = True
        try:
            with self._executor.away():  # however long it takes, others go on with theirs
                return _asked(resolver, ref, budget)
        finally:
            with self._lock:
                call.runs = False
                if call.left:
                    self._stuck[ref] -= 1

    def _leave(self, ref: str, call: _Call) -> None:
        # A call that was left in the queue is none of the resolver's, and will not be made.
        with self._lock:
            call.left = True
            if call.runs:
                self._stuck[ref] += 1

    def _resolver(self, ref: str) -> Any:
        source: Any = self._source
        if isinstance(source, Mapping):
            source = source.get(ref)
        if source is None:
            raise no_secret("no_resolver", f"the host has no resolver for {ref!r}")
        return source


class _Call:
    """One call of a resolver: whether it is under way, and whether its caller has left it."""

    runs = False
    left = False


def _asked(resolver: Any, ref: str, budget: Budget) -> str:
    budget.check()
    resolve = getattr(resolver, "resolve", None)
    try:
        value = resolver(ref) if resolve is None else resolve(ref, budget)
    except _Refused:
        raise
    except BaseException as error:  # SystemExit too; its text may hold what a log must not
        if budget.ended:
            raise BudgetEnded from None
        name = type(error).__name__
        _log.warning("the resolver of %r failed: %s", ref, name)
        raise no_secret("resolver_failed", f"the resolver of {ref!r} raised {name}") from None
    if not isinstance(value, str):
        kind = type(value).__name__
        if isinstance(value, Coroutine):
            value.close()  # else it complains on stderr that nobody awaited it
        raise no_secret("resolver_failed", f"the resolver of {ref!r} returned a {kind}")
    if not value:
        raise no_secret("credential_missing", f"the resolver of {ref!r} returned nothing")
    return value


def secret_of(data: bytes, where: str) -> str:
    """Return the secret that a file or a command holds: text, without one line break at its end.

    Raises ``OperationalFailure``.
    """
    if len(data) > MAX_BYTES:
        raise no_secret("credential_unusable", f"{where} holds more than {MAX_BYTES} bytes")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise no_secret("credential_unusable", f"{where} holds no UTF-8 text") from None
    if text.endswith("\n"):
        text = text[:-2] if text.endswith("\r\n") else text[:-1]
    if not text:
        raise no_secret("credential_missing", f"{where} is empty")
    return text


class _Refused(OperationalFailure):
    """What a resolver of ours says itself, as opposed to whatever a host's may raise."""


def no_secret(code: str, detail: str) -> OperationalFailure:
    """Return the failure of a secret that can't be had."""
    return _Refused(FailureClass.AUTHENTICATION, code, detail)


def _check(source: Any) -> None:
    if source is None:
        return
    for one in source.values() if isinstance(source, Mapping) else (source,):
        ask = getattr(one, "resolve", one)
        kind = type(one).__name__
        if isinstance(one, type) or not callable(ask):
            raise TypeError(
                f"tokens: a function, an object with resolve(ref, budget), or a mapping of "
                f"references to such is wanted, not a {kind}"
            )
        if inspect.iscoroutinefunction(ask):
            raise TypeError("tokens: an ordinary function is wanted, not a coroutine function")
