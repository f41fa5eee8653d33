"""Checking a value against one of our schema documents, by ``jsonschema`` or ``jsonschema-rs``.

``jsonschema-rs`` is used where it is installed (``ahp-sync[fast]``); the tests hold the two equal.
Where the fast engine refuses a value, or can't take it, the pure-Python one has the last word, so
that the message and the path do not depend on what is installed.

Each function returns the first thing that is wrong, or None; names that have no document raise
:class:`KeyError`.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterable, Iterator
from typing import Any, Callable, NamedTuple, Optional

from ahp_sync.protocol.events import EVENTS, Path, Shape
from ahp_sync.protocol.slots import at, put

__all__ = [
    "Problem",
    "capabilities_problem",
    "effect_problem",
    "elicitation_problem",
    "engine",
    "event_problem",
    "extensions_problem",
    "manifest_problem",
    "message_problem",
    "part_problem",
    "prepare",
    "state_problem",
]


class Problem(NamedTuple):
    """The first thing wrong with a value: where (``$.a.b[0]``), and what the schema says of it."""

    path: str
    keyword: str
    wanted: str


def event_problem(
    event_type: str, event: Any, wanted: Optional[Callable[[], bool]] = None
) -> Optional[Problem]:
    """Check the members that a call gave to an event, those of the client's own left aside.

    :param wanted: asked now and then, since a long history takes long to check; where it returns
        False the rest is left unchecked.
    """
    target = EVENTS[event_type].target
    paths: list[Path] = [("items",)]
    if target is not None and target.shape in _LISTS and target.path not in paths:
        paths.append(target.path)
    return _problem_by_pieces(f"event:{event_type}", event, paths, wanted)


def effect_problem(
    key: str, effect: Any, wanted: Optional[Callable[[], bool]] = None
) -> Optional[Problem]:
    """Check an effect; for ``modify`` and ``return`` the key has the form of the value, too.

    So ``"deny"``, and ``f"modify.{event.target.shape}"``, ``f"return.{event.returns}"``. Whether
    the target is this event's, and whether any of it was granted, is not for a schema to say.

    :param wanted: as in :func:`event_problem`.
    """
    return _problem_by_pieces(f"effect:{key}", effect, [("value",)], wanted)


def state_problem(event_type: str, state: Any) -> Optional[Problem]:
    """Check ``params.state``; a candidate has the form of the event's result."""
    return _problem(f"state:{EVENTS[event_type].returns or Shape.JSON}", state)


def capabilities_problem(event_type: str, capabilities: Any) -> Optional[Problem]:
    """Check ``params.capabilities`` of an event that can be intercepted."""
    return _problem(f"capabilities:{event_type}", capabilities)


def manifest_problem(manifest: Any) -> Optional[Problem]:
    """Check a harness manifest (R-CAP-06)."""
    return _problem("manifest", manifest)


def message_problem(message: Any) -> Optional[Problem]:
    """Check a message (R-CON-01)."""
    return _problem("message", message)


def part_problem(part: Any) -> Optional[Problem]:
    """Check a part of a message, or one that stands for itself."""
    return _problem("part", part)


def extensions_problem(extensions: Any) -> Optional[Problem]:
    """Check an ``extensions`` map (R-EXT-01)."""
    return _problem("extensions", extensions)


def elicitation_problem(member: str, payload: Any) -> Optional[Problem]:
    """Check what the text of ``elicitation.request`` or ``elicitation.result`` holds (R-ELI-02)."""
    return _problem(f"elicitation:{member}", payload)


def engine() -> str:
    """Return the name of the engine that checks first: ``jsonschema-rs`` or ``jsonschema``."""
    return "jsonschema" if _fast_factory() is None else "jsonschema-rs"


def prepare(keys: Iterable[str] = ()) -> None:
    """Load the engines, so that no call has to, and no fork meets one that is half loaded.

    The documents of ``keys`` (``"event:tool.before"``) are made ready as well; others are at their
    first use.
    """
    import jsonschema

    from ahp_sync.protocol import schemas

    assert jsonschema and schemas
    _fast_factory()
    for key in keys:
        fast_check(key)
        slow_check(key)


# What is worth looking at to name one error; a hostile value can have any number of them.
_LOOKED_AT = 64


