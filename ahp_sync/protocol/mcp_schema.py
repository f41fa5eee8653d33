"""Where a tool of origin ``mcp`` lives (section 5 of the wire reference): no credentials in it.

What is not known of a connection is named as a gap; it is never just left out.
"""

from __future__ import annotations

from ahp_sync.protocol.schema_forms import END, NAME, TEXT, Schema, array, closed, one_of
from ahp_sync.protocol.uri import URI

__all__ = ["MCP"]

_GAPS = array(closed({"path": NAME, "reason": NAME}), minItems=1)


def _connection(transport: Schema, **members: Schema) -> Schema:
    """A connection each of whose ``members`` is there, or is named as a gap."""
    return {
        **closed({"transport": transport}, {**members, "gaps": _GAPS}),
        "allOf": [{"anyOf": [{"required": [name]}, _gapped(name)]} for name in members],
    }


def _gapped(name: str) -> Schema:
    entry = {"properties": {"path": {"const": name}}}
    return {"required": ["gaps"], "properties": {"gaps": {"contains": entry}}}


_URL: Schema = {"type": "string", "pattern": f"^(?=https?://){URI}{END}"}
_CONNECTION: Schema = {
    "oneOf": [
        _connection({"const": "http"}, url=_URL),
        _connection({"const": "sse"}, url=_URL),
        _connection({"const": "stdio"}, command=NAME, args=array(TEXT), cwd=NAME),
        _connection(
            {"type": "string", "pattern": "^_.", "minLength": 2}, addressForm=NAME, address=NAME
        ),
    ]
}
MCP = closed(
    {
        "server": closed({"id": NAME}, {"name": NAME}),
        "toolName": NAME,
        "provenance": one_of("runtime", "inferred"),
        "connection": _CONNECTION,
    }
)
