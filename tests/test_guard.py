"""Guarded tool functions: asked about, run with their own arguments, told about."""

from __future__ import annotations

import asyncio
import functools
import logging
import threading
from collections.abc import Iterator
from types import MappingProxyType
from typing import Any, Callable, NoReturn, Optional

import pytest
from answering import (
    ALLOW,
    ASK,
    DENY,
    go_on,
    inject,
    message,
    modify,
    note,
    part,
    returning,
    says,
    stop,
)
from inprocess import Act, Backend, deny, fails, hangs, intercept, observe, ok, refused
from watching import timed

from ahp_sync import (
    Budget,
    Capabilities,
    Client,
    ClientClosed,
    Decision,
    Grant,
    InvalidEvent,
    Modify,
    Outcome,
    ToolDenied,
)
from ahp_sync.testing import (
    HttpBackend,
    assert_asks,
    assert_denied,
    assert_expired,
    assert_interrupted,
    assert_stopped,
    assert_synthetic_denial,
)

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
    given = MappingProxyType({"pair": (1, (2, 3)), "list": [1]})
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


class Word(str):
    """A text with more to it."""


def test_the_tool_runs_with_what_was_asked_about(open_client: Clients) -> None:
    """Whatever becomes of the caller's own lists and dictionaries while a backend is asked."""
    word = Word("ls")
    paths, more, named = [["a"], (["b"],)], [1], {"deep": [word]}

    def act(backend: Backend, received: dict[str, Any], budget: Budget) -> Optional[bytes]:
        if received["params"]["event"]["type"] == "tool.before":
            paths[0].append("/etc/shadow")
            paths[1][0].append("/etc/shadow")
            more.append(2)
            named["deep"].append("rm")
        return ok(backend, received, budget)

    def tool(paths: Any, *rest: Any, last: Any = None, **options: Any) -> Any:
        return paths, rest, last, options

    backend = watcher(act)
    result = open_client(backend).guard(tool)(paths, more, last={}, **named)
    assert result == ([["a"], (["b"],)], ([1],), {}, {"deep": ["ls"]})
    assert type(result[0][1]) is tuple
    assert result[3]["deep"][0] is word
    assert told(backend)["tool"]["input"] == {
        "paths": [["a"], [["b"]]],
        "rest": [[1]],
        "last": {},
        "options": {"deep": ["ls"]},
    }
    assert more == [1, 2]


def test_a_default_stays_the_functions_own(client: Client) -> None:
    """Nobody passed it, and a function may keep something in it."""
    kept: list[int] = []

    def tool(number: int, memory: list[int] = kept) -> int:
        memory.append(number)
        return len(memory)

    guarded = client.guard(tool)
    assert (guarded(1), guarded(2)) == (1, 2)
    assert kept == [1, 2]


def test_an_argument_that_holds_itself_is_refused(client: Client) -> None:
    """R-EVT-04: like any other that a strict reader would refuse."""
    wheel: list[Any] = []
    wheel.append(wheel)
    with pytest.raises(InvalidEvent, match="at most 100 levels"):
        client.guard(lambda a: a, name="tool")(wheel)


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


# --- what backends do to it -------------------------------------------------------------------

WHOLE = Capabilities.whole()


def judging(
    before: Act = ok, after: Act = ok, *, policy: str = "fail-closed", **options: Any
) -> Backend:
    """Return a backend that decides about both events of a guarded call."""

    def act(backend: Backend, received: dict[str, Any], budget: Budget) -> Optional[bytes]:
        is_before = received["params"]["event"]["type"] == "tool.before"
        return (before if is_before else after)(backend, received, budget)

    subscription = intercept(["tool.before", "tool.after"], policy=policy, **options)
    return Backend(act, subscription)


def edits(**arguments: Any) -> Act:
    return says(modify("input", "merge", arguments))


@pytest.mark.parametrize("result", [None, "text", {"a": [1]}, 7, False])
def test_a_supplied_result_is_returned_in_the_tools_place(
    result: Any, open_client: Clients
) -> None:
    """R-PAY-04: the tool does not run, and ``tool.after`` says why and what stood in for it."""
    backend = judging(says(ALLOW, returning(result)))
    assert open_client(backend, capabilities=WHOLE).guard(forbidden)() == result
    after = told(backend)
    assert (after["outcome"], after["execution"]) == (
        "ok",
        {"status": "skipped", "reason": "supplied_result"},
    )
    assert "durationMs" not in after
    texts = [one["text"] for item in after["items"] for one in item["parts"]]
    assert len(texts) == (result is not None)


