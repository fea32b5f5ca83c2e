"""The pages of other servers that the portal shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import Request

from openpai.api.answers import Reply, reply
from openpai.api.context import context_of, needs
from openpai.api.routing import Router
from openpai.api.sessions import Caller
from openpai.api.shapes import plugin_pages as shapes
from openpai.wire.plugin_pages import PluginPage

router = Router("plugin pages")


@router.serves("GET /api/v2/plugin-pages", "List the plug-in pages of the portal")
async def list_plugin_pages(
    request: Request, caller: Annotated[Caller, needs("plugin_page.list")]
) -> Reply[Sequence[PluginPage]]:
    """Return the pages of other servers that the portal shows, in the order of its navigation.

    The setting `plugin-pages` of the server that answers names them.
    """
    return reply([shapes.plugin_page(one) for one in context_of(request).services.plugin_pages])
