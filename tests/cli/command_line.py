"""Running the ``ahp-sync`` command as a user does: in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Optional, Union

from watching import ROOT

__all__ = ["AHP_SYNC", "PYTHON", "ahp_sync", "environment", "json_file", "start"]

#: A Python that starts fast, for commands and backends of tests.
PYTHON = (sys.executable, "-S", "-E")
#: The command under test; a warning anywhere in it would be an error.
AHP_SYNC = (sys.executable, "-W", "error", "-m", "ahp_sync")


def environment(env: Optional[Mapping[str, str]] = None) -> dict[str, str]:
    """Return the environment of the command: it is run from the source tree."""
    plain = {"PYTHONPATH": str(ROOT), "COLUMNS": "80"}
    return {**os.environ, **plain, **(env or {})}


def ahp_sync(
    *arguments: Union[str, bytes, Path],
    stdin: str = "",
    env: Optional[Mapping[str, str]] = None,
    timeout: float = 30.0,
    **options: Any,
) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    return subprocess.run(
        [*AHP_SYNC, *arguments],
        input=stdin,
        capture_output=True,
        encoding="utf-8",
        env=environment(env),
        timeout=timeout,
        **options,
    )


def start(*arguments: Union[str, Path], **options: Any) -> subprocess.Popen[str]:
    """Start the command; it is for the caller to end it."""
    settings: dict[str, Any] = {
        "stdin": subprocess.DEVNULL,
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "encoding": "utf-8",
        "env": environment(),
    }
    return subprocess.Popen([*AHP_SYNC, *arguments], **{**settings, **options})


def json_file(path: Path, document: Any) -> Path:
    """Write a document and return its path."""
    path.write_text(json.dumps(document))
    return path
