"""Where a backend's metadata may send the client: SSRF, and what is really connected to."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from acquiring import refused

from ahp_sync import Budget
from ahp_sync.auth.destinations import Destinations
from ahp_sync.transports.dial import dial

PUBLIC = "https://backend.example.com/ahp"

KINDS = {
    "loopback": ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "::127.0.0.2"],
    "link-local": ["169.254.169.254", "fe80::1", "fe80::1%lo", "::ffff:169.254.1.1"],
    "private": [
        *("10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "fc00::1", "fec0::1"),
        *("::ffff:10.0.0.1", "64:ff9b::10.0.0.1", "64:ff9b:1::8.8.8.8", "2002:a00:1::"),
        *("192.0.2.1", "198.18.0.1", "240.0.0.1", "2001:db8::1", "::10.0.0.1"),
    ],
    "global": [
        *("8.8.8.8", "2600::1", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::"),
        "::8.8.8.8",
    ],
    "never": ["0.0.0.0", "::", "224.0.0.1", "ff02::1", "::ffff:0.0.0.0", "nonsense", ""],
}

ADDRESSES = [(kind, address) for kind, addresses in KINDS.items() for address in addresses]


@pytest.mark.parametrize(("kind", "address"), ADDRESSES)
def test_an_address_is_permitted_if_it_is_global_or_of_our_own_kind(
    kind: str, address: str
) -> None:
    own = {
        "loopback": "https://127.0.0.1:8443/ahp",
        "link-local": "https://[fe80::2]/ahp",
        "private": "https://10.1.1.1/ahp",
        "global": "https://9.9.9.9/ahp",
        "never": "https://0.0.0.0/ahp",
    }
    permitted = {kind for kind, url in own.items() if Destinations(url).permits(address)}
    assert permitted == (set(own) if kind == "global" else {kind} - {"never"})


@pytest.mark.parametrize(
    "url",
    [
        "http://auth.example.com/token",
        "HTTP://auth.example.com/token",
        "file:///etc/passwd",
        "//auth.example.com/token",
        "auth.example.com",
        "",
        "https://",
        "https://user:password@auth.example.com/token",
        "https://auth.example.com:99999/token",
        "https://auth.example.com/to ken",
        "https://auth.example.com/\r\nX: y",
        "https://localhost/token",
        "https://LOCALHOST./token",
        "https://auth.localhost/token",
        "https://127.0.0.1/token",
        "https://127.1/token",
        "https://2130706433/token",
        "https://0x7f.0.0.1/token",
        "https://0177.0.0.1/token",
        "https://0xa9fea9fe/latest/meta-data",
        "https://10.0.0.1/token",
        "https://169.254.169.254/latest/meta-data",
        "https://[::1]/token",
        "https://[::ffff:10.0.0.1]/token",
        "https://0.0.0.0/token",
    ],
)
def test_a_url_is_refused_before_any_name_is_resolved(url: str) -> None:
    refused(lambda: Destinations("https://9.9.9.9/ahp").check(url), "forbidden_destination")


def test_a_url_of_the_internet_is_none_of_these() -> None:
    Destinations(PUBLIC).check("https://auth.example.com:8443/a/token?x=y")
    Destinations("https://127.0.0.1/ahp").check("https://localhost/token")


def test_a_name_is_asked_about_again_until_it_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that could not be resolved for a moment does not stay without addresses."""
    answers: list[Any] = [socket.gaierror(), ["10.0.0.1"]]

    def resolve(host: str, *more: Any) -> list[Any]:
        found = answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, 0)) for one in found]

    destinations = Destinations("https://backend.internal/ahp")
    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    assert not destinations.permits("10.9.9.9")
    assert destinations.permits("10.9.9.9")
    assert destinations.permits("10.9.9.8")
    assert not destinations.permits("127.0.0.1")


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as found:
        yield found


def test_what_is_connected_to_is_what_was_checked(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A public name may have a private address; of several the permitted ones are tried."""
    port = listener.getsockname()[1]
    addresses = ["10.255.255.1", "127.0.0.1"]

    def resolve(host: str, *more: Any) -> list[Any]:
        assert host == "auth.example.com"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port)) for one in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    permits = Destinations("https://127.0.0.1/ahp").permits
    with dial("auth.example.com", port, Budget(5.0), permit=permits) as found:
        assert found.getpeername()[0] == "127.0.0.1"
    public = Destinations("https://9.9.9.9/ahp").permits
    refused(
        lambda: dial("auth.example.com", port, Budget(5.0), permit=public), "forbidden_destination"
    )
    listener.settimeout(0.2)
    listener.accept()[0].close()
    with pytest.raises(socket.timeout):
        listener.accept()
