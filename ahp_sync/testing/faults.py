"""The fault matrix: every fault of the scripted backends, and the failure class it must end in.

The classes follow the table of the protocol's failure handling. A test of the whole matrix is one
``parametrize``::

    @pytest.mark.parametrize("case", fault_cases(), ids=str)
    def test_denied(case, ahp_fault_backend, ahp_client):
        backend = ahp_fault_backend(case)
        outcome = ahp_client(backend.registration(timeout_ms=300)).tool_before(…)
        assert_synthetic_denial(outcome, failure_class=case.failure_class)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Callable, Dict, List, Mapping, Optional

from ahp_sync.failure import FailureClass
from ahp_sync.testing.answers import ANSWERS
from ahp_sync.testing.http_steps import CONNECTION_STEPS, LISTENER_STEPS, REQUEST_STEPS
from ahp_sync.testing.stdio_backend import LAUNCH_STEPS
from ahp_sync.testing.stdio_child import REQUEST_STEPS as STDIO_REQUEST_STEPS
from ahp_sync.testing.stdio_child import START_STEPS

__all__ = ["FAULTS", "TRANSPORTS", "Fault", "FaultCase", "fault_cases"]

HTTP, PERSISTENT, PER_EVENT = TRANSPORTS = ("http", "persistent", "per_event")

_HTTP_TABLES = (ANSWERS, REQUEST_STEPS, CONNECTION_STEPS, LISTENER_STEPS)
_STDIO_TABLES = (ANSWERS, START_STEPS, STDIO_REQUEST_STEPS, LAUNCH_STEPS)


@dataclass(frozen=True)
class Fault:
    """A step that is an operational failure.

    ``expected`` maps each transport where it is one ("http", "persistent", "per_event") to the
    value of the :class:`FailureClass` it ends in, at a deadline that is shorter than a second and
    long enough for a good answer. ``http`` and ``stdio`` say in a line what the backends do.
    """

    name: str
    expected: Mapping[str, str]

    @property
    def http(self) -> str:
        """What the HTTP backend does, or ""."""
        return self._doc(_HTTP_TABLES)

    @property
    def stdio(self) -> str:
        """What the stdio backend does, or ""."""
        return self._doc(_STDIO_TABLES)

    def _doc(self, tables: tuple[Mapping[str, Callable[..., object]], ...]) -> str:
        docs = [table[self.name].__doc__ for table in tables if self.name in table]
        return (docs[-1] or "").strip() if docs else ""

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class FaultCase:
    """A fault on a transport, and the failure class it must end in."""

    fault: Fault
    transport: str
    failure_class: str

    @property
    def name(self) -> str:
        """The fault's name, which is a script for the transport's backend."""
        return self.fault.name

    def __str__(self) -> str:
        return f"{self.transport}-{self.fault.name}"


#: Every fault by name.
FAULTS: Dict[str, Fault] = {}


def _faults(
    names: str,
    *,
    http: Optional[FailureClass] = None,
    stdio: Optional[FailureClass] = None,
    persistent: Optional[FailureClass] = None,
    per_event: Optional[FailureClass] = None,
) -> None:
    """Enter faults; ``stdio`` is for both lifecycles."""
    classes = {HTTP: http, PERSISTENT: persistent or stdio, PER_EVENT: per_event or stdio}
    expected = {name: one.value for name, one in classes.items() if one is not None}
    for name in names.split():
        FAULTS[name] = Fault(name, expected)


def _answers(names: str, failure_class: FailureClass) -> None:
    """Enter faults of the answer itself, which are the same on every transport."""
    _faults(names, http=failure_class, stdio=failure_class)


_ = FailureClass

_answers("empty html bom utf16 bad_utf8 bad_json trailing_junk", _.MALFORMED)
_answers("dup_keys dup_keys_nested nan infinity huge_float big_int", _.MALFORMED)
_answers("deep lone_surrogate", _.MALFORMED)
_answers("json_null json_array json_object json_string batch", _.MALFORMED)
_answers("no_jsonrpc wrong_jsonrpc method_in_response echoed_request", _.MALFORMED)
_answers("result_and_error result_null no_id", _.MALFORMED)
_answers("wrong_id null_id wrong_type_id null_id_error", _.ID_MISMATCH)
_answers("rpc_error backend_unavailable", _.RPC_ERROR)
_answers("unsupported_version unsupported_event wrong_version", _.UNSUPPORTED)
_answers("no_version", _.MISSING_RESULT)
_answers("effects_null effects_object unknown_effect unadvertised_effect", _.EFFECTS)
_answers("extra_member empty_reason no_reason conflicting", _.EFFECTS)

_faults("blackhole drip_header drip_body endless_continue", http=_.DEADLINE_EXCEEDED)
_faults("noaccept silent_tls drip_tls", http=_.DEADLINE_EXCEEDED)
_faults("late", http=_.DEADLINE_EXCEEDED, stdio=_.DEADLINE_EXCEEDED)
_faults("refused close_at_accept reset_at_accept not_tls", http=_.CONNECTION)
_faults("reset reset_at_once truncated truncated_chunked truncated_header", http=_.CONNECTION)
_faults("status_400 status_403 status_404 status_413 status_429", http=_.HTTP_STATUS)
_faults("status_500 status_502 status_503 status_504", http=_.HTTP_STATUS)
_faults("redirect_301 redirect_302 redirect_303 redirect_307 redirect_308", http=_.HTTP_STATUS)
_faults("status_401", http=_.AUTHENTICATION)
_faults("no_content text echo_headers_raw gzip gzip_bomb", http=_.MALFORMED)
_faults("huge huge_length huge_header huge_header_line not_http", http=_.MALFORMED)

# A clean exit without an answer is the end of the stream; any other status is the process's fault.
_faults("eof", http=_.CONNECTION, stdio=_.CONNECTION)
_faults("closes_stdout", persistent=_.CONNECTION, per_event=_.DEADLINE_EXCEEDED)
_faults("exit_at_start exit_mid killed_mid traceback", stdio=_.PROCESS)
_faults("answer_then_exit", per_event=_.PROCESS)
_faults("missing_command not_executable directory_command bad_shebang cwd_gone", stdio=_.PROCESS)
_faults("silent never_reads ignores_sigterm grandchild_waiting", stdio=_.DEADLINE_EXCEEDED)
_faults("wrapper ignores_eof", per_event=_.DEADLINE_EXCEEDED)
_faults("grandchild_silent", stdio=_.CONNECTION)
_faults("floods_stdout endless_start writes_before_reading", stdio=_.MALFORMED)
_faults("banner noise oops", stdio=_.MALFORMED)
_faults("no_newline", persistent=_.DEADLINE_EXCEEDED, per_event=_.MALFORMED)
_faults("two_lines duplicate_answer", per_event=_.MALFORMED)

del _


def fault_cases(*transports: str) -> List[FaultCase]:
    """Return every fault on each of ``transports`` (all three by default) where it can occur."""
    wanted = transports or TRANSPORTS
    return [
        FaultCase(fault, transport, failure_class)
        for fault in FAULTS.values()
        for transport, failure_class in fault.expected.items()
        if transport in wanted
    ]
