"""Machines as the server tells of them."""

from __future__ import annotations

from dataclasses import dataclass, field

from openpai.client.model.reading import Document, amount, text, texts


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
    told: str
    gpu_model: str
    cpus: Amount
    memory_mb: Amount
    gpus: Amount
    tasks: int
    is_drained: bool
    drained_because: str
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
            told=text(document.get("told")),
            gpu_model=text(document.get("gpuModel")),
            cpus=Amount.read(document.get("cpus")),
            memory_mb=Amount.read(document.get("memoryMB")),
            gpus=Amount.read(document.get("gpus")),
            tasks=amount(document.get("tasks")),
            is_drained=bool(document.get("drained")),
            drained_because=text(document.get("drainedBecause")),
            bad_devices=tuple(amount(device) for device in document.get("badDevices") or ()),
            bad_because=text(document.get("badBecause")),
            virtual_clusters=texts(document.get("virtualClusters")),
            document=document,
        )
