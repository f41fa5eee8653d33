"""Asking backends for their subscriptions: once, together, in time, and disturbed by nobody."""

from __future__ import annotations

import contextvars
import logging
import signal
import threading
import time
from typing import Any, Optional

import pytest
from asked import Asked, open_runtime, subscribed, subscribes, wants
from inprocess import GENEROUS, SLACK, Backend, fails, hangs, intercept, observe, refused, stuck

from ahp_sync import Budget, FailureClass, FailurePolicy
from ahp_sync.budget import BudgetEnded
from ahp_sync.capabilities import Capabilities
from ahp_sync.discovery import ConfigurationDiagnostic
from ahp_sync.failure import OperationalFailure
from ahp_sync.grants import Grant
from ahp_sync.protocol.events import Mode
from ahp_sync.protocol.messages import Message
from ahp_sync.runtime import Runtime

#: Seconds after which a backend that hangs is given up in these tests.
SOON = 0.2


def names(count: int) -> list[str]:
    """Return some ids for backends."""
    return [f"com.example.b{number}" for number in range(count)]


class Waiter(threading.Thread):
    """A call that needs to know what the backends subscribe to."""

    def __init__(self, runtime: Runtime, budget: Optional[Budget] = None) -> None:
        super().__init__(daemon=True)
        self.budget = budget or Budget(GENEROUS)
        self.known: Optional[bool] = None
        self._runtime = runtime
        self.start()

    def run(self) -> None:
        self.known = self._runtime.discover(self.budget)

    def result(self) -> Optional[bool]:
        """Return what ``discover`` returned."""
        self.join(GENEROUS)
        return self.known


def slowly(seconds: float) -> Any:
    """Answers after some time, unless it is aborted."""

    def says(backend: Backend, message: Any, budget: Budget) -> bytes:
        if not budget.sleep(seconds):
            raise BudgetEnded
        body: bytes = subscribes(wants())(backend, message, budget)  # type: ignore[assignment]
        return body

    return says


# --- once (R-DISC-01) -----------------------------------------------------------------------------


def test_the_request() -> None:
    """It has a fresh id, and nothing but the version in its parameters."""
    one, other = (Asked(id=name) for name in names(2))
    with open_runtime(one, other) as runtime:
        assert runtime.discover(Budget(GENEROUS))
    (first,), (second,) = one.messages, other.messages
    assert first.keys() == {"jsonrpc", "id", "method", "params"}
    assert (first["jsonrpc"], first["method"]) == ("2.0", "hooks/configuration")
    assert first["params"] == {"protocolVersion": "draft"}
    assert first["id"] and first["id"] != second["id"]


def test_it_happens_once() -> None:
    """However often the subscriptions are needed, and also where they could not be had."""
    backends = Asked(id="com.example.good"), Asked(fails(refused), id="com.example.bad")
    with open_runtime(*backends) as runtime:
        for _ in range(3):
            assert runtime.discover(Budget(GENEROUS))
        assert [backend.times_asked for backend in backends] == [1, 1]
        assert [one.backend for one in subscribed(runtime)] == ["com.example.good"]


def test_explicit_subscriptions_are_not_asked_for() -> None:
    """A registration without discovered backends costs nothing: no request, no thread, no wait."""
    backend = Backend()
    with open_runtime(backend) as runtime:
        assert not runtime.undiscovered
        ended = Budget(GENEROUS)
        ended.cancel()
        assert runtime.discover(ended)
        assert backend.messages == []
        assert len(subscribed(runtime)) == 1


def test_the_order_is_that_of_the_registration() -> None:
    """Discovered backends stand where the registration has them, whoever answers first."""
    last = Backend(None, intercept(), id="com.example.z")
    slow = Asked(slowly(0.1), id="com.example.m")
    quick = Asked(subscribes(wants(), observe(), wants(timeout=1)), id="com.example.a")
    with open_runtime(slow, last, quick) as runtime:
        assert [one.backend for one in subscribed(runtime)] == [last.id]
        assert runtime.discover(Budget(GENEROUS))
        order = [(one.backend, one.index) for one in subscribed(runtime)]
        assert order == [(slow.id, 0), (last.id, 0), (quick.id, 0), (quick.id, 2)]
        assert [one.backend for one in subscribed(runtime, Mode.OBSERVE)] == [quick.id]


# --- together, in time ----------------------------------------------------------------------------


