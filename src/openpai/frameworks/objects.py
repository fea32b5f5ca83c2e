"""Framework objects as FrameworkController defines them, and their CRD."""

from __future__ import annotations

from importlib.resources import files
from typing import Any, Final

import msgspec

from openpai.kube.objects.kinds import Kind
from openpai.kube.objects.meta import Part, Resource

FINALIZER: Final = "openpai/stop-job"
"""Keeps a deleted Framework until its job is over."""
START: Final = "Start"
STOP: Final = "Stop"
COMPLETED: Final = "Completed"
CREATION_PENDING: Final = "AttemptCreationPending"


class RetryPolicy(Part, frozen=True, kw_only=True):
    """How often a Framework or a task is tried again."""

    fancy_retry_policy: bool = False
    max_retry_count: int = 0


class CompletionPolicy(Part, frozen=True, kw_only=True):
    """How many failed or succeeded tasks of a role end the attempt; below 1: no number does."""

    min_failed_task_count: int = 1
    min_succeeded_task_count: int = -1


class TaskSpec(Part, frozen=True, kw_only=True):
    """What each task of a role runs."""

    retry_policy: RetryPolicy = RetryPolicy()
    pod_graceful_deletion_timeout_sec: int | None = None
    pod: dict[str, Any] = msgspec.field(default_factory=dict)


class TaskRole(Part, frozen=True, kw_only=True):
    """A role, whose tasks are alike."""

    name: str = ""
    task_number: int = 0
    framework_attempt_completion_policy: CompletionPolicy = CompletionPolicy()
    task: TaskSpec = TaskSpec()


class FrameworkSpec(Part, frozen=True, kw_only=True):
    """What a Framework asks for."""

    description: str = ""
    execution_type: str = START
    retry_policy: RetryPolicy = RetryPolicy()
    task_roles: list[TaskRole] = msgspec.field(default_factory=list)


class Framework(Resource, frozen=True, kw_only=True):
    """A Framework object."""

    spec: FrameworkSpec = FrameworkSpec()
    status: dict[str, Any] | None = None

    @property
    def has_finalizer(self) -> bool:
        """Return whether its deletion waits for its job."""
        return FINALIZER in (self.metadata.finalizers or ())

    @property
    def had_job(self) -> bool:
        """Return whether its status names a job. Users without the right to write the status cannot forge this."""
        return bool(((self.status or {}).get("attemptStatus") or {}).get("instanceUID"))

    @property
    def job_user(self) -> str:
        """Return the user of the job that the status names; empty if it names none."""
        return str((self.status or {}).get("job") or "").partition("~")[0]

    @property
    def is_completed(self) -> bool:
        """Return whether its status is final."""
        return (self.status or {}).get("state") == COMPLETED


FRAMEWORKS: Final = Kind("frameworkcontroller.microsoft.com/v1", "Framework", "frameworks", Framework)


def crd() -> str:
    """Return the CustomResourceDefinition as YAML."""
    return files("openpai.frameworks").joinpath("crd.yaml").read_text("utf-8")


def job_name(framework: Framework) -> str:
    """Return the name of a Framework's job: a later Framework of the same name has another one."""
    return f"{framework.name}-{framework.uid.replace('-', '')[:12]}"
