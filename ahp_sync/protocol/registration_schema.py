"""Our schemas of what may be registered, as this version serves it (sections 11 and 12).

``REGISTRATION`` is the document that the host gives, ``CONFIGURATION`` what a backend answers when
it is asked for its subscriptions.

They are written to be explained: each place that can fail has a ``description``, which is the
"wanted" of the error message, and branches are chosen by ``if`` on ``type`` and ``mode``, so that
no error ends in "matches none of the alternatives". ``x-quote`` marks the places whose value is
never a secret and may be shown, ``x-found`` says it where the value is not what is wrong.

Patterns end in ``$(?!\\n)``, since a bare ``$`` also matches before a final newline in Python.
Nothing relies on ``format``, which is not checked everywhere (F64).
"""

from __future__ import annotations

from typing import Any

from ahp_sync.protocol.uri import URI

__all__ = [
    "BACKEND",
    "BEARER",
    "CONFIGURATION",
    "FILTERS",
    "HEADER_SOURCE",
    "HTTP",
    "MAX_TIMEOUT_MS",
    "OAUTH",
    "REGISTRATION",
    "STDIO",
    "SUBSCRIPTION_MEMBERS",
    "UPLOAD",
]

#: The longest ``timeoutMs``: 24 hours. More is taken for a mistake in the unit (F58).
MAX_TIMEOUT_MS = 86_400_000

_Schema = dict[str, Any]

_END = r"$(?!\n)"
_LABEL = "[A-Za-z][A-Za-z0-9_-]*"
_QUOTE = {"x-quote": True}


def _object(wanted: str, properties: _Schema, required: tuple[str, ...], **more: Any) -> _Schema:
    head = {"type": "object", "description": wanted, "properties": properties}
    return {**head, "required": list(required), **more}


def _text(wanted: str, pattern: str, **more: Any) -> _Schema:
    return {"type": "string", "pattern": pattern, "description": wanted, **more}


def _choice(*values: str, more: str = "") -> _Schema:
    words = " or ".join(f'"{value}"' for value in values) + more
    return {"enum": list(values), "description": words, **_QUOTE}


def _list(wanted: str, items: _Schema, least: int = 0) -> _Schema:
    return {"type": "array", "description": wanted, "items": items, "minItems": least}


def _forbidden(wanted: str, **more: Any) -> _Schema:
    return {"not": {}, "description": wanted, **more}


def _when(name: str, value: str) -> _Schema:
    return {"type": "object", "properties": {name: {"const": value}}, "required": [name]}


_NO_NUL = r"^[^\u0000]*" + _END
_NOT_EMPTY = r"^[^\u0000]+" + _END
# R-AUTH-06: several scopes are sent as one text, with blanks in between.
_SCOPE = r"^[\x21\x23-\x5b\x5d-\x7e]+" + _END
_ENV_NAME = "^[A-Za-z_][A-Za-z0-9_]*" + _END

# A binding names where a secret is kept and never holds it (R-REG-04). The names are those that
# people give to the secret itself; any other unknown member is ignored, as the protocol asks.
_LITERALS = {
    r"^(?i:(?:access|api|auth|bearer|client|private|refresh)?[_-]?"
    r"(?:credentials?|jwt|key|literal|pass(?:phrase|word)|secret|token|value)|authorization|bearer)"
    + _END: (
        _forbidden("no literal credential: name the environment variable that holds it instead")
    )
}

_NAME = _text("a non-empty string without NUL", _NOT_EMPTY)


def _either(variable: str, reference: str, what: str) -> _Schema:
    """The two ways of naming where a secret is kept, exactly one of which is used."""
    return {
        "if": {"required": [reference]},
        "then": {
            "properties": {
                reference: _text(
                    "the name by which the host knows the secret, without NUL", _NOT_EMPTY
                ),
                variable: _forbidden(f"no {variable} beside {reference}"),
            }
        },
        "else": {
            "properties": {
                variable: _text(
                    f"the name of an environment variable that holds the {what}"
                    f" (or {reference}, a name that the host resolves)",
                    _ENV_NAME,
                )
            },
            "required": [variable],
        },
    }


BEARER = _object(
    "a bearer binding",
    {"type": _choice("bearer"), "tokenEnv": {}, "tokenRef": {}},
    ("type",),
    **_either("tokenEnv", "tokenRef", "token"),
)

