"""Calls of the client's typed methods, drawn at random: valid ones, and spoiled ones."""

from __future__ import annotations

import copy
from datetime import datetime, timedelta, timezone
from typing import Any

from hypothesis import strategies as st

from ahp_sync.protocol.events import EVENTS

Call = tuple[str, dict[str, Any]]

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NAME = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
NUMBER = (
    st.integers() | st.integers(10**18, 10**30) | st.floats(allow_nan=False, allow_infinity=False)
)
JSON = st.recursive(
    st.none() | st.booleans() | NUMBER | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
OBJECT = st.dictionaries(TEXT, JSON, max_size=3)
COUNT = st.integers(0, 2**70) | st.sampled_from([0.0, 2.0, 1e300])
COUNTERS = st.dictionaries(TEXT, COUNT, max_size=3)
FLAG = {"synthesized": st.booleans()}


def obj(required: dict[str, Any], optional: Any = None) -> Any:
    """An object of these members; they are strategies, or constants as they are."""

    def strategy(value: Any) -> Any:
        return value if isinstance(value, st.SearchStrategy) else st.just(value)

    return st.fixed_dictionaries(
        {name: strategy(value) for name, value in required.items()},
        optional={name: strategy(value) for name, value in (optional or {}).items()},
    )


# --- content ----------------------------------------------------------------------------------

MEDIA = st.sampled_from(
    [
        "image/png",
        "application/pdf",
        "application/jsonl",
        "image/svg+xml",
        "AUDIO/ogg; a=b",
        "x",
        "Ü",
    ]
)
SELECTION = st.sampled_from(["metadata", "omit"])
MEASURES = {"size": COUNT, "sha256": st.text("0123456789abcdef", min_size=64, max_size=64)}
GAP = obj({"reason": NAME}, {"path": NAME})
PART_MORE = {"category": NAME, **FLAG}
TEXT_HEAD: dict[str, Any] = {"id": NAME, "kind": "text", "mediaType": "text/plain"}
FILE_HEAD: dict[str, Any] = {"id": NAME, "kind": "attachment", "mediaType": MEDIA}
PART = (
    obj({**TEXT_HEAD, "selection": "body", "text": TEXT}, PART_MORE)
    | obj({**TEXT_HEAD, "selection": "body", "gap": GAP}, {**PART_MORE, **MEASURES})
    | obj({**TEXT_HEAD, "selection": SELECTION}, {**PART_MORE, **MEASURES})
    | obj({**FILE_HEAD, "selection": "body", "gap": GAP}, {**PART_MORE, **MEASURES})
    | obj({**FILE_HEAD, "selection": SELECTION}, {**PART_MORE, **MEASURES})
)
ROLE = st.sampled_from(["system", "developer", "user", "assistant", "tool"])


def _named(messages: list[Any]) -> list[Any]:
    """Return the messages with ids of their own, and their parts likewise (R-EVT-03)."""
    return [
        {
            **message,
            "id": f"{message['id']}-{i}",
            "parts": [
                {**part, "id": f"{part['id']}-{i}-{j}"} for j, part in enumerate(message["parts"])
            ],
        }
        for i, message in enumerate(messages)
    ]


MESSAGES = st.lists(
    obj({"id": NAME, "role": ROLE, "parts": st.lists(PART, max_size=2)}, FLAG), max_size=2
).map(_named)

# --- what all calls share -----------------------------------------------------------------------

EXTENSIONS = st.dictionaries(
    st.from_regex(r"([A-Za-z][A-Za-z0-9_-]{0,3}\.){1,2}[A-Za-z][A-Za-z0-9_-]{0,3}", fullmatch=True),
    JSON,
    max_size=2,
)
ZONE = st.timedeltas(timedelta(hours=-23), timedelta(hours=23)).map(timezone) | st.just(
    timezone.utc
)
TIME = st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29), timezones=ZONE)
SESSION = NAME | obj(
    {"id": NAME},
    {
        "cwd": TEXT,
        "workspaceRoots": st.lists(TEXT, max_size=2),
        "model": TEXT,
        "agent": obj({"id": NAME}, {"type": TEXT, "more": JSON}),
        "counters": COUNTERS,
        "x-more": JSON,
        **FLAG,
    },
)
COMMON: dict[str, Any] = {
    "parent_event_id": NAME.map("parent-{}".format),  # of another event than this (R-EVT-03)
    "extensions": EXTENSIONS,
    "native": JSON,
    "event_id": NAME,
    "time": TIME,
}

