"""One HTTP request within a budget, and what became of it: an answer to read, or a failure."""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterable, Mapping
from typing import Callable, Optional, TypeVar, Union

import requests
from requests import PreparedRequest
from requests.structures import CaseInsensitiveDict

from ahp_sync.budget import Budget, BudgetEnded
from ahp_sync.failure import FailureClass, OperationalFailure
from ahp_sync.transports.adapter import Attempt, DeadlineAdapter
from ahp_sync.transports.faults import BAD_HTTP, TRUNCATED, translated

__all__ = [
    "COMMON_HEADERS",
    "Body",
    "body_of",
    "encoding_problem",
    "exchange",
    "query_values",
    "rest_of",
]

T = TypeVar("T")

Body = Union[bytes, Iterable[bytes], None]

#: What every request of ours says, whoever it goes to. It is not changed.
COMMON_HEADERS = {
    "Accept": "application/json",
    "Accept-Encoding": "identity",
    "User-Agent": "ahp-sync",
}

_PIECE = 1 << 16


def exchange(
    adapter: DeadlineAdapter,
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: Body,
    budget: Budget,
    read: Callable[[requests.Response, Attempt], T],
) -> T:
    """Send one request once, and return what ``read`` makes of the answer.

    A body in pieces is sent piece by piece, and needs its ``Content-Length`` among the headers.
    Redirects are not followed. Raises ``OperationalFailure`` for every fault of the network and of
    the peer, what ``read`` raises, and ``BudgetEnded``.
    """
    request = PreparedRequest()
    request.method = method
    request.url = url
    request.body = body  # type: ignore[assignment]
    request.headers = CaseInsensitiveDict(headers)
    if isinstance(body, bytes):
        request.headers["Content-Length"] = str(len(body))
    attempt = Attempt(budget)
    budget.check()
    try:
        response = adapter.send(request, stream=True, timeout=attempt)  # type: ignore[arg-type]
        return read(response, attempt)
    except (BudgetEnded, OperationalFailure):
        raise
    except Exception as error:
        budget.check()  # a socket that was shut at the end fails in many ways, none is news
        failure = translated(error)
        if failure.code == "not_sent" and attempt.answer is not None:
            failure = BAD_HTTP.failure()
        elif failure.code == "connection_lost" and attempt.answer is not None:
            failure = TRUNCATED.failure()
        elif failure.code == "connection_lost" and attempt.reused:
            failure.retry_after = 0.0  # the backend had dropped an idle connection (F22)
        raise failure from None
    finally:
        attempt.release()


def body_of(response: requests.Response, attempt: Attempt, cap: int) -> bytes:
    """Return the whole body of an answer, of ``cap`` bytes at most."""
    declared = response.headers.get("Content-Length", "")
    if declared.isdigit() and len(declared) < 20 and int(declared) > cap:
        raise _too_large(cap)
    pieces, size = [], 0
    for piece in response.raw.stream(_PIECE, decode_content=False):
        size += len(piece)
        if size > cap:
            raise _too_large(cap)
        pieces.append(piece)
    attempt.complete = True
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def rest_of(response: requests.Response, attempt: Attempt) -> bytes:
    """Return a body after a status that said it all: nothing, unless it is little and whole.

    A fault in it must not change what the status means, nor have the message sent again.
    """
    try:
        return body_of(response, attempt, _PIECE)
    except BudgetEnded:
        raise
    except Exception:
        attempt.budget.check()
        return b""


def encoding_problem(response: requests.Response) -> Optional[OperationalFailure]:
    """Return the failure of an answer that is compressed although that was not asked for (F44)."""
    encoding = response.headers.get("Content-Encoding", "identity")
    if encoding.strip().lower() in ("identity", ""):
        return None
    return OperationalFailure(
        FailureClass.MALFORMED,
        "content_encoding",
        "the answer is compressed although that was not asked for",
        http_status=response.status_code,
    )


def query_values(url: str) -> tuple[str, ...]:
    """Return what stands in the query of ``url``, where tokens are put at times (F51)."""
    query = urllib.parse.urlsplit(url).query
    decoded = [value for _, value in urllib.parse.parse_qsl(query)]
    raw = [pair.partition("=")[2] for pair in query.split("&")]
    return tuple({value for value in (*decoded, *raw) if value})


def _too_large(cap: int) -> OperationalFailure:
    return OperationalFailure(
        FailureClass.MALFORMED, "too_large", f"the answer exceeds {cap} bytes"
    )
