"""A quick loopback backend in a process of its own: every request gets empty effects.

``python -m benchmarks.server [DELAY_MS]`` prints its port and serves until it is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


class Backend(asyncio.Protocol):
    """One keep-alive connection. Requests are read by their Content-Length."""

    delay = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.received = b""

    def data_received(self, data: bytes) -> None:
        self.received += data
        while True:
            head, found, rest = self.received.partition(b"\r\n\r\n")
            if not found:
                return
            lines = head.lower().split(b"\r\n")
            length = next(int(x[15:]) for x in lines if x.startswith(b"content-length:"))
            if len(rest) < length:
                return
            body, self.received = rest[:length], rest[length:]
            answer = self.answer(json.loads(body).get("id"))
            if self.delay:
                asyncio.get_running_loop().call_later(self.delay, self.transport.write, answer)
            else:
                self.transport.write(answer)

    @staticmethod
    def answer(rpc_id: object) -> bytes:
        result = {"protocolVersion": "draft", "effects": []}
        body = json.dumps({"jsonrpc": "2.0", "id": rpc_id, "result": result}).encode()
        return HEAD % len(body) + body


@contextlib.contextmanager
def running(delay_ms: int = 0) -> Iterator[str]:
    """Start the server and yield its URL."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.server", str(delay_ms)], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


async def serve(delay_ms: int) -> None:
    Backend.delay = delay_ms / 1000
    server = await asyncio.get_running_loop().create_server(Backend, "127.0.0.1", 0, backlog=512)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]) if len(sys.argv) > 1 else 0))
