"""Asserts on outcomes and audit records whose messages show what was got instead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterable, List, Optional

from ahp_sync.failure import GENERIC_REASON
from ahp_sync.protocol.equality import json_equal

if TYPE_CHECKING:
    from ahp_sync.audit import AuditRecord
    from ahp_sync.outcome import Outcome

__all__ = [
    "assert_asks",
    "assert_audit",
    "assert_denied",
    "assert_expired",
    "assert_failed_open",
    "assert_interrupted",
    "assert_proceeds",
    "assert_stopped",
    "assert_supplied",
    "assert_synthetic_denial",
]


_ANY = object()


def assert_proceeds(outcome: Outcome) -> None:
    """Assert that the operation may run, and that no failure had to be passed over for it."""
    __tracebackhide__ = True
    _decided(outcome, "proceed")
    _that(not outcome.failed_open, "a chain without failures", outcome)


def assert_denied(
    outcome: Outcome, reason: Optional[str] = None, *, synthetic: bool = False
) -> None:
    """Assert that the operation was denied: by a backend in its own words, or synthetically.

    ``reason``, if given, is the whole text of the denial.
    """
    __tracebackhide__ = True
    _decided(outcome, "deny")
    kind = "a synthetic" if synthetic else "an explicit"
    _that(outcome.synthetic is synthetic, f"{kind} denial", outcome)
    if reason is not None:
        _that(outcome.reason == reason, f"the reason {reason!r}", outcome)


def assert_asks(outcome: Outcome) -> None:
    """Assert that the user has to approve first."""
    __tracebackhide__ = True
    _decided(outcome, "ask")


def assert_supplied(outcome: Outcome, result: Any = _ANY) -> None:
    """Assert that a backend supplied the result, which is ``result`` if that is given."""
    __tracebackhide__ = True
    _decided(outcome, "supplied")
    if result is not _ANY:
        _that(json_equal(outcome.result, result), f"the result {result!r}", outcome)


def assert_stopped(outcome: Outcome, reason: Optional[str] = None) -> None:
    """Assert that a backend ended the flow, for ``reason`` if that is given."""
    __tracebackhide__ = True
    _decided(outcome, "stop")
    if reason is not None:
        _that(outcome.reason == reason, f"the reason {reason!r}", outcome)


def assert_synthetic_denial(outcome: Outcome, *, failure_class: Optional[str] = None) -> None:
    """Assert that a fail-closed failure denied, for the generic reason and nothing more.

    ``failure_class``, if given, is the class (or its value) of the last failure.
    """
    __tracebackhide__ = True
    assert_denied(outcome, GENERIC_REASON, synthetic=True)
    _failed(outcome, failure_class)


def assert_failed_open(outcome: Outcome, *, failure_class: Optional[str] = None) -> None:
    """Assert that the operation may run although an interceptor failed, and that this is flagged.

    ``failure_class``, if given, is the class (or its value) of the last failure.
    """
    __tracebackhide__ = True
    _decided(outcome, "proceed")
    _that(outcome.failed_open, "a chain that failed open", outcome)
    _failed(outcome, failure_class)


def assert_interrupted(outcome: Outcome) -> None:
    """Assert that the call was cancelled or the client closed, which is never permission."""
    __tracebackhide__ = True
    _decided(outcome, "interrupted")


def assert_expired(outcome: Outcome) -> None:
    """Assert that the enclosing budget ended first, which is never permission."""
    __tracebackhide__ = True
    _decided(outcome, "expired")


def assert_audit(
    log: Iterable[AuditRecord],
    *,
    kind: Optional[str] = None,
    failure_class: Optional[str] = None,
    count: int = 1,
    **fields: Any,
) -> List[AuditRecord]:
    """Assert that exactly ``count`` records match, and return them.

    :param log: an ``AuditLog``, or any records.
    :param kind: the kind (or its value), ``failure_class`` likewise; both are optional.
    :param fields: further fields of a record and the values they must have.
    """
    __tracebackhide__ = True
    records = list(log)
    wanted = {"kind": kind, "failure_class": failure_class}
    wanted = {**{name: one for name, one in wanted.items() if one is not None}, **fields}
    found = [
        record
        for record in records
        if all(_plain(getattr(record, name)) == _plain(one) for name, one in wanted.items())
    ]
    if len(found) != count:
        conditions = ", ".join(f"{name}={_plain(one)!r}" for name, one in wanted.items())
        lines = "".join(f"\n  {describe_record(record)}" for record in records) or " none"
        raise AssertionError(
            f"expected {count} audit record(s) with {conditions or 'any content'}, "
            f"found {len(found)}; all records:{lines}"
        )
    return found


def describe(outcome: Outcome) -> str:
    """Return what matters of an outcome, in a line and one more for each failure."""
    line = (
        f"{_plain(outcome.decision)} (reason={outcome.reason!r}, synthetic={outcome.synthetic}, "
        f"failed_open={outcome.failed_open}, permission={outcome.permission!r}, "
        f"flow={outcome.flow!r}, candidate={outcome.candidate!r})"
    )
    return line + "".join(f"\n  failure: {failure}" for failure in outcome.failures)


def describe_record(record: AuditRecord) -> str:
    """Return what matters of an audit record, in a line."""
    failure = f" {record.failure_class}/{record.code}" if record.failure_class else ""
    return (
        f"{_plain(record.kind)} {record.who} {record.event_type}"
        f"{failure}, attempts={record.attempts}, untrusted={dict(record.untrusted)!r}"
    )


def _decided(outcome: Outcome, decision: str) -> None:
    __tracebackhide__ = True
    right = _plain(outcome.decision) == decision and outcome.may_execute is (decision == "proceed")
    _that(right, f"the decision {decision}", outcome)


def _failed(outcome: Outcome, failure_class: Optional[str]) -> None:
    __tracebackhide__ = True
    _that(bool(outcome.failures), "a failure", outcome)
    if failure_class is not None:
        last = _plain(outcome.failures[-1].failure_class)
        _that(last == _plain(failure_class), f"the failure {_plain(failure_class)}", outcome)


def _that(condition: bool, wanted: str, outcome: Outcome) -> None:
    __tracebackhide__ = True
    if not condition:
        raise AssertionError(f"expected {wanted}, got {describe(outcome)}")


def _plain(one: Any) -> Any:
    """Return the value of an enum member, and anything else as it is."""
    return getattr(one, "value", one)