@pytest.mark.parametrize(
    ("act", "check"),
    [
        (says(ASK), assert_asks),
        (says(returning(1)), assert_asks),
        (says(ASK, returning(1)), assert_asks),
        (says(stop("enough")), lambda outcome: assert_stopped(outcome, "enough")),
        (says(stop("enough"), ALLOW, returning(1)), assert_stopped),
        (says(DENY, returning(1), ALLOW), assert_denied),
    ],
)
def test_what_is_not_settled_in_its_favour_does_not_run(
    act: Act, check: Callable[[Outcome], object], open_client: Clients
) -> None:
    """T-05: nor is a result delivered that stands beside it."""
    backend = judging(act)
    with pytest.raises(ToolDenied) as caught:
        open_client(backend, capabilities=WHOLE).guard(forbidden)()
    check(caught.value.outcome)
    assert told(backend)["outcome"] == "denied"


def test_the_hosts_own_say_counts_for_a_guarded_tool(open_client: Clients) -> None:
    """R-SET-13: no backend's ``allow`` passes it by."""
    backend = judging(says(ALLOW))
    client = open_client(backend, capabilities=WHOLE, authorize=lambda _: False)
    with pytest.raises(ToolDenied, match="The host's own policy"):
        client.guard(forbidden)()
    assert told(backend)["outcome"] == "denied"


@pytest.mark.parametrize(
    ("edit", "args", "kwargs", "got"),
    [
        ({"a": 5}, (1, 2, 3), {"flag": True, "x": 1}, (5, (2, 3), True, {"x": 1})),
        ({"more": [9]}, (1, 2, 3), {}, (1, (9,), False, {})),
        ({"more": []}, (1, 2, 3), {"x": 1}, (1, (), False, {"x": 1})),
        ({"named": {"y": [1]}}, (1,), {"x": 1}, (1, (), False, {"y": [1]})),
        ({"named": {}, "flag": True}, (1,), {"x": 1}, (1, (), True, {})),
        ({"a": 1.0, "more": [2, 3]}, (1, 2, 3), {}, (1, (2, 3), False, {})),
    ],
)
def test_the_tool_runs_with_the_edited_input(
    edit: dict[str, Any], args: Any, kwargs: Any, got: Any, open_client: Clients
) -> None:
    """By the names of its parameters, ``*args`` and ``**kwargs`` among them."""
    backend = judging(edits(**edit))
    assert open_client(backend, capabilities=WHOLE).guard(variadic)(*args, **kwargs) == got
    before, after = backend.events
    assert after["tool"]["input"] == {**before["tool"]["input"], **edit}


def test_what_was_not_edited_stays_the_very_object(open_client: Clients) -> None:
    """A tuple, or a mapping of the host's own, is exchanged for JSON only where it was edited."""
    pair: Any = (1, (2, 3))
    options = MappingProxyType({"x": 1})
    kept: list[Any] = []

    def tool(pair: Any, options: Any, number: int) -> int:
        kept.extend([pair, options])
        return number

    assert (
        open_client(judging(edits(number=9)), capabilities=WHOLE).guard(tool)(pair, options, 1) == 9
    )
    assert kept[0] is pair
    assert kept[1] is options
    kept.clear()
    client = open_client(judging(edits(pair=[1])), capabilities=WHOLE)
    client.guard(tool)(pair, options, 1)
    assert kept[0] == [1]
    assert kept[1] is options


def test_positional_only_arguments_are_edited_as_well(open_client: Clients) -> None:
    """And may stand among the named ones of ``**`` at the same time."""

    def tool(a: int, /, b: int, **named: int) -> Any:
        return a, b, named

    client = open_client(judging(edits(a=5, named={"a": 7})), capabilities=WHOLE)
    assert client.guard(tool)(1, 2) == (5, 2, {"a": 7})


