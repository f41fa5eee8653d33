"""What ``modify`` and ``return`` do: staged on the receiver's view and on the event itself.

A receiver edits what it was shown. The same edit is made on the host's event, where the view's
hidden content is still there (R-CON-06), and both have to be valid before anything counts.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Callable, NamedTuple, Optional

from ahp_sync.protocol import elicitation
from ahp_sync.protocol.effects import asking, refused
from ahp_sync.protocol.equality import json_equal
from ahp_sync.protocol.events import EVENTS, Shape, Target
from ahp_sync.protocol.lineage import identity_problem
from ahp_sync.protocol.merging import merged, references_in, unknown_reference
from ahp_sync.protocol.slots import Place, at, put
from ahp_sync.protocol.validation import event_problem

__all__ = ["Edit", "Shown", "Supplied", "edited", "messages_in", "supplied"]

Effects = Sequence[dict[str, Any]]


@dataclass(frozen=True)
class Shown:
    """What an interceptor was sent: its view of the event and the capabilities.

    ``request`` is the event of the elicitation whose result the event brings, where it does.
    """

    view: dict[str, Any]
    capabilities: Mapping[str, Any]
    request: Optional[Mapping[str, Any]] = None

    @property
    def modes(self) -> frozenset[str]:
        """The modes of elicitation that may be answered."""
        return frozenset(self.capabilities.get("elicitation", ()))

    @functools.cached_property
    def references(self) -> frozenset[Hashable]:
        """The attachments that may be carried over (R-EFF-02)."""
        return references_in(self.view)


@dataclass(frozen=True)
class Edit:
    """The event after the edits of one response, and whether anything is different (R-SET-06)."""

    event: dict[str, Any]
    changed: bool = True


class Supplied(NamedTuple):
    """The result that a response supplied; None is one, too (T-07)."""

    value: Any


def edited(
    event: dict[str, Any],
    effects: Effects,
    shown: Shown,
    check: Optional[Callable[[], object]] = None,
) -> Edit:
    """Return what the response's edits make of the host's event, in order.

    After each single one the event has to be valid (R-PAY-03). Raises ``OperationalFailure`` of
    class ``effects`` otherwise.
    """
    edits = [effect for effect in effects if effect["type"] == "modify"]
    if not edits:
        return Edit(event, changed=False)
    target = EVENTS[event["type"]].target
    assert target is not None  # or the effect would not have been admitted
    if target.shape is Shape.ANSWERS:
        return _answers(event, edits, shown, check)
    view, new = shown.view, event
    for effect in edits:
        if check is not None:
            check()
        view, new = _apply(effect, target, shown, view, new)
        for staged in (view,) if view is new else (view, new):
            _check(staged, check)
    problem = identity_problem(new)
    if problem is not None:
        raise refused("invalid_edit", f"an edit breaks the identities of the event: {problem}")
    if json_equal(at(new, target.path), at(event, target.path)):
        return Edit(event, changed=False)
    return Edit(new)


def supplied(
    effects: Effects, shown: Shown, check: Optional[Callable[[], object]] = None
) -> Optional[Supplied]:
    """Return the result of one response, the last one if there are several (R-ADM-03).

    Raises ``OperationalFailure`` of class ``effects`` where it does not fit its event, and for
    injected messages with attachments that the receiver was not shown (R-EFF-02).
    """
    returns = EVENTS[shown.view["type"]].returns
    if returns is Shape.ELICITATION:
        answer = elicitation.answered(shown.view, effects, shown.modes)
        return None if answer is None else Supplied(answer)
    result = None
    for effect in effects:
        if check is not None and effect["type"] in ("inject", "return"):
            check()
        if effect["type"] == "inject":
            _check_references(effect["value"], shown)
        elif effect["type"] == "return":
            value = effect["value"]
            if returns is Shape.TEXT:
                _check_whole_text(value)
            elif returns is Shape.MESSAGES:
                _check_references(value, shown)
            result = Supplied(value)
    return result


def messages_in(effects: Effects, event_type: str) -> Iterator[tuple[Place, dict[str, Any]]]:
    """Yield the messages that effects bring beside the event, and where: injected and returned."""
    kinds = {"inject"}
    if EVENTS[event_type].returns is Shape.MESSAGES:
        kinds.add("return")
    for position, effect in enumerate(effects):
        if effect["type"] in kinds:
            for index, message in enumerate(effect["value"]):
                yield ("effects", position, "value", index), message


def _apply(
    effect: dict[str, Any],
    target: Target,
    shown: Shown,
    view: dict[str, Any],
    event: dict[str, Any],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the view and the event after one edit; they stay one object if they were."""
    path, value, operation = target.path, effect["value"], effect["operation"]
    if target.shape in (Shape.OBJECT, Shape.WORKSPACE):
        # Nothing of it is content, so both have the same there.
        seen = written = {**at(event, path), **value} if operation == "merge" else value
    else:
        old = at(view, path)
        if target.shape is Shape.TEXT:
            _check_whole_text([*([{}] if old is None else old), *value])
        else:
            _check_references(value, shown)
        seen, written = merged(operation, value, old, at(event, path))
    new = put(event, path, written)
    return (new, new) if view is event else (put(view, path, seen), new)


def _answers(
    event: dict[str, Any], edits: Effects, shown: Shown, check: Optional[Callable[[], object]]
) -> Edit:
    result = elicitation.edited(shown.view, shown.request, edits, shown.modes, check)
    assert result is not None
    new = elicitation.rewritten(event, result)
    return Edit(new, changed=new["elicitation"] is not event["elicitation"])


def _check(event: dict[str, Any], check: Optional[Callable[[], object]]) -> None:
    problem = event_problem(event["type"], event, asking(check))
    if problem is not None:
        raise refused("invalid_edit", f"the edited event has {problem.path} not {problem.wanted}")


def _check_whole_text(parts: Any) -> None:
    if not all("text" in part for part in parts):
        raise refused("malformed_effect", "what becomes of a text has to be seen and given whole")


def _check_references(messages: Any, shown: Shown) -> None:
    place = unknown_reference(messages, shown.references)
    if place is not None:
        raise refused("unknown_reference", f"value{place} is no attachment that was shown")