def test_backends_are_asked_side_by_side() -> None:
    """The slowest one decides how long it takes, not their sum."""
    backends = [Asked(slowly(0.3), id=name) for name in names(6)]
    with open_runtime(*backends) as runtime:
        started = time.monotonic()
        assert runtime.discover(Budget(GENEROUS))
        assert time.monotonic() - started < 0.3 + 2 * SLACK
        assert len(subscribed(runtime)) == 6


def test_concurrent_calls_share_it() -> None:
    """Everybody waits for the same answers, and nobody asks again."""
    backend = Asked(slowly(0.1))
    with open_runtime(backend) as runtime:
        waiters = [Waiter(runtime) for _ in range(16)]
        assert [waiter.result() for waiter in waiters] == [True] * 16
        assert backend.times_asked == 1
        assert len(subscribed(runtime)) == 1


@pytest.mark.parametrize("hanging", [hangs, stuck], ids=["abortable", "stuck"])
def test_a_backend_that_hangs_is_left_out_in_time(hanging: Any) -> None:
    """Also one that nothing wakes; the others are used, and are not asked again."""
    backends = Asked(hanging, id="com.example.hangs"), Asked()
    with open_runtime(*backends, seconds=SOON) as runtime:
        started = time.monotonic()
        assert runtime.discover(Budget(GENEROUS))
        assert SOON <= time.monotonic() - started < SOON + SLACK
        assert [one.backend for one in subscribed(runtime)] == ["com.example.asked"]
        assert runtime.configuration_diagnostics == (
            ConfigurationDiagnostic(
                "com.example.hangs", "configuration_unavailable", "no answer within 0.2 s"
            ),
        )


def test_nobody_has_to_wait_for_it_to_end() -> None:
    """Who asked has left: the time for asking passes all the same, and the next call knows."""
    with open_runtime(Asked(stuck), seconds=SOON) as runtime:
        assert not runtime.discover(Budget(0.02))
        time.sleep(SOON)
        started = time.monotonic()
        assert runtime.discover(Budget(GENEROUS))
        assert time.monotonic() - started < SLACK
        (diagnostic,) = runtime.configuration_diagnostics
        assert diagnostic.reason == "configuration_unavailable"


def test_a_late_answer_is_dropped() -> None:
    """What comes after the others were told changes nothing any more."""
    late = Asked()

    def says(backend: Backend, message: Any, budget: Budget) -> Any:
        backend.released.wait(GENEROUS)
        return subscribes(wants())(backend, message, budget)

    late.says = says
    with open_runtime(late, seconds=SOON) as runtime:
        assert runtime.discover(Budget(GENEROUS))
        late.released.set()
        for thread in threading.enumerate():
            if thread.name.endswith(late.id):
                thread.join(GENEROUS)
        assert runtime.discover(Budget(GENEROUS))
        assert subscribed(runtime) == []
        assert len(runtime.configuration_diagnostics) == 1


# --- disturbed by nobody --------------------------------------------------------------------------


def test_a_call_that_ends_leaves_the_others_waiting() -> None:
    """It is not known to be permitted; the asking goes on for the rest (failure semantics)."""
    backend = Asked(slowly(0.5))
    with open_runtime(backend) as runtime:
        stays = Waiter(runtime)
        expires, cancelled = Waiter(runtime, Budget(0.05)), Waiter(runtime)
        cancelled.budget.cancel()
        assert (expires.result(), cancelled.result()) == (False, False)
        assert expires.budget.expired and not expires.budget.cancelled
        assert subscribed(runtime) == []
        assert stays.result() is True
        assert backend.times_asked == 1


def test_the_first_call_may_be_the_one_that_leaves() -> None:
    """Who began it is a waiter like the others."""
    backend = Asked(slowly(0.3))
    with open_runtime(backend) as runtime:
        assert not runtime.discover(Budget(0.05))
        assert runtime.discover(Budget(GENEROUS))
        assert (backend.times_asked, runtime.configuration_diagnostics) == (1, ())


def test_a_call_that_has_ended_begins_nothing() -> None:
    """No request goes out for a call that is over."""
    backend = Asked()
    budget = Budget(GENEROUS)
    budget.cancel()
    with open_runtime(backend) as runtime:
        assert not runtime.discover(budget)
        assert backend.messages == []