UNBINDABLE = [
    modify("input", "replace", {"a": 1}),
    modify("input", "replace", {}),
    modify("input", "merge", {"unknown": 1}),
    modify("input", "merge", {"more": 5}),
    modify("input", "merge", {"more": {"0": 1}}),
    modify("input", "merge", {"more": None}),
    modify("input", "merge", {"named": []}),
    modify("input", "merge", {"named": {"a": 1}}),
    modify("input", "merge", {"named": {"flag": True}}),
]


@pytest.mark.parametrize("effect", UNBINDABLE)
def test_an_edit_that_the_function_can_not_take_is_refused(
    effect: dict[str, Any], open_client: Clients
) -> None:
    """As a failure of its backend: fail-closed denies, fail-open runs it unchanged."""
    backend = judging(says(effect))
    with pytest.raises(ToolDenied) as caught:
        open_client(backend, capabilities=WHOLE).guard(variadic)(1, 2, x=3)
    assert_synthetic_denial(caught.value.outcome, failure_class="effects")
    assert caught.value.outcome.failures[0].code == "refused_by_host"

    backend = judging(says(effect), policy="fail-open")
    guarded = open_client(backend, capabilities=WHOLE).guard(variadic)
    assert guarded(1, 2, x=3) == (1, (2,), False, {"x": 3})


# --- what it returned -------------------------------------------------------------------------

TOOL_SAID = [message("m-new", "[removed]", role="tool")]


def output(*messages: dict[str, Any], operation: str = "replace") -> Act:
    return says(modify("output", operation, list(messages)))


@pytest.mark.parametrize(
    ("act", "text"),
    [
        (ok, "key=hunter2"),
        (output(*TOOL_SAID), "[removed]"),
        (output(message("m-a", "a", "b", role="tool"), message("m-b", "c", role="tool")), "abc"),
        (output(message("m-a", " (cut)", role="tool"), operation="merge"), "key=hunter2 (cut)"),
        (output(), ""),
        (output(message("m-a", role="tool")), ""),
    ],
)
def test_a_text_is_returned_as_the_backends_left_it(
    act: Act, text: str, open_client: Clients
) -> None:
    """The texts of the effective output, one after another."""
    client = open_client(judging(after=act), capabilities=WHOLE)
    assert client.guard(lambda: "key=hunter2", name="tool")() == text


def test_a_text_that_was_taken_out_does_not_come_back(open_client: Clients) -> None:
    """A gap in its place, or a part without its text, says nothing."""
    gap = {
        "id": "p-gap",
        "kind": "text",
        "mediaType": "text/plain",
        "selection": "body",
        "gap": {"reason": "redacted"},
    }
    hidden = {"id": "p-meta", "kind": "text", "mediaType": "text/plain", "selection": "omit"}
    for parts, text in (([gap], ""), ([hidden], ""), ([gap, part("p-x", "rest")], "rest")):
        act = output(message("m-new", *parts, role="tool"))
        client = open_client(judging(after=act), capabilities=WHOLE)
        assert client.guard(lambda: "key=hunter2", name="tool")() == text


def test_an_edit_of_the_output_that_is_refused_changes_nothing(open_client: Clients) -> None:
    """The whole answer is (R-ADM-01)."""
    act = says(modify("output", "replace", []), {"type": "retry"})
    client = open_client(judging(after=act, policy="fail-open"), capabilities=WHOLE)
    assert client.guard(lambda: "done", name="tool")() == "done"


@pytest.mark.parametrize("result", [None, 5, ["a"], {"a": 1}, b"x"])
def test_what_is_no_text_is_returned_as_it_is(result: Any, open_client: Clients) -> None:
    """Nothing could be put in its place, so an edit of it is not offered, and not accepted."""
    backend = judging(after=output(*TOOL_SAID), policy="fail-open")
    client = open_client(backend, capabilities=WHOLE)
    assert client.guard(lambda: result, name="tool")() is result
    assert "modify" not in offered(backend)["tool.after"]["effects"]


# --- what is offered (R-CAP-02) ---------------------------------------------------------------


def offered(backend: Backend) -> dict[str, Any]:
    """Return the capabilities of the last request for each event."""
    return {
        received["params"]["event"]["type"]: received["params"]["capabilities"]
        for received in backend.messages
    }


