"""The tasks of a job: one with all of its attempts, and the files that tasks left in their working directories."""

from __future__ import annotations

from typing import Annotated, Final
from urllib.parse import quote

from fastapi import Depends, Query, Request
from pydantic import Field
from starlette.responses import StreamingResponse

from openpai.api.answers import Reply, reply
from openpai.api.context import context_of, needs
from openpai.api.job_access import job_for
from openpai.api.job_attempts import TASK, Number, TaskAttemptPath, attempt_of, spec_of, task_of
from openpai.api.routing import Router
from openpai.api.sessions import Caller
from openpai.api.shapes.tasks import kept_files, task_detail, task_use
from openpai.protocol.errors import Refused
from openpai.protocol.outputs import OUTPUT_LENGTH_MAX, outputs_of
from openpai.wire.tasks import JobUse, KeptFiles, TaskDetail

router = Router("tasks")
TAR: Final = "application/x-tar"
TAR_GZ: Final = "application/gzip"
Entry = Annotated[str, Field(max_length=OUTPUT_LENGTH_MAX)]
# So many fit into an address; a pattern says more.
_ENTRIES_MAX: Final = 20
_EVERYTHING: Final = "All files, also those that the job does not name as outputs."
_PATHS: Final = "Only files at or below these paths, which may be patterns (`*`, `?`, `**`)."


@router.serves(f"GET {TASK}", "Show a task and its attempts", "NoJobConfigError")
async def list_task_attempts(
    request: Request, caller: Annotated[Caller, needs("job.read")], job: str, number: Number, role: str, index: Number
) -> Reply[TaskDetail]:
    """Return a task with its attempts, newest first."""
    row = await job_for(request, caller, job)
    attempt = await attempt_of(request, caller, row, number)
    return reply(task_detail(row, attempt, await task_of(request, caller, row, number, role, index)))


@router.serves("GET /api/v2/jobs/{job}/usage", "Show what the running tasks of a job use")
async def get_job_usage(request: Request, caller: Annotated[Caller, needs("job.read")], job: str) -> Reply[JobUse]:
    """Return the processors, memory, disks, network and GPUs that the running tasks of a job use, as measured last.

    Tasks are measured every five seconds, on machines with very many tasks less often. A task that has just started,
    and one on a backend that measures nothing, is not in the answer.
    """
    row = await job_for(request, caller, job)
    context = context_of(request)
    spec = await spec_of(context, row)
    places = {role.name: number for number, role in enumerate(spec.task_roles)}
    uses = await context.services.platform.task_use(row.id)
    found = sorted(uses, key=lambda use: (places.get(use.sample.key.role, len(places)), use.sample.key.index))
    return reply(JobUse(tasks=[task_use(use, spec) for use in found]))


@router.serves("GET /api/v2/jobs/{job}/work", "List what tasks left in their working directories")
async def list_kept_work(request: Request, caller: Annotated[Caller, needs("job.logs")], job: str) -> Reply[KeptFiles]:
    """Return which files are kept that tasks of a job left in their working directories."""
    row = await job_for(request, caller, job)
    services = context_of(request).services
    await services.find_work()
    kept = services.work
    found = await kept.of_job(row.id) if kept is not None else ()
    return reply({"kept": [kept_files(one) for one in found]})


@router.serves(
    "GET /api/v2/jobs/{job}/work/archive",
    "Fetch what the tasks of a job left in their working directories",
    "NoFileError InvalidParametersError",
    media={TAR_GZ: "(a compressed tar archive)"},
)
async def get_work_archive(
    request: Request,
    caller: Annotated[Caller, needs("job.logs")],
    job: str,
    path: Annotated[list[Entry] | None, Query(description=_PATHS, max_length=_ENTRIES_MAX)] = None,
    everything: Annotated[bool, Query(alias="all", description=_EVERYTHING)] = False,
    role: Annotated[str, Query(description="Only tasks of this task role.", max_length=255)] = "",
    index: Annotated[int | None, Query(description="Only this task of the role.", ge=0)] = None,
    attempt: Annotated[
        int | None, Query(description="Attempt of the job; each task's newest if not given.", ge=0)
    ] = None,
) -> StreamingResponse:
    """Return the files that the tasks of a job left, as one tar.gz archive: several tasks have a directory each.

    Without a path, of a job with `extras.outputs` those are returned. Of each task the newest attempt counts.
    """
    row = await job_for(request, caller, job)
    context = context_of(request)
    await context.services.find_work()
    kept = context.services.work
    found = [each.key for each in await kept.of_job(row.id)] if kept is not None else []
    newest = {
        key.task: key
        for key in found
        if role in ("", key.role) and index in (None, key.index) and attempt in (None, key.job_attempt)
    }
    if kept is None or not newest:
        message = f"no files are kept that these tasks of job {row.user}~{row.name} left"
        raise Refused("NoFileError", message, "files are kept for a day by default; write what must last to a storage")
    wanted = path or (() if everything else outputs_of((await spec_of(context, row)).extras))
    is_one = len(newest) == 1
    tasks = {"" if is_one else f"{key.role}-{key.index}": key for key in newest.values()}
    name = quote(f"{row.name}.tar.gz")
    headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{name}"}
    return StreamingResponse(await kept.archive_of(tasks, wanted), media_type=TAR_GZ, headers=headers)


@router.serves(
    f"GET {TASK}/{{attempt}}/work",
    "Fetch what a task left in its working directory",
    "NoJobConfigError NoTaskLogError NoFileError",
    media={TAR: "(a tar archive)"},
)
async def get_kept_work(
    request: Request,
    caller: Annotated[Caller, needs("job.logs")],
    place: Annotated[TaskAttemptPath, Depends()],
    path: Annotated[list[Entry] | None, Query(description=_PATHS, max_length=_ENTRIES_MAX)] = None,
    everything: Annotated[bool, Query(alias="all", description=_EVERYTHING)] = False,
) -> StreamingResponse:
    """Return the files that a task attempt left in its working directory, as a tar archive.

    Without a path, of a job with `extras.outputs` those are returned.
    """
    row, found = await place.find(request, caller)
    context = context_of(request)
    await context.services.find_work()
    kept = context.services.work
    if kept is None:
        raise Refused("NoFileError", "this server keeps no working directories", "have tasks write to a storage")
    wanted = path or (() if everything else outputs_of((await spec_of(context, row)).extras))
    return StreamingResponse(await kept.archive(found.key, wanted), media_type=TAR)
