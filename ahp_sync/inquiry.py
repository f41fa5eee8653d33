"""What one backend says that it subscribes to: asked, approved of, and narrowed to the host.

An answer is adopted as it is, or the backend is not used: :class:`Unused` says why.
"""

from __future__ import annotations

import copy
import logging
import traceback
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Callable, NamedTuple, NoReturn, Optional, Union

from ahp_sync.budget import Budget, BudgetEnded
from ahp_sync.capabilities import Capabilities
from ahp_sync.failure import FailureClass, FailurePolicy, OperationalFailure
from ahp_sync.protocol.configuration import MAX_BYTES, configuration_of
from ahp_sync.protocol.content import ContentSelection
from ahp_sync.protocol.events import Mode
from ahp_sync.protocol.jsonrpc import answer_body
from ahp_sync.protocol.messages import configuration_request
from ahp_sync.registration import Backend, Subscription, read_subscriptions
from ahp_sync.registration_host import narrowed, policy_problems
from ahp_sync.transports.base import Message, Reply, Transport

__all__ = [
    "NOT_APPLICABLE",
    "NOT_AUTHORIZED",
    "UNAVAILABLE",
    "AuthorizeConfiguration",
    "ConfigurationDiagnostic",
    "Inquiry",
    "StandIn",
    "Unused",
]

_log = logging.getLogger("ahp_sync")

#: Is given the backend's id and its whole answer, a copy; the answer is used if and only if it
#: returns True.
AuthorizeConfiguration = Callable[[str, Mapping[str, Any]], bool]

UNAVAILABLE = "configuration_unavailable"
NOT_AUTHORIZED = "configuration_not_authorized"
NOT_APPLICABLE = "no_applicable_subscriptions"


@dataclass(frozen=True)
class ConfigurationDiagnostic:
    """Why a backend that was asked for its subscriptions is not used (R-DISC-06).

    ``reason`` is ``configuration_unavailable`` (no answer in time, or one that is not right),
    ``configuration_not_authorized`` (by ``authorize_configuration``, or for want of it) or
    ``no_applicable_subscriptions`` (nothing in it that this host serves). ``detail`` is a sentence
    for an operator; no text of the backend's and no credential is in it.
    """

    backend: str
    reason: str
    detail: str


class Unused(NamedTuple):
    """A backend that is not used, and of what class the failure of its stand-in is."""

    diagnostic: ConfigurationDiagnostic
    failure_class: FailureClass

    @classmethod
    def because(
        cls, backend: Backend, reason: str, detail: str, failure_class: FailureClass
    ) -> Unused:
        """Return it for a reason and its detail."""
        return cls(ConfigurationDiagnostic(backend.id, reason, detail), failure_class)


class _Refused(Exception):
    """Raised where a configuration turns out not to be usable: its reason, then the detail."""


