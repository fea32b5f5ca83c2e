"""Quotas, and which of them hold for a user.

Two quotas hold together: one for a virtual cluster, and one over all virtual clusters. In each case the user's own
quota replaces the quota for every user, also where it limits nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Quota:
    """Limits for a user in a virtual cluster; None limits nothing."""

    virtual_cluster: str = ""
    """Empty: over all virtual clusters together."""
    user: str = ""
    """Empty: for each user without a quota of their own."""
    gpus_running: int | None = None
    """GPUs at a time: tasks that need more wait."""
    gpus_per_job: int | None = None
    jobs_unfinished: int | None = None
    """Jobs that wait or run at a time: more are refused."""
    gpu_hours_per_month: float | None = None
    """GPU hours since the first of the month (UTC): once they are used, submissions are refused."""


def quotas_of(user: str, quotas: Iterable[Quota]) -> tuple[Quota, ...]:
    """Return the quotas that hold for a user: at most one for each virtual cluster, and one over all together."""
    # The empty user sorts first, so that a user's own quota replaces the one for every user.
    ordered = sorted(quotas, key=lambda quota: quota.user)
    return tuple({quota.virtual_cluster: quota for quota in ordered if quota.user in ("", user)}.values())


def quotas_for(user: str, quotas: Iterable[Quota], virtual_cluster: str) -> tuple[Quota, ...]:
    """Return the quotas that hold for a user's job: that of its virtual cluster, then that over all together."""
    held = {quota.virtual_cluster: quota for quota in quotas_of(user, quotas)}
    return tuple(held[name] for name in (virtual_cluster, "") if name in held)
