"""The events of a job, which jobs changed, why one waits, and how to reach its running tasks by SSH."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Final, Literal

from fastapi import Header, Query, Request
from starlette.responses import StreamingResponse

from openpai.api.answers import LongReply, Reply, encoded_list, reply
from openpai.api.changes import changed_jobs, follow
from openpai.api.context import context_of, needs
from openpai.api.job_access import job_for, split_by_visibility
from openpai.api.job_attempts import ssh_roles, tasks_of
from openpai.api.routing import Router
from openpai.api.services import SshGateway
from openpai.api.sessions import Caller
from openpai.api.shapes import nodes
from openpai.api.shapes.job_events import event, wait
from openpai.api.shapes.tasks import TaskHistory, gateway_address, ssh_address
from openpai.api.shapes.virtual_clusters import amount
from openpai.ports.queries import JobRow
from openpai.protocol.errors import Refused
from openpai.wire.job_events import EventList, JobChanges, JobWaits, SshAddresses, SshGatewayAddress

router = Router("jobs")
HOLDERS_MAX: Final = 100
_EVENT: Final = 'id: 1042\nevent: changes\ndata: {"next":1042,"jobs":["ann~train"],"others":false,"complete":true}\n\n'


@router.serves("GET /api/v2/jobs/{job}/events", "List the events of a job")
async def list_job_events(
    request: Request,
    caller: Annotated[Caller, needs("job.read")],
    job: str,
    kind: Annotated[Literal["Warning", "Normal"] | None, Query(alias="type")] = None,
) -> Reply[EventList]:
    """Return the job's history, newest first."""
    row = await job_for(request, caller, job)
    found = await context_of(request).services.jobs.events(row.id, kind)
    data = await encoded_list(found, event)
    return LongReply((b'{"totalCount":%d,"data":' % len(found), data, b"}"))


@router.serves(
    "GET /api/v2/changes", "List or follow changes of jobs", "TooManyRequestsError", media={"text/event-stream": _EVENT}
)
async def list_changes(
    request: Request,
    caller: Annotated[Caller, needs("job.list")],
    after: Annotated[int | None, Query(ge=0, le=2**53, description="`next` of the last answer")] = None,
    follow_: Annotated[bool, Query(alias="follow", include_in_schema=False)] = False,
    last_event: Annotated[int | None, Header(alias="last-event-id", ge=0, le=2**53, include_in_schema=False)] = None,
) -> Reply[JobChanges] | StreamingResponse:
    """Return which jobs have had events after a number; without one, only the number to begin with.

    With `follow=true` the answer is an endless stream of events `changes`, each with this document; with the header
    Last-Event-ID it continues after that event, also after a restart of the server. The first event of a stream
    without it says that everything may have changed.
    """
    context = context_of(request)
    if not follow_:
        return reply(await changed_jobs(context.services.jobs, caller, after))
    holder = partial(context.sessions.holder, caller.token.digest)
    begin = last_event if last_event is not None else after
    events = await follow(context.changes, context.services, caller, begin, holder)
    # A proxy that buffers answers would delay the stream.
    return StreamingResponse(events, 200, {"X-Accel-Buffering": "no"}, "text/event-stream")


@router.serves("GET /api/v2/jobs/{job}/why", "Show why a job waits")
async def explain_job(request: Request, caller: Annotated[Caller, needs("job.read")], job: str) -> Reply[JobWaits]:
    """Return why the job waits, what would change that, and which jobs hold the resources; empty unless it waits.

    For jobs that the caller may not see, the answer has only their number and size. Of a job that runs it says what the
    job borrows.
    """
    row = await job_for(request, caller, job)
    platform = context_of(request).services.platform
    waits = await platform.why(row.id)
    held = await platform.in_the_way(row.id) if waits else ()
    shown, others = split_by_visibility(caller, held[:HOLDERS_MAX])
    borrowed = amount(await platform.borrowed(row.id))
    return reply(JobWaits(waits=[wait(view) for view in waits], held=nodes.held(shown, others), borrowed=borrowed))


@router.serves("GET /api/v2/jobs/{job}/ssh", "Show how to reach a job's tasks", "NoJobConfigError NoJobSshInfoError")
async def get_job_ssh(request: Request, caller: Annotated[Caller, needs("job.ssh")], job: str) -> Reply[SshAddresses]:
    """Return host, port and command for each running task whose role asks for a port named `ssh`.

    The task runs its own SSH server there. A job without such a role, or without running tasks of it, has none. If
    this server has an SSH gateway, `gateway` has the command for every running task, whatever its image.
    """
    row = await job_for(request, caller, job)
    roles = await ssh_roles(request, row)
    gateway = context_of(request).services.ssh()
    tasks = await tasks_of(request, caller, row, row.attempt) if roles or gateway else []
    addresses = [address for task in tasks if task.role in roles and (address := ssh_address(task)) is not None]
    through = _through(request, gateway, caller, row, tasks) if gateway is not None else []
    if through:
        return reply(SshAddresses(containers=addresses, gateway=through))
    if not addresses:
        advice = "wait until it runs" if roles else "request one: resourcePerInstance.ports: {ssh: 1}"
        message = "no task that runs" if roles else "no task role"
        raise Refused("NoJobSshInfoError", f"job {row.user}~{row.name} has {message} with a port named ssh", advice)
    return reply(SshAddresses(containers=addresses))


def _through(
    request: Request, gateway: SshGateway, caller: Caller, row: JobRow, tasks: Sequence[TaskHistory]
) -> list[SshGatewayAddress]:
    host = request.url.hostname or "localhost"
    found = (gateway_address(task, gateway, host, caller.user, row) for task in tasks)
    return [address for address in found if address is not None]
