"""Alerts: what needs attention now."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Final

from fastapi import Request

from openpai.api.answers import Reply, reply
from openpai.api.context import context_of, needs
from openpai.api.routing import Router
from openpai.api.sessions import Caller
from openpai.api.shapes import alerts as shapes
from openpai.ports.queries import JobFilter
from openpai.wire.alerts import Alert

router = Router("alerts")
JOBS_MAX: Final = 1000


@router.serves("GET /api/v2/alerts", "List alerts")
async def list_alerts(request: Request, caller: Annotated[Caller, needs("alert.list")]) -> Reply[list[Alert]]:
    """Return alerts in Alertmanager's shape: all for administrators, those about their own jobs for others.

    They report the present state: nodes that are not ready or are drained, bad GPUs, and jobs that wait for more than
    half an hour, do not begin, or do not end. At most 1,000 jobs are examined, oldest first.
    """
    services = context_of(request).services
    where = JobFilter(phases=shapes.WATCHED, is_ascending=True, limit=JOBS_MAX)
    if not caller.is_admin:
        where = replace(where, users=(caller.user,), submitted_from_ms=caller.principal.since_ms)
    page = await services.jobs.jobs(where, count=False)
    nodes = await services.platform.nodes() if caller.is_admin else ()
    now_ms = services.clock.now_ms()
    return reply([shapes.alert(found, now_ms) for found in shapes.alerts(nodes, page.jobs, now_ms)])
