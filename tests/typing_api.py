"""Uses the public API as a typed host would. Checked by mypy, never run.

Each ``type: ignore`` is a mistake that the types must find: one that is not found is an error.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Optional

from ahp_sync import (
    GENERIC_REASON,
    AHPError,
    AuditKind,
    AuditRecord,
    AuditSink,
    Budget,
    Candidate,
    Capabilities,
    Client,
    ClientClosed,
    Decision,
    Elicitation,
    Failure,
    FailureClass,
    FailurePolicy,
    Flow,
    Grant,
    Harness,
    HostState,
    Inject,
    InvalidEvent,
    JsonLinesSink,
    LoggingSink,
    Modify,
    Outcome,
    Proposal,
    Registration,
    RegistrationError,
    RetryPolicy,
    TLSIdentity,
    ToolDenied,
    __version__,
)
from ahp_sync.hooks import CallOptions, Hooks
from ahp_sync.payloads import (
    PAYLOADS,
    Attempt,
    BatchCall,
    ErrorInfo,
    FileChange,
    Id,
    Message,
    Model,
    Part,
    TextPart,
    ToolBefore,
    TurnUsage,
    WorkspaceState,
)
from ahp_sync.testing import AuditLog, HttpBackend, assert_proceeds, step


class Sink:
    """An audit sink by its shape alone."""

    def write(self, record: AuditRecord) -> None:
        kind: AuditKind = record.kind
        failure_class: Optional[str] = record.failure_class
        print(kind.value, failure_class, record.to_json()["time"])


def permits(proposal: Proposal) -> bool:
    """Say what the host's own policy does."""
    return proposal.permission != "ask"


sink: AuditSink = Sink()
hooks = Client(
    Path("hooks.json"),
    source="urn:example:agent",
    harness=Harness("agent", "1.0"),
    capabilities=Capabilities(
        intercept={
            "tool.before": Grant(
                ("deny", "ask"), modify=Modify(merge=False), inject=Inject(("now",))
            ),
            "turn.finish.before": Grant(flow=Flow(("stop", "continue"), max_continuations=2)),
            "user.elicitation.request": Grant(("return",), elicitation=Elicitation(url=True)),
        },
        observe=["tool.*"],
    ),
    authorize=permits,
    retry=RetryPolicy(max_attempts=2, jitter=0),
    audit=[sink, LoggingSink(), JsonLinesSink("audit.jsonl")],
    tls={"com.example.one": TLSIdentity(ca_file="ca.pem")},
    proxies={"http": "http://proxy.example"},
)
Client(Registration.load({"protocolVersion": "draft", "hooks": []}), source="urn:x:y")  # type: ignore[call-arg]


@hooks.tool(name="Add")
def add(a: int, b: int = 2) -> int:
    """Add."""
    return a + b


total: int = add(1)
add("1")  # type: ignore[arg-type]
guarded = hooks.guard(len, seconds=1.5)
length: int = guarded("text")


def gate(command: str) -> str:
    """Ask before a command is run."""
    budget = Budget(5)
    try:
        outcome: Outcome = hooks.tool_before(
            name="Bash", input={"command": command}, session={"id": "s-1"}, budget=budget
        )
    except (InvalidEvent, ClientClosed) as error:
        return str(error)
    if not outcome.may_execute:
        return outcome.reason or GENERIC_REASON
    failures: tuple[Failure, ...] = outcome.failures
    for failure in failures:
        policy: Optional[FailurePolicy] = failure.policy
        if policy is FailurePolicy.FAIL_OPEN and failure.failure_class is FailureClass.SATURATED:
            return failure.code
    hooks.tool_after(name="Bash", input=outcome.input, call_id="c-1", output="done", budget=5)  # type: ignore[arg-type]
    return __version__


def run() -> Decision:
    """Hold a session."""
    with hooks as client:
        client.session_start(session="s-1")
        try:
            add(1, 2)
        except ToolDenied as denied:
            return denied.outcome.decision
        except RegistrationError as error:
            print(error.problems[0].path)
        except AHPError:
            raise
        return client.session_end(session="s-1", counters={"calls": 1}).decision


def own_test() -> None:
    """Test a harness, as the plugin's users do."""
    log = AuditLog()
    with HttpBackend(step("late", seconds=0.4)) as backend:
        client = Client(
            backend.registration(timeout_ms=300),
            source="urn:example:tests",
            harness=Harness("tests", "1"),
            audit=log,
        )
        assert_proceeds(client.dispatch("tool.before", {}))


# --- payloads and hook methods --------------------------------------------------------------------

model: Model = {"id": "m-1", "provider": "example"}
retry: Attempt = {"id": "a-2", "number": 2}
text: TextPart = {
    "id": "p-1",
    "kind": "text",
    "mediaType": "text/plain",
    "selection": "body",
    "text": "Hello",
}
image: Part = {"id": "p-2", "kind": "attachment", "mediaType": "image/png", "selection": "omit"}
message: Message = {"id": "m", "role": "user", "parts": [text, image]}
turn: Id = {"id": "t-1", "synthesized": True}
usage: TurnUsage = {
    "kind": "total",
    "scope": "turn",
    "completeness": "partial",
    "provenance": "mixed",
    "inputTokens": 12,
    "cost": {"amount": 0.5, "currency": "EUR", "basis": "estimated"},
}
before: ToolBefore = {
    "call": {"id": "c-1"},
    "tool": {"name": "Bash", "origin": "native", "input": {"command": "ls"}},
    "path": "native",
}
names: list[str] = [kind.__name__ for kind in PAYLOADS.values()]
options: CallOptions = {"budget": Budget(1), "session": "s-1", "turn": turn}

