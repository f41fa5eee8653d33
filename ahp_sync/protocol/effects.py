"""The effects an answer may carry, as data, and their admission (section 8 of the wire reference).

An answer is admitted whole or not at all: one effect that is malformed, unknown, unadvertised or in
conflict refuses everything, even a valid ``deny`` beside it (R-ADM-01).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Callable, Optional

from ahp_sync.failure import FailureClass, OperationalFailure
from ahp_sync.protocol.events import EVENTS, EventType
from ahp_sync.protocol.validation import effect_problem, extensions_problem

__all__ = ["EFFECTS", "EffectType", "admitted_effects", "asking", "refused"]


# Whether an effect stays within the block of ``capabilities`` that grants it in detail.
Granted = Callable[[Mapping[str, Any], Mapping[str, Any]], bool]


def _modify_granted(effect: Mapping[str, Any], block: Mapping[str, Any]) -> bool:
    granted: Mapping[str, Any] = block.get(effect["target"], {})
    return granted.get(effect["operation"]) is True


def _flow_granted(effect: Mapping[str, Any], block: Mapping[str, Any]) -> bool:
    operation = effect["operation"]
    if operation not in block["operations"]:
        return False
    return operation != "continue" or bool(block["remainingContinuations"] > 0)  # R-CAP-03


def _inject_granted(effect: Mapping[str, Any], block: Mapping[str, Any]) -> bool:
    return effect["deliverAt"] in block["context"]["deliverAt"]


@dataclass(frozen=True)
class EffectType:
    """One effect type.

    ``shaped`` tells that its value has the form that the event decides, so that each form has a
    schema of its own (``modify.messages``). ``granted`` compares an effect with the member of
    ``capabilities`` of the same name, where being on the list of effects is not enough.
    """

    name: str
    shaped: bool = False
    granted: Optional[Granted] = None


_TABLE = (
    EffectType("deny"),
    EffectType("allow"),
    EffectType("ask"),
    EffectType("modify", shaped=True, granted=_modify_granted),
    EffectType("return", shaped=True),
    EffectType("message"),
    EffectType("inject", granted=_inject_granted),
    EffectType("flow", granted=_flow_granted),
)

#: Every effect type of the draft. One that is not here is unknown, not merely unadvertised (D-05).
EFFECTS: Mapping[str, EffectType] = MappingProxyType({effect.name: effect for effect in _TABLE})

_TARGETS = frozenset(event.target.name for event in EVENTS.values() if event.target)
_CHECK_EVERY = 64
_VERSION = "draft"


def admitted_effects(
    result: dict[str, Any],
    event_type: str,
    capabilities: Mapping[str, Any],
    check: Optional[Callable[[], object]] = None,
) -> tuple[dict[str, Any], ...]:
    """Return the effects of an intercept result, in order, each valid and advertised.

    :param capabilities: those of the request that is answered, as they were sent.
    :param check: called now and then and may raise, since a long list takes long to validate.

    Raises ``OperationalFailure``: ``missing_result``, ``unsupported`` (R-VER-01), ``malformed``,
    ``effects``.
    """
    _check_version(result)
    for foreign in ("manifest", "configuration"):
        if foreign in result:
            raise refused("conflicting_members", f"an intercept result must not have {foreign!r}")
    if "extensions" in result and extensions_problem(result["extensions"]) is not None:
        raise OperationalFailure(
            FailureClass.MALFORMED, "bad_extensions", "result.extensions is not a valid map"
        )
    effects = result.get("effects", [])
    if not isinstance(effects, list):
        raise refused("effects_not_a_list", "result.effects must be an array")
    event = EVENTS[event_type]
    for position, effect in enumerate(effects):
        if check is not None and position % _CHECK_EVERY == 0:
            check()
        _admit(effect, f"effects[{position}]", event, capabilities, check)
    return tuple(effects)


def asking(check: Optional[Callable[[], object]]) -> Optional[Callable[[], bool]]:
    """Return ``check`` in the form that the validation takes: it goes on unless that raises."""
    if check is None:
        return None

    def wanted() -> bool:
        check()
        return True

    return wanted


def refused(code: str, detail: str) -> OperationalFailure:
    """Return the failure of an answer whose effects can't be accepted."""
    return OperationalFailure(FailureClass.EFFECTS, code, detail)


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


def _admit(
    effect: Any,
    where: str,
    event: EventType,
    capabilities: Mapping[str, Any],
    check: Optional[Callable[[], object]],
) -> None:
    name = effect.get("type") if isinstance(effect, dict) else None
    if not isinstance(name, str):
        raise refused("malformed_effect", f"{where} is not an object with a type")
    known = EFFECTS.get(name)
    if known is None:
        raise refused("unknown_effect", f"{where} has a type the draft does not know")
    if name not in capabilities["effects"]:
        raise refused("unadvertised_effect", f"{where} ({name}) was not advertised")
    key = _document(effect, where, event) if known.shaped else name
    problem = effect_problem(key, effect, asking(check))
    if problem is not None:
        place = f"{where}{problem.path[1:]}"
        raise refused("malformed_effect", f"{place} of {name} must be {problem.wanted}")
    if known.granted is not None and not known.granted(effect, capabilities[name]):
        raise refused("unadvertised_effect", f"{where} ({name}) asks for more than was advertised")


def _document(effect: dict[str, Any], where: str, event: EventType) -> str:
    """Return which schema an effect of a form that the event decides has to meet (R-PAY-02)."""
    if effect["type"] == "return":
        return f"return.{event.returns}"
    wanted, target = effect.get("target"), event.target
    if target is not None and wanted == target.name:
        return f"modify.{target.shape}"
    if isinstance(wanted, str) and wanted in _TARGETS:
        raise refused("unadvertised_effect", f"{where} (modify) is for another event's target")
    raise refused("unknown_effect", f"{where} has a target the draft does not know")
