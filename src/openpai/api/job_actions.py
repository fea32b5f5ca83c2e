"""What is done to jobs, one at a time by its own route or many at once: each with the action it needs.

A deed takes a job that was found and checked, does what it says, and answers with a sentence.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from openpai.access.deciding import refusal
from openpai.access.model import Role
from openpai.access.rights import rights_of
from openpai.api.context import ApiContext
from openpai.api.job_access import thing_of
from openpai.api.job_attempts import spec_of
from openpai.lifecycle.model import JOB_FINAL, JobPhase
from openpai.ports.queries import JobRow
from openpai.protocol.errors import Refused

TAGS_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class JobAction:
    """Something that is done to a job: `do` gets the desk, the job, who does it, and the tag or the reason."""

    action: str
    """What it needs, in `access.table`."""
    do: Callable[[ApiContext, JobRow, str, str], Awaitable[str]]


def full_name(row: JobRow) -> str:
    """Return what people call a job."""
    return f"{row.user}~{row.name}"


async def stop(context: ApiContext, row: JobRow, by: str, reason: str = "") -> str:
    """Let a job end."""
    await context.services.platform.stop(row.user, row.name, by, reason)
    return f"job {full_name(row)}: stop was requested"


async def start(context: ApiContext, row: JobRow, by: str, reason: str = "") -> str:
    """Let a finished job run again, in its owner's name: what they may not submit any more is refused."""
    if JobPhase(row.phase) in JOB_FINAL:
        await _check_owner(context, row)
    await context.services.platform.start(row.user, row.name, by, reason)
    return f"job {full_name(row)}: start was requested"


async def kill(context: ApiContext, row: JobRow, by: str, reason: str = "") -> str:
    """Let a job end without time to save its work."""
    await context.services.platform.kill(row.user, row.name, by, reason)
    return f"job {full_name(row)}: its tasks are killed"


async def restart(context: ApiContext, row: JobRow, by: str, reason: str = "") -> str:
    """Let a job run again from its beginning, in its owner's name."""
    await _check_owner(context, row)
    await context.services.platform.restart(row.user, row.name, by, reason)
    return f"job {full_name(row)}: a restart was requested"


async def tag(context: ApiContext, row: JobRow, _: str, word: str) -> str:
    """Put a tag on a job."""
    # Everybody who asks for the list is sent every tag of each job on it.
    if word not in row.tags and len(row.tags) >= TAGS_MAX:
        message = f"job {full_name(row)} has {len(row.tags)} tags, and no job may have more than {TAGS_MAX}"
        raise Refused("InvalidParametersError", message, "take one off first: `pai job untag`")
    await context.services.jobs.set_tag(row.id, word)
    return f"tag {word} was put on job {full_name(row)}"


async def untag(context: ApiContext, row: JobRow, _: str, word: str) -> str:
    """Take a tag off a job."""
    if not await context.services.jobs.remove_tag(row.id, word):
        raise Refused("NoTagError", f"job {full_name(row)} has no tag {word!r}")
    return f"tag {word} was taken off job {full_name(row)}"


async def archive(context: ApiContext, row: JobRow, _: str = "", __: str = "") -> str:
    """Put a finished job away, so that its name is free."""
    if not await context.services.jobs.archive(row.id, context.services.clock.now_ms()):
        raise _unfinished(row)
    return f"job {full_name(row)} was archived; it is reached by its id {row.id} from now on"


async def unarchive(context: ApiContext, row: JobRow, _: str = "", __: str = "") -> str:
    """Give an archived job its name back."""
    await context.services.jobs.unarchive(row.id)
    return f"job {full_name(row)} is in the archive no more"


async def delete(context: ApiContext, row: JobRow, _: str = "", __: str = "") -> str:
    """Delete a finished job with its logs."""
    services = context.services
    # Put away first, it cannot begin again while its logs go; and whatever dies half way can be deleted once more.
    if not await services.jobs.archive(row.id, services.clock.now_ms()):
        raise _unfinished(row)
    await services.logs.remove(await services.jobs.attempt_keys(row.id))
    if not await services.jobs.delete(row.id):
        raise _unfinished(row)
    return f"job {full_name(row)} was deleted"


async def _check_owner(context: ApiContext, row: JobRow) -> None:
    """Raise ForbiddenUserError for a job that its owner could not submit again: groups and people change."""
    owner = await context.services.users.user(row.user)
    if owner is None:
        raise _not_again(row, "who has no account any more")
    who = rights_of(owner)
    if not who.owns(thing_of(row)):
        raise _not_again(row, "who has no account any more: somebody else has that name now")
    if refusal(who, "job.submit") is not None:
        raise _not_again(row, "who may only look")
    if not who.may_use(row.virtual_cluster):
        raise _not_again(row, f"who may not use the virtual cluster {row.virtual_cluster} any more")
    if who.role is not Role.ADMIN:
        for use in (await spec_of(context, row)).extras.get("storages") or ():
            if use["name"] not in who.storages:
                raise _not_again(row, f"who is not granted the storage {use['name']} any more")


def _not_again(row: JobRow, why: str) -> Refused:
    message = f"job {full_name(row)} cannot run again: it belongs to {row.user}, {why}"
    return Refused("ForbiddenUserError", message, "ask an administrator, or clone it and change what stands in the way")


def _unfinished(row: JobRow) -> Refused:
    return Refused("ConflictJobError", f"job {full_name(row)} is not over", "stop it first, or wait until it ends")


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
