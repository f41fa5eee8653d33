"""What a backend may do at one event, as the host grants it; the protocol sets the bounds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Optional

from ahp_sync.protocol.events import EVENTS, EventType

__all__ = ["Elicitation", "Flow", "Grant", "Inject", "Modify"]

# The effects that a grant names outright; the others come with their details.
_PLAIN = ("deny", "allow", "ask", "return", "message")
_OPERATIONS = ("stop", "continue")
_MOMENTS = ("now", "next_turn")


@dataclass(frozen=True)
class Modify:
    """How the event's target may be changed: replaced as a whole, merged into, or both.

    Raises :class:`ValueError` for neither.
    """

    replace: bool = True
    merge: bool = True

    def __post_init__(self) -> None:
        check_booleans(self, "replace", "merge")
        if not (self.replace or self.merge):
            raise ValueError("modify needs replace or merge, or must not be granted at all")

    def to_json(self) -> dict[str, bool]:
        """Return the member of ``capabilities.modify`` for the event's target."""
        return {"replace": self.replace, "merge": self.merge}

    def narrows(self, declared: Modify) -> bool:
        """Return whether nothing is granted here that ``declared`` does not grant."""
        return self.replace <= declared.replace and self.merge <= declared.merge


@dataclass(frozen=True)
class Flow:
    """Whether a backend may stop the flow, or have it continued, and how often (R-CAP-03).

    :param operations: ``"stop"``, ``"continue"`` or both.
    :param max_continuations: how many continuations there may be in all, from 0.
    :param continuation_count: how many there were already; on ``turn.finish.before`` that of the
        event, where it is left out here.
    :param remaining_continuations: how many are left; the difference of the two by default.

    With ``"continue"`` one of ``max_continuations`` and ``remaining_continuations`` has to be
    there. Raises :class:`TypeError` and :class:`ValueError`.
    """

    operations: tuple[str, ...] = ("stop",)
    max_continuations: Optional[int] = None
    continuation_count: Optional[int] = None
    remaining_continuations: Optional[int] = None

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "operations", chosen(self.operations, _OPERATIONS, "flow operations")
        )
        counters = {
            "max_continuations": self.max_continuations,
            "continuation_count": self.continuation_count,
            "remaining_continuations": self.remaining_continuations,
        }
        for name, value in counters.items():
            if value is not None:
                check_count(value, name)
        if (
            "continue" in self.operations
            and self.max_continuations is None
            and self.remaining_continuations is None
        ):
            raise ValueError("flow continue needs max_continuations or remaining_continuations")

    @property
    def remaining(self) -> int:
        """How many continuations are left."""
        if self.remaining_continuations is not None:
            return self.remaining_continuations
        return max(0, (self.max_continuations or 0) - (self.continuation_count or 0))

    def to_json(self) -> dict[str, Any]:
        """Return ``capabilities.flow``; with ``continue`` it has both counters."""
        block: dict[str, Any] = {"operations": list(self.operations)}
        if self.max_continuations is not None:
            block["maxContinuations"] = self.max_continuations
        if "continue" in self.operations or self.continuation_count is not None:
            block["continuationCount"] = self.continuation_count or 0
        if "continue" in self.operations or self.remaining_continuations is not None:
            block["remainingContinuations"] = self.remaining
        return block

    def narrows(self, declared: Flow) -> bool:
        """As :meth:`Modify.narrows`. The count is a fact and no limit (T-13)."""
        if not set(self.operations) <= set(declared.operations):
            return False
        if "continue" not in self.operations:
            return True
        most = declared.max_continuations
        if most is not None and (self.max_continuations or 0) > most:
            return False
        return self.remaining <= declared.remaining


@dataclass(frozen=True)
class Inject:
    """When messages may be added to the context: ``"now"``, ``"next_turn"`` or both."""

    deliver_at: tuple[str, ...] = _MOMENTS

    def __post_init__(self) -> None:
        object.__setattr__(self, "deliver_at", chosen(self.deliver_at, _MOMENTS, "deliver_at"))

    def to_json(self) -> dict[str, Any]:
        """Return ``capabilities.inject``."""
        return {"context": {"append": True, "deliverAt": list(self.deliver_at)}}

    def narrows(self, declared: Inject) -> bool:
        """As :meth:`Modify.narrows`."""
        return set(self.deliver_at) <= set(declared.deliver_at)


@dataclass(frozen=True)
class Elicitation:
    """The modes of elicitation that a backend may answer; neither grants none (R-ELI-04)."""

    form: bool = True
    url: bool = False

    def __post_init__(self) -> None:
        check_booleans(self, "form", "url")

    def to_json(self) -> dict[str, Any]:
        """Return ``capabilities.elicitation``."""
        return {name: {} for name in ("form", "url") if getattr(self, name)}

    def narrows(self, declared: Elicitation) -> bool:
        """As :meth:`Modify.narrows`."""
        return self.form <= declared.form and self.url <= declared.url


