"""Documents of quotas."""

from __future__ import annotations

from typing import Annotated

from openpai.wire.doc import Doc, Document


class Quota(Document):
    """A quota; a limit that is not set is null."""

    virtualCluster: Annotated[str, Doc("empty: all virtual clusters together", example="vision")]
    user: Annotated[str, Doc("empty: each user without a quota of their own", example="ann")]
    gpusRunning: Annotated[int | None, Doc(example=8)]
    gpusPerJob: Annotated[int | None, Doc(example=4)]
    jobsUnfinished: Annotated[int | None, Doc(example=100)]
    gpuHoursPerMonth: Annotated[float | None, Doc(example=None)]


class QuotaUsage(Document):
    """The present use that counts for a quota."""

    gpusRunning: Annotated[int, Doc("GPUs that one's jobs hold now", example=4)]
    jobsUnfinished: Annotated[int, Doc(example=3)]
    gpuHoursThisMonth: Annotated[float, Doc(example=12.5)]


class OwnQuota(Quota):
    """A quota that holds for oneself."""

    used: QuotaUsage