# --- tools --------------------------------------------------------------------------------------

GAPS = {"reason": NAME}


def connection(transport: Any, members: dict[str, Any]) -> Any:
    """A connection whose members are there, or named as gaps."""

    def build(values: dict[str, Any], gapped: set[str], reason: str) -> dict[str, Any]:
        whole = {name: value for name, value in values.items() if name not in gapped}
        gaps = [{"path": name, "reason": reason} for name in sorted(gapped)]
        return {**whole, **({"gaps": gaps} if gaps else {})}

    return st.builds(
        build,
        obj({"transport": transport, **members}),
        st.sets(st.sampled_from(sorted(members))),
        NAME,
    )


URL = st.sampled_from(["http://mcp.example", "https://[::1]:8080/a%20b?c=d#e"])
CONNECTION = (
    connection(st.sampled_from(["http", "sse"]), {"url": URL})
    | connection("stdio", {"command": NAME, "args": st.lists(TEXT, max_size=2), "cwd": NAME})
    | connection(NAME.map(lambda name: f"_{name}"), {"addressForm": NAME, "address": NAME})
)
MCP = obj(
    {
        "server": obj({"id": NAME}, {"name": NAME}),
        "toolName": NAME,
        "provenance": st.sampled_from(["runtime", "inferred"]),
        "connection": CONNECTION,
    }
)
ORIGIN = obj({"origin": "native"}) | obj({"origin": "mcp", "mcp": MCP})
BATCH = obj({"id": NAME, "callIds": st.lists(NAME, min_size=1, max_size=3, unique=True)}, FLAG)
TURN = obj({"id": NAME}, {"x-more": JSON, **FLAG})
TOOL: dict[str, Any] = {"name": NAME, "input": OBJECT}
TOOL_MORE: dict[str, Any] = {
    **COMMON,
    "call_id": NAME,
    "session": SESSION,
    "kind": NAME,
    "path": NAME,
    "batch": BATCH,
    "turn": TURN,
}
SKIPPED = obj({"status": "skipped", "reason": "supplied_result"}) | obj(
    {"status": "skipped", "reason": st.sampled_from(["policy", "cancelled", "timeout", "other"])},
    {"detail": NAME},
)
EXECUTED = obj({"status": "executed"})
FAULT = obj(
    {"message": NAME, "class": NAME}, {"code": NAME, "status": NAME | st.integers(), "native": JSON}
)
FILE_CHANGE = (
    obj({"path": NAME, "change": "created"}, {"after": PART})
    | obj({"path": NAME, "change": "modified"}, {"before": PART, "after": PART})
    | obj({"path": NAME, "change": "deleted"}, {"before": PART})
    | obj({"path": NAME, "change": "moved", "previousPath": NAME}, {"before": PART, "after": PART})
)
RAN = {
    "duration_ms": st.integers(0, 10**20) | st.floats(0, 1e300),
    "file_changes": st.lists(FILE_CHANGE, max_size=2),
}
SAID = obj({}, {"output": TEXT}) | obj({"items": MESSAGES})
ENDED = (
    obj(
        {"outcome": st.sampled_from(["ok", "cancelled", "timeout"])}, {"execution": EXECUTED, **RAN}
    )
    | obj({"outcome": st.sampled_from(["ok", "cancelled", "timeout"]), "execution": SKIPPED})
    | obj({"outcome": "error", "error": FAULT}, RAN)
    | obj(
        {"outcome": "denied"},
        {"execution": obj({"status": "skipped", "reason": "policy"}, {"detail": NAME})},
    )
)


def merged(*parts: Any) -> Any:
    return st.tuples(*parts).map(lambda dicts: {key: one[key] for one in dicts for key in one})


