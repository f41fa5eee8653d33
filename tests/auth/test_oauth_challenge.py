"""``WWW-Authenticate`` as servers write it: several schemes, quoted texts, and nonsense."""

from __future__ import annotations

from typing import Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ahp_sync.auth.challenge import Challenge, bearer_challenge

METADATA = "https://backend.example.com/.well-known/oauth-protected-resource/ahp"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("Bearer", Challenge()),
        ("bEaReR", Challenge()),
        (f'Bearer resource_metadata="{METADATA}"', Challenge(METADATA)),
        (f'Bearer  Resource_Metadata = "{METADATA}" ,', Challenge(METADATA)),
        ("Bearer realm=tests, error=invalid_token", Challenge(error="invalid_token")),
        ('Bearer scope="a  b", error="x"', Challenge(scope=("a", "b"), error="x")),
        ('Bearer scope=""', Challenge()),
        ('Bearer scope="a", scope="b"', Challenge(scope=("a",))),
        (r'Bearer error="a \"quoted\" \\ text"', Challenge(error='a "quoted" \\ text')),
        ('Bearer error="a, Basic realm=b"', Challenge(error="a, Basic realm=b")),
        ('Basic realm="x", Bearer scope="a"', Challenge(scope=("a",))),
        ('Bearer scope="a", Basic realm="x", scope="b"', Challenge(scope=("a",))),
        ('Negotiate YWJj==, Bearer scope="a"', Challenge(scope=("a",))),
        ('Negotiate, Bearer scope="a"', Challenge(scope=("a",))),
        ('Digest qop="auth,auth-int", algorithm=MD5, Bearer', Challenge()),
        (", ,Bearer,", Challenge()),
        ('Bearer scope="a", <?>', Challenge(scope=("a",))),
        ('Bearer scope="open', Challenge()),
        ("Basic", None),
        ('Basic realm="Bearer"', None),
        ("Bearerish scope=a", None),
        ('scope="a", Bearer', None),
        ("", None),
        ('"Bearer"', None),
        ("<Bearer>", None),
    ],
)
def test_the_first_bearer_challenge_counts(value: str, expected: Optional[Challenge]) -> None:
    assert bearer_challenge([value]) == expected


def test_the_header_may_come_several_times() -> None:
    assert bearer_challenge([]) is None
    assert bearer_challenge(["Basic", "<>", 'Bearer scope="a"']) == Challenge(scope=("a",))


def test_what_is_not_read_any_more_is_not_missed() -> None:
    """A header of a megabyte takes no more time than one of 8 KiB."""
    assert bearer_challenge(["a=b," * 300_000 + "Bearer"]) is None
    assert bearer_challenge(['Bearer error="' + "x" * 1_000_000]) == Challenge()


@given(st.text(alphabet='Bearer sico,="\\\t~+/x', max_size=80))
def test_nothing_breaks_it(value: str) -> None:
    found = bearer_challenge([value])
    assert found is None or "bearer" in value.lower()
