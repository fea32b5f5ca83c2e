"""The attempts of a job with their tasks, also in the shape of OpenPAI's older API."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Final

from fastapi import Request
from starlette.responses import Response

from openpai.api.answers import Encoded, LongReply, Reply, encoded, parts_of_list, parts_with, text
from openpai.api.context import context_of, needs
from openpai.api.job_access import job_for, may_read_logs
from openpai.api.job_attempts import Number, attempt_of, earlier_attempts, spec_of, tasks_of
from openpai.api.routing import Router
from openpai.api.sessions import Caller
from openpai.api.shapes import jobs as shapes
from openpai.api.shapes.applications import job_applications
from openpai.api.shapes.job_attempts import AttemptView, current_attempt
from openpai.api.shapes.tasks import TaskHistory, short_task, task_status
from openpai.lifecycle.model import JOB_FINAL
from openpai.ports.platform import NotLeading
from openpai.ports.queries import JobRow
from openpai.protocol.dependencies import dependencies_of
from openpai.protocol.job import JobSpec
from openpai.protocol.placement import placement_of
from openpai.runtime.applications import applications_of
from openpai.wire.applications import JobApplication
from openpai.wire.job_attempts import OldAttempt, ShortTask
from openpai.wire.jobs import JobDetail
from openpai.wire.tasks import TaskStatus

_OLD: Final = "/api/v2/jobs/{job}/job-attempts"
router = Router("jobs")
Reading = Annotated[Caller, needs("job.read")]
TaskShape = Callable[[JobRow, AttemptView, TaskHistory], TaskStatus | ShortTask]


@router.serves("GET /api/v2/jobs/{job}/attempts/{number}", "Show an attempt of a job")
async def get_job_attempt(request: Request, caller: Reading, job: str, number: Number) -> Reply[JobDetail]:
    """Return a job with one of its attempts."""
    row = await job_for(request, caller, job)
    attempt = await attempt_of(request, caller, row, number)
    return await job_document(request, caller, row, attempt)


async def job_document(request: Request, caller: Caller, row: JobRow, attempt: AttemptView) -> LongReply[JobDetail]:
    """Return a job with one of its attempts and its tasks."""
    roles = await _task_roles(request, caller, row, attempt, task_status)
    services = context_of(request).services
    restarts = await services.jobs.events(row.id, reason="Restarted") if row.attempt else ()
    spec = await spec_of(context_of(request), row)
    is_interruptible = await _is_interruptible(request, row, spec)
    use, after = services.platform.progress().get(row.id), dependencies_of(spec, row.user)
    now_ms = services.clock.now_ms()
    document = shapes.detail(
        row, attempt, restarts, now_ms,
        is_interruptible=is_interruptible,
        use=use,
        after=after,
        applications=await _applications(request, row, spec),
    )  # fmt: skip
    return LongReply(parts_with(document, "taskRoles", [roles]))


async def _applications(request: Request, row: JobRow, spec: JobSpec) -> list[JobApplication]:
    """Return the applications of a job; raise NotLeading if another server knows whether they answer."""
    found = applications_of(spec)
    if not found:
        return []
    services = context_of(request).services
    entrance = services.applications()
    if row.phase not in JOB_FINAL:
        try:
            await services.platform.require_leader()
        except NotLeading as error:
            if error.url:
                raise
    return job_applications(row, found, entrance.views(row.id) if entrance is not None else {})


async def _is_interruptible(request: Request, row: JobRow, spec: JobSpec) -> bool:
    """Return whether a job may borrow and be preempted, by its file or else by its virtual cluster."""
    if row.phase in JOB_FINAL:
        return False
    context = context_of(request)
    own = placement_of(spec).is_interruptible
    return row.virtual_cluster in await context.services.platform.interruptible_clusters() if own is None else own


async def _task_roles(request: Request, caller: Caller, row: JobRow, attempt: AttemptView, shape: TaskShape) -> bytes:
    async def compute() -> bytes:
        tasks = await tasks_of(request, caller, row, attempt.number)
        return await _roles(tasks, lambda task: shape(row, attempt, task))

    what = attempt.number, shape.__name__, may_read_logs(caller, row)
    return await context_of(request).task_cache.get(row, what, compute)


async def _roles(tasks: Iterable[TaskHistory], shape: Callable[[TaskHistory], TaskStatus | ShortTask]) -> bytes:
    """Return tasks by role as JSON. Yields to other requests between roles, since there may be thousands of tasks."""
    parts: list[Encoded] = []
    for name, found in shapes.by_role(tasks).items():
        role = parts_with({"taskRoleStatus": {"name": name}}, "taskStatuses", await parts_of_list(found, shape))
        parts += (b"," if parts else b"{", encoded(name), b":", *role)
    return b"".join([*(parts or (b"{",)), b"}"])


@router.serves(f"GET {_OLD}/healthz", "Check whether attempts are kept", media={"text/plain": "ok"}, deprecated=True)
async def check_old_attempts(request: Request, caller: Annotated[Caller, needs("job.list")], job: str) -> Response:
    """Return `ok`: the history of attempts is always available."""
    return text("ok")


@router.serves(f"GET {_OLD}", "List attempts for older clients", "NoJobConfigError", deprecated=True)
async def list_old_attempts(request: Request, caller: Reading, job: str) -> Reply[list[OldAttempt]]:
    """Return every attempt: the newest first, then the earlier ones from the oldest on."""
    row = await job_for(request, caller, job)
    attempts = [current_attempt(row), *await earlier_attempts(request, caller, row)]
    found = [await _old_attempt(request, caller, row, attempt) for attempt in attempts]
    parts = [part for one in found for part in (b",", *one)][1:]
    return LongReply((b"[", *parts, b"]"))


@router.serves(f"GET {_OLD}/{{number}}", "Show an attempt for older clients", "NoJobConfigError", deprecated=True)
async def get_old_attempt(request: Request, caller: Reading, job: str, number: Number) -> Reply[OldAttempt]:
    """Return one attempt."""
    row = await job_for(request, caller, job)
    attempt = await attempt_of(request, caller, row, number)
    return LongReply(await _old_attempt(request, caller, row, attempt))


async def _old_attempt(request: Request, caller: Caller, row: JobRow, attempt: AttemptView) -> list[Encoded]:
    roles = await _task_roles(request, caller, row, attempt, short_task)
    return parts_with(shapes.old_attempt(row, attempt), "taskRoles", [roles])
