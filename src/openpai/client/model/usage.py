"""Limits, what was used, the audit log and alerts as the server tells of them."""

from __future__ import annotations

from dataclasses import dataclass, field

from openpai.client.model.reading import Document, amount, number, real, text


@dataclass(frozen=True, slots=True)
class Quota:
    """Limits for a user in a virtual cluster; None limits nothing."""

    virtual_cluster: str
    """Empty: over all virtual clusters together."""
    user: str
    """Empty: for each user who has none of their own."""
    gpus_running: int | None = None
    gpus_per_job: int | None = None
    jobs_unfinished: int | None = None
    gpu_hours_per_month: float | None = None
    gpus_used: int | None = None
    """GPUs that one's jobs hold now, where the quota is one's own."""
    jobs_used: int | None = None
    """Jobs that wait or run, where the quota is one's own."""
    gpu_hours_used: float | None = None
    document: Document = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def read(cls, document: Document) -> Quota:
        """Return one quota of the server's."""
        hours = document.get("gpuHoursPerMonth")
        used = document.get("used")
        return cls(
            virtual_cluster=text(document.get("virtualCluster")),
            user=text(document.get("user")),
            gpus_running=number(document.get("gpusRunning")),
            gpus_per_job=number(document.get("gpusPerJob")),
            jobs_unfinished=number(document.get("jobsUnfinished")),
            gpu_hours_per_month=None if hours is None else real(hours),
            gpus_used=None if used is None else amount(used.get("gpusRunning")),
            jobs_used=None if used is None else amount(used.get("jobsUnfinished")),
            gpu_hours_used=None if used is None else real(used.get("gpuHoursThisMonth")),
            document=document,
        )

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
class Use:
    """What was used, added up; what the report is not by is empty."""

    day: str
    user: str
    group: str
    virtual_cluster: str
    gpu_hours: float
    cpu_hours: float
    memory_gb_hours: float
    task_attempts: int

    @classmethod
    def read(cls, document: Document) -> Use:
        """Return one row of a report."""
        return cls(
            day=text(document.get("day")),
            user=text(document.get("user")),
            group=text(document.get("group")),
            virtual_cluster=text(document.get("virtualCluster")),
            gpu_hours=real(document.get("gpuHours")),
            cpu_hours=real(document.get("cpuHours")),
            memory_gb_hours=real(document.get("memoryGbHours")),
            task_attempts=amount(document.get("taskAttempts")),
        )


@dataclass(frozen=True, slots=True)
class Report:
    """What was used in a time, row by row and in all."""

    from_ms: int
    to_ms: int
    rows: tuple[Use, ...]
    total: Use
    document: Document = field(repr=False, compare=False)

    @classmethod
    def read(cls, document: Document) -> Report:
        """Return the server's report."""
        rows = tuple(map(Use.read, document["rows"]))
        return cls(
            amount(document.get("from")), amount(document.get("to")), rows, Use.read(document["total"]), document
        )


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """Somebody did, or tried to do, something that changes the platform."""

    id: int
    at_ms: int | None
    actor: str
    action: str
    target: str
    owner: str
    via: str
    address: str
    status: int
    document: Document = field(repr=False, compare=False)

    @classmethod
    def read(cls, document: Document) -> AuditEntry:
        """Return one entry of the server's."""
        return cls(
            id=amount(document.get("id")),
            at_ms=number(document.get("time")),
            actor=text(document.get("actor")),
            action=text(document.get("action")),
            target=text(document.get("target")),
            owner=text(document.get("owner")),
            via=text(document.get("via")),
            address=text(document.get("address")),
            status=amount(document.get("status")),
            document=document,
        )


@dataclass(frozen=True, slots=True)
class AuditPage:
    """Some entries, newest first, and where the page after them begins."""

    entries: tuple[AuditEntry, ...]
    next: int | None
    document: Document = field(repr=False, compare=False)

    @classmethod
    def read(cls, document: Document) -> AuditPage:
        """Return one page of the server's log."""
        return cls(tuple(map(AuditEntry.read, document["entries"])), number(document.get("next")), document)


@dataclass(frozen=True, slots=True)
class Alert:
    """Something that wants attention."""

    name: str
    severity: str
    summary: str
    about: str
    """The job or the machine it is about."""
    since: str
    """ISO 8601."""
    document: Document = field(repr=False, compare=False)

    @classmethod
    def read(cls, document: Document) -> Alert:
        """Return one alert of the server's list."""
        labels = document.get("labels") or {}
        annotations = document.get("annotations") or {}
        return cls(
            name=text(labels.get("alertname")),
            severity=text(labels.get("severity")),
            summary=text(annotations.get("summary") or annotations.get("description")),
            about=text(labels.get("job_name") or labels.get("node_name") or labels.get("instance")),
            since=text(document.get("startsAt")),
            document=document,
        )
