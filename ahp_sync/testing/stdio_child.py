"""The process of the scripted stdio backend: ``python stdio_child.py LEDGER SCRIPT``.

:class:`ahp_sync.testing.StdioBackend` starts it through the harness under test. LEDGER is a
directory where every process leaves a file ``pid-…`` and every request one ``request-…``; SCRIPT
is a JSON list of ``[name, arguments]``. It runs by its path and imports little, to start fast.

A step is looked up in three tables: what happens before stdin is read (:data:`START_STEPS`), what
happens with a request (:data:`REQUEST_STEPS`), and the answers, which are steps too. A step may be
in both of the first two. Each request takes the next step, over all processes of the backend; a
process that starts looks at the step of the coming request.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
import time
from io import BufferedReader
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional

if TYPE_CHECKING or __package__:
    from ahp_sync.testing import answers
else:
    import answers

__all__ = ["ENDING_STEPS", "REQUEST_STEPS", "START_STEPS"]

#: "For ever": longer than any test.
FOR_EVER = 60.0

START_STEPS: Dict[str, Callable[..., None]] = {}
REQUEST_STEPS: Dict[str, Callable[..., None]] = {}
#: Start steps after which no request is read: they use up their place in the script themselves.
ENDING_STEPS = frozenset({"exit_at_start", "never_reads", "endless_start"})


def _start(function: Callable[..., None]) -> Callable[..., None]:
    START_STEPS[function.__name__] = function
    return function


def _request(function: Callable[..., None]) -> Callable[..., None]:
    REQUEST_STEPS[function.__name__] = function
    return function


class Child:
    """What the steps of this process work with."""

    def __init__(self, ledger: str, script: List[Any], stdin: BufferedReader) -> None:
        self.script = script
        self.stdin = stdin
        #: Whether the end of stdin ends the process.
        self.heeds_eof = True
        #: The request that was answered before it was read.
        self.answered_early: Optional[str] = None
        self._ledger = ledger
        self._writing = threading.Lock()

    # --- the ledger ---

    def note_pid(self) -> None:
        """Enter this process; the content tells it from a later process of the same number."""
        self._note(f"pid-{os.getpid()}", start_ticks(os.getpid()).encode())

    def note_request(self, number: int, line: bytes) -> None:
        """Enter the ``number``-th request of the backend."""
        head = json.dumps([os.getpid(), time.monotonic()])
        self._note(f"request-{number:06d}", head.encode() + b"\n" + line)

    def _note(self, name: str, content: bytes) -> None:
        path = os.path.join(self._ledger, name)
        draft = os.path.join(self._ledger, f"draft-{os.getpid()}-{threading.get_ident()}")
        with open(draft, "wb") as file:
            file.write(content)
        os.rename(draft, path)

    def taken(self) -> int:
        """Return how many steps of the script were taken, by all processes so far."""
        return sum(name.startswith("taken-") for name in os.listdir(self._ledger))

    def take(self) -> int:
        """Take the next step for this process and return its number."""
        number = self.taken()
        while True:
            try:
                flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
                os.close(os.open(os.path.join(self._ledger, f"taken-{number:06d}"), flags))
            except FileExistsError:
                number += 1
            else:
                return number

    # --- stdin and stdout ---

    def write(self, data: bytes) -> None:
        """Write ``data`` to stdout as it is; several threads may."""
        with self._writing:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()

    def line(self, data: bytes) -> None:
        """Write ``data`` and a line end to stdout."""
        self.write(data + b"\n")

    def play(self, step: Any, request: Any) -> None:
        """Do one step with a request."""
        name, arguments = step
        if name in answers.ANSWERS:
            self.line(answers.ANSWERS[name](request["id"], **arguments))
        elif name in REQUEST_STEPS:
            REQUEST_STEPS[name](self, request, **arguments)
        else:  # a step of the start only
            self.line(answers.ok(request["id"]))

    def run(self) -> None:
        """Do the script until stdin ends."""
        self.note_pid()
        name, arguments = self._step(self.taken())
        if name in START_STEPS:
            if name in ENDING_STEPS:
                self.take()
            START_STEPS[name](self, **arguments)
        for line in self.stdin:
            number = self.take()
            self.note_request(number, line)
            request = json.loads(line)
            if "id" not in request:
                continue
            if self.answered_early == request["id"]:
                self.answered_early = None
            else:
                self.play(self._step(number), request)
        if not self.heeds_eof:
            time.sleep(FOR_EVER)

    def _step(self, number: int) -> Any:
        return self.script[min(number, len(self.script) - 1)]


def start_ticks(pid: int) -> str:
    """Return when process ``pid`` began, in the kernel's units, or "" where that is unknown."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def leave(code: int) -> None:
    """End this process at once with exit status ``code``, or by the signal ``-code``."""
    if code < 0:
        os.kill(os.getpid(), -code)
        time.sleep(FOR_EVER)
    os._exit(code)


def fork(child: Child) -> bool:
    """Start a process that has our pipes; return True in the new one."""
    if os.fork():
        return False
    child.note_pid()
    return True


# --- before stdin is read ----------------------------------------------------------------------


@_start
def exit_at_start(child: Child, code: int = 3) -> None:
    """Exits at once, with ``code`` (a negative one: killed by that signal)."""
    leave(code)


@_start
def never_reads(child: Child) -> None:
    """Lives on without reading stdin."""
    time.sleep(FOR_EVER)


@_start
def endless_start(child: Child) -> None:
    """Prints one line without end, and reads nothing."""
    floods_stdout(child, None)


@_start
def slow_start(child: Child, seconds: float = 0.2) -> None:
    """Needs 200 ms before it reads anything; then answers."""
    time.sleep(seconds)


