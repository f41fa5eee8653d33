"""Where a tool of origin ``mcp`` lives (section 5 of the wire reference): no credentials in it.

What is not known of a connection is named as a gap; it is never just left out.
"""

from __future__ import annotations

from ahp_sync.protocol.schema_forms import END, NAME, TEXT, Schema, array, closed, one_of, when
from ahp_sync.protocol.uri import URI

__all__ = ["MCP"]

_GAPS = array(closed({"path": NAME, "reason": NAME}), minItems=1)


def _connection(**members: Schema) -> Schema:
    """A connection each of whose ``members`` is there, or is named as a gap."""
    return {
        **closed({"transport": TEXT}, {**members, "gaps": _GAPS}),
        "allOf": [{"if": {"required": [name]}, "else": _gapped(name)} for name in members],
    }


def _gapped(name: str) -> Schema:
    entry = {"required": ["path"], "properties": {"path": {"const": name}}}
    return {"required": ["gaps"], "properties": {"gaps": {"contains": entry}}}


_REMOTE = _connection(url={"type": "string", "pattern": f"^(?=https?://){URI}{END}"})
_LOCAL = _connection(command=NAME, args=array(TEXT), cwd=NAME)
_CUSTOM = _connection(addressForm=NAME, address=NAME)
_CONNECTION: Schema = {
    "type": "object",
    "required": ["transport"],
    "properties": {"transport": {"type": "string", "pattern": f"^(?:(?:http|sse|stdio){END}|_.)"}},
    **when("transport", ["http", "sse"], _REMOTE, when("transport", ["stdio"], _LOCAL, _CUSTOM)),
}
MCP = closed(
    {
        "server": closed({"id": NAME}, {"name": NAME}),
        "toolName": NAME,
        "provenance": one_of("runtime", "inferred"),
        "connection": _CONNECTION,
    }
)
