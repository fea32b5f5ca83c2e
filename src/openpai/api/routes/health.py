"""Whether this server can take requests."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from openpai.api.answers import refusal, reply
from openpai.api.context import desk
from openpai.protocol.errors import Unavailable

router = APIRouter(tags=["info"])


@router.get("/healthz", responses={503: {"description": "it is starting or stopping"}})
async def healthz(request: Request) -> Response:
    """Return 200 when the server is ready, 503 while it is not."""
    if not desk(request).services.is_ready():
        return refusal(Unavailable("the server is not ready"), {"Retry-After": "1"})
    return reply({"status": "ok"})
