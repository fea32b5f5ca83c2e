"""Which job a path names, and whether the caller may do to it what they came for."""

from __future__ import annotations

import re
from typing import Final

from fastapi import Request

from openpai.access.model import Thing
from openpai.api.context import desk
from openpai.api.sessions import Caller
from openpai.ports.store import JobRow
from openpai.protocol.errors import Refused

_NAME: Final = re.compile(r"[\w.~-]{1,255}")


def no_job(name: str) -> Refused:
    """Return the error for a job that does not exist."""
    return Refused("NoJobError", f"there is no job {name!r}", "`pai job list` shows the jobs there are")


async def job_for(request: Request, caller: Caller, name: str, action: str | None = None) -> JobRow:
    """Return the job a path names, `user~job` or `job` for one's own; raise NoJobError or ForbiddenUserError.

    What the caller wants to do to it is the action of the route, unless another is named.
    """
    owner, tilde, own = name.partition("~")
    user, job = (owner, own) if tilde else (caller.user, name)
    if not _NAME.fullmatch(user) or not _NAME.fullmatch(job):
        raise no_job(name)
    row = await desk(request).services.jobs.job(user, job)
    if row is None:
        raise no_job(name)
    caller.check(thing_of(row), action)
    return row


def thing_of(row: JobRow) -> Thing:
    """Return a job as the table of permissions sees it."""
    label = f"job {row.user}~{row.name} belongs to {row.user}"
    return Thing(row.user, row.virtual_cluster, is_private=row.is_private, label=label)
