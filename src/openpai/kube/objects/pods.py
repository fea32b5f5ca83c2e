"""Pods: what a task's pod and other users' pods show, and what they take of a node."""

from __future__ import annotations

from datetime import datetime

import msgspec

from openpai.kube.objects.meta import Condition, Part, Resource


class Requirements(Part, frozen=True, kw_only=True):
    """What a container asks for and may use at most, as quantities."""

    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    claims: list[dict[str, str]] = []
    """The claims of the pod that the container uses: `name`, and maybe `request`."""


class Container(Part, frozen=True, kw_only=True):
    """A container, as it is wanted."""

    name: str = ""
    image: str = ""
    resources: Requirements = Requirements()
    restart_policy: str | None = None
    """`Always` makes an init container a sidecar, whose requests count for the pod's whole life."""


class Toleration(Part, frozen=True, kw_only=True):
    """A taint that the pod accepts; an empty key with `Exists` accepts every taint."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class PodClaim(Part, frozen=True, kw_only=True):
    """A claim for devices that the pod uses."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class NameOnly(Part, frozen=True, kw_only=True):
    """A reference to an object by its name."""

    name: str = ""


class PodSpec(Part, frozen=True, kw_only=True):
    """A pod, as it is wanted."""

    node_name: str = ""
    containers: list[Container] = []
    init_containers: list[Container] = []
    overhead: dict[str, str] = {}
    resources: Requirements | None = None
    """Requests of the pod as a whole, from Kubernetes 1.34 on."""
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    """`Never` for a pod that waits instead of preempting others."""
    scheduler_name: str = ""
    service_account_name: str = ""
    runtime_class_name: str | None = None
    host_network: bool = False
    hostname: str = ""
    subdomain: str = ""
    restart_policy: str = "Always"
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    node_selector: dict[str, str] = {}
    tolerations: list[Toleration] = []
    resource_claims: list[PodClaim] = []
    scheduling_gates: list[NameOnly] = []


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
    container_id: str = msgspec.field(default="", name="containerID")


class ContainerState(Part, frozen=True, kw_only=True):
    """The state of a container: one of three, or none when nothing is known."""

    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(Part, frozen=True, kw_only=True):
    """A container, as the kubelet sees it."""

    name: str = ""
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()
    ready: bool = False
    started: bool | None = None
    restart_count: int = 0
    image: str = ""
    image_id: str = msgspec.field(default="", name="imageID")
    container_id: str = msgspec.field(default="", name="containerID")


class PodIP(Part, frozen=True, kw_only=True):
    """An address of a pod."""

    ip: str = ""


class ClaimStatus(Part, frozen=True, kw_only=True):
    """Which claim was created for one of the pod's templates."""

    name: str = ""
    resource_claim_name: str | None = None


class PodStatus(Part, frozen=True, kw_only=True):
    """A pod, as Kubernetes sees it."""

    phase: str = ""
    """Pending, Running, Succeeded, Failed or Unknown."""
    reason: str = ""
    message: str = ""
    conditions: list[Condition] = []
    nominated_node_name: str = ""
    host_ip: str = msgspec.field(default="", name="hostIP")
    pod_ip: str = msgspec.field(default="", name="podIP")
    pod_ips: list[PodIP] = msgspec.field(default_factory=list, name="podIPs")
    start_time: datetime | None = None
    init_container_statuses: list[ContainerStatus] = []
    container_statuses: list[ContainerStatus] = []
    resource_claim_statuses: list[ClaimStatus] = []
    qos_class: str = ""

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
