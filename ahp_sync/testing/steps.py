"""What a scripted backend is told to do: steps, by name, and the script that hands them out."""

from __future__ import annotations

import difflib
import inspect
import threading
from dataclasses import dataclass, field
from typing import Any, Callable, List, Mapping, Sequence, Union

__all__ = ["Script", "Step", "Steps", "step"]


@dataclass(frozen=True)
class Step:
    """One thing that a backend does: the name of an entry of its table, and its arguments."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        return f"{self.name}({arguments})" if arguments else self.name

    def to_json(self) -> List[Any]:
        """Return ``[name, arguments]``, the steps among the arguments likewise."""
        return [
            self.name,
            {k: v.to_json() if isinstance(v, Step) else v for k, v in self.arguments.items()},
        ]


#: A step as users write it (a name, a :class:`Step`, one effect, or a list of effects), or a
#: sequence of such: one a request, the last repeats.
Script = Union[str, Step, Mapping[str, Any], Sequence[Any]]


def step(name: str, **arguments: Any) -> Step:
    """Return the step called ``name`` with ``arguments``, e.g. ``step("late", seconds=0.4)``.

    Which names and arguments there are is told by the table of each backend; an argument called
    ``then`` is itself a step. What a backend does not know is refused when its script is set.
    """
    if "then" in arguments:
        arguments["then"] = as_step(arguments["then"])
    return Step(name, arguments)


def as_step(value: object) -> Step:
    """Return ``value`` as a step: a name, a step, one effect, or a list of effects.

    Raises :class:`TypeError` for anything else.
    """
    if isinstance(value, Step):
        return value
    if isinstance(value, str):
        return Step(value)
    if isinstance(value, Mapping):
        return Step("effects", {"effects": [dict(value)]})
    if isinstance(value, (list, tuple)) and all(isinstance(item, Mapping) for item in value):
        return Step("effects", {"effects": [dict(item) for item in value]})
    raise TypeError(f"a step is a name, step(…), an effect or a list of effects, not {value!r}")


def as_steps(script: object) -> List[Step]:
    """Return ``script`` as a non-empty list of steps; ``[]`` is one answer without effects."""
    if isinstance(script, (list, tuple)):
        if not script or isinstance(script[0], Mapping):
            return [as_step(script)]
        return [as_step(item) for item in script]
    return [as_step(script)]


Table = Mapping[str, Callable[..., object]]


def check(one: Step, table: Table, backend: str, inner: Table) -> None:
    """Raise :class:`ValueError` if ``table`` has no such step, or it takes no such arguments.

    ``inner`` is the table for the steps among its arguments; ``backend`` names the table.
    """
    if one.name not in table:
        near = difflib.get_close_matches(one.name, table, n=3)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise ValueError(f"the {backend} backend knows no step {one.name!r} here{hint}")
    try:
        inspect.signature(table[one.name]).bind(None, **one.arguments)
    except TypeError as error:
        raise ValueError(f"step {one.name!r} of the {backend} backend: {error}") from None
    then = one.arguments.get("then")
    if isinstance(then, Step):
        check(then, inner, backend, inner)


class Steps:
    """The steps of a script, handed out one a time; the last one repeats. Thread-safe."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = tuple(steps)
        self._taken = 0
        self._lock = threading.Lock()

    def peek(self) -> Step:
        """Return the step that :meth:`take` would return now."""
        return self._steps[min(self._taken, len(self._steps) - 1)]

    def take(self) -> Step:
        """Return the next step and move on."""
        with self._lock:
            taken = self._steps[min(self._taken, len(self._steps) - 1)]
            self._taken += 1
        return taken
