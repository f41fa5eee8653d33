"""Where the client lets itself be sent by a backend's metadata, and where not (SSRF).

Only ``https``; only addresses of the whole internet, unless the registration's own host has an
address of the same kind: a backend on loopback may have its authorization server there, too. What
is checked is the address that is connected to, after resolution, so that no name can be made to
mean another one in between. Through a proxy that the host named, it is the proxy that resolves:
then only addresses that stand in the URL itself can be checked.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import urllib.parse
from typing import Optional, Union

from ahp_sync.failure import FailureClass, OperationalFailure
from ahp_sync.protocol.urls import url_problems

__all__ = ["Destinations"]

_Address = Union[ipaddress.IPv4Address, ipaddress.IPv6Address]


class Destinations:
    """What may be asked on behalf of one endpoint.

    :param own: the URL of the endpoint, as it was registered.
    """

    def __init__(self, own: str) -> None:
        self._host = urllib.parse.urlsplit(own).hostname or ""
        self._kinds: frozenset[str] = frozenset()

    def check(self, url: str) -> None:
        """Raise ``OperationalFailure`` for a URL that must not be asked, wherever it leads."""
        if not url.startswith("https://") or next(url_problems(url), None) is not None:
            raise _forbidden("a URL of the authorization is not an https URL that may be asked")
        host = urllib.parse.urlsplit(url).hostname or ""
        literal = _literal(host)
        if literal is not None and not self.permits(str(literal)):
            raise _forbidden("a URL of the authorization has an address that is not permitted")

    def permits(self, address: str) -> bool:
        """Return whether an address may be connected to. May resolve the endpoint's own host."""
        found = _address(address)
        if found is None:
            return False
        kind = _kind(found)
        return kind == "global" or (kind != "never" and kind in self._own_kinds())

    def _own_kinds(self) -> frozenset[str]:
        if not self._kinds:  # a name that was not resolved is asked about again
            literal = _literal(self._host)
            addresses = [literal] if literal is not None else _resolved(self._host)
            self._kinds = frozenset(_kind(address) for address in addresses)
        return self._kinds


def _literal(host: str) -> Optional[_Address]:
    """Return the address that a host is in any spelling, such as ``127.1``; None for a name."""
    name = host.lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return ipaddress.IPv4Address("127.0.0.1")
    address = _address(host)
    if address is None and _NUMBERS.match(name):
        try:
            address = ipaddress.IPv4Address(socket.inet_aton(name))
        except OSError:
            return None
    return address


_NUMBERS = re.compile(r"(?:0x[0-9a-f]*|[0-9]+)(?:\.(?:0x[0-9a-f]*|[0-9]+))*\Z")


def _address(text: str) -> Optional[_Address]:
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if inner is None and any(address in network for network in _EMBEDDING):
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        return inner or address
    return address


# IPv4 in IPv6: by a translator (RFC 6052), and the form that was given up long ago (RFC 4291), in
# which :: and ::1 are no such address.
_EMBEDDING = (
    ipaddress.IPv6Network("64:ff9b::/96"),
    *ipaddress.IPv6Network("::/96").address_exclude(ipaddress.IPv6Network("::/127")),
)
_LOCAL_NAT64 = ipaddress.IPv6Network("64:ff9b:1::/48")  # RFC 8215; not known to all Pythons


def _kind(address: _Address) -> str:
    if address.is_unspecified or address.is_multicast:
        return "never"
    if address.is_loopback:
        return "loopback"
    if address.is_link_local:
        return "link-local"
    is_local = isinstance(address, ipaddress.IPv6Address) and (
        address.is_site_local or address in _LOCAL_NAT64
    )
    return "global" if address.is_global and not is_local else "private"


def _resolved(host: str) -> list[_Address]:
    try:
        found = socket.getaddrinfo(host, None, 0, socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    addresses = (_address(str(entry[4][0])) for entry in found)
    return [address for address in addresses if address is not None]


def _forbidden(detail: str) -> OperationalFailure:
    return OperationalFailure(FailureClass.AUTHENTICATION, "forbidden_destination", detail)
