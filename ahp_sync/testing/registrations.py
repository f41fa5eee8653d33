"""Short ways to write a ``hooks.json`` mapping for a scripted backend."""

from __future__ import annotations

from typing import Any, Dict, Iterable, Mapping, Optional

__all__ = ["hooks", "intercept", "observe"]

TRANSPORT_MEMBERS = ("url", "headers", "command", "args", "lifecycle", "cwd", "env")


def intercept(
    events: Iterable[str] = ("tool.before",),
    *,
    timeout_ms: int = 1000,
    policy: str = "fail-closed",
    content: Optional[Mapping[str, str]] = None,
    **more: Any,
) -> Dict[str, Any]:
    """Return an intercept subscription; ``more`` goes into it under the names of the protocol."""
    return {
        "events": list(events),
        "mode": "intercept",
        "timeoutMs": timeout_ms,
        "failurePolicy": policy,
        "content": dict(content or {"default": "body"}),
        **more,
    }


def observe(
    events: Iterable[str] = ("tool.before", "tool.after", "session.start", "session.end"),
    *,
    content: Optional[Mapping[str, str]] = None,
    **more: Any,
) -> Dict[str, Any]:
    """Return an observe subscription; ``more`` goes into it under the names of the protocol."""
    return {
        "events": list(events),
        "mode": "observe",
        "content": dict(content or {"default": "body"}),
        **more,
    }


def hooks(*entries: Mapping[str, Any]) -> Dict[str, Any]:
    """Return a registration document of the given backend entries."""
    return {"protocolVersion": "draft", "hooks": [dict(entry) for entry in entries]}


class Registrable:
    """What both scripted backends offer to register them with."""

    #: The backend's id in registrations, unless another is asked for.
    default_id = "com.example.scripted"

    def transport(self) -> Dict[str, Any]:
        """Return the ``transport`` object of the backend's entry."""
        raise NotImplementedError

    def entry(
        self,
        *,
        id: Optional[str] = None,
        subscriptions: Optional[Iterable[Mapping[str, Any]]] = None,
        authentication: Optional[Mapping[str, Any]] = None,
        **arguments: Any,
    ) -> Dict[str, Any]:
        """Return this backend's entry for the ``hooks`` list of a registration.

        Members of the transport object (``headers``, ``env``, ``cwd``, ``lifecycle``, …) are added
        to it. Without ``subscriptions`` the entry has one, made by :func:`intercept` of the other
        arguments (``timeout_ms``, ``policy``, ``events``, ``content``, …).
        """
        transport = {k: arguments.pop(k) for k in TRANSPORT_MEMBERS if k in arguments}
        if subscriptions is None:
            subscriptions = [intercept(**arguments)]
        elif arguments:
            raise TypeError(f"with subscriptions= these have no place: {', '.join(arguments)}")
        entry: Dict[str, Any] = {
            "id": id or self.default_id,
            "transport": {**self.transport(), **transport},
            "subscriptions": [dict(one) for one in subscriptions],
        }
        if authentication is not None:
            entry["authentication"] = dict(authentication)
        return entry

    def registration(self, **arguments: Any) -> Dict[str, Any]:
        """Return a registration of this backend alone; the arguments are those of :meth:`entry`."""
        return hooks(self.entry(**arguments))