class Inquiry:
    """Asks one backend for its subscriptions, within ``budget``.

    :param capabilities: what the host declares.
    :param authorize: has to approve of the answer, if there is one.
    """

    def __init__(
        self,
        backend: Backend,
        transport: Transport,
        budget: Budget,
        *,
        capabilities: Capabilities,
        authorize: Optional[AuthorizeConfiguration],
    ) -> None:
        self.backend = backend
        self._transport = transport
        self._budget = budget
        self._capabilities = capabilities
        self._authorize = authorize
        #: Whether the answer is there, and the host's approval of it is awaited.
        self.approving = False

    def subscriptions(self) -> Union[tuple[Subscription, ...], Unused]:
        """Return the subscriptions as this host serves them, or why there are none.

        Raises :class:`BudgetEnded`.
        """
        try:
            configuration = self._ask()
            self._budget.check()
            self._approve(configuration)
            self._budget.check()
            return self._applicable(configuration["subscriptions"])
        except BudgetEnded:
            raise
        except _Refused as refused:
            reason, detail = refused.args
            return Unused.because(self.backend, reason, detail, FailureClass.UNSUPPORTED)
        except OperationalFailure as failure:
            return Unused.because(self.backend, UNAVAILABLE, str(failure), failure.failure_class)
        except BaseException as error:  # no transport should raise it
            return self._broken(error)

    def _ask(self) -> dict[str, Any]:
        """Return the configuration that the backend answers, as it is (R-DISC-02, R-DISC-03)."""
        rpc_id, budget = str(uuid.uuid4()), self._budget
        reply = self._transport.exchange(configuration_request(rpc_id), budget)
        if not (isinstance(reply, Reply) and isinstance(reply.body, bytes)):
            raise OperationalFailure(FailureClass.MALFORMED, "empty", "there was no answer")
        try:
            _check_reply(reply)
            return configuration_of(answer_body(reply.body, rpc_id, budget.check), budget.check)
        except OperationalFailure:
            if reply.on_rejected is not None:
                reply.on_rejected()
            raise

    def _approve(self, configuration: dict[str, Any]) -> None:
        authorize, backend = self._authorize, self.backend.id
        if authorize is None:
            if any("upload" in one for one in configuration["subscriptions"]):
                raise _Refused(
                    NOT_AUTHORIZED, "it asks for uploads, and there is no authorize_configuration"
                )
            return
        self.approving = True
        try:
            answer = authorize(backend, copy.deepcopy(configuration))
        except BaseException as error:  # SystemExit too: nothing of it may end a thread of ours
            _log.exception("authorize_configuration failed on backend %s", backend)
            name = type(error).__name__
            raise _Refused(NOT_AUTHORIZED, f"authorize_configuration raised {name}") from None
        if answer is not True:
            raise _Refused(NOT_AUTHORIZED, "authorize_configuration did not return True")

    def _applicable(self, raw: Sequence[Mapping[str, Any]]) -> tuple[Subscription, ...]:
        """Narrow the events to the host's, drop who is left without, take the rest unchanged.

        What the host can't serve unchanged it does not serve at all: an answer is adopted whole,
        or the backend is not used.
        """
        kept = []
        for subscription in read_subscriptions(self.backend.id, raw):
            subscription = narrowed(subscription, self._capabilities)
            if not subscription.events:
                continue
            place = f"subscriptions[{subscription.index}]"
            for (member, *_), found, wanted in policy_problems(subscription, self._capabilities):
                raise _Refused(NOT_APPLICABLE, f"{place}.{member} is {found}, not {wanted}")
            kept.append(subscription)
        if not kept:
            raise _Refused(NOT_APPLICABLE, "it subscribes to nothing that this host declares")
        return tuple(kept)

    def _broken(self, error: BaseException) -> Unused:
        # Its text may hold what a log must not.
        name = type(error).__name__
        where = "".join(traceback.format_tb(error.__traceback__))
        _log.error("unexpected %s while a backend was asked what it wants\n%s", name, where)
        detail = f"asking failed by itself: {name}"
        return Unused.because(self.backend, UNAVAILABLE, detail, FailureClass.CONNECTION)


def _check_reply(reply: Reply) -> None:
    status = reply.facts.get("http_status", 200)
    if status != 200:
        raise OperationalFailure(
            FailureClass.HTTP_STATUS, f"http_{status}", f"HTTP {status} is not 200"
        )
    if len(reply.body) > MAX_BYTES:
        raise OperationalFailure(
            FailureClass.MALFORMED, "too_large", f"the answer exceeds {MAX_BYTES} bytes"
        )


class StandIn:
    """Takes the place of a required backend that is not used: all it does is fail.

    It has one subscription, fail-closed, to every event that backends may decide about, since any
    of them could have been the backend's. Its index is -1, as it is none of the backend's own.
    """

    def __init__(self, unused: Unused, capabilities: Capabilities) -> None:
        self._unused = unused
        events = tuple(capabilities.intercept)
        self.subscription = Subscription(
            backend=unused.diagnostic.backend,
            index=-1,
            selectors=events,
            events=frozenset(events),
            mode=Mode.INTERCEPT,
            timeout_ms=1000,
            policy=FailurePolicy.FAIL_CLOSED,
            content=ContentSelection("omit"),
        )

    def exchange(self, message: Message, budget: Budget) -> NoReturn:
        """Fail as the asking did."""
        diagnostic, failure_class = self._unused
        detail = f"the backend is required, but not used: {diagnostic.detail}"
        raise OperationalFailure(failure_class, diagnostic.reason, detail)

    def close(self, budget: Budget) -> None:
        """There is nothing to close."""
