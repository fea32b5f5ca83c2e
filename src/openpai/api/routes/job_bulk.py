"""Actions on many jobs at once, with a result for each."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated, Final, Literal

from fastapi import Request
from pydantic import Field, model_validator

from openpai.api.answers import Reply, reply
from openpai.api.audit import about_each
from openpai.api.bodies import Body, read_body
from openpai.api.context import ApiContext, context_of, needs
from openpai.api.job_access import check_job, find_job
from openpai.api.job_actions import JOB_ACTIONS
from openpai.api.routing import Router
from openpai.api.sessions import Caller
from openpai.api.shapes.job_lists import JobsWhere, filter_of
from openpai.lifecycle.model import JOB_FINAL, JobPhase
from openpai.ports.queries import JobFilter, JobRow
from openpai.protocol.errors import PaiError, Refused, Unavailable
from openpai.wire.jobs import BulkResult, BulkResults

router = Router("jobs")
JOBS_MAX: Final = 1000
_AT_ONCE: Final = 32
_OVER: Final = tuple(phase.value for phase in JOB_FINAL)
_ENDING: Final = JobPhase.ENDING.value
_CHANGED: Final = {
    "stop": tuple(phase.value for phase in JobPhase if phase not in JOB_FINAL),
    "kill": tuple(phase.value for phase in JobPhase if phase not in JOB_FINAL),
    "start": (*_OVER, _ENDING),
}


class Bulk(Body, example={"action": "stop", "jobs": ["a"]}):
    """An action, and the jobs: either named, or all that match."""

    action: Literal["stop", "kill", "start", "restart", "tag", "untag", "archive", "unarchive", "delete"]
    jobs: list[Annotated[str, Field(min_length=1, max_length=511)]] | None = Field(
        None, min_length=1, max_length=JOBS_MAX, description="Names (`user~job`, or `job` for one's own) or ids."
    )
    where: JobsWhere | None = Field(
        None,
        description="Filters as of the list, at least one; without `username`, one's own jobs only. Jobs that are "
        "in the desired state already are skipped.",
    )
    tag: str | None = Field(None, min_length=1, max_length=255, pattern=r"^[^,\x00-\x1f]+$", description="For (un)tag.")
    reason: str = Field(
        "",
        max_length=500,
        pattern=r"^[^\x00-\x1f\x7f]*$",
        description="For stop, kill, start and restart: a reason for the owners.",
    )

    @model_validator(mode="after")
    def _is_clear(self) -> Bulk:
        if (self.jobs is None) == (self.where is None):
            raise ValueError("give either `jobs` or `where`")
        if self.where is not None and not self.where.model_fields_set:
            raise ValueError("`where` needs at least one filter")
        if (self.tag is not None) != (self.action in ("tag", "untag")):
            raise ValueError("`tag` goes with the actions tag and untag")
        return self


@dataclass(frozen=True, slots=True)
class _Target:
    """A job by the name that was given, and the job found by it."""

    name: str
    row: JobRow | None = None


@router.serves(
    "POST /api/v2/jobs/bulk",
    "Act on many jobs",
    takes=Bulk,
    success="the result for each job; `more` counts matching jobs beyond the first 1,000",
)
async def change_jobs(request: Request, caller: Annotated[Caller, needs("job.stop")]) -> Reply[BulkResults]:
    """Perform one action, such as stop, restart, tag or delete, on up to 1,000 jobs, and return the result for each.

    Each job is checked as in a request of its own, and a failure does not affect the others.
    """
    body = await read_body(request, Bulk)
    action = JOB_ACTIONS[body.action]
    # The audit log names the jobs that were really changed.
    caller = request.state.caller = replace(caller, action=action.action)
    context = context_of(request)
    targets, more = await _targets(context, caller, body)
    turn = asyncio.Semaphore(_AT_ONCE)

    async def one(target: _Target) -> BulkResult:
        async with turn:
            return await _done(context, caller, body, target)

    results = await asyncio.gather(*(one(target) for target in targets))
    about_each(request, [(result["job"], result["status"]) for result in results])
    failed = sum(result["status"] >= 400 for result in results)
    return reply(BulkResults(done=len(results) - failed, failed=failed, more=more, results=results))


async def _targets(context: ApiContext, caller: Caller, body: Bulk) -> tuple[Iterable[_Target], int]:
    if body.where is None:
        return [_Target(name) for name in dict.fromkeys(body.jobs or ())], 0
    where = filter_of(body.where)
    if where is None:
        return [], 0
    if not where.users and not caller.is_admin:
        where = replace(where, users=(caller.user,))
    where = _narrowed(where, body)
    if where is None:
        return [], 0
    where = replace(where, limit=JOBS_MAX, is_archived=where.is_archived or body.action == "unarchive")
    page = await context.services.jobs.jobs(where, count=True)
    return [_Target(row.full_name, row) for row in page.jobs], max((page.total or 0) - len(page.jobs), 0)


def _narrowed(where: JobFilter, body: Bulk) -> JobFilter | None:
    """Skip jobs that need no change, so that a second request reaches the next ones; None if no others are left."""
    phases = _CHANGED.get(body.action)
    if phases is not None:
        left = tuple(phase for phase in where.phases or phases if phase in phases)
        return replace(where, phases=left) if left else None
    if body.action == "tag" and body.tag:
        return replace(where, tags_none=(*where.tags_none, body.tag))
    if body.action == "untag" and body.tag and not where.tags_any:
        return replace(where, tags_any=(body.tag,))
    return where


async def _done(context: ApiContext, caller: Caller, body: Bulk, target: _Target) -> BulkResult:
    action = JOB_ACTIONS[body.action]
    try:
        row = target.row or await find_job(context, caller, target.name)
        check_job(caller, row, action.action)
        message = await action.do(context, row, caller.user, body.tag or body.reason)
    except (Refused, Unavailable) as error:
        return _result(target, error)
    return {"job": row.full_name, "id": row.id, "status": 200, "message": message}


def _result(target: _Target, error: PaiError) -> BulkResult:
    result: BulkResult = {
        "job": target.name,
        "id": target.row.id if target.row else None,
        "status": error.status,
        "code": error.code,
        "message": error.message,
    }
    if error.advice:
        result["advice"] = error.advice
    return result
