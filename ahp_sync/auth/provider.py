"""OAuth for endpoints: a preset of the registration, or what a 401 leads to (section 17).

The codes of the failures, all of class ``authentication``: ``forbidden_destination``,
``redirected``, ``authorization_server_unreachable`` (nothing was sent),
``authorization_server_lost``, ``bad_answer``, ``bad_metadata``, ``no_metadata``,
``no_resource_metadata``, ``resource_mismatch``, ``no_authorization_server``, ``issuer_untrusted``,
``issuer_mismatch``, ``scope_not_permitted``, ``flow_unsupported``, ``no_secret``,
``no_client_authentication``, ``no_s256``, ``interaction_unavailable``, ``interaction_failed``,
``bad_redirect``, ``authorization_refused``, ``token_endpoint``, ``token_refused``, ``bad_token``,
``scope_mismatch``, ``audience_mismatch``, ``acquisition_timed_out``, and those of the resolver of
the client's secret.
"""

from __future__ import annotations

import functools
import ssl
import threading
from typing import Callable, Optional

from ahp_sync.auth.access import AccessToken, Grant
from ahp_sync.auth.acquisition import Acquisition, Secret
from ahp_sync.auth.challenge import Challenge
from ahp_sync.auth.metadata import resource_metadata
from ahp_sync.auth.oauth import OAuthPolicy
from ahp_sync.auth.store import TokenStore
from ahp_sync.auth.token_request import RefreshToken, TokenAnswer, prepare
from ahp_sync.auth.web import Web, refusal
from ahp_sync.budget import Budget, BudgetEnded
from ahp_sync.failure import OperationalFailure
from ahp_sync.flights import Flight
from ahp_sync.registration import OAuthBinding
from ahp_sync.workers import DeliveryExecutor

__all__ = ["AccessToken", "OAuthEndpoint", "OAuthProvider"]


class OAuthProvider:
    """Acquires the tokens of one client in one process.

    :param policy: what the host allows.
    :param secret: finds a client's secret by its reference.
    :param context: returns the TLS context for a URL that is asked on behalf of a backend.
    :param executor: what acquisitions run on; it is its owner's to shut down.
    :param lender: the executor whose workers wait for them.
    """

    def __init__(
        self,
        policy: OAuthPolicy,
        *,
        secret: Secret,
        context: Callable[[str, str], Optional[ssl.SSLContext]],
        executor: DeliveryExecutor,
        lender: DeliveryExecutor,
    ) -> None:
        prepare()
        self.policy = policy
        self.secret = secret
        self.executor = executor
        self.lender = lender
        self._context = context
        # Event and upload endpoints share no token (R-AUTH-06).
        self._stores = {upload: TokenStore(executor, lender) for upload in (False, True)}
        self._endpoints: list[OAuthEndpoint] = []

    def endpoint(
        self,
        url: str,
        *,
        backend: str,
        binding: Optional[OAuthBinding],
        upload: bool,
        proxy: Optional[str],
    ) -> OAuthEndpoint:
        """Return the tokens of one endpoint: by its ``binding``, or by discovery without one."""
        web = Web(url, lambda asked: self._context(asked, backend), proxy)
        made = OAuthEndpoint(self, self._stores[upload], url, binding, web, upload=upload)
        self._endpoints.append(made)
        return made

    def close(self) -> None:
        """Call off what is being acquired."""
        for store in self._stores.values():
            store.close()
        for endpoint in self._endpoints:
            endpoint.call_off()


