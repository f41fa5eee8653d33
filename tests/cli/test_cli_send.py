"""``ahp-sync send``: what was sent, what came back, what it was taken for."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Callable

import pytest
from answering import (
    ALLOW,
    ASK,
    PAYLOADS,
    go_on,
    inject,
    message,
    modify,
    note,
    returning,
    stop,
)
from command_line import ahp_sync, json_file, start
from watching import GENEROUS

from ahp_sync import Grant, cli
from ahp_sync.testing import HttpBackend, StdioBackend, hooks, intercept, observe, step

Send = Callable[..., "subprocess.CompletedProcess[str]"]

DENY = {"type": "deny", "reason": "not on a Friday"}


@pytest.fixture
def backend() -> Iterator[HttpBackend]:
    """A backend that permits everything, until told otherwise."""
    with HttpBackend("ok") as backend:
        yield backend


@pytest.fixture
def config(tmp_path: Path) -> Callable[..., Path]:
    """``config(entry, …)`` writes a registration of these backends."""
    return lambda *entries: json_file(tmp_path / "hooks.json", hooks(*entries))


@pytest.fixture
def send(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Send:
    """``send(argument, …, env={})`` runs the command, in this process for the sake of speed."""

    def run(*arguments: Any, env: Mapping[str, str] = {}) -> subprocess.CompletedProcess[str]:
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        line = ["send", *map(str, arguments)]
        code = cli.main(line)
        said = capsys.readouterr()
        return subprocess.CompletedProcess(line, code, said.out, said.err)

    return run


def account(result: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """Return what ``--json`` printed."""
    assert result.stderr == ""
    shown: dict[str, Any] = json.loads(result.stdout)
    return shown


# --- for people -----------------------------------------------------------------------------------


def test_an_event_that_proceeds(backend: HttpBackend) -> None:
    """Exit code 0; the request as it was sent, the answer as it came, the verdict, the outcome."""
    result = ahp_sync("send", "--url", backend.url, "--name", "Read", "--input", '{"path": "é"}')
    assert (result.returncode, result.stderr) == (0, "")
    head, rest = result.stdout.split("  sent\n")
    request, rest = rest.split("  answered: ")
    answer, rest = rest.split("  verdict: ")
    assert head == f"local.backend[0]: intercept, 5000 ms, fail-closed, {backend.url}\n"
    assert json.loads(request) == backend.requests[0].message
    assert '"path": "é"' in request
    facts, body = answer.strip().split("\n    ")
    assert facts.startswith("HTTP 200, ") and facts.endswith(" ms")
    assert json.loads(body)["result"]["effects"] == []
    assert rest.startswith("accepted, no effects\n\noutcome: proceed, ")


def test_a_denial(send: Send, backend: HttpBackend) -> None:
    """Exit code 77, and the effect and the reason."""
    backend.play(DENY)
    result = send("--url", backend.url)
    assert result.returncode == 77
    assert '  verdict: explicit denial, {"type": "deny", "reason": "not on a Fri' in result.stdout
    assert result.stdout.endswith("  reason: not on a Friday\n")


@pytest.mark.parametrize(
    ("fault", "verdict"),
    [
        ("bad_json", "malformed/not_json"),
        ("wrong_id", "id_mismatch/id_mismatch"),
        ("text", "malformed/content_type"),
        ("status_404", "http_status/http_404"),
    ],
)
def test_a_failure(send: Send, fault: str, verdict: str, backend: HttpBackend) -> None:
    """Exit code 1, not that of a denial: class, code and detail say what is wrong."""
    backend.play(fault)
    result = send("--url", backend.url)
    assert (result.returncode, result.stderr) == (1, "")
    assert f"  verdict: synthetic denial: {verdict}: " in result.stdout
    assert "outcome: deny (synthetic), " in result.stdout


def test_every_attempt_is_shown(send: Send, backend: HttpBackend) -> None:
    """A delivery that was tried again shows each attempt and what became of it."""
    backend.play(["status_503", DENY])
    result = send("--url", backend.url)
    first, second = result.stdout.split("  failed 1: ")[1].split("  answered 2: ")
    assert first.startswith("HTTP 503, ")
    assert "http_status/http_503: " in first
    assert second.startswith("HTTP 200, ")


def test_what_a_backend_sends_is_shown_and_not_obeyed(send: Send, tmp_path: Path) -> None:
    """Control characters are escaped; so are bytes that are no text."""
    script = tmp_path / "backend.sh"
    script.write_text("printf 'a\\033[2Jb\\377\\n'; printf 'x\\033c' >&2\n")
    result = send("--per-event", "--timeout", "2", "--", "sh", script)
    assert "  answered: exit status 0, 7 bytes, " in result.stdout
    assert "    a\\x1b[2Jb\\xff\n" in result.stdout
    assert "    stderr: x\\x1bc\n" in result.stdout
    assert "\x1b" not in result.stdout


def test_a_long_answer_is_cut(send: Send, backend: HttpBackend) -> None:
    """The view is bounded, and says how much there was."""
    backend.play(step("padded", size=1 << 20))
    result = send("--url", backend.url)
    assert result.returncode == 77
    assert "1048576 bytes" in result.stdout
    assert len(result.stdout) < 10_000
    assert "(cut)\n" in result.stdout


# --- secrets --------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [(), ("--json",)])
@pytest.mark.parametrize("script", ["echo", "echo_headers", "echo_headers_raw", "status_401"])
def test_no_secret_is_shown(
    send: Send,
    script: str,
    form: tuple[str, ...],
    backend: HttpBackend,
    config: Callable[..., Path],
) -> None:
    """Not the token, nor a registered header, nor the URL's query, whatever comes back."""
    canaries = {"TOKEN": "canary-token", "KEY": 'canary-"key"'}

    def echo(request: Any) -> Any:
        return {"type": "deny", "reason": f"{request.header('authorization')} {request.headers}"}

    backend.play(echo if script == "echo" else script)
    entry = backend.entry(
        authentication={"type": "bearer", "tokenEnv": "TOKEN"},
        headers={"X-Key": {"valueEnv": "KEY"}, "X-Literal": "canary-literal"},
        url=f"{backend.url}?key=canary-query",
    )
    result = send("--config", config(entry), *form, env=canaries)
    assert backend.requests[0].header("Authorization") == "Bearer canary-token"
    assert backend.requests[0].header("X-Key") == canaries["KEY"]
    assert "canary" not in result.stdout + result.stderr
    assert ("[redacted]" in result.stdout) is script.startswith("echo")


