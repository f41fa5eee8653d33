"""Opening a TCP connection within a budget, over whichever address answers first."""

from __future__ import annotations

import errno
import selectors
import socket
from typing import Any, Callable, Optional, Sequence

from ahp_sync.budget import Budget
from ahp_sync.failure import FailureClass, OperationalFailure

__all__ = ["Permit", "dial"]

#: Seconds one address is given before the next one is tried beside it (RFC 8305, section 5).
STAGGER = 0.25

_UNDER_WAY = (0, errno.EINPROGRESS, errno.EWOULDBLOCK)

Address = tuple[Any, Any, int, str, Any]
#: Says of an address whether it may be connected to.
Permit = Callable[[str], bool]
SocketOptions = Sequence[tuple[int, int, Any]]


def dial(
    host: str,
    port: int,
    budget: Budget,
    options: SocketOptions = (),
    first: Optional[int] = None,
    permit: Optional[Permit] = None,
) -> socket.socket:
    """Return a connected TCP socket.

    Every address of the host is tried, a new one each :data:`STAGGER` seconds (sooner on an error
    or where little time is left), beside those already under way, so that a dead first address
    costs a stagger and not the budget (field bug F55). ``first`` is the address family to begin
    with; an address that ``permit`` does not allow is not connected to. Name resolution can't be
    bounded from in here: a worker that hangs in it is left behind.

    Raises ``OperationalFailure`` of class ``connection``, of class ``authentication`` where no
    address is permitted, and ``BudgetEnded``.
    """
    addresses = _resolve(host, port)
    budget.check()
    if permit is not None:
        addresses = [address for address in addresses if permit(address[4][0])]
        if not addresses:
            raise OperationalFailure(
                FailureClass.AUTHENTICATION,
                "forbidden_destination",
                "the host has no address that may be connected to",
            )
    if first is not None:
        addresses.sort(key=lambda address: address[0] != first)
    return _Race(addresses, budget, options).run()


def _resolve(host: str, port: int) -> list[Address]:
    try:
        return list(socket.getaddrinfo(host, port, 0, socket.SOCK_STREAM))
    except (OSError, UnicodeError):
        raise _failure("name_resolution", "the backend's host name was not resolved") from None


class _Race:
    """Connection attempts side by side; the first to succeed wins, the others are closed."""

    def __init__(self, addresses: list[Address], budget: Budget, options: SocketOptions) -> None:
        self._addresses = addresses
        self._budget = budget
        self._options = options
        self._attempts: list[socket.socket] = []
        self._error = ConnectionError()

    def run(self) -> socket.socket:
        stagger = min(STAGGER, self._budget.remaining() / (len(self._addresses) + 1))
        key = self._budget.on_abort(self._shut)
        try:
            with selectors.DefaultSelector() as selector:
                for address in self._addresses:
                    self._start(address, selector)
                    last = address is self._addresses[-1]
                    winner = self._await(selector, None if last else stagger)
                    if winner is not None:
                        return winner
        finally:
            self._budget.off_abort(key)
            for attempt in self._attempts:
                attempt.close()
        self._budget.check()
        raise _connect_failure(self._error)

    def _start(self, address: Address, selector: selectors.BaseSelector) -> None:
        self._budget.check()
        family, kind, protocol, _, where = address
        try:
            attempt = socket.socket(family, kind, protocol)
        except OSError as error:
            self._note(error)
            return
        self._attempts.append(attempt)
        try:
            for option in self._options:
                attempt.setsockopt(*option)
            attempt.setblocking(False)
            status = attempt.connect_ex(where)
            if status not in _UNDER_WAY:
                raise OSError(status, "")
            selector.register(attempt, selectors.EVENT_WRITE)
        except OSError as error:
            self._note(error)
            self._drop(attempt)

    def _await(
        self, selector: selectors.BaseSelector, pause: Optional[float]
    ) -> Optional[socket.socket]:
        """Return the first connected socket; None once all failed, or after ``pause`` seconds."""
        until = self._budget.child(pause) if pause else self._budget
        while selector.get_map():
            self._budget.check()
            left = until.remaining()
            if left <= 0:
                return None
            for key, _ in selector.select(left):
                attempt = key.fileobj
                assert isinstance(attempt, socket.socket)
                selector.unregister(attempt)
                error = attempt.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if error == 0 and _is_connected(attempt):
                    self._attempts.remove(attempt)
                    return attempt
                self._note(OSError(error, ""))
                self._drop(attempt)
        return None

    def _note(self, error: OSError) -> None:
        self._error = error if isinstance(error, ConnectionError) else self._error

    def _drop(self, attempt: socket.socket) -> None:
        self._attempts.remove(attempt)
        attempt.close()

    def _shut(self) -> None:
        """Wake the selector: a connecting socket that is shut becomes ready."""
        for attempt in list(self._attempts):
            try:
                attempt.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def _is_connected(attempt: socket.socket) -> bool:
    try:
        attempt.getpeername()
    except OSError:
        return False
    return True


def _connect_failure(error: OSError) -> OperationalFailure:
    if isinstance(error, ConnectionRefusedError):
        return _failure("connect_refused", "the backend refused the connection")
    return _failure("connect_failed", "no connection to the backend could be made")


def _failure(code: str, detail: str) -> OperationalFailure:
    return OperationalFailure(FailureClass.CONNECTION, code, detail, retryable=True)
