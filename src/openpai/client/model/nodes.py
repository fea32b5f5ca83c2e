"""Nodes, and what jobs hold on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from openpai.client.model import reading as field
from openpai.client.model.reading import Answer, Document


@dataclass(frozen=True, slots=True)
class Amount(Answer):
    """Total and used amount of a resource."""

    total: int = field.amount("total")
    used: int = field.amount("used")


@dataclass(frozen=True, slots=True)
class NodeView(Answer):
    """A node and how much of it is in use."""

    name: str = field.text("name")
    address: str = field.text("address")
    is_healthy: bool = field.flag("healthy")
    message: str = field.text("message")
    gpu_model: str = field.text("gpuModel")
    cpus: Amount = field.part(Amount, "cpus")
    memory_mb: Amount = field.part(Amount, "memoryMB")
    gpus: Amount = field.part(Amount, "gpus")
    tasks: int = field.amount("tasks")
    is_drained: bool = field.flag("drained")
    drained_because: str = field.text("drainedBecause")
    drain_deadline_ms: int | None = field.number("drainDeadline")
    """When jobs that still run there are put back into the queue."""
    bad_devices: tuple[int, ...] = field.amounts("badDevices")
    bad_because: str = field.text("badBecause")
    virtual_clusters: tuple[str, ...] = field.texts("virtualClusters")
    lemon_score: float = field.real("lemonScore")
    """How many users' jobs failed lately for its hardware, older failures counting less."""
    lemon_users: int = field.amount("lemonUsers")
    """Virtual clusters whose jobs hold resources there."""
    document: Document = field.whole()


@dataclass(frozen=True, slots=True)
class Holding(Answer):
    """The resources that one job holds, on a node or where another job waits."""

    job: str = field.text("job")
    virtual_cluster: str = field.text("virtualCluster")
    tasks: int = field.amount("tasks")
    gpus: int = field.amount("gpus")
    cpus: int = field.amount("cpus")
    devices: tuple[int, ...] = field.amounts("devices")
    started_at_ms: int | None = field.number("startedTime")
    ends_at_ms: int | None = field.number("endsTime")
    """When its time limit ends it, if it has one."""
    is_ending: bool = field.flag("ending")


@dataclass(frozen=True, slots=True)
class Held(Answer):
    """The resources that jobs hold; for jobs that the user may not see, only the sums."""

    jobs: tuple[Holding, ...] = field.parts(Holding, "jobs")
    other_jobs: int = field.amount("others.jobs")
    other_gpus: int = field.amount("others.gpus")
    other_cpus: int = field.amount("others.cpus")
    document: Document = field.whole()


@dataclass(frozen=True, slots=True)
class NodeCheck(Answer):
    """What a check of a node found: `passed`, `warning`, `failed` or `unknown`, with the reason."""

    name: str = field.text("name")
    result: str = field.text("result")
    message: str = field.text("message")
    since_ms: int | None = field.number("sinceTime")
    """Since when it has this result."""
    checked_ms: int | None = field.number("checkedTime")


@dataclass(frozen=True, slots=True)
class NodeDetail(Answer):
    """A node, the jobs on it and, for administrators, the changes made to it."""

    node: NodeView = field.part(NodeView)
    held: Held = field.part(Held)
    checks: tuple[NodeCheck, ...] = field.parts(NodeCheck, "checks")
    history: tuple[dict[str, Any], ...] = field.value("history", convert=lambda found: tuple(map(dict, found or ())))
    document: Document = field.whole()