OAUTH = _object(
    "an OAuth binding",
    {
        "type": _choice("oauth"),
        "resource": _NAME,
        "issuer": _text("an https URI", f"^(?=https://){URI}{_END}"),
        "clientId": _NAME,
        "clientSecretRef": _text(
            "the name by which the host knows the secret, without NUL", _NOT_EMPTY
        ),
        "flow": _choice("client_credentials", "authorization_code_pkce"),
        "scopes": _list(
            "a list of scopes",
            _text("a scope: ASCII without blanks, quotes and backslashes", _SCOPE),
        ),
    },
    ("type", "resource", "issuer", "clientId", "flow"),
)

_AUTHENTICATION = _object(
    'an object such as {"type": "bearer", "tokenEnv": "GUARD_TOKEN"}, or no such member',
    # Whoever puts a token in the wrong place finds it quoted nowhere.
    {"type": {"enum": ["bearer", "oauth"], "description": '"bearer" or "oauth"'}},
    ("type",),
    patternProperties=_LITERALS,
    allOf=[
        {"if": _when("type", "bearer"), "then": BEARER},
        {"if": _when("type", "oauth"), "then": OAUTH},
    ],
)

HEADER_SOURCE = _object(
    'a string, or an object such as {"valueEnv": "GUARD_KEY"}',
    {"valueEnv": {}, "valueRef": {}},
    (),
    patternProperties=_LITERALS,
    **_either("valueEnv", "valueRef", "value"),
)

_HEADER = {
    "if": {"type": "string"},
    "then": _text(
        "text of Latin-1 characters, without line breaks, control characters or outer blanks",
        r"^(?:[!-~\u00a1-\u00ff](?:[\t -~\u0080-\u00ff]*[!-~\u00a1-\u00ff])?)?" + _END,
    ),
    "else": HEADER_SOURCE,
}

# Trap T-10: with these a registration could change how a message is framed or carried.
_FRAMING = (
    "accept-encoding|ahp-content-sha256|connection|content-encoding|content-length|expect|host|keep-alive|"
    "proxy-.*|te|trailer|transfer-encoding|upgrade"
)

HTTP = _object(
    "an HTTP transport",
    {
        "type": _choice("http"),
        "url": {"type": "string", "description": "the URL of the backend"},
        "headers": {
            "type": "object",
            "description": "an object of header names and values",
            "patternProperties": {
                f"^(?i:{_FRAMING})" + _END: _forbidden(
                    "no such header: the client writes it itself",
                    **{"x-found": "a header that frames or carries the message"},
                ),
                r"^$|[^!#$%&'*+.^_`|~0-9A-Za-z-]": _forbidden(
                    "letters, digits and any of !#$%&'*+.^_`|~-",
                    **{"x-found": "a name that is not an HTTP token"},
                ),
            },
            "additionalProperties": _HEADER,
        },
    },
    ("type", "url"),
)

STDIO = _object(
    "a stdio transport",
    {
        "type": _choice("stdio"),
        "command": _text("the program to start, as a string without NUL", _NOT_EMPTY),
        "args": _list("a list of strings", _text("a string without NUL", _NO_NUL)),
        "lifecycle": _choice("persistent", "per_event"),
        "cwd": _text("a directory, as a string without NUL", _NOT_EMPTY),
        "env": {
            "type": "object",
            "description": "an object of variable names and literal strings",
            "patternProperties": {
                r"^$|[=\u0000]": _forbidden(
                    "at least one character, without = and NUL",
                    **{"x-found": "a name that no environment variable can have"},
                ),
            },
            "additionalProperties": _text("a literal string without NUL", _NO_NUL),
        },
    },
    ("type", "command", "lifecycle"),
)

_TRANSPORT = _object(
    'an object whose type is "http" or "stdio"',
    {"type": _choice("http", "stdio")},
    ("type",),
    allOf=[
        {"if": _when("type", "http"), "then": HTTP},
        {"if": _when("type", "stdio"), "then": STDIO},
    ],
)

_NAMES = _list("a list of strings", _text("a non-empty string", _NOT_EMPTY))

# R-REG-08: filters are hints, and a client that ignores them, as this one does, conforms.
FILTERS = _object("an object of hints", {"toolKinds": _NAMES, "paths": _NAMES}, ())

