"""The pages of other servers that the portal shows."""

from __future__ import annotations

from openpai.client import model
from openpai.client.calls_core import Call, asks, listed


class PluginPages:
    """The pages of other servers that the portal shows."""

    @asks
    def plugin_pages(self) -> Call[tuple[model.PluginPage, ...]]:
        """Return the plug-in pages of the portal, in the order of its navigation."""
        return Call("GET", "/plugin-pages", listed(model.PluginPage.read))
