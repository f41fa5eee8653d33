"""What ``ahp-sync send`` shows: an account of the exchange as plain values, and as lines."""

from __future__ import annotations

import json
from typing import Any, Iterator, Optional, Sequence

from ahp_sync import AuditKind, AuditRecord, Outcome, Registration
from ahp_sync.cli.console import count, safe
from ahp_sync.cli.recording import Attempt, Delivery
from ahp_sync.protocol.events import EVENTS
from ahp_sync.protocol.slots import at
from ahp_sync.registration import Backend, HttpEndpoint

__all__ = ["lines", "report"]

# How much of an answer is shown, in characters.
_SHOWN = 4000

Values = dict[str, Any]


def report(
    registration: Registration,
    deliveries: Sequence[Delivery],
    records: Sequence[AuditRecord],
    outcome: Outcome,
    elapsed_ms: float,
) -> Values:
    """Return the account of one event as JSON values.

    ``deliveries`` are what went over the transports, ``records`` the audit records of the call.
    """
    backends = {backend.id: backend for backend in registration.backends}
    return {
        "event_type": outcome.event["type"],
        "event_id": outcome.event["id"],
        "deliveries": [
            *_interceptions(backends, deliveries, records),
            *(_observation(backends[d.backend], d) for d in deliveries if not d.is_request),
        ],
        "outcome": {**_outcome(outcome), "elapsed_ms": elapsed_ms},
    }


def _outcome(outcome: Outcome) -> Values:
    return {
        "decision": outcome.decision.value,
        "reason": outcome.reason,
        "synthetic": outcome.synthetic,
        "failed_open": outcome.failed_open,
        "permission": outcome.permission,
        "candidate": None if outcome.candidate is None else outcome.candidate.to_json(),
        "flow": outcome.flow,
        "instructions": list(outcome.instructions),
        "messages": list(outcome.messages),
        "injections": list(outcome.injections),
        "event": outcome.event,
    }


def _interceptions(
    backends: dict[str, Backend], deliveries: Sequence[Delivery], records: Sequence[AuditRecord]
) -> Iterator[Values]:
    requests = [delivery for delivery in deliveries if delivery.is_request]
    for record in records:
        if record.kind is AuditKind.OBSERVATION_FAILED or record.backend is None:
            continue
        # Both are in the order of the chain; an interceptor that was not tried has no delivery.
        delivery = None
        if record.attempts:
            delivery = next((one for one in requests if one.backend == record.backend), None)
        if delivery is not None:
            requests.remove(delivery)
        yield {
            "backend": record.backend,
            "subscription": record.subscription,
            "mode": record.mode,
            "endpoint": _endpoint(backends[record.backend]),
            "timeout_ms": record.timeout_ms,
            "policy": record.policy,
            **_messages(delivery),
            "verdict": _verdict(record, delivery),
        }


def _observation(backend: Backend, delivery: Delivery) -> Values:
    last = delivery.attempts[-1]
    verdict = "not told in time" if last.given_up else "failed" if last.failure else "told"
    return {
        "backend": backend.id,
        "mode": "observe",
        "endpoint": _endpoint(backend),
        **_messages(delivery),
        "verdict": {"kind": verdict, **_failure(last)},
    }


def _endpoint(backend: Backend) -> str:
    transport = backend.transport
    if isinstance(transport, HttpEndpoint):
        return transport.display_url
    return f"{transport.command} ({transport.lifecycle})"


def _messages(delivery: Optional[Delivery]) -> Values:
    if delivery is None:
        return {"request": None, "attempts": []}
    return {
        "request": json.loads(delivery.message.body),
        "attempts": [_attempt(attempt) for attempt in delivery.attempts],
    }


def _attempt(attempt: Attempt) -> Values:
    reply, failure = attempt.reply, attempt.failure
    values: Values = {"elapsed_ms": attempt.elapsed_ms, "given_up": attempt.given_up}
    if reply is not None:
        answer = attempt.answer
        values.update(reply.facts)
        values["answer"] = answer[:_SHOWN]
        values["answer_bytes"] = len(reply.body)
        values["answer_cut"] = len(answer) > _SHOWN
        values["stderr"] = reply.stderr
    if failure is not None:
        facts = {"http_status": failure.http_status, "exit_status": failure.exit_status}
        values.update({name: fact for name, fact in facts.items() if fact is not None})
        values["sample"], values["stderr"] = failure.sample, failure.stderr
        values.update(_failure(attempt))
    return values


def _failure(attempt: Attempt) -> Values:
    failure = attempt.failure
    if failure is None:
        return {}
    return {
        "failure_class": failure.failure_class.value,
        "code": failure.code,
        "detail": failure.detail,
    }