_LEVEL = _choice("body", "metadata", "omit")
_BOOLEAN: _Schema = {"type": "boolean", "description": "true or false", **_QUOTE}
_MANAGED = 'false, as the scope is "managed"'

_TIMEOUT: _Schema = {
    "type": "integer",
    "minimum": 1,
    "maximum": MAX_TIMEOUT_MS,
    **_QUOTE,
    "description": f"a whole number of milliseconds from 1 to {MAX_TIMEOUT_MS} (24 hours);"
    " there is no default",
}

# R-REG-07. Its credentials are its own: none are taken over from the event endpoint (R-UPL-03).
UPLOAD = _object(
    "an upload object",
    {
        "endpoint": _text(
            "an https URL, or plain http to this machine",
            r"^(?=https://|http://(?:localhost|127\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}|\[::1\])"
            rf"(?::[0-9]+)?(?:[/?#]|$)){URI}{_END}",
        ),
        "timeoutMs": _TIMEOUT,
        "maxBytes": {
            "type": "integer",
            "minimum": 0,
            "description": "a whole number of bytes from 0",
            **_QUOTE,
        },
        "auth": _AUTHENTICATION,
    },
    ("endpoint", "timeoutMs", "maxBytes"),
)

_COMMON: _Schema = {
    "mode": _choice("intercept", "observe"),
    "events": _list(
        "a list of at least one event name, family.* or *",
        {"type": "string", "description": "an event name, family.* or *", **_QUOTE},
        least=1,
    ),
    "content": {
        **_object("an object with a default", {"default": _LEVEL}, ("default",)),
        "additionalProperties": _LEVEL,
    },
    "includeNative": _BOOLEAN,
    "filters": FILTERS,
    # A managed subscription that calls itself disableable contradicts itself (R-REG-09). Whether a
    # scope can be enforced is the host's to declare, and is checked against its capabilities.
    "scope": _choice("managed", "project", "user"),
    "disableable": _BOOLEAN,
    "upload": UPLOAD,
}

_INTERCEPT: _Schema = {
    "timeoutMs": _TIMEOUT,
    "failurePolicy": _choice("fail-open", "fail-closed", more="; there is no default"),
}

_OBSERVE: _Schema = {
    name: _forbidden(f"no {name} in an observe subscription", **_QUOTE) for name in _INTERCEPT
}

#: The members that a subscription of either mode may have.
SUBSCRIPTION_MEMBERS = frozenset(_COMMON) | frozenset(_INTERCEPT)

_SUBSCRIPTION = _object(
    "a subscription object",
    _COMMON,
    ("mode", "events", "content"),
    allOf=[
        {
            "if": _when("mode", "intercept"),
            "then": {"properties": _INTERCEPT, "required": list(_INTERCEPT)},
        },
        {"if": _when("mode", "observe"), "then": {"properties": _OBSERVE}},
        {
            "if": _when("scope", "managed"),
            "then": {
                "properties": {"disableable": {"const": False, "description": _MANAGED}},
                "required": ["disableable"],
            },
        },
    ],
)


CONFIGURATION = _object(
    "a configuration object",
    {
        "subscriptions": _list("a list of at least one subscription", _SUBSCRIPTION, least=1),
    },
    ("subscriptions",),
)

BACKEND = _object(
    "a backend object",
    {
        "id": _text(
            'a reverse-DNS name such as "com.acme.guard"',
            rf"^(?:{_LABEL}\.)+{_LABEL}" + _END,
            **_QUOTE,
        ),
        "transport": _TRANSPORT,
        "authentication": {},
        "subscriptions": _list(
            "a list of at least one subscription, or no such member to have the backend asked",
            _SUBSCRIPTION,
            least=1,
        ),
        "contentReceiver": _forbidden("no contentReceiver"),
    },
    ("id", "transport"),
    **{
        "if": {
            "properties": {"transport": _when("type", "stdio")},
            "required": ["transport"],
        },
        "then": {
            "properties": {
                "authentication": _forbidden("no authentication: a stdio backend is trusted as is")
            }
        },
        "else": {"properties": {"authentication": _AUTHENTICATION}},
    },
)

REGISTRATION = _object(
    'an object with "protocolVersion" and "hooks"',
    {
        "protocolVersion": _choice("draft"),
        "hooks": _list("a list of at least one backend", BACKEND, least=1),
    },
    ("protocolVersion", "hooks"),
)
