"""Closing, forking, and hosts with habits: what is left of the stdio transport."""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Iterator

import pytest
from stdio_children import (
    ECHO,
    GENEROUS,
    LINUX,
    SLACK,
    Stage,
    decoded,
    eventually,
    failure_of,
    is_alive,
    notification,
    python,
    request,
)

from ahp_sync.budget import Budget
from ahp_sync.failure import FailureClass
from ahp_sync.registration import Lifecycle

ROOT = Path(__file__).parents[2]


@pytest.fixture
def stage() -> Iterator[Stage]:
    stage = Stage()
    yield stage
    stage.dismantle()


# Closing


def test_close_ends_the_wrapper_and_the_server_behind_it(stage: Stage) -> None:
    """F38: neither end of input nor SIGTERM is heeded by the server."""
    server = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: time.sleep(60)"
    transport = stage(
        python(f"server = grandchild({server!r}); answer(read(), server=server.pid)" + ECHO)
    )
    reply = decoded(transport.exchange(request(), Budget(GENEROUS)))
    began = time.monotonic()
    transport.close(Budget(2.0))
    assert time.monotonic() - began < 2.0
    assert not is_alive(reply["pid"])
    eventually(lambda: not is_alive(reply["server"]))
    transport.close(Budget(2.0))


@pytest.mark.parametrize("lifecycle", list(Lifecycle))
def test_nothing_is_started_after_close(stage: Stage, lifecycle: Lifecycle) -> None:
    """R-SHUT-01: later exchanges fail locally."""
    transport = stage(python(ECHO, lifecycle=lifecycle))
    transport.close(Budget(GENEROUS))
    for message in (request(), notification()):
        failure = failure_of(lambda m=message: transport.exchange(m, Budget(GENEROUS)))  # type: ignore[misc]
        assert (failure.failure_class, failure.code) == (FailureClass.CONNECTION, "closed")
        assert not failure.retryable
    assert not stage.pids()


@pytest.mark.parametrize("lifecycle", list(Lifecycle))
def test_close_brings_every_caller_home(stage: Stage, lifecycle: Lifecycle) -> None:
    """Those who wait for an answer, and those who wait for a process; closers don't disturb."""
    code = "signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
    transport = stage(python(code, lifecycle=lifecycle), processes=2)
    with ThreadPoolExecutor(16) as callers:
        calls = [
            callers.submit(transport.exchange, request(f"ev-{number}"), Budget(GENEROUS))
            for number in range(6)
        ]
        eventually(lambda: len(stage.pids()) >= 2)
        began = time.monotonic()
        closers = [callers.submit(transport.close, Budget(2.0)) for _ in range(4)]
        for call in calls:
            failure = failure_of(lambda c=call: c.result(GENEROUS))  # type: ignore[misc]
            assert (failure.failure_class, failure.code) == (FailureClass.CONNECTION, "closed")
        for closer in closers:
            closer.result(GENEROUS)
        assert time.monotonic() - began < 2.0
    assert not stage.pids()


def test_close_keeps_within_a_short_budget(stage: Stage) -> None:
    """The grace of a process is cut to what the closer has; SIGKILL comes inside it."""
    transport = stage(python("signal.signal(signal.SIGTERM, signal.SIG_IGN)" + ECHO))
    pid = decoded(transport.exchange(request(), Budget(GENEROUS)))["pid"]
    began = time.monotonic()
    transport.close(Budget(0.1))
    assert time.monotonic() - began < 0.1 + SLACK
    eventually(lambda: not is_alive(pid), SLACK)


def test_close_without_any_time_left_still_ends_everything(stage: Stage) -> None:
    """Then the processes' own threads finish the work."""
    transport = stage(python(ECHO))
    pid = decoded(transport.exchange(request(), Budget(GENEROUS)))["pid"]
    over = Budget(GENEROUS)
    over.cancel()
    transport.close(over)
    eventually(lambda: not is_alive(pid))


def test_idle_processes_that_behave_close_at_once(stage: Stage) -> None:
    """The grace is a limit, not a delay."""
    transport = stage(python(ECHO), processes=3, lanes=1)
    transport.exchange(request(), Budget(GENEROUS))
    began = time.monotonic()
    transport.close(Budget(GENEROUS))
    assert time.monotonic() - began < 0.2


