"""Pods: what a task's pod and other users' pods show, and what they take of a node."""

from __future__ import annotations

from datetime import datetime

import msgspec

from openpai.kube.objects.meta import Condition, Part, Resource


class Requirements(Part, frozen=True, kw_only=True):
    """What a container asks for and may use at most, as quantities."""

    requests: dict[str, str] | None = None
    limits: dict[str, str] | None = None

    @property
    def amounts(self) -> dict[str, str]:
        """Return the requests; a limit without a request is the request."""
        return {**(self.limits or {}), **(self.requests or {})}


class Container(Part, frozen=True, kw_only=True):
    """A container, as it is wanted."""

    name: str = ""
    image: str = ""
    resources: Requirements = Requirements()
    restart_policy: str | None = None
    """`Always` makes an init container a sidecar, whose requests count for the pod's whole life."""


class PodSpec(Part, frozen=True, kw_only=True):
    """A pod, as it is wanted."""

    node_name: str = ""
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: dict[str, str] | None = None
    resources: Requirements | None = None
    """Requests of the pod as a whole, from Kubernetes 1.34 on."""
    priority: int | None = None
    preemption_policy: str | None = None
    """`Never` for a pod that waits instead of preempting others."""
    scheduler_name: str = ""


class Waiting(Part, frozen=True, kw_only=True):
    """Why a container does not run yet."""

    reason: str = ""
    message: str = ""


class Running(Part, frozen=True, kw_only=True):
    """Since when a container runs."""

    started_at: datetime | None = None


class Terminated(Part, frozen=True, kw_only=True):
    """How a container ended."""

    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    message: str = ""
    started_at: datetime | None = None
    finished_at: datetime | None = None


class ContainerState(Part, frozen=True, kw_only=True):
    """The state of a container: one of three, or none when nothing is known."""

    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class AllocatedDevice(Part, frozen=True, kw_only=True):
    """A device that a kubelet gave to a container."""

    id: str = msgspec.field(name="resourceID", default="")
    """What its plugin calls it, such as a UUID."""


class AllocatedResource(Part, frozen=True, kw_only=True):
    """The devices of one extended resource that a kubelet gave to a container."""

    name: str = ""
    resources: tuple[AllocatedDevice, ...] = ()


class ContainerStatus(Part, frozen=True, kw_only=True):
    """A container, as the kubelet sees it."""

    name: str = ""
    state: ContainerState = ContainerState()
    ready: bool = False
    allocated_resources_status: tuple[AllocatedResource, ...] = ()
    """From Kubernetes 1.36 on; before, behind a feature gate."""


class PodStatus(Part, frozen=True, kw_only=True):
    """A pod, as Kubernetes sees it."""

    phase: str = ""
    """Pending, Running, Succeeded, Failed or Unknown."""
    reason: str = ""
    message: str = ""
    conditions: tuple[Condition, ...] = ()
    start_time: datetime | None = None
    container_statuses: tuple[ContainerStatus, ...] = ()

    def condition(self, kind: str) -> Condition | None:
        """Return a condition by its type."""
        return next((found for found in self.conditions if found.type == kind), None)


class Pod(Resource, frozen=True, kw_only=True):
    """A pod."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def has_ended(self) -> bool:
        """Return whether no container of it runs or will run again."""
        return self.status.phase in ("Succeeded", "Failed")
