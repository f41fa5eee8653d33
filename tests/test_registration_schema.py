"""The schema of registrations: it can explain each of its refusals, and is loaded late."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from ahp_sync.protocol.registration_schema import CONFIGURATION, REGISTRATION

SCHEMAS = pytest.mark.parametrize("root", [REGISTRATION, CONFIGURATION], ids=["file", "answer"])
ASSERTIONS = {"type", "enum", "const", "pattern", "minimum", "maximum", "minItems", "not"}


def subschemas(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield each schema that an error can come from: an ``if`` only chooses."""
    yield schema
    for keyword in ("properties", "patternProperties"):
        for inner in schema.get(keyword, {}).values():
            yield from subschemas(inner)
    for keyword in ("items", "additionalProperties", "then", "else"):
        if keyword in schema:
            yield from subschemas(schema[keyword])
    for inner in schema.get("allOf", ()):
        yield from subschemas(inner)


@SCHEMAS
def test_it_is_a_schema(root: dict[str, Any]) -> None:
    """The document is valid JSON Schema of the draft that it is used with."""
    Draft202012Validator.check_schema(root)


@SCHEMAS
def test_every_refusal_can_be_explained(root: dict[str, Any]) -> None:
    """Where a value can be wrong or missing, the schema has the words for what is right."""
    for schema in subschemas(root):
        if ASSERTIONS & set(schema):
            assert schema["description"], schema
        for name in schema.get("required", ()):
            assert schema["properties"][name]["description"], name


@SCHEMAS
def test_no_alternatives(root: dict[str, Any]) -> None:
    """Branches are chosen, not tried, so that each error speaks of the branch that was meant."""
    for schema in subschemas(root):
        assert not {"oneOf", "anyOf", "$ref"} & set(schema)


@pytest.mark.parametrize("module", ["jsonschema", "ahp_sync.protocol.registration_schema"])
def test_validation_is_loaded_late(module: str) -> None:
    """Importing the registration module does not pay for validation; loading a document does."""
    program = f"import sys, ahp_sync.registration; sys.exit({module!r} in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
