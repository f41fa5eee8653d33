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
        "a-scope-that-can-be-sent",
        "an OAuth scope is ASCII without blanks, quotes and backslashes",
        "the schema takes any text",
        "R-AUTH-06: scopes are part of what a token is kept by, and one with a blank would be two",
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
    Difference(
        "strict-json",
        "an answer with a byte-order mark, in UTF-16, with a lone surrogate or with a member twice"
        " is refused",
        "it is read; of a member that is there twice the later counts, which can hide a deny",
        "D-18: strict UTF-8, no byte-order mark and no duplicate keys; R-RPC-01, T-06",
    ),
    Difference(
        "bounds-of-an-answer",
        "a number of more than 1,000 digits, and nesting of more than 100 levels, are refused",
        "both are read as far as Python can",
        "U-04: such bounds are implementation-defined",
    ),
    Difference(
        "no-method-in-a-response",
        "a response that names a method is refused",
        "the method is ignored",
        "T-15: a response carrying a stray method is to be refused",
    ),
    Difference(
        "offers-what-can-be-accepted",
        "an interceptor is offered no effect that its own view makes impossible",
        "it is offered what the host grants; the SDK refuses some of it afterwards",
        "R-CAP-02, R-EFF-03, R-CON-07, R-ELI-04: advertise only what is enforced; D-15",
    ),
    Difference(
        "hidden-text-is-not-replaced",
        "a list of messages is not replaced by a receiver that does not see all of its text",
        "it is",
        "R-EFF-03: such a replacement must be neither advertised nor accepted; D-15",
    ),
    Difference(
        "what-is-hidden-stays",
        "an attachment that is kept as it was shown, without its body, stands for the host's own",
        "what was shown of it takes its place when the list is replaced",
        "R-CON-06: a view difference is not an edit; untouched hidden values are restored",
    ),
    Difference(
        "what-is-hidden-is-not-relabelled",
        "an edit of an attachment that was shown without its body is refused, unless it brings"
        " other content under the id",
        "what was written of it takes its place, and the host's body is lost",
        "R-CON-06, T-08: a write through a metadata view; R-EFF-02: carried over unchanged",
    ),
    Difference(
        "attachments-that-were-shown",
        "an answer may bring along only attachments that its backend was sent, unchanged",
        "any reference passes",
        "R-EFF-02: existing references, unchanged, after an identity check; D-15",
    ),
    Difference(
        "an-id-keeps-its-meaning",
        "an edit, an injected or a returned message that gives an id another role, or a part"
        " another message, is refused",
        "it is accepted, and the next delivery fails on it",
        "R-EVT-03; T-09: to be checked before acceptance",
    ),
    Difference(
        "messages-can-be-edited",
        "modify is accepted at user.message.inbound and user.message.outbound",
        "it is refused as unsupported",
        "D-14: supported as in the table of section 4",
    ),
    Difference(
        "a-denial-is-a-denial",
        "an elicitation can be denied by a backend that could not answer it",
        "a denial is refused where the text is not selected or the mode not granted",
        "D-16: an explicit deny is no failure; R-FAIL-02",
    ),
    Difference(
        "a-gap-is-no-failure",
        "an elicitation whose text is a gap is asked about, without return or modify",
        "its interceptors fail before they are asked",
        "R-ELI-04: return and modify need the text, and nothing else does; D-16",
    ),
    Difference(
        "same-answers-change-nothing",
        "an edit that leaves the answers of a form as they are keeps candidate and approval",
        "any edit of them drops both",
        "R-SET-06: an identical replace does not invalidate; R-SET-05",
    ),
    Difference(
        "faults-of-the-host",
        "an elicitation whose text is not what it should be, or whose result does not answer its"
        " request, is an error of the host's own, before anything is sent",
        "each interceptor that is to see the text fails by its policy",
        "R-ELI-01, R-ELI-02, R-ELI-04: complete, parsed strictly, and in step with the event",
    ),
    Difference(
        "summary-without-instructions",
        "a compaction without instructions takes a returned summary",
        "it is refused",
        "D-21: reject only where they are there but not inline; U-03",
    ),
    Difference(
        "policy-as-declared",
        "a managed subscription that is fail-open fails open",
        "a failure of it denies",
        "D-08: the declared policy counts; R-FAIL-01",
    ),
    Difference(
        "omitted-is-not-measured",
        "an omitted part has neither size nor digest",
        "it keeps both",
        "D-22: stripped under omit",
    ),
    Difference(
        "instructions-nobody-gave",
        "where the host continues without instructions, the next interceptor is told of none",
        "after the first answer it is told of an empty list",
        "T-07: absent differs from empty for instructions; R-CAP-04",
    ),
    Difference(
        "nothing-to-continue",
        "a flow that can only be stopped has no continuations that are left",
        "they are counted all the same, and the next interceptor fails on what was never declared",
        "R-CAP-01: anything not declared is not granted; R-CAP-03",
    ),
    Difference(
        "wildcards-are-narrowed",
        "an intercept wildcard leaves out the events that the host only lets be observed",
        "the registration is refused",
        "D-13: narrow in both cases; R-REG-02",
    ),
)

#: By name.
DIFFERENCES: Mapping[str, Difference] = MappingProxyType({one.name: one for one in _LISTED})
