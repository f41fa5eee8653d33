"""The host's own reading of tool inputs and results: what it can't read, it can't run."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Callable, Optional

from ahp_sync.errors import InvalidEvent
from ahp_sync.protocol.effects import refused
from ahp_sync.settlement import State

__all__ = ["Codec", "Codecs"]

#: Makes the host's own value of a JSON value. Raises where it is none that the host can take.
Codec = Callable[[Any], Any]


class Codecs:
    """The codecs of one call; both may be missing.

    They run on a worker, outside every lock and within the deadline of the answer that they read.
    """

    def __init__(self, input: Optional[Codec], result: Optional[Codec]) -> None:
        for name, codec in (("input_codec", input), ("result_codec", result)):
            if not (codec is None or callable(codec)):
                raise TypeError(f"{name} must be callable, not {type(codec).__name__}")
        self._input = input
        self._result = result

    def __bool__(self) -> bool:
        return self._input is not None or self._result is not None

    def brought(self, state: State) -> dict[str, Any]:
        """Return what they make of the host's own values.

        Raises :class:`InvalidEvent` for one that they refuse.
        """
        typed = {}
        tool = state.event.get("tool")
        if self._input is not None and tool is not None:
            typed["input"] = _own(self._input, tool["input"], "$.tool.input")
        if self._result is not None and state.candidate is not None:
            typed["result"] = _own(self._result, state.candidate.value, "state.candidate.value")
        return typed

    def decoded(self, before: State, after: State, typed: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what they make of the values that an answer changed.

        Raises ``OperationalFailure``: an answer that the host can't read is refused as a whole.
        """
        if not self:
            return typed
        typed = dict(typed)
        if after.candidate is not before.candidate:
            typed.pop("result", None)
            if self._result is not None and after.candidate is not None:
                typed["result"] = _read(self._result, after.candidate.value, "result")
        tool = after.event.get("tool")
        if self._input is not None and after.event is not before.event and tool is not None:
            typed["input"] = _read(self._input, tool["input"], "input")
        return typed


# Whatever a host's own code raises: it runs on a worker, where an exit of its own is none.


def _own(codec: Codec, value: Any, path: str) -> Any:
    try:
        return codec(copy.deepcopy(value))
    except BaseException as error:
        found = f"a value that its codec refuses ({type(error).__name__})"
        raise InvalidEvent(path, found, "one that it takes") from error


def _read(codec: Codec, value: Any, what: str) -> Any:
    try:
        return codec(copy.deepcopy(value))
    except BaseException as error:
        name = type(error).__name__
        raise refused("refused_by_host", f"the host can't take the {what}: {name}") from None