def test_the_token_comes_from_the_environment(send: Send, backend: HttpBackend) -> None:
    """``--bearer-env`` names a variable; without it nothing is sent."""
    line = ("--url", backend.url, "--bearer-env", "TOKEN")
    assert send(*line, env={"TOKEN": "canary-token"}).returncode == 0
    assert backend.requests[0].header("Authorization") == "Bearer canary-token"
    result = send(*line, env={"TOKEN": ""})
    assert (result.returncode, len(backend.requests)) == (1, 1)
    assert "authentication/credential_missing" in result.stdout


# --- as JSON --------------------------------------------------------------------------------------


def test_the_account_as_json(send: Send, backend: HttpBackend, config: Callable[..., Path]) -> None:
    """``--json`` prints one object with everything that is shown to people."""
    backend.play(["status_503", DENY])
    shown = account(send("--config", config(backend.entry()), "--json"))
    (delivery,) = shown["deliveries"]
    assert delivery["request"] == backend.requests[0].message
    assert shown["event_id"] == backend.requests[0].rpc_id
    assert (delivery["backend"], delivery["subscription"]) == ("com.example.http", 0)
    assert (delivery["timeout_ms"], delivery["policy"]) == (1000, "fail-closed")
    first, second = delivery["attempts"]
    assert (first["http_status"], first["code"]) == (503, "http_503")
    assert second["http_status"] == 200
    assert json.loads(second["answer"])["result"]["effects"] == [DENY]
    assert delivery["verdict"]["kind"] == "explicit_denial"
    assert delivery["verdict"]["effects"] == [DENY]
    assert shown["outcome"]["decision"] == "deny"
    assert shown["outcome"]["reason"] == DENY["reason"]


