"""The public scenarios, read where they lie: beside the repository, and nowhere in it."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

import pytest

#: Where they lie on a machine that has them.
FOLDER = Path(__file__).resolve().parents[3] / "shared" / "conformance"

#: The transports that a case runs over, and what stands in their place for a case without any.
TRANSPORTS, NO_TRANSPORT = ("http", "stdio"), "load"


def need_data() -> None:
    """Skip the calling module where the scenarios are not there, as on a user's machine."""
    if not (FOLDER / "scenarios.json").is_file():
        pytest.skip(
            "the public scenarios (../shared/conformance beside the repository) are not here",
            allow_module_level=True,
        )


@dataclass(frozen=True)
class Case:
    """One case of one suite. ``tags`` are what it is counted under, besides the suite."""

    suite: str
    name: str
    tags: tuple[str, ...]
    transports: tuple[str, ...] = TRANSPORTS
    data: dict[str, Any] = field(repr=False, compare=False, hash=False, default_factory=dict)


def every(cases: Iterable[Case]) -> pytest.MarkDecorator:
    """Return a parametrisation over all cases, each with each of its transports."""
    pairs = [(case, transport) for case in cases for transport in case.transports]
    return pytest.mark.parametrize(
        ("case", "transport"),
        pairs,
        ids=[f"{case.name}-{transport}" for case, transport in pairs],
    )


def scenarios() -> Iterator[Case]:
    """Yield the cases of ``scenarios.json``, corrected where SDK 0.10.1 overrides them."""
    overrides = _read("overrides-0.10.1.json")["overrides"]
    for data in _read("scenarios.json")["scenarios"]:
        if data["id"] in overrides:
            data = {**data, "expected": overrides[data["id"]]["expected"]}
            data.pop("expectError", None)
        yield Case("scenarios", data["id"], tuple(data["tags"]), data=data)


def chains() -> Iterator[Case]:
    """Yield the cases of ``observation-chain-scenarios.json``."""
    for data in _read("observation-chain-scenarios.json")["scenarios"]:
        yield Case("chains", data["id"], (), data=data)


def lifecycles() -> Iterator[Case]:
    """Yield the cases of ``lifecycle-scenarios.json``; the chains are in it once more."""
    for data in _read("lifecycle-scenarios.json")["scenarios"]:
        uploads = any(step["op"] == "upload" for step in data["steps"])
        tag = "chain" if "chain" in data else "upload" if uploads else "schedule"
        yield Case("lifecycle", data["id"], (tag,), data=data)


def catalogue() -> Iterator[Case]:
    """Yield the cases of ``catalogue-scenarios.json``."""
    for data in _read("catalogue-scenarios.json")["scenarios"]:
        tag = data["category"]
        transports = (NO_TRANSPORT,) if tag == "registration" else TRANSPORTS
        yield Case("catalogue", data["id"], (tag,), transports, data)


def fixtures() -> Iterator[Case]:
    """Yield the single documents: ``data`` is the entry of the index, with ``bytes`` as they are.

    Of a document that had to be fixed up to mean what it says, it is the fixed form.
    """
    for entry in _read("fixtures/index.json")["cases"]:
        path = Path("fixtures") / "fixed" / entry["path"]
        if not (FOLDER / path).is_file():
            path = Path("fixtures") / "verbatim" / entry["path"]
        kind = entry["schema"]
        data = {**entry, "bytes": (FOLDER / path).read_bytes()}
        transports = (NO_TRANSPORT,) if kind == "registration" else TRANSPORTS
        yield Case("fixtures", entry["path"], (_role(kind, data["bytes"]),), transports, data)


def _role(schema: str, body: bytes) -> str:
    if schema == "registration":
        return "registration"
    try:
        method: Optional[str] = json.loads(body).get("method")
    except ValueError:
        method = None
    return "response" if method is None else method


@functools.cache
def _read(name: str) -> Any:
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))
