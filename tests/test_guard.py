"""Guarded tool functions: asked about, run with their own arguments, told about."""

from __future__ import annotations

import asyncio
import functools
import logging
import threading
from collections.abc import Iterator
from typing import Any, Callable, NoReturn, Optional

import pytest
from inprocess import Act, Backend, deny, fails, hangs, intercept, observe, ok, refused
from watching import timed

from ahp_sync import Budget, Client, ClientClosed, Decision, InvalidEvent, ToolDenied
from ahp_sync.testing import assert_denied, assert_expired, assert_interrupted

Clients = Callable[..., Client]


def watcher(act: Act = ok, **options: Any) -> Backend:
    """Return a backend that decides as ``act`` says and is told what became of the call."""

    def only_asked(backend: Backend, message: dict[str, Any], budget: Budget) -> Optional[bytes]:
        return act(backend, message, budget) if "id" in message else None

    return Backend(only_asked, intercept(**options), observe(["tool.after"]))


@pytest.fixture
def backend() -> Backend:
    """A backend that has nothing against it."""
    return watcher()


@pytest.fixture
def client(backend: Backend, open_client: Clients) -> Client:
    """A client of ``backend``."""
    return open_client(backend)


def told(backend: Backend) -> dict[str, Any]:
    """Return the one ``tool.after``, which is of the call that was asked about."""
    before, after = backend.events
    assert (before["type"], after["type"]) == ("tool.before", "tool.after")
    assert before["call"] == after["call"]
    assert before["tool"] == after["tool"]
    assert before["id"] != after["id"]
    return after


# --- what goes in and comes out ---------------------------------------------------------------


def plain(a: int, b: int = 2) -> int:
    return a + b


def variadic(a: int, *more: int, flag: bool = False, **named: Any) -> Any:
    return (a, more, flag, named)


class Tool:
    def method(self, a: int) -> int:
        return a

    @classmethod
    def of_class(cls, a: int) -> int:
        return a

    def __call__(self, a: int) -> int:
        return a


@pytest.mark.parametrize(
    ("fn", "args", "kwargs", "sent"),
    [
        (plain, (1,), {}, {"a": 1, "b": 2}),
        (plain, (), {"b": 5, "a": 1}, {"a": 1, "b": 5}),
        (variadic, (1,), {}, {"a": 1, "more": [], "flag": False, "named": {}}),
        (
            variadic,
            (1, 2, 3),
            {"flag": True, "x": None},
            {"a": 1, "more": [2, 3], "flag": True, "named": {"x": None}},
        ),
        (Tool().method, (1,), {}, {"a": 1}),
        (Tool.of_class, (1,), {}, {"a": 1}),
        (Tool(), (1,), {}, {"a": 1}),
        (functools.partial(plain, b=7), (1,), {}, {"a": 1, "b": 7}),
        (lambda: None, (), {}, {}),
    ],
)
def test_the_arguments_are_the_input(
    fn: Callable[..., Any],
    args: Any,
    kwargs: Any,
    sent: dict[str, Any],
    client: Client,
    backend: Backend,
) -> None:
    """By parameter name, defaults too; the function gets and returns what it would have."""
    assert client.guard(fn, name="tool")(*args, **kwargs) == fn(*args, **kwargs)
    assert told(backend)["tool"] == {"name": "tool", "origin": "native", "input": sent}


def test_arguments_and_results_stay_the_very_objects(client: Client, backend: Backend) -> None:
    """What JSON has no form of its own for, a tuple say, is not exchanged for its like."""
    given = {"pair": (1, (2, 3)), "list": [1]}
    kept: list[Any] = []

    def tool(value: Any, *more: Any) -> Any:
        kept.extend([value, *more])
        return value

    assert client.guard(tool)(given, (4, 5)) is given
    assert kept[0] is given
    assert kept[1] == (4, 5)
    assert told(backend)["tool"]["input"] == {
        "value": {"pair": [1, [2, 3]], "list": [1]},
        "more": [[4, 5]],
    }


@pytest.mark.parametrize(
    ("bad", "path"),
    [
        ({1, 2}, "$.tool.input.a"),
        (b"bytes", "$.tool.input.a"),
        ([float("nan")], "$.tool.input.a[0]"),
        ({"x": object()}, "$.tool.input.a.x"),
        ("\ud800", "$.tool.input.a"),
    ],
)
def test_arguments_that_are_no_json_are_refused(
    bad: Any, path: str, client: Client, backend: Backend
) -> None:
    """The error names the argument; nothing is sent and nothing runs."""
    with pytest.raises(InvalidEvent) as caught:
        client.guard(forbidden)(bad)
    assert caught.value.path == path
    assert backend.messages == []


