"""Which job a path names, and who may see or touch it.

Everyone who is signed in may see that a job exists, as the list shows it. What a job says and does (its file, its
logs, its tasks, its history) is for its owner and for administrators.
"""

from __future__ import annotations

import re
from typing import Final

from fastapi import Request

from openpai.api.context import desk
from openpai.api.sessions import Caller
from openpai.ports.store import JobRow
from openpai.protocol.errors import Refused

_NAME: Final = re.compile(r"[\w.~-]{1,255}")


def no_job(name: str) -> Refused:
    """Return the error for a job that does not exist."""
    return Refused("NoJobError", f"there is no job {name!r}", "`pai job list` shows the jobs there are")


async def job_for(request: Request, caller: Caller, name: str) -> JobRow:
    """Return the job a path names, `user~job` or `job` for one's own; raise NoJobError or ForbiddenUserError."""
    owner, tilde, own = name.partition("~")
    user, job = (owner, own) if tilde else (caller.user, name)
    if not _NAME.fullmatch(user) or not _NAME.fullmatch(job):
        raise no_job(name)
    row = await desk(request).services.jobs.job(user, job)
    if row is None:
        raise no_job(name)
    if caller.user != row.user and not caller.is_admin:
        raise Refused(
            "ForbiddenUserError",
            f"job {row.user}~{row.name} belongs to {row.user}",
            "only its owner and administrators may look into it or change it",
        )
    return row
