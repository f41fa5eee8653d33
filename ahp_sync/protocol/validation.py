"""Checking a value against one of our schema documents, by ``jsonschema`` or ``jsonschema-rs``.

``jsonschema-rs`` is used where it is installed (``ahp-sync[fast]``); the tests hold the two equal.
Where the fast engine refuses a value, or can't take it, the pure-Python one has the last word, so
that the message and the path do not depend on what is installed.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, NamedTuple, Optional

from ahp_sync.protocol.schemas import EFFECT_SCHEMAS, EVENT_SCHEMAS

__all__ = ["Problem", "effect_problem", "engine", "event_problem", "prepare"]


class Problem(NamedTuple):
    """The first thing wrong with a value: where (``$.a.b[0]``), and what the schema says of it."""

    path: str
    keyword: str
    wanted: str


def effect_problem(name: str, effect: Any) -> Optional[Problem]:
    """Return what is wrong with an effect of the type ``name``, or None."""
    return _problem(_EFFECT + name, effect)


def event_problem(name: str, event: Any) -> Optional[Problem]:
    """Return what is wrong with the members a call gave to an event of type ``name``, or None."""
    return _problem(_EVENT + name, event)


def engine() -> str:
    """Return the name of the engine that checks first: ``jsonschema-rs`` or ``jsonschema``."""
    return "jsonschema" if _fast_factory() is None else "jsonschema-rs"


def prepare() -> None:
    """Load the engines, so that no call has to, and no fork meets one that is half loaded."""
    import jsonschema

    assert jsonschema
    _fast_factory()


_EFFECT, _EVENT = "effect:", "event:"


def _document(key: str) -> dict[str, Any]:
    kind, _, name = key.partition(":")
    return (EFFECT_SCHEMAS if kind == "effect" else EVENT_SCHEMAS)[name]


def _problem(key: str, value: Any) -> Optional[Problem]:
    fast = fast_check(key)
    if fast is not None:
        try:
            if fast(value):
                return None
        except Exception:
            pass  # a value this engine has no form for, such as a very large integer
    return slow_check(key)(value)


@functools.cache
def fast_check(key: str) -> Optional[Callable[[Any], bool]]:
    """Return the check of ``jsonschema-rs`` for one document, or None where it is not installed."""
    factory = _fast_factory()
    if factory is None:
        return None
    check: Callable[[Any], bool] = factory(_document(key)).is_valid
    return check


@functools.cache
def slow_check(key: str) -> Callable[[Any], Optional[Problem]]:
    """Return the check of ``jsonschema`` for one document."""
    from jsonschema import Draft202012Validator

    validator = Draft202012Validator(_document(key))

    def check(value: Any) -> Optional[Problem]:
        errors = list(validator.iter_errors(value))
        if not errors:
            return None
        error = _most_telling(errors)
        return Problem(error.json_path, error.validator, _wanted(error))

    return check


@functools.cache
def _fast_factory() -> Optional[Callable[[dict[str, Any]], Any]]:
    try:
        from jsonschema_rs import Draft202012Validator
    except ImportError:
        return None
    return Draft202012Validator


def _listed(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


_WANTED: dict[str, str] = {
    "type": "of type {}",
    "minLength": "a non-empty string",
    "enum": "one of {}",
    "const": "{}",
    "additionalProperties": "without that member",
    "not": "absent",
    "required": "with the missing {}",
    "propertyNames": "reverse-DNS names",
    "pattern": "of the documented form",
    "minimum": "at least {}",
    "minItems": "at least {} items",
    "uniqueItems": "without repetition",
    "anyOf": "one of the documented forms",
    "oneOf": "one of the documented forms",
}


def _wanted(error: Any) -> str:
    wanted, value = _WANTED.get(error.validator, "of the documented form"), error.validator_value
    if error.validator == "required":
        value = [member for member in value if member not in error.instance]
    return wanted.format(_listed(value))


def _most_telling(errors: list[Any]) -> Any:
    """Return the error to report: the shallowest, and inside alternatives that of the one meant."""
    error = min(errors, key=lambda error: len(error.absolute_path))
    if not error.context:
        return error
    branches: dict[int, list[Any]] = {}
    for inner in error.context:
        branches.setdefault(inner.schema_path[0], []).append(inner)
    return _most_telling(min(branches.values(), key=_distance))


def _distance(errors: list[Any]) -> tuple[int, int]:
    """Return how far a value is from an alternative: what names the alternative counts most."""
    return sum(error.validator == "const" for error in errors), len(errors)