@_start
def banner(child: Child, text: str = "shell ready") -> None:
    """Greets on stdout when it starts; then answers."""
    child.line(text.encode())


@_start
def writes_before_reading(child: Child, size: int = 1 << 20) -> None:
    """Prints ``size`` bytes of log lines before it reads; then answers."""
    child.write(b"loading rules, please wait ....\n" * (size // 32))


@_start
def answers_before_reading(child: Child, size: int = 1 << 20) -> None:
    """Sends a denial of ``size`` bytes as soon as it knows the id; only then reads the rest."""
    found = re.search(rb'"id":\s*"([^"]+)"', child.stdin.peek(1))
    if found:
        child.answered_early = found.group(1).decode()
        child.line(answers.padded(child.answered_early, size))


@_start
def ignores_sigterm(child: Child) -> None:
    """Ignores SIGTERM and the end of stdin, and never answers."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child.heeds_eof = False


@_start
def ignores_eof(child: Child) -> None:
    """Answers, and lives on when stdin ends."""
    child.heeds_eof = False


@_start
def grandchild(child: Child) -> None:
    """Starts a process that keeps stdin, stdout and stderr open; then answers."""
    if fork(child):
        time.sleep(FOR_EVER)
        os._exit(0)


@_start
def wrapper(child: Child) -> None:
    """Starts the real server, which ignores the end of stdin, and waits for it."""
    if fork(child):
        child.heeds_eof = False
    else:
        _, status = os.wait()
        os._exit(1 if status else 0)


# --- with a request ----------------------------------------------------------------------------


def later(child: Child, seconds: float, step: Any, request: Any) -> None:
    """Do ``step`` after ``seconds``, reading on meanwhile."""
    threading.Timer(seconds, child.play, (step, request)).start()


@_request
def late(child: Child, request: Any, seconds: float = 1.0, then: Any = ("deny", {})) -> None:
    """Answers after ``seconds``; reads on meanwhile."""
    later(child, seconds, then, request)


@_request
def slow(child: Child, request: Any, seconds: float = 0.05, then: Any = ("ok", {})) -> None:
    """Answers after 50 ms, several requests at once if they come."""
    later(child, seconds, then, request)


@_request
def silent(child: Child, request: Any) -> None:
    """Reads the request and never answers."""
    child.heeds_eof = False


REQUEST_STEPS["ignores_sigterm"] = silent


@_request
def eof(child: Child, request: Any) -> None:
    """Exits with status 0 instead of an answer."""
    leave(0)


@_request
def closes_stdout(child: Child, request: Any) -> None:
    """Closes stdout instead of an answer, and lives on."""
    child.heeds_eof = False
    os.close(1)


@_request
def exit_mid(child: Child, request: Any, code: int = 3) -> None:
    """Exits with status ``code`` instead of an answer."""
    leave(code)


@_request
def killed_mid(child: Child, request: Any) -> None:
    """Is killed by signal 9 instead of an answer."""
    leave(-9)


@_request
def traceback(child: Child, request: Any) -> None:
    """Dies of an exception: a traceback on stderr, exit status 1."""
    raise RuntimeError("the scripted backend crashes as told")


@_request
def answer_then_exit(child: Child, request: Any, code: int = 3, then: Any = ("deny", {})) -> None:
    """Answers, then exits with status ``code`` (a negative one: killed by that signal)."""
    child.play(then, request)
    leave(code)


@_request
def grandchild_silent(child: Child, request: Any) -> None:
    """Exits without an answer; a process it started keeps stdout open."""
    if fork(child):
        time.sleep(FOR_EVER)
    os._exit(0)


@_request
def grandchild_waiting(child: Child, request: Any) -> None:
    """Waits for a process it started instead of answering; both keep stdout open."""
    grandchild(child)
    os.wait()


@_request
def floods_stderr(child: Child, request: Any, size: int = 10 << 20, then: Any = ("ok", {})) -> None:
    """Writes 10 MiB to stderr, then answers."""
    line = b"warning: the weather is fine ..\n"
    for _ in range(size // (len(line) * 1024)):
        os.write(2, line * 1024)
    child.play(then, request)


@_request
def floods_stdout(child: Child, request: Any) -> None:
    """Prints one line without end."""
    while True:
        child.write(b"x" * 65536)


@_request
def noise(child: Child, request: Any, text: str = "shell ready", then: Any = ("deny", {})) -> None:
    """Prints a line that is no message, then the answer."""
    child.write(text.encode() + b"\n")
    child.play(then, request)


@_request
def oops(child: Child, request: Any) -> None:
    """Prints ``oops``."""
    child.line(b"oops")


@_request
def two_lines(child: Child, request: Any) -> None:
    """A good answer, and another object in a line of its own."""
    child.write(answers.ok(request["id"]) + b'\n{"and": "more"}\n')


@_request
def duplicate_answer(
    child: Child, request: Any, seconds: float = 0.0, then: Any = ("ok", {})
) -> None:
    """Answers twice, the second time after ``seconds``."""
    child.play(then, request)
    if seconds:
        later(child, seconds, then, request)
    else:
        child.play(then, request)


@_request
def no_newline(child: Child, request: Any) -> None:
    """A good answer without its line end; then waits for the end of stdin."""
    child.write(answers.ok(request["id"]))


@_request
def env_dump(child: Child, request: Any) -> None:
    """A denial whose reason is the process's environment, as a JSON object."""
    child.line(answers.deny(request["id"], json.dumps(dict(os.environ))))


def main() -> None:
    """Run a child as told by the command line."""
    ledger, script = sys.argv[1:]
    try:
        with open(0, "rb") as stdin:
            Child(ledger, json.loads(script), stdin).run()
    except BrokenPipeError:
        os._exit(0)


if __name__ == "__main__":
    main()
