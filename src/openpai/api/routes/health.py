"""Whether this server can take requests."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from openpai.api.answers import refusal, reply
from openpai.api.context import desk
from openpai.protocol.errors import Unavailable
from openpai.system.supervision import failures

router = APIRouter(tags=["info"])


@router.get("/healthz", responses={503: {"description": "it starts or stops, or its database does not answer"}})
async def healthz(request: Request) -> Response:
    """Return 200 when the server can answer requests, 503 while it cannot or its database does not answer.

    `loopFailures` counts the errors that background work of this server has met and survived; its log has them."""
    services = desk(request).services
    if not services.is_ready():
        return refusal(Unavailable("the server is not ready"))
    await services.check_database()
    return reply({"status": "ok", "loopFailures": sum(failures().values())})
