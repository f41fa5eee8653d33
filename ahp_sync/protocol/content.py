"""What a receiver may see of an event: its own projection, made before anything is serialised.

The selection of the subscription and that of each part are combined, the lower one counts
(R-CON-04). Only schema-owned slots are projected; ``native`` and ``extensions`` are the host's own
(R-CON-05).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Optional

__all__ = ["ContentSelection", "project", "text_message"]

_LEVELS = ("omit", "metadata", "body")
_FAMILIES = {"image": "images", "audio": "audio", "video": "video"}


@dataclass(frozen=True)
class ContentSelection:
    """What a subscription sees of content: "body", "metadata" or "omit" by category (R-REG-06)."""

    default: str
    categories: tuple[tuple[str, str], ...] = ()

    def level(self, category: str) -> str:
        """Return the level for a category; one that is not listed has the default (R-CON-03)."""
        return dict(self.categories).get(category, self.default)


def text_message(text: str, *, role: str, prefix: str) -> dict[str, Any]:
    """Return a message of one text part whose ids were made up here, and say so (R-EVT-04)."""
    part = {
        "id": f"{prefix}-part-1",
        "kind": "text",
        "mediaType": "text/plain",
        "selection": "body",
        "synthesized": True,
        "text": text,
    }
    return {"id": prefix, "role": role, "synthesized": True, "parts": [part]}


def project(
    event: dict[str, Any], content: ContentSelection, *, include_native: bool
) -> dict[str, Any]:
    """Return the event as a subscription may see it. The event itself is not changed.

    ``native`` goes only to subscriptions with ``includeNative``.
    """
    hidden = "native" in event and not include_native
    if not hidden and "items" not in event and "fileChanges" not in event:
        return event
    view = dict(event)
    if hidden:
        del view["native"]
    if "items" in view:
        view["items"] = [_item(item, content) for item in view["items"]]
    if "fileChanges" in view:
        view["fileChanges"] = [_file_change(change, content) for change in view["fileChanges"]]
    return view


def _item(item: dict[str, Any], content: ContentSelection) -> dict[str, Any]:
    if "parts" in item:
        return {**item, "parts": [_part(part, content) for part in item["parts"]]}
    return _part(item, content)


def _file_change(change: dict[str, Any], content: ContentSelection) -> dict[str, Any]:
    view = dict(change)
    for side in ("before", "after"):
        if side in change:
            view[side] = _part(change[side], content)
    return view


def _part(part: dict[str, Any], content: ContentSelection) -> dict[str, Any]:
    wanted = content.level(category_of(part))
    level = min(wanted, part["selection"], key=_LEVELS.index)
    if level == part["selection"] and wanted != "omit":
        return part
    view = {name: part[name] for name in part if name not in ("text", "body", "gap")}
    if wanted == "omit":  # what may not be seen may not be measured either (D-22)
        view.pop("size", None)
        view.pop("sha256", None)
    view["selection"] = level
    return view


def category_of(part: dict[str, Any]) -> str:
    """Return the content category of a part (R-CON-03)."""
    explicit: Optional[str] = part.get("category")
    if explicit is not None:
        return explicit
    if part["kind"] == "text":
        return "text"
    return _FAMILIES.get(part["mediaType"].partition("/")[0].lower(), "files")
