"""The hook methods of ``model.*`` events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping, Optional, Sequence, Union

from ahp_sync.hooks.base import Dispatcher
from ahp_sync.hooks.making import given, messages
from ahp_sync.hooks.options import CallOptions
from ahp_sync.outcome import Outcome
from ahp_sync.protocol.payloads import (
    Attempt,
    AttemptUsage,
    ErrorInfo,
    Executed,
    Json,
    Message,
    Model,
    Part,
    Pricing,
    ResultExecution,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["ModelHooks"]


class ModelHooks(Dispatcher):
    """``model.request.before``, ``.response.after``, ``.error`` and ``.switch.before/after``."""

    def model_request_before(
        self,
        *,
        model: Model,
        attempt: Union[str, Attempt],
        items: Sequence[Message],
        params: Optional[Json] = None,
        **options: Unpack[CallOptions],
    ) -> Outcome:
        """Ask whether a request may go to a model, when it is final (``model.request.before``).

        A backend may deny it, modify the request, return the answer, stop the flow or inject
        context. The payload is :class:`~ahp_sync.payloads.ModelRequestBefore`.

        :param model: the model's ``id`` and its ``provider``.
        :param attempt: the id of a first attempt; a retry is a whole object, with its ``number``.
        :param items: the messages of the request.
        :param params: what goes with them, as the host has it; none of its credentials.

        The effective messages are ``outcome.event["items"]``, a supplied answer is
        ``outcome.result``, if ``authorize`` or ``approve`` said yes (R-SET-09). Everything else,
        and what it returns and raises, is as in :meth:`tool_before`.
        """
        payload = {
            "model": model,
            "attempt": _attempt(attempt),
            "params": {} if params is None else params,
            "items": items,
        }
        return self._send("model.request.before", payload, options)

    def model_response_after(
        self,
        *,
        model: Model,
        attempt: Union[str, Attempt],
        finish_reason: str,
        response: Optional[str] = None,
        items: Optional[Sequence[Message]] = None,
        execution: Optional[ResultExecution] = None,
        usage: Optional[AttemptUsage] = None,
        latency_ms: Optional[float] = None,
        **options: Unpack[CallOptions],
    ) -> Outcome:
        """Ask what is to become of a model's answer, before it is used (``model.response.after``).

        A backend may modify the response or stop the flow. The payload is
        :class:`~ahp_sync.payloads.ModelResponseAfter`.

        :param model: as in :meth:`model_request_before`, and so is ``attempt``.
        :param finish_reason: the provider's own word for why the answer ends.
        :param response: the assistant's text, as one message; or ``items``, a list of messages.
        :param execution: ``{"status": "executed"}`` by default; skipped as supplied_result if a
            backend returned the answer, and then without ``usage`` and ``latency_ms``.
        :param usage: what this attempt used.
        :param latency_ms: how long it took, in milliseconds.

        Everything else, and what it returns and raises, is as in :meth:`tool_before`.
        """
        tried = _attempt(attempt)
        items = messages(response, items, role="assistant", id=f"{tried.get('id')}-answer")
        payload = {
            "model": model,
            "attempt": tried,
            "execution": _EXECUTED if execution is None else execution,
            "items": items,
            "finishReason": finish_reason,
            **given(usage=usage, latencyMs=latency_ms),
        }
        return self._send("model.response.after", payload, options)

    def model_error(
        self,
        *,
        model: Model,
        attempt: Union[str, Attempt],
        error: ErrorInfo,
        usage: Optional[AttemptUsage] = None,
        latency_ms: Optional[float] = None,
        recovery: Optional[str] = None,
        items: Optional[Sequence[Part]] = None,
        **options: Unpack[CallOptions],
    ) -> Outcome:
        """Tell that a request to a model failed (``model.error``).

        It is only observed. The payload is :class:`~ahp_sync.payloads.ModelError`.

        :param model: as in :meth:`model_request_before`, and so is ``attempt``.
        :param error: what went wrong: ``message`` and ``class``, perhaps ``code`` and ``status``.
        :param recovery: what the host does about it, in words.

        Everything else is as in :meth:`model_response_after`.
        """
        payload = {
            "model": model,
            "attempt": _attempt(attempt),
            "execution": _EXECUTED,
            "error": error,
            **given(usage=usage, latencyMs=latency_ms, recovery=recovery, items=items),
        }
        return self._send("model.error", payload, options)

    def model_switch_before(
        self,
        *,
        current: Model,
        proposed: Model,
        reason: str,
        pricing: Optional[Pricing] = None,
        items: Optional[Sequence[Part]] = None,
        **options: Unpack[CallOptions],
    ) -> Outcome:
        """Ask whether another model may take over (``model.switch.before``).

        A backend may deny it or stop the flow. The payload is
        :class:`~ahp_sync.payloads.ModelSwitchBefore`.

        :param reason: why, in words.
        :param pricing: what the proposed model costs, for a million tokens.

        Everything else, and what it returns and raises, is as in :meth:`tool_before`.
        """
        payload = {
            "current": current,
            "proposed": proposed,
            "reason": reason,
            **given(pricing=pricing, items=items),
        }
        return self._send("model.switch.before", payload, options)

    def model_switch_after(
        self,
        *,
        previous: Model,
        current: Model,
        reason: str,
        items: Optional[Sequence[Part]] = None,
        **options: Unpack[CallOptions],
    ) -> Outcome:
        """Tell that another model has taken over (``model.switch.after``).

        It is only observed. The payload is :class:`~ahp_sync.payloads.ModelSwitchAfter`.

        Everything else is as in :meth:`model_switch_before`.
        """
        payload = {
            "previous": previous,
            "current": current,
            "reason": reason,
            **given(items=items),
        }
        return self._send("model.switch.after", payload, options)


_EXECUTED: Executed = {"status": "executed"}


def _attempt(attempt: Union[str, Attempt]) -> Mapping[str, Any]:
    return attempt if isinstance(attempt, Mapping) else {"id": attempt, "number": 1}
