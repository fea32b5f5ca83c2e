"""One task of a job attempt, with all of its attempts."""

from __future__ import annotations

from typing import Annotated

from fastapi import Request

from openpai.api.answers import Reply, reply
from openpai.api.context import needs
from openpai.api.job_access import job_for
from openpai.api.job_attempts import attempt_of, task_of
from openpai.api.routes.job_attempts import Number
from openpai.api.routing import Router
from openpai.api.sessions import Caller
from openpai.api.shapes.tasks import task_detail
from openpai.wire.tasks import TaskDetail

router = Router("tasks")


@router.serves(
    "GET /api/v2/jobs/{job}/attempts/{number}/taskRoles/{role}/taskIndex/{index}/attempts",
    "Show a task and its attempts",
    "NoJobConfigError",
)
async def list_task_attempts(
    request: Request, caller: Annotated[Caller, needs("job.read")], job: str, number: Number, role: str, index: Number
) -> Reply[TaskDetail]:
    """Return a task with its attempts, newest first."""
    row = await job_for(request, caller, job)
    attempt = await attempt_of(request, caller, row, number)
    return reply(task_detail(row, attempt, await task_of(request, caller, row, number, role, index)))