@pytest.mark.parametrize("end", ["cancel", "raise"])
def test_a_signal_handler_may_end_a_call_that_waits(end: str) -> None:
    """By cancelling it, or with an exception of its own; the asking goes on."""
    backend = Asked(slowly(0.6))
    budget = Budget(GENEROUS)

    def handler(number: int, frame: object) -> None:
        if end == "raise":
            raise KeyboardInterrupt
        budget.cancel()

    with open_runtime(backend) as runtime:
        before = signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        try:
            started = time.monotonic()
            if end == "raise":
                with pytest.raises(KeyboardInterrupt):
                    runtime.discover(budget)
            else:
                assert not runtime.discover(budget)
            assert time.monotonic() - started < 0.1 + SLACK
        finally:
            signal.signal(signal.SIGALRM, before)
        assert runtime.discover(Budget(GENEROUS))
        assert (backend.times_asked, len(subscribed(runtime))) == (1, 1)


def test_closing_ends_it_and_leaves_nobody_out(caplog: pytest.LogCaptureFixture) -> None:
    """Calls that wait are interrupted; nothing is said about backends that had no chance."""
    backend = Asked(hangs)
    with caplog.at_level(logging.DEBUG, "ahp_sync"), open_runtime(backend) as runtime:
        waiter = Waiter(runtime)
        runtime.admit(waiter.budget)
        assert backend.started.wait(GENEROUS)
        runtime.close(GENEROUS)
        assert waiter.result() is False
        assert waiter.budget.cancelled
        assert runtime.configuration_diagnostics == ()
        assert not any(thread.name.endswith(backend.id) for thread in threading.enumerate())
    assert caplog.text == ""


def test_who_waits_on_a_closed_runtime_is_never_permitted() -> None:
    """Whatever the state of its budget: it is cancelled then, so that the call must notice."""
    budget = Budget(GENEROUS)
    with open_runtime(Asked()) as runtime:
        runtime.close(GENEROUS)
        assert not runtime.discover(budget)
        assert budget.cancelled


def test_a_backend_that_nothing_wakes_does_not_keep_closing() -> None:
    """The bound of closing holds for the asking, too."""
    backend = Asked(stuck)
    with open_runtime(backend) as runtime:
        waiter = Waiter(runtime)
        runtime.admit(waiter.budget)
        assert backend.started.wait(GENEROUS)
        started = time.monotonic()
        runtime.close(SOON)
        assert time.monotonic() - started < SOON + SLACK
        assert waiter.result() is False


def test_an_interrupted_beginning_can_be_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while the backends are being asked leaves none out: the next call asks again."""
    backends = [Asked(id=name) for name in names(2)]
    start = threading.Thread.start
    interrupts = [KeyboardInterrupt()]

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        if interrupts and thread.name.endswith(backends[0].id):
            raise interrupts.pop()

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with open_runtime(*backends) as runtime:
        with pytest.raises(KeyboardInterrupt):
            runtime.discover(Budget(GENEROUS))
        assert runtime.discover(Budget(GENEROUS))
        assert len(subscribed(runtime)) == 2
        assert runtime.configuration_diagnostics == ()


def test_without_a_thread_to_ask_on_a_backend_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with any other failure, and at once."""
    backends = [Asked(id=name) for name in names(2)]
    start = threading.Thread.start

    def refuses(thread: threading.Thread) -> None:
        if thread.name.endswith(backends[0].id):
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuses)
    with open_runtime(*backends) as runtime:
        assert runtime.discover(Budget(GENEROUS))
        assert [one.backend for one in subscribed(runtime)] == [backends[1].id]
        (diagnostic,) = runtime.configuration_diagnostics
        assert diagnostic.detail == "there was no thread to ask on"


# --- what is left out (R-DISC-06, T-12) -----------------------------------------------------------


