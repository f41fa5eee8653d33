"""Our own JSON schema documents, each under its name: ``event:tool.before``, ``effect:deny``, ….

They are small and hold no reference, so that the pure-Python validator stays cheap (design
decision 6). An event's document covers what a call brings along; ``source``, ``type``, ``time`` and
``harness`` are made or checked by the client itself. ``format`` is not relied on (F64).
"""

from __future__ import annotations

from ahp_sync.protocol.content_schema import MESSAGE, PART
from ahp_sync.protocol.effect_schema import EFFECT_SCHEMAS, STATE_SCHEMAS
from ahp_sync.protocol.elicitation_schema import REQUEST, RESULT
from ahp_sync.protocol.event_schema import EXTENSIONS
from ahp_sync.protocol.event_schema_model import MODEL_EVENTS
from ahp_sync.protocol.event_schema_session import SESSION_EVENTS
from ahp_sync.protocol.event_schema_tool import TOOL_EVENTS
from ahp_sync.protocol.event_schema_user import USER_EVENTS
from ahp_sync.protocol.event_schema_work import WORK_EVENTS
from ahp_sync.protocol.manifest_schema import CAPABILITIES, MANIFEST
from ahp_sync.protocol.schema_forms import Schema

__all__ = ["EFFECT_SCHEMAS", "EVENT_SCHEMAS", "SCHEMAS"]

EVENT_SCHEMAS: dict[str, Schema] = {
    **SESSION_EVENTS,
    **MODEL_EVENTS,
    **TOOL_EVENTS,
    **USER_EVENTS,
    **WORK_EVENTS,
}

SCHEMAS: dict[str, Schema] = {
    **{f"event:{name}": schema for name, schema in EVENT_SCHEMAS.items()},
    **{f"effect:{name}": schema for name, schema in EFFECT_SCHEMAS.items()},
    **{f"state:{shape}": schema for shape, schema in STATE_SCHEMAS.items()},
    **{f"capabilities:{name}": schema for name, schema in CAPABILITIES.items()},
    "manifest": MANIFEST,
    "message": MESSAGE,
    "part": PART,
    "extensions": EXTENSIONS,
    "elicitation:request": REQUEST,
    "elicitation:result": RESULT,
}