def test_a_closed_transport_leaves_no_thread(stage: Stage) -> None:
    """Every process's thread ends with it."""
    before = set(threading.enumerate())
    transport = stage(python(ECHO), processes=3)
    with ThreadPoolExecutor(3) as callers:
        list(
            callers.map(
                lambda number: transport.exchange(request(f"ev-{number}"), Budget(GENEROUS)),
                range(9),
            )
        )
    transport.close(Budget(GENEROUS))
    assert set(threading.enumerate()) <= before


# Forking


def in_a_fork(job: object) -> int:
    """Run ``job`` in a forked child and return its exit status, 0 for success."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            job()  # type: ignore[operator]
            status = 0
        except BaseException:  # the child must not go on with the tests
            import traceback

            traceback.print_exc()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_lets_go_of_the_parent_s_processes(stage: Stage) -> None:
    """F14: it closes its copies, signals nobody, and may have processes of its own."""
    transport = stage(python(ECHO))
    pid = decoded(transport.exchange(request("ev-1"), Budget(GENEROUS)))["pid"]

    def child() -> None:
        before = len(os.listdir("/proc/self/fd")) if LINUX else 0
        transport.abandon_after_fork()
        if LINUX:
            assert len(os.listdir("/proc/self/fd")) < before
            assert not [
                name
                for name in os.listdir("/proc/self/fd")
                if os.path.exists(f"/proc/self/fd/{name}")
                and "pidfd" in os.readlink(f"/proc/self/fd/{name}")
            ]
        transport.abandon_after_fork()
        failure = failure_of(lambda: transport.exchange(request(), Budget(GENEROUS)))
        assert failure.code == "closed"
        transport.close(Budget(1.0))
        own = stage(python(ECHO))
        assert decoded(own.exchange(request(), Budget(GENEROUS)))["id"] == "ev-1"
        own.close(Budget(GENEROUS))

    assert in_a_fork(child) == 0
    assert decoded(transport.exchange(request("ev-2"), Budget(GENEROUS)))["pid"] == pid


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_forks_under_load_meet_no_lock(stage: Stage) -> None:
    """F14: letting go takes no lock, which a thread of the parent may hold at the fork."""
    transport = stage(python(ECHO), processes=2)
    stop = threading.Event()

    def load(name: int) -> None:
        number = 0
        while not stop.is_set():
            number += 1
            transport.exchange(request(f"ev-{name}-{number}"), Budget(GENEROUS))

    with ThreadPoolExecutor(2) as callers:
        calls = [callers.submit(load, name) for name in range(2)]
        try:
            for _ in range(20):
                assert in_a_fork(transport.abandon_after_fork) == 0
        finally:
            stop.set()
        for call in calls:
            call.result(GENEROUS)


@pytest.mark.skipif(not LINUX, reason="looks at epoll")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_pipe_that_a_forked_child_keeps_does_not_busy_us(stage: Stage) -> None:
    """The kernel tells of a closed descriptor for as long as a copy of it is open somewhere."""
    transport = stage(python("answer(read()); read(); os.close(2)" + ECHO))
    transport.exchange(request("ev-1"), Budget(GENEROUS))
    pid = os.fork()
    if pid == 0:
        time.sleep(1.0)
        os._exit(0)
    transport.exchange(notification(), Budget(GENEROUS))
    transport.exchange(request("ev-2"), Budget(GENEROUS))
    began = time.process_time()
    assert os.waitpid(pid, 0)[1] == 0
    assert time.process_time() - began < 0.2


def test_a_process_that_can_not_be_watched_is_ended(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A host at the limit of what the kernel watches for it is left with nothing running."""

    def full(*_: object) -> None:
        raise OSError(28, "no space left")

    monkeypatch.setattr(selectors.DefaultSelector, "register", full)
    transport = stage(python(ECHO))
    failure = failure_of(lambda: transport.exchange(request(), Budget(GENEROUS)))
    assert (failure.failure_class, failure.code) == (FailureClass.PROCESS, "lost")
    monkeypatch.undo()
    eventually(lambda: not stage.pids())
    assert "no space left" in caplog.text


# Hosts