def test_an_attempt_that_was_given_up(send: Send, backend: HttpBackend) -> None:
    """A hung backend shows as an attempt that came to nothing, and a deadline."""
    backend.play("blackhole")
    result = send("--url", backend.url, "--timeout", "0.3", "--json")
    (delivery,) = account(result)["deliveries"]
    assert (result.returncode, delivery["timeout_ms"]) == (1, 300)
    assert delivery["attempts"][0]["given_up"]
    assert delivery["verdict"]["failure_class"] == "deadline_exceeded"


# --- several backends -----------------------------------------------------------------------------


def test_the_whole_chain_is_shown(
    send: Send,
    backend: HttpBackend,
    ahp_http_backend: Callable[..., HttpBackend],
    config: Callable[..., Path],
) -> None:
    """Who was asked, who was not because of that, and who was only told."""
    backend.play(["ok", DENY, "ok"])
    other = ahp_http_backend("ok")
    entries = (
        backend.entry(id="com.example.one", subscriptions=[intercept(), intercept()]),
        other.entry(id="com.example.two", subscriptions=[intercept(), observe(["tool.before"])]),
    )
    result = send("--config", config(*entries), "--json")
    rows = [
        (one["backend"], one.get("subscription"), one["mode"], one["verdict"]["kind"])
        for one in account(result)["deliveries"]
    ]
    assert rows == [
        ("com.example.one", 0, "intercept", "accepted"),
        ("com.example.one", 1, "intercept", "explicit_denial"),
        ("com.example.two", 0, "intercept", "not_called"),
        ("com.example.two", None, "observe", "told"),
        ("com.example.two", None, "observe", "told"),
    ]


def test_one_backend_can_be_chosen(
    send: Send,
    backend: HttpBackend,
    ahp_http_backend: Callable[..., HttpBackend],
    config: Callable[..., Path],
) -> None:
    """``--backend`` leaves the others alone."""
    other = ahp_http_backend("deny")
    path = config(backend.entry(id="com.example.one"), other.entry(id="com.example.two"))
    assert send("--config", path, "--backend", "com.example.one").returncode == 0
    assert (len(backend.requests), len(other.requests)) == (1, 0)


def test_nobody_to_send_to(send: Send, backend: HttpBackend, config: Callable[..., Path]) -> None:
    """An event that no subscription is for is said to have gone nowhere."""
    result = send("--config", config(backend.entry()), "--event", "session.start", "--session", "s")
    assert (result.returncode, backend.requests) == (0, [])
    assert result.stdout.startswith("no subscription is for session.start: nothing was sent\n")


# --- events ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "method", "verdict"),
    [
        ("tool.before", "hooks/intercept", "accepted, no effects"),
        ("tool.after", "hooks/intercept", "accepted, no effects"),
        ("session.start", "hooks/intercept", "accepted, no effects"),
        ("session.end", "hooks/observe", "told"),
    ],
)
def test_what_an_event_needs_is_filled_in(
    send: Send, event: str, method: str, verdict: str, backend: HttpBackend
) -> None:
    """An event that can't be intercepted is sent as a notification."""
    result = send("--url", backend.url, "--event", event)
    assert (result.returncode, result.stderr) == (0, "")
    assert f"  verdict: {verdict}\n" in result.stdout
    message = backend.requests[0].message
    assert (message["method"], message["params"]["event"]["type"]) == (method, event)


@pytest.mark.parametrize("event", sorted(PAYLOADS))
def test_every_event_can_be_sent_with_its_payload(
    send: Send, event: str, backend: HttpBackend
) -> None:
    """With everything granted that there is for it; the outcome is that of the answer."""
    backend.play({"type": "message", "text": "seen"})
    result = send("--url", backend.url, "--event", event, "--payload", json.dumps(PAYLOADS[event]))
    assert (result.returncode, result.stderr) == (0, "")
    assert '  message: "seen"\n' in result.stdout
    offered = set(backend.requests[0].message["params"]["capabilities"]["effects"])
    granted = set(Grant.whole(event).names)
    # The answers to a request that the command knows nothing of can't be checked.
    assert offered == granted - ({"modify"} if event == "user.elicitation.result" else set())