def test_wrong_arguments_are_the_functions_own_error(client: Client, backend: Backend) -> None:
    """A call that could not be made is not asked about."""
    with pytest.raises(TypeError, match="missing a required argument"):
        client.guard(plain)()  # type: ignore[call-arg]
    assert backend.messages == []


def test_the_wrapper_looks_like_the_function(client: Client, backend: Backend) -> None:
    """Name, docstring and signature, by ``functools.wraps``; ``tool`` is the decorator of it."""

    @client.tool(name="Read", session="s-1")
    def read(path: str) -> str:
        """Read a file."""
        return path

    assert (read.__name__, read.__doc__) == ("read", "Read a file.")
    assert read.__wrapped__("x") == "x"  # type: ignore[attr-defined]
    assert backend.messages == []
    read("y")
    assert told(backend)["tool"]["name"] == "Read"
    assert [event["session"] for event in backend.events] == [{"id": "s-1"}] * 2


def test_the_functions_name_is_the_tools(client: Client, backend: Backend) -> None:
    """Where none is given; an object without one goes by its class."""
    client.guard(plain)(1)
    client.guard(Tool())(1)
    names = [event["tool"]["name"] for event in backend.events]
    assert names == ["plain", "plain", "Tool", "Tool"]


# --- refused ----------------------------------------------------------------------------------


def forbidden(a: Any = None) -> NoReturn:
    raise AssertionError("it must not run")


@pytest.mark.parametrize(
    ("act", "check"),
    [
        (deny("Not here."), lambda outcome: assert_denied(outcome, "Not here.")),
        (fails(refused), lambda outcome: assert_denied(outcome, synthetic=True)),
    ],
    ids=["explicit", "synthetic"],
)
def test_a_denied_call_does_not_run(
    act: Act, check: Callable[..., None], open_client: Clients
) -> None:
    """ToolDenied carries the outcome, and the denial is told of."""
    backend = watcher(act)
    with pytest.raises(ToolDenied) as caught:
        open_client(backend).guard(forbidden)(1)
    check(caught.value.outcome)
    assert str(caught.value) == caught.value.outcome.reason
    after = told(backend)
    assert after["outcome"] == "denied"
    assert after["execution"] == {"status": "skipped", "reason": "policy"}


def test_a_call_out_of_time_does_not_run(open_client: Clients) -> None:
    """``seconds`` bounds each hook call, whatever the policy; the time-out is told of."""
    backend = watcher(hangs, policy="fail-open", timeout_ms=30_000)
    guarded = open_client(backend).guard(forbidden, seconds=0.1)

    def call() -> ToolDenied:
        with pytest.raises(ToolDenied) as caught:
            guarded()
        return caught.value

    denied, seconds = timed(call)
    assert_expired(denied.outcome)
    assert 0.1 <= seconds <= 1
    after = told(backend)
    assert after["outcome"] == "timeout"
    assert after["execution"] == {"status": "skipped", "reason": "timeout"}


def test_an_interrupted_call_does_not_run(open_client: Clients) -> None:
    """The client is closed while it is asked: ToolDenied, and nobody left to tell."""
    backend = watcher(hangs, timeout_ms=30_000)
    client = open_client(backend)

    def close() -> None:
        backend.started.wait(10)
        client.close()

    closer = threading.Thread(target=close)
    closer.start()
    with pytest.raises(ToolDenied) as caught:
        client.guard(forbidden)()
    closer.join()
    assert_interrupted(caught.value.outcome)
    assert backend.methods == ["intercept"]


def test_a_call_that_failed_open_runs(open_client: Clients) -> None:
    """As without a guard."""
    backend = watcher(fails(refused), policy="fail-open")
    assert open_client(backend).guard(plain)(1) == 3
    assert told(backend)["outcome"] == "ok"


# --- told -------------------------------------------------------------------------------------


