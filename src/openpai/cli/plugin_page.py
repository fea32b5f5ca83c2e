"""`pai plugin-page`: the pages of other servers that the portal shows."""

from __future__ import annotations

from typing import Final

from openpai.cli import output, session
from openpai.cli.lazy import group

COMMANDS: Final = {"list": ("openpai.cli.plugin_page:list_", "List the plug-in pages of the portal.")}
app = group("Plug-in pages: pages of other servers that the portal shows.", COMMANDS)


def list_(json: output.Json = False) -> None:
    """List the plug-in pages of the portal."""
    with session.connect() as pai:
        found = pai.plugin_pages()
    if output.is_shown(json, [one.document for one in found], found, "No plug-in pages.", "pai settings --all"):
        return
    rows = [(one.title, f"/pages/{one.name}", one.address) for one in found]
    output.table(["TITLE", "AT THE PORTAL", "ADDRESS"], rows, whole=["TITLE", "AT THE PORTAL", "ADDRESS"])
