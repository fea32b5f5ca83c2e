"""The machines."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Request
from starlette.responses import Response

from openpai.api.answers import reply
from openpai.api.context import desk, doing
from openpai.api.sessions import Caller
from openpai.api.shapes import nodes as shapes

router = APIRouter(tags=["cluster"])


@router.get("/api/v2/nodes")
async def nodes(request: Request, caller: Annotated[Caller, doing("node.list")]) -> Response:
    """Return every machine and how much of it is in use."""
    return reply([shapes.node(view) for view in await desk(request).services.platform.nodes()])
