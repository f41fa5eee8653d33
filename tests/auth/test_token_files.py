"""Secrets in files and in the keyring: what is read, and what is refused unread."""

from __future__ import annotations

import builtins
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable, Optional

import pytest
from watching import GENEROUS, SLACK, descriptors, timed

from ahp_sync.auth.keepers import TokenFile, TokenKeyring
from ahp_sync.auth.resolvers import MAX_BYTES, Tokens
from ahp_sync.budget import Budget
from ahp_sync.failure import FailureClass, OperationalFailure
from ahp_sync.workers import DeliveryExecutor

SECRET = "s3cr3t-value"


@pytest.fixture
def tokens() -> Iterator[Callable[[Any], Tokens]]:
    executor = DeliveryExecutor(4, name="tests-auth")
    yield lambda source: Tokens(source, executor)
    executor.shutdown(cancel_futures=True)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file that holds the secret, as it should."""
    return written(tmp_path / "token", SECRET.encode())


def written(path: Path, data: bytes, mode: int = 0o600) -> Path:
    path.write_bytes(data)
    path.chmod(mode)
    return path


def resolved(tokens: Tokens) -> str:
    return tokens.resolve("r", Budget(GENEROUS))


def refused(tokens: Tokens) -> OperationalFailure:
    """Return the failure, which must hold neither the secret nor where it is kept."""
    with pytest.raises(OperationalFailure) as raised:
        resolved(tokens)
    failure = raised.value
    assert failure.failure_class is FailureClass.AUTHENTICATION
    assert failure.__cause__ is None and failure.__context__ is None
    assert SECRET not in f"{failure!r} {failure}"
    assert os.sep not in failure.detail
    return failure


Make = Callable[[Any], Tokens]

# --- what is read ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "secret"),
    [
        (b"t", "t"),
        (b"t\n", "t"),
        (b"t\r\n", "t"),
        (b"t\n\n", "t\n"),
        (b"t\r", "t\r"),
        (b" t ", " t "),
        ("gr\u00fc\u00dfe\n".encode(), "gr\u00fc\u00dfe"),
    ],
)
def test_one_line_break_at_the_end_is_not_part_of_it(
    data: bytes, secret: str, tmp_path: Path, tokens: Make
) -> None:
    assert resolved(tokens(TokenFile(written(tmp_path / "t", data)))) == secret


@pytest.mark.parametrize("data", [b"", b"\n", b"\r\n"], ids=repr)
def test_an_empty_file_holds_none(data: bytes, tmp_path: Path, tokens: Make) -> None:
    assert refused(tokens(TokenFile(written(tmp_path / "t", data)))).code == "credential_missing"


def test_a_file_that_is_no_utf8_is_refused(tmp_path: Path, tokens: Make) -> None:
    path = written(tmp_path / "t", SECRET.encode() + b"\xff")
    assert refused(tokens(TokenFile(path))).code == "credential_unusable"


def test_the_longest_and_one_byte_more(tmp_path: Path, tokens: Make) -> None:
    path = written(tmp_path / "t", b"x" * MAX_BYTES)
    asking = tokens(TokenFile(path))
    assert resolved(asking) == "x" * MAX_BYTES
    written(path, b"x" * (MAX_BYTES + 1))
    assert refused(asking).code == "credential_unusable"


def test_a_huge_file_is_not_read_to_its_end(tmp_path: Path, tokens: Make) -> None:
    path = written(tmp_path / "t", b"")
    os.truncate(path, 1 << 40)
    failure, seconds = timed(lambda: refused(tokens(TokenFile(path))))
    assert (failure.code, seconds < SLACK) == ("credential_unusable", True)


def test_a_relative_path_stays_where_it_was(
    file: Path, tokens: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(file.parent)
    asking = tokens(TokenFile(file.name))
    monkeypatch.chdir("/")
    assert resolved(asking) == SECRET


@pytest.mark.parametrize("path", [b"t", None, 7], ids=repr)
def test_a_path_that_is_none(path: Any) -> None:
    with pytest.raises(TypeError):
        TokenFile(path)


# --- changes --------------------------------------------------------------------------------------


def test_a_file_that_is_replaced_is_read_again(file: Path, tokens: Make) -> None:
    """The usual way: a new file takes the name of the old one."""
    asking = tokens(TokenFile(file))
    for number in range(200):
        os.replace(written(file.with_suffix(".new"), f"token-{number:03}".encode()), file)
        assert resolved(asking) == f"token-{number:03}"


def test_a_file_that_is_rewritten_in_place_is_read_again(file: Path, tokens: Make) -> None:
    """Of the same size, faster than the file system's clock goes, and with its old time."""
    asking, before = tokens(TokenFile(file)), file.stat()
    for number in range(200):
        written(file, f"token-{number:03}".encode())
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert resolved(asking) == f"token-{number:03}"


