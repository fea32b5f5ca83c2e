"""One task of a job attempt, with all of its attempts."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Request
from starlette.responses import Response

from openpai.api.answers import reply
from openpai.api.context import needs
from openpai.api.job_access import job_for
from openpai.api.job_attempts import attempt_of, task_of
from openpai.api.routes.job_attempts import Number
from openpai.api.sessions import Caller
from openpai.api.shapes.tasks import task_detail

router = APIRouter(tags=["tasks"])


@router.get("/api/v2/jobs/{job}/attempts/{number}/taskRoles/{role}/taskIndex/{index}/attempts")
async def task_attempts(
    request: Request,
    caller: Annotated[Caller, needs("job.read")],
    job: str,
    number: Number,
    role: str,
    index: Number,
) -> Response:
    """Return a task with its attempts, newest first."""
    row = await job_for(request, caller, job)
    attempt = await attempt_of(request, caller, row, number)
    return reply(task_detail(row, attempt, await task_of(request, caller, row, number, role, index)))