@pytest.mark.parametrize("event", ["file.changed", "user.attention", "hook.failure"])
def test_an_event_that_is_only_observed_is_sent_with_its_payload(
    send: Send, event: str, backend: HttpBackend
) -> None:
    """As a notification."""
    text = {"id": "p", "kind": "text", "mediaType": "text/plain", "selection": "body", "text": "x"}
    payload = {
        "file.changed": {"changes": [{"path": "a", "operation": "create", "agentCaused": True}]},
        "user.attention": {"attention": {"kind": "idle", "message": [text], "title": []}},
        "hook.failure": {
            "failure": {"backendId": "com.a", "reason": "down", "policy": "fail-open"},
            "parentEventId": "e-1",
        },
    }[event]
    result = send("--url", backend.url, "--event", event, "--payload", json.dumps(payload))
    assert (result.returncode, result.stderr) == (0, "")
    assert "  verdict: told\n" in result.stdout
    assert backend.requests[0].event["type"] == event


def test_an_event_without_its_payload(send: Send, backend: HttpBackend) -> None:
    """What can't be filled in is asked for; a type that there is not is a usage error."""
    result = send("--url", backend.url, "--event", "turn.start")
    assert (result.returncode, result.stdout, backend.requests) == (2, "", [])
    assert result.stderr == "ahp-sync: send: an event of type turn.start needs a --payload\n"
    wrong = ahp_sync("send", "--url", backend.url, "--event", "turn.begin")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "turn.begin" in wrong.stderr


# --- effects --------------------------------------------------------------------------------------

FINISH = json.dumps({**PAYLOADS["turn.finish.before"], "continuationCount": 0})


@pytest.mark.parametrize(
    ("effects", "code", "shown"),
    [
        ([], 0, ["outcome: proceed, "]),
        ([ALLOW], 0, ["outcome: proceed, ", "  permission: allow"]),
        ([returning({"a": 1})], 0, ["outcome: supplied, ", '  result: {"a": 1}']),
        ([returning(None)], 0, ["outcome: supplied, ", "  result: null"]),
        ([note("mind\nit")], 0, ["outcome: proceed, ", '  message: "mind\\nit"']),
        (
            [modify("input", "merge", {"dry": True})],
            0,
            ["outcome: proceed, ", '  now tool.input: {"dry": true}'],
        ),
        ([ASK], 1, ["outcome: ask, ", "  reason: The user has to approve this first."]),
        ([ASK, returning(1)], 1, ["outcome: ask, ", "  result: 1"]),
        ([DENY], 77, ["outcome: deny, ", "  reason: not on a Friday"]),
        ([DENY, note("see")], 77, ["outcome: deny, ", '  message: "see"']),
        ([stop("enough")], 77, ["outcome: stop, ", "  reason: enough"]),
        ([stop("enough"), ALLOW], 77, ["outcome: stop, ", "  permission: allow"]),
        ([{"type": "retry"}, DENY], 1, ["outcome: deny (synthetic), ", "effects/unknown_effect"]),
    ],
)
def test_what_the_effects_come_to(
    effects: list[Any], code: int, shown: list[str], send: Send, backend: HttpBackend
) -> None:
    """Exit code 0, 77 or 1; and each thing that came of it is a line."""
    backend.play([effects])
    result = send("--url", backend.url)
    assert (result.returncode, result.stderr) == (code, "")
    for words in shown:
        assert words in result.stdout
    assert json.dumps(effects)[1:-1] in result.stdout or code == 1
    assert ("  now " in result.stdout) is any(one["type"] == "modify" for one in effects)


def test_a_turn_that_goes_on(send: Send, backend: HttpBackend) -> None:
    """The flow and its instructions; the count of the event went out with the request."""
    backend.play([[go_on("run the tests"), go_on("commit")]])
    result = send("--url", backend.url, "--event", "turn.finish.before", "--payload", FINISH)
    assert result.returncode == 0
    assert '  flow: continue\n  instruction: "run the tests"\n  instruction: "commit"\n' in (
        result.stdout
    )
    shown = json.loads(
        send(
            "--url", backend.url, "--event", "turn.finish.before", "--payload", FINISH, "--json"
        ).stdout
    )
    assert shown["outcome"]["instructions"] == ["run the tests", "commit"]
    (delivery,) = shown["deliveries"]
    flow = delivery["request"]["params"]["capabilities"]["flow"]
    assert (flow["continuationCount"], flow["remainingContinuations"]) == (0, 1)


