"""Reports of use: hours of GPUs, CPUs and memory, as JSON or CSV."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal

from fastapi import Query, Request
from pydantic import StringConstraints
from starlette.responses import Response

from openpai.access.accounts import Group
from openpai.access.deciding import clusters_open_to, refusal
from openpai.access.memberships import granting_groups
from openpai.access.model import NOTHING, Thing
from openpai.api.answers import CSV, CSV_HEADERS, Reply, encoded, encoded_list, reply, text, wants_csv
from openpai.api.bodies import invalid
from openpai.api.context import ApiContext, context_of, needs
from openpai.api.routing import Router
from openpai.api.sessions import Caller
from openpai.api.shapes import reports as shapes
from openpai.orchestrator.weekly_reports import weekly_report
from openpai.ports.usage import UseRow
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
    rows = await _rows(context, caller, (from_ms, min(to_ms, max(now_ms, from_ms))), (_names(user), _names(vc)))
    groups = await _groups(context, caller) if "group" in words else lambda _: ("",)
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


async def _rows(
    context: ApiContext, caller: Caller, period: tuple[int, int], filters: tuple[Sequence[str], Sequence[str]]
) -> tuple[UseRow, ...]:
    """Return the requested rows that the caller may see; raise ForbiddenUserError if they may see none."""
    usage, who, (users, virtual_clusters) = context.services.usage, caller.principal, filters
    if period[0] >= period[1]:
        return ()
    if refusal(who, "report.read", NOTHING) is None:
        return await usage.use(*period, users=users, virtual_clusters=virtual_clusters)
    managed = [name for name in sorted(who.managed) if not virtual_clusters or name in virtual_clusters]
    others = [name for name in users if name != who.name]
    if others and not managed:
        caller.check(Thing(label=f"what {others[0]} used"), "report.read")
    found: dict[tuple[str, str, str], UseRow] = {}
    # Use before their account was created belongs to an earlier user of the same name.
    own = max(period[0], who.since_ms), period[1]
    if own[0] < own[1] and (not users or who.name in users):
        for row in await usage.use(*own, users=[who.name], virtual_clusters=virtual_clusters):
            found[row.day, row.user, row.virtual_cluster] = row
    if managed:
        for row in await usage.use(*period, users=users, virtual_clusters=managed):
            found[row.day, row.user, row.virtual_cluster] = row
    return tuple(found[key] for key in sorted(found))


async def _groups(context: ApiContext, caller: Caller) -> Callable[[UseRow], Sequence[str]]:
    """Return the groups of each user; use outside any group counts for ''."""
    of: Mapping[str, Sequence[Group]] = {user.name: user.groups for user in await context.services.users.users()}
    sees_all = refusal(caller.principal, "group.members", NOTHING) is None

    def groups(row: UseRow) -> Sequence[str]:
        mine = of.get(row.user, ())
        if not sees_all and row.user != caller.user:
            # A manager may see only those groups that grant one of their virtual clusters.
            mine = granting_groups(mine, row.virtual_cluster)
        return [group.name for group in mine] or [""]

    return groups
