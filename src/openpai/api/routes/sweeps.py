"""Sweeps: many jobs of one file, submitted together and seen as one. They are stopped as many jobs are."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Annotated, Final

from fastapi import Request

from openpai.access.deciding import refusal
from openpai.access.model import thing_of
from openpai.api.answers import Reply, reply
from openpai.api.audit import about, entry_of_submission, is_written
from openpai.api.context import ApiContext, context_of, needs
from openpai.api.job_access import check_job
from openpai.api.routes.jobs import EXAMPLE, FILE, IdempotencyKey, submitter_for
from openpai.api.routing import Router
from openpai.api.sessions import Caller
from openpai.api.shapes.jobs import summary
from openpai.ports.queries import JobFilter, JobRow
from openpai.protocol.errors import Refused
from openpai.protocol.job import owner_and_job
from openpai.protocol.sweeps import SWEEP_JOBS_MAX, Membership, membership_of
from openpai.wire.sweeps import SubmittedSweep, Sweep, SweepJob

router = Router("sweeps")
_EXAMPLE: Final = {
    **EXAMPLE,
    "parameters": {"lr": 0.1},
    "extras": {"sweep": {"matrix": {"lr": [0.1, 0.01]}, "maxRunning": 1}},
}


@router.serves(
    "POST /api/v2/sweeps",
    "Submit a sweep",
    "InvalidProtocolError ForbiddenUserError NoEnoughQuotaError NoVirtualClusterError NoStorageError NoCodeError "
    "ConflictJobError NoJobError",
    status=202,
    takes=FILE,
    example=_EXAMPLE,
)
async def submit_sweep(
    request: Request, caller: Annotated[Caller, needs("job.submit")], idempotency_key: IdempotencyKey = ""
) -> Reply[SubmittedSweep]:
    """Submit a job for each combination of the parameters in `extras.sweep.matrix`: all of them, or none.

    The jobs are named NAME-1, NAME-2 and so on. With `maxRunning`, the others are held until some have ended.
    """
    context = context_of(request)
    text = await request.body()
    by = replace(
        await submitter_for(request, caller),
        idempotency_key=idempotency_key,
        audit=entry_of_submission(request, caller, context.services.clock.now_ms()),
    )
    found = await context.services.platform.submit_sweep(by, text)
    is_written(request)
    message = f"sweep {found.user}~{found.name} was submitted: {len(found.jobs)} jobs"
    return reply(
        SubmittedSweep(
            status=202, message=message, user=found.user, name=found.name, jobs=found.jobs, warnings=found.warnings
        ),
        202,
    )


@router.serves("GET /api/v2/sweeps/{sweep}", "Show a sweep", "NoJobError")
async def get_sweep(request: Request, caller: Annotated[Caller, needs("job.read")], sweep: str) -> Reply[Sweep]:
    """Return the jobs of a sweep, `user~name` or `name` for one's own, with their parameters and progress."""
    user, name = owner_and_job(sweep, caller.user)
    context = context_of(request)
    found: tuple[JobRow, ...] = ()
    if user and name and not {"\0", ","} & {*user, *name}:
        where = JobFilter(users=(user,), sweeps=(name,), limit=SWEEP_JOBS_MAX)
        found = (await context.services.jobs.jobs(where, count=False)).jobs
    if not found:
        raise Refused("NoJobError", f"there is no sweep {sweep!r}", "`pai job list` shows the jobs there are")
    about(request, target=f"{user}~{name}", owner=user)
    check_job(caller, found[0])
    return reply(await _document(context, caller, name, found))


async def _document(context: ApiContext, caller: Caller, name: str, found: tuple[JobRow, ...]) -> Sweep:
    members = [(row, await _membership(context, row)) for row in found]
    members.sort(key=lambda one: (one[1].number if one[1] is not None else 0, one[0].name))
    limit = next((one.max_running for _, one in members if one is not None), 0)
    now_ms = context.services.clock.now_ms()
    uses = context.services.platform.progress()
    jobs: list[SweepJob] = []
    for row, member in members:
        shown = summary(row, now_ms, uses.get(row.id))
        may_read = refusal(caller.principal, "job.config", thing_of(row)) is None
        parameters = dict(member.parameters) if member is not None and may_read else None
        number = member.number if member is not None else 0
        jobs.append(
            SweepJob(
                number=number, name=row.name, state=shown["state"], parameters=parameters, progress=shown["progress"]
            )
        )
    states: Counter[str] = Counter(job["state"] for job in jobs)
    return Sweep(user=found[0].user, name=name, states=dict(states), maxRunning=limit or None, jobs=jobs)


async def _membership(context: ApiContext, row: JobRow) -> Membership | None:
    spec = await context.services.jobs.spec(row.id)
    return membership_of(spec.extras) if spec is not None else None
