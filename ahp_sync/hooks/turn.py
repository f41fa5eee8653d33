"""The hook methods of ``turn.*`` events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional, Sequence

from ahp_sync.hooks.base import Dispatcher
from ahp_sync.hooks.making import given, identity, message, messages, stem
from ahp_sync.hooks.options import SessionOptions
from ahp_sync.outcome import Outcome
from ahp_sync.protocol.payloads import (
    ErrorInfo,
    Id,
    Message,
    Part,
    TurnOutcome,
    TurnTrigger,
    TurnUsage,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["TurnHooks"]


class TurnHooks(Dispatcher):
    """``turn.start``, ``turn.finish.before``, ``turn.end`` and ``turn.progress``."""

    def turn_start(
        self,
        *,
        turn: Id,
        prompt: Optional[str] = None,
        items: Optional[Sequence[Message]] = None,
        trigger: TurnTrigger = "user",
        expanded_from: Optional[str] = None,
        **options: Unpack[SessionOptions],
    ) -> Outcome:
        """Ask whether a turn may begin (``turn.start``), before the model is told anything.

        A backend may deny it, modify the prompt, stop the flow or inject context. The payload is
        :class:`~ahp_sync.payloads.TurnStart`.

        :param turn: the turn's id, the same in all events of it.
        :param prompt: the user's text, as one message; or ``items``, a list of messages.
        :param trigger: user, continuation, hook or external.
        :param expanded_from: what the host expanded into the prompt, such as a command's name.

        The effective prompt is ``outcome.event["items"]``. Everything else, and what it returns and
        raises, is as in :meth:`tool_before`.
        """
        items = messages(prompt, items, role="user", id=f"{_id(turn)}-prompt")
        payload = {"trigger": trigger, "items": items, **given(expandedFrom=expanded_from)}
        return self._send("turn.start", payload, options, turn=turn)

    def turn_finish_before(
        self,
        *,
        turn: Id,
        response: Optional[str] = None,
        items: Optional[Sequence[Message]] = None,
        outcome: TurnOutcome = "completed",
        continuation_count: int = 0,
        last_assistant_item: Optional[Id] = None,
        usage: Optional[TurnUsage] = None,
        **options: Unpack[SessionOptions],
    ) -> Outcome:
        """Ask whether a turn may end (``turn.finish.before``), before the user is told.

        A backend may modify the response, stop the flow, or have the turn go on: see
        ``outcome.flow`` and ``outcome.instructions``. The payload is
        :class:`~ahp_sync.payloads.TurnFinishBefore`.

        ``outcome.may_execute`` says that nothing speaks against what was asked, and so it is True
        where the turn has to go on as well: test ``outcome.flow`` first.

        :param response: the assistant's text, as one message; or ``items``, a list of messages.
        :param outcome: completed, failed, cancelled or max_iterations.
        :param continuation_count: how often the turn was made to go on already, from 0.
        :param last_assistant_item: the id of the assistant's last message.
        :param usage: what the whole turn used.

        Everything else, and what it returns and raises, is as in :meth:`tool_before`.
        """
        payload = _ending(
            turn, response, items, outcome, continuation_count, last_assistant_item, usage
        )
        return self._send("turn.finish.before", payload, options, turn=turn)

    def turn_end(
        self,
        *,
        turn: Id,
        response: Optional[str] = None,
        items: Optional[Sequence[Message]] = None,
        outcome: TurnOutcome = "completed",
        continuation_count: int = 0,
        last_assistant_item: Optional[Id] = None,
        usage: Optional[TurnUsage] = None,
        error: Optional[ErrorInfo] = None,
        **options: Unpack[SessionOptions],
    ) -> Outcome:
        """Tell that a turn ended (``turn.end``).

        It is only observed. The payload is :class:`~ahp_sync.payloads.TurnEnd`.

        :param error: what went wrong; not with the outcome completed.

        Everything else is as in :meth:`turn_finish_before`.
        """
        payload = _ending(
            turn, response, items, outcome, continuation_count, last_assistant_item, usage
        )
        return self._send("turn.end", {**payload, **given(error=error)}, options, turn=turn)

    def turn_progress(
        self,
        *,
        turn: Id,
        item: Id,
        text: Optional[str] = None,
        delta: Optional[Message] = None,
        final: bool = False,
        items: Optional[Sequence[Part]] = None,
        **options: Unpack[SessionOptions],
    ) -> Outcome:
        """Tell what a message that is still being made has more (``turn.progress``).

        It is only observed. The payload is :class:`~ahp_sync.payloads.TurnProgress`.

        :param item: the id of the message that grows.
        :param text: what the assistant said, as one message; or ``delta``, a message.
        :param final: nothing more comes of it.

        Everything else, and what it returns and raises, is as in :meth:`tool_before`.
        """
        more = message(text, delta, role="assistant", id=f"{stem(options)}-delta", path="$.delta")
        payload = {
            "item": identity(item),
            "delta": more,
            "final": final,
            **given(items=items),
        }
        return self._send("turn.progress", payload, options, turn=turn)


def _id(turn: Id) -> Any:
    return identity(turn).get("id")


def _ending(
    turn: Id,
    response: Optional[str],
    items: Optional[Sequence[Message]],
    outcome: TurnOutcome,
    continuation_count: int,
    last_assistant_item: Optional[Id],
    usage: Optional[TurnUsage],
) -> dict[str, Any]:
    # A turn that was made to go on ends with another response than the one before.
    name = f"{_id(turn)}-response-{continuation_count}"
    last = None if last_assistant_item is None else identity(last_assistant_item)
    return {
        "outcome": outcome,
        "continuationCount": continuation_count,
        "items": messages(response, items, role="assistant", id=name),
        **given(lastAssistantItem=last, usage=usage),
    }
