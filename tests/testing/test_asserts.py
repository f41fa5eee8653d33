"""The assert helpers: each passes on what it names, and shows what it got otherwise."""

from __future__ import annotations

from typing import Any, Callable

import pytest

import ahp_sync.testing
from ahp_sync import (
    GENERIC_REASON,
    AuditKind,
    AuditRecord,
    Decision,
    Failure,
    FailureClass,
    FailurePolicy,
    Outcome,
)
from ahp_sync.testing import (
    AuditLog,
    assert_audit,
    assert_denied,
    assert_expired,
    assert_failed_open,
    assert_interrupted,
    assert_proceeds,
    assert_synthetic_denial,
)

EVENT: dict[str, Any] = {"id": "ev-1", "type": "tool.before"}


def failure(failure_class: FailureClass) -> Failure:
    return Failure("com.example", 0, FailurePolicy.FAIL_OPEN, failure_class, "code", "what it was")


REFUSED = failure(FailureClass.CONNECTION)
PROCEEDS = Outcome(Decision.PROCEED, EVENT)
DENIED = Outcome(Decision.DENY, EVENT, reason="no")
SYNTHETIC = Outcome(
    Decision.DENY, EVENT, reason=GENERIC_REASON, synthetic=True, failures=(REFUSED,)
)
FAILED_OPEN = Outcome(Decision.PROCEED, EVENT, failures=(REFUSED,), failed_open=True)
INTERRUPTED = Outcome(Decision.INTERRUPTED, EVENT, reason="interrupted")
EXPIRED = Outcome(Decision.EXPIRED, EVENT, reason="out of time")
ALL = [PROCEEDS, DENIED, SYNTHETIC, FAILED_OPEN, INTERRUPTED, EXPIRED]


@pytest.mark.parametrize(
    ("check", "right"),
    [
        (assert_proceeds, PROCEEDS),
        (assert_denied, DENIED),
        (assert_synthetic_denial, SYNTHETIC),
        (assert_failed_open, FAILED_OPEN),
        (assert_interrupted, INTERRUPTED),
        (assert_expired, EXPIRED),
    ],
)
def test_each_passes_on_one_kind_of_outcome_only(
    check: Callable[[Outcome], None], right: Outcome
) -> None:
    """The six tell all outcomes apart; the message shows the one that was got."""
    for outcome in ALL:
        if outcome is right:
            check(outcome)
        else:
            with pytest.raises(AssertionError, match=f"got {outcome.decision.value}"):
                check(outcome)


def test_details_are_compared() -> None:
    """Reason and failure class, as an enum member or its value."""
    assert_denied(DENIED, "no")
    assert_denied(SYNTHETIC, synthetic=True)
    for wanted in (FailureClass.CONNECTION, "connection"):
        assert_synthetic_denial(SYNTHETIC, failure_class=wanted)
        assert_failed_open(FAILED_OPEN, failure_class=wanted)
    with pytest.raises(AssertionError, match="the reason 'never', got deny"):
        assert_denied(DENIED, "never")
    with pytest.raises(AssertionError, match=r"the failure malformed.*\n.*connection/code"):
        assert_synthetic_denial(SYNTHETIC, failure_class=FailureClass.MALFORMED)


def test_a_synthetic_denial_says_nothing_but_the_generic_sentence() -> None:
    """A reason that tells more is wrong (R-FAIL-04)."""
    chatty = Outcome(Decision.DENY, EVENT, reason="refused", synthetic=True, failures=(REFUSED,))
    with pytest.raises(AssertionError, match="Required policy backend unavailable"):
        assert_synthetic_denial(chatty)


def record(kind: AuditKind, **fields: Any) -> AuditRecord:
    return AuditRecord(
        kind=kind,
        event_id="ev-1",
        event_type="tool.before",
        backend="com.example",
        subscription=0,
        mode="intercept",
        **fields,
    )


def test_audit_records_are_counted() -> None:
    """By kind, failure class and any other field; the matching ones are returned."""
    log = AuditLog()
    log.write(record(AuditKind.ACCEPTED))
    log.write(record(AuditKind.FAILED_OPEN, failure_class="connection", attempts=3))
    assert assert_audit(log, kind=AuditKind.ACCEPTED) == log.records[:1]
    assert_audit(log, kind="failed_open", failure_class=FailureClass.CONNECTION, attempts=3)
    assert_audit(log, count=2)
    assert_audit(log.records, kind="not_called", count=0)
    with pytest.raises(
        AssertionError, match=r"found 0; all records:\n.*\n.*connection.*attempts=3"
    ):
        assert_audit(log, kind="explicit_denial")


def test_the_log_keeps_and_forgets() -> None:
    """It is waited for by condition, and cleared between the acts of a test."""
    log = AuditLog()
    assert not log.wait_records(1, timeout=0.01)
    log.write(record(AuditKind.ACCEPTED))
    assert log.wait_records(1)
    assert (len(log), len(list(log))) == (1, 1)
    log.clear()
    assert log.records == []


def test_the_package_offers_what_it_lists() -> None:
    """Every public name can be had, though it is loaded late; another is an AttributeError."""
    for name in ahp_sync.testing.__all__:
        assert hasattr(ahp_sync.testing, name)
        assert name in dir(ahp_sync.testing)
    for name in ("assert_nonsense", "nonsense"):
        assert not hasattr(ahp_sync.testing, name)
