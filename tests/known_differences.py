"""Where this library and the official SDK 0.10.1, or its public scenarios, differ, and why.

A comparison that meets a difference looks it up here by its name, and fails for one that is not
listed; each listed one is also shown to be there still. ``because`` names the rule in the protocol
reference that makes ours right.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["DIFFERENCES", "Difference"]


@dataclass(frozen=True)
class Difference:
    """One difference: what we do, what the official SDK does, and the rule that decides."""

    name: str
    ours: str
    theirs: str
    because: str


_LISTED = (
    Difference(
        "newline-behind-a-name",
        "a name such as an extension key or a deny code does not end in a line break",
        "one line break behind it passes, as $ in a Python pattern lets it",
        "R-EXT-01: a label is an ASCII letter, then letters, digits, _ or -",
    ),
    Difference(
        "returned-text-is-inline",
        "each part of a text that is returned for a compaction has its text, already by schema",
        "the schema takes parts without text; the SDK refuses them later on",
        "R-PAY-01: at context.compact.before a text-part list, every part inline body text",
    ),
    Difference(
        "omitted-part-stays",
        "a part that a subscription gets as omit is there without its content",
        "the public chain scenarios leave such a part out; the SDK does as we do",
        "R-CON-04: below body the text, the body and the gap go; the part itself remains",
    ),
    Difference(
        "state-is-carried",
        "the next interceptor is told the permission that an earlier one gave",
        "the public chain scenarios have none in every request; the SDK does as we do",
        "R-SET-02, R-CAP-04: each next interceptor gets the current state",
    ),
    Difference(
        "foreign-line-fails-the-call",
        "a line with another id fails the call that waits for an answer, and ends the process",
        "the public lifecycle scenarios and the SDK skip such a line and wait on",
        "D-17: failure semantics name the mismatched id as a class of failure; R-STD-04",
    ),
    Difference(
        "several-denies",
        "an answer may deny more than once; the first reason is told",
        "a public fixture calls such an answer invalid; the SDK does as we do",
        "R-ADM-03: several denies are no conflict",
    ),
    Difference(
        "only-what-is-served",
        "a registration that asks for OAuth, tokenRef, valueRef or an upload is refused as a whole",
        "the schema takes them",
        "R-ROLE-02: configuration is refused before use, never silently dropped",
    ),
    Difference(
        "an-id-of-its-own",
        "two backends of one id are refused",
        "the schema can't check it; the SDK refuses them later on",
        "R-REG-04: duplicate backend ids are refused",
    ),
    Difference(
        "a-url-that-can-be-sent",
        "plain http to other machines, user information, fragments and odd hosts are refused",
        "the schema takes any URI that begins with http:// or https://",
        "R-HTTP-05: remote endpoints use https; T-15: userinfo and fragments are to be refused",
    ),
    Difference(
        "bounded-numbers",
        "a timeoutMs beyond 24 hours, or a number of 2**64 and more, is refused",
        "any positive integer passes",
        "R-REG-10: 100 to 30,000 ms should be served, and a host may have limits",
    ),
    Difference(
        "headers-of-the-client",
        "headers that frame or carry the message can't be registered",
        "any header name passes",
        "T-10: refuse framing headers at load",
    ),
    Difference(
        "text-that-can-be-passed-on",
        "NUL, odd names of variables, and header values that HTTP can't carry are refused at load",
        "the schema takes any text there",
        "R-HDR-03: unsafe or non-Latin-1 values fail before anything is sent; R-STD-02",
    ),
    Difference(
        "no-secret-in-a-binding",
        "a member of a binding that would hold the secret itself is refused",
        "unknown members pass, whatever they hold",
        "R-REG-04: bindings never hold literal secrets; T-15: reject or lint locally",
    ),
    Difference(
        "a-family-that-is-there",
        "a wildcard over a family that nobody knows is refused",
        "it passes the schema; the SDK refuses it later on",
        "R-REG-01: unknown.* passes the schema and must be refused for matching nothing",
    ),
)

#: By name.
DIFFERENCES: Mapping[str, Difference] = MappingProxyType({one.name: one for one in _LISTED})
