"""Instances of a JSON schema, at random: good ones, near misses, and what is not near at all.

Written for schemas as they are here and in the official bundle. What is drawn is mostly valid, and
no more than that: a condition on a condition may be missed, which is a near miss like any other.
"""

from __future__ import annotations

import copy
import functools
import re
from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import Any

from jsonschema import Draft202012Validator
from referencing.exceptions import Unresolvable

__all__ = ["Draw", "names_in", "neighbours", "resolver"]

Schema = Any
#: From a reference and the document that it stands in to what it means and where that stands.
Resolve = Callable[[str, str], tuple[Schema, str]]

STRINGS = (
    "a",
    "text",
    "a b",
    "a.b",
    "com.example.x-1",
    "0123456789abcdef" * 4,
    "https://example.com/x?y#z",
    "http://[::1]:80/%41",
    "urn:example:x",
    "image/png",
    "application/octet-stream",
    "text/plain",
    "application/json",
    "application/vnd.x+json;q=1",
    "EUR",
    "_ws",
    "*",
    "tool.*",
    "2026-03-01T10:00:00Z",
    "ä\u2028",
)
ODD_STRINGS = (
    "",
    "\n",
    "a.b\n",
    "EUR\n",
    "_\n",
    "http\n",
    "nodots",
    "unknown.*",
    "user.elicitation.*",
    "a..b",
    "ä.b",
    "A" * 64,
    "http://a b/",
    "https://example.com/\n",
    "HTTPS://example.com",
    "ftp://example.com",
    "mailto:a@example.com",
    "http://",
    "x/JSON",
    "TEXT/html",
    "application/json\n",
    "eur",
)
NUMBERS = (0, 1, 2, 7, 1.0, 0.5, 2.5, 10**20, 1e300)
ODD_NUMBERS = (-1, -1.0, -0.0, 1e-300, -0.5)


def resolver(documents: dict[str, Schema]) -> Resolve:
    """Return a function that follows a reference, from the document that it stands in."""

    def resolve(reference: str, base: str) -> tuple[Schema, str]:
        name, _, pointer = reference.partition("#")
        base = name.rsplit("/", 1)[-1] or base
        found = documents[base]
        for step in pointer.split("/")[1:]:
            found = found[int(step)] if isinstance(found, list) else found[step]
        return found, base

    return resolve


def names_in(schemas: Iterable[Schema]) -> tuple[str, ...]:
    """Return the names of all members that the schemas know."""
    found: set[str] = set()

    def walk(schema: Schema) -> None:
        if isinstance(schema, dict):
            if isinstance(schema.get("properties"), dict):
                found.update(schema["properties"])
            for inner in schema.values():
                walk(inner)
        elif isinstance(schema, list):
            for inner in schema:
                walk(inner)

    for schema in schemas:
        walk(schema)
    return tuple(sorted(found))


def neighbours(value: Any, names: tuple[str, ...]) -> Iterator[Any]:
    """Yield the value with one thing changed in it, each place and each change in turn."""
    yield from (one for one in _others(value) if one != value or type(one) is not type(value))
    if isinstance(value, dict):
        for name, inner in value.items():
            rest = {other: one for other, one in value.items() if other != name}
            yield rest
            for less in neighbours(inner, names):
                yield {**rest, name: less}
        for name in names:
            if name not in value:
                yield {**value, name: "x"}
    if isinstance(value, list):
        for index, inner in enumerate(value):
            yield value[:index] + value[index + 1 :]
            yield [*value, inner]
            for less in neighbours(inner, names):
                yield [*value[:index], less, *value[index + 1 :]]


def _others(value: Any) -> Iterator[Any]:
    yield from (None, True, 0, -1, 0.5, 1.0, "", "x", [], {}, ["x"], [value], {"x": value})
    if isinstance(value, str):
        yield from (f"{value}\n", f"{value}x", value.upper(), value[1:], *STRINGS, *ODD_STRINGS)


