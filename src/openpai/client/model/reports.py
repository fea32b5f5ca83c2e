"""Reports of use."""

from __future__ import annotations

from dataclasses import dataclass

from openpai.client.model.reading import Answer, Document, amount, part, parts, real, text, whole


@dataclass(frozen=True, slots=True)
class Use(Answer):
    """A sum of use; dimensions that the report does not have are empty."""

    day: str = text("day")
    user: str = text("user")
    group: str = text("group")
    virtual_cluster: str = text("virtualCluster")
    gpu_hours: float = real("gpuHours")
    cpu_hours: float = real("cpuHours")
    memory_gb_hours: float = real("memoryGbHours")
    task_attempts: int = amount("taskAttempts")
    gpu_hours_borrowed: float = real("gpuHoursBorrowed")
    """The part of the GPU hours without a guarantee."""
    gpu_hours_lent: float = real("gpuHoursLent")
    """What virtual clusters lent to others; only in reports that are not by user or group, and in the total."""
    jobs_moved: int = amount("jobsMoved")
    """How often a job was moved to make room for another one."""
    gpu_hours_moved: float = real("gpuHoursMoved")
    """The work that these jobs did again."""
    gpu_hours_idle: float = real("gpuHoursIdle")
    """Held by running jobs that did not use them."""
    gpu_hours_failed: float = real("gpuHoursFailed")
    """Lost because the platform failed."""
    gpu_hours_preempted: float = real("gpuHoursPreempted")
    """Lost because resources were taken back."""
    gpu_hours_wasted: float = real("gpuHoursWasted")
    """The last three together."""


@dataclass(frozen=True, slots=True)
class Report(Answer):
    """The use of a period, by rows and in total."""

    from_ms: int = amount("from")
    to_ms: int = amount("to")
    rows: tuple[Use, ...] = parts(Use, "rows", is_needed=True)
    total: Use = part(Use, "total", is_needed=True)
    document: Document = whole()


@dataclass(frozen=True, slots=True)
class WeeklyReport(Answer):
    """The message about the last week."""

    subject: str = text("subject")
    text: str = text("text")
    document: Document = whole()
