"""Limits, what was used, the audit log and alerts."""

from __future__ import annotations

from dataclasses import dataclass

from openpai.client.model.reading import (
    Answer,
    Document,
    amount,
    as_real_if_any,
    number,
    part,
    parts,
    real,
    text,
    value,
    whole,
)


@dataclass(frozen=True, slots=True)
class Quota(Answer):
    """Limits for a user in a virtual cluster; None limits nothing."""

    virtual_cluster: str = text("virtualCluster")
    """Empty: over all virtual clusters together."""
    user: str = text("user")
    """Empty: for each user who has none of their own."""
    gpus_running: int | None = number("gpusRunning")
    gpus_per_job: int | None = number("gpusPerJob")
    jobs_unfinished: int | None = number("jobsUnfinished")
    gpu_hours_per_month: float | None = value("gpuHoursPerMonth", convert=as_real_if_any)
    gpus_used: int | None = number("used.gpusRunning")
    """GPUs that one's jobs hold now, where the quota is one's own."""
    jobs_used: int | None = number("used.jobsUnfinished")
    """Jobs that wait or run, where the quota is one's own."""
    gpu_hours_used: float | None = value("used.gpuHoursThisMonth", convert=as_real_if_any)
    document: Document = whole()

    def describe(self) -> dict[str, object]:
        """Return the quota as the server takes it."""
        return {
            "virtualCluster": self.virtual_cluster,
            "user": self.user,
            "gpusRunning": self.gpus_running,
            "gpusPerJob": self.gpus_per_job,
            "jobsUnfinished": self.jobs_unfinished,
            "gpuHoursPerMonth": self.gpu_hours_per_month,
        }


@dataclass(frozen=True, slots=True)
class Use(Answer):
    """What was used, added up; what the report is not by is empty."""

    day: str = text("day")
    user: str = text("user")
    group: str = text("group")
    virtual_cluster: str = text("virtualCluster")
    gpu_hours: float = real("gpuHours")
    cpu_hours: float = real("cpuHours")
    memory_gb_hours: float = real("memoryGbHours")
    task_attempts: int = amount("taskAttempts")


@dataclass(frozen=True, slots=True)
class Report(Answer):
    """What was used in a time, row by row and in all."""

    from_ms: int = amount("from")
    to_ms: int = amount("to")
    rows: tuple[Use, ...] = parts(Use, "rows", is_needed=True)
    total: Use = part(Use, "total", is_needed=True)
    document: Document = whole()


@dataclass(frozen=True, slots=True)
class AuditEntry(Answer):
    """A user changed the platform, or tried to."""

    id: int = amount("id")
    at_ms: int | None = number("time")
    actor: str = text("actor")
    action: str = text("action")
    target: str = text("target")
    owner: str = text("owner")
    via: str = text("via")
    address: str = text("address")
    status: int = amount("status")
    document: Document = whole()


@dataclass(frozen=True, slots=True)
class AuditPage(Answer):
    """Some entries, newest first, and where the page after them begins."""

    entries: tuple[AuditEntry, ...] = parts(AuditEntry, "entries", is_needed=True)
    next: int | None = number("next")
    document: Document = whole()


@dataclass(frozen=True, slots=True)
class Alert(Answer):
    """Something that wants attention."""

    name: str = text("labels.alertname")
    severity: str = text("labels.severity")
    summary: str = text("annotations.summary", "annotations.description")
    about: str = text("labels.job_name", "labels.node_name", "labels.instance")
    """The job or the machine it is about."""
    since: str = text("startsAt")
    """ISO 8601."""
    document: Document = whole()
