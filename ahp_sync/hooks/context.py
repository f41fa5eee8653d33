"""The hook methods of ``context.*`` events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional, Sequence, Union

from ahp_sync.errors import InvalidEvent
from ahp_sync.hooks.base import Dispatcher
from ahp_sync.hooks.making import given, stem, texts
from ahp_sync.hooks.options import CallOptions
from ahp_sync.outcome import Outcome
from ahp_sync.protocol.payloads import CompactTrigger, Message, ResultExecution, TextPart

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["ContextHooks"]


class ContextHooks(Dispatcher):
    """``context.compact.before`` and ``context.compact.after``."""

    def context_compact_before(
        self,
        *,
        trigger: CompactTrigger,
        items: Sequence[Message] = (),
        instructions: Union[str, Sequence[TextPart], None] = None,
        tokens_before: Optional[int] = None,
        **options: Unpack[CallOptions],
    ) -> Outcome:
        """Ask whether the context may be summed up (``context.compact.before``).

        A backend may deny it, modify the instructions, return the summary or inject context. The
        payload is :class:`~ahp_sync.payloads.ContextCompactBefore`.

        :param trigger: auto, manual or hook.
        :param items: the messages of the context.
        :param instructions: what the model is told about the summary: a text, or text parts.
        :param tokens_before: how many tokens the context has.

        A supplied summary is ``outcome.result``, a list of text parts, if ``authorize`` or
        ``approve`` said yes (R-SET-09). Everything else, and what it returns and raises, is as in
        :meth:`tool_before`.
        """
        told = None
        if instructions is not None:
            told = texts(instructions, id=f"{stem(options)}-instructions")
        payload = {
            "trigger": trigger,
            "items": items,
            **given(instructions=told, tokenCounts=_token_counts(before=tokens_before)),
        }
        return self._send("context.compact.before", payload, options)

    def context_compact_after(
        self,
        *,
        summary: Union[str, Sequence[TextPart]],
        removed: Sequence[str] = (),
        items: Optional[Sequence[Message]] = None,
        execution: Optional[ResultExecution] = None,
        tokens_before: Optional[int] = None,
        tokens_after: Optional[int] = None,
        **options: Unpack[CallOptions],
    ) -> Outcome:
        """Ask what is to become of a summary, before it is used (``context.compact.after``).

        A backend may modify the summary or inject context. The payload is
        :class:`~ahp_sync.payloads.ContextCompactAfter`.

        :param summary: a text, or text parts.
        :param removed: the ids of the messages that it is to replace.
        :param items: messages to be shown with it.
        :param execution: ``{"status": "executed"}`` by default; skipped as supplied_result if a
            backend returned the summary.
        :param tokens_before: how many tokens the context has, and ``tokens_after``: will have.

        The effective summary is ``outcome.event["summary"]``. Everything else, and what it returns
        and raises, is as in :meth:`tool_before`.
        """
        if isinstance(removed, str):
            raise InvalidEvent("$.removed", "one string", "a list of ids")
        counts = _token_counts(before=tokens_before, after=tokens_after)
        payload = {
            "summary": texts(summary, id=f"{stem(options)}-summary"),
            "removed": [{"id": one} for one in removed],
            "execution": {"status": "executed"} if execution is None else execution,
            **given(items=items, tokenCounts=counts),
        }
        return self._send("context.compact.after", payload, options)


def _token_counts(**counts: Optional[int]) -> Optional[dict[str, Any]]:
    return given(**counts) or None
