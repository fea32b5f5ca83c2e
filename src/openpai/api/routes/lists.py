"""Submitting a job, and the list of jobs."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from openpai.api.answers import JSON, encoded_list, reply
from openpai.api.context import desk, doing
from openpai.api.principals import submitter_of
from openpai.api.sessions import Caller
from openpai.api.shapes import jobs as shapes
from openpai.api.shapes.lists import JobsQuery, filter_of
from openpai.ports.store import JobPage

router = APIRouter(tags=["jobs"])
_FILE = {"requestBody": {"required": True, "content": {"text/yaml": {"schema": {"type": "string"}}}}}
_NO_JOBS = JobPage((), 0)


@router.post(
    "/api/v2/jobs",
    status_code=202,
    openapi_extra=_FILE,
    responses={
        400: {"description": "the job file has faults, each named with its line, or it could never run"},
        409: {"description": "there is a job of this name already"},
    },
)
async def submit(request: Request, caller: Annotated[Caller, doing("job.submit")]) -> Response:
    """Submit a job file, as text of any content type; the job is durable once this is answered."""
    submitted = await desk(request).services.platform.submit(submitter_of(caller.principal), await request.body())
    return reply(
        {
            "status": 202,
            "message": f"job {submitted.user}~{submitted.name} was submitted",
            "user": submitted.user,
            "name": submitted.name,
            "warnings": submitted.warnings,
        },
        202,
    )


@router.get("/api/v2/jobs")
async def jobs(
    request: Request, caller: Annotated[Caller, doing("job.list")], query: Annotated[JobsQuery, Query()]
) -> Response:
    """Return everybody's jobs that match: an array, or `{totalCount, data}` with `withTotalCount=true`."""
    here = desk(request)
    here.lists.take(caller.user)
    where = filter_of(query)
    is_counted = query.with_total_count == "true"
    page = _NO_JOBS if where is None else await here.services.jobs.jobs(where, count=is_counted)
    now_ms = here.services.clock.now_ms()
    data = await encoded_list(page.jobs, lambda row: shapes.summary(row, now_ms))
    if is_counted:
        data = b'{"totalCount":%d,"data":%b}' % (page.total or 0, data)
    return Response(data, media_type=JSON)
