"""Machines as the server tells of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from openpai.client.model.reading import Document, amount, number, text, texts


@dataclass(frozen=True, slots=True)
class Amount:
    """How much there is of something and how much of it is in use."""

    total: int
    used: int

    @classmethod
    def read(cls, document: Document | None) -> Amount:
        """Return an amount; nothing said means nothing there."""
        document = document or {}
        return cls(amount(document.get("total")), amount(document.get("used")))


@dataclass(frozen=True, slots=True)
class NodeView:
    """A machine and how much of it is in use."""

    name: str
    address: str
    is_healthy: bool
    message: str
    gpu_model: str
    cpus: Amount
    memory_mb: Amount
    gpus: Amount
    tasks: int
    is_drained: bool
    drained_because: str
    drain_deadline_ms: int | None
    """When jobs that still run there are put back into the queue."""
    bad_devices: tuple[int, ...]
    bad_because: str
    virtual_clusters: tuple[str, ...]
    """Whose jobs hold something there."""
    document: Document = field(repr=False, compare=False)

    @classmethod
    def read(cls, document: Document) -> NodeView:
        """Return one machine of the server's list."""
        return cls(
            name=text(document.get("name")),
            address=text(document.get("address")),
            is_healthy=bool(document.get("healthy")),
            message=text(document.get("message")),
            gpu_model=text(document.get("gpuModel")),
            cpus=Amount.read(document.get("cpus")),
            memory_mb=Amount.read(document.get("memoryMB")),
            gpus=Amount.read(document.get("gpus")),
            tasks=amount(document.get("tasks")),
            is_drained=bool(document.get("drained")),
            drained_because=text(document.get("drainedBecause")),
            drain_deadline_ms=number(document.get("drainDeadline")),
            bad_devices=tuple(amount(device) for device in document.get("badDevices") or ()),
            bad_because=text(document.get("badBecause")),
            virtual_clusters=texts(document.get("virtualClusters")),
            document=document,
        )


@dataclass(frozen=True, slots=True)
class Holding:
    """What one job holds, on a node or wherever another job waits for room."""

    job: str
    virtual_cluster: str
    tasks: int
    gpus: int
    cpus: int
    devices: tuple[int, ...]
    started_at_ms: int | None
    ends_at_ms: int | None
    """When its time limit ends it, if it has one."""
    is_ending: bool

    @classmethod
    def read(cls, document: Document) -> Holding:
        """Return what a job holds."""
        return cls(
            job=text(document.get("job")),
            virtual_cluster=text(document.get("virtualCluster")),
            tasks=amount(document.get("tasks")),
            gpus=amount(document.get("gpus")),
            cpus=amount(document.get("cpus")),
            devices=tuple(amount(device) for device in document.get("devices") or ()),
            started_at_ms=number(document.get("startedTime")),
            ends_at_ms=number(document.get("endsTime")),
            is_ending=bool(document.get("ending")),
        )


@dataclass(frozen=True, slots=True)
class Held:
    """What jobs hold; of those that we may not look at, only how much it is."""

    jobs: tuple[Holding, ...]
    other_jobs: int
    other_gpus: int
    other_cpus: int
    document: Document = field(repr=False, compare=False)

    @classmethod
    def read(cls, document: Document | None) -> Held:
        """Return what jobs hold; nothing said means nothing held."""
        document = document or {}
        others = document.get("others") or {}
        return cls(
            jobs=tuple(map(Holding.read, document.get("jobs") or ())),
            other_jobs=amount(others.get("jobs")),
            other_gpus=amount(others.get("gpus")),
            other_cpus=amount(others.get("cpus")),
            document=document,
        )


@dataclass(frozen=True, slots=True)
class NodeDetail:
    """A machine, the jobs on it, and, for administrators, what was done to it."""

    node: NodeView
    held: Held
    history: tuple[dict[str, Any], ...]
    document: Document = field(repr=False, compare=False)

    @classmethod
    def read(cls, document: Document) -> NodeDetail:
        """Return one machine in full."""
        history = tuple(dict(one) for one in document.get("history") or ())
        return cls(NodeView.read(document), Held.read(document), history, document)