@dataclass(frozen=True)
class Grant:
    """What a backend may do at one event.

    :param effects: the plain ones: ``"deny"``, ``"allow"``, ``"ask"``, ``"return"``,
        ``"message"``. ``modify``, ``flow`` and ``inject`` are granted by their details. What
        ``"return"`` supplies is delivered only with somebody's yes; see :class:`HostPolicy`.
    :param modify: how the event's own target may be changed.
    :param flow: whether the flow may be stopped or continued.
    :param inject: when context may be added.
    :param elicitation: the modes in which a backend may answer in the user's place.

    A grant without anything lets a backend be asked and do nothing. Raises :class:`TypeError` and
    :class:`ValueError` for what the protocol does not know.
    """

    effects: tuple[str, ...] = ()
    modify: Optional[Modify] = None
    flow: Optional[Flow] = None
    inject: Optional[Inject] = None
    elicitation: Optional[Elicitation] = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "effects", chosen(self.effects, _PLAIN, "effects", least=0))
        kinds = {"modify": Modify, "flow": Flow, "inject": Inject, "elicitation": Elicitation}
        for name, kind in kinds.items():
            value = getattr(self, name)
            if not (value is None or isinstance(value, kind)):
                raise TypeError(f"{name} must be of type {kind.__name__}, or None, not {value!r}")

    @classmethod
    def whole(cls, event_type: str, *, max_continuations: int = 1) -> Grant:
        """Return everything that the protocol lets a host grant at this event.

        Only for a host that enforces all of it. Raises :class:`ValueError` for an event that can't
        be intercepted.
        """
        event = _interceptable(event_type)
        effects = (*(name for name in event.effects if name in _PLAIN), "message")
        flow = None
        if event.flow:
            continues = "continue" in event.flow
            flow = Flow(event.flow, max_continuations if continues else None)
        return cls(
            effects=effects,
            modify=Modify() if event.target else None,
            flow=flow,
            inject=Inject() if "inject" in event.effects else None,
            elicitation=Elicitation(url=True) if "elicitation" in event.name else None,
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all granted effects, as ``capabilities.effects`` has them."""
        details = tuple(name for name in ("modify", "flow", "inject") if getattr(self, name))
        return (*self.effects, *details)

    def to_json(self, event_type: str) -> dict[str, Any]:
        """Return ``params.capabilities`` for an event of this type."""
        block: dict[str, Any] = {"effects": list(self.names)}
        target = EVENTS[event_type].target
        if self.modify is not None and target is not None:
            block["modify"] = {target.name: self.modify.to_json()}
        for name in ("flow", "inject", "elicitation"):
            details = getattr(self, name)
            if details is not None:
                block[name] = details.to_json()
        return block

    def narrows(self, declared: Grant) -> bool:
        """Return whether nothing is granted here that ``declared`` does not grant (R-CAP-01)."""
        if not set(self.effects) <= set(declared.effects):
            return False
        for name in ("modify", "flow", "inject", "elicitation"):
            mine, theirs = getattr(self, name), getattr(declared, name)
            if mine is not None and (theirs is None or not mine.narrows(theirs)):
                return False
        return True

    def check(self, event_type: str) -> None:
        """Raise :class:`ValueError` where the protocol lets this event have less than this."""
        event = _interceptable(event_type)
        for name in self.names:
            if name not in event.effects and name != "message":
                raise ValueError(f"{name} can't be granted at {event_type}")
        foreign = set(self.flow.operations) - set(event.flow) if self.flow else ()
        for operation in foreign:
            raise ValueError(f"flow {operation} can't be granted at {event_type}")


def _interceptable(event_type: str) -> EventType:
    event = EVENTS.get(event_type)
    if event is None:
        raise ValueError(f"there is no event {event_type!r}")
    if not event.interceptable:
        raise ValueError(f"{event_type} can only be observed")
    return event


def chosen(value: Any, known: tuple[str, ...], what: str, *, least: int = 1) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise TypeError(f"{what} must be a collection of {', '.join(known)}, not {value!r}")
    names = tuple(value)
    for name in names:
        if name not in known:
            raise ValueError(f"{what} must be of {', '.join(known)}, not {name!r}")
    if len(set(names)) != len(names):
        raise ValueError(f"{what} names something twice")
    if len(names) < least:
        raise ValueError(f"{what} must not be empty")
    return names


def check_booleans(block: Any, *names: str) -> None:
    for name in names:
        if not isinstance(getattr(block, name), bool):
            raise TypeError(f"{name} must be True or False, not {getattr(block, name)!r}")


def check_count(value: Any, name: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an integer, not {value!r}")
    if value < 0:
        raise ValueError(f"{name} must not be negative, not {value}")
