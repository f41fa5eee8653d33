"""What one interceptor is offered: the call's grant, less what its own view leaves no room for.

Whoever can't see a text can't be let replace it (R-EFF-03), and an effect that depends on a body
needs that body in the receiver's view (R-CON-07, R-ELI-04). Such an effect is then not advertised
in this delivery, and so not accepted either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Optional

from ahp_sync.grants import Grant, Modify
from ahp_sync.protocol.edits import Shown
from ahp_sync.protocol.elicitation import answerable
from ahp_sync.protocol.events import EVENTS, EventType, Shape
from ahp_sync.protocol.merging import withholds_text
from ahp_sync.protocol.slots import at
from ahp_sync.settlement import State

__all__ = ["offered"]


def offered(
    grant: Grant, state: State, view: dict[str, Any], request: Optional[Mapping[str, Any]]
) -> Shown:
    """Return what an interceptor is sent: its view, and the capabilities that go with it.

    :param request: the event of the elicitation, where the event brings its result.
    """
    event = EVENTS[view["type"]]
    block = _fitting(grant, event, view, request).to_json(event.name)
    if state.remaining is not None:
        block["flow"]["remainingContinuations"] = state.remaining
    return Shown(view, block, request)


def _fitting(
    grant: Grant, event: EventType, view: dict[str, Any], request: Optional[Mapping[str, Any]]
) -> Grant:
    shape = event.target.shape if event.target is not None else None
    if grant.modify is not None and event.target is not None:
        if shape is Shape.MESSAGES and withholds_text(at(view, event.target.path)):
            merge_only = Modify(replace=False) if grant.modify.merge else None
            grant = replace(grant, modify=merge_only)
        elif shape is Shape.TEXT and not _whole_text(view, event):
            grant = replace(grant, modify=None)
    # Instructions that are not there hide nothing; those that are have to be seen (D-21).
    hidden = event.returns is Shape.TEXT and "instructions" in view and not _whole_text(view, event)
    if shape is Shape.ANSWERS or event.returns is Shape.ELICITATION:
        elicitation = grant.elicitation
        modes = frozenset(elicitation.to_json() if elicitation else ())
        hidden = not answerable(view, modes, request)
        if hidden:
            grant = replace(grant, modify=None)
    if hidden and "return" in grant.effects:
        grant = replace(grant, effects=tuple(e for e in grant.effects if e != "return"))
    return grant


def _whole_text(view: dict[str, Any], event: EventType) -> bool:
    assert event.target is not None
    parts = at(view, event.target.path)
    return parts is not None and not withholds_text(parts)