def _document(key: str) -> dict[str, Any]:
    from ahp_sync.protocol.schemas import SCHEMAS

    return SCHEMAS[key]


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
        errors = list(itertools.islice(validator.iter_errors(value), _LOOKED_AT))
        if not errors:
            return None
        error = min(errors, key=lambda error: len(error.absolute_path))
        return Problem(error.json_path, error.validator, _wanted(error))

    return check


@functools.cache
def _fast_factory() -> Optional[Callable[[dict[str, Any]], Any]]:
    try:
        from jsonschema_rs import Draft202012Validator
    except ImportError:
        return None
    return Draft202012Validator


# --- long lists -----------------------------------------------------------------------------------

# How many messages and parts are checked between two looks at the time.
_AT_ONCE = 64
_LISTS = (Shape.MESSAGES, Shape.TEXT)


class _Piece(NamedTuple):
    """Some entries of a list; of each its place, and how many of its parts came earlier."""

    entries: list[Any]
    places: list[tuple[int, int]]


def _problem_by_pieces(
    key: str, value: Any, paths: Iterable[Path], wanted: Optional[Callable[[], bool]]
) -> Optional[Problem]:
    """As :func:`_problem`, with the lists of messages or parts at ``paths`` cut into pieces.

    Each message and each part in them stands for itself.
    """
    if wanted is None:
        return _problem(key, value)
    pieces = {path: list(_pieces(at(value, path))) for path in paths}
    pieces = {path: them for path, them in pieces.items() if len(them) > 1}
    for path, them in pieces.items():
        value = put(value, path, them[0].entries)
    problem = _problem(key, value)
    if problem is not None:
        for path, them in pieces.items():
            problem = _moved(problem, path, them[0])
        return problem
    for path, them in pieces.items():
        for piece in them[1:]:
            if not wanted():
                return None
            problem = _problem(key, put(value, path, piece.entries))
            if problem is not None:
                return _moved(problem, path, piece)
    return None


def _pieces(entries: Any) -> Iterator[_Piece]:
    piece, weight = _Piece([], []), 0
    for place, entry in enumerate(entries if isinstance(entries, list) else ()):
        for start, part in _split(entry):
            if weight >= _AT_ONCE:
                yield piece
                piece, weight = _Piece([], []), 0
            piece.entries.append(part)
            piece.places.append((place, start))
            weight += 1 + _weight(part)
    yield piece


def _weight(entry: Any) -> int:
    parts = entry.get("parts") if isinstance(entry, dict) else None
    return len(parts) if isinstance(parts, list) else 0


def _split(entry: Any) -> Iterator[tuple[int, Any]]:
    """Yield an entry, or a message of very many parts once for some of them at a time."""
    count = _weight(entry)
    if count <= _AT_ONCE:
        yield 0, entry
        return
    for start in range(0, count, _AT_ONCE):
        yield start, {**entry, "parts": entry["parts"][start : start + _AT_ONCE]}


def _moved(problem: Problem, path: Path, piece: _Piece) -> Problem:
    """Return a problem with the place that it has in the whole list."""
    head = re.escape(".".join(("$", *path)))
    found = re.match(rf"{head}\[(\d+)\](?:\.parts\[(\d+)\])?", problem.path)
    if found is None:
        return problem
    place, start = piece.places[int(found[1])]
    moved = f"{'.'.join(('$', *path))}[{place}]"
    if found[2] is not None:
        moved += f".parts[{start + int(found[2])}]"
    return problem._replace(path=moved + problem.path[found.end() :])


# --- words ----------------------------------------------------------------------------------------


def _listed(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


_FORM = "of the documented form"
_WANTED: dict[str, str] = {
    "type": "of type {}",
    "minLength": "a non-empty string",
    "enum": "one of {}",
    "const": "{}",
    "additionalProperties": "without that member",
    "required": "with the missing {}",
    "minimum": "at least {}",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "minProperties": "at least {} members",
    "uniqueItems": "without repetition",
    "contains": "with an entry for what is missing",
}


def _wanted(error: Any) -> str:
    value = error.validator_value
    if "propertyNames" in error.relative_schema_path:
        return "with reverse-DNS names only"
    if error.validator == "not":
        return _FORM if value else "absent"
    if error.validator == "required":
        value = [member for member in value if member not in error.instance]
    return _WANTED.get(error.validator, _FORM).format(_listed(value))
