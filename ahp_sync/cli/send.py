"""``ahp-sync send``: send one event and show the whole exchange, for authors of backends."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import time
from typing import Any, Callable, Optional

from ahp_sync import Budget, Capabilities, Client, Decision, Outcome, Registration
from ahp_sync.cli import console, credentials, exchange
from ahp_sync.cli.arguments import UsageError, json_object, seconds
from ahp_sync.cli.harness import Records, open_client
from ahp_sync.cli.recording import Delivery, RecordingTransport
from ahp_sync.protocol.events import EVENTS

__all__ = ["add_to"]

_DENIED, _FAILED = 77, 1
_REFUSED = (Decision.DENY, Decision.STOP)
_AD_HOC_ID = "local.backend"
_AD_HOC_SECONDS = 5.0
_CLOSE_SECONDS = 2.0

_EPILOG = f"""\
What was sent is shown, each answer as it came (cut, and without the secrets
that went out with the request), what it was taken for, and the outcome.
Headers are never shown.

examples:
  ahp-sync send --config hooks.json --input '{{"command": "rm -rf /"}}'
  ahp-sync send --config hooks.json --event session.start --session s-1
  ahp-sync send --url http://127.0.0.1:8750/ahp --input '{{"command": "ls"}}'
  ahp-sync send --input '{{"path": "key.pem"}}' -- python backend.py policy.json

{credentials.EPILOG}
Every effect that the protocol has for the event is offered, and the host's own
policy permits whatever no backend objects to.

