"""What the URL of a backend may be, and how it is shown where people read it."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from typing import Optional

__all__ = ["display_url", "url_problems"]

# RFC 3986, without what can only make a sender and a checker read two different hosts out of one
# string: backslashes, blanks, percent-encoded hosts, IPv6 zones.
_URL = re.compile(
    r"(?P<scheme>https?)://(?P<authority>[^/?#]*)(?P<path>[^?#]*)(?P<query>\?[^#]*)?(?P<fragment>#.*)?",
    re.DOTALL,
)
_AUTHORITY = re.compile(
    r"(?:(?P<user>.*)@)?(?P<host>\[[^\]]*\]|[^:\[\]]*)(?P<port>:.*)?", re.DOTALL
)
_PATH = re.compile(r"(?:[A-Za-z0-9\-._~:/?@!$&'()*+,;=]|%[0-9A-Fa-f]{2})*")
_HOST_NAME = re.compile(r"[A-Za-z0-9_-]{1,63}(?:\.[A-Za-z0-9_-]{1,63})*\.?")
_PORT = re.compile(r":0*(?P<number>[1-9][0-9]{0,4})")

_SCHEME = "an absolute URL that begins with lower-case https:// (or http://, to a loopback host)"


def url_problems(url: str) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the URL of an HTTP backend, as pairs (found, wanted).

    The texts quote nothing of the URL but a well-formed host name, so that no secret shows.
    Plain ``http`` is for loopback hosts only (R-HTTP-05); user information and fragments are
    refused (T-15).
    """
    whole = _URL.fullmatch(url)
    if whole is None:
        upper = re.match(r"(?i:https?)://", url)
        yield ("a scheme that is not lower-case" if upper else "no such URL"), _SCHEME
        return
    part = _AUTHORITY.fullmatch(whole["authority"])
    if part is None or not _is_host(part["host"]):
        empty = whole["authority"] == ""
        yield (
            ("no host" if empty else "no valid host"),
            "a host name, IPv4 address or [IPv6 address]",
        )
    elif whole["scheme"] == "http" and not _is_loopback(part["host"]):
        # What stands before an "@" may be the first half of a password.
        where = "a remote host" if "@" in url else f'the remote host "{part["host"]}"'
        wanted = "https; plain http goes only to localhost, 127.0.0.0/8 or [::1]"
        yield f"plain http to {where}", wanted
    if part is not None and part["user"] is not None:
        yield "user information before the host", "credentials in authentication or headers only"
    if part is not None and not _is_port(part["port"]):
        yield "no valid port", "a port from 1 to 65535"
    if not _PATH.fullmatch(whole["path"] + (whole["query"] or "")):
        yield "characters that no URL has", "ASCII, all else percent-encoded"
    if whole["fragment"] is not None:
        yield "a fragment", "no #fragment: it would never be sent"


def display_url(url: str) -> str:
    """Return ``scheme://host[:port]/path``: no user information, no query, no fragment."""
    whole = _URL.fullmatch(url)
    part = _AUTHORITY.fullmatch(whole["authority"]) if whole else None
    # A stray "/" in a password would let its first half pass for the authority.
    if not (whole and part and _is_host(part["host"]) and _is_port(part["port"])):
        return "(not a URL)"
    return f"{whole['scheme']}://{part['host']}{part['port'] or ''}{whole['path']}"


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        if host.startswith("["):
            return ipaddress.IPv6Address(host[1:-1]) == ipaddress.IPv6Address("::1")
        return ipaddress.IPv4Address(host).is_loopback
    except ValueError:
        return False


def _is_host(host: str) -> bool:
    if host.startswith("["):
        try:
            return "%" not in host and bool(ipaddress.IPv6Address(host[1:-1]))
        except ValueError:
            return False
    return len(host) <= 253 and _HOST_NAME.fullmatch(host) is not None


def _is_port(port: Optional[str]) -> bool:
    if port is None:
        return True
    match = _PORT.fullmatch(port)
    return match is not None and int(match["number"]) <= 65535
