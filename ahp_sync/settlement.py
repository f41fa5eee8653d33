"""Settlement: what accepted effects make of an event. Pure functions, no clock and no I/O.

A state is replaced as a whole or not at all, so a response applies fully or leaves no trace
(R-SET-03).
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Callable, NamedTuple, Optional

from ahp_sync.protocol.edits import Edit, Shown, Supplied, edited, supplied

__all__ = ["Candidate", "Denial", "HostState", "Permission", "State", "settle"]


class Permission(str, enum.Enum):
    """The accumulated permission of a chain; a later member beats the earlier ones (R-SET-07)."""

    NONE = "none"
    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Candidate:
    """A supplied result that is not yet deliverable.

    ``value`` may be None, which is a result (T-07); ``provenance`` is the host's own word about a
    result that it brought along itself.
    """

    value: Any
    provenance: Optional[Mapping[str, Any]] = None

    def to_json(self) -> dict[str, Any]:
        """Return ``params.state.candidate``."""
        if self.provenance is None:
            return {"value": self.value}
        return {"value": self.value, "provenance": self.provenance}


@dataclass(frozen=True)
class HostState:
    """What the host itself had settled about an occurrence before any backend is asked (R-CAP-05).

    :param permission: ``"none"``, ``"allow"``, ``"ask"`` or ``"deny"``.
    :param flow: ``"none"``, ``"stop"`` or ``"continue"``.

    With a denial or a stop no interceptor is called. What is wrong with it the hook call says, by
    :class:`InvalidEvent`.
    """

    permission: str = "none"
    candidate: Optional[Candidate] = None
    flow: Optional[str] = None
    instructions: Optional[Sequence[str]] = None
    injections: Sequence[Mapping[str, Any]] = ()

    def to_json(self) -> dict[str, Any]:
        """Return it as ``params.state``; what is not there is left out (R-CAP-04).

        Nothing is checked: what the host put in stands there, for the schema to judge.
        """
        candidate: Any = self.candidate
        if isinstance(candidate, Candidate):
            candidate = candidate.to_json()
        state: dict[str, Any] = {"permission": self.permission, "candidate": candidate}
        if self.flow is not None:
            state["flow"] = self.flow
        if self.instructions is not None:
            state["instructions"] = _listed(self.instructions)
        if self.injections != ():
            state["injections"] = _listed(self.injections)
        return state


class Denial(NamedTuple):
    """A backend's own words for a denial, its reverse-DNS code and its extensions, where given."""

    reason: str
    code: Optional[str] = None
    extensions: Optional[Mapping[str, Any]] = None


@dataclass(frozen=True)
class State:
    """What a chain has settled so far: the effective event and all that was said about it.

    ``flow`` and ``instructions`` are None where nothing was said. ``remaining`` counts the
    continuations that are left, None where none are granted. ``denial`` is the first one, ``stop``
    the reason of the first stop.
    """

    event: dict[str, Any]
    permission: Permission = Permission.NONE
    candidate: Optional[Candidate] = None
    flow: Optional[str] = None
    instructions: Optional[tuple[str, ...]] = None
    injections: tuple[dict[str, Any], ...] = ()
    messages: tuple[str, ...] = ()
    remaining: Optional[int] = None
    denial: Optional[Denial] = None
    stop: Optional[str] = None

    @classmethod
    def begin(
        cls, event: dict[str, Any], host: Mapping[str, Any], remaining: Optional[int]
    ) -> State:
        """Return the state before the first interceptor; ``host`` is a valid ``params.state``."""
        given = host["candidate"]
        return cls(
            event,
            permission=Permission(host["permission"]),
            candidate=given and Candidate(given["value"], given.get("provenance")),
            flow=host.get("flow"),
            instructions=tuple(host["instructions"]) if "instructions" in host else None,
            injections=tuple(host.get("injections", ())),
            remaining=remaining,
        )

    @property
    def ended(self) -> bool:
        """Whether no further interceptor may be called (R-SET-08)."""
        return self.permission is Permission.DENY or self.flow == "stop"

    def advertised(self) -> dict[str, Any]:
        """Return ``params.state``: what the next interceptor is told (R-CAP-04)."""
        return HostState(
            self.permission.value, self.candidate, self.flow, self.instructions, self.injections
        ).to_json()


def settle(
    state: State,
    effects: tuple[dict[str, Any], ...],
    shown: Shown,
    check: Optional[Callable[[], object]] = None,
) -> State:
    """Return the state after one response whose effects were admitted.

    All edits come first, in order; a changed operation loses an inherited candidate and an
    inherited approval; then the rest applies, in order, to the changed operation (R-SET-04,
    R-SET-05). Raises ``OperationalFailure`` where an edit or a result can't be accepted; the whole
    response is refused then.

    :param shown: what the interceptor was sent.
    :param check: as in ``admitted_effects``.
    """
    if not effects:
        return state
    staging = _Staging(state, edited(state.event, effects, shown, check))
    for effect in effects:
        staging.take(effect)
    return staging.state(supplied(effects, shown, check))


class _Staging:
    """A state in the making; lists, since a response may have very many effects."""

    def __init__(self, state: State, edit: Edit) -> None:
        self._before = state
        self._event = edit.event
        self._permission = state.permission
        self._candidate = state.candidate
        if edit.changed:
            self._candidate = None
            if self._permission is Permission.ALLOW:
                self._permission = Permission.NONE
        self._flow = state.flow
        self._instructions = None if state.instructions is None else list(state.instructions)
        self._injections = list(state.injections)
        self._messages = list(state.messages)
        self._denial, self._stop = state.denial, state.stop
        self._continued = False

    def take(self, effect: dict[str, Any]) -> None:
        """Apply one effect; edits and results are not for here."""
        kind = effect["type"]
        if kind == "deny":
            self._permission = Permission.DENY
            self._denial = self._denial or Denial(
                effect["reason"], effect.get("code"), effect.get("extensions")
            )
        elif kind in ("allow", "ask"):
            self._permission = _stronger(self._permission, Permission(kind))
        elif kind == "message":
            self._messages.append(effect["text"])
        elif kind == "inject":
            self._injections.append(effect)
        elif kind == "flow" and effect["operation"] == "stop":
            self._flow = "stop"
            self._stop = self._stop or effect["reason"]
        elif kind == "flow":
            self._continue(effect.get("instruction"))

    def _continue(self, instruction: Optional[str]) -> None:
        self._continued = True
        if self._flow != "stop":  # which is the stronger one, in any order (R-SET-10)
            self._flow = "continue"
        if self._instructions is None:
            self._instructions = []
        if instruction is not None:
            self._instructions.append(instruction)

    def state(self, result: Optional[Supplied]) -> State:
        """Return the new state, with the result that the response supplied, if any."""
        remaining = self._before.remaining
        # Several continues in one response are one; with a stop there is none (R-SET-11, D-19).
        if self._continued and self._flow == "continue" and remaining is not None:
            remaining -= 1
        return State(
            self._event,
            permission=self._permission,
            candidate=self._candidate if result is None else Candidate(result.value),
            flow=self._flow,
            instructions=None if self._instructions is None else tuple(self._instructions),
            injections=tuple(self._injections),
            messages=tuple(self._messages),
            remaining=remaining,
            denial=self._denial,
            stop=self._stop,
        )


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _stronger(one: Permission, other: Permission) -> Permission:
    order = list(Permission)
    return max(one, other, key=order.index)