TRIGGER = (
    obj({"trigger": st.sampled_from(["startup", "resume", "compact"])}, {"resumed_from": NAME})
    | obj({"trigger": st.sampled_from(["clear", "fork"]), "resumed_from": NAME})
    | st.just({})
)
MANIFEST = obj(
    {
        "events": st.just(
            [
                {
                    "event": "tool.before",
                    "modes": ["intercept", "observe"],
                    "capabilities": {"effects": ["deny"]},
                },
                {"event": "session.end", "modes": ["observe"]},
            ]
        ),
        "gaps": st.lists(obj({"path": NAME, "reason": NAME}), max_size=1),
        "transports": st.lists(st.sampled_from(["http", "stdio", "in_process"]), unique=True),
        "authentication": st.lists(st.sampled_from(["bearer", "oauth"]), unique=True),
        "toolPaths": st.lists(NAME, unique=True, max_size=2),
        "contentCategories": st.lists(NAME, unique=True, max_size=2),
        "limits": obj({}, {"maxUploadBytes": COUNT, "minTimeoutMs": COUNT, "maxTimeoutMs": COUNT}),
        "managedPolicy": obj({"scopes": st.just(["managed", "user"]), "disableable": False})
        | obj({"scopes": st.just(["project"]), "disableable": st.booleans()}),
        "correlationIdentityFields": st.lists(NAME, unique=True, max_size=2),
    },
    {"x-more": JSON},
)

METHODS: dict[str, Any] = {
    "tool_before": merged(obj(TOOL, TOOL_MORE), ORIGIN),
    "tool_after": merged(obj(TOOL, TOOL_MORE), ORIGIN, SAID, ENDED),
    "session_start": merged(
        obj(
            {"session": SESSION},
            {**COMMON, "permission_mode": NAME, "items": MESSAGES, "manifest": MANIFEST},
        ),
        TRIGGER,
    ),
    "session_end": obj(
        {"session": SESSION},
        {
            **COMMON,
            "outcome": st.sampled_from(["completed", "cancelled", "error", "unknown"]),
            "reason": NAME,
            "counters": COUNTERS,
        },
    ),
}


def _calls(method: str) -> Any:
    return METHODS[method].map(lambda arguments: (method, arguments))


VALID: st.SearchStrategy[Call] = st.sampled_from(sorted(METHODS)).flatmap(_calls)

# --- calls with something changed: perhaps valid still, perhaps not -------------------------------

