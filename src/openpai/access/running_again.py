"""Whether a job that was submitted earlier may run again as its owner, whose rights may have changed since."""

from __future__ import annotations

from collections.abc import Collection

from openpai.access.deciding import refusal
from openpai.access.model import Principal, Role, Thing


def why_not_again(owner: Principal | None, job: Thing, storages: Collection[str]) -> str:
    """Return why the owner could not submit the job now, as the end of a sentence about them; empty if they could.

    `owner` is None if the account is gone; `storages` are those that the job mounts.
    """
    if owner is None:
        return "who no longer has an account"
    if not owner.owns(job):
        return "who no longer has an account: the name belongs to a new account"
    if refusal(owner, "job.submit") is not None:
        return "who is a viewer and may not submit jobs"
    if not owner.may_use(job.virtual_cluster):
        return f"who may no longer use virtual cluster {job.virtual_cluster}"
    if owner.role is not Role.ADMIN:
        for name in storages:
            if name not in owner.storages:
                return f"who is no longer granted storage {name}"
    return ""
