"""One job: what it is, what it does, and the wishes its owner may have."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Path, Query, Request
from pydantic import Field
from starlette.responses import Response

from openpai.api import job_actions
from openpai.api.access import job_for, may_read_logs, seen_by
from openpai.api.answers import JSON, YAML, done, encoded, encoded_list, encoded_with, reply, text
from openpai.api.bodies import Body, read_body, takes
from openpai.api.context import context_of, doing
from openpai.api.histories import attempt_of, earlier_attempts, ssh_roles, tasks_of
from openpai.api.sessions import Caller
from openpai.api.shapes import jobs as shapes
from openpai.api.shapes import nodes
from openpai.api.shapes.attempts import AttemptView, current_attempt
from openpai.api.shapes.events import event
from openpai.api.shapes.nodes import wait
from openpai.api.shapes.tasks import TaskHistory, short_task, ssh_address, task_status
from openpai.ports.queries import JobRow
from openpai.protocol.errors import Refused
from openpai.protocol.reading import LONG_JOB_BYTES
from openpai.protocol.writing import masked_yaml
from openpai.wire.attempts import ShortTask
from openpai.wire.jobs import JobWaits, SshAddresses
from openpai.wire.tasks import TaskStatus

router = APIRouter(tags=["jobs"])
HOLDERS_MAX: Final = 100
NO_CONTROLS = r"^[^\x00-\x1f\x7f]*$"
TaskShape = Callable[[JobRow, AttemptView, TaskHistory], TaskStatus | ShortTask]
Number = Annotated[int, Path(ge=0, le=2**31 - 1)]


class Execution(Body):
    """Whether the job shall run."""

    value: Literal["START", "STOP", "RESTART"]
    force: bool = Field(False, description="With STOP: kill its tasks at once, without a grace period.")
    reason: str = Field("", max_length=500, pattern=NO_CONTROLS, description="Why, for the job's owner.")

    @property
    def action(self) -> str:
        """Return what is done to the job."""
        return "kill" if self.force and self.value == "STOP" else self.value.lower()


class Tag(Body):
    """A word to find the job by."""

    value: str = Field(min_length=1, max_length=255, pattern=r"^[^,\x00-\x1f]+$")


@router.get("/api/v2/jobs/{job}")
async def job_detail(request: Request, caller: Annotated[Caller, doing("job.read")], job: str) -> Response:
    """Return a job, `user~job` or `job` for one's own, with its newest attempt and every task of it."""
    row = await job_for(request, caller, job)
    attempt = current_attempt(row)
    return Response(await _detail(request, caller, row, attempt), media_type=JSON)


@router.get("/api/v2/jobs/{job}/attempts/{number}")
async def attempt_detail(
    request: Request, caller: Annotated[Caller, doing("job.read")], job: str, number: Number
) -> Response:
    """Return a job with one of its attempts."""
    row = await job_for(request, caller, job)
    attempt = await attempt_of(request, caller, row, number)
    return Response(await _detail(request, caller, row, attempt), media_type=JSON)


async def _detail(request: Request, caller: Caller, row: JobRow, attempt: AttemptView) -> bytes:
    roles = await _told_roles(request, caller, row, attempt, task_status)
    services = context_of(request).services
    restarts = await services.jobs.events(row.id, reason="Restarted") if row.attempt else ()
    document = shapes.detail(row, attempt, restarts, services.clock.now_ms())
    return encoded_with(document, "taskRoles", roles)


async def _told_roles(request: Request, caller: Caller, row: JobRow, attempt: AttemptView, shape: TaskShape) -> bytes:
    async def tell() -> bytes:
        tasks = await tasks_of(request, caller, row, attempt.number)
        return await _roles(tasks, lambda task: shape(row, attempt, task))

    what = attempt.number, shape.__name__, may_read_logs(caller, row)
    return await context_of(request).large_jobs.describe(row, what, tell)


async def _roles(tasks: Iterable[TaskHistory], shape: Callable[[TaskHistory], TaskStatus | ShortTask]) -> bytes:
    """Return tasks by role as JSON. There may be thousands of them: others have their turn in between."""
    roles = []
    for name, found in shapes.by_role(tasks).items():
        role = {"taskRoleStatus": {"name": name}}
        roles.append(b"%b:%b" % (encoded(name), encoded_with(role, "taskStatuses", await encoded_list(found, shape))))
    return b"{%b}" % b",".join(roles)


@router.put("/api/v2/jobs/{job}/executionType", status_code=202, openapi_extra=takes(Execution))
async def set_execution(request: Request, caller: Annotated[Caller, doing("job.stop")], job: str) -> Response:
    """Stop a job, start one that is over again as a new attempt, or restart one, whether it runs or is over."""
    body = await read_body(request, Execution)
    row = await job_for(request, caller, job)
    return done(await job_actions.DEEDS[body.action].do(context_of(request), row, caller.user, body.reason), 202)


@router.get("/api/v2/jobs/{job}/config")
async def config(request: Request, caller: Annotated[Caller, doing("job.config")], job: str) -> Response:
    """Return the job file as YAML, its secrets masked."""
    row = await job_for(request, caller, job)
    content = await context_of(request).services.jobs.config(row.id)
    if content is None:
        raise Refused("NoJobConfigError", f"the file of job {row.user}~{row.name} was not kept")
    is_long = len(content) > LONG_JOB_BYTES
    return text(await asyncio.to_thread(masked_yaml, content) if is_long else masked_yaml(content), YAML)


