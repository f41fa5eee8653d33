"""The local record of every disposition, written before the outcome reaches the host.

One record for each interceptor of a call and one for each observer that failed. Explicit and
synthetic denials have kinds of their own (AHP-FAIL-001, R-FAIL-04). What a backend said stands
only in ``untrusted``; secrets stand nowhere.
"""

from __future__ import annotations

import enum
import json
import logging
import os
import time
from dataclasses import dataclass, field, fields
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Mapping, Optional, Protocol, Union

if TYPE_CHECKING:
    from ahp_sync.failure import OperationalFailure
    from ahp_sync.registration import Subscription

__all__ = ["AuditKind", "AuditRecord", "AuditSink", "JsonLinesSink", "LoggingSink"]

_log = logging.getLogger("ahp_sync")

_REASON_CHARACTERS, _EFFECTS, _CUT = 4096, 256, "… (cut)"


class AuditKind(str, enum.Enum):
    """What became of one subscription in one call, or what the host itself decided."""

    #: The interceptor's answer was accepted and denies nothing.
    ACCEPTED = "accepted"
    #: The interceptor denied.
    EXPLICIT_DENIAL = "explicit_denial"
    #: The interceptor failed and its policy is fail-closed.
    SYNTHETIC_DENIAL = "synthetic_denial"
    #: The interceptor failed and its policy is fail-open.
    FAILED_OPEN = "failed_open"
    #: The interceptor was not called; ``code`` says why.
    NOT_CALLED = "not_called"
    #: The call was cancelled, or the client closed, while this interceptor was asked.
    INTERRUPTED = "interrupted"
    #: The call's budget ended while this interceptor was asked.
    EXPIRED = "expired"
    #: No backend denied, but the host's own ``authorize`` or ``approve`` did.
    HOST_DENIAL = "host_denial"
    #: The observer could not be told.
    OBSERVATION_FAILED = "observation_failed"

    def __str__(self) -> str:
        return self.value


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


@dataclass(frozen=True)
class AuditRecord:
    """One disposition. Times are RFC 3339 and milliseconds; fields that don't apply are None.

    ``backend`` and ``subscription`` are None where the host itself decided. ``effects`` are the
    types of those that were accepted, in order; the first 256 and a mark, if there are more.
    ``untrusted`` maps ``reason``, ``sample`` and ``stderr`` to bounded text of the backend.
    """

    kind: AuditKind
    event_id: str
    event_type: str
    backend: Optional[str] = None
    subscription: Optional[int] = None
    mode: Optional[str] = None
    session: Optional[str] = None
    call: Optional[str] = None
    tool: Optional[str] = None
    policy: Optional[str] = None
    timeout_ms: Optional[int] = None
    elapsed_ms: Optional[float] = None
    attempts: int = 0
    effects: tuple[str, ...] = ()
    failure_class: Optional[str] = None
    code: Optional[str] = None
    detail: Optional[str] = None
    http_status: Optional[int] = None
    rpc_code: Optional[int] = None
    exit_status: Optional[int] = None
    synthetic: bool = False
    untrusted: Mapping[str, str] = field(default_factory=dict)
    time: str = field(default_factory=_now)

    @property
    def who(self) -> str:
        """Whose disposition it is: ``backend[subscription]``, or ``host``."""
        return "host" if self.backend is None else f"{self.backend}[{self.subscription}]"

    def to_json(self) -> dict[str, Any]:
        """Return the record as plain JSON values; the member names are stable."""
        record = {item.name: getattr(self, item.name) for item in fields(self)}
        record["kind"] = self.kind.value
        record["effects"] = list(self.effects)
        record["untrusted"] = dict(self.untrusted)
        return record


class AuditSink(Protocol):
    """Takes records, on the host's thread, outside every lock, before the call returns.

    What it raises is logged and changes no decision; its time is not the budget's, so it should not
    block.
    """

    def write(self, record: AuditRecord) -> None:
        """Take one record."""


class LoggingSink:
    """Writes records to a logger: INFO for what went well, WARNING for the rest.

    The message holds no text of a backend; the whole record is the log record's ``audit``.
    """

    def __init__(self, logger: str = "ahp_sync.audit") -> None:
        self._logger = logging.getLogger(logger)

    def wants(self, kind: AuditKind) -> bool:
        """Return whether records of this kind would be seen at all."""
        return self._logger.isEnabledFor(_level(kind))

    def write(self, record: AuditRecord) -> None:
        """Log one record."""
        failed = f" {record.failure_class}/{record.code}" if record.failure_class else ""
        self._logger.log(
            _level(record.kind),
            "%s %s %s %s%s",
            record.kind.value,
            record.who,
            record.event_type,
            record.event_id,
            failed,
            extra={"audit": record},
        )


def _level(kind: AuditKind) -> int:
    return logging.INFO if kind in (AuditKind.ACCEPTED, AuditKind.NOT_CALLED) else logging.WARNING