LIKELY = st.sampled_from(
    [
        *(
            "",
            " ",
            "executed",
            "skipped",
            "policy",
            "other",
            "error",
            "ok",
            "denied",
            "fork",
            "mcp",
        ),
        *("native", "http", "stdio", "_x", "_", "body", "metadata", "text", "attachment", "moved"),
        *(
            "text/plain",
            "text/html",
            "a/JSON",
            "a/json\n",
            "a/b+json;c",
            "url",
            "command",
            "tool.before",
        ),
        *(
            "http://",
            "http:// x",
            "ftp://x",
            "observe",
            "intercept",
            "com.example\n",
            "a" * 64 + "\n",
        ),
        *(0, -1, 1.5, 1e300, -0.0, True, False, None),
    ]
)
VALUE: st.SearchStrategy[Any] = LIKELY | JSON | st.builds(list) | st.builds(dict)
MEMBER = st.sampled_from(
    [
        *(
            "id",
            "text",
            "body",
            "gap",
            "size",
            "sha256",
            "category",
            "synthesized",
            "detail",
            "reason",
        ),
        *(
            "code",
            "mcp",
            "native",
            "status",
            "before",
            "after",
            "previousPath",
            "url",
            "gaps",
            "args",
        ),
        *("cwd", "name", "type", "counters", "capabilities", "modify", "identity", "limits", "x"),
    ]
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner: list[Any] = []
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    return [path, *(place for key, one in inner for place in _places(one, (*path, key)))]


@st.composite
def _changed(draw: Any, call: Call) -> Call:
    method, arguments = call
    arguments = copy.deepcopy(arguments)
    for _ in range(draw(st.integers(1, 2))):
        *path, last = draw(st.sampled_from([p for p in _places(arguments) if p]))
        holder = arguments
        for key in path:
            holder = holder[key]
        deed = draw(st.sampled_from(["replace", "remove", "add"]))
        target = holder[last]
        if deed == "add" and isinstance(target, dict):
            target[draw(MEMBER)] = draw(VALUE)
        elif deed == "remove" and path:
            del holder[last]
        else:
            holder[last] = draw(VALUE)
    return method, arguments


CHANGED: st.SearchStrategy[Call] = VALID.flatmap(_changed)


# --- parts on which our opinion and the SDK's should be the same ----------------------------------

ANY_CONNECTION = obj(
    {"transport": st.sampled_from(["http", "sse", "stdio", "_x", "_", "x", ""])},
    {
        "url": st.sampled_from(
            ["http://a", "https://a:x", "ftp://a", "HTTP://a", "http://a b", ""]
        ),
        "command": TEXT,
        "args": st.lists(TEXT, max_size=1),
        "cwd": TEXT,
        "address": TEXT,
        "addressForm": TEXT,
        "gaps": st.lists(
            obj(
                {
                    "path": st.sampled_from(
                        ["url", "command", "args", "cwd", "address", "addressForm"]
                    )
                },
                {"reason": TEXT},
            ),
            max_size=3,
        ),
    },
)
TOOLS = obj(
    {"origin": st.sampled_from(["native", "mcp"])},
    {
        "mcp": obj(
            {
                "server": obj({"id": TEXT}, {"name": NAME}),
                "toolName": NAME,
                "provenance": st.sampled_from(["runtime", "inferred"]),
                "connection": CONNECTION | ANY_CONNECTION,
            }
        )
    },
)

EFFECTS = ["deny", "allow", "ask", "modify", "return", "message", "inject", "flow"]
TARGETS = ["input", "output", "prompt", "request", "response", "instructions", "summary"]
CHANGES = obj({}, {"replace": st.booleans(), "merge": st.booleans()})
FLOW = obj(
    {"operations": st.lists(st.sampled_from(["stop", "continue"]), max_size=2)},
    dict.fromkeys(("remainingContinuations", "continuationCount", "maxContinuations"), COUNT),
)
DELIVER = st.lists(st.sampled_from(["now", "next_turn"]), max_size=2)
CAPABILITIES = obj(
    {},
    {
        "effects": st.lists(st.sampled_from(EFFECTS), max_size=3),
        "modify": st.dictionaries(st.sampled_from([*TARGETS, "content", "workspace"]), CHANGES),
        "flow": FLOW,
        "inject": obj({"context": obj({"append": st.booleans()}, {"deliverAt": DELIVER})}),
        "elicitation": obj({}, {"form": OBJECT, "url": OBJECT}),
    },
)


@st.composite
def _entry(draw: Any) -> dict[str, Any]:
    """A manifest's entry about one event; mostly one whose details fit its effects."""
    entry = draw(
        obj(
            {
                "event": st.sampled_from(sorted(EVENTS)),
                "modes": st.lists(st.sampled_from(["observe", "intercept"]), max_size=2),
            },
            {"capabilities": CAPABILITIES},
        )
    )
    capabilities = entry.get("capabilities", {})
    if draw(st.booleans()):
        for name, details in DETAILS.items():
            capabilities.pop(name, None)
            if name in capabilities.get("effects", ()):
                capabilities[name] = draw(details)
    return dict(entry)


DETAILS: dict[str, Any] = {
    "modify": st.sampled_from([*TARGETS, "content", "workspace"]).map(
        lambda target: {target: {"replace": True, "merge": False}}
    ),
    "flow": FLOW,
    "inject": st.just({"context": {"append": True, "deliverAt": ["now"]}}),
}
ENTRIES = _entry()

SOURCES = st.from_regex(r"\A[a-z]{1,2}:(//)?[a-z0-9:@/?#\[\]!%. -]{0,12}\Z")
