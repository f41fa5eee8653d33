"""The hook methods of ``user.elicitation.*`` events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping, Optional, Sequence

from ahp_sync.errors import InvalidEvent
from ahp_sync.hooks.base import Dispatcher
from ahp_sync.hooks.making import given, stem, text_part
from ahp_sync.hooks.options import CallOptions
from ahp_sync.outcome import Outcome
from ahp_sync.protocol.jsonrpc import encode
from ahp_sync.protocol.payloads import (
    ElicitationAction,
    ElicitationMode,
    Json,
    Part,
    TextPart,
)
from ahp_sync.protocol.values import plain

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["ElicitationHooks"]


class ElicitationHooks(Dispatcher):
    """``user.elicitation.request`` and ``user.elicitation.result``."""

    def user_elicitation_request(
        self,
        *,
        server: str,
        params: Optional[Json] = None,
        mode: Optional[ElicitationMode] = None,
        part: Optional[TextPart] = None,
        items: Optional[Sequence[Part]] = None,
        **options: Unpack[CallOptions],
    ) -> Outcome:
        """Ask before an MCP server may ask the user (``user.elicitation.request``).

        A backend may deny it, which is a decline, or return the result in the user's place; then
        it is ``outcome.result``, if ``authorize`` or ``approve`` said yes (R-SET-09), and nobody's
        own word (R-ELI-05). The payload is :class:`~ahp_sync.payloads.UserElicitationRequest`.

        :param server: the MCP server's id.
        :param params: the complete params of the MCP request, ``_meta`` and all (R-ELI-01); or
            ``part``, a text part of the host's own, or neither, for what backends may not see.
        :param mode: form or url; by default what ``params`` say, and form without them.

        Everything else, and what it returns and raises, is as in :meth:`tool_before`.
        """
        body = _body(params, part, "request", options)
        if mode is None:
            mode = "form" if params is None else params.get("mode", "form")
        elicitation = {"server": server, "mode": mode, **given(request=body)}
        payload = {"elicitation": elicitation, **given(items=items)}
        return self._send("user.elicitation.request", payload, options)

    def user_elicitation_result(
        self,
        *,
        result: Optional[Json] = None,
        request: Optional[Json] = None,
        server: Optional[str] = None,
        mode: Optional[ElicitationMode] = None,
        action: Optional[ElicitationAction] = None,
        part: Optional[TextPart] = None,
        items: Optional[Sequence[Part]] = None,
        **options: Unpack[CallOptions],
    ) -> Outcome:
        """Ask what is to become of a user's answer (``user.elicitation.result``).

        A backend may modify the answers of an accepted form, if the ``request`` is known. The
        payload is :class:`~ahp_sync.payloads.UserElicitationResult`.

        :param result: the complete MCP result, ``_meta`` and all (R-ELI-01); or ``part``, a text
            part of the host's own, or neither, for what backends may not see.
        :param request: the event of the request, ``outcome.event`` of
            :meth:`user_elicitation_request`. ``parent_event_id``, ``session``, ``server`` and
            ``mode`` are those of this event by default, and have to be the same (R-ELI-04).
        :param server: the MCP server's id.
        :param mode: form or url.
        :param action: accept, decline or cancel; by default what ``result`` says.

        The effective result is the text of ``outcome.event["elicitation"]["result"]``. Everything
        else, and what it returns and raises, is as in :meth:`tool_before`.
        """
        body = _body(result, part, "result", options)
        if action is None and result is not None:
            action = result.get("action")
        asked = _asked(request)
        own = {
            "server": asked.get("server") if server is None else server,
            "mode": asked.get("mode", "form") if mode is None else mode,
            "action": action,
        }
        payload = {"elicitation": {**given(**own), **given(result=body)}, **given(items=items)}
        related = _related(request, options)
        return self._send("user.elicitation.result", payload, options, request=request, **related)


def _body(
    mapping: Optional[Json], part: Optional[TextPart], stage: str, options: CallOptions
) -> Any:
    """Return the text part of a request or result, None where there is none."""
    if mapping is None:
        return part
    path = f"$.elicitation.{stage}"
    if part is not None:
        raise InvalidEvent(path, "both an MCP object and a part", "one of the two")
    if not isinstance(mapping, Mapping):
        raise InvalidEvent(path, f"a {type(mapping).__name__}", "an MCP object as a mapping")
    return text_part(encode(plain(mapping, path)).decode(), id=f"{stem(options)}-{stage}")


def _asked(request: Optional[Json]) -> Json:
    if request is None:
        return {}
    asked = request.get("elicitation") if isinstance(request, Mapping) else None
    if not isinstance(asked, Mapping):
        raise InvalidEvent("request", "another value", "the event of the request")
    return asked


def _related(request: Optional[Json], options: CallOptions) -> dict[str, Any]:
    """Return the options that the result has of its request, where the host gives none."""
    if request is None:
        return {}
    related = {"parent_event_id": request.get("id"), "session": request.get("session")}
    return {name: value for name, value in related.items() if options.get(name) is None}
