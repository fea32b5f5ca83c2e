"""Read a job's attempts and tasks from the store, for the documents of the API."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Final

from fastapi import Path, Request

from openpai.api.context import ApiContext, context_of
from openpai.api.job_access import job_for, may_read_logs, visible_attempts, without_log_line
from openpai.api.sessions import Caller
from openpai.api.shapes.job_attempts import AttemptView, current_attempt, earlier_attempt
from openpai.api.shapes.tasks import TaskHistory, histories
from openpai.lifecycle.model import TaskId
from openpai.ports.queries import JobRow, TaskAttemptRow
from openpai.protocol.errors import Broken, Refused
from openpai.protocol.job import JobSpec
from openpai.runtime.environment import SSH_LABEL


async def earlier_attempts(request: Request, caller: Caller, row: JobRow) -> list[AttemptView]:
    """Return the attempts before the current one, oldest first."""
    rows = await context_of(request).services.jobs.job_attempts(row.id)
    earlier = [attempt for attempt in rows if attempt.attempt < row.attempt]
    if not may_read_logs(caller, row):
        earlier = [
            replace(found, outcome=replace(found.outcome, diagnosis=without_log_line(found.outcome.diagnosis)))
            for found in earlier
        ]
    return [earlier_attempt(found) for found in earlier]


async def attempt_of(request: Request, caller: Caller, row: JobRow, number: int) -> AttemptView:
    """Return one attempt of a job; raise NoJobError when there is no such attempt."""
    if number == row.attempt:
        return current_attempt(row)
    for attempt in await earlier_attempts(request, caller, row):
        if attempt.number == number:
            return attempt
    raise Refused("NoJobError", f"job {row.user}~{row.name} has no attempt {number}", f"its newest is {row.attempt}")


async def tasks_of(request: Request, caller: Caller, row: JobRow, attempt: int) -> list[TaskHistory]:
    """Return the tasks of a job attempt, in the order of the job file."""
    spec = await spec_of(context_of(request), row)
    found = await context_of(request).services.jobs.task_attempts(row.id, attempt)
    return histories(spec, visible_attempts(caller, row, found))


async def ssh_roles(request: Request, row: JobRow) -> frozenset[str]:
    """Return the task roles whose tasks listen for SSH: those that ask for a port of that name."""
    spec = await spec_of(context_of(request), row)
    return frozenset(role.name for role in spec.task_roles if role.resources.ports.get(SSH_LABEL, 0) > 0)


async def task_of(request: Request, caller: Caller, row: JobRow, attempt: int, role: str, index: int) -> TaskHistory:
    """Return one task of a job attempt; raise NoJobError when the job has no such task."""
    spec = await spec_of(context_of(request), row)
    sizes = {known.name: known.instances for known in spec.task_roles}
    # An unknown role is never looked up: it may contain characters that the database refuses.
    jobs = context_of(request).services.jobs
    found = await jobs.task_attempts(row.id, attempt, TaskId(role, index)) if role in sizes else ()
    # A role that became smaller keeps the history of the tasks that it lost.
    if not found and index >= sizes.get(role, 0):
        message = f"job {row.user}~{row.name} has no task {f'{role}-{index}'!r}"
        raise Refused("NoJobError", message, "`pai job show` lists its tasks")
    return TaskHistory(role, index, visible_attempts(caller, row, found), is_removed=index >= sizes[role])


async def task_attempt_of(
    request: Request, caller: Caller, row: JobRow, attempt: int, task: TaskId, task_attempt: int
) -> TaskAttemptRow:
    """Return one task attempt as it was recorded; raise NoTaskLogError when it never began."""
    history = await task_of(request, caller, row, attempt, task.role, task.index)
    for found in history.attempts:
        if found.key.task_attempt == task_attempt and found.granted_at_ms is not None:
            return found
    begun = [found.key.task_attempt for found in history.attempts if found.granted_at_ms is not None]
    raise Refused(
        "NoTaskLogError",
        f"task {task.role}-{task.index} of job {row.user}~{row.name} has no attempt {task_attempt} "
        f"in job attempt {attempt}",
        f"the newest that started is {begun[-1]}" if begun else "the task has not started in it",
    )


TASK: Final = "/api/v2/jobs/{job}/attempts/{number}/taskRoles/{role}/taskIndex/{index}/attempts"
Number = Annotated[int, Path(ge=0, le=2**31 - 1)]


@dataclass(frozen=True, slots=True)
class TaskAttemptPath:
    """The parameters of a path below one attempt of a task."""

    job: str
    number: Number
    role: str
    index: Number
    attempt: Number

    async def find(self, request: Request, caller: Caller) -> tuple[JobRow, TaskAttemptRow]:
        """Return the job and the task attempt; raise NoJobError or NoTaskLogError."""
        row = await job_for(request, caller, self.job)
        await attempt_of(request, caller, row, self.number)
        task = TaskId(self.role, self.index)
        return row, await task_attempt_of(request, caller, row, self.number, task, self.attempt)


@dataclass(frozen=True, slots=True)
class LogPath(TaskAttemptPath):
    """The parameters of the path of one log."""

    name: str


async def spec_of(context: ApiContext, row: JobRow) -> JobSpec:
    """Return the specification of a job, without secrets."""
    spec = await context.services.jobs.spec(row.id)
    if spec is None:
        raise Broken(f"job {row.id} has no specification")
    return spec