def test_a_file_that_is_being_rewritten_is_not_taken_for_empty(file: Path, tokens: Make) -> None:
    """``open(…, "w")`` empties a file before anything is written to it."""
    asking, over = tokens(TokenFile(file)), threading.Event()

    def rewrite() -> None:
        while not over.is_set():
            with file.open("w") as out:
                time.sleep(0.001)
                out.write(SECRET)
            time.sleep(0.02)

    writer = threading.Thread(target=rewrite)
    writer.start()
    try:
        for _ in range(100):
            assert resolved(asking) == SECRET
    finally:
        over.set()
        writer.join(GENEROUS)


def test_a_mode_that_changes_is_noticed(file: Path, tokens: Make) -> None:
    asking = tokens(TokenFile(file))
    assert resolved(asking) == SECRET
    file.chmod(0o644)
    assert refused(asking).code == "credential_exposed"
    file.chmod(0o400)
    assert resolved(asking) == SECRET


def test_a_file_that_goes_and_comes(file: Path, tokens: Make) -> None:
    asking = tokens(TokenFile(file))
    file.unlink()
    assert refused(asking).code == "credential_missing"
    written(file, b"back")
    assert resolved(asking) == "back"


# --- who may read it, and what it is --------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o700])
def test_a_file_of_its_owner_is_read(mode: int, file: Path, tokens: Make) -> None:
    file.chmod(mode)
    assert resolved(tokens(TokenFile(file))) == SECRET


@pytest.mark.parametrize("mode", [0o640, 0o620, 0o604, 0o602, 0o644, 0o666, 0o611])
def test_a_file_that_others_get_at_is_refused(mode: int, file: Path, tokens: Make) -> None:
    file.chmod(mode)
    failure = refused(tokens(TokenFile(file)))
    assert (failure.code, f"{mode:04o}" in failure.detail) == ("credential_exposed", True)


def test_the_group_may_be_let_in(file: Path, tokens: Make) -> None:
    """To read it, as where secrets are mounted for a group; to write it, never."""
    asking = tokens(TokenFile(file, allow_group_read=True))
    file.chmod(0o640)
    assert resolved(asking) == SECRET
    for mode in (0o660, 0o644, 0o650):
        file.chmod(mode)
        assert refused(asking).code == "credential_exposed"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_file_of_somebody_else_is_refused(file: Path, tokens: Make) -> None:
    os.chown(file, 12345, -1)
    assert refused(tokens(TokenFile(file))).code == "credential_exposed"


def test_a_link_is_followed_and_its_end_is_checked(file: Path, tokens: Make) -> None:
    """Where secrets are mounted, names are links to what is swapped behind them."""
    link = file.with_name("link")
    link.symlink_to(file)
    asking = tokens(TokenFile(link))
    assert resolved(asking) == SECRET
    link.unlink()
    link.symlink_to(written(file.with_name("other"), b"other"))
    assert resolved(asking) == "other"
    file.with_name("other").chmod(0o644)
    assert refused(asking).code == "credential_exposed"


