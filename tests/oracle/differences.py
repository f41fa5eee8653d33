"""The differences that are known, told from others by what is in the case.

A rule says at which interceptor the two clients went different ways, and why; then the case is put
right there, so that all the rest of it is compared as ever. Nothing is skipped.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Callable, Optional

from oracle.cases import EVENT_ID, GRANTS, Answer, Case, Subscription
from oracle.compare import mismatches
from oracle.content import Payload
from oracle.offers import answerable
from oracle.official import inconsistent
from oracle.verdicts import Verdict, same

__all__ = ["NAMES", "RULES", "Judgement", "judge"]

#: What both clients refuse for the same reason.
REFUSED = Answer(
    {"jsonrpc": "2.0", "id": EVENT_ID, "error": {"code": -32603, "message": "down"}},
    kind="refused",
)


@dataclass(frozen=True)
class Turn:
    """The turn of one interceptor: its place in the case, and what both clients made of its answer.

    ``view`` and ``offer`` are what our client sent it, ``views`` all that it has sent by then;
    ``earlier`` are the effects that it had accepted.
    """

    place: int
    subscription: Subscription
    views: tuple[Payload, ...]
    earlier: tuple[list[Any], ...]
    offer: Payload
    refused_by_us: bool
    refused_by_them: bool
    reached_by_them: bool
    case: Case

    @property
    def view(self) -> Payload:
        """The event as it was shown."""
        return self.views[-1]

    @property
    def answer(self) -> Answer:
        """What it answered."""
        assert self.subscription.answer is not None
        return self.subscription.answer

    @property
    def effects(self) -> list[Any]:
        """Its effects, those that are objects."""
        return [effect for effect in self.answer.effects if isinstance(effect, dict)]

    @property
    def kinds(self) -> set[Any]:
        """The types of its effects."""
        return {one["type"] for one in self.effects if isinstance(one.get("type"), str)}

    def put_right(self, subscription: Subscription) -> Case:
        """Return the case with another subscription in this place."""
        subscriptions = list(self.case.subscriptions)
        subscriptions[self.place] = subscription
        return replace(self.case, subscriptions=tuple(subscriptions))


class Situation:
    """A case and what came of it."""

    def __init__(self, case: Case, ours: Verdict, theirs: Verdict) -> None:
        self.case = case
        self.turns = list(_turns(case, ours, theirs))


def _turns(case: Case, ours: Verdict, theirs: Verdict) -> Iterator[Turn]:
    """Yield the turns of the interceptors that our client called, in order."""
    asked, theirs_asked = iter(ours.asked), [sent.backend for sent in theirs.asked]
    views: tuple[Payload, ...] = ()
    earlier: tuple[list[Any], ...] = ()
    place = -1
    for backend, subscriptions in case.backends:
        for index, subscription in enumerate(subscriptions):
            place += 1
            if subscription.answer is None:
                continue
            message = next(asked, None)
            if message is None:
                return
            params = message.message["params"]
            views = (*views, params["event"])
            reached = (backend, index) in theirs.refused or backend in theirs_asked
            if backend in theirs_asked:
                theirs_asked.remove(backend)
            turn = Turn(
                place,
                subscription,
                views,
                earlier,
                params["capabilities"],
                (backend, index) in ours.refused,
                (backend, index) in theirs.refused,
                reached,
                case,
            )
            yield turn
            if not turn.refused_by_us:
                earlier = (*earlier, turn.effects)


# --- what we refuse and the SDK takes -------------------------------------------------------------


def _strict_json(turn: Turn) -> bool:
    lenient = ("byte order mark", "utf-16", "duplicate id", "hidden deny", "lone surrogate")
    return turn.answer.spoilt in lenient


def _bounds(turn: Turn) -> bool:
    return turn.answer.spoilt in ("long number", "deep")


def _method(turn: Turn) -> bool:
    return isinstance(turn.answer.message, dict) and "method" in turn.answer.message


def _hidden_text(turn: Turn) -> bool:
    """Return whether a whole list is replaced by somebody who does not see all of its text."""
    granted, offer = GRANTS[turn.case.event], turn.offer.get("modify", {})
    return granted.shape == "messages" and any(
        effect.get("type") == "modify"
        and effect.get("operation") == "replace"
        and not offer.get(granted.target, {}).get("replace")
        for effect in turn.effects
    )


def _strange_reference(turn: Turn) -> bool:
    """Return whether an attachment is brought along that the receiver was not shown so."""
    shown = list(_attachments(turn.view))
    return any(
        "body" in part and part not in shown
        for effect in turn.effects
        if effect.get("type") in ("modify", "return", "inject")
        for part in _attachments(effect.get("value"))
    )


def _attachments(value: Any) -> Iterator[Payload]:
    if isinstance(value, list):
        for inner in value:
            yield from _attachments(inner)
    elif isinstance(value, dict):
        if value.get("kind") == "attachment" and "mediaType" in value:
            yield value
        for inner in value.values():
            yield from _attachments(inner)


def _relabelled(turn: Turn) -> bool:
    """Return whether a part that was not shown whole is changed and has no content of its own."""
    shown = list(_parts(turn.view))
    hidden = {part["id"] for part in shown if part["selection"] != "body"}
    return any(
        part["selection"] != "body" and part["id"] in hidden and part not in shown
        for effect in turn.effects
        if effect.get("operation") == "replace"
        for part in _parts(effect.get("value"))
    )


def _identities(turn: Turn) -> bool:
    """Return whether an effect gives an id of the event, or one of its own, a second meaning.

    What an earlier edit took out of the event has been sent all the same, and keeps its meaning;
    so does what an earlier answer injected or returned.
    """
    lists = [*turn.views, *turn.earlier, turn.effects]
    meanings: dict[str, set[tuple[str, Optional[str]]]] = {}
    for message in (message for one in lists for message in _messages(one)):
        meanings.setdefault(message["id"], set()).add((message["role"], None))
        for part in message["parts"]:
            owned = (message["role"], message["id"])
            meanings.setdefault(part["id"], set()).add(owned)
    return any(len(found) > 1 for found in meanings.values())


def _parts(value: Any) -> Iterator[Payload]:
    return _objects(value, {"id", "kind", "mediaType", "selection"})


def _messages(value: Any) -> Iterator[Payload]:
    return _objects(value, {"id", "role", "parts"})


def _objects(value: Any, names: set[str]) -> Iterator[Payload]:
    """Yield every object with these members, wherever it is."""
    if isinstance(value, dict) and names <= value.keys():
        yield value
    for inner in value.values() if isinstance(value, dict) else value:
        if isinstance(inner, (dict, list)):
            yield from _objects(inner, names)


# --- what we take and the SDK refuses -------------------------------------------------------------


def _message_edit(turn: Turn) -> bool:
    return turn.case.event.startswith("user.message.") and "modify" in turn.kinds


def _elicitation_denied(turn: Turn) -> bool:
    """Return whether an elicitation is denied by somebody who could not have answered it."""
    return (
        turn.case.event == "user.elicitation.request"
        and "deny" in turn.kinds
        and not answerable(turn.view, turn.case.capabilities, None)
    )


def _summary_without_instructions(turn: Turn) -> bool:
    return (
        turn.case.event == "context.compact.before"
        and "return" in turn.kinds
        and "instructions" not in turn.view
    )


# --- other ways -----------------------------------------------------------------------------------


def _managed(situation: Situation) -> Optional[Case]:
    """Put right a managed subscription that fails open with us, and closed with the SDK."""
    for turn in situation.turns:
        subscription = turn.subscription
        open_by_us = subscription.scope == "managed" and subscription.policy == "fail-open"
        if open_by_us and turn.refused_by_us and turn.refused_by_them:
            return turn.put_right(replace(subscription, scope=None))
    return None


def _counted(situation: Situation) -> Optional[Case]:
    """Put right a flow that can only be stopped and has a count; the SDK goes on counting."""
    case = situation.case
    flow = case.capabilities.get("flow", {})
    if flow.get("operations") != ["stop"] or "maxContinuations" not in flow:
        return None
    return replace(case, capabilities={**case.capabilities, "flow": {"operations": ["stop"]}})


def _hidden_stays(situation: Situation) -> Optional[Case]:
    """Put right a replaced list with an attachment in it that was kept as it was shown, hidden.

    With us that stands for the host's own; with the SDK it takes its place.
    """
    own = {part["id"]: part for part in _attachments(situation.case.payload)}
    for turn in situation.turns:
        shown = list(_attachments(turn.view))
        values = [one.get("value") for one in turn.effects if one.get("operation") == "replace"]
        kept = [part for part in _attachments(values) if part in shown]
        if turn.refused_by_us or turn.refused_by_them:
            continue
        if any(part["id"] in own and part != own[part["id"]] for part in kept):
            return turn.put_right(replace(turn.subscription, answer=REFUSED))
    return None


def _gap(situation: Situation) -> Optional[Case]:
    """Put right an elicitation whose text is a gap: we ask all the same, the SDK does not."""
    case = situation.case
    if "elicitation" not in case.event:
        return None
    name = case.event.rpartition(".")[2]
    part = case.payload["elicitation"].get(name, {})
    shown = any("gap" in turn.view["elicitation"][name] for turn in situation.turns if part)
    if not shown or (name == "result" and case.request is None):
        return None
    told = {key: value for key, value in part.items() if key != "gap"}
    elicitation = {**case.payload["elicitation"], name: {**told, "selection": "metadata"}}
    return replace(case, payload={**case.payload, "elicitation": elicitation})


def _same_answers(situation: Situation) -> Optional[Case]:
    """Put right an edit of answers that leaves them as they were; the SDK takes it for a change."""
    if situation.case.event != "user.elicitation.result":
        return None
    for turn in situation.turns:
        edits = [one for one in turn.effects if one.get("type") == "modify"]
        if edits and not (turn.refused_by_us or turn.refused_by_them):
            result = json.loads(turn.view["elicitation"]["result"]["text"])
            content = result.get("content", {})
            for edit in edits:
                kept = content if edit["operation"] == "merge" else {}
                content = {**kept, **edit["value"]}
            if same(content, result.get("content")):
                return turn.put_right(replace(turn.subscription, answer=REFUSED))
    return None


# --- the rules ------------------------------------------------------------------------------------


def _by(refuser: str, holds: Callable[[Turn], bool]) -> Callable[[Situation], Optional[Case]]:
    """Return a rule for the first answer that only one of the two refuses."""

    def put_right(situation: Situation) -> Optional[Case]:
        for turn in situation.turns:
            if not turn.reached_by_them:
                return None
            if turn.refused_by_us != turn.refused_by_them:
                if turn.refused_by_us == (refuser == "ours") and holds(turn):
                    return turn.put_right(replace(turn.subscription, answer=REFUSED))
                return None
        return None

    return put_right


#: By their names in the list of known differences: what finds each in a case, and puts it right.
RULES: dict[str, Callable[[Situation], Optional[Case]]] = {
    "strict-json": _by("ours", _strict_json),
    "bounds-of-an-answer": _by("ours", _bounds),
    "no-method-in-a-response": _by("ours", _method),
    "hidden-text-is-not-replaced": _by("ours", _hidden_text),
    "attachments-that-were-shown": _by("ours", _strange_reference),
    "what-is-hidden-is-not-relabelled": _by("ours", _relabelled),
    "an-id-keeps-its-meaning": _by("ours", _identities),
    "messages-can-be-edited": _by("theirs", _message_edit),
    "a-denial-is-a-denial": _by("theirs", _elicitation_denied),
    "summary-without-instructions": _by("theirs", _summary_without_instructions),
    "policy-as-declared": _managed,
    "nothing-to-continue": _counted,
    "a-gap-is-no-failure": _gap,
    "same-answers-change-nothing": _same_answers,
    "what-is-hidden-stays": _hidden_stays,
}
#: All of them; the others show in messages and change nothing, or are told before anybody is asked.
NAMES = (
    *RULES,
    "omitted-is-not-measured",
    "offers-what-can-be-accepted",
    "instructions-nobody-gave",
    "faults-of-the-host",
)


@dataclass
class Judgement:
    """What became of a comparison: ``wrong`` is what nobody expected, ``known`` what was.

    ``first`` is what our client made of the case before anything was put right in it.
    """

    first: Verdict
    case: Case
    ours: Verdict
    theirs: Verdict
    wrong: dict[str, tuple[Any, Any]]
    known: set[str]

    def __str__(self) -> str:
        lines = [repr(self.case), "", "What differs:"]
        for name, (one, other) in self.wrong.items():
            lines += [f"  {name}", f"    ours:   {one}", f"    theirs: {other}"]
        lines += ["", "Ours:", f"  {self.ours}", "", "The official SDK's:", f"  {self.theirs}"]
        if self.known:
            lines += ["", f"(known: {', '.join(sorted(self.known))})"]
        return "\n".join(lines)


Client = Callable[[Case], Verdict]


def judge(case: Case, ours: Client, theirs: Client) -> Judgement:
    """Return what two clients make of one case, known differences put right on the way."""
    known: set[str] = set()
    first: Optional[Verdict] = None
    while True:
        mine, yours = ours(case), theirs(case)
        first = first or mine
        wrong = mismatches(case, mine, yours, known)
        if "host_error" in wrong and mine.host_error and inconsistent(case):
            known.add("faults-of-the-host")
            wrong = {}
        repaired = _repaired(Situation(case, mine, yours), known) if wrong else None
        if repaired is None:
            return Judgement(first, case, mine, yours, wrong, known)
        case = repaired


def _repaired(situation: Situation, known: set[str]) -> Optional[Case]:
    """Return the case without the first known difference in it; None where there is none."""
    for name, put_right in RULES.items():
        repaired = put_right(situation)
        if repaired is not None:
            known.add(name)
            return repaired
    return None
