"""Our schemas of what may be registered, as this version serves it (sections 11 and 12).

``REGISTRATION`` is the document that the host gives, ``CONFIGURATION`` what a backend answers when
it is asked for its subscriptions.

They are written to be explained: each place that can fail has a ``description``, which is the
"wanted" of the error message, and branches are chosen by ``if`` on ``type`` and ``mode``, so that
no error ends in "matches none of the alternatives". ``x-quote`` marks the places whose value is
never a secret and may be shown, ``x-found`` says it where the value is not what is wrong. What
later versions bring is refused here, in words.

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
_LATER = "not supported by this version of ahp_sync yet"


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

BEARER = _object(
    "a bearer binding",
    {
        "type": _choice("bearer"),
        "tokenEnv": _text("the name of an environment variable that holds the token", _ENV_NAME),
        "tokenRef": _forbidden(f"tokenEnv: tokenRef is {_LATER}"),
    },
    ("type", "tokenEnv"),
)

_AUTHENTICATION = _object(
    'an object such as {"type": "bearer", "tokenEnv": "GUARD_TOKEN"}, or no such member',
    {
        "type": {
            "description": '"bearer"',
            "if": {"const": "oauth"},
            "then": _forbidden(f'"bearer": OAuth is {_LATER}', **_QUOTE),
            "else": {"enum": ["bearer"], "description": '"bearer"'},
        },
    },
    ("type",),
    patternProperties=_LITERALS,
    **{"if": _when("type", "bearer"), "then": BEARER},
)

HEADER_SOURCE = _object(
    'a string, or an object such as {"valueEnv": "GUARD_KEY"}',
    {
        "valueEnv": _text("the name of an environment variable that holds the value", _ENV_NAME),
        "valueRef": _forbidden(f"valueEnv: valueRef is {_LATER}"),
    },
    ("valueEnv",),
    patternProperties=_LITERALS,
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
    "accept-encoding|connection|content-encoding|content-length|expect|host|keep-alive|"
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
}

_NO_UPLOAD = _forbidden(f"no upload: uploads are {_LATER}")

_NAME = _text("a non-empty string", _NOT_EMPTY)

# What a backend may ask for; only a host's own registration is held to what is served.
_UPLOAD_AUTH = _object(
    "a bearer or OAuth binding",
    {"type": _choice("bearer", "oauth")},
    ("type",),
    allOf=[
        {
            "if": _when("type", "bearer"),
            "then": {
                "if": {"required": ["tokenEnv"]},
                "then": {
                    "properties": {
                        "tokenEnv": _text("the name of an environment variable", _ENV_NAME),
                        "tokenRef": _forbidden("no tokenRef beside tokenEnv"),
                    }
                },
                "else": {"properties": {"tokenRef": _NAME}, "required": ["tokenRef"]},
            },
        },
        {
            "if": _when("type", "oauth"),
            "then": _object(
                "an OAuth binding",
                {
                    "resource": _NAME,
                    "issuer": _text("an https URI", f"^(?=https://){URI}{_END}"),
                    "clientId": _NAME,
                    "clientSecretRef": _NAME,
                    "flow": _choice("authorization_code_pkce", "client_credentials"),
                    "scopes": _NAMES,
                },
                ("resource", "issuer", "clientId", "flow"),
            ),
        },
    ],
)

# R-REG-07. A backend may ask for one, though nobody can grant it yet: the host has to see it.
UPLOAD = _object(
    "an upload object",
    {
        "endpoint": _text(
            "an https URL, or plain http to this machine",
            r"^(?=https://|http://(?:localhost|127\.[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}|\[::1\])"
            rf"(?::[0-9]+)?(?:[/?#]|$)){URI}{_END}",
        ),
        "timeoutMs": {"type": "integer", "minimum": 1, "description": "milliseconds from 1"},
        "maxBytes": {"type": "integer", "minimum": 0, "description": "a number of bytes from 0"},
        "auth": _UPLOAD_AUTH,
    },
    ("endpoint", "timeoutMs", "maxBytes"),
)

_INTERCEPT: _Schema = {
    "timeoutMs": {
        "type": "integer",
        "minimum": 1,
        "maximum": MAX_TIMEOUT_MS,
        **_QUOTE,
        "description": f"a whole number of milliseconds from 1 to {MAX_TIMEOUT_MS} (24 hours);"
        " there is no default",
    },
    "failurePolicy": _choice("fail-open", "fail-closed", more="; there is no default"),
}

_OBSERVE: _Schema = {
    name: _forbidden(f"no {name} in an observe subscription", **_QUOTE) for name in _INTERCEPT
}

#: The members that a subscription of either mode may have.
SUBSCRIPTION_MEMBERS = frozenset(_COMMON) | frozenset(_INTERCEPT) | {"upload"}


def _subscription(upload: _Schema) -> _Schema:
    return _object(
        "a subscription object",
        {**_COMMON, "upload": upload},
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
        "subscriptions": _list(
            "a list of at least one subscription", _subscription(UPLOAD), least=1
        ),
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
            _subscription(_NO_UPLOAD),
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
