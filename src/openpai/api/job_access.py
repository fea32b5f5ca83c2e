"""Find the job that a path names, and check what the caller may do to it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from fastapi import Request

from openpai.access.deciding import refusal
from openpai.access.model import Scope, thing_of
from openpai.access.table import ACTIONS
from openpai.api.audit import about
from openpai.api.context import ApiContext, context_of
from openpai.api.sessions import Caller
from openpai.lifecycle.model import Diagnosis
from openpai.ports.platform import Holding
from openpai.ports.queries import JobFilter, JobRow, TaskAttemptRow
from openpai.ports.queues import QueuedJob
from openpai.protocol.errors import Refused
from openpai.protocol.job import owner_and_job

_NAME: Final = re.compile(r"[\w.~-]{1,255}")
_ID: Final = re.compile(r"[0-9a-f]{32}")


def no_job(name: str) -> Refused:
    """Return the error for a job that does not exist."""
    return Refused("NoJobError", f"there is no job {name!r}", "`pai job list` shows the jobs there are")


async def job_for(request: Request, caller: Caller, name: str) -> JobRow:
    """Return the job a path names; raise NoJobError, or ForbiddenUserError if the caller may not do the action.

    A name is `user~job`, `job` for the caller's own job, or an id, the only name of an archived job. Lines quoted
    from the log are left out for callers who may not read the log.
    """
    row = await find_job(context_of(request), caller, name)
    about(request, target=row.full_name, owner=row.user)
    check_job(caller, row)
    return row if may_read_logs(caller, row) else _without_log_line(row)


async def find_job(context: ApiContext, caller: Caller, name: str) -> JobRow:
    """Return the job that `user~job`, `job` or an id names; raise NoJobError. Checks no permission."""
    user, job = owner_and_job(name, caller.user)
    if not _NAME.fullmatch(user) or not _NAME.fullmatch(job):
        raise no_job(name)
    row = await context.services.jobs.job(user, job)
    if row is None and _ID.fullmatch(name):
        row = await context.services.jobs.job_of_id(name)
    if row is None:
        raise await _no_job_but(context, caller, user, job) or no_job(name)
    return row


async def _no_job_but(context: ApiContext, caller: Caller, user: str, job: str) -> Refused | None:
    """Return the error for the name of a sweep, if the caller has one of this name."""
    if user != caller.user:
        return None
    found = await context.services.jobs.jobs(JobFilter(users=(user,), sweeps=(job,), limit=1), count=False)
    if not found.jobs:
        return None
    advice = f"`pai sweep show {job}` shows its jobs; for all of them, add --where sweep={job} to a command of jobs"
    return Refused("NoJobError", f"{user}~{job} is a sweep and no job", advice)


def check_job(caller: Caller, row: JobRow, action: str | None = None) -> None:
    """Raise ForbiddenUserError if the caller may not do the action of the route, or `action`, to a job."""
    caller.check(thing_of(row, row.name), action)
    rule = ACTIONS[action or caller.action]
    if row.archived_at_ms is not None and rule.scope is not Scope.READ and not rule.reaches_archived:
        message = f"job {row.user}~{row.name} ({row.id}) is archived"
        raise Refused("ReadOnlyJobError", message, "take it out of the archive first: pai job unarchive")


def may_read_logs(caller: Caller, row: JobRow) -> bool:
    """Return whether the caller may read the logs of a job."""
    return refusal(caller.principal, "job.logs", thing_of(row)) is None


def split_by_visibility(caller: Caller, held: Sequence[Holding]) -> tuple[list[Holding], list[Holding]]:
    """Return the holdings of jobs that the caller may see, and those of other jobs."""
    shown: list[Holding] = []
    others: list[Holding] = []
    for one in held:
        (shown if refusal(caller.principal, "job.read", thing_of(one)) is None else others).append(one)
    return shown, others


def visible_attempts(caller: Caller, row: JobRow, attempts: tuple[TaskAttemptRow, ...]) -> tuple[TaskAttemptRow, ...]:
    """Return task attempts as the caller may see them, without quotes from a log that they may not read."""
    if may_read_logs(caller, row):
        return attempts
    return tuple(replace(attempt, diagnosis=without_log_line(attempt.diagnosis)) for attempt in attempts)


def rights_in_queue(caller: Caller, one: QueuedJob) -> tuple[bool, bool]:
    """Return whether the caller may see a job that waits, and whether they may move it."""
    thing = thing_of(one)
    may_see, may_move = (refusal(caller.principal, action, thing) is None for action in ("job.read", "job.rank"))
    return may_see, may_see and may_move and one.is_movable


def without_log_line(diagnosis: Diagnosis | None) -> Diagnosis | None:
    """Return a diagnosis without the lines of the log that led to it."""
    return replace(diagnosis, matched="", lines=()) if diagnosis is not None and diagnosis.matched else diagnosis


def _without_log_line(row: JobRow) -> JobRow:
    if row.outcome is None:
        return row
    return replace(row, outcome=replace(row.outcome, diagnosis=without_log_line(row.outcome.diagnosis)))
