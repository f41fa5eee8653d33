"""Whether answers fit the form that they were asked for (R-ELI-03).

The checks are written out, not handed to a JSON schema library: a form knows few words, comes from
one stranger and its answers from another, and here the time is linear in the size of both, no
expression of theirs is run, and nothing can be fetched, whatever stands in ``$schema``. The tests
hold it equal to the library. ``default`` is a note for whoever draws the form; it answers nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any, Callable, NamedTuple, Optional

from ahp_sync.protocol.uri import URI

__all__ = ["Misfit", "misfit"]


class Misfit(NamedTuple):
    """The first answer that a form does not admit: whose, and what was wanted. Never the answer."""

    field: str
    wanted: str


def misfit(form: Mapping[str, Any], answers: Mapping[str, Any]) -> Optional[Misfit]:
    """Return what is wrong with the answers, or None.

    :param form: a ``requestedSchema`` that is valid as such.
    :param answers: the ``content`` of a result; each value is checked to be an answer at all.

    Answers to no field of the form pass: it can't forbid them.
    """
    fields = form["properties"]
    for name, answer in answers.items():
        wanted = _ANY if not _is_answer(answer) else _wanted(fields.get(name), answer)
        if wanted is not None:
            return Misfit(_shown(name), wanted)
    for name in form.get("required", ()):
        if name not in answers:
            return Misfit(_shown(name), "an answer")
    return None


_ANY = "a string, a number, a boolean or a list of strings"
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


def _shown(name: str) -> str:
    # It is a stranger's, and what is said here ends in logs.
    return name if _PLAIN_NAME.fullmatch(name) else "(odd name)"


def _is_answer(value: Any) -> bool:
    if isinstance(value, list):
        return all(isinstance(item, str) for item in value)
    return isinstance(value, (str, bool, int, float))


def _wanted(field: Optional[Mapping[str, Any]], answer: Any) -> Optional[str]:
    """Return what the field wants instead of the answer, None where it is content."""
    return None if field is None else _KINDS[field["type"]](field, answer)


def _string(field: Mapping[str, Any], answer: Any) -> Optional[str]:
    if not isinstance(answer, str):
        return "a string"
    if "enum" in field and answer not in field["enum"]:
        return "one of the options"
    if "oneOf" in field and [option["const"] for option in field["oneOf"]].count(answer) != 1:
        return "one of the options"  # one that is listed twice is not exactly one of them
    if "format" in field and not _FORMATS[field["format"]](answer):
        return f"of the format {field['format']}"
    return _within(field, len(answer), "Length", "{} characters")


def _number(field: Mapping[str, Any], answer: Any) -> Optional[str]:
    return _within(field, answer, "imum", "{}") if _is_number(answer) else "a number"


def _integer(field: Mapping[str, Any], answer: Any) -> Optional[str]:
    # 1.0 is an integer, true is not (trap T-16).
    if isinstance(answer, float) and not answer.is_integer():
        return "an integer"
    return _within(field, answer, "imum", "{}") if _is_number(answer) else "an integer"


def _is_number(answer: Any) -> bool:
    return isinstance(answer, (int, float)) and not isinstance(answer, bool)


def _boolean(field: Mapping[str, Any], answer: Any) -> Optional[str]:
    return None if isinstance(answer, bool) else "true or false"


def _selection(field: Mapping[str, Any], answer: Any) -> Optional[str]:
    if not isinstance(answer, list):
        return "a list of strings"
    if not set(answer).issubset(_options(field["items"])):
        return "a list of the options"
    return _within(field, len(answer), "Items", "{} items")


def _options(items: Mapping[str, Any]) -> Iterable[str]:
    if "enum" in items:
        return frozenset(items["enum"])
    return frozenset(option["const"] for option in items["anyOf"])


def _within(field: Mapping[str, Any], measure: Any, what: str, unit: str) -> Optional[str]:
    least, most = field.get(f"min{what}"), field.get(f"max{what}")
    if least is not None and measure < least:
        return f"at least {unit.format(least)}"
    if most is not None and measure > most:
        return f"at most {unit.format(most)}"
    return None


_KINDS: Mapping[str, Callable[[Mapping[str, Any], Any], Optional[str]]] = {
    "string": _string,
    "number": _number,
    "integer": _integer,
    "boolean": _boolean,
    "array": _selection,
}

_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_TIME = re.compile(
    r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]+)?"
    r"(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
)
_URI = re.compile(URI)


def _is_date(text: str) -> bool:
    match = _DATE.fullmatch(text)
    if match is None:
        return False
    try:
        date(*map(int, match.groups()))
    except ValueError:
        return False
    return True


def _is_date_time(text: str) -> bool:
    """RFC 3339, without leap seconds (section 3 of the wire reference)."""
    day, separator, time = text[:10], text[10:11], text[11:]
    return _is_date(day) and separator in ("T", "t") and _TIME.fullmatch(time) is not None


_FORMATS: Mapping[str, Callable[[str], bool]] = {
    "date": _is_date,
    "date-time": _is_date_time,
    "email": lambda text: "@" in text,
    "uri": lambda text: _URI.fullmatch(text) is not None,
}