def _verdict(record: AuditRecord, delivery: Optional[Delivery]) -> Values:
    verdict: Values = {
        "kind": record.kind.value,
        "elapsed_ms": record.elapsed_ms,
        "attempts": record.attempts,
        "failure_class": record.failure_class,
        "code": record.code,
        "detail": record.detail,
        "rpc_code": record.rpc_code,
    }
    if record.kind in (AuditKind.ACCEPTED, AuditKind.EXPLICIT_DENIAL) and delivery is not None:
        verdict["effects"] = delivery.attempts[-1].effects
    return verdict


# --- as lines -------------------------------------------------------------------------------------


def lines(account: Values) -> Iterator[str]:
    """Yield the lines for people; foreign text is escaped."""
    for delivery in account["deliveries"]:
        yield from _delivery_lines(delivery)
        yield ""
    if not account["deliveries"]:
        yield f"no subscription is for {account['event_type']}: nothing was sent"
        yield ""
    outcome = account["outcome"]
    how = " (synthetic)" if outcome["synthetic"] else " (failed open)" * outcome["failed_open"]
    yield f"outcome: {outcome['decision']}{how}, {outcome['elapsed_ms']:.1f} ms"
    if outcome["reason"]:
        yield f"  reason: {safe(outcome['reason'])}"
    for name in ("permission", "flow"):
        if outcome[name] not in ("none", outcome["decision"]):
            yield f"  {name}: {outcome[name]}"
    for name in ("messages", "instructions", "injections"):
        for said in outcome[name]:
            yield f"  {name[:-1]}: {_json(said)}"
    if outcome["candidate"] is not None:
        yield f"  result: {_json(outcome['candidate']['value'])}"
    yield from _edits(account)


def _edits(account: Values) -> Iterator[str]:
    """Yield what the event's target has become, if an interceptor edited it."""
    effects = [e for d in account["deliveries"] for e in d["verdict"].get("effects", ())]
    target = EVENTS[account["event_type"]].target
    if target is None or not any(effect["type"] == "modify" for effect in effects):
        return
    value = at(account["outcome"]["event"], target.path)
    yield f"  now {'.'.join(target.path)}: {_json(value)}"


def _json(value: Any) -> str:
    return safe(json.dumps(value, ensure_ascii=False), limit=_SHOWN)


def _delivery_lines(delivery: Values) -> Iterator[str]:
    which = f"[{delivery['subscription']}]" if "subscription" in delivery else ""
    terms = ""
    if delivery.get("policy"):
        terms = f", {delivery['timeout_ms']} ms, {delivery['policy']}"
    head = f"{delivery['backend']}{which}: {delivery['mode']}{terms}"
    yield f"{head}, {safe(delivery['endpoint'])}"
    if delivery["request"] is not None:
        yield "  sent"
        pretty = json.dumps(delivery["request"], indent=2, ensure_ascii=False)
        yield from (f"    {safe(line, limit=100_000)}" for line in pretty.split("\n"))
    several = len(delivery["attempts"]) > 1
    for number, attempt in enumerate(delivery["attempts"], 1):
        yield from _attempt_lines(attempt, f" {number}" if several else "")
    yield f"  verdict: {_verdict_text(delivery['verdict'])}"


def _attempt_lines(attempt: Values, number: str) -> Iterator[str]:
    facts = []
    if "http_status" in attempt:
        facts.append(f"HTTP {attempt['http_status']}")
    if "exit_status" in attempt:
        facts.append(f"exit status {attempt['exit_status']}")
    if "answer_bytes" in attempt:
        facts.append(count(attempt["answer_bytes"], "byte"))
    if attempt["elapsed_ms"] is not None:
        facts.append(f"{attempt['elapsed_ms']:.1f} ms")
    if attempt["given_up"]:
        what = "given up"
    elif "code" in attempt:
        what = "failed"
    else:
        what = "answered" if "answer" in attempt else "delivered"
    yield f"  {what}{number}: {', '.join(facts)}"
    if "code" in attempt:
        yield f"    {_failure_text(attempt)}"
    for name in ("answer", "sample", "stderr"):
        text = attempt.get(name)
        if text:
            label = "" if name == "answer" else f"{name}: "
            cut = " (cut)" if name == "answer" and attempt["answer_cut"] else ""
            yield f"    {label}{safe(text, limit=_SHOWN)}{cut}"


def _verdict_text(verdict: Values) -> str:
    text = verdict["kind"].replace("_", " ")
    if "effects" in verdict:
        effects = verdict["effects"]
        shown = ", ".join(json.dumps(effect, ensure_ascii=False) for effect in effects)
        return f"{text}, {safe(shown, limit=_SHOWN) if effects else 'no effects'}"
    if verdict.get("failure_class"):
        return f"{text}: {_failure_text(verdict)}"
    return f"{text}: {verdict['code']}" if verdict.get("code") else text


def _failure_text(failure: Values) -> str:
    return f"{failure['failure_class']}/{failure['code']}: {safe(failure['detail'])}"