def test_what_is_left_out_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Each with a warning: who is missing decides nothing, as if it had said yes."""
    backends = Asked(fails(refused)), Asked(id="com.example.good")
    with caplog.at_level(logging.WARNING, "ahp_sync"), open_runtime(*backends) as runtime:
        assert runtime.discover(Budget(GENEROUS))
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        (
            "WARNING",
            "backend com.example.asked, which was asked for its subscriptions, is not used: "
            "configuration_unavailable: connection/connect_refused: refused",
        )
    ]


@pytest.mark.parametrize("owned", [True, False])
@pytest.mark.parametrize("says", [fails(refused), hangs, subscribes(observe(["file.*"]))])
def test_only_what_is_owned_is_closed(says: Any, owned: bool) -> None:
    """The transport of a backend that is left out is closed, unless the host injected it."""
    bad, good = Asked(says, id="com.example.bad"), Asked()
    host = Capabilities(observe=())
    with open_runtime(bad, good, seconds=SOON, owned=owned, capabilities=host) as runtime:
        assert runtime.discover(Budget(GENEROUS))
        for thread in threading.enumerate():
            if thread.name.endswith(bad.id):
                thread.join(GENEROUS)
        assert (bad.closed, good.closed) == (owned, False)


def test_a_transport_that_fails_to_close_disturbs_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is said in the log, without its text."""

    class Bad(Asked):
        def close(self, budget: Budget) -> None:
            raise OSError("secret")

    bad = Bad(fails(refused))
    with open_runtime(bad, owned=True) as runtime:
        assert runtime.discover(Budget(GENEROUS))
    assert "OSError" in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.parametrize(
    "error", [ValueError("secret"), SystemExit("secret"), KeyboardInterrupt("secret")]
)
def test_what_no_transport_should_raise_is_a_failure(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever it is: the backend is left out, and its text stays out of the log."""
    with open_runtime(Asked(fails(error)), Asked(id="com.example.good")) as runtime:
        assert runtime.discover(Budget(GENEROUS))
        (diagnostic,) = runtime.configuration_diagnostics
    assert diagnostic.detail == f"asking failed by itself: {type(error).__name__}"
    assert type(error).__name__ in caplog.text
    assert "secret" not in caplog.text


def test_nothing_is_known_until_it_is() -> None:
    """Diagnostics are empty while the backends are being asked."""
    backend = Asked(stuck)
    with open_runtime(backend, seconds=SOON) as runtime:
        assert runtime.configuration_diagnostics == ()
        waiter = Waiter(runtime)
        assert backend.started.wait(GENEROUS)
        assert runtime.configuration_diagnostics == ()
        assert waiter.result()
        assert len(runtime.configuration_diagnostics) == 1


# --- required backends ----------------------------------------------------------------------------

HOST = Capabilities({"tool.before": Grant(("deny",)), "turn.start": Grant()})


def test_a_required_backend_that_is_left_out_leaves_a_stand_in(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It fails closed, in the backend's place, at all that the host lets anybody decide about."""
    missing = Asked(fails(refused), id="com.example.missing")
    others = [Backend(id="com.example.first"), Backend(id="com.example.last")]
    required = [missing.id, others[0].id]
    with open_runtime(
        others[0], missing, others[1], required=required, capabilities=HOST
    ) as runtime:
        assert runtime.discover(Budget(GENEROUS))
        order = [one.backend for one in subscribed(runtime)]
        assert order == ["com.example.first", "com.example.missing", "com.example.last"]
        (stand_in,) = subscribed(runtime, event="turn.start")
        assert (stand_in.policy, stand_in.index) == (FailurePolicy.FAIL_CLOSED, -1)
        assert subscribed(runtime, Mode.OBSERVE) == []
        (route,) = runtime.routes(Mode.INTERCEPT, "turn.start")
        with pytest.raises(OperationalFailure) as caught:
            route.transport.exchange(Message(b"{}", "1"), Budget(GENEROUS))
    assert caught.value.failure_class is FailureClass.CONNECTION
    assert caught.value.code == "configuration_unavailable"
    assert not caught.value.retryable
    (record,) = caplog.records
    assert record.levelname == "ERROR"
    assert "is not used, but required" in record.getMessage()


def test_a_required_backend_that_answers_needs_none() -> None:
    """It is used like any other; so is one that only wants to be told."""
    backends = Asked(id="com.example.a"), Asked(subscribes(observe()), id="com.example.b")
    with open_runtime(*backends, required=[backend.id for backend in backends]) as runtime:
        assert runtime.discover(Budget(GENEROUS))
        assert [(one.backend, one.index) for one in subscribed(runtime)] == [("com.example.a", 0)]
        assert runtime.configuration_diagnostics == ()


def test_context_variables_reach_the_approver() -> None:
    """It runs on a thread of its own, in the context of the call that came first."""
    user: contextvars.ContextVar[str] = contextvars.ContextVar("user", default="nobody")
    seen = []

    def authorize(backend: str, configuration: Any) -> bool:
        seen.append(user.get())
        return True

    with open_runtime(Asked(), authorize_configuration=authorize) as runtime:
        user.set("somebody")
        assert runtime.discover(Budget(GENEROUS))
    assert seen == ["somebody"]
