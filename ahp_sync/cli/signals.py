"""Signals that end the program: by an exception, or handed on to a child process."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from types import FrameType
from typing import Callable, Iterator, Optional

__all__ = ["Relay", "Terminated", "in_foreground", "terminable"]

Handler = Callable[[int, Optional[FrameType]], None]

_TERMINATING = ("SIGTERM", "SIGHUP")
_RELAYED = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT")


class Terminated(KeyboardInterrupt):
    """Another signal than SIGINT asked the program to end; ``signum`` is its number."""

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.signum = signum


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into an exception, meanwhile, so that no process is left behind."""

    def stop(signum: int, frame: Optional[FrameType]) -> None:
        raise Terminated(signum)

    with _handling(_TERMINATING, stop):
        yield


class Relay:
    """Hands the signals that mean "stop" to whoever they are for at the moment.

    Between two addressees they wait, so that none is lost. ``first`` is the first one that came.
    """

    def __init__(self) -> None:
        self.first: Optional[int] = None
        self._waiting: list[int] = []
        self._addressee: Optional[Callable[[int], object]] = None

    @contextlib.contextmanager
    def listening(self) -> Iterator[Relay]:
        """Take the signals, meanwhile; those that the process ignores stay ignored."""
        with _handling(_RELAYED, self._take):
            yield self

    @contextlib.contextmanager
    def to(self, addressee: Callable[[int], object]) -> Iterator[None]:
        """Call ``addressee(signum)`` for each signal, meanwhile, the waiting ones first."""
        self._addressee = addressee
        while self._waiting:
            addressee(self._waiting.pop(0))
        try:
            yield
        finally:
            self._addressee = None

    def _take(self, signum: int, frame: Optional[FrameType]) -> None:
        if self.first is None:
            self.first = signum
        if self._addressee is None:
            self._waiting.append(signum)
        else:
            self._addressee(signum)


@contextlib.contextmanager
def _handling(names: tuple[str, ...], handler: Handler) -> Iterator[None]:
    """Install ``handler``, and afterwards what was there before.

    A signal that is ignored, as under ``nohup``, stays so. Only the main thread can install
    handlers; in another one the program is a part of something else, whose signals are its own.
    """
    previous = {}
    try:
        if threading.current_thread() is threading.main_thread():
            for name in names:
                number = getattr(signal, name, None)
                if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                    previous[number] = signal.signal(number, handler)
        yield
    finally:
        for number, before in previous.items():
            # None stands for a handler that was not installed from Python, and can't be again.
            signal.signal(number, signal.SIG_DFL if before is None else before)


def in_foreground() -> bool:
    """Return whether this process group is the one that the terminal's keys reach."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
