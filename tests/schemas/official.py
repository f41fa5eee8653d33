"""The schemas of the official SDK, as a second opinion."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from importlib import resources
from typing import Any

import pytest
from instances import Resolve, resolver
from jsonschema import Draft202012Validator, FormatChecker

sdk = pytest.importorskip("agenthooksprotocol", reason="the official SDK is not installed")
referencing = pytest.importorskip("referencing")
jsonschema_rs = pytest.importorskip("jsonschema_rs")

__all__ = ["names", "resolve", "slowly", "swiftly"]

_BASE = "https://agenthooksprotocol.org/schemas/draft/"


@functools.lru_cache(maxsize=None)
def _documents() -> dict[str, Any]:
    text = resources.files(sdk).joinpath("schemas.json").read_text(encoding="utf-8")
    return {document["$id"]: document for document in json.loads(text)}


def resolve() -> Resolve:
    """Return the function that follows the references of the bundle."""
    return resolver({uri.rsplit("/", 1)[1]: one for uri, one in _documents().items()})


@functools.lru_cache(maxsize=None)
def names() -> tuple[str, ...]:
    """Return the names of all members that the bundle knows."""
    found: set[str] = set()

    def walk(schema: Any) -> None:
        if isinstance(schema, dict):
            found.update(schema.get("properties", {}))
            for inner in schema.values():
                walk(inner)
        elif isinstance(schema, list):
            for inner in schema:
                walk(inner)

    walk(list(_documents().values()))
    return tuple(sorted(found))


@functools.lru_cache(maxsize=None)
def slowly(reference: str) -> Callable[[Any], bool]:
    """Return the check of one schema of the bundle by the engine that the SDK has it checked by."""
    registry = referencing.Registry().with_contents(_documents().items())
    check: Callable[[Any], bool] = Draft202012Validator(
        {"$ref": _BASE + reference}, registry=registry, format_checker=FormatChecker()
    ).is_valid
    return check


@functools.lru_cache(maxsize=None)
def swiftly(reference: str) -> Callable[[Any], bool]:
    """Return the same by ``jsonschema-rs``, which takes a hundredth of the time."""
    check: Callable[[Any], bool] = jsonschema_rs.Draft202012Validator(
        {"$ref": _BASE + reference},
        registry=_registry(),
        validate_formats=True,
    ).is_valid
    return check


@functools.lru_cache(maxsize=None)
def _registry() -> Any:
    return jsonschema_rs.Registry(list(_documents().items()))