exit code: 0 if the event proceeded or a backend supplied its result, 77 if a
backend denied or stopped it, 1 if it did not proceed for another reason (a
failure under fail-closed, say, or an approval that is wanted), and 2 for wrong
usage or configuration
"""


def add_to(commands: Any) -> None:
    """Enter the command into the parser."""
    parser = commands.add_parser(
        "send",
        help="send one event and show the whole exchange, to debug a backend",
        usage="%(prog)s [options] (--config FILE | --url URL | -- COMMAND ...)",
        description="Send one event to the registered backends, or to one that is named here,\nand"
        " show the whole exchange.",
        epilog=_EPILOG,
    )
    backend = parser.add_argument_group("the backend")
    backend.add_argument("-c", "--config", metavar="FILE", help="the registration to use")
    backend.add_argument("--backend", metavar="ID", help="only this backend of the registration")
    backend.add_argument("--url", help="an HTTP backend, without a registration")
    backend.add_argument(
        "--bearer-env", metavar="VAR", help="with --url: the variable that holds the bearer token"
    )
    backend.add_argument(
        "--per-event",
        action="store_true",
        help="with COMMAND: lifecycle per_event (default: persistent)",
    )
    backend.add_argument(
        "--observe",
        action="store_true",
        help="with --url or COMMAND: only notify (default for events that can't be intercepted)",
    )
    event = parser.add_argument_group("the event")
    event.add_argument(
        "--event",
        choices=EVENTS,
        default="tool.before",
        metavar="TYPE",
        help="any event of the protocol (default: %(default)s); all but tool.before, tool.after and"
        " session.* need --payload",
    )
    event.add_argument("--name", default="Bash", help="the tool's name (default: %(default)s)")
    event.add_argument(
        "--input", type=json_object, metavar="JSON", help="the tool's input (default: {})"
    )
    event.add_argument("--session", metavar="ID", help="the session's id (session.*: any)")
    event.add_argument(
        "--payload",
        type=json_object,
        metavar="JSON",
        help="all members of the event but the common ones, instead of --name and --input",
    )
    parser.add_argument(
        "--timeout",
        type=seconds,
        metavar="SECONDS",
        help="the most that it may take; without a registration, its timeoutMs (default: 5)",
    )
    parser.add_argument("--json", action="store_true", help="print everything as one JSON object")
    credentials.add_to(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    deliveries: list[Delivery] = []
    audit = Records()
    with contextlib.ExitStack() as stack:
        stack.enter_context(console.library_warnings())
        registration = _registration(options)
        secrets = credentials.client_options("send", options, registration)
        transports = stack.enter_context(_recording(registration, deliveries, **secrets))
        hooks = stack.enter_context(
            open_client(
                registration,
                [audit],
                transports=transports,
                capabilities=Capabilities.whole(),
                authorize=lambda proposal: True,
                **secrets,
            )
        )
        started = time.monotonic()
        outcome = _send(hooks, options)
        elapsed_ms = round((time.monotonic() - started) * 1000, 3)
    report = exchange.report(registration, deliveries, audit.records, outcome, elapsed_ms)
    if options.json:
        console.say(json.dumps(report, indent=2))
    else:
        for line in exchange.lines(report):
            console.say(line)
    return _exit_code(outcome)


def _exit_code(outcome: Outcome) -> int:
    if outcome.may_execute or outcome.has_result:
        return 0
    # A test of a backend must not take its failure for its denial.
    explicit = outcome.decision in _REFUSED and not outcome.synthetic
    return _DENIED if explicit else _FAILED


# --- the backends ---------------------------------------------------------------------------------


def _registration(options: argparse.Namespace) -> Registration:
    named = [options.config is not None, options.url is not None, options.command is not None]
    if sum(named) != 1:
        raise UsageError("send: name one of --config, --url or, behind '--', a command")
    secrets = credentials.given(options)
    if secrets and options.config is None:
        raise UsageError(f"send: {secrets} goes with --config")
    for option, needs, given in (
        ("--backend", "--config", options.config),
        ("--bearer-env", "--url", options.url),
        ("--per-event", "a command", options.command),
        ("--observe", "--url or a command", not options.config),
    ):
        if getattr(options, option[2:].replace("-", "_")) and not given:
            raise UsageError(f"send: {option} goes with {needs}")
    if options.config is None:
        return Registration.load(_ad_hoc(options))
    return _only(options.backend, Registration.load(options.config))


def _only(wanted: Optional[str], registration: Registration) -> Registration:
    if wanted is None:
        return registration
    chosen = tuple(backend for backend in registration.backends if backend.id == wanted)
    if not chosen:
        known = ", ".join(backend.id for backend in registration.backends)
        raise UsageError(f"send: no backend {wanted!r} is registered, only {known}")
    return dataclasses.replace(registration, backends=chosen)


def _ad_hoc(options: argparse.Namespace) -> dict[str, Any]:
    """Return a registration of the one backend that the command line names."""
    if options.command == []:
        raise UsageError("send: no command behind '--'")
    backend: dict[str, Any] = {"id": _AD_HOC_ID, "subscriptions": [_subscription(options)]}
    if options.url is not None:
        backend["transport"] = {"type": "http", "url": options.url}
    else:
        program, *arguments = options.command
        lifecycle = "per_event" if options.per_event else "persistent"
        backend["transport"] = {
            "type": "stdio",
            "command": program,
            "args": arguments,
            "lifecycle": lifecycle,
        }
    if options.bearer_env:
        backend["authentication"] = {"type": "bearer", "tokenEnv": options.bearer_env}
    return {"protocolVersion": "draft", "hooks": [backend]}


def _subscription(options: argparse.Namespace) -> dict[str, Any]:
    subscription = {"events": [options.event], "content": {"default": "body"}}
    if options.observe or not EVENTS[options.event].interceptable:
        return {**subscription, "mode": "observe"}
    milliseconds = max(1, round(1000 * (options.timeout or _AD_HOC_SECONDS)))
    return {
        **subscription,
        "mode": "intercept",
        "timeoutMs": milliseconds,
        "failurePolicy": "fail-closed",
    }


@contextlib.contextmanager
def _recording(registration: Registration, log: list[Delivery], **secrets: Any) -> Any:
    """Yield the registration's own transports, each in one that records; close them afterwards."""
    from ahp_sync.transports.factory import TransportFactory

    factory = TransportFactory(
        registration, injected={}, stdio_processes=1, proxies={}, trust_env=False, **secrets
    )
    transports, owned, _ = factory.make()
    try:
        yield {name: RecordingTransport(name, inner, log) for name, inner in transports.items()}
    finally:
        budget = Budget(_CLOSE_SECONDS)
        for transport in owned:
            transport.close(budget)


# --- the events -----------------------------------------------------------------------------------


def _budget(options: argparse.Namespace) -> Optional[Budget]:
    # Of a backend named here, the time is the deadline of its subscription.
    if options.timeout is None or options.config is None:
        return None
    return Budget(options.timeout)


def _send(hooks: Client, options: argparse.Namespace) -> Outcome:
    family = EVENTS[options.event].family
    common: dict[str, Any] = {"session": options.session, "budget": _budget(options)}
    if family == "session" and options.session is None:
        common["session"] = "ahp-sync-send"
    if options.payload is not None:
        return hooks.dispatch(options.event, options.payload, **common)
    method: Callable[..., Outcome] = getattr(hooks, options.event.replace(".", "_"))
    if family == "session":
        return method(**common)
    if options.event in ("tool.before", "tool.after"):
        return method(name=options.name, input=options.input or {}, **common)
    raise UsageError(f"send: an event of type {options.event} needs a --payload")