class Draw:
    """One draw. ``names`` are likely members, ``resolve`` is for schemas with references.

    ``share`` is how many of the optional members there are, from 0 to 1.
    """

    def __init__(
        self,
        random: Random,
        names: tuple[str, ...],
        resolve: Resolve | None = None,
        share: float = 0.3,
    ) -> None:
        self.random = random
        self.names = names
        self.resolve = resolve
        self.share = share

    def near(self, schema: Schema) -> Any:
        """Return an instance, a near miss, or whatever."""
        kind = self.random.random()
        if kind < 0.04:
            return self.anything()
        value = self.instance(schema)
        if kind < 0.5:
            for _ in range(self.random.choice([1, 1, 1, 2, 3])):
                value = self.mutant(value)
        return value

    # --- mostly valid -----------------------------------------------------------------------------

    def instance(self, *schemas: Schema) -> Any:
        """Return a value for which all ``schemas`` hold, or nearly so."""
        rules = list(self._flat(schemas, ""))
        for rule in rules:
            if "const" in rule:
                return copy.deepcopy(rule["const"])
        choices = [rule["enum"] for rule in rules if "enum" in rule]
        if choices:
            common = [one for one in choices[0] if all(one in other for other in choices)]
            return self.random.choice(common or choices[0])
        kind = self._kind(rules)
        if kind == "object":
            return self._object(rules)
        if kind == "array":
            return self._array(rules)
        if kind == "string":
            return self._string(rules)
        if kind in ("integer", "number"):
            return self._number(rules, kind)
        return {"boolean": self.random.random() < 0.5, "null": None}.get(kind)

    def _flat(self, schemas: tuple[Schema, ...], base: str) -> Iterator[dict[str, Any]]:
        """Yield the schemas without references and alternatives, each with the place it is from."""
        for schema in schemas:
            if not isinstance(schema, dict):
                continue
            home = schema.get("x-base", base)
            yield {**schema, "x-base": home}
            if "$ref" in schema:
                assert self.resolve is not None
                target, where = self.resolve(schema["$ref"], home)
                yield from self._flat((target,), where)
            yield from self._flat(tuple(schema.get("allOf", ())), home)
            for keyword in ("oneOf", "anyOf"):
                if keyword in schema:
                    yield from self._flat((self.random.choice(schema[keyword]),), home)

    def _kind(self, rules: list[dict[str, Any]]) -> str:
        for rule in rules:
            if "type" in rule:
                kinds = rule["type"]
                return self.random.choice(kinds) if isinstance(kinds, list) else kinds
        for rule in rules:
            for keyword, kind in (("properties", "object"), ("required", "object")):
                if keyword in rule:
                    return kind
            if "format" in rule or "pattern" in rule:
                return "string"
        return self.random.choice(["object", "array", "string", "number", "boolean", "null"])

    def _object(self, rules: list[dict[str, Any]]) -> dict[str, Any]:
        members = self._members(rules)
        for _ in range(3):
            consequences = list(self._consequences(rules, members))
            if not consequences:
                break
            rules = rules + consequences
            self._follow(rules, consequences, members)
        return members

    def _members(self, rules: list[dict[str, Any]]) -> dict[str, Any]:
        places = _places(rules)
        absent = {name for rule in rules for name in _absent(rule)}
        wanted = {name for rule in rules for name in rule.get("required", ())}
        least = max((rule.get("minProperties", 0) for rule in rules), default=0)
        optional = [name for name in places if name not in wanted | absent]
        wanted |= {name for name in optional if self.random.random() < self.share}
        if len(wanted) < least and optional:
            wanted.add(self.random.choice(optional))
        members = {name: self.instance(*places.get(name, ())) for name in sorted(wanted - absent)}
        if self.random.random() < 0.2:
            self._add_others(rules, members)
        return members

    def _follow(
        self,
        rules: list[dict[str, Any]],
        consequences: list[dict[str, Any]],
        members: dict[str, Any],
    ) -> None:
        """Change the members to what the consequences of a condition ask for."""
        places, further = _places(rules), _places(consequences)
        for name in {name for rule in consequences for name in _absent(rule)}:
            members.pop(name, None)
        for name, schemas in further.items():
            if name in members and self._fails(schemas, members[name]):
                members[name] = self.instance(*schemas, *places[name])
        for name in sorted({name for rule in consequences for name in rule.get("required", ())}):
            if name not in members:
                members[name] = self.instance(*places.get(name, ()))

    def _add_others(self, rules: list[dict[str, Any]], members: dict[str, Any]) -> None:
        others = [rule["additionalProperties"] for rule in rules if "additionalProperties" in rule]
        patterns = [
            rule["propertyNames"]["pattern"]
            for rule in rules
            if "pattern" in rule.get("propertyNames", {})
        ]
        if False in others:
            return
        name = self.random.choice([one for one in STRINGS if _fits(one, patterns)] or ["x"])
        homes = [
            _at(rule["additionalProperties"], rule["x-base"])
            for rule in rules
            if "additionalProperties" in rule
        ]
        members.setdefault(name, self.instance(*homes) if homes else self.anything())

    def _consequences(self, rules: list[dict[str, Any]], value: Any) -> Iterator[dict[str, Any]]:
        for rule in rules:
            if "if" in rule and not rule.get("x-done"):
                rule["x-done"] = True
                branch = "else" if self._fails([_at(rule["if"], rule["x-base"])], value) else "then"
                yield from self._flat((rule.get(branch, {}),), rule["x-base"])

    def _fails(self, schemas: list[Schema], value: Any) -> bool:
        try:
            return not all(Draft202012Validator(schema).is_valid(value) for schema in schemas)
        except Unresolvable:
            return False  # for the bundle's own engine to say

    def _array(self, rules: list[dict[str, Any]]) -> list[Any]:
        least = max((rule.get("minItems", 0) for rule in rules), default=0)
        most = min((rule.get("maxItems", 3) for rule in rules), default=3)
        items = [_at(rule["items"], rule["x-base"]) for rule in rules if "items" in rule]
        count = max(least, min(most, self.random.choice([0, 1, 1, 2, 3])))
        values = [self.instance(*items) if items else self.anything() for _ in range(count)]
        if any(rule.get("uniqueItems") for rule in rules):
            values = [one for i, one in enumerate(values) if one not in values[:i]]
        for rule in rules:
            if "contains" in rule:
                values.append(self.instance(_at(rule["contains"], rule["x-base"]), *items))
        return values

    def _string(self, rules: list[dict[str, Any]]) -> str:
        patterns = [rule["pattern"] for rule in rules if "pattern" in rule]
        formats = {rule["format"] for rule in rules if "format" in rule}
        pool = [one for one in STRINGS if _fits(one, patterns)]
        if "uri" in formats:
            pool = [one for one in pool if re.match("[a-z]+:", one)]
        refused = [
            rule["not"]["pattern"]
            for rule in rules
            if isinstance(rule.get("not"), dict) and "pattern" in rule["not"]
        ]
        pool = [one for one in pool if not any(re.search(one_, one) for one_ in refused)]
        if not any("minLength" in rule for rule in rules) and not patterns and not formats:
            pool.append("")
        return self.random.choice(pool or list(STRINGS))

    def _number(self, rules: list[dict[str, Any]], kind: str) -> float:
        least = max((rule["minimum"] for rule in rules if "minimum" in rule), default=-1)
        pool = [one for one in (*NUMBERS, *ODD_NUMBERS) if one >= least]
        if kind == "integer":
            pool = [one for one in pool if float(one).is_integer()]
        return self.random.choice(pool)

    # --- near misses ------------------------------------------------------------------------------

    def mutant(self, value: Any, depth: int = 0) -> Any:
        """Return the value with something changed somewhere in it."""
        inside = isinstance(value, (dict, list)) and value
        if not inside or self.random.random() < (0.05 if depth == 0 else 0.25):
            return self._spoiled(value)
        action = self.random.choice(["inside"] * 5 + ["drop", "add", "rename"])
        if isinstance(value, list):
            index = self.random.randrange(len(value))
            if action == "inside":
                return [
                    self.mutant(one, depth + 1) if i == index else one
                    for i, one in enumerate(value)
                ]
            if action == "drop":
                return value[:index] + value[index + 1 :]
            return [*value, self.random.choice([self.anything(), copy.deepcopy(value[index])])]
        changed = dict(value)
        name = self.random.choice(sorted(changed))
        if action == "inside":
            changed[name] = self.mutant(changed[name], depth + 1)
            return changed
        stolen = copy.deepcopy(changed[name]) if action == "add" else changed.pop(name)
        if action != "drop":
            other = self.random.choice(self.names)
            changed[other] = self.random.choice([stolen, self.anything(), self.anything()])
        return changed

    def _spoiled(self, value: Any) -> Any:
        likely: list[Any] = [None, True, False, 0, 1, "", [], {}, self.anything()]
        if isinstance(value, str):
            likely += [f"{value}\n", f"{value}x", value.upper(), value[1:], [value]]
            likely += self.random.sample([*STRINGS, *ODD_STRINGS], 6)
        elif isinstance(value, bool):
            likely += [not value, not value, int(value), str(value)]
        elif isinstance(value, (int, float)):
            likely += [-value, value + 0.5, float(value), str(value), *ODD_NUMBERS]
        elif isinstance(value, list):
            likely += [value + value, value * 3, {"0": value}]
        elif isinstance(value, dict):
            likely += [[value], list(value)]
        return self.random.choice(likely)

    # --- whatever ---------------------------------------------------------------------------------

    def anything(self, depth: int = 0) -> Any:
        """Return some JSON value."""
        kind = self.random.choice(["text", "odd", "number", "other", "list", "object"])
        if kind == "text":
            return self.random.choice(STRINGS)
        if kind == "odd":
            return self.random.choice(ODD_STRINGS)
        if kind == "number":
            return self.random.choice([*NUMBERS, *ODD_NUMBERS])
        if kind == "other" or depth > 2:
            return self.random.choice([None, True, False])
        count = self.random.choice([0, 1, 2])
        values = [self.anything(depth + 1) for _ in range(count)]
        if kind == "list":
            return values
        return {self.random.choice([*STRINGS, "id", "type"]): one for one in values}


def _at(schema: Schema, base: str) -> Schema:
    return {**schema, "x-base": schema.get("x-base", base)} if isinstance(schema, dict) else schema


def _places(rules: list[dict[str, Any]]) -> dict[str, list[Schema]]:
    """Return what each member has to be."""
    places: dict[str, list[Schema]] = {}
    for rule in rules:
        for name, schema in rule.get("properties", {}).items():
            places.setdefault(name, []).append(_at(schema, rule["x-base"]))
    return places


def _absent(rule: dict[str, Any]) -> Iterator[str]:
    """Yield the members that must not be there."""
    for name, schema in rule.get("properties", {}).items():
        if schema == {"not": {}}:
            yield name
    denial = rule.get("not")
    if isinstance(denial, dict):
        for one in denial.get("anyOf", [denial]):
            if len(one.get("required", ())) == 1 and "properties" not in one:
                yield from one["required"]


@functools.cache
def _searcher(pattern: str) -> Callable[[str], Any]:
    return re.compile(pattern).search


def _fits(text: str, patterns: list[str]) -> bool:
    return all(_searcher(pattern)(text) for pattern in patterns)
