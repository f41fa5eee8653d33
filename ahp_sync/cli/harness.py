"""What the subcommands share: who they are to the backends, and where their audit records go."""

from __future__ import annotations

from typing import Any, Sequence

from ahp_sync import (
    AuditRecord,
    AuditSink,
    Client,
    Harness,
    JsonLinesSink,
    Registration,
    __version__,
)
from ahp_sync.cli.arguments import UsageError

__all__ = ["Records", "audit_file", "open_client"]

_SOURCE = "urn:ahp-sync:cli"


def open_client(registration: Registration, audit: Sequence[AuditSink], **options: Any) -> Client:
    """Return a client of the ``ahp-sync`` command itself; close it."""
    harness = Harness("ahp-sync", __version__)
    return Client(registration, source=_SOURCE, harness=harness, audit=audit, **options)


def audit_file(path: str) -> JsonLinesSink:
    """Return a sink that appends to the file ``path``. Raises :class:`UsageError`."""
    try:
        return JsonLinesSink(path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"the audit file {path!r} can't be opened: {reason}") from None


class Records:
    """An audit sink that keeps its records."""

    def __init__(self) -> None:
        self.records: list[AuditRecord] = []

    def write(self, record: AuditRecord) -> None:
        """Take one record."""
        self.records.append(record)
