"""Finds the runtime plugins that are installed as Python entry points of the group `openpai.runtime_plugins`.

One that cannot be loaded does not keep the server from starting: jobs that use it are refused, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, cast

import structlog

from openpai.protocol.errors import Refused
from openpai.protocol.findings import Finding
from openpai.runtime.builtin_plugins import BUILT_IN
from openpai.runtime.plugin import ENTRY_POINTS, PluginCommands, PluginContext, RuntimePlugin
from openpai.runtime.plugins import Plugins

log = structlog.get_logger(__name__)


class BrokenPlugin:
    """A plugin that is installed and cannot be loaded."""

    def __init__(self, name: str, reason: str) -> None:
        self._message = f"the runtime plugin {name!r} is installed but cannot be loaded: {reason}"

    def faults(self, parameters: Mapping[str, Any]) -> Iterator[Finding]:
        """Yield why it cannot be used."""
        yield Finding((), self._message, "another plugin, until an administrator has repaired it")

    def commands(self, parameters: Mapping[str, Any], context: PluginContext) -> PluginCommands:
        """Raise the reason."""
        raise Refused("InvalidProtocolError", self._message)


def installed_plugins() -> Plugins:
    """Return all plugins by name. None replaces a built-in one."""
    found: dict[str, RuntimePlugin] = dict(BUILT_IN)
    for point in entry_points(group=ENTRY_POINTS):
        if point.name in found:
            log.error("a runtime plugin is left out: another one has its name", plugin=point.name, value=point.value)
        else:
            found[point.name] = _load(point)
    return found


def _load(point: EntryPoint) -> RuntimePlugin:
    try:
        loaded = point.load()
        plugin: Any = loaded() if isinstance(loaded, type) else loaded
        if callable(plugin.faults) and callable(plugin.commands):
            return cast("RuntimePlugin", plugin)
        reason = "it has no methods `faults` and `commands`"
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
    log.error("a runtime plugin cannot be loaded", plugin=point.name, value=point.value, reason=reason)
    return BrokenPlugin(point.name, reason)