def test_what_was_not_shown_is_no_edit(
    send: Send, backend: HttpBackend, config: Callable[..., Path]
) -> None:
    """A backend that sees only metadata did not change what it did not see."""
    subscription = intercept(["turn.start"], content={"default": "metadata"})
    line = ("--config", config(backend.entry(subscriptions=[subscription])))
    payload = ("--event", "turn.start", "--payload", json.dumps(PAYLOADS["turn.start"]))
    assert "  now " not in send(*line, *payload).stdout
    more = message("m-9", "more")
    backend.play([[modify("prompt", "merge", [more])]])
    result = send(*line, *payload)
    assert result.returncode == 0
    (shown,) = [one for one in result.stdout.splitlines() if one.startswith("  now items: ")]
    assert json.loads(shown[len("  now items: ") :]) == [*PAYLOADS["turn.start"]["items"], more]


def test_all_of_it_as_json(send: Send, backend: HttpBackend) -> None:
    """Every part of an outcome is there, whether or not anything came of it."""
    effects = [ALLOW, returning([1]), inject(), modify("input", "replace", {"a": 1})]
    backend.play([effects])
    shown = account(send("--url", backend.url, "--json"))
    outcome = shown["outcome"]
    assert outcome["event"]["tool"]["input"] == {"a": 1}
    expected = {
        "decision": "supplied",
        "reason": None,
        "synthetic": False,
        "failed_open": False,
        "permission": "allow",
        "candidate": {"value": [1]},
        "flow": "none",
        "instructions": [],
        "messages": [],
        "injections": [inject()],
    }
    assert {name: outcome[name] for name in expected} == expected
    assert shown["deliveries"][0]["verdict"]["effects"] == effects


def test_an_interceptor_can_be_told_only(send: Send, backend: HttpBackend) -> None:
    """``--observe`` sends the notification instead of the request."""
    assert send("--url", backend.url, "--observe").returncode == 0
    assert backend.requests[0].message["method"] == "hooks/observe"


def test_an_observer_that_fails(send: Send, backend: HttpBackend) -> None:
    """Its failure is shown, though the event proceeds."""
    backend.play("status_500")
    result = send("--url", backend.url, "--event", "session.end")
    assert result.returncode == 0
    assert "  verdict: failed: http_status/http_500: " in result.stdout


def test_a_payload_of_ones_own(send: Send, backend: HttpBackend) -> None:
    """``--payload`` gives the members of the event; what is wrong with them is told."""
    payload = {
        "call": {"id": "call-7"},
        "tool": {"name": "Bash", "origin": "native", "input": {}},
        "path": "native",
        "outcome": "timeout",
        "execution": {"status": "executed"},
        "items": [],
    }
    line = ("--url", backend.url, "--event", "tool.after", "--payload")
    assert send(*line, json.dumps(payload), "--session", "s-1").returncode == 0
    assert backend.requests[0].event["outcome"] == "timeout"
    assert backend.requests[0].event["session"] == {"id": "s-1"}
    del payload["outcome"]
    result = send(*line, json.dumps(payload))
    assert (result.returncode, len(backend.requests)) == (2, 1)
    assert result.stderr.startswith("ahp-sync: the event can't be sent: $")


# --- over stdio -----------------------------------------------------------------------------------


@pytest.mark.parametrize("lifecycle", [(), ("--per-event",)])
def test_a_command_as_backend(send: Send, lifecycle: tuple[str, ...]) -> None:
    """A backend's command line behind ``--`` is started, asked, and ended."""
    with StdioBackend(["ok", DENY]) as backend:
        line = (*lifecycle, "--", *backend.argv)
        assert [send(*line).returncode for _ in range(2)] == [0, 77]
        assert backend.alive() == []


def test_ctrl_c_ends_it_quietly(backend: HttpBackend) -> None:
    """130, and not a word."""
    backend.play("blackhole")
    with start("send", "--url", backend.url, "--timeout", "60", start_new_session=True) as process:
        assert backend.wait_requests(1)
        process.send_signal(signal.SIGINT)
        output, complaints = process.communicate(timeout=GENEROUS)
    assert (process.returncode, output, complaints) == (130, "", "")
