"""Keeping what went out as a credential from coming back as text."""

from __future__ import annotations

import json
from collections.abc import Iterator

from ahp_sync.protocol.jsonrpc import CUT

__all__ = ["Redactor", "redacted"]

_HIDDEN = "[redacted]"
# A shorter value is no secret, and replacing it would only spoil ordinary words.
_SHORTEST = 6


class Redactor:
    """Replaces ``secrets`` in texts. Make one for many texts: it works out their spellings once.

    They are looked for as they are and as JSON writes them, and at a cut also in part.
    """

    def __init__(self, secrets: tuple[str, ...]) -> None:
        self._known = sorted(_spellings(secrets), key=len, reverse=True)

    def __call__(self, text: str) -> str:
        """Return ``text`` with every secret in it replaced."""
        for spelling in self._known:
            text = text.replace(spelling, _HIDDEN)
        if text.endswith(CUT):
            kept = text[: -len(CUT)]
            text = kept[: len(kept) - _begun(kept, self._known)] + CUT
        return text


def redacted(text: str, secrets: tuple[str, ...]) -> str:
    """Return ``text`` with every one of ``secrets`` in it replaced. See :class:`Redactor`."""
    return Redactor(secrets)(text)


def _spellings(secrets: tuple[str, ...]) -> set[str]:
    found = {secret for secret in secrets if len(secret) >= _SHORTEST}
    for _ in range(2):  # JSON often stands in a string of JSON
        found.update([escaped for secret in found for escaped in _escaped(secret)])
    return found


def _escaped(secret: str) -> Iterator[str]:
    for only_ascii in (False, True):
        escaped = json.dumps(secret, ensure_ascii=only_ascii)[1:-1]
        yield escaped
        yield escaped.replace("/", "\\/")


def _begun(text: str, secrets: list[str]) -> int:
    """Return how many characters at the end of ``text`` are the beginning of a secret."""
    return max(
        (
            length
            for secret in secrets
            for length in range(_SHORTEST, len(secret))
            if text.endswith(secret[:length])
        ),
        default=0,
    )
