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
    """How much there is of something and how much of it is in use."""

    total: int = amount("total")
    used: int = amount("used")


@dataclass(frozen=True, slots=True)
class NodeView(Answer):
    """A machine and how much of it is in use."""

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
    """Whose jobs hold something there."""
    document: Document = whole()


@dataclass(frozen=True, slots=True)
class Holding(Answer):
    """What one job holds, on a node or wherever another job waits for room."""

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
    """What jobs hold; of those that we may not look at, only how much it is."""

    jobs: tuple[Holding, ...] = parts(Holding, "jobs")
    other_jobs: int = amount("others.jobs")
    other_gpus: int = amount("others.gpus")
    other_cpus: int = amount("others.cpus")
    document: Document = whole()


@dataclass(frozen=True, slots=True)
class NodeDetail(Answer):
    """A machine, the jobs on it, and, for administrators, what was done to it."""

    node: NodeView = part(NodeView)
    held: Held = part(Held)
    history: tuple[dict[str, Any], ...] = value("history", convert=lambda found: tuple(map(dict, found or ())))
    document: Document = whole()
