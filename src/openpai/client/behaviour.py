"""What answers know beside the fields of their documents; a class here is a base of the one with its name in `model`.

What is computed here from keys of the document has no field of its own there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

from openpai.client.reading import Document, as_amount
from openpai.protocol.wording import exact
from openpai.wire.states import FINAL_STATES


class OfTask:
    """Something that is about one task."""

    role: str
    index: int

    @property
    def name(self) -> str:
        """Return `role-index`."""
        return f"{self.role}-{self.index}"


class Restarted(Protocol):
    """A restart of a job."""

    attempt: int


TaskT = TypeVar("TaskT", bound=OfTask)
RestartT = TypeVar("RestartT", bound=Restarted)
TaskT_co = TypeVar("TaskT_co", bound=OfTask, covariant=True)
RestartT_co = TypeVar("RestartT_co", bound=Restarted, covariant=True)


class _WithTasks(Protocol[TaskT_co]):
    @property
    def tasks(self) -> tuple[TaskT_co, ...]: ...


class _WithRestarts(Protocol[RestartT_co]):
    @property
    def attempt(self) -> int: ...
    @property
    def restarts(self) -> tuple[RestartT_co, ...]: ...


class _Named:
    user: str
    name: str

    @property
    def full_name(self) -> str:
        """Return `user~name`."""
        return f"{self.user}~{self.name}"


class _HasExit:
    document: Document
    exit_spec: Any

    @property
    def exit_phrase(self) -> str:
        """Return the phrase of the exit-code table; empty if there is none."""
        return self.exit_spec.phrase if self.exit_spec else ""


JobSummary = _Named
MarketRun = _Named
Submitted = _Named
SshGatewayTask = OfTask
TaskUse = OfTask
WorkKept = OfTask


class Alert:
    """An alert."""

    labels: Mapping[str, Any]
    document: Document

    @property
    def name(self) -> str:
        """Return the name of the rule."""
        return self._label("alertname")

    @property
    def severity(self) -> str:
        """Return how much it matters."""
        return self._label("severity")

    @property
    def about(self) -> str:
        """Return the job, the node or what else it is about."""
        keys = ("job_name", "node_name", "instance", "vc_name", "storage")
        return next((self._label(key) for key in keys if key in self.labels), "")

    @property
    def summary(self) -> str:
        """Return what happened; servers other than OpenPAI's own send only a description."""
        texts = self.document.get("annotations") or {}
        return str(texts.get("summary", texts.get("description", "")))

    def _label(self, key: str) -> str:
        return str(self.labels.get(key, ""))


class Cause:
    """The cause of a failure."""

    name: str

    def __bool__(self) -> bool:
        """Return whether anything failed."""
        return bool(self.name)


class CheckedJob:
    """A job file that could be submitted."""

    document: Document

    @property
    def would_start(self) -> bool | None:
        """Whether it would start now; None where the platform does not know."""
        waits = self.document.get("waits")
        return None if waits is None else not waits


class FileView:
    """A file or a directory."""

    type: str

    @property
    def is_directory(self) -> bool:
        """Return whether it is a directory."""
        return self.type == "directory"


class Group:
    """A group."""

    document: Document

    @property
    def extension(self) -> Mapping[str, Any]:
        """Return the rights that the group grants, and values that clients store with it."""
        found: Mapping[str, Any] = self.document.get("extension") or {}
        return found


class JobDetail(_Named, _HasExit):
    """One job with every task of one of its attempts."""

    state: str
    retries: int
    time_limit_minutes: float | None

    @property
    def is_final(self) -> bool:
        """Return whether the job is finished."""
        return self.state in FINAL_STATES

    @property
    def time_limit_s(self) -> float | None:
        """Return how long an attempt may run; None: without limit."""
        return None if self.time_limit_minutes is None else self.time_limit_minutes * 60

    @property
    def retried(self) -> int:
        """Return how many retries the platform began by itself."""
        return max(0, self.retries - len(self.document.get("restarts") or ()))

    @property
    def restart(self: _WithRestarts[RestartT]) -> RestartT | None:
        """Return the restart that began this attempt, if it was one."""
        return next((one for one in self.restarts if one.attempt == self.attempt), None)

    @property
    def roles(self) -> tuple[str, ...]:
        """Return the names of the task roles in the order of the job file."""
        return tuple(self.document.get("taskRoles") or {})

    def task(self: _WithTasks[TaskT], role: str, index: int) -> TaskT | None:
        """Return one task, or None when the job has no such task."""
        return next((task for task in self.tasks if task.role == role and task.index == index), None)


class JobPage:
    """A page of matching jobs."""

    offset: int = 0
    """How many matching jobs precede these."""
    next: str = ""
    """The beginning of the next page; empty at the end, and if the server does not send it."""


class Result:
    """The result for one of many jobs."""

    document: Document

    @property
    def is_done(self) -> bool:
        """Return whether it succeeded."""
        return as_amount(self.document.get("status")) < 400

    @property
    def code(self) -> str:
        """Return the name of the error; empty after success."""
        return "" if self.is_done else str(self.document.get("code") or "UnknownError")


class Revision:
    """One change."""

    action: str


class Quota:
    """Limits for a user in a virtual cluster; None is no limit."""

    virtual_cluster: str
    user: str
    gpus_running: int | None
    gpus_per_job: int | None
    jobs_unfinished: int | None
    gpu_hours_per_month: float | None

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


class SshTask(OfTask):
    """The SSH address of a running task."""

    document: Document

    @property
    def port(self) -> int:
        """Return the port of the SSH server."""
        return int(self.document["sshPort"])


class TaskProgress:
    """What a task reported last about its progress."""

    step: float
    total: float | None

    def text(self) -> str:
        """Return it for a person, as in `1200/5000 (24 %)`."""
        if self.total is None:
            return f"step {exact(self.step)}"
        return f"{exact(self.step)}/{exact(self.total)} ({min(100.0, 100 * self.step / self.total):.0f} %)"


class TaskView(OfTask, _HasExit):
    """One task in its newest attempt."""

    role: str
    state: str

    @property
    def is_final(self) -> bool:
        """Return whether the task is over."""
        return self.state in FINAL_STATES


class User:
    """An account."""

    is_admin: bool
    is_viewer: bool

    @property
    def role(self) -> str:
        """Return their role: admin, user or viewer."""
        return "admin" if self.is_admin else "viewer" if self.is_viewer else "user"


class VirtualCluster:
    """The resources of a virtual cluster."""

    name: str
