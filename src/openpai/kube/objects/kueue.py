"""Workloads of Kueue: what a job asks for, and whether it is admitted."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from openpai.kube.objects.kinds import Kind
from openpai.kube.objects.meta import Part, Resource


class WorkloadCondition(Part, frozen=True, kw_only=True):
    """A condition of a Workload, with all that it needs to be written back."""

    type: str = ""
    status: str = "Unknown"
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    observed_generation: int = 0

    def as_json(self) -> dict[str, Any]:
        """Return it as it is written: also what is empty has to be there."""
        return {
            "type": self.type,
            "status": self.status,
            "reason": self.reason,
            "message": self.message,
            "lastTransitionTime": self.last_transition_time,
            "observedGeneration": self.observed_generation,
        }


class WorkloadSpec(Part, frozen=True, kw_only=True):
    """What a job asks for, as far as it may change."""

    priority: int = 0


class WorkloadStatus(Part, frozen=True, kw_only=True):
    """What Kueue says of a Workload."""

    admission: dict[str, Any] | None = None
    """Which quota it uses; None while it uses none."""
    conditions: list[WorkloadCondition] = msgspec.field(default_factory=list)


class Workload(Resource, frozen=True, kw_only=True):
    """A job, as Kueue knows it."""

    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()

    def is_(self, type_: str) -> bool:
        """Return whether a condition holds."""
        return any(each.type == type_ and each.status == "True" for each in self.status.conditions)

    def message(self, type_: str) -> str:
        """Return what Kueue says about a condition; empty if it says nothing."""
        return next((each.message for each in self.status.conditions if each.type == type_), "")


GROUP: Final = "kueue.x-k8s.io"
VERSIONS: Final = (f"{GROUP}/v1beta2", f"{GROUP}/v1beta1")
"""The versions of its API in which Workloads are written alike, the newest first."""
WORKLOADS: Final = Kind("kueue.x-k8s.io/v1beta1", "Workload", "workloads", Workload)