class JsonLinesSink:
    """Appends each record to a file as one line of JSON, by one ``write``.

    Several threads and processes may share the file. It is created with mode 0600; its folder must
    exist. Raises :class:`OSError` where it can't be opened.
    """

    def __init__(self, path: Union[str, os.PathLike[str]]) -> None:
        self.path = os.fspath(path)
        self._file: Optional[int] = os.open(
            self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600
        )
        # No lock, which a fork could leave taken for ever: each step is one atomic operation.
        self._writing: dict[object, None] = {}
        self._to_close: list[int] = []

    def write(self, record: AuditRecord) -> None:
        """Append one record. Raises :class:`ValueError` after :meth:`close`."""
        line = json.dumps(record.to_json(), ensure_ascii=True, allow_nan=False).encode() + b"\n"
        me = object()
        self._writing[me] = None
        try:
            self._append(line)
        finally:
            del self._writing[me]
            if self._to_close:
                self._close_unless_in_use()

    def close(self) -> None:
        """Close the file, now or behind the writes under way; safe to repeat."""
        descriptor, self._file = self._file, None
        if descriptor is not None:
            self._to_close.append(descriptor)
        self._close_unless_in_use()

    def _append(self, line: bytes) -> None:
        descriptor = self._file
        if descriptor is None:
            raise ValueError("the audit file is closed")
        if os.write(descriptor, line) != len(line):
            raise OSError(f"there is no room for a whole record in {self.path}")

    def _close_unless_in_use(self) -> None:
        # A number that is given back too early may by then be that of another file.
        if not self._writing:
            try:
                os.close(self._to_close.pop())
            except IndexError:
                pass  # somebody else was quicker

    def __enter__(self) -> JsonLinesSink:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


# What a transport may tell of an exchange; the host's own may tell more than a record has room for.
_FACTS = ("http_status", "rpc_code", "exit_status")


class Auditor:
    """Hands records to the sinks, and makes none that nobody wants."""

    def __init__(self, sinks: tuple[AuditSink, ...]) -> None:
        self._sinks = sinks

    def wants(self, kind: AuditKind) -> bool:
        """Return whether some sink takes records of this kind."""
        return any(_wants(sink, kind) for sink in self._sinks)

    def write(self, record: AuditRecord) -> None:
        """Give the record to every sink that wants it."""
        for sink in self._sinks:
            if not _wants(sink, record.kind):
                continue
            try:
                sink.write(record)
            except Exception:
                _log.exception("an audit sink failed on a record of %s", record.event_id)


class EventAudit:
    """The records of one hook call: what they have in common, filled in once."""

    def __init__(self, auditor: Auditor, event: Mapping[str, Any]) -> None:
        self._auditor = auditor
        self._event = event

    def failure(
        self,
        kind: AuditKind,
        subscription: Subscription,
        failure: OperationalFailure,
        attempts: int,
        started: float,
    ) -> None:
        """Record an operational failure under ``kind``; ``started`` is on the monotonic clock."""
        self.write(
            kind,
            subscription,
            attempts=attempts,
            started=started,
            code=failure.code,
            detail=failure.detail,
            failure_class=failure.failure_class.value,
            synthetic=kind is AuditKind.SYNTHETIC_DENIAL,
            facts={
                "http_status": failure.http_status,
                "rpc_code": failure.rpc_code,
                "exit_status": failure.exit_status,
            },
            sample=failure.sample,
            stderr=failure.stderr,
        )

    def host_denial(self) -> None:
        """Record that the host's own policy refused what no backend did."""
        self.write(AuditKind.HOST_DENIAL, None)

    def write(
        self,
        kind: AuditKind,
        subscription: Optional[Subscription],
        *,
        started: Optional[float] = None,
        facts: Optional[Mapping[str, Any]] = None,
        reason: Optional[str] = None,
        sample: Optional[str] = None,
        stderr: Optional[str] = None,
        effects: tuple[str, ...] = (),
        **fields: Any,
    ) -> None:
        """Record one disposition; ``reason``, ``sample`` and ``stderr`` go into ``untrusted``."""
        if not self._auditor.wants(kind):
            return
        event = self._event
        reason = reason and _bounded(reason)  # the others come bounded
        untrusted = {"reason": reason, "sample": sample, "stderr": stderr}
        elapsed = None if started is None else round((time.monotonic() - started) * 1000, 3)
        self._auditor.write(
            AuditRecord(
                kind=kind,
                event_id=event["id"],
                event_type=event["type"],
                session=event.get("session", {}).get("id"),
                call=event.get("call", {}).get("id"),
                tool=event.get("tool", {}).get("name"),
                elapsed_ms=elapsed,
                # As many as a backend likes; there is no end of a record in that.
                effects=effects if len(effects) <= _EFFECTS else (*effects[:_EFFECTS], _CUT),
                untrusted={name: text for name, text in untrusted.items() if text},
                **({} if subscription is None else _about(subscription)),
                **{name: fact for name, fact in (facts or {}).items() if name in _FACTS},
                **fields,
            )
        )


def _about(subscription: Subscription) -> dict[str, Any]:
    policy = subscription.policy
    return {
        "backend": subscription.backend,
        "subscription": subscription.index,
        "mode": subscription.mode.value,
        "policy": None if policy is None else policy.value,
        "timeout_ms": subscription.timeout_ms,
    }


def _wants(sink: AuditSink, kind: AuditKind) -> bool:
    """Return whether the sink takes such records; without a working ``wants`` it takes them all."""
    wants = getattr(sink, "wants", None)
    try:
        return wants is None or bool(wants(kind))
    except Exception:
        _log.exception("an audit sink could not say what it wants")
        return True


def _bounded(text: str) -> str:
    return text if len(text) <= _REASON_CHARACTERS else text[:_REASON_CHARACTERS] + _CUT
