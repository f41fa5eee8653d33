"""What the host can do with an answer: declared once for a client, narrowed for a call.

Nothing is granted that is not declared here (R-CAP-01), and a declaration that the protocol does
not know is refused at once. What the host enforces only it can say (R-CAP-02).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Optional

from ahp_sync.grants import Grant, check_booleans, check_count, chosen
from ahp_sync.protocol.events import EVENTS, EventType, Mode

__all__ = ["Capabilities"]

_SCOPES = ("user", "project", "managed")
_NAMES = ("tool_paths", "content_categories", "correlation_identity_fields")
_LIMITS = ("maxUploadBytes", "maxContinuations", "minTimeoutMs", "maxTimeoutMs")


@dataclass(frozen=True)
class Capabilities:
    """What the host of one client can do: at which events, and with which answers.

    :param intercept: the events at which backends are asked, each with its :class:`Grant`.
    :param observe: the names of the events that observers are told about; all by default.
    :param gaps: what the host can't tell, as ``(path, reason)``.
    :param tool_paths: the ways in which tools are reached, as the events' ``path`` has them.
    :param content_categories: the content categories that the host's messages may have.
    :param limits: of ``maxUploadBytes``, ``maxContinuations``, ``minTimeoutMs`` and
        ``maxTimeoutMs`` those that the host has; the last two bound ``timeoutMs`` (R-REG-10).
    :param policy_scopes: the scopes of subscriptions that the host serves. A host whose users can
        get around the client can't enforce ``"managed"`` and has to leave it out (R-REG-09).
    :param disableable: whether the host lets its users switch subscriptions off. The client has no
        such switch; a host that built one serves no managed scope, and nothing that says
        ``"disableable": false``.
    :param correlation_identity_fields: the members by which events can be brought together.

    An intercepted event can be observed, too. The default is to let backends deny tool calls, and
    to tell about everything. Raises :class:`TypeError` and :class:`ValueError` for what the
    protocol does not know, such as an effect that an event can't have.
    """

    intercept: Mapping[str, Grant] = field(
        default_factory=lambda: {"tool.before": Grant(("deny",))}
    )
    observe: Iterable[str] = tuple(EVENTS)
    gaps: tuple[tuple[str, str], ...] = ()
    tool_paths: tuple[str, ...] = ("native",)
    content_categories: tuple[str, ...] = ("text", "images", "audio", "video", "files")
    limits: Mapping[str, int] = field(default_factory=dict)
    policy_scopes: tuple[str, ...] = _SCOPES
    disableable: bool = False
    correlation_identity_fields: tuple[str, ...] = ("id", "session.id", "turn.id", "call.id")

    def __post_init__(self) -> None:
        for attribute in ("intercept", "limits"):
            if not isinstance(getattr(self, attribute), Mapping):
                raise TypeError(f"{attribute} must be a mapping, not {getattr(self, attribute)!r}")
        for name, grant in self.intercept.items():
            if not isinstance(grant, Grant):
                raise TypeError(f"{name}: a Grant is wanted, not {grant!r}")
            grant.check(name)
        observe = frozenset(_names(self.observe, "observe"))
        for name in observe - EVENTS.keys():
            raise ValueError(f"there is no event {name!r}")
        for name, limit in self.limits.items():
            if name not in _LIMITS:
                raise ValueError(f"there is no limit {name!r}, only {', '.join(_LIMITS)}")
            check_count(limit, name)
        scopes = chosen(self.policy_scopes, _SCOPES, "policy_scopes", least=0)
        check_booleans(self, "disableable")
        if self.disableable and "managed" in scopes:
            raise ValueError("a host with disableable hooks can't serve the managed scope")
        fixed: dict[str, Any] = {
            **{attribute: _names(getattr(self, attribute), attribute) for attribute in _NAMES},
            "gaps": tuple(_gap(gap) for gap in self.gaps),
            "policy_scopes": scopes,
            "intercept": MappingProxyType(dict(self.intercept)),
            "observe": observe.union(self.intercept),
            "limits": MappingProxyType(dict(self.limits)),
        }
        for attribute, value in fixed.items():
            object.__setattr__(self, attribute, value)

    @classmethod
    def whole(cls, *, max_continuations: int = 1) -> Capabilities:
        """Return everything at every event: for tests, and for a host that enforces all of it."""
        return cls(
            {
                name: Grant.whole(name, max_continuations=max_continuations)
                for name, event in EVENTS.items()
                if event.interceptable
            }
        )

    def supports(self, event: EventType, mode: Mode) -> bool:
        """Return whether the host raises this event and serves subscriptions of this mode to it."""
        return event.name in (self.intercept if mode is Mode.INTERCEPT else self.observed)

    @property
    def observed(self) -> frozenset[str]:
        """The names of all events that observers are told about."""
        assert isinstance(self.observe, frozenset)
        return self.observe

    def granted(
        self, event_type: str, narrowed: Optional[Grant], count: Optional[int] = None
    ) -> Optional[Grant]:
        """Return what a call grants: what is declared, or less; None where nobody may decide.

        ``count`` is how often the event's turn was continued already, where it tells. Raises
        :class:`ValueError` where ``narrowed`` grants more than was declared (R-CAP-01).
        """
        if not (narrowed is None or isinstance(narrowed, Grant)):
            raise TypeError(f"capabilities must be a Grant, not {type(narrowed).__name__}")
        # Both are counted before they are compared: what is used up can't be granted again.
        declared = _counted(self.intercept.get(event_type), count)
        narrowed = _counted(narrowed, count)
        if narrowed is None:
            return declared
        if declared is None or not narrowed.narrows(declared):
            raise ValueError(f"no more than what was declared for {event_type}")
        return narrowed

    def manifest(self) -> dict[str, Any]:
        """Return the harness manifest: ``session.start`` brings it along (R-CAP-06)."""
        events = []
        for name in EVENTS:
            if name not in self.observed:
                continue
            entry: dict[str, Any] = {"event": name, "modes": ["observe"]}
            if name in self.intercept:
                entry["modes"].append("intercept")
                entry["capabilities"] = self.intercept[name].to_json(name)
            events.append(entry)
        return {
            "events": events,
            "gaps": [{"path": path, "reason": reason} for path, reason in self.gaps],
            "transports": ["http", "stdio"],
            "authentication": ["bearer", "oauth"],
            "toolPaths": list(self.tool_paths),
            "contentCategories": list(self.content_categories),
            "limits": dict(self.limits),
            "managedPolicy": {
                "scopes": list(self.policy_scopes),
                "disableable": self.disableable,
            },
            "correlationIdentityFields": list(self.correlation_identity_fields),
        }


def _counted(grant: Optional[Grant], count: Optional[int]) -> Optional[Grant]:
    flow = None if grant is None else grant.flow
    if grant is None or flow is None or flow.continuation_count is not None or count is None:
        return grant
    # A JSON reader may have made 2.0 of it, which is the integer 2 to a schema (T-16).
    return replace(grant, flow=replace(flow, continuation_count=int(count)))


def _names(value: Any, what: str) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise TypeError(f"{what} must be a collection of names, not {value!r}")
    names = tuple(value)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"{what} must hold strings, not {name!r}")
    if not all(names) or len(set(names)) != len(names):
        raise ValueError(f"{what} must hold names, each of them once")
    return names


def _gap(gap: Any) -> tuple[str, str]:
    if not isinstance(gap, tuple) or [type(word) for word in gap] != [str, str]:
        raise TypeError(f"a gap must be a path and a reason, not {gap!r}")
    if not all(gap):
        raise ValueError("a gap needs a path and a reason")
    return gap
