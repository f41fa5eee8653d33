"""The hook methods of ``config.*`` events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional, Sequence

from ahp_sync.hooks.base import Dispatcher
from ahp_sync.hooks.making import given
from ahp_sync.hooks.options import CallOptions
from ahp_sync.outcome import Outcome
from ahp_sync.protocol.payloads import Json, Part

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["ConfigHooks"]


class ConfigHooks(Dispatcher):
    """``config.change.before`` and ``config.change.after``."""

    def config_change_before(
        self,
        *,
        source: str,
        scope: str,
        settings: Sequence[str],
        summary: str,
        path: Optional[str] = None,
        items: Optional[Sequence[Part]] = None,
        **options: Unpack[CallOptions],
    ) -> Outcome:
        """Ask whether the host's configuration may change (``config.change.before``).

        A backend may deny it. The payload is :class:`~ahp_sync.payloads.ConfigChangeBefore`.

        :param source: where the change comes from, and ``scope``: for whom it counts; words of the
            host's own, such as ``"file"`` and ``"project"``.
        :param settings: the names of the settings; none of their values, which may be secrets.
        :param summary: the change in words.
        :param path: the file that holds the settings.

        Everything else, and what it returns and raises, is as in :meth:`tool_before`.
        """
        change = {
            "source": source,
            "scope": scope,
            "settings": settings,
            "summary": summary,
            **given(path=path),
        }
        payload = {"change": change, **given(items=items)}
        return self._send("config.change.before", payload, options)

    def config_change_after(
        self,
        *,
        source: str,
        scope: str,
        settings: Sequence[str],
        summary: str,
        path: Optional[str] = None,
        mcp_servers: Optional[Sequence[Json]] = None,
        items: Optional[Sequence[Part]] = None,
        **options: Unpack[CallOptions],
    ) -> Outcome:
        """Tell that the host's configuration has changed (``config.change.after``).

        It is only observed. The payload is :class:`~ahp_sync.payloads.ConfigChangeAfter`.

        :param mcp_servers: the MCP servers that are known now, as the host has them; no secrets.

        Everything else is as in :meth:`config_change_before`.
        """
        change = {
            "source": source,
            "scope": scope,
            "settings": settings,
            "summary": summary,
            **given(path=path, mcpServers=mcp_servers),
        }
        payload = {"change": change, **given(items=items)}
        return self._send("config.change.after", payload, options)
