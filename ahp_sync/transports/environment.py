"""The environment a backend process gets: a short allow-list, never the secrets of the host."""

from __future__ import annotations

from typing import Mapping

__all__ = ["backend_environment"]

_ALLOWED = frozenset(
    ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR", "TEMP", "TMP")
)


def backend_environment(host: Mapping[str, str], explicit: Mapping[str, str]) -> dict[str, str]:
    """Return what a backend process sees of ``host``'s environment, with ``explicit`` put over it.

    Only ``PATH HOME USER LOGNAME SHELL LANG LC_* TZ TMPDIR TEMP TMP`` are handed down. Explicit
    values win and are taken literally (R-ENV-01).
    """
    environment = {
        name: value for name, value in host.items() if name in _ALLOWED or name.startswith("LC_")
    }
    environment.update(explicit)
    return environment
