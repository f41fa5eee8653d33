"""An audit sink that keeps its records, for tests."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Iterator, List

if TYPE_CHECKING:
    from ahp_sync.audit import AuditRecord

__all__ = ["AuditLog"]


class AuditLog:
    """Keeps every record in memory, in order of arrival, and iterates over them. Thread-safe."""

    def __init__(self) -> None:
        self._records: List[AuditRecord] = []
        self._changed = threading.Condition()

    def write(self, record: AuditRecord) -> None:
        """Take one record."""
        with self._changed:
            self._records.append(record)
            self._changed.notify_all()

    @property
    def records(self) -> List[AuditRecord]:
        """The records so far."""
        with self._changed:
            return list(self._records)

    def clear(self) -> None:
        """Forget the records so far."""
        with self._changed:
            self._records.clear()

    def wait_records(self, count: int = 1, timeout: float = 10.0) -> bool:
        """Wait up to ``timeout`` seconds for ``count`` records; return whether they came."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self._records) >= count, timeout)

    def __iter__(self) -> Iterator[AuditRecord]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self._records)

    def __repr__(self) -> str:
        return f"<AuditLog, {len(self)} records>"
