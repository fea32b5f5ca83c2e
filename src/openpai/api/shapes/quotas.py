"""Quotas as documents: a limit that is not set is null."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

from pydantic import Field

from openpai.access.quotas import Quota
from openpai.api.bodies import Body
from openpai.ports.usage import LIMITS
from openpai.wire import quotas as wire

N = TypeVar("N", int, float)
MANY = 2**31 - 1
NAME = r"^[A-Za-z0-9_.-]*$"
_NAMED: Final = dict(zip(("gpusRunning", "gpusPerJob", "jobsUnfinished", "gpuHoursPerMonth"), LIMITS, strict=True))


class QuotaBody(Body, example={"virtualCluster": "vision", "user": "ann", "gpusRunning": 8}):
    """A new quota, or with `patch` changes of one; without `patch`, omitted limits are removed."""

    patch: bool = Field(False, description="true: omitted limits do not change.")
    virtualCluster: str = Field(
        "", max_length=255, pattern=NAME, description="Empty: over all virtual clusters together."
    )
    user: str = Field(
        "", max_length=255, pattern=NAME, description="Empty: for each user without a quota of their own."
    )
    gpusRunning: int | None = Field(None, ge=0, le=MANY, description="GPUs at a time; further jobs wait.")
    gpusPerJob: int | None = Field(None, ge=0, le=MANY, description="GPUs of one job; more is refused.")
    jobsUnfinished: int | None = Field(
        None, ge=0, le=MANY, description="Jobs that wait or run at a time; more are refused."
    )
    gpuHoursPerMonth: float | None = Field(
        None, ge=0, le=1e12, allow_inf_nan=False, description="GPU hours since the first of the month, UTC."
    )

    def named(self) -> tuple[str, ...]:
        """Return the limits to set, with the store's names."""
        return tuple(of for name, of in _NAMED.items() if not self.patch or name in self.model_fields_set)

    def quota(self) -> Quota:
        """Return the requested quota."""
        return Quota(self.virtualCluster, self.user, **{of: getattr(self, name) for name, of in _NAMED.items()})


def quota(row: Quota) -> wire.Quota:
    return {
        "virtualCluster": row.virtual_cluster,
        "user": row.user,
        "gpusRunning": row.gpus_running,
        "gpusPerJob": row.gpus_per_job,
        "jobsUnfinished": row.jobs_unfinished,
        "gpuHoursPerMonth": row.gpu_hours_per_month,
    }


def used(
    row: Quota, gpus: Mapping[str, int], unfinished: Mapping[str, int], hours: Mapping[str, float]
) -> wire.QuotaUsage:
    """Return the use that counts for a quota, from the use by virtual cluster."""

    def here(by_cluster: Mapping[str, N]) -> N | int:
        return by_cluster.get(row.virtual_cluster, 0) if row.virtual_cluster else sum(by_cluster.values())

    return {
        "gpusRunning": here(gpus),
        "jobsUnfinished": here(unfinished),
        "gpuHoursThisMonth": round(float(here(hours)), 6),
    }


def label(virtual_cluster: str, user: str) -> str:
    """Return the name of a quota for people."""
    where = f"virtual cluster {virtual_cluster}" if virtual_cluster else "all virtual clusters together"
    return f"the quota of {user or 'each user'} in {where}"
