"""Uploading 64 MiB from a path: how fast against bare ``requests``, and in how much memory.

The receiver has a process of its own, hashes what it reads, and answers with a true receipt. Both
ways take turns, each in a process of its own; the ratio is that of the medians.

The receiver wants the digest before the first byte, so whoever uploads has to read and hash the
body once before anything is sent. The bare way, which the bound is for, does not; a third one,
``requests`` with that digest, shows what of the difference is the protocol's.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.table import Row

SIZE = 64 << 20
ROUNDS = 7
PIECE = 1 << 18
LEAST_RATIO = 0.8
MOST_GROWTH_MIB = 8.0


def run() -> list[Row]:
    """Return throughput, the ratio, and the growth of memory."""
    with tempfile.TemporaryDirectory() as folder, _receiver() as url:
        path = Path(folder) / "body.bin"
        path.write_bytes(os.urandom(SIZE))
        times: dict[str, list[float]] = {"bare": [], "hashing": [], "ours": []}
        growth = []
        with contextlib.ExitStack() as stack:
            senders = {name: stack.enter_context(_sender(name, url, path)) for name in times}
            for _ in range(ROUNDS + 1):
                for name, sender in senders.items():
                    seconds, grown = _one(sender)
                    times[name].append(seconds)
                    if name == "ours":
                        growth.append(grown)
    rates = {name: SIZE / (1 << 20) / statistics.median(took[1:]) for name, took in times.items()}
    return [
        Row("upload of 64 MiB: bare requests", rates["bare"], None, "MiB/s"),
        Row("upload of 64 MiB: requests with a digest", rates["hashing"], None, "MiB/s"),
        Row("upload of 64 MiB: from a path", rates["ours"], None, "MiB/s"),
        Row("from a path / bare", rates["ours"] / rates["bare"], LEAST_RATIO, "x", at_least=True),
        Row("from a path / requests with a digest", rates["ours"] / rates["hashing"], None, "x"),
        Row("growth of memory by uploads", max(growth), MOST_GROWTH_MIB, "MiB"),
    ]


# --- the receiver ---------------------------------------------------------------------------------


class Handler(http.server.BaseHTTPRequestHandler):
    """Reads, hashes, and confirms."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *args: Any) -> None:
        """Say nothing."""

    def do_POST(self) -> None:
        left = int(self.headers["Content-Length"])
        size, digest = left, hashlib.sha256()
        is_event = self.headers["Content-Type"] == "application/json"
        body = b""
        while left:
            piece = self.rfile.read(min(left, PIECE))
            left -= len(piece)
            digest.update(piece)
            body = piece if is_event else b""
        answer: Any = {"ref": digest.hexdigest(), "size": size, "sha256": digest.hexdigest()}
        if is_event:
            result = {"protocolVersion": "draft", "effects": []}
            answer = {"jsonrpc": "2.0", "id": json.loads(body)["id"], "result": result}
        data = json.dumps(answer).encode()
        self.send_response(200 if is_event else 201)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def _serve() -> None:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()


@contextlib.contextmanager
def _process(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.uploads", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            pipe.close()


@contextlib.contextmanager
def _receiver() -> Iterator[str]:
    with _process("serve") as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/"


# --- the senders ----------------------------------------------------------------------------------


@contextlib.contextmanager
def _sender(name: str, url: str, path: Path) -> Iterator[subprocess.Popen[str]]:
    with _process(name, url, str(path)) as process:
        yield process


def _one(process: subprocess.Popen[str]) -> tuple[float, float]:
    """Have one upload done; returns its seconds, and the MiB by which the peak has grown."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    seconds, grown = process.stdout.readline().split()
    return float(seconds), float(grown)


def _send(name: str, url: str, path: str) -> None:
    upload = _ours(url, path) if name == "ours" else _bare(url, path, hashes=name == "hashing")
    before = _peak()
    for _ in sys.stdin:
        started = time.perf_counter()
        upload()
        print(time.perf_counter() - started, _peak() - before, flush=True)


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _bare(url: str, path: str, *, hashes: bool) -> Any:
    import requests

    session = requests.Session()

    def upload() -> None:
        headers = {}
        if hashes:
            digest = hashlib.sha256()
            with open(path, "rb") as file:
                while piece := file.read(PIECE):
                    digest.update(piece)
            headers["AHP-Content-SHA256"] = digest.hexdigest()
        with open(path, "rb") as file:
            response = session.post(url, data=file, headers=headers)
        assert response.status_code == 201

    return upload


def _ours(url: str, path: str) -> Any:
    from ahp_sync import Attachment, Capabilities, Client, Grant, Harness

    subscription = {
        "events": ["turn.start"],
        "mode": "intercept",
        "timeoutMs": 5000,
        "failurePolicy": "fail-closed",
        "content": {"default": "body"},
        "upload": {"endpoint": url, "timeoutMs": 30_000, "maxBytes": SIZE},
    }
    backend = {
        "id": "com.example.bench",
        "transport": {"type": "http", "url": url},
        "subscriptions": [subscription],
    }
    client = Client(
        {"protocolVersion": "draft", "hooks": [backend]},
        source="urn:example:bench",
        harness=Harness("bench", "1"),
        capabilities=Capabilities({"turn.start": Grant(("deny",))}),
        audit=[],
    )

    def turn(attachment: Attachment) -> None:
        items = [{"id": f"m-{attachment.id}", "role": "user", "parts": [attachment]}]
        outcome = client.turn_start(turn=attachment.id, items=items, trigger="user")
        assert outcome.may_execute, outcome.failures

    # What is loaded and started on first use is no growth by an upload.
    turn(Attachment.from_bytes(b"small", "image/png"))
    return lambda: turn(Attachment.from_path(path))


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        _serve()
    else:
        _send(*sys.argv[1:])
