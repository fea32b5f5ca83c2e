"""Plug-in pages as documents."""

from __future__ import annotations

from openpai.api.plugin_pages import PluginPage
from openpai.wire import plugin_pages as wire


def plugin_page(of: PluginPage) -> wire.PluginPage:
    """Return the document of a plug-in page."""
    return {"name": of.name, "title": of.title, "address": of.address}
