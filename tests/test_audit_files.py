"""Audit files and records that meet trouble: closed under way, full disks, talkative transports."""

from __future__ import annotations

import dataclasses
import os
import sys
import threading
from pathlib import Path
from typing import Any, Callable

import pytest
from inprocess import GENEROUS, Backend, ok

from ahp_sync import AuditKind, AuditRecord, Client, JsonLinesSink
from ahp_sync.testing.audit_log import AuditLog

RECORD = AuditRecord(
    kind=AuditKind.ACCEPTED,
    event_id="e",
    event_type="tool.before",
    backend="com.example.one",
    subscription=0,
    mode="intercept",
)


def test_closing_while_others_write_spoils_no_other_file(tmp_path: Path) -> None:
    """A descriptor is not written to once it may be that of another file."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(50):
            _close_under_load(tmp_path)
    finally:
        sys.setswitchinterval(interval)


def _close_under_load(folder: Path) -> None:
    sink = JsonLinesSink(folder / "audit.jsonl")
    victim = folder / "victim"
    errors: list[BaseException] = []
    written = threading.Semaphore(0)

    def write() -> None:
        try:
            while True:
                sink.write(RECORD)
                written.release()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=write) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(5):
        assert written.acquire(timeout=GENEROUS)
    sink.close()
    with victim.open("wb"):
        for thread in threads:
            thread.join(GENEROUS)
    assert victim.stat().st_size == 0
    assert [type(error) for error in errors] == [ValueError] * 2


def test_a_closed_sink_keeps_no_descriptor(tmp_path: Path) -> None:
    """Also where it was closed by several threads at once."""
    opened = os.open(tmp_path, os.O_RDONLY)
    os.close(opened)
    for _ in range(20):
        sink = JsonLinesSink(tmp_path / "audit.jsonl")
        threads = [threading.Thread(target=sink.close) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(GENEROUS)
    again = os.open(tmp_path, os.O_RDONLY)
    os.close(again)
    assert again == opened


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_a_full_disk_changes_no_decision(
    open_client: Callable[..., Client], caplog: pytest.LogCaptureFixture
) -> None:
    """The call is settled as ever, the other sink has its record, and the log says what failed."""
    other = AuditLog()
    with JsonLinesSink("/dev/full") as sink:
        client = open_client(Backend(), audit=[sink, other])
        assert client.tool_before(name="Bash", input={}).may_execute
    assert len(other) == 1
    assert "audit sink failed" in caplog.text


def test_facts_of_a_transport_of_the_hosts_own_do_no_harm(
    open_client: Callable[..., Client], records: AuditLog
) -> None:
    """Those that a record has room for go into it, others nowhere."""

    class Talkative(Backend):
        def exchange(self, message: Any, budget: Any) -> Any:
            reply: Any = super().exchange(message, budget)
            facts = {"http_status": 200, "exit_status": 0, "mood": 7}
            return dataclasses.replace(reply, facts=facts, stderr="hello")

    assert open_client(Talkative(ok)).tool_before(name="Bash", input={}).may_execute
    (one,) = records
    assert (one.http_status, one.exit_status) == (200, 0)
    assert one.untrusted == {"stderr": "hello"}
