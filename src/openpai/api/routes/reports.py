"""Reports of use: hours of GPUs, CPUs and memory, as JSON or CSV."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal

from fastapi import Query, Request
from pydantic import StringConstraints
from starlette.responses import Response

from openpai.access.deciding import clusters_open_to
from openpai.api.answers import CSV, CSV_HEADERS, Reply, encoded, encoded_list, reply, text, wants_csv
from openpai.api.bodies import invalid
from openpai.api.context import context_of, needs
from openpai.api.routing import Router
from openpai.api.sessions import Caller
from openpai.api.shapes import reports as shapes
from openpai.orchestrator.use_reports import groups_for, use_for
from openpai.orchestrator.weekly_reports import weekly_report
from openpai.wire.reports import UsageReport, WeeklyReport

router = Router("reports")
PERIOD_MAX_MS: Final = 3 * 366 * 86_400_000
# For the description only: `moment` gives better messages.
_WHEN: Final[dict[str, Any]] = {"pattern": r"^[0-9-]{1,15}$"}
_CSV: Final = (
    "user,gpuHours,cpuHours,memoryGbHours,taskAttempts,gpuHoursBorrowed,gpuHoursLent,jobsMoved,gpuHoursMoved,"
    "gpuHoursIdle,gpuHoursFailed,gpuHoursPreempted,gpuHoursWasted\r\n"
    "ann,12.5,100,800,3,2.5,0,1,0.5,1.5,0,0.5,2\r\ntotal,12.5,100,800,3,2.5,0,1,0.5,1.5,0,0.5,2\r\n"
)
_Name = Annotated[str, StringConstraints(max_length=255, pattern=r"^[^\x00]*$")]
_Names = Annotated[list[_Name] | None, Query(max_length=100)]


@router.serves("GET /api/v2/reports/use", "Report use", media={"text/csv": _CSV}, headers=CSV_HEADERS)
async def report_use(
    request: Request,
    caller: Annotated[Caller, needs("report.own")],
    from_: Annotated[
        str | None,
        Query(
            alias="from",
            json_schema_extra=_WHEN,
            description="ms or YYYY-MM-DD in UTC; by default the first of the month",
        ),
    ] = None,
    to: Annotated[
        str | None, Query(json_schema_extra=_WHEN, description="ms or YYYY-MM-DD in UTC, not included; by default now")
    ] = None,
    by: Annotated[list[str] | None, Query(max_length=8, description="day, user, group, vc: one or several")] = None,
    user: _Names = None,
    vc: _Names = None,
    format_: Annotated[Literal["json", "csv"] | None, Query(alias="format", description="or by Accept")] = None,
) -> Reply[UsageReport] | Response:
    """Return use in hours: one's own, that of virtual clusters one manages, or for administrators that of all users.

    Running tasks count until now. Use of a user in several groups counts in each group, and once in the total.
    """
    context = context_of(request)
    now_ms = context.services.clock.now_ms()
    from_ms, to_ms = _period(from_, to, now_ms)
    words = shapes.dimensions(by or ("user",))
    usage, period = context.services.usage, (from_ms, min(to_ms, max(now_ms, from_ms)))
    rows = await use_for(caller.principal, usage, period, users=_names(user), virtual_clusters=_names(vc))
    users = await context.services.users.users() if "group" in words else ()
    groups = groups_for(caller.principal, users)
    # A year by day and user is many thousand rows: yield to other requests in between.
    entries = await asyncio.to_thread(shapes.added_up, rows, words, groups)
    total = await asyncio.to_thread(shapes.total, rows)
    if wants_csv(format_, request.headers.get("accept")):
        headers = {"Content-Disposition": 'attachment; filename="use.csv"'}
        return text(await asyncio.to_thread(shapes.report_csv, entries, words, total), CSV, headers)
    head = encoded({"from": from_ms, "to": to_ms, "by": words, "total": total})[:-1]
    return Reply(head + b',"rows":' + await encoded_list(entries, dict) + b"}")


@router.serves("GET /api/v2/reports/weekly", "Preview the weekly report")
async def preview_weekly_report(
    request: Request, caller: Annotated[Caller, needs("report.read")]
) -> Reply[WeeklyReport]:
    """Return the message about the last week to which managers of virtual clusters and administrators may subscribe."""
    services = context_of(request).services
    clusters = clusters_open_to(caller.principal, caller.action, "what virtual clusters used")
    subject, message = await weekly_report(services.usage, tuple(sorted(clusters or ())), services.clock.now_ms())
    return reply({"subject": subject, "text": message})


def _names(given: Sequence[str] | None) -> tuple[str, ...]:
    """Return the given names, in one comma list or in several parameters."""
    return tuple(name for text in given or () for name in text.split(",") if name)


def _period(from_: str | None, to: str | None, now_ms: int) -> tuple[int, int]:
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    first = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    to_ms = shapes.moment(to, "to", now_ms)
    from_ms = shapes.moment(from_, "from", int(first.timestamp() * 1000))
    if from_ms > to_ms:
        raise invalid(f"from, to: the period would end on {_day(to_ms)}, before it begins on {_day(from_ms)}")
    if to_ms - from_ms > PERIOD_MAX_MS:
        raise invalid(f"from, to: from {_day(from_ms)} to {_day(to_ms)} are more than three years")
    return from_ms, to_ms


def _day(at_ms: int) -> str:
    return shapes.day(at_ms) or f"{at_ms} ms"
