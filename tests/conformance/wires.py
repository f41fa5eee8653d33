"""Backends that the test itself plays, behind a real HTTP server or real backend processes.

Whatever the transport, one function decides what a backend does: it gets each message as an
:class:`Arrival` and returns what to send back. It may block, to hold an answer back.
"""

from __future__ import annotations

import json
import shutil
import socket
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Union
from urllib.parse import quote, unquote

from ahp_sync.testing import HttpBackend, ReceivedRequest, Step, hooks, step
from ahp_sync.testing.http_steps import head

__all__ = ["GENEROUS", "Arrival", "HttpWire", "StdioWire", "Wire", "neutral", "open_wire"]

#: Seconds for what should happen at once.
GENEROUS = 10.0
_RELAY = Path(__file__).with_name("relay.py")


@dataclass(frozen=True)
class Arrival:
    """One message that a backend received: its bytes (without a line end), and what they say."""

    backend: str
    body: bytes
    message: dict[str, Any]

    @property
    def method(self) -> str:
        """``intercept`` or ``observe``."""
        name: str = self.message["method"]
        return name.partition("/")[2]


#: What to send back: nothing, one message, or several, each as soon as it is there.
Answer = Union[None, bytes, Iterator[bytes]]
Script = Callable[[Arrival], Answer]


def neutral(arrival: Arrival) -> Answer:
    """Has nothing against anything."""
    if arrival.method == "observe":
        return None
    result = {"protocolVersion": "draft", "effects": []}
    return json.dumps({"jsonrpc": "2.0", "id": arrival.message["id"], "result": result}).encode()


class Wire:
    """Any number of backends of one transport. Close it after the clients, with nothing held."""

    def __init__(self) -> None:
        self.script: Script = neutral
        self._arrivals: list[Arrival] = []
        self._changed = threading.Condition()

    def transport(self, backend: str) -> dict[str, Any]:
        """Return the ``transport`` object that leads to the backend of this name."""
        raise NotImplementedError

    def registration(self, backends: Mapping[str, Iterable[Mapping[str, Any]]]) -> dict[str, Any]:
        """Return the registration of backends with their subscriptions, in this order."""
        return hooks(
            *(
                {
                    "id": f"com.example.{backend}",
                    "transport": self.transport(backend),
                    "subscriptions": [dict(one) for one in subscriptions],
                }
                for backend, subscriptions in backends.items()
            )
        )

    @property
    def arrivals(self) -> list[Arrival]:
        """What the backends received since the last :meth:`clear`, in order."""
        with self._changed:
            return list(self._arrivals)

    def clear(self, script: Script = neutral) -> None:
        """Forget what was received, and follow ``script`` from now on."""
        with self._changed:
            self._arrivals.clear()
            self.script = script

    def wait(self, condition: Callable[[], bool]) -> bool:
        """Wait until ``condition()``; looked at when something arrives or a process goes."""
        with self._changed:
            return self._changed.wait_for(condition, GENEROUS)

    def wait_arrivals(self, count: int) -> list[Arrival]:
        """Wait until ``count`` messages arrived and return all that did."""
        self.wait(lambda: len(self._arrivals) >= count)
        return self.arrivals

    def close(self) -> None:
        """End everything."""
        raise NotImplementedError

    def _arrived(self, backend: str, body: bytes) -> Arrival:
        arrival = Arrival(backend, body, json.loads(body))
        with self._changed:
            self._arrivals.append(arrival)
            self._changed.notify_all()
        return arrival


class HttpWire(Wire):
    """One HTTP server; each backend is a path of it."""

    def __init__(self) -> None:
        super().__init__()
        self._server = HttpBackend(self._play)

    def transport(self, backend: str) -> dict[str, Any]:
        return {"type": "http", "url": f"{self._server.base_url}/{quote(backend, safe='')}"}

    def close(self) -> None:
        self._server.close()

    def _play(self, request: ReceivedRequest) -> Union[Step, str]:
        arrival = self._arrived(unquote(request.path[1:]), request.body)
        answer = self.script(arrival)
        if answer is None:
            return "no_content"
        if isinstance(answer, bytes):
            return step("status", code=200, answer=answer)
        return step("raw", pieces=_responses(answer))


def _responses(bodies: Iterator[bytes]) -> Iterator[Union[bytes, float]]:
    for body in bodies:
        length = str(len(body))
        yield head(200, {"Content-Type": "application/json", "Content-Length": length}) + body
    # The connection stays open, so that what was said too much lies there for the next to read.
    yield 3 * GENEROUS


class StdioWire(Wire):
    """Persistent backend processes, each a relay to this one."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = tempfile.mkdtemp(prefix="ahp-")
        self._path = f"{self._folder}/wire"
        self._links: list[tuple[str, socket.socket]] = []
        self._threads: list[threading.Thread] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self._path)
        self._listener.listen(64)
        self._start(self._accept)

    def transport(self, backend: str) -> dict[str, Any]:
        return {
            "type": "stdio",
            "command": sys.executable,
            "args": ["-S", "-E", str(_RELAY), self._path, backend],
            "lifecycle": "persistent",
        }

    def emit(self, backend: str, body: bytes) -> None:
        """Have the newest process of a backend print a line."""
        with self._changed:
            links = [link for name, link in self._links if name == backend]
        links[-1].sendall(body + b"\n")

    def wait_gone(self, backend: str) -> bool:
        """Wait until no process of the backend is left."""
        return self.wait(lambda: all(name != backend for name, _ in self._links))

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        with self._changed:
            links = [link for _, link in self._links]
        for link in links:
            with suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(GENEROUS)
        self._listener.close()
        shutil.rmtree(self._folder)

    def _start(self, function: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=function, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                link, _ = self._listener.accept()
            except OSError:
                return
            self._start(self._serve, link)

    def _serve(self, link: socket.socket) -> None:
        with link, link.makefile("rb") as lines:
            backend = lines.readline().decode().rstrip("\n")
            entry = (backend, link)
            with self._changed:
                self._links.append(entry)
            try:
                for line in lines:
                    self._answer(link, self._arrived(backend, line.rstrip(b"\n")))
            except ConnectionResetError:
                pass
            finally:
                with self._changed:
                    self._links.remove(entry)
                    self._changed.notify_all()

    def _answer(self, link: socket.socket, arrival: Arrival) -> None:
        answer = self.script(arrival)
        if answer is None:
            return
        for body in [answer] if isinstance(answer, bytes) else answer:
            with suppress(OSError):  # the process is gone: nobody hears it
                link.sendall(body + b"\n")


def open_wire(transport: str) -> Wire:
    """Return the wire of that name, ``http`` or ``stdio``."""
    return HttpWire() if transport == "http" else StdioWire()
