"""Actions on jobs, for the routes of one job and for many jobs at once: each with the permission it needs.

An action receives a job that was found and checked, and returns a sentence for the caller.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from openpai.api.context import ApiContext
from openpai.orchestrator import stored_jobs
from openpai.ports.queries import JobRow


@dataclass(frozen=True, slots=True)
class JobAction:
    """An action on a job: `do` receives the context, the job, the caller's name, and the tag or the reason."""

    action: str
    """The permission it needs, in `access.table`."""
    do: Callable[[ApiContext, JobRow, str, str], Awaitable[str]]


async def stop(context: ApiContext, row: JobRow, by: str, reason: str = "") -> str:
    """Stop a job."""
    await context.services.platform.stop(row.user, row.name, by, reason)
    return f"job {row.full_name}: stop was requested"


async def start(context: ApiContext, row: JobRow, by: str, reason: str = "") -> str:
    """Start a finished job again as its owner."""
    await context.services.platform.start(row.user, row.name, by, reason)
    return f"job {row.full_name}: start was requested"


async def kill(context: ApiContext, row: JobRow, by: str, reason: str = "") -> str:
    """Kill the tasks of a job without a grace period."""
    await context.services.platform.kill(row.user, row.name, by, reason)
    return f"job {row.full_name}: its tasks are killed"


async def restart(context: ApiContext, row: JobRow, by: str, reason: str = "") -> str:
    """Run a job from its beginning again as its owner."""
    await context.services.platform.restart(row.user, row.name, by, reason)
    return f"job {row.full_name}: a restart was requested"


async def tag(context: ApiContext, row: JobRow, _: str, word: str) -> str:
    """Put a tag on a job."""
    await stored_jobs.tag(context.services.jobs, row, word)
    return f"tag {word} was put on job {row.full_name}"


async def untag(context: ApiContext, row: JobRow, _: str, word: str) -> str:
    """Remove a tag from a job."""
    await stored_jobs.untag(context.services.jobs, row, word)
    return f"tag {word} was taken off job {row.full_name}"


async def archive(context: ApiContext, row: JobRow, _: str = "", __: str = "") -> str:
    """Archive a finished job, so that its name is free."""
    await stored_jobs.archive(context.services.jobs, row, context.services.clock.now_ms())
    return f"job {row.full_name} was archived; it is reached by its id {row.id} from now on"


async def unarchive(context: ApiContext, row: JobRow, _: str = "", __: str = "") -> str:
    """Give an archived job its name back."""
    await context.services.jobs.unarchive(row.id)
    return f"job {row.full_name} was taken out of the archive"


async def delete(context: ApiContext, row: JobRow, _: str = "", __: str = "") -> str:
    """Delete a finished job with its logs."""
    services = context.services
    await stored_jobs.delete(services.jobs, services.logs, row, services.clock.now_ms())
    return f"job {row.full_name} was deleted"


JOB_ACTIONS: Final = {
    "stop": JobAction("job.stop", stop),
    "kill": JobAction("job.stop", kill),
    "start": JobAction("job.stop", start),
    "restart": JobAction("job.stop", restart),
    "tag": JobAction("job.tag", tag),
    "untag": JobAction("job.tag", untag),
    "archive": JobAction("job.archive", archive),
    "unarchive": JobAction("job.archive", unarchive),
    "delete": JobAction("job.delete", delete),
}