def run_host(code: str, *flags: str, seconds: float = 30) -> str:
    """Run a program that uses the transport; it must succeed, in time, with a clean stderr."""
    prelude = """
        import os, sys, signal, threading, time
        sys.path[:0] = sys.argv[1:]
        from ahp_sync.budget import Budget, BudgetEnded
        from ahp_sync.failure import OperationalFailure
        from ahp_sync.registration import Lifecycle
        from ahp_sync.transports.stdio import StdioTransport
        from stdio_children import ECHO, decoded, failure_of, notification, python, request
    """
    before, _, after = textwrap.dedent(code).partition("# ---\n")
    program = before + textwrap.dedent(prelude) + after
    done = subprocess.run(
        [sys.executable, *flags, "-c", program, str(ROOT), str(Path(__file__).parent)],
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def test_a_host_with_the_default_sigpipe_survives_its_backends(stage: Stage) -> None:
    """Command line programs set it; a backend that dies must not end them."""
    code = """
        # ---
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        for size in (0, 1_000_000):
            for lifecycle in Lifecycle:
                deaf = python("os.close(0); time.sleep(0.2)", lifecycle=lifecycle)
                transport = StdioTransport(deaf)
                for number in range(3):
                    failure_of(lambda: transport.exchange(request(f"{number}", size), Budget(5)))
                    time.sleep(0.05)
                transport.close(Budget(5))
        print("alive")
    """
    assert run_host(code) == "alive\n"


def test_a_forgotten_transport_does_not_delay_the_exit(stage: Stage) -> None:
    """F05: the threads are daemons; nothing is printed, with warnings on and calls in flight."""
    code = """
        # ---
        echo = StdioTransport(python(ECHO))
        echo.exchange(request(), Budget(5))
        hung = StdioTransport(python("os.close(1); os.close(2); sys.stdin.read(); time.sleep(1)"))
        try:
            hung.exchange(request(), Budget(0.2))
        except (BudgetEnded, OperationalFailure):
            pass
        print("done")
    """
    began = time.monotonic()
    assert run_host(code, "-X", "dev", "-W", "error") == "done\n"
    assert time.monotonic() - began < 5.0


GEVENT = """
    from gevent import monkey
    monkey.patch_all()
    # ---
    def smoke():
        transport = StdioTransport(python(ECHO), processes=2)
        assert decoded(transport.exchange(request("a"), Budget(5)))["id"] == "a"
        import gevent
        jobs = [gevent.spawn(transport.exchange, request(f"g{n}"), Budget(5)) for n in range(6)]
        assert [decoded(job.get())["id"] for job in jobs] == [f"g{n}" for n in range(6)]
        hung = StdioTransport(python("read(); signal.signal(15, signal.SIG_IGN); time.sleep(60)"))
        began = time.monotonic()
        try:
            hung.exchange(request(), Budget(0.3))
        except BudgetEnded:
            assert time.monotonic() - began < 1
        else:
            raise AssertionError("answered")
        once = StdioTransport(python("answer(read())", lifecycle=Lifecycle.PER_EVENT))
        for n in range(5):
            reply = once.exchange(request(f"p{n}"), Budget(5))
            assert reply.facts == {"exit_status": 0}
        bad = StdioTransport(python("os._exit(3)", lifecycle=Lifecycle.PER_EVENT))
        assert failure_of(lambda: bad.exchange(request(), Budget(5))).exit_status == 3
        missing = StdioTransport(python(ECHO, cwd="/nonexistent"))
        assert failure_of(lambda: missing.exchange(request(), Budget(5))).code == "launch_failed"
        for each in (hung, once, bad, missing):
            each.close(Budget(5))
        return transport
"""


def test_a_gevent_host_is_served(stage: Stage) -> None:
    """F72: everything patched; answers, deadlines, exit statuses and close work."""
    pytest.importorskip("gevent")
    code = (
        GEVENT
        + """
    transport = smoke()
    transport.close(Budget(5))
    print("done")
"""
    )
    assert run_host(code) == "done\n"


def test_a_gevent_prefork_worker_is_served(stage: Stage) -> None:
    """F72: greenlets survive a fork; the child's copies must leave the parent's processes alone."""
    pytest.importorskip("gevent")
    code = (
        GEVENT
        + """
    transport = smoke()
    pid = os.fork()
    if pid == 0:
        time.sleep(0.3)
        transport.abandon_after_fork()
        time.sleep(0.1)
        smoke().close(Budget(5))
        print("child", flush=True)
        os._exit(0)
    for n in range(50):
        assert decoded(transport.exchange(request(f"f{n}"), Budget(5)))["id"] == f"f{n}"
        time.sleep(0.01)
    assert os.waitpid(pid, 0)[1] == 0
    transport.close(Budget(5))
    print("parent")
"""
    )
    assert run_host(code) == "child\nparent\n"
