"""Nodes, and what jobs hold on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from openpai.client.model.reading import (
    Answer,
    Document,
    amount,
    amounts,
    flag,
    number,
    part,
    parts,
    text,
    texts,
    value,
    whole,
)


@dataclass(frozen=True, slots=True)
class Amount(Answer):
    """Total and used amount of a resource."""

    total: int = amount("total")
    used: int = amount("used")


@dataclass(frozen=True, slots=True)
class NodeView(Answer):
    """A node and how much of it is in use."""

    name: str = text("name")
    address: str = text("address")
    is_healthy: bool = flag("healthy")
    message: str = text("message")
    gpu_model: str = text("gpuModel")
    cpus: Amount = part(Amount, "cpus")
    memory_mb: Amount = part(Amount, "memoryMB")
    gpus: Amount = part(Amount, "gpus")
    tasks: int = amount("tasks")
    is_drained: bool = flag("drained")
    drained_because: str = text("drainedBecause")
    drain_deadline_ms: int | None = number("drainDeadline")
    """When jobs that still run there are put back into the queue."""
    bad_devices: tuple[int, ...] = amounts("badDevices")
    bad_because: str = text("badBecause")
    virtual_clusters: tuple[str, ...] = texts("virtualClusters")
    """Virtual clusters whose jobs hold resources there."""
    document: Document = whole()


@dataclass(frozen=True, slots=True)
class Holding(Answer):
    """The resources that one job holds, on a node or where another job waits."""

    job: str = text("job")
    virtual_cluster: str = text("virtualCluster")
    tasks: int = amount("tasks")
    gpus: int = amount("gpus")
    cpus: int = amount("cpus")
    devices: tuple[int, ...] = amounts("devices")
    started_at_ms: int | None = number("startedTime")
    ends_at_ms: int | None = number("endsTime")
    """When its time limit ends it, if it has one."""
    is_ending: bool = flag("ending")


@dataclass(frozen=True, slots=True)
class Held(Answer):
    """The resources that jobs hold; for jobs that the user may not see, only the sums."""

    jobs: tuple[Holding, ...] = parts(Holding, "jobs")
    other_jobs: int = amount("others.jobs")
    other_gpus: int = amount("others.gpus")
    other_cpus: int = amount("others.cpus")
    document: Document = whole()


@dataclass(frozen=True, slots=True)
class NodeDetail(Answer):
    """A node, the jobs on it and, for administrators, the changes made to it."""

    node: NodeView = part(NodeView)
    held: Held = part(Held)
    history: tuple[dict[str, Any], ...] = value("history", convert=lambda found: tuple(map(dict, found or ())))
    document: Document = whole()