class Unprintable:
    def __repr__(self) -> str:
        raise ValueError("no words for it")


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ("done", "done"),
        ("", ""),
        ({"a": [1, None]}, '{"a": [1, null]}'),
        (True, "true"),
        ({1, 2}, "{1, 2}"),
        (b"\xff", "b'\\xff'"),
        (Unprintable(), "<Unprintable>"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_result_is_told_as_text_and_returned_as_it_is(
    result: Any, text: str, client: Client, backend: Backend
) -> None:
    """A string as it is, JSON as JSON, and anything else by its representation."""
    assert client.guard(lambda: result, name="tool")() is result
    after = told(backend)
    assert (after["outcome"], after["execution"]) == ("ok", {"status": "executed"})
    assert after["items"][0]["parts"][0]["text"] == text
    assert after["durationMs"] >= 0


def test_no_result_is_no_output(client: Client, backend: Backend) -> None:
    """None is nothing to tell."""
    assert client.guard(lambda: None, name="tool")() is None
    assert told(backend)["items"] == []


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError("no words for it")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("no such file"), "no such file"),
        (KeyError(), "KeyError"),
        (Mute(), "Mute"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_exception_is_told_and_passes_unchanged(
    error: Exception, message: str, client: Client, backend: Backend
) -> None:
    """The very object is raised, and ``tool.after`` has its message and class."""

    def tool() -> NoReturn:
        raise error

    with pytest.raises(type(error)) as caught:
        client.guard(tool)()
    assert caught.value is error
    assert error.__cause__ is error.__context__ is None
    after = told(backend)
    assert after["outcome"] == "error"
    assert after["error"] == {"message": message, "class": type(error).__name__}


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_of_the_tool_is_told_as_cancelled(
    error: type[BaseException], client: Client, backend: Backend
) -> None:
    """It passes unchanged as well."""

    def tool() -> NoReturn:
        raise error

    with pytest.raises(error):
        client.guard(tool)()
    assert told(backend)["outcome"] == "cancelled"


def test_a_report_that_fails_hides_no_result(open_client: Clients) -> None:
    """The observer is down: the result is returned all the same."""
    backend = Backend(ok, intercept())
    observer = Backend(fails(refused), observe(["tool.after"]), id="com.example.observer")
    assert open_client(backend, observer).guard(plain)(1) == 3
    assert observer.methods == ["observe"]


@pytest.mark.parametrize("fails_too", [False, True], ids=["result", "exception"])
def test_a_client_closed_meanwhile_hides_no_result(
    fails_too: bool, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    """Nor an exception; that it was not told is in the log."""

    def tool() -> str:
        client.close()
        if fails_too:
            raise ValueError("its own")
        return "done"

    with caplog.at_level(logging.WARNING, "ahp_sync"):
        if fails_too:
            with pytest.raises(ValueError, match="its own"):
                client.guard(tool)()
        else:
            assert client.guard(tool)() == "done"
    assert "tool.after of tool was not sent: ClientClosed" in caplog.text
    with pytest.raises(ClientClosed):
        client.guard(forbidden)()


def test_a_result_that_can_not_be_sent_is_returned(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    """A lone surrogate has no place in a message."""
    with caplog.at_level(logging.WARNING, "ahp_sync"):
        assert client.guard(lambda: "\ud800", name="tool")() == "\ud800"
    assert "was not sent: InvalidEvent" in caplog.text


# --- what can't be guarded --------------------------------------------------------------------


async def coroutine() -> None:
    await asyncio.sleep(0)


async def async_generator() -> Any:
    yield 1


def generator() -> Iterator[int]:
    yield 1


@pytest.mark.parametrize(
    "fn", [coroutine, async_generator, generator, functools.partial(coroutine)]
)
def test_what_would_run_later_is_refused(fn: Any, client: Client) -> None:
    """The tool would run after the wrapper returned, and after it was told of."""
    with pytest.raises(TypeError, match="a coroutine or generator function can't be guarded"):
        client.guard(fn)


@pytest.mark.parametrize("fn", [5, None, "print"])
def test_what_is_no_function_is_refused(fn: Any, client: Client) -> None:
    """When it is wrapped, not when it is called."""
    with pytest.raises(TypeError, match="only a function can be guarded"):
        client.guard(fn)


def test_a_builtin_without_a_signature_is_refused(client: Client) -> None:
    """There is no way to name its arguments."""
    with pytest.raises(TypeError, match="the arguments of 'max' can't be told"):
        client.guard(max)


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), True, "1"])
def test_odd_seconds_are_refused(seconds: Any, client: Client) -> None:
    """When it is wrapped; the error names the value and its unit."""
    with pytest.raises((TypeError, ValueError), match=r"seconds must be a .*number of seconds"):
        client.guard(plain, seconds=seconds)


def test_a_guarded_tool_may_call_another(client: Client, backend: Backend) -> None:
    """Each has a call of its own."""
    inner = client.guard(plain)
    assert client.guard(lambda: inner(1), name="outer")() == 3
    calls = [event["call"]["id"] for event in backend.events]
    assert calls == [calls[0], calls[1], calls[1], calls[0]]
    assert calls[0] != calls[1]


def test_a_denial_in_a_nested_tool_is_an_error_of_the_outer(open_client: Clients) -> None:
    """ToolDenied passes through the outer tool like any exception."""

    def judge(backend: Backend, message: dict[str, Any], budget: Budget) -> Optional[bytes]:
        inner = message["params"]["event"]["tool"]["name"] == "inner"
        return (deny("no") if inner else ok)(backend, message, budget)

    client = open_client(watcher(judge))
    inner = client.guard(forbidden, name="inner")
    with pytest.raises(ToolDenied) as caught:
        client.guard(lambda: inner(), name="outer")()
    assert caught.value.outcome.decision is Decision.DENY