@router.get("/api/v2/jobs/{job}/events")
async def events(
    request: Request,
    caller: Annotated[Caller, doing("job.read")],
    job: str,
    kind: Annotated[Literal["Warning", "Normal"] | None, Query(alias="type")] = None,
) -> Response:
    """Return the job's history, newest first."""
    row = await job_for(request, caller, job)
    found = await context_of(request).services.jobs.events(row.id, kind)
    data = await encoded_list(found, event)
    return Response(b'{"totalCount":%d,"data":%b}' % (len(found), data), media_type="application/json")


@router.get("/api/v2/jobs/{job}/why")
async def why(request: Request, caller: Annotated[Caller, doing("job.read")], job: str) -> Response:
    """Return why the job waits, what would change that, and which jobs hold the room; empty when nothing of it waits.

    Of jobs that the caller may not look at only their number and size are told.
    """
    row = await job_for(request, caller, job)
    # The name of an archived job may be another's by now; and what is over does not wait.
    context = context_of(request).services.platform
    waits = () if row.archived_at_ms is not None else await context.why(row.user, row.name)
    held = await context.in_the_way(row.user, row.name) if waits else ()
    shown, others = seen_by(caller, held[:HOLDERS_MAX])
    return reply(JobWaits(waits=[wait(view) for view in waits], held=nodes.held(shown, others)))


@router.get("/api/v2/jobs/{job}/ssh")
async def ssh(request: Request, caller: Annotated[Caller, doing("job.ssh")], job: str) -> Response:
    """Return host, port and command for each running task whose role asks for a port named `ssh`.

    What listens there is the task's own server; a job without such a role, or none of it running, has none.
    """
    row = await job_for(request, caller, job)
    roles = await ssh_roles(request, row)
    tasks = await tasks_of(request, caller, row, row.attempt) if roles else []
    addresses = [address for task in tasks if task.role in roles and (address := ssh_address(task)) is not None]
    if not addresses:
        advice = "wait until it runs" if roles else "ask for one: resourcePerInstance.ports: {ssh: 1}"
        message = "no task that runs" if roles else "no task role"
        raise Refused("NoJobSshInfoError", f"job {row.user}~{row.name} has {message} with a port named ssh", advice)
    return reply(SshAddresses(containers=addresses))


@router.put("/api/v2/jobs/{job}/tag", openapi_extra=takes(Tag))
async def set_tag(request: Request, caller: Annotated[Caller, doing("job.tag")], job: str) -> Response:
    """Put a tag on a job; harmless when it is there."""
    word = (await read_body(request, Tag)).value
    row = await job_for(request, caller, job)
    return done(await job_actions.tag(context_of(request), row, caller.user, word))


@router.delete("/api/v2/jobs/{job}/tag", openapi_extra=takes(Tag))
async def remove_tag(request: Request, caller: Annotated[Caller, doing("job.tag")], job: str) -> Response:
    """Take a tag off a job."""
    word = (await read_body(request, Tag)).value
    row = await job_for(request, caller, job)
    return done(await job_actions.untag(context_of(request), row, caller.user, word))


@router.put("/api/v2/jobs/{job}/archive")
async def archive(request: Request, caller: Annotated[Caller, doing("job.archive")], job: str) -> Response:
    """Put a finished job away: it leaves the list, its name is free, and it is reached by its id."""
    row = await job_for(request, caller, job)
    return done(await job_actions.archive(context_of(request), row))


@router.delete("/api/v2/jobs/{job}/archive")
async def unarchive(request: Request, caller: Annotated[Caller, doing("job.archive")], job: str) -> Response:
    """Take a job, named by its id, out of the archive; refused when its name is another job's by now."""
    row = await job_for(request, caller, job)
    return done(await job_actions.unarchive(context_of(request), row))


@router.delete("/api/v2/jobs/{job}")
async def delete(request: Request, caller: Annotated[Caller, doing("job.delete")], job: str) -> Response:
    """Delete a finished job for good, with its history and its logs; what it used stays in the accounts."""
    row = await job_for(request, caller, job)
    return done(await job_actions.delete(context_of(request), row))


@router.get("/api/v2/jobs/{job}/job-attempts/healthz", deprecated=True)
async def old_attempts_health(request: Request, caller: Annotated[Caller, doing("job.list")], job: str) -> Response:
    """Return `ok`: attempts are always kept."""
    return text("ok")


@router.get("/api/v2/jobs/{job}/job-attempts", deprecated=True)
async def old_attempts(request: Request, caller: Annotated[Caller, doing("job.read")], job: str) -> Response:
    """Return every attempt, the newest first and then the earlier ones in order."""
    row = await job_for(request, caller, job)
    attempts = [current_attempt(row), *await earlier_attempts(request, caller, row)]
    found = [await _old_attempt(request, caller, row, attempt) for attempt in attempts]
    return Response(b"[%b]" % b",".join(found), media_type=JSON)


@router.get("/api/v2/jobs/{job}/job-attempts/{number}", deprecated=True)
async def old_attempt(
    request: Request, caller: Annotated[Caller, doing("job.read")], job: str, number: Number
) -> Response:
    """Return one attempt."""
    row = await job_for(request, caller, job)
    attempt = await attempt_of(request, caller, row, number)
    return Response(await _old_attempt(request, caller, row, attempt), media_type=JSON)


async def _old_attempt(request: Request, caller: Caller, row: JobRow, attempt: AttemptView) -> bytes:
    roles = await _told_roles(request, caller, row, attempt, short_task)
    return encoded_with(shapes.old_attempt(row, attempt), "taskRoles", roles)
