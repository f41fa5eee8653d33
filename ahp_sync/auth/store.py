"""The tokens of one client in one process: cached, and acquired once for all who wait for them.

A refresh token that may have been sent is forgotten, whatever became of it: sent twice, it would
have a server that rotates them revoke all that came from it (F17).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable
from typing import Callable, Optional, Union

from ahp_sync.auth.access import AccessToken, Freshness, Grant
from ahp_sync.auth.token_request import RefreshToken, TokenAnswer
from ahp_sync.auth.web import refusal
from ahp_sync.budget import Budget
from ahp_sync.failure import OperationalFailure
from ahp_sync.flights import Flight
from ahp_sync.workers import DeliveryExecutor

__all__ = ["Acquire", "TokenStore"]

#: Acquires a token: for the refresh token given, or anew.
Acquire = Callable[[Optional[RefreshToken], Budget], TokenAnswer]

# How long after a refresh in vain the next one is tried while the token is still good, in seconds.
_PAUSE = 5.0


class _Entry:
    """The token of one grant. It changes under the lock of the store, but is read without."""

    def __init__(self, asks_user: bool) -> None:
        self.token: Optional[AccessToken] = None
        self.refresh_token: Optional[RefreshToken] = None
        self.flight: Optional[Flight[AccessToken]] = None
        self.not_before = 0.0
        self._asks_user = asks_user

    @property
    def renewable(self) -> bool:
        """Whether another token can be got in the background: no user is asked ahead of time."""
        return self.refresh_token is not None or not self._asks_user


class TokenStore:
    """Keeps tokens by grant.

    :param executor: what acquisitions run on.
    :param lender: whose workers wait for them.

    All methods may be called from several threads at once.
    """

    def __init__(self, executor: DeliveryExecutor, lender: DeliveryExecutor) -> None:
        self._executor = executor
        self._lender = lender
        # Re-entrant: a finalizer that closes a forgotten client may run inside a locked section.
        self._lock = threading.RLock()
        self._entries: dict[Hashable, _Entry] = {}
        self._closed = False

    def token(self, grant: Grant, acquire: Acquire, seconds: float, budget: Budget) -> AccessToken:
        """Return a good token for ``grant``, acquiring one where there is none.

        :param seconds: how long the acquisition may take, for all who wait for it. Each waits
            within a ``budget`` of its own, and leaves the others to it at its end.

        Raises ``OperationalFailure`` of class ``authentication``, and ``BudgetEnded``.
        """
        entry = self._entries.get(grant)
        token = None if entry is None else entry.token
        if entry is not None and token is not None:
            freshness = token.freshness()
            if freshness is Freshness.FRESH:
                return token
            if freshness is Freshness.AGEING:
                if entry.renewable and time.monotonic() >= entry.not_before:
                    self._acquiring(grant, acquire, seconds, token)
                return token
        return self._acquired(grant, acquire, seconds, token, budget)

    def other(
        self,
        grant: Grant,
        rejected: Optional[AccessToken],
        acquire: Acquire,
        seconds: float,
        budget: Budget,
    ) -> AccessToken:
        """Return another token than the ``rejected`` one, which was answered with a 401.

        Only that one is given up: what others acquired meanwhile is good. Raises as :meth:`token`.
        """
        if rejected is not None:
            self.forget(rejected)
        return self.token(grant, acquire, seconds, budget)

    def forget(self, rejected: AccessToken) -> None:
        """Have nobody use this token any more."""
        with self._lock:
            entry = self._entries.get(rejected.identity)
            if entry is not None and entry.token is rejected:
                entry.token = None

    def holds(self, grant: Grant) -> bool:
        """Return whether there is a token for ``grant`` that can be used."""
        entry = self._entries.get(grant)
        token = None if entry is None else entry.token
        return token is not None and token.freshness() is not Freshness.OVER

    def close(self) -> None:
        """Call off what is being acquired."""
        with self._lock:
            self._closed = True
            flights = [entry.flight for entry in self._entries.values()]
        for flight in flights:
            if flight is not None:
                flight.limit.cancel()

    def _acquired(
        self,
        grant: Grant,
        acquire: Acquire,
        seconds: float,
        stale: Optional[AccessToken],
        budget: Budget,
    ) -> AccessToken:
        budget.check()
        found = self._acquiring(grant, acquire, seconds, stale)
        return found if isinstance(found, AccessToken) else found.wait(budget, self._lender)

    def _acquiring(
        self, grant: Grant, acquire: Acquire, seconds: float, stale: Optional[AccessToken]
    ) -> Union[AccessToken, Flight[AccessToken]]:
        """Return the acquisition under way, which is begun here if there is none.

        Who comes late finds the token that another one brought, instead of ``stale``.
        """
        with self._lock:
            entry = self._entries.get(grant)
            if entry is None:
                entry = self._entries[grant] = _Entry(grant.asks_user)
            if entry.token is not None and entry.token is not stale:
                return entry.token
            flight, overdue = entry.flight, None
            if flight is not None and flight.limit.ended:
                flight, overdue = None, flight
            begins = flight is None
            if flight is None:
                if self._closed:
                    raise _late()
                flight = entry.flight = Flight(self._executor, Budget(seconds), _late)
        if overdue is not None:
            overdue.abandon()
        if begins:
            mine = flight
            flight.begin(lambda: self._work(entry, mine, acquire))
        return flight

    def _work(self, entry: _Entry, flight: Flight[AccessToken], acquire: Acquire) -> AccessToken:
        with self._lock:
            refresh_token, entry.refresh_token = entry.refresh_token, None
        answer: Optional[TokenAnswer] = None
        try:
            answer = acquire(refresh_token, flight.limit)
            flight.limit.check()
            return answer.access
        finally:
            with self._lock:
                # One that was abandoned meanwhile may have been overtaken.
                if entry.flight is flight:
                    entry.flight = None
                    if answer is not None and not flight.limit.ended:
                        entry.token, entry.refresh_token = answer.access, answer.refresh_token
                    else:
                        entry.not_before = time.monotonic() + _PAUSE
                        if refresh_token is not None and not refresh_token.spent:
                            entry.refresh_token = refresh_token


def _late() -> OperationalFailure:
    return refusal("acquisition_timed_out", "no token was acquired in the time for it")