def raises() -> NoReturn:
    raise ValueError("its own")


PATHS: dict[str, tuple[Act, Callable[[], Any]]] = {
    "text": (ok, lambda: "done"),
    "value": (ok, lambda: 5),
    "exception": (ok, raises),
    "denied": (says(DENY), forbidden),
    "supplied": (says(ALLOW, returning("x")), forbidden),
}


def call_any(guarded: Callable[[], Any]) -> None:
    try:
        guarded()
    except (ToolDenied, ValueError):
        pass


@pytest.mark.parametrize("path", PATHS)
def test_without_a_listener_only_what_the_wrapper_does_itself_is_offered(
    path: str, open_client: Clients
) -> None:
    """No message and no injection, and once the tool has run no flow: nobody would hear of it."""
    act, tool = PATHS[path]
    backend = judging(act)
    call_any(open_client(backend, capabilities=WHOLE).guard(tool, name="tool"))
    blocks = offered(backend)
    assert set(blocks["tool.before"]["effects"]) == {
        *("deny", "allow", "ask", "return", "modify", "flow")
    }
    assert blocks["tool.before"]["flow"] == {"operations": ["stop"]}
    assert set(blocks["tool.after"]["effects"]) == ({"modify"} if path == "text" else set())


@pytest.mark.parametrize("path", PATHS)
def test_with_a_listener_all_is_offered_that_the_host_declares(
    path: str, open_client: Clients
) -> None:
    """But for edits of what is no text."""
    act, tool = PATHS[path]
    backend = judging(act)
    client = open_client(backend, capabilities=WHOLE)
    call_any(client.guard(tool, name="tool", on_outcome=lambda outcome: None))
    blocks = offered(backend)
    assert blocks["tool.before"] == Grant.whole("tool.before").to_json("tool.before")
    edits = {"modify"} if path == "text" else set()
    assert set(blocks["tool.after"]["effects"]) == {"message", "flow", "inject", *edits}


def test_no_more_is_offered_than_was_declared(open_client: Clients) -> None:
    """What the wrapper could do, but the host does not want done, is not."""
    declared = Capabilities(
        {"tool.before": Grant(("deny",)), "tool.after": Grant(modify=Modify(replace=False))}
    )
    backend = judging()
    client = open_client(backend, capabilities=declared)
    client.guard(lambda: "x", name="tool", on_outcome=lambda outcome: None)()
    assert offered(backend) == {
        "tool.before": {"effects": ["deny"]},
        "tool.after": {
            "effects": ["modify"],
            "modify": {"output": {"replace": False, "merge": True}},
        },
    }


def test_a_listener_hears_both_outcomes(open_client: Clients) -> None:
    """In the caller's thread and in order: before the tool runs, and after it was told of."""
    heard: list[Any] = []
    threads: list[threading.Thread] = []

    def listen(outcome: Outcome) -> None:
        heard.append((outcome.event["type"], outcome.messages, outcome.flow))
        threads.append(threading.current_thread())

    def tool() -> str:
        heard.append("ran")
        return "done"

    backend = judging(says(note("mind it")), says(note("well done"), go_on("next")))
    client = open_client(backend, capabilities=WHOLE)
    assert client.guard(tool, on_outcome=listen)() == "done"
    assert heard == [
        ("tool.before", ("mind it",), "none"),
        "ran",
        ("tool.after", ("well done",), "continue"),
    ]
    assert set(threads) == {threading.current_thread()}


def test_a_listener_hears_of_a_denial(open_client: Clients) -> None:
    """And of what is told afterwards; by decorator as well."""
    heard: list[tuple[str, Decision]] = []
    backend = judging(says(DENY), says(inject(message("i-1", "x"))))
    client = open_client(backend, capabilities=WHOLE)

    @client.tool(
        name="tool",
        on_outcome=lambda outcome: heard.append((outcome.event["type"], outcome.decision)),
    )
    def tool() -> NoReturn:
        forbidden()

    with pytest.raises(ToolDenied):
        tool()
    assert heard == [("tool.before", Decision.DENY), ("tool.after", Decision.PROCEED)]


