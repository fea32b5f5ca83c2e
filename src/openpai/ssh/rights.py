"""Finds the user that a key logs in and the task they reach, with the same rights as those of `pai job exec`.

Nothing is remembered between two questions: a key that was removed from a profile, a user who was removed, and a right
that was lost are noticed at the next one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from openpai.access.accounts import User
from openpai.access.deciding import check
from openpai.access.memberships import rights_of
from openpai.access.model import Principal, thing_of
from openpai.access.ssh_destinations import FORM, Destination
from openpai.access.ssh_keys import SshKey, keys_in
from openpai.lifecycle.model import TASK_FINAL, AttemptKey
from openpai.ports.accounts import AccountStore
from openpai.ports.platform import NotLeading, Platform
from openpai.ports.queries import JobQueries, JobRow
from openpai.protocol.errors import Refused, Unavailable
from openpai.protocol.job import owner_and_job

ACTION: Final = "job.exec"
_SHOWN_MAX: Final = 5


class Reached(NamedTuple):
    """A task attempt, and its job."""

    job: JobRow
    key: AttemptKey

    @property
    def task(self) -> str:
        """Return the name of the task."""
        return f"{self.key.task.role}-{self.key.task.index}"


@dataclass(frozen=True, slots=True)
class Rights:
    """Answers from the stores and from the server that leads."""

    users: AccountStore
    jobs: JobQueries
    platform: Platform

    async def key_of(self, account: str, blob: bytes) -> SshKey | None:
        """Return the key of an account's profile that has these bytes, None if it has no such key."""
        found = await self.users.user(account)
        return next((key for key in keys_in(found.extension) if key.blob == blob), None) if found else None

    async def reach(self, destination: Destination, blob: bytes) -> Reached:
        """Return the task that a connection names; raise Refused or Unavailable if it may not or cannot be reached."""
        who = await self._principal(destination.account, blob)
        if not destination.job:
            message = f"the user name {destination.account!r} names no job"
            raise Refused("InvalidParametersError", message, f"write it as {FORM}")
        job = await self.job(destination, who)
        key = await self._attempt(job, destination)
        await self._require_leader()
        await self.platform.check_shell(key)
        return Reached(job, key)

    async def may_go_on(self, destination: Destination, blob: bytes) -> Refused | None:
        """Return why a connection may not have its sessions any more, None while it may."""
        try:
            who = await self._principal(destination.account, blob)
            await self.job(destination, who)
        except Refused as error:
            return error
        return None

    async def job(self, destination: Destination, who: Principal) -> JobRow:
        """Return the job that a connection names; raise NoJobError, or ForbiddenUserError for other users' jobs."""
        user, name = owner_and_job(destination.job, who.name)
        found = await self.jobs.job(user, name)
        if found is None:
            raise Refused(
                "NoJobError", f"there is no job {destination.job!r}", "`pai job list` shows the jobs there are"
            )
        check(who, ACTION, thing_of(found, found.name))
        return found

    async def _principal(self, account: str, blob: bytes) -> Principal:
        user: User | None = await self.users.user(account)
        if user is None or not any(key.blob == blob for key in keys_in(user.extension)):
            message = f"the profile of {account} has this SSH key no longer"
            raise Refused("ForbiddenUserError", message, "add it again: pai ssh-key add FILE")
        return rights_of(user)

    async def _attempt(self, job: JobRow, destination: Destination) -> AttemptKey:
        rows = await self.jobs.task_attempts(job.id, job.attempt)
        running = [row.key for row in rows if row.granted_at_ms is not None and row.phase not in TASK_FINAL]
        fitting = [
            key
            for key in running
            if destination.role is None or (key.task.role, key.task.index) == (destination.role, destination.index)
        ]
        if len(fitting) == 1:
            return fitting[0]
        name = f"job {job.user}~{job.name}"
        if fitting:
            shown = ", ".join(f"{key.task.role}+{key.task.index}" for key in fitting[:_SHOWN_MAX])
            more = ", ..." if len(fitting) > _SHOWN_MAX else ""
            message = f"{name} has {len(fitting)} running tasks: {shown}{more}"
            first = f"{destination.account}+{destination.job}+{fitting[0].task.role}+{fitting[0].task.index}"
            raise Refused("InvalidParametersError", message, f"choose one in the user name: {first}")
        which = "running task" if destination.role is None else f"running task {destination.role}/{destination.index}"
        advice = f"`pai job show {job.user}~{job.name}` shows the state of each task"
        raise Refused("NoRunningTaskError", f"{name} has no {which}", advice)

    async def _require_leader(self) -> None:
        try:
            await self.platform.require_leader()
        except NotLeading as error:
            where = f", which is at {error.url}" if error.url else ""
            message = f"only the server that leads{where} reaches running tasks by SSH"
            raise Unavailable(message, "connect to the SSH port of that server") from error
