"""The types of everything that events are made of; see :mod:`ahp_sync.protocol.payloads`."""

from __future__ import annotations

from ahp_sync.protocol.payloads import *  # noqa: F403 - the same names, under a shorter one
from ahp_sync.protocol.payloads import __all__ as __all__
