"""A backend process with no will of its own: ``python relay.py SOCKET NAME``.

It passes lines from the harness to the test that listens on SOCKET, and back; NAME tells the test
which backend it is. It runs by its path and imports little, to start fast.
"""

from __future__ import annotations

import os
import socket
import sys
import threading


def speak(link: socket.socket) -> None:
    """Write to stdout what the test says, until it hangs up."""
    while data := link.recv(1 << 16):
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    os._exit(0)


def main(path: str, name: str) -> None:
    """Pass lines on until stdin ends."""
    link = socket.socket(socket.AF_UNIX)
    link.connect(path)
    link.sendall(name.encode() + b"\n")
    threading.Thread(target=speak, args=(link,), daemon=True).start()
    for line in sys.stdin.buffer:
        link.sendall(line)
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
