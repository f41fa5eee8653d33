"""What a receiver may see of an event: its own projection, made before anything is serialised.

The selection of the subscription and that of each part are combined, the lower one counts
(R-CON-04). Only schema-owned slots are projected; ``native``, ``extensions``, tool input and the
state of a task are the host's own (R-CON-05). ``includeNative`` is for the event's own ``native``.
That of an ``error``, at ``turn.end``, ``model.error`` and ``tool.after``, is a member of the
payload like its ``message``: it goes to whoever gets the event, here as in the official SDK.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, Optional

from ahp_sync.protocol.slots import part_paths, replaced

__all__ = ["ContentSelection", "category_of", "project"]

_RANK = {"omit": 0, "metadata": 1, "body": 2}
_FAMILIES = {"image": "images", "audio": "audio", "video": "video"}
# What is left of a part without its body; a list of what stays can't forget what has to go.
_METADATA = ("id", "kind", "mediaType", "category", "synthesized", "size", "sha256")
_OMIT = _METADATA[:5]  # what may not be seen may not be measured either (D-22)


@dataclass(frozen=True)
class ContentSelection:
    """What a subscription sees of content: "body", "metadata" or "omit" by category (R-REG-06)."""

    default: str
    categories: tuple[tuple[str, str], ...] = ()

    def level(self, category: str) -> str:
        """Return the level for a category; one that is not listed has the default (R-CON-03)."""
        for name, level in self.categories:
            if name == category:
                return level
        return self.default


def project(
    event: dict[str, Any], content: ContentSelection, *, include_native: bool
) -> dict[str, Any]:
    """Return a valid event as a subscription may see it.

    ``native`` goes only to subscriptions with ``includeNative``. The event itself is not changed;
    the view shares whatever is the same, and is the event itself where nothing is hidden.
    """
    view = event
    if "native" in event and not include_native:
        view = {name: value for name, value in event.items() if name != "native"}
    for path in part_paths(event["type"]):
        if path[0] in event:
            view = replaced(view, path, functools.partial(_part, content=content))
    return view


def _part(part: dict[str, Any], content: ContentSelection) -> dict[str, Any]:
    selection = part["selection"]
    level = min(content.level(category_of(part)), selection, key=_RANK.__getitem__)
    if level == "body":
        return part
    kept = _METADATA if level == "metadata" else _OMIT
    view = {name: part[name] for name in kept if name in part}
    view["selection"] = level
    return part if len(view) == len(part) and level == selection else view


def category_of(part: dict[str, Any]) -> str:
    """Return the content category of a part (R-CON-03). The case of a media type is no matter."""
    explicit: Optional[str] = part.get("category")
    if explicit is not None:
        return explicit
    if part["kind"] == "text":
        return "text"
    family, slash, _ = part["mediaType"].partition("/")
    return _FAMILIES.get(family.lower(), "files") if slash else "files"
