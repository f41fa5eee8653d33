"""Scripted backends with every fault, fixtures and asserts: how to test a harness on ``ahp_sync``.

The backends are real: an HTTP server on loopback and child processes. The pytest fixtures are in
:mod:`ahp_sync.testing.plugin`; everything else works without pytest too::

    with HttpBackend(step("late", seconds=0.4)) as backend:
        ...
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, List

if TYPE_CHECKING:
    from ahp_sync.testing.answers import ANSWERS
    from ahp_sync.testing.asserts import (
        assert_asks,
        assert_audit,
        assert_denied,
        assert_expired,
        assert_failed_open,
        assert_interrupted,
        assert_proceeds,
        assert_stopped,
        assert_supplied,
        assert_synthetic_denial,
    )
    from ahp_sync.testing.audit_log import AuditLog
    from ahp_sync.testing.faults import FAULTS, Fault, FaultCase, fault_cases
    from ahp_sync.testing.http_backend import ConnectionFacts, HttpBackend
    from ahp_sync.testing.received import Received, ReceivedLine, ReceivedRequest
    from ahp_sync.testing.registrations import hooks, intercept, observe
    from ahp_sync.testing.stdio_backend import StdioBackend
    from ahp_sync.testing.steps import Step, step

__all__ = [
    "ANSWERS",
    "FAULTS",
    "AuditLog",
    "ConnectionFacts",
    "Fault",
    "FaultCase",
    "HttpBackend",
    "Received",
    "ReceivedLine",
    "ReceivedRequest",
    "StdioBackend",
    "Step",
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
    "fault_cases",
    "hooks",
    "intercept",
    "observe",
    "step",
]

_MODULES = {
    "ANSWERS": "answers",
    "AuditLog": "audit_log",
    "FAULTS": "faults",
    "Fault": "faults",
    "FaultCase": "faults",
    "fault_cases": "faults",
    "ConnectionFacts": "http_backend",
    "HttpBackend": "http_backend",
    "Received": "received",
    "ReceivedLine": "received",
    "ReceivedRequest": "received",
    "hooks": "registrations",
    "intercept": "registrations",
    "observe": "registrations",
    "StdioBackend": "stdio_backend",
    "Step": "steps",
    "step": "steps",
}


def __getattr__(name: str) -> Any:
    # Loaded at first use: every run of pytest imports this package for its plugin.
    module = "asserts" if name.startswith("assert_") else _MODULES.get(name)
    if module is None or name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{module}"), name)


def __dir__() -> List[str]:
    return sorted({*globals(), *__all__})
