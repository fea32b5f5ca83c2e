"""Quotas."""

from __future__ import annotations

from dataclasses import dataclass

from openpai.client.model.reading import Answer, Document, as_real_if_any, number, text, value, whole


@dataclass(frozen=True, slots=True)
class Quota(Answer):
    """Limits for a user in a virtual cluster; None is no limit."""

    virtual_cluster: str = text("virtualCluster")
    """Empty: over all virtual clusters together."""
    user: str = text("user")
    """Empty: for each user without a quota of their own."""
    gpus_running: int | None = number("gpusRunning")
    gpus_per_job: int | None = number("gpusPerJob")
    jobs_unfinished: int | None = number("jobsUnfinished")
    gpu_hours_per_month: float | None = value("gpuHoursPerMonth", convert=as_real_if_any)
    gpus_used: int | None = number("used.gpusRunning")
    """In one's own quotas: GPUs that one's jobs hold now."""
    jobs_used: int | None = number("used.jobsUnfinished")
    """In one's own quotas: jobs that wait or run."""
    gpu_hours_used: float | None = value("used.gpuHoursThisMonth", convert=as_real_if_any)
    document: Document = whole()

    def describe(self) -> dict[str, object]:
        """Return the quota as a body of a request."""
        return {
            "virtualCluster": self.virtual_cluster,
            "user": self.user,
            "gpusRunning": self.gpus_running,
            "gpusPerJob": self.gpus_per_job,
            "jobsUnfinished": self.jobs_unfinished,
            "gpuHoursPerMonth": self.gpu_hours_per_month,
        }
