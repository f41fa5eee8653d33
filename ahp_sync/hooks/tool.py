"""The hook methods of a tool call: before, after, while it runs, and of a whole batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional, Sequence

from ahp_sync.hooks.base import Dispatcher
from ahp_sync.hooks.making import given, identity, message, messages, stem
from ahp_sync.hooks.options import CallOptions
from ahp_sync.outcome import Outcome
from ahp_sync.protocol.occurrence import new_id
from ahp_sync.protocol.payloads import (
    Batch,
    BatchCall,
    ErrorInfo,
    Execution,
    FileChange,
    Id,
    Json,
    McpTool,
    Message,
    Part,
    ToolOrigin,
    ToolOutcome,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["ToolHooks", "tool_call"]


class ToolHooks(Dispatcher):
    """``tool.before``, ``tool.after``, ``tool.progress`` and ``tool.batch.after``."""

    def tool_before(
        self,
        *,
        name: str,
        input: Json,
        call_id: Optional[Id] = None,
        origin: ToolOrigin = "native",
        kind: Optional[str] = None,
        mcp: Optional[McpTool] = None,
        path: str = "native",
        batch: Optional[Batch] = None,
        items: Optional[Sequence[Part]] = None,
        **options: Unpack[CallOptions],
    ) -> Outcome:
        """Ask whether a tool call may run, when its name and input are final (``tool.before``).

        A backend may deny or allow it, ask for the user, modify the input, return the result, stop
        the flow or inject context; what it can do here is what the capabilities declare. The
        payload is :class:`~ahp_sync.payloads.ToolBefore`.

        :param name: the tool's name; ``input`` its arguments as a JSON object.
        :param call_id: the call's id, the same in :meth:`tool_after`; made up if missing, and then
            it is ``outcome.event["call"]``.
        :param origin: native, or mcp with ``mcp``; ``path`` is how the tool is reached.
        :param kind: what sort of tool it is, a word of the host's own.
        :param batch: the calls that the model asked for together with this one.
        :param items: content of the event that is not in a message.
        :param options: see :class:`CallOptions`, ``session`` and ``budget`` among them.

        Returns the outcome: run with ``outcome.input`` if and only if ``outcome.may_execute``.
        Raises :class:`InvalidEvent` and :class:`ClientClosed`, both before anything is sent.
        """
        payload = tool_call(name, input, call_id, origin, kind, mcp, path, batch)
        return self._send("tool.before", {**payload, **given(items=items)}, options)

    def tool_after(
        self,
        *,
        name: str,
        input: Json,
        call_id: Optional[Id] = None,
        outcome: ToolOutcome = "ok",
        output: Optional[str] = None,
        items: Optional[Sequence[Message]] = None,
        error: Optional[ErrorInfo] = None,
        execution: Optional[Execution] = None,
        duration_ms: Optional[float] = None,
        file_changes: Optional[Sequence[FileChange]] = None,
        origin: ToolOrigin = "native",
        kind: Optional[str] = None,
        mcp: Optional[McpTool] = None,
        path: str = "native",
        batch: Optional[Batch] = None,
        **options: Unpack[CallOptions],
    ) -> Outcome:
        """Tell what became of a tool call (``tool.after``), once per call, denied ones too.

        A backend may modify the output, stop the flow or have it continued, or inject context. The
        payload is :class:`~ahp_sync.payloads.ToolAfter`.

        :param outcome: ok, error, denied, cancelled or timeout; ``error`` (``message`` and
            ``class``) goes with error and only with it.
        :param output: the tool's text, as one message; or ``items``, a list of messages.
        :param execution: ``{"status": "executed"}`` by default, skipped by policy when denied.
        :param duration_ms: how long it ran, in milliseconds.
        :param file_changes: what it did to files.

        The effective output is ``outcome.event["items"]``. Everything else, and what it returns and
        raises, is as in :meth:`tool_before`.
        """
        payload = tool_call(name, input, call_id, origin, kind, mcp, path, batch)
        said = messages(output, items, role="tool", id=f"{payload['call'].get('id')}-output")
        if execution is None:
            execution = _BY_POLICY if outcome == "denied" else {"status": "executed"}
        payload = {
            **payload,
            "outcome": outcome,
            "execution": execution,
            "items": said,
            **given(error=error, durationMs=duration_ms, fileChanges=file_changes),
        }
        return self._send("tool.after", payload, options)

    def tool_progress(
        self,
        *,
        name: str,
        input: Json,
        call_id: Id,
        output: Optional[str] = None,
        partial_output: Optional[Message] = None,
        backgrounded: bool = False,
        origin: ToolOrigin = "native",
        kind: Optional[str] = None,
        mcp: Optional[McpTool] = None,
        path: str = "native",
        batch: Optional[Batch] = None,
        items: Optional[Sequence[Part]] = None,
        **options: Unpack[CallOptions],
    ) -> Outcome:
        """Tell what a tool call that still runs has said (``tool.progress``).

        It is only observed. The payload is :class:`~ahp_sync.payloads.ToolProgress`.

        :param output: the tool's text, as one message; or ``partial_output``, a message.
        :param backgrounded: the host does not wait for the call any more.

        Everything else, and what it returns and raises, is as in :meth:`tool_before`.
        """
        payload = tool_call(name, input, call_id, origin, kind, mcp, path, batch)
        said = message(
            output,
            partial_output,
            role="tool",
            id=f"{stem(options)}-output",
            path="$.partialOutput",
        )
        payload = {
            **payload,
            "partialOutput": said,
            "backgrounded": backgrounded,
            **given(items=items),
        }
        return self._send("tool.progress", payload, options)

    def tool_batch_after(
        self,
        *,
        batch: Id,
        calls: Sequence[BatchCall],
        items: Optional[Sequence[Part]] = None,
        **options: Unpack[CallOptions],
    ) -> Outcome:
        """Tell that all calls of a batch are resolved (``tool.batch.after``), before the model is.

        A backend may stop the flow or inject context. The payload is
        :class:`~ahp_sync.payloads.ToolBatchAfter`.

        :param batch: the batch's id.
        :param calls: at least one; each with the members ``call``, ``tool``, ``path``,
            ``outcome`` and ``execution`` of its ``tool.after``.

        Everything else, and what it returns and raises, is as in :meth:`tool_before`.
        """
        payload = {"batch": identity(batch), "calls": calls, **given(items=items)}
        return self._send("tool.batch.after", payload, options)


# What "denied" implies where the host says nothing else.
_BY_POLICY: Execution = {"status": "skipped", "reason": "policy"}


def tool_call(
    name: str,
    input: Json,
    call_id: Optional[Id],
    origin: ToolOrigin,
    kind: Optional[str],
    mcp: Optional[McpTool],
    path: str,
    batch: Optional[Batch],
) -> dict[str, Any]:
    """Return what all events of one tool call have: the call, the tool and its path."""
    # An id that is made up here says so, and stays the call's for its life (R-EVT-04).
    call = {"id": new_id(), "synthesized": True} if call_id is None else identity(call_id)
    tool = {"name": name, "origin": origin, "input": input, **given(kind=kind, mcp=mcp)}
    return {"call": call, "tool": tool, "path": path, **given(batch=batch)}