class OAuthEndpoint:
    """The tokens of one endpoint; see :meth:`OAuthProvider.endpoint`.

    All methods may be called from several threads at once.
    """

    def __init__(
        self,
        provider: OAuthProvider,
        store: TokenStore,
        url: str,
        binding: Optional[OAuthBinding],
        web: Web,
        *,
        upload: bool,
    ) -> None:
        self._provider = provider
        self._store = store
        self._url = url
        self._web = web
        self._acquisition = Acquisition(provider.policy, provider.secret, web)
        self._grant = None if binding is None else _preset(binding)
        self._discovers = binding is None and bool(provider.policy.issuers)
        # What is sent once can't be sent again after a 401 (R-AUTH-04): so it is asked before.
        self._asks_first = self._discovers and upload and url.startswith("https:")
        self._challenge = Challenge()
        self._lock = threading.RLock()
        self._flight: Optional[Flight[Optional[Grant]]] = None

    def token(self, budget: Budget) -> Optional[AccessToken]:
        """Return the token to send, or None to send without one (R-AUTH-03).

        Raises ``OperationalFailure`` of class ``authentication``, and ``BudgetEnded``.
        """
        grant = self._grant
        if grant is None and self._asks_first:
            grant = self._discovered(self._challenge, budget)
        if grant is None:
            return None
        return self._store.token(
            grant, functools.partial(self._acquire, grant), self._seconds(grant), budget
        )

    def after_401(
        self, rejected: Optional[AccessToken], challenge: Challenge, budget: Budget
    ) -> Optional[AccessToken]:
        """Return another token after a Bearer challenge, or None where none is to be had.

        Raises as :meth:`token` does.
        """
        grant = self._grant
        if grant is None:
            if not self._discovers:
                return None
            self._challenge = challenge
            grant = self._discovered(challenge, budget)
            if grant is None:
                raise refusal(
                    "no_resource_metadata", "the backend does not say who authorizes for it"
                )
        acquire = functools.partial(self._acquire, grant)
        found = self._store.other(grant, rejected, acquire, self._seconds(grant), budget)
        return None if rejected is not None and found.value == rejected.value else found

    def invalidate(self, rejected: Optional[AccessToken], challenge: Optional[Challenge]) -> None:
        """Take note of a 401 to what is not sent again; the next delivery does better."""
        if rejected is not None:
            self._store.forget(rejected)
        elif self._discovers and challenge is not None:
            self._challenge = challenge
            self._asks_first = True

    def call_off(self) -> None:
        """End a discovery under way."""
        with self._lock:
            flight = self._flight
        if flight is not None:
            flight.limit.cancel()

    # --- discovery ----------------------------------------------------------------------------

    def _discovered(self, challenge: Challenge, budget: Budget) -> Optional[Grant]:
        """Return what to ask for, as the endpoint says; once for all who were refused together."""
        budget.check()
        provider = self._provider
        with self._lock:
            if self._grant is not None:
                return self._grant
            flight, overdue = self._flight, None
            if flight is not None and flight.limit.ended:
                flight, overdue = None, flight
            begins = flight is None
            if flight is None:
                limit = Budget(provider.policy.acquisition_timeout)
                flight = self._flight = Flight(provider.executor, limit, _late)
        if overdue is not None:
            overdue.abandon()
        if begins:
            mine = flight
            flight.begin(lambda: self._discover(challenge, mine))
        return flight.wait(budget, provider.lender)

    def _discover(self, challenge: Challenge, flight: Flight[Optional[Grant]]) -> Optional[Grant]:
        grant = None
        try:
            named = challenge.resource_metadata
            resource = resource_metadata(self._url, named, self._web, flight.limit)
            if resource is not None:
                grant = self._chosen(resource.identifier, resource.issuers, challenge.scope)
            else:
                self._asks_first = False  # it is not protected, or does not say so
            flight.limit.check()
            return grant
        finally:
            with self._lock:
                if self._flight is flight:
                    self._flight = None
                    self._grant = self._grant or grant

    def _chosen(self, resource: str, issuers: tuple[str, ...], scopes: tuple[str, ...]) -> Grant:
        trusted = self._provider.policy.issuers
        for issuer in issuers:
            if issuer in trusted:
                client = trusted[issuer]
                if not set(scopes) <= set(client.scopes):
                    raise refusal("scope_not_permitted", "a scope is wanted that is not permitted")
                wanted = tuple(sorted(set(scopes or client.scopes)))
                return Grant(
                    issuer,
                    resource,
                    client.client_id,
                    wanted,
                    client.flow,
                    client.client_secret_ref,
                )
        raise refusal("issuer_untrusted", "the resource names no authorization server we trust")

    # --- acquisition --------------------------------------------------------------------------

    def _seconds(self, grant: Grant) -> float:
        policy = self._provider.policy
        return policy.interaction_timeout if grant.asks_user else policy.acquisition_timeout

    def _acquire(
        self, grant: Grant, refresh_token: Optional[RefreshToken], budget: Budget
    ) -> TokenAnswer:
        """Return a new token. Runs on a worker of its own, within the acquisition's budget."""
        try:
            return self._acquisition.acquire(grant, refresh_token, budget)
        except (BudgetEnded, OperationalFailure):
            self._doubt(grant)
            raise

    def _doubt(self, grant: Grant) -> None:
        """After a failure, have what is known of who authorizes found out anew."""
        self._acquisition.forget()
        with self._lock:
            if self._discovers and not self._store.holds(grant):
                self._grant, self._asks_first = None, True


def _preset(binding: OAuthBinding) -> Grant:
    return Grant(
        binding.issuer,
        binding.resource,
        binding.client_id,
        tuple(sorted(set(binding.scopes))),
        binding.flow.value,
        binding.client_secret_ref,
    )


def _late() -> OperationalFailure:
    return refusal("acquisition_timed_out", "what authorizes was not found in the time for it")