def test_a_listener_that_objects_keeps_the_tool_from_running(open_client: Clients) -> None:
    """It is the host's own code: what it raises passes unchanged."""

    def listen(outcome: Outcome) -> NoReturn:
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        open_client(Backend()).guard(forbidden, on_outcome=listen)()


@pytest.mark.parametrize("wrong", [5, "print", []])
def test_a_listener_can_be_called(wrong: Any, client: Client) -> None:
    """When it is wrapped, not when it is called."""
    with pytest.raises(TypeError, match="on_outcome must be callable"):
        client.guard(plain, on_outcome=wrong)


def test_edits_of_both_sides_over_the_network(ahp_http_backend: Callable[..., HttpBackend]) -> None:
    """A real server that changes what goes in and what comes out."""
    from ahp_sync import Harness

    def judge(request: Any) -> Any:
        before = request.event["type"] == "tool.before"
        return (
            modify("input", "merge", {"path": "/tmp/copy"})
            if before
            else modify("output", "replace", TOOL_SAID)
        )

    backend = ahp_http_backend(judge)
    subscriptions = [intercept(["tool.before", "tool.after"], timeout_ms=20_000)]
    read: list[str] = []

    def tool(path: str) -> str:
        read.append(path)
        return "key=hunter2"

    with Client(
        backend.registration(subscriptions=subscriptions),
        source="urn:example:tests",
        harness=Harness("tests", "1"),
        capabilities=WHOLE,
    ) as client:
        assert client.guard(tool)("/etc/keys") == "[removed]"
    assert read == ["/tmp/copy"]
    assert backend.requests[1].event["tool"]["input"] == {"path": "/tmp/copy"}


# --- what can't be guarded --------------------------------------------------------------------


async def coroutine() -> None:
    await asyncio.sleep(0)


async def async_generator() -> Any:
    yield 1


def generator() -> Iterator[int]:
    yield 1


class Later:
    """An object whose call is a coroutine."""

    async def __call__(self) -> None:
        await asyncio.sleep(0)


class Iterated:
    """An object whose call is a generator."""

    def __call__(self) -> Iterator[int]:
        yield 1


@pytest.mark.parametrize(
    "fn",
    [
        *(coroutine, async_generator, generator, functools.partial(coroutine)),
        *(Later(), Iterated(), functools.partial(functools.partial(Later())), Later().__call__),
    ],
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


# --- outputs that backends have a say in ------------------------------------------------------


def asked_after(act: Act, policy: str = "fail-closed") -> Backend:
    """Return a backend that is asked about outputs, and objects to no call."""

    def only_after(backend: Backend, message: dict[str, Any], budget: Budget) -> Optional[bytes]:
        is_after = message["params"]["event"]["type"] == "tool.after"
        return (act if is_after else ok)(backend, message, budget)

    return Backend(only_after, intercept(["tool.before", "tool.after"], policy=policy))


AFTER = Capabilities({"tool.before": Grant(("deny",)), "tool.after": Grant(modify=Modify())})


def test_an_output_that_could_not_be_filtered_is_not_given_out(open_client: Clients) -> None:
    """A filter that fails closed keeps what it was to look at."""
    client = open_client(asked_after(fails), capabilities=AFTER)
    with pytest.raises(ToolDenied) as denied:
        client.guard(lambda: "the secret", name="read")()
    assert denied.value.outcome.synthetic
    assert denied.value.outcome.event["type"] == "tool.after"


def test_a_filter_that_fails_open_lets_the_output_pass(open_client: Clients) -> None:
    """As its policy says."""
    client = open_client(asked_after(fails, "fail-open"), capabilities=AFTER)
    assert client.guard(lambda: "the text", name="read")() == "the text"


def test_an_output_that_can_not_be_sent_is_not_given_out(open_client: Clients) -> None:
    """Nobody could look at it."""
    client = open_client(asked_after(ok), capabilities=AFTER)
    with pytest.raises(InvalidEvent):
        client.guard(lambda: "\ud800", name="read")()


def test_an_output_that_is_only_observed_is_given_out_whatever_happens(
    open_client: Clients,
) -> None:
    """Who only observes has no say (R-OBS-05)."""
    client = open_client(watcher())
    assert client.guard(lambda: "\ud800", name="read")() == "\ud800"