wrong_role: Message = {"id": "m", "role": "robot", "parts": []}  # type: ignore[typeddict-item]
no_provider: Model = {"id": "m-1"}  # type: ignore[typeddict-item]
no_member: ErrorInfo = {"message": "m", "class": "c", "oops": 1}  # type: ignore[typeddict-unknown-key]


def turns(client: Hooks) -> None:
    """Go through a turn."""
    started = client.turn_start(turn="t-1", prompt="Hello", session="s-1", time=None)
    started = client.turn_start(turn=turn, items=[message], trigger="external")
    instructions: tuple[str, ...] = started.instructions
    client.turn_progress(turn="t-1", item="m-1", text="He", final=False)
    client.turn_finish_before(turn="t-1", response="Hi", continuation_count=len(instructions))
    client.turn_end(turn="t-1", items=[], usage=usage, outcome="failed", gaps=None)
    client.turn_start(turn="t-1", trigger="me")  # type: ignore[arg-type]
    client.turn_start(prompt="Hello")  # type: ignore[call-arg]
    client.turn_start(turn="t-1", promt="Hello")  # type: ignore[call-arg]
    client.turn_end(turn=1)  # type: ignore[arg-type]


def models(client: Hooks) -> Optional[Candidate]:
    """Ask a model, and sum up what was said."""
    asked = client.model_request_before(
        model=model,
        attempt="a-1",
        items=[message],
        params={"temperature": 0},
        state=HostState(candidate=Candidate([message])),
        capabilities=Grant(("return",)),
        result_codec=len,
    )
    client.model_response_after(
        model=model, attempt=retry, finish_reason="stop", response="Hi", latency_ms=12
    )
    client.model_error(model=model, attempt="a", error={"message": "m", "class": "c", "status": 1})
    client.model_switch_before(
        current=model, proposed=model, reason="r", pricing={"currency": "EUR"}
    )
    client.model_switch_after(previous=model, current=model, reason="r")
    client.context_compact_before(trigger="auto", items=[message], instructions="Be brief")
    client.context_compact_after(summary=[text], removed=["m-1"], tokens_after=1)
    client.model_error(model=model, attempt=1, error={"message": "m", "class": "c"})  # type: ignore[arg-type]
    client.model_error(model=model, attempt="a", error={"message": "m"})  # type: ignore[typeddict-item]
    client.context_compact_after(summary="x", execution={"status": "skipped", "reason": "policy"})  # type: ignore[arg-type]
    return asked.candidate


def tools(client: Hooks) -> None:
    """Call tools, one after the other and all at once."""
    changes: list[FileChange] = [{"path": "a", "change": "moved", "previousPath": "b"}]
    asked = client.tool_before(name="Bash", input={}, **options)
    client.tool_after(
        name="Bash", input={}, call_id=asked.event["call"], outcome="ok", file_changes=changes
    )
    client.tool_permission_request(name="Bash", input={}, call_id="c", suggestions=[{"rule": 1}])
    client.tool_permission_resolved(
        name="Bash", input={}, call_id="c", decision="allow", decided_by="user"
    )
    client.tool_progress(name="Bash", input={}, call_id={"id": "c"}, output="50 %")
    one: BatchCall = {
        "call": before["call"],
        "tool": before["tool"],
        "path": before["path"],
        "outcome": "denied",
        "execution": {"status": "skipped", "reason": "policy"},
    }
    client.tool_batch_after(batch="b-1", calls=[one])
    client.dispatch("tool.before", before, session="s-1")
    client.tool_after(name="Bash", input={}, outcome="fine")  # type: ignore[arg-type]
    client.tool_progress(name="Bash", input={})  # type: ignore[call-arg]
    client.tool_before(name="Bash", input={}, origin="other")  # type: ignore[arg-type]
    client.tool_before(name="Bash", input=["ls"])  # type: ignore[arg-type]


def everything_else(client: Hooks, params: dict[str, Any]) -> None:
    """Ask and tell about the rest."""
    here: WorkspaceState = {"cwd": "/"}
    client.config_change_before(source="file", scope="user", settings=["model"], summary="s")
    client.config_change_after(source="file", scope="user", settings=[], summary="s", path="/x")
    client.task_change_before(task_id="t", operation="create", change={"title": "tidy"})
    client.task_change_after(task_id={"id": "t"}, operation="update", change={"done": True})
    client.workspace_change_before(kind="cwd", change=here, prior={"workspaceRoots": ["/"]})
    client.workspace_change_after(kind="cwd", change=here, reason="cd")
    client.file_changed(changes=[{"path": "a", "operation": "remove", "agentCaused": True}])
    client.user_attention(kind="done", message="Finished", title=[text])
    request = client.user_elicitation_request(server="s", params=params).event
    client.user_elicitation_result(result={"action": "decline"}, request=request)
    client.user_message_inbound(channel="mail", sender="jo", text="Hi")
    client.user_message_outbound(channel="mail", messages=[message])
    client.hook_failure(backend_id="b", reason="r", policy="fail-open", parent_event_id="e")
    client.hook_failure(backend_id="b", reason="r", policy="fail-open")  # type: ignore[call-arg]
    client.task_change_after(task_id="t", operation="delete", change={})  # type: ignore[arg-type]
    client.workspace_change_after(kind="cwd", change={"root": "/"})  # type: ignore[typeddict-unknown-key]
    client.session_end(session="s", turn="t")  # type: ignore[call-arg]


turns(hooks)
