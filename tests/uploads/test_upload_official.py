"""The receiver of the official SDK takes our uploads, and finds the bytes by our references."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

import pytest
from watching import GENEROUS

from ahp_sync import Attachment, Capabilities, Client, Grant, Harness, Outcome
from ahp_sync.budget import Budget
from ahp_sync.failure import FailureClass, OperationalFailure
from ahp_sync.snapshots import IN_MEMORY, PIECE, Snapshot
from ahp_sync.testing import assert_denied, assert_synthetic_denial
from ahp_sync.transports.upload import Uploader

pytest.importorskip(
    "agenthooksprotocol", reason="the official SDK is not installed (it needs Python 3.11)"
)
pytest.importorskip("uvicorn", reason="uvicorn, which serves the SDK, is not installed")

Uploaders = Callable[..., Uploader]

PROGRAM = str(Path(__file__).with_name("sdk_receiver.py"))


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Where the SDK serves."""
    with subprocess.Popen([sys.executable, PROGRAM], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        process.terminate()


@pytest.fixture(autouse=True)
def tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    from sdk_receiver import NOT_ALLOWED, TOKEN

    monkeypatch.setenv("GOOD", TOKEN)
    monkeypatch.setenv("NOT_ALLOWED", NOT_ALLOWED)
    monkeypatch.setenv("UNKNOWN", "somebody-elses")


def upload(uploader: Uploader, size: int) -> str:
    budget = Budget(GENEROUS)
    applied = uploader.credentials(budget)
    return uploader.upload(Snapshot.of(os.urandom(size)), applied, budget)


@pytest.mark.parametrize("size", [0, 1, PIECE, PIECE + 1, 3 * IN_MEMORY + 7, 8 << 20])
def test_uploads_are_accepted(url: str, open_uploader: Uploaders, size: int) -> None:
    """Of any size up to the receiver's own limit; each gets a reference of its own."""
    uploader = open_uploader(f"{url}/in", token_env="GOOD")
    refs = [upload(uploader, size) for _ in range(2)]
    assert len({*refs}) == 2


@pytest.mark.parametrize(
    ("token_env", "failure_class", "status"),
    [
        ("", "authentication", 401),
        ("UNKNOWN", "authentication", 401),
        ("NOT_ALLOWED", "http_status", 403),
    ],
)
def test_without_the_right_token_they_are_not(
    url: str, open_uploader: Uploaders, token_env: str, failure_class: str, status: int
) -> None:
    """The SDK answers before it has read the body, and that answer is what counts."""
    uploader = open_uploader(f"{url}/in", token_env=token_env)
    for size in (10, 6 << 20):
        with pytest.raises(OperationalFailure) as caught:
            upload(uploader, size)
        assert caught.value.failure_class is FailureClass(failure_class)
        assert caught.value.http_status == status


def test_more_than_it_takes_is_refused_by_the_receiver(url: str, open_uploader: Uploaders) -> None:
    """413, also for a body that it has not read."""
    uploader = open_uploader(f"{url}/small")
    assert upload(uploader, 1000)
    for size in (1001, 6 << 20):
        with pytest.raises(OperationalFailure) as caught:
            upload(uploader, size)
        assert caught.value.code == "http_413"
    assert upload(uploader, 999)


# --- through the client -----------------------------------------------------------------------


def start(url: str, attachment: Attachment, **route: Any) -> Outcome:
    """Have the SDK's backend decide about a turn with an attachment."""
    subscription = {
        "events": ["turn.start"],
        "mode": "intercept",
        "timeoutMs": 10_000,
        "failurePolicy": "fail-closed",
        "content": {"default": "body"},
        "upload": {"endpoint": f"{url}/in", "timeoutMs": 10_000, "maxBytes": 8 << 20, **route},
    }
    backend = {
        "id": "com.example.sdk",
        "transport": {"type": "http", "url": f"{url}/hooks"},
        "subscriptions": [subscription],
    }
    with Client(
        {"protocolVersion": "draft", "hooks": [backend]},
        source="urn:example:tests",
        harness=Harness("tests", "1"),
        capabilities=Capabilities({"turn.start": Grant(("deny",))}),
    ) as client:
        items = [{"id": "m-1", "role": "user", "parts": [attachment]}]
        return client.turn_start(turn="t-1", items=items, trigger="user")


@pytest.mark.parametrize("size", [0, 1000, 5 * IN_MEMORY])
def test_the_backend_finds_the_bytes(url: str, tmp_path: Path, size: int) -> None:
    """By the reference in the event it is asked about."""
    path = tmp_path / "x.png"
    path.write_bytes(os.urandom(size))
    auth = {"type": "bearer", "tokenEnv": "GOOD"}
    outcome = start(url, Attachment.from_path(path), auth=auth)
    assert_denied(outcome)
    assert outcome.reason == f"{size} {hashlib.sha256(path.read_bytes()).hexdigest()}"


def test_an_upload_that_is_refused_is_settled_by_policy(url: str) -> None:
    """And the backend is not asked."""
    attachment = Attachment.from_bytes(b"x", "image/png")
    auth = {"type": "bearer", "tokenEnv": "NOT_ALLOWED"}
    assert_synthetic_denial(start(url, attachment, auth=auth), failure_class="http_status")
    assert_synthetic_denial(start(url, attachment), failure_class="authentication")
