"""What is wrong with a registration document: its schema first, then what no schema can say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Optional

from ahp_sync.findings import Findings, Path, describe
from ahp_sync.protocol.configuration import subscribable
from ahp_sync.protocol.events import EVENTS, Mode, named
from ahp_sync.protocol.urls import url_problems

__all__ = ["check_document", "unknown_members", "unsent_headers"]

_MODES = {mode.value: mode for mode in Mode}


def check_document(document: Any, findings: Findings) -> None:
    """Note every problem of the document, a plain JSON value, in ``findings``."""
    _check_schema(document, findings)
    _check_ids(document, findings)
    for path, backend in _objects((), document, "hooks"):
        transport = _object(backend.get("transport"))
        if transport.get("type") == "http":
            _check_url((*path, "transport", "url"), transport.get("url"), findings)
        for place, binding in _bindings(path, backend):
            for _ in _strings((*place, "scopes"), binding.get("scopes"), findings):
                pass
        for inner, subscription in _objects(path, backend, "subscriptions"):
            _check_subscription(inner, subscription, findings)


def unknown_members(document: Any) -> Iterator[Path]:
    """Yield the path of each member that means nothing here and is ignored (R-UNK-01)."""
    from ahp_sync.protocol import registration_schema as schema

    def beyond(path: Path, value: Any, known: Any) -> Iterator[Path]:
        return ((*path, name) for name in _object(value) if name not in known)

    yield from beyond((), document, schema.REGISTRATION["properties"])
    for path, backend in _objects((), document, "hooks"):
        yield from beyond(path, backend, schema.BACKEND["properties"])
        transport = _object(backend.get("transport"))
        form = schema.STDIO if transport.get("type") == "stdio" else schema.HTTP
        yield from beyond((*path, "transport"), transport, form["properties"])
        for name, header in _object(transport.get("headers")).items():
            place = (*path, "transport", "headers", name)
            yield from beyond(place, header, schema.HEADER_SOURCE["properties"])
        forms = {"bearer": schema.BEARER, "oauth": schema.OAUTH}
        for place, binding in _bindings(path, backend):
            kind = binding.get("type")
            if isinstance(kind, str) and kind in forms:
                yield from beyond(place, binding, forms[kind]["properties"])
        for inner, subscription in _objects(path, backend, "subscriptions"):
            upload = subscription.get("upload")
            yield from beyond((*inner, "upload"), upload, schema.UPLOAD["properties"])
            yield from beyond(inner, subscription, schema.SUBSCRIPTION_MEMBERS)
            filters = subscription.get("filters")
            yield from beyond((*inner, "filters"), filters, schema.FILTERS["properties"])


def unsent_headers(document: Any) -> Iterator[Path]:
    """Yield the path of each registered header that uploads can't have (T-10)."""
    for path, backend in _objects((), document, "hooks"):
        if any("upload" in one for _, one in _objects(path, backend, "subscriptions")):
            headers = _object(_object(backend.get("transport")).get("headers"))
            for name in headers:
                if name.lower() == "content-type":
                    yield (*path, "transport", "headers", name)


def _check_schema(document: Any, findings: Findings) -> None:
    from jsonschema import Draft202012Validator

    from ahp_sync.protocol.registration_schema import REGISTRATION

    for error in Draft202012Validator(REGISTRATION).iter_errors(document):
        path: Path = tuple(error.absolute_path)
        schema = error.schema
        if error.validator == "required":
            for name in schema["required"]:
                if name not in error.instance:
                    wanted = schema["properties"][name]["description"]
                    findings.add((*path, name), "nothing", wanted)
        else:
            found = describe(error.instance, quote=schema.get("x-quote", False))
            findings.add(path, schema.get("x-found", found), schema["description"])


def _check_ids(document: Any, findings: Findings) -> None:
    first: dict[str, int] = {}
    for path, backend in _objects((), document, "hooks"):
        name = backend.get("id")
        if isinstance(name, str):
            position = int(path[-1])
            if first.setdefault(name, position) != position:
                found = f"the id of hooks[{first[name]}] again"
                findings.add((*path, "id"), found, "an id of its own for each backend")


def _check_url(path: Path, url: Any, findings: Findings) -> None:
    if isinstance(url, str):
        for found, wanted in url_problems(url):
            findings.add(path, found, wanted)


def _bindings(path: Path, backend: dict[str, Any]) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield the credentials' bindings of a backend: that of its events, those of its uploads."""
    yield (*path, "authentication"), _object(backend.get("authentication"))
    for inner, subscription in _objects(path, backend, "subscriptions"):
        upload = _object(subscription.get("upload"))
        yield (*inner, "upload", "auth"), _object(upload.get("auth"))


def _check_subscription(path: Path, subscription: dict[str, Any], findings: Findings) -> None:
    filters = _object(subscription.get("filters"))
    upload = _object(subscription.get("upload"))
    _check_url((*path, "upload", "endpoint"), upload.get("endpoint"), findings)
    for place, selector in _strings((*path, "events"), subscription.get("events"), findings):
        mode = _mode(subscription.get("mode"))
        reason = _refusal(selector, mode) if mode else None
        if mode and reason:
            names = [event.name for event in EVENTS.values() if subscribable(event, mode)]
            found = f"{describe(selector, quote=True)} ({reason})"
            wanted = f"one of {', '.join(names)}, or a wildcard over some of them"
            findings.add(place, found, wanted)
    for name in ("toolKinds", "paths"):
        for _ in _strings((*path, "filters", name), filters.get(name), findings):
            pass


def _refusal(selector: str, mode: Mode) -> Optional[str]:
    # A selector that selects nothing would be a policy that silently does not apply (R-REG-01).
    events = named(selector)
    if any(subscribable(event, mode) for event in events):
        return None
    if events:
        return "can only be observed"
    return "no such family of events" if selector.endswith(".*") else "no such event"


def _strings(path: Path, value: Any, findings: Findings) -> Iterator[tuple[Path, str]]:
    # The schema's uniqueItems takes quadratic time over a hostile list, and can't say which.
    seen = set()
    for position, member in enumerate(value if isinstance(value, list) else ()):
        if isinstance(member, str):
            if member in seen:
                findings.add((*path, position), "an earlier entry again", "each entry once")
            seen.add(member)
            yield (*path, position), member


def _mode(value: Any) -> Optional[Mode]:
    return _MODES.get(value) if isinstance(value, str) else None


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _objects(path: Path, value: Any, name: str) -> Iterator[tuple[Path, dict[str, Any]]]:
    # The document may be of any shape here; the schema has complained about the rest.
    members = _object(value).get(name)
    for position, member in enumerate(members if isinstance(members, list) else ()):
        if isinstance(member, dict):
            yield (*path, name, position), member
