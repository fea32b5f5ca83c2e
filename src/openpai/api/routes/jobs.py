"""Jobs: submit, list, show, configuration, delete."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Annotated, Final

from fastapi import Header, Query, Request
from starlette.responses import Response, StreamingResponse

from openpai.api import job_actions
from openpai.api.answers import JSON, YAML, Done, Reply, done, encoded_list, reply, text
from openpai.api.audit import entry_of_submission, is_written
from openpai.api.context import ApiContext, context_of, needs
from openpai.api.job_access import job_for
from openpai.api.legacy_paths import gateway_of
from openpai.api.routes.job_attempts import job_document
from openpai.api.routing import Router
from openpai.api.sessions import Caller
from openpai.api.shapes import jobs as shapes
from openpai.api.shapes.job_attempts import current_attempt
from openpai.api.shapes.job_events import wait
from openpai.api.shapes.job_lists import JobsQuery, cursor_text, page_of
from openpai.orchestrator.submitting import submitter_of
from openpai.ports.platform import Submitter
from openpai.ports.queries import JobFilter, JobPage
from openpai.protocol.errors import Refused
from openpai.protocol.job import LONG_JOB_BYTES
from openpai.protocol.writing import masked_yaml
from openpai.wire import jobs as wire
from openpai.wire.jobs import CheckedJob, JobDetail, JobSummary, Submitted

router = Router("jobs")
PAGE_MAX: Final = 1000
FILE = {"requestBody": {"required": True, "content": {"text/yaml": {"schema": {"type": "string"}}}}}
_LINK: Final = {"Link": 'the next page, as `<address>; rel="next"`, while there are more'}
EXAMPLE: Final = {
    "protocolVersion": 2,
    "name": "train",
    "type": "job",
    "prerequisites": [{"type": "dockerimage", "name": "image", "uri": "python"}],
    "taskRoles": {
        "worker": {
            "instances": 1,
            "dockerImage": "image",
            "resourcePerInstance": {"cpu": 1, "memoryMB": 64, "gpu": 0},
            "commands": ["true"],
        }
    },
}
_NO_JOBS = JobPage((), 0)
IdempotencyKey = Annotated[
    str,
    Header(
        max_length=255,
        pattern=r"^[\x21-\x7e]*$",
        description="Any text: the same file sent again with it, because an answer was lost, makes one job.",
    ),
]
CloneOf = Annotated[
    str,
    Query(
        alias="cloneOf",
        max_length=512,
        pattern=r"^[\w.~-]*$",
        description="One of your jobs, by name or id: `******` in the file stands for the secrets of that job.",
    ),
]


@router.serves(
    "POST /api/v2/jobs",
    "Submit a job",
    "InvalidProtocolError ForbiddenUserError NoEnoughQuotaError NoVirtualClusterError NoStorageError NoCodeError "
    "ConflictJobError",
    status=202,
    takes=FILE,
    example=EXAMPLE,
)
async def submit_job(
    request: Request,
    caller: Annotated[Caller, needs("job.submit")],
    idempotency_key: IdempotencyKey = "",
    clone_of: CloneOf = "",
) -> Reply[Submitted]:
    """Submit a job file, as text of any content type; the job is stored durably before the answer is sent."""
    context = context_of(request)
    text = await request.body()
    by = replace(
        await submitter_for(request, caller, clone_of),
        idempotency_key=idempotency_key,
        audit=entry_of_submission(request, caller, context.services.clock.now_ms()),
    )
    submitted = await context.services.platform.submit(by, text)
    is_written(request)
    return reply(
        Submitted(
            status=202,
            message=f"job {submitted.user}~{submitted.name} was submitted",
            user=submitted.user,
            name=submitted.name,
            id=submitted.job,
            warnings=submitted.warnings,
        ),
        202,
    )


@router.serves(
    "POST /api/v2/jobs/check",
    "Check a job file",
    "InvalidProtocolError ForbiddenUserError NoEnoughQuotaError NoVirtualClusterError NoStorageError",
    takes=FILE,
    example=EXAMPLE,
)
async def check_job_file(
    request: Request, caller: Annotated[Caller, needs("job.submit")], clone_of: CloneOf = ""
) -> Reply[CheckedJob]:
    """Check a job file as a submission would, and submit nothing; the error of a bad file has every fault.

    The answer says whether the job would start now, as things are at this moment, and why it would wait.
    """
    # An editor checks after each change, and nothing changes: that is not for the audit log.
    is_written(request)
    text = await request.body()
    by = await submitter_for(request, caller, clone_of)
    found = await context_of(request).services.platform.check(by, text)
    return reply(
        CheckedJob(
            name=found.name,
            virtualCluster=found.virtual_cluster,
            totalGpuNumber=found.gpus_total,
            warnings=found.warnings,
            waits=None if found.waits is None else [wait(view) for view in found.waits],
        )
    )


async def submitter_for(request: Request, caller: Caller, clone_of: str = "") -> Submitter:
    """Return what the caller who submits a file is allowed."""
    context = context_of(request)
    return replace(
        submitter_of(caller.principal),
        clone_of=clone_of.removeprefix(f"{caller.user}~"),
        quotas=await context.quotas.of(caller.user),
    )


@router.serves("GET /api/v2/jobs", "List jobs", "NoNodeError", headers=_LINK)
async def list_jobs(
    request: Request, caller: Annotated[Caller, needs("job.list")], query: Annotated[JobsQuery, Query()]
) -> Reply[list[JobSummary] | wire.JobPage] | StreamingResponse:
    """Return the jobs of all users that match: an array, or `{totalCount, data}` with `withTotalCount=true`.

    While there are more, the header `Link` has the address of the next page. Each such page costs the same, at any
    depth of the list, and no job appears twice because others were submitted meanwhile.
    """
    context = context_of(request)
    context.lists.take(caller.user)
    where = page_of(query)
    if where is not None and query.node:
        held = await context.services.platform.node_holdings(query.node)
        where = replace(where, ids=tuple(one.job for one in held)) if held else None
    is_counted = query.with_total_count == "true"
    first = replace(where, limit=min(where.limit, PAGE_MAX)) if where else None
    page = _NO_JOBS if first is None else await context.services.jobs.jobs(first, count=is_counted)
    head, tail = (b'{"totalCount":%d,"data":[' % (page.total or 0), b"]}") if is_counted else (b"[", b"]")
    if where is None or where.limit <= PAGE_MAX or page.end is None:
        headers = {} if where is None or page.end is None else _link(request, where, page)
        return Reply(b"%b%b%b" % (head, await _entries(context, page), tail), 200, headers)
    return StreamingResponse(_pages(context, where, page, head, tail), media_type=JSON)


async def _pages(
    context: ApiContext, where: JobFilter, page: JobPage, head: bytes, tail: bytes
) -> AsyncGenerator[bytes, None]:
    """Yield a long answer page by page, so that it neither fills the memory nor delays other requests."""
    yield head
    yield await _entries(context, page)
    left = where.limit - len(page.jobs)
    while page.end is not None and left > 0:
        rest = replace(where, after=page.end, offset=0, limit=min(left, PAGE_MAX))
        page = await context.services.jobs.jobs(rest, count=False)
        left -= len(page.jobs)
        if page.jobs:
            yield b"," + await _entries(context, page)
    yield tail


async def _entries(context: ApiContext, page: JobPage) -> bytes:
    now_ms = context.services.clock.now_ms()
    uses = context.services.platform.progress()
    return (await encoded_list(page.jobs, lambda row: shapes.summary(row, now_ms, uses.get(row.id))))[1:-1]


def _link(request: Request, where: JobFilter, page: JobPage) -> dict[str, str]:
    if page.end is None:
        return {}
    url = request.url.remove_query_params("offset").include_query_params(after=cursor_text(where, page.end))
    return {"Link": f'<{gateway_of(request.scope)}{url.path}?{url.query}>; rel="next"'}


@router.serves("GET /api/v2/jobs/{job}", "Show a job")
async def get_job(request: Request, caller: Annotated[Caller, needs("job.read")], job: str) -> Reply[JobDetail]:
    """Return a job, `user~job` or `job` for one's own, with its newest attempt and every task of it."""
    row = await job_for(request, caller, job)
    attempt = current_attempt(row)
    return await job_document(request, caller, row, attempt)


@router.serves("GET /api/v2/jobs/{job}/config", "Show a job's file", "NoJobConfigError", media={"text/yaml": EXAMPLE})
async def get_job_config(request: Request, caller: Annotated[Caller, needs("job.config")], job: str) -> Response:
    """Return the job file as YAML, with its secrets masked."""
    row = await job_for(request, caller, job)
    content = await context_of(request).services.jobs.config(row.id)
    if content is None:
        raise Refused("NoJobConfigError", f"the file of job {row.user}~{row.name} was not kept")
    is_long = len(content) > LONG_JOB_BYTES
    return text(await asyncio.to_thread(masked_yaml, content) if is_long else masked_yaml(content), YAML)


@router.serves("DELETE /api/v2/jobs/{job}", "Delete a job", "ConflictJobError")
async def delete_job(request: Request, caller: Annotated[Caller, needs("job.delete")], job: str) -> Done:
    """Delete a finished job permanently, with its history and logs; its use remains in the reports."""
    row = await job_for(request, caller, job)
    return done(await job_actions.delete(context_of(request), row))
