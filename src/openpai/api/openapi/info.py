"""What this server is."""

from __future__ import annotations

from typing import Final

from openpai.api.openapi.operations import Operation
from openpai.wire import info

_TEXT: Final = {"text/plain": "OpenPAI 0.2.0: the API is described at /docs\n"}
OPERATIONS: Final[dict[str, Operation]] = {
    "GET /api/v1/": Operation("getRoot", "Show what this server is", info.ServerInfo),
    "GET /api/v2/info": Operation("getInfo", "Show what this server is", info.ServerInfo),
    "GET /api/v2/": Operation("getBanner", "Show a line for people", media=_TEXT),
    "GET /": Operation("getPage", "Show a page for people", media={"text/html": "<!doctype html>"}),
}
