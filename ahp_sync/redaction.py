"""Keeping what went out as a credential from coming back as text."""

from __future__ import annotations

__all__ = ["redacted"]

# A shorter value is no secret, and replacing it would only spoil ordinary words.
_SHORTEST = 6


def redacted(text: str, secrets: tuple[str, ...]) -> str:
    """Return ``text`` with every one of ``secrets`` in it replaced."""
    for secret in secrets:
        if len(secret) >= _SHORTEST:
            text = text.replace(secret, "[redacted]")
    return text
