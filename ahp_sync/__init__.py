"""The synchronous client (harness role) of the Agent Hooks Protocol, AHP.

Ask :class:`Client` before the agent acts, tell it afterwards; every call ends by its deadline with
an honest :class:`Outcome`. Nothing in here is asynchronous.
"""

from __future__ import annotations

import logging

from ahp_sync._version import __version__
from ahp_sync.approval import HostCallback, Proposal
from ahp_sync.audit import AuditKind, AuditRecord, AuditSink, JsonLinesSink, LoggingSink
from ahp_sync.auth.keepers import TokenCommand, TokenFile, TokenKeyring
from ahp_sync.auth.oauth import OAuthClient, OAuthPolicy
from ahp_sync.budget import Budget
from ahp_sync.capabilities import Capabilities
from ahp_sync.client import Client
from ahp_sync.codecs import Codec
from ahp_sync.discovery import ConfigurationDiagnostic
from ahp_sync.errors import AHPError, ClientClosed, InvalidEvent, RegistrationError, ToolDenied
from ahp_sync.failure import GENERIC_REASON, Failure, FailureClass, FailurePolicy
from ahp_sync.grants import Elicitation, Flow, Grant, Inject, Modify
from ahp_sync.outcome import Decision, Outcome
from ahp_sync.protocol.occurrence import Harness
from ahp_sync.registration import Registration
from ahp_sync.retry import RetryPolicy
from ahp_sync.settlement import Candidate, Denial, HostState
from ahp_sync.tls import TLSIdentity
from ahp_sync.uploads import Attachment

# A library prints nothing by itself; the host decides where the records go.
logging.getLogger("ahp_sync").addHandler(logging.NullHandler())

__all__ = [
    "GENERIC_REASON",
    "AHPError",
    "Attachment",
    "AuditKind",
    "AuditRecord",
    "AuditSink",
    "Budget",
    "Candidate",
    "Capabilities",
    "Client",
    "ClientClosed",
    "Codec",
    "ConfigurationDiagnostic",
    "Decision",
    "Denial",
    "Elicitation",
    "Failure",
    "FailureClass",
    "FailurePolicy",
    "Flow",
    "Grant",
    "Harness",
    "HostCallback",
    "HostState",
    "Inject",
    "InvalidEvent",
    "JsonLinesSink",
    "LoggingSink",
    "Modify",
    "OAuthClient",
    "OAuthPolicy",
    "Outcome",
    "Proposal",
    "Registration",
    "RegistrationError",
    "RetryPolicy",
    "TLSIdentity",
    "TokenCommand",
    "TokenFile",
    "TokenKeyring",
    "ToolDenied",
    "__version__",
]