def test_a_link_to_nothing_and_a_link_to_itself(tmp_path: Path, tokens: Make) -> None:
    for target in ("gone", "link"):
        link = tmp_path / "link"
        link.symlink_to(target)
        assert refused(tokens(TokenFile(link))).code == "credential_missing"
        link.unlink()


def test_a_pipe_is_refused_at_once(tmp_path: Path, tokens: Make) -> None:
    """To open it for reading would wait for a writer."""
    path = tmp_path / "fifo"
    os.mkfifo(path, 0o600)
    failure, seconds = timed(lambda: refused(tokens(TokenFile(path))))
    assert (failure.code, seconds < SLACK) == ("credential_unusable", True)


@pytest.mark.parametrize("path", ["/", "/dev/zero", "/dev/null"])
def test_what_is_no_file_is_refused(path: str, tokens: Make) -> None:
    assert refused(tokens(TokenFile(path))).code == "credential_unusable"


@pytest.mark.parametrize("name", ["gone", "with\0nul", "n" * 300], ids=["gone", "nul", "long"])
def test_what_is_not_there_is_missing(name: str, tmp_path: Path, tokens: Make) -> None:
    assert refused(tokens(TokenFile(f"{tmp_path}/{name}"))).code == "credential_missing"


def test_no_descriptor_is_left(file: Path, tmp_path: Path, tokens: Make) -> None:
    good, bad = tokens(TokenFile(file)), tokens(TokenFile(tmp_path))
    resolved(good)
    before = descriptors()
    for _ in range(20):
        resolved(good)
        refused(bad)
    assert descriptors() == before


def test_its_repr_shows_no_secret(file: Path, tokens: Make) -> None:
    source = TokenFile(file)
    resolved(tokens(source))
    assert SECRET not in repr(source) + repr(vars(source))


# --- the keyring ----------------------------------------------------------------------------------

keyring = pytest.importorskip("keyring")
backend = pytest.importorskip("keyring.backend")


class InMemory(backend.KeyringBackend):  # type: ignore[misc, name-defined]
    """A keyring, as the library knows it, that keeps its entries in memory."""

    priority = 1

    def __init__(self) -> None:
        super().__init__()
        self.entries: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> Optional[str]:
        return self.entries.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.entries[service, username] = password


class Locked(InMemory):
    """A keyring that nobody has unlocked."""

    def get_password(self, service: str, username: str) -> Optional[str]:
        raise keyring.errors.KeyringLocked(f"{service} {username} {SECRET}")


@pytest.fixture
def in_memory() -> Iterator[InMemory]:
    before, ring = keyring.get_keyring(), InMemory()
    keyring.set_keyring(ring)
    yield ring
    keyring.set_keyring(before)


def test_the_keyring_is_asked_each_time(in_memory: InMemory, tokens: Make) -> None:
    asking = tokens(TokenKeyring("example"))
    for value in (SECRET, "changed"):
        keyring.set_password("example", "r", value)
        assert resolved(asking) == value


def test_the_user_of_the_entry_may_be_another(in_memory: InMemory, tokens: Make) -> None:
    keyring.set_password("example", "ann", SECRET)
    assert resolved(tokens(TokenKeyring("example", "ann"))) == SECRET
    assert refused(tokens(TokenKeyring("example"))).code == "credential_missing"


def test_a_locked_keyring_is_an_authentication_failure(in_memory: InMemory, tokens: Make) -> None:
    keyring.set_keyring(Locked())
    failure = refused(tokens(TokenKeyring("example")))
    assert (failure.code, "KeyringLocked" in failure.detail) == ("resolver_failed", True)


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "keyring":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.delitem(sys.modules, "keyring")
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"pip install 'ahp-sync\[keyring\]'"):
        TokenKeyring("example")
