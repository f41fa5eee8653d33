"""The absolute URI of RFC 3986 as a regular expression, for values that go onto the wire.

Looser checks let through what a strict peer refuses, and so fail every message that carries it.
"""

from __future__ import annotations

__all__ = ["URI"]

_ESCAPED = "%[0-9A-Fa-f]{2}"
_UNRESERVED = "A-Za-z0-9._~!$&'()*+,;=\\-"  # the sub-delimiters too
_USER = f"(?:[{_UNRESERVED}:]|{_ESCAPED})*"
_NAME = f"(?:[{_UNRESERVED}]|{_ESCAPED})*"
_CHARACTER = f"(?:[{_UNRESERVED}:@]|{_ESCAPED})"
_QUERY = f"(?:[{_UNRESERVED}:@/?]|{_ESCAPED})*"

_BYTE = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_H16 = "[0-9A-Fa-f]{1,4}"
_LAST = f"(?:{_H16}:{_H16}|{_BYTE}(?:\\.{_BYTE}){{3}})"


def _ip_v6() -> str:
    """Return the nine forms: which groups may stand before ``::``, which must stand behind."""
    forms = [f"(?:{_H16}:){{6}}{_LAST}"]
    behind = [*(f"(?:{_H16}:){{{count}}}{_LAST}" for count in (5, 4, 3, 2, 1, 0)), _H16, ""]
    for before, rest in enumerate(behind):
        head = f"(?:(?:{_H16}:){{0,{before - 1}}}{_H16})?" if before else ""
        forms.append(f"{head}::{rest}")
    return "|".join(forms)


_FUTURE = f"v[0-9A-Fa-f]+\\.[{_UNRESERVED}:]+"
_AUTHORITY = f"(?:{_USER}@)?(?:\\[(?:{_ip_v6()}|{_FUTURE})\\]|{_NAME})(?::[0-9]*)?"
_PATH = f"(?:/?{_CHARACTER}+(?:/{_CHARACTER}*)*|/)"

#: Matches a URI with a scheme and something behind it; anchors are the user's to add.
URI = (
    "[A-Za-z][A-Za-z0-9+.-]*:"
    f"(?://{_AUTHORITY}(?:/{_CHARACTER}*)*|{_PATH})"
    f"(?:\\?{_QUERY})?(?:#{_QUERY})?"
)
