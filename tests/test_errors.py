"""The exceptions that reach a host."""

from __future__ import annotations

import pickle

import pytest

from ahp_sync.errors import (
    AHPError,
    ClientClosed,
    InvalidEvent,
    Problem,
    RegistrationError,
    ToolDenied,
)
from ahp_sync.outcome import Decision, Outcome

DENIED = Outcome(decision=Decision.DENY, event={"type": "tool.before"}, reason="Not on Fridays.")

ERRORS = [
    (RegistrationError([Problem("$.a", "x", "y"), Problem("$.b", "z", "w")]), "$.a: found x"),
    (InvalidEvent("$.tool.name", "5", "a string"), "$.tool.name: found 5; wanted a string"),
    (ClientClosed("the client is closed"), "the client is closed"),
    (ToolDenied(DENIED), "Not on Fridays."),
]


@pytest.mark.parametrize(("error", "text"), ERRORS, ids=lambda value: type(value).__name__)
def test_each_error_says_what_it_is_about(error: AHPError, text: str) -> None:
    """Every error is an AHPError, has its words, and survives the way to another process."""
    assert isinstance(error, AHPError)
    assert str(error).startswith(text)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_a_registration_error_has_one_line_for_each_problem() -> None:
    """All problems are listed, one a line."""
    assert str(ERRORS[0][0]) == "$.a: found x; wanted y\n$.b: found z; wanted w"


def test_a_denial_carries_its_outcome() -> None:
    """A guarded tool's caller can look at the whole outcome."""
    assert ToolDenied(DENIED).outcome is DENIED
