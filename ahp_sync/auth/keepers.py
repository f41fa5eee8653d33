"""Resolvers for the places where hosts keep secrets: a file, a command, the system's keyring."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping, Sequence
from typing import Any, Optional, Union

from ahp_sync.auth.resolvers import MAX_BYTES, no_secret, secret_of
from ahp_sync.budget import Budget, positive_seconds

__all__ = ["TokenCommand", "TokenFile", "TokenKeyring"]

# A file that is rewritten in place is empty, or half written, for a moment.
_LOOKS, _PAUSE = 5, 0.01


class TokenFile:
    """A secret in a file that nobody but its owner can read; read each time it is wanted.

    :param path: a regular file of at most 8 KiB of UTF-8 text, owned by us or by root, or a link to
        one. One line break at its end is not part of the secret. A relative path is taken from the
        directory that is the current one now.
    :param allow_group_read: whether the file's group may read it, too.

    The mode is checked each time. What is wrong makes the delivery fail, in the class
    ``authentication``. Raises :class:`TypeError` for a path that is none.
    """

    def __init__(
        self, path: Union[str, os.PathLike[str]], *, allow_group_read: bool = False
    ) -> None:
        given = os.fspath(path)
        if not isinstance(given, str):
            raise TypeError("path must be a path of text")
        self._path = os.path.abspath(given)
        self._forbidden = 0o037 if allow_group_read else 0o077

    def resolve(self, ref: str, budget: Budget) -> str:
        """Return the secret; see ``TokenResolver``."""
        # Nothing is kept: a clock that stands still for some milliseconds, as file systems' do,
        # would hide a change, and to look for one costs as much as to read.
        what = f"the token file of {ref!r}"
        for _ in range(_LOOKS):
            data, is_still = self._read(what)
            if data and is_still:
                return secret_of(data, what)
            budget.sleep(_PAUSE)
            budget.check()
        how = "is being written to" if data else "is empty"
        raise no_secret("credential_missing", f"{what} {how}")

    def _read(self, what: str) -> tuple[bytes, bool]:
        """Return what the file holds, and whether nobody wrote to it meanwhile."""
        try:
            # Without O_NONBLOCK opening a pipe would wait for somebody to write to it.
            descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or "no such path"
            raise no_secret("credential_missing", f"{what} can't be read: {why}") from None
        try:
            before = os.fstat(descriptor)
            self._check(before, what)
            data = _whole(descriptor)
            after = os.fstat(descriptor)
        except OSError as error:
            raise no_secret("credential_missing", f"{what}: {error.strerror}") from None
        finally:
            os.close(descriptor)
        return data, _version(before) == _version(after)

    def _check(self, facts: os.stat_result, what: str) -> None:
        if not stat.S_ISREG(facts.st_mode):
            raise no_secret("credential_unusable", f"{what} is no regular file")
        if facts.st_mode & self._forbidden:
            mode = stat.S_IMODE(facts.st_mode)
            raise no_secret(
                "credential_exposed",
                f"{what} has mode {mode:04o}, so that others can get at it",
            )
        if facts.st_uid not in (0, os.geteuid()):
            raise no_secret("credential_exposed", f"{what} is somebody else's")

    def __repr__(self) -> str:
        return f"TokenFile({self._path!r})"


class TokenCommand:
    """A secret that a command prints, run without a shell each time it is wanted.

    :param argv: the command and its arguments; an argument that is ``"{ref}"`` is replaced by the
        reference.
    :param seconds: the most that it may take, beside the deadline of the delivery.
    :param env: variables beside the few that every backend process gets (R-ENV-01).

    It has to exit with status 0 and print at most 8 KiB of UTF-8 text; one line break at the end is
    not part of the secret. It and all that it started are ended then (SIGTERM, a moment, SIGKILL to
    its process group). Raises :class:`TypeError` and :class:`ValueError` for arguments that make no
    sense, and :class:`NotImplementedError` on Windows.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        seconds: float = 5.0,
        env: Optional[Mapping[str, str]] = None,
    ) -> None:
        self._argv = () if isinstance(argv, (str, bytes)) else tuple(argv)
        if isinstance(argv, (str, bytes)) or not all(isinstance(one, str) for one in self._argv):
            raise TypeError("argv must be a list of texts: there is no shell that would split one")
        if not self._argv or any("\0" in one for one in self._argv):
            raise ValueError("argv must hold a command, and no NUL")
        if os.name != "posix":
            raise NotImplementedError("token commands need a POSIX system")
        from ahp_sync.auth.command import CommandRunner

        self._seconds = positive_seconds(seconds, "seconds")
        self._runner = CommandRunner(env or {})

    def resolve(self, ref: str, budget: Budget) -> str:
        """Return the secret; see ``TokenResolver``."""
        what = f"the token command of {ref!r}"
        argv = tuple(ref if one == "{ref}" else one for one in self._argv)
        if argv != self._argv and ref.startswith("-"):
            raise no_secret("credential_unusable", f"{what} would take that for an option")
        output = self._runner.output(argv, what, budget.child(self._seconds))
        budget.check()
        if output is None:
            raise no_secret("credential_late", f"{what} took more than {self._seconds:g} s")
        return secret_of(output, what)

    def __repr__(self) -> str:
        return f"TokenCommand({self._argv[0]!r}, …)"


class TokenKeyring:
    """A secret in the keyring of the system; needs ``pip install 'ahp-sync[keyring]'``.

    :param service: the name of the entry's service.
    :param username: of its user; by default the reference.

    Raises :class:`ImportError` where the library is not installed.
    """

    def __init__(self, service: str, username: Optional[str] = None) -> None:
        try:
            import keyring
        except ImportError:
            raise ImportError(
                "TokenKeyring needs the keyring library: pip install 'ahp-sync[keyring]'"
            ) from None
        self._keyring: Any = keyring
        self._service = service
        self._username = username

    def resolve(self, ref: str, budget: Budget) -> str:
        """Return the secret; see ``TokenResolver``."""
        secret: Optional[str] = self._keyring.get_password(self._service, self._username or ref)
        if not secret:
            raise no_secret("credential_missing", f"the keyring has no entry for {ref!r}")
        return secret

    def __repr__(self) -> str:
        return f"TokenKeyring({self._service!r})"


def _whole(descriptor: int) -> bytes:
    """Read all, or enough to see that it is too much."""
    data = b""
    while len(data) <= MAX_BYTES:
        piece = os.read(descriptor, MAX_BYTES + 1 - len(data))
        if not piece:
            break
        data += piece
    return data


def _version(facts: os.stat_result) -> tuple[int, int, int]:
    return facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns
