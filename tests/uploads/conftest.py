"""Fixtures for attachments, receivers and uploaders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any, Callable

import pytest
from receiver import Receiver
from watching import descriptors, eventually

from ahp_sync.auth.oauth import OAuthPolicy
from ahp_sync.auth.service import AuthService
from ahp_sync.budget import Budget
from ahp_sync.registration import BearerBinding, Header
from ahp_sync.transports.upload import Uploader
from ahp_sync.workers import DeliveryExecutor


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """See that every descriptor is closed in the end, that of a temporary file among them."""
    before = descriptors()
    yield
    assert eventually(lambda: descriptors() <= before), descriptors() - before


@pytest.fixture
def executor(nothing_is_left: None) -> Iterator[DeliveryExecutor]:
    executor = DeliveryExecutor(64)
    yield executor
    executor.shutdown(cancel_futures=True)


@pytest.fixture
def open_receiver(nothing_is_left: None) -> Iterator[Callable[..., Receiver]]:
    """``open_receiver(*steps, **options)``: a receiver that is closed afterwards."""
    with ExitStack() as stack:
        yield lambda *steps, **options: stack.enter_context(Receiver(*steps, **options))


@pytest.fixture
def open_uploader(executor: DeliveryExecutor) -> Iterator[Callable[..., Uploader]]:
    """``open_uploader(endpoint, **options)``: an uploader that is closed afterwards.

    ``token_env`` names the variable with its token, ``headers`` are the registration's own.
    """
    opened: list[Uploader] = []

    def open_(
        endpoint: str,
        *,
        max_bytes: int = 1 << 30,
        token_env: str = "",
        headers: Sequence[Header] = (),
        **options: Any,
    ) -> Uploader:
        auth = AuthService(
            None, OAuthPolicy(), context=lambda *_: None, lender=executor, max_workers=4
        )
        binding = BearerBinding(token_env=token_env) if token_env else None
        credentials = auth.credentials(
            endpoint,
            headers,
            binding,
            backend="com.example.receiver",
            proxy=None,
            upload=True,
            fixed=("content-type",),
        )
        opened.append(Uploader(endpoint, max_bytes, credentials, **options))
        return opened[-1]

    yield open_
    for uploader in opened:
        uploader.close(Budget(1))
