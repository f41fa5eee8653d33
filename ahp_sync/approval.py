"""The host's own say: access policy and approval, asked after the backends (R-SET-13, R-ADM-04).

No answer of a backend grants what the host has not (R-ROLE-01).
"""

from __future__ import annotations

import copy
import logging
from dataclasses import dataclass
from typing import Any, Callable, Optional

from ahp_sync.failure import OperationalFailure
from ahp_sync.outcome import Decision
from ahp_sync.protocol.events import EVENTS
from ahp_sync.settlement import Candidate, Permission, State

__all__ = ["HostCallback", "HostPolicy", "Proposal"]

_log = logging.getLogger("ahp_sync")


@dataclass(frozen=True)
class Proposal:
    """What a host callback is asked about: a copy of the effective event, as settled so far.

    ``permission`` is that of the backends: ``"none"``, ``"allow"`` or ``"ask"``. ``candidate`` is
    the result that would be delivered instead of running the operation, if there is one.
    """

    event: dict[str, Any]
    permission: str
    candidate: Optional[Candidate] = None


#: Returns True to go on, False to refuse, None where the answer is still to come.
HostCallback = Callable[[Proposal], Optional[bool]]

#: Runs a callback on a worker within the call's budget.
Run = Callable[[Callable[[], Any]], Any]


class HostPolicy:
    """The two questions a host may want to answer itself.

    :param authorize: its access policy, for every event that can be denied. It gates execution and
        the delivery of a supplied result, and no backend's ``allow`` passes it by.
    :param approve: its ordinary prompt, for tool calls that no backend allowed, for those that one
        wants asked about, and for supplied results that nobody else has said yes to. Without it,
        what nobody objects to goes on, and an ``ask`` is left to the host.

    A supplied result is delivered once somebody said yes: the ``allow`` of a backend or of the
    host's own state, ``authorize`` or ``approve``. Until then the outcome is ``ask``, and the
    result waits in its ``candidate`` (R-SET-09, trap T-05). At events that have no ``allow``, only
    the host can say it.
    """

    def __init__(
        self, authorize: Optional[HostCallback] = None, approve: Optional[HostCallback] = None
    ) -> None:
        for name, callback in (("authorize", authorize), ("approve", approve)):
            if not (callback is None or callable(callback)):
                raise TypeError(f"{name} must be callable, not {type(callback).__name__}")
        self._authorize = authorize
        self._approve = approve

    def decide(self, state: State, run: Run) -> Decision:
        """Return what becomes of an event that no backend denied or stopped.

        A callback that raises, or answers anything but True, False or None, has refused; so has
        one that no worker was free for. Raises ``BudgetEnded`` where the call ended before the
        answer.
        """
        effects = EVENTS[state.event["type"]].effects
        asked = state.permission is Permission.ASK
        approved = state.permission is Permission.ALLOW
        if self._authorize is not None and "deny" in effects:
            granted = _ask(self._authorize, state, run)
            if granted is not True:
                return Decision.ASK if granted is None else Decision.DENY
            approved = approved or not asked
        waits = state.candidate is not None and not approved
        unprompted = "allow" in effects and state.permission is Permission.NONE
        if self._approve is not None and (asked or unprompted or waits):
            granted = _ask(self._approve, state, run)
            if granted is not True:
                return Decision.ASK if granted is None else Decision.DENY
            approved = True
        if state.candidate is not None:
            return Decision.SUPPLIED if approved else Decision.ASK
        return Decision.PROCEED if approved or not asked else Decision.ASK


def _ask(callback: HostCallback, state: State, run: Run) -> Optional[bool]:
    proposal = Proposal(
        copy.deepcopy(state.event), state.permission.value, copy.deepcopy(state.candidate)
    )
    try:
        answer: Optional[bool] = run(lambda: _answer(callback, proposal))
    except OperationalFailure as failure:
        _log.error("%s was not asked and so refused: %s", _name(callback), failure.code)
        return False
    return answer


def _answer(callback: HostCallback, proposal: Proposal) -> Optional[bool]:
    """Return what the callback says. On a worker: what it raises must not pass for our own."""
    try:
        answer = callback(proposal)
    except BaseException as error:  # SystemExit too: it must not end the host from a worker
        _log.error("%s failed and so refused: %s", _name(callback), type(error).__name__)
        return False
    if answer is None or isinstance(answer, bool):
        return answer
    _log.error("%s returned neither a bool nor None and so refused", _name(callback))
    return False


def _name(callback: HostCallback) -> str:
    name = getattr(callback, "__name__", type(callback).__name__)
    return f"the host's {name}"
