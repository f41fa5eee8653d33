"""The effects an answer may carry, as data, and their admission (section 8 of the wire reference).

An answer is admitted whole or not at all: one effect that is malformed, unknown, unadvertised or in
conflict refuses everything, even a valid ``deny`` beside it (R-ADM-01).
"""

from __future__ import annotations

from typing import Any, Callable, Optional

from ahp_sync.failure import FailureClass, OperationalFailure
from ahp_sync.protocol.validation import effect_problem

__all__ = ["EFFECTS", "admitted_effects"]

#: Every effect type of the draft. One that is not here is unknown, not merely unadvertised.
EFFECTS = frozenset({"deny", "allow", "ask", "modify", "return", "message", "inject", "flow"})

_CHECK_EVERY = 64
_VERSION = "draft"


def admitted_effects(
    result: dict[str, Any],
    advertised: frozenset[str],
    check: Optional[Callable[[], object]] = None,
) -> tuple[dict[str, Any], ...]:
    """Return the effects of an intercept result, in order, each valid by its own schema.

    ``check`` is called now and then and may raise, since a long list takes long to validate.
    Raises ``OperationalFailure``: ``missing_result``, ``unsupported`` (R-VER-01), ``effects``.
    """
    _check_version(result)
    for foreign in ("manifest", "configuration"):
        if foreign in result:
            raise _refused("conflicting_members", f"an intercept result must not have {foreign!r}")
    if "extensions" in result and not _is_extensions(result["extensions"]):
        raise OperationalFailure(
            FailureClass.MALFORMED, "bad_extensions", "result.extensions is not a valid map"
        )
    effects = result.get("effects", [])
    if not isinstance(effects, list):
        raise _refused("effects_not_a_list", "result.effects must be an array")
    for position, effect in enumerate(effects):
        if check is not None and position % _CHECK_EVERY == 0:
            check()
        _admit(effect, position, advertised)
    return tuple(effects)


def _check_version(result: dict[str, Any]) -> None:
    if "protocolVersion" not in result:
        raise OperationalFailure(
            FailureClass.MISSING_RESULT,
            "no_protocol_version",
            "the result names no protocolVersion",
        )
    if result["protocolVersion"] != _VERSION:
        raise OperationalFailure(
            FailureClass.UNSUPPORTED,
            "protocol_version",
            f"the result's protocolVersion is not {_VERSION!r}",
        )


def _is_extensions(value: Any) -> bool:
    return effect_problem("deny", {"type": "deny", "reason": "-", "extensions": value}) is None


def _admit(effect: Any, position: int, advertised: frozenset[str]) -> None:
    name = effect.get("type") if isinstance(effect, dict) else None
    where = f"effects[{position}]"
    if not isinstance(name, str):
        raise _refused("malformed_effect", f"{where} is not an object with a type")
    if name not in EFFECTS:
        raise _refused("unknown_effect", f"{where} has a type the draft does not know")
    if name not in advertised:
        raise _refused("unadvertised_effect", f"{where} ({name}) was not advertised")
    problem = effect_problem(name, effect)
    if problem is not None:
        place = f"{where}{problem.path[1:]}"
        raise _refused("malformed_effect", f"{place} of {name} must be {problem.wanted}")


def _refused(code: str, detail: str) -> OperationalFailure:
    return OperationalFailure(FailureClass.EFFECTS, code, detail)
