"""Changes of one job: stop, start, restart, tags, the archive, priority, number of tasks, rank and checkpoints."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from fastapi import Request
from pydantic import Field

from openpai.api import job_access, job_actions
from openpai.api.answers import Done, done
from openpai.api.bodies import Body, invalid, read_body
from openpai.api.context import context_of, needs
from openpai.api.job_access import job_for
from openpai.api.routing import Router
from openpai.api.sessions import Caller
from openpai.lifecycle.rescaling import RoleScale
from openpai.ports.queues import Beside
from openpai.protocol.job import TASKS_MAX
from openpai.protocol.wording import plural

router = Router("jobs")
NO_CONTROLS = r"^[^\x00-\x1f\x7f]*$"
_UNFINISHED: Final = "ReadOnlyJobError FinishedJobError"
RANK_MAX: Final = 1_000_000


class Execution(Body):
    """Whether the job should run."""

    value: Literal["START", "STOP", "RESTART"]
    force: bool = Field(False, description="With STOP: kill its tasks at once, without a grace period.")
    reason: str = Field("", max_length=500, pattern=NO_CONTROLS, description="A reason for the job's owner.")

    @property
    def action(self) -> str:
        """Return the name of the action on the job."""
        return "kill" if self.force and self.value == "STOP" else self.value.lower()


class Tag(Body, example={"value": "baseline"}):
    """A tag, by which the job can be found."""

    value: str = Field(min_length=1, max_length=255, pattern=r"^[^,\x00-\x1f]+$")


class PriorityChange(Body):
    """The new priority of a job."""

    value: Literal["crit", "prod", "test", "oppo"]


class TaskNumber(Body):
    """How many tasks a task role is to have."""

    instances: int = Field(ge=1, le=TASKS_MAX, description="The number of its tasks.")
    minFailedInstances: int | None = Field(
        None, ge=-1, le=TASKS_MAX, description="How many failed tasks fail the attempt; as before unless given."
    )
    minSucceededInstances: int | None = Field(
        None, ge=-1, le=TASKS_MAX, description="How many succeeded tasks let it succeed; as before unless given."
    )


class Rescale(Body, example={"taskRoles": {"worker": {"instances": 4}}}):
    """The new numbers of tasks, by task role."""

    taskRoles: dict[str, TaskNumber] = Field(min_length=1, max_length=100)

    def scales(self) -> dict[str, RoleScale]:
        """Return them as values."""
        return {
            name: RoleScale(role.instances, role.minFailedInstances, role.minSucceededInstances)
            for name, role in self.taskRoles.items()
        }


class RankChange(Body, example={"before": "ann~train"}):
    """The new place of a job among those of the same priority: one of the three."""

    value: Annotated[int, Field(ge=-RANK_MAX, le=RANK_MAX)] | Literal["front", "back"] | None = None
    before: str = Field("", max_length=511, description="A job that waits in the same queue: directly before it.")
    after: str = Field("", max_length=511, description="A job that waits in the same queue: directly after it.")


@router.serves(
    "PUT /api/v2/jobs/{job}/executionType",
    "Stop, start or restart a job",
    "ReadOnlyJobError ConflictJobError NoEnoughQuotaError",
    status=202,
    takes=Execution,
)
async def set_job_execution(request: Request, caller: Annotated[Caller, needs("job.stop")], job: str) -> Done:
    """Stop a job, start a finished one again as a new attempt, or restart one, whether it runs or is finished."""
    body = await read_body(request, Execution)
    row = await job_for(request, caller, job)
    return done(await job_actions.JOB_ACTIONS[body.action].do(context_of(request), row, caller.user, body.reason), 202)


@router.serves("PUT /api/v2/jobs/{job}/tag", "Put a tag on a job", takes=Tag)
async def tag_job(request: Request, caller: Annotated[Caller, needs("job.tag")], job: str) -> Done:
    """Put a tag on a job; does nothing if the job has it."""
    word = (await read_body(request, Tag)).value
    row = await job_for(request, caller, job)
    return done(await job_actions.tag(context_of(request), row, caller.user, word))


@router.serves("DELETE /api/v2/jobs/{job}/tag", "Take a tag off a job", "NoTagError", takes=Tag)
async def untag_job(request: Request, caller: Annotated[Caller, needs("job.tag")], job: str) -> Done:
    """Remove a tag from a job."""
    word = (await read_body(request, Tag)).value
    row = await job_for(request, caller, job)
    return done(await job_actions.untag(context_of(request), row, caller.user, word))


@router.serves("PUT /api/v2/jobs/{job}/archive", "Put a job into the archive", "ConflictJobError")
async def archive_job(request: Request, caller: Annotated[Caller, needs("job.archive")], job: str) -> Done:
    """Archive a finished job: it leaves the list, its name is free, and its id names it."""
    row = await job_for(request, caller, job)
    return done(await job_actions.archive(context_of(request), row))


@router.serves("DELETE /api/v2/jobs/{job}/archive", "Take a job out of the archive", "ConflictJobError")
async def unarchive_job(request: Request, caller: Annotated[Caller, needs("job.archive")], job: str) -> Done:
    """Take a job, named by its id, out of the archive; refused if another job has its name."""
    row = await job_for(request, caller, job)
    return done(await job_actions.unarchive(context_of(request), row))


@router.serves("PUT /api/v2/jobs/{job}/priority", "Change a job's priority", _UNFINISHED, takes=PriorityChange)
async def set_job_priority(request: Request, caller: Annotated[Caller, needs("job.priority")], job: str) -> Done:
    """Change a job's priority class; a running job is not interrupted."""
    priority = (await read_body(request, PriorityChange)).value
    row = await job_for(request, caller, job)
    await context_of(request).services.platform.set_priority(row.user, row.name, priority, caller.user)
    return done(f"job {row.user}~{row.name} has priority {priority}")


