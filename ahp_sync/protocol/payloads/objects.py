"""What the payloads of several events have in common (sections 3 and 5 of the wire reference).

All of these are closed: no other member may be there, except where it is said.
"""

from __future__ import annotations

from typing import Any, Literal, Mapping, Sequence, TypedDict, Union

from ahp_sync.protocol.payloads.content import Part

__all__ = [
    "Agent",
    "Attempt",
    "AttemptUsage",
    "Batch",
    "Call",
    "Cost",
    "ErrorInfo",
    "Executed",
    "Execution",
    "FileChange",
    "Gap",
    "Id",
    "Identity",
    "Item",
    "Json",
    "McpConnection",
    "McpServer",
    "McpTool",
    "Model",
    "Payload",
    "PayloadWithParts",
    "Pricing",
    "ResultExecution",
    "SessionInfo",
    "Tool",
    "ToolOrigin",
    "ToolOutcome",
    "Turn",
    "TurnOutcome",
    "TurnUsage",
    "Usage",
]

#: A JSON object of any members.
Json = Mapping[str, Any]


class Gap(TypedDict):
    """What the host can't tell: the ``path`` of the member, and the ``reason``."""

    path: str
    reason: str


class Payload(TypedDict, total=False):
    """What every event may have besides its own: ``gaps``, what the host can't tell."""

    gaps: Sequence[Gap]


class PayloadWithParts(Payload, total=False):
    """As :class:`Payload`, with ``items``: content of the event on its own, not in messages."""

    items: Sequence[Part]


# --- identities -----------------------------------------------------------------------------------


class _Identity(TypedDict):
    id: str


class Identity(_Identity, total=False):
    """The id of something. ``synthesized``: it was made up, and says so for ever (R-EVT-04)."""

    synthesized: bool


#: A tool call, a turn, a message: by its id, the same in all events about it.
Call = Identity
Turn = Identity
Item = Identity

#: How the hook methods take an identity: the id alone, or the whole object.
Id = Union[str, Identity]


class _Agent(TypedDict):
    id: str


class Agent(_Agent, total=False):
    """One of the session's agents; other members may be there."""

    type: str


class SessionInfo(_Identity, total=False):
    """A session; other members may be there.

    ``cwd`` and ``workspaceRoots`` are paths, ``counters`` totals by name, integers from 0, such as
    ``turns``, ``toolCalls`` or ``inputTokens``; one that is missing is unknown.
    """

    cwd: str
    workspaceRoots: Sequence[str]
    model: str
    agent: Agent
    counters: Mapping[str, int]
    synthesized: bool


# --- tools ----------------------------------------------------------------------------------------


class _McpServer(TypedDict):
    id: str


class McpServer(_McpServer, total=False):
    """An MCP server, by its id and perhaps its name."""

    name: str


class _McpConnection(TypedDict):
    transport: str


class McpConnection(_McpConnection, total=False):
    """How an MCP server is reached; never with credentials.

    ``transport`` says what belongs to it: ``http`` and ``sse`` have a ``url``; ``stdio`` has a
    ``command``, ``args`` and ``cwd``; one of the host's own, whose name begins with ``_``, has an
    ``addressForm`` and an ``address``. What is missing of it is named by one of ``gaps``.
    """

    url: str
    command: str
    args: Sequence[str]
    cwd: str
    addressForm: str
    address: str
    gaps: Sequence[Gap]


class McpTool(TypedDict):
    """The MCP side of a tool; ``provenance`` is whether the host knows it or has inferred it."""

    server: McpServer
    toolName: str
    provenance: Literal["runtime", "inferred"]
    connection: McpConnection


#: Whose tool it is: the host's own, or one of an MCP server.
ToolOrigin = Literal["native", "mcp"]


class _Tool(TypedDict):
    name: str
    input: Json
    origin: ToolOrigin


class Tool(_Tool, total=False):
    """A tool and the arguments of one call. ``mcp`` is there if and only if that is its origin."""

    kind: str
    mcp: McpTool


class _Batch(TypedDict):
    id: str
    callIds: Sequence[str]


class Batch(_Batch, total=False):
    """Tool calls that the model asked for together: the batch's id, and each call's, once."""

    synthesized: bool


#: What became of a tool call.
ToolOutcome = Literal["ok", "error", "denied", "cancelled", "timeout"]


class _Execution(TypedDict):
    status: Literal["executed", "skipped"]


class Execution(_Execution, total=False):
    """Whether an operation ran. Skipped has a ``reason``, executed has none (R-PAY-04).

    ``supplied_result``: a backend brought the result; there is no ``detail`` then.
    """

    reason: Literal["supplied_result", "policy", "cancelled", "timeout", "other"]
    detail: str


class Executed(TypedDict):
    """An execution that took place."""

    status: Literal["executed"]


class ResultExecution(_Execution, total=False):
    """An execution that has a result: it ran, or it was skipped because a backend supplied one."""

    reason: Literal["supplied_result"]


# ``class`` is no name that Python takes in a class body.
_ErrorInfo = TypedDict("_ErrorInfo", {"message": str, "class": str})


class ErrorInfo(_ErrorInfo, total=False):
    """What went wrong: ``message`` and ``class``, as the exception's name.

    ``code`` is a word, ``status`` a number or word (an exit or HTTP status), ``native`` any JSON.
    """

    code: str
    status: Union[str, int]
    native: Any


class _FileChange(TypedDict):
    path: str
    change: Literal["created", "modified", "deleted", "moved"]


class FileChange(_FileChange, total=False):
    """A file that a tool call changed.

    ``previousPath`` is needed when it moved. ``before`` is not there when it was created, ``after``
    when it was deleted.
    """

    previousPath: str
    before: Part
    after: Part


# --- models ---------------------------------------------------------------------------------------


class Model(TypedDict):
    """A model: its id as its provider has it, and the provider."""

    id: str
    provider: str


class _Attempt(TypedDict):
    id: str
    number: int


class Attempt(_Attempt, total=False):
    """One request to a provider; ``number`` counts the tries of one step, from 1."""

    synthesized: bool


class Cost(TypedDict):
    """Money: ``amount`` from 0, ``currency`` as three capitals."""

    amount: float
    currency: str
    basis: Literal["billed", "reported", "estimated"]


class _Usage(TypedDict):
    completeness: Literal["complete", "partial", "unknown"]


class _Used(_Usage, total=False):
    inputTokens: int
    outputTokens: int
    cacheReadTokens: int
    cacheWriteTokens: int
    cost: Cost


class AttemptUsage(_Used):
    """What one attempt used; tokens are counted from 0, one that is missing is unknown."""

    kind: Literal["amount"]
    scope: Literal["attempt"]
    provenance: Literal["provider", "estimate"]


class TurnUsage(_Used):
    """What a whole turn used so far, of all its attempts."""

    kind: Literal["total"]
    scope: Literal["turn"]
    provenance: Literal["provider", "estimate", "mixed"]


Usage = Union[AttemptUsage, TurnUsage]

#: How a turn ended.
TurnOutcome = Literal["completed", "failed", "cancelled", "max_iterations"]


class _Pricing(TypedDict):
    currency: str


class Pricing(_Pricing, total=False):
    """Prices for a million tokens, from 0; ``currency`` as three capitals."""

    inputPerMillionTokens: float
    outputPerMillionTokens: float
