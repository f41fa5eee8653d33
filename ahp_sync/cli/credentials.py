"""Credentials from the command line: where secrets are kept, and who to be and to trust in TLS."""

from __future__ import annotations

import argparse
import os
import shlex
from typing import Any, Optional

from ahp_sync import Registration, TLSIdentity
from ahp_sync.auth.keepers import TokenCommand, TokenFile
from ahp_sync.auth.resolvers import TokenResolver
from ahp_sync.cli.arguments import UsageError
from ahp_sync.registration_credentials import references_of
from ahp_sync.tls import client_context, urls_of

__all__ = ["EPILOG", "add_to", "client_options", "given"]

#: What the epilog of a command with these options says about them.
EPILOG = """\
REF is what the registration calls a secret (tokenRef, valueRef,
clientSecretRef). It is looked up when it is needed: in a file that only its
owner can read, or as the output of a command, which is run without a shell:
  --token-file guard=/run/secrets/guard
  --token-command 'guard=pass show ahp/guard'
"""


def add_to(parser: argparse.ArgumentParser) -> None:
    """Enter the options into the parser."""
    group = parser.add_argument_group("credentials")
    group.add_argument(
        "--token-file",
        action="append",
        type=_token_file,
        default=[],
        metavar="REF=PATH",
        help="the file that holds the secret REF; may be repeated",
    )
    group.add_argument(
        "--token-command",
        action="append",
        type=_token_command,
        default=[],
        metavar="REF=COMMAND",
        help="the command line that prints the secret REF; may be repeated",
    )
    group.add_argument(
        "--ca-file", metavar="FILE", help="whom to trust in TLS (PEM), instead of the usual"
    )
    group.add_argument("--client-cert", metavar="FILE", help="our certificate in TLS (PEM)")
    group.add_argument("--client-key", metavar="FILE", help="its key, if in a file of its own")


def given(options: argparse.Namespace) -> Optional[str]:
    """Return which option names a secret, if any does."""
    if options.token_file:
        return "--token-file"
    return "--token-command" if options.token_command else None


def client_options(
    command: str, options: argparse.Namespace, registration: Registration
) -> dict[str, Any]:
    """Return ``tokens`` and ``tls`` for a client of ``registration``.

    Raises :class:`UsageError` for a reference that no option is about, and for files of TLS that
    can't be used. Those of secrets are not looked at before they are needed.
    """
    try:
        return {"tokens": _tokens(options, registration), "tls": _tls(options, registration)}
    except UsageError as error:
        raise UsageError(f"{command}: {error}") from None


def _tokens(options: argparse.Namespace, registration: Registration) -> dict[str, TokenResolver]:
    tokens: dict[str, TokenResolver] = {}
    for ref, resolver in [*options.token_file, *options.token_command]:
        if ref in tokens:
            raise UsageError(f"the secret {ref!r} is given twice")
        tokens[ref] = resolver
    wanted = {ref for backend in registration.backends for _, ref in references_of(backend)}
    missing = ", ".join(repr(ref) for ref in sorted(wanted - tokens.keys()))
    if missing:
        raise UsageError(f"no --token-file or --token-command for {missing} of the registration")
    return tokens


def _tls(options: argparse.Namespace, registration: Registration) -> dict[str, TLSIdentity]:
    if not (options.ca_file or options.client_cert or options.client_key):
        return {}
    if options.client_key and not options.client_cert:
        raise UsageError("--client-key goes with --client-cert")
    identity = TLSIdentity(options.ca_file, options.client_cert, options.client_key)
    try:
        client_context(identity)
    except OSError as error:
        raise UsageError(f"{error.strerror}: {error.filename!r}") from None
    except ValueError as error:
        raise UsageError(str(error)) from None
    secure = [
        backend.id
        for backend in registration.backends
        if any(url.startswith("https:") for url in urls_of(backend))
    ]
    if not secure:
        raise UsageError("no backend is reached over https, and so needs no option for TLS")
    return dict.fromkeys(secure, identity)


# --- REF=… ----------------------------------------------------------------------------------------


def _token_file(text: str) -> tuple[str, TokenResolver]:
    ref, path = _pair(text, "PATH")
    return ref, TokenFile(os.path.expanduser(path))


def _token_command(text: str) -> tuple[str, TokenResolver]:
    ref, line = _pair(text, "COMMAND")
    try:
        return ref, TokenCommand(shlex.split(line))
    except ValueError:  # whose text would show the command line, which may hold a secret
        raise argparse.ArgumentTypeError(f"the command of {ref!r} is no command line") from None


def _pair(text: str, what: str) -> tuple[str, str]:
    ref, equals, value = text.partition("=")
    if not (ref and equals and value.strip()):
        raise argparse.ArgumentTypeError(f"REF={what} is wanted")
    return ref, value
