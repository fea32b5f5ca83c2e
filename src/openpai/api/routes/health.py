"""Whether this server is alive, and whether jobs can be submitted and run."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import Response

from openpai.api.answers import Reply, refusal, reply
from openpai.api.context import context_of
from openpai.api.routing import Router
from openpai.protocol.errors import Unavailable
from openpai.system.supervision import failures
from openpai.wire.health import Health, Readiness

router = Router("info")


@router.serves("GET /healthz", "Show that this server is alive")
async def get_health() -> Reply[Health]:
    """Return 200 while this server is alive. `GET /readyz` reports whether the rest of the platform is ready.

    `loopFailures` counts the errors that background work of this server has met and survived; its log has them."""
    return reply(Health(status="ok", loopFailures=sum(failures().values())))


@router.serves("GET /readyz", "Show whether jobs can be submitted and run")
async def get_readiness(request: Request) -> Reply[Readiness] | Response:
    """Return 200 when jobs can be submitted and run, else 503 with what is wrong with each part in `message`.

    The parts are the `server`, its `database`, which must take writes and have this version's tables, the `disk`,
    the `leader` that runs the jobs, and the `backend` of the server that leads.
    """
    services = context_of(request).services
    checks = {
        "server": "" if services.is_ready() else "the server is starting or stopping",
        **await services.readiness(),
    }
    if not checks.get("database"):
        try:
            await services.check_database()
        except Unavailable as error:
            checks["database"] = error.message
    missing = [f"{part}: {wrong}" for part, wrong in checks.items() if wrong]
    if missing:
        return refusal(Unavailable("; ".join(missing), "an administrator has to repair the named parts"))
    return reply(Readiness(status="ready", checks=dict.fromkeys(checks, "ok")))