@router.serves(
    "PUT /api/v2/jobs/{job}/taskRoles",
    "Change the number of a job's tasks",
    f"{_UNFINISHED} NoEnoughQuotaError",
    takes=Rescale,
)
async def rescale_job(request: Request, caller: Annotated[Caller, needs("job.scale")], job: str) -> Done:
    """Change the number of tasks of task roles, for this attempt and later ones; the other tasks run on.

    A smaller role loses the tasks of its highest indices, which end as if the job was stopped. A larger one gets new
    tasks as soon as there is room; they find the others in their environment, and not the reverse.
    """
    scales = (await read_body(request, Rescale)).scales()
    row = await job_for(request, caller, job)
    await context_of(request).services.platform.rescale(row.user, row.name, scales, caller.user)
    numbers = ", ".join(f"{plural(scale.instances, 'task')} of role {name}" for name, scale in scales.items())
    return done(f"job {row.user}~{row.name} is to have {numbers}")


@router.serves(
    "PUT /api/v2/jobs/{job}/rank", "Move a job in its queue", f"{_UNFINISHED} ConflictJobError", takes=RankChange
)
async def set_job_rank(request: Request, caller: Annotated[Caller, needs("job.rank")], job: str) -> Done:
    """Move a waiting job among those of equal priority in its virtual cluster; a higher rank goes first.

    Beside another job, whatever the order of the queue: jobs ahead of that place get higher ranks where it takes that.
    """
    body = await read_body(request, RankChange)
    if (body.value is not None) + bool(body.before) + bool(body.after) != 1:
        raise invalid("give one of `value`, `before` and `after`")
    row = await job_for(request, caller, job)
    services = context_of(request).services
    if body.value is None:
        other = await job_access.find_job(context_of(request), caller, body.before or body.after)
        job_access.check_job(caller, other)
        await services.platform.move_beside(row.user, row.name, Beside(other.full_name, bool(body.before)), caller.user)
        return done(f"job {row.user}~{row.name} goes {'before' if body.before else 'after'} {other.full_name}")
    rank = body.value
    now_ms = services.clock.now_ms()
    # A job moved to the front precedes those moved there earlier.
    number = {"front": now_ms, "back": -now_ms}[rank] if isinstance(rank, str) else rank
    await services.platform.set_rank(row.user, row.name, number, caller.user)
    where = {"front": "moved to the front", "back": "moved to the back"}.get(str(rank), f"given rank {rank}")
    return done(f"job {row.user}~{row.name} was {where} among jobs of its priority")


@router.serves("POST /api/v2/jobs/{job}/checkpoint", "Record that a job saved its work", _UNFINISHED)
async def checkpoint_job(request: Request, caller: Annotated[Caller, needs("job.checkpoint")], job: str) -> Done:
    """Record that a job has just saved its work: preempting it loses less, and it is chosen for that sooner."""
    row = await job_for(request, caller, job)
    await context_of(request).services.platform.checkpointed(row.user, row.name)
    return done(f"job {row.user}~{row.name} has saved its work")
