"""The files that the tasks of a job left in their working directories, while they are kept."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request
from starlette.responses import StreamingResponse

from openpai.api.answers import Reply, reply
from openpai.api.context import context_of, needs
from openpai.api.job_access import job_for
from openpai.api.job_attempts import attempt_of, task_attempt_of
from openpai.api.routes.job_attempts import Number
from openpai.api.routing import Router
from openpai.api.sessions import Caller
from openpai.lifecycle.model import TaskId
from openpai.ports.kept_work import KeptAttempt
from openpai.protocol.errors import Refused
from openpai.wire.kept_work import KeptFiles, KeptTaskFiles

router = Router("tasks")
TAR = "application/x-tar"


@router.serves("GET /api/v2/jobs/{job}/work", "List what tasks left in their working directories")
async def list_kept_work(request: Request, caller: Annotated[Caller, needs("job.logs")], job: str) -> Reply[KeptFiles]:
    """Return which files are kept that tasks of a job left in their working directories."""
    row = await job_for(request, caller, job)
    kept = context_of(request).services.work
    found = await kept.of_job(row.id) if kept is not None else ()
    return reply({"kept": [_document(one) for one in found]})


@router.serves(
    "GET /api/v2/jobs/{job}/attempts/{number}/taskRoles/{role}/taskIndex/{index}/attempts/{attempt}/work",
    "Fetch what a task left in its working directory",
    "NoJobConfigError NoTaskLogError NoFileError",
    media={"application/x-tar": "(a tar archive)"},
)
async def get_kept_work(
    request: Request,
    caller: Annotated[Caller, needs("job.logs")],
    job: str,
    number: Number,
    role: str,
    index: Number,
    attempt: Number,
    path: Annotated[list[str] | None, Query(description="Only files at or below these paths.", max_length=100)] = None,
) -> StreamingResponse:
    """Return the files that a task attempt left in its working directory, as a tar archive."""
    row = await job_for(request, caller, job)
    await attempt_of(request, caller, row, number)
    found = await task_attempt_of(request, caller, row, number, TaskId(role, index), attempt)
    kept = context_of(request).services.work
    if kept is None:
        raise Refused("NoFileError", "this server keeps no working directories", "have tasks write to a storage")
    return StreamingResponse(await kept.archive(found.key, path or ()), media_type=TAR)


def _document(kept: KeptAttempt) -> KeptTaskFiles:
    return {
        "jobAttemptId": kept.key.job_attempt,
        "taskRoleName": kept.key.role,
        "taskIndex": kept.key.index,
        "attemptId": kept.key.task_attempt,
        "files": kept.files,
        "bytes": kept.bytes,
        "isCounted": kept.is_counted,
        "keptUntil": kept.kept_until_ms,
    }
