"""The hook methods of ``user.attention`` and ``user.message.*`` events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional, Sequence, Union

from ahp_sync.errors import InvalidEvent
from ahp_sync.hooks.base import Dispatcher
from ahp_sync.hooks.making import given, messages, stem, texts
from ahp_sync.hooks.options import CallOptions
from ahp_sync.outcome import Outcome
from ahp_sync.protocol.payloads import Message, Part, Role, TextPart

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["UserHooks"]


class UserHooks(Dispatcher):
    """``user.attention``, ``user.message.inbound`` and ``user.message.outbound``."""

    def user_attention(
        self,
        *,
        kind: str,
        message: Union[str, Sequence[TextPart]],
        title: Union[str, Sequence[TextPart]],
        items: Optional[Sequence[Part]] = None,
        **options: Unpack[CallOptions],
    ) -> Outcome:
        """Tell that the host wants the user to look (``user.attention``).

        It is only observed. The payload is :class:`~ahp_sync.payloads.UserAttention`.

        :param kind: what it is about, a word of the host's own.
        :param message: what the user is told: a text, or text parts; and so is ``title``.

        Everything else, and what it returns and raises, is as in :meth:`tool_before`.
        """
        name = stem(options)
        attention = {
            "kind": kind,
            "message": texts(message, id=f"{name}-message"),
            "title": texts(title, id=f"{name}-title"),
        }
        payload = {"attention": attention, **given(items=items)}
        return self._send("user.attention", payload, options)

    def user_message_inbound(
        self,
        *,
        channel: str,
        sender: str,
        text: Optional[str] = None,
        messages: Optional[Sequence[Message]] = None,
        items: Optional[Sequence[Part]] = None,
        **options: Unpack[CallOptions],
    ) -> Outcome:
        """Ask whether a message that has come by a channel may be used (``user.message.inbound``).

        A backend may deny it or modify the prompt. The payload is
        :class:`~ahp_sync.payloads.UserMessageInbound`.

        :param channel: by which it came, and ``sender``: from whom; words of the host's own.
        :param text: what it says, as one message; or ``messages``, all of the role user.

        The effective messages are ``outcome.event["message"]["messages"]``. Everything else, and
        what it returns and raises, is as in :meth:`tool_before`.
        """
        said = _said(text, messages, "user", options)
        message = {"channel": channel, "sender": sender, "messages": said}
        payload = {"message": message, **given(items=items)}
        return self._send("user.message.inbound", payload, options)

    def user_message_outbound(
        self,
        *,
        channel: str,
        text: Optional[str] = None,
        messages: Optional[Sequence[Message]] = None,
        items: Optional[Sequence[Part]] = None,
        **options: Unpack[CallOptions],
    ) -> Outcome:
        """Ask whether a message may be sent by a channel (``user.message.outbound``).

        A backend may deny it or modify the content. The payload is
        :class:`~ahp_sync.payloads.UserMessageOutbound`.

        :param channel: by which it goes, a word of the host's own.
        :param text: what it says, as one message; or ``messages``, all of the role assistant.

        Everything else is as in :meth:`user_message_inbound`.
        """
        message = {"channel": channel, "messages": _said(text, messages, "assistant", options)}
        payload = {"message": message, **given(items=items)}
        return self._send("user.message.outbound", payload, options)


def _said(
    text: Optional[str], whole: Optional[Sequence[Message]], role: Role, options: CallOptions
) -> Any:
    path = "$.message.messages"
    if text is None and whole is None:
        raise InvalidEvent(path, "neither a text nor messages", "one of the two")
    return messages(text, whole, role=role, id=f"{stem(options)}-message", path=path)
