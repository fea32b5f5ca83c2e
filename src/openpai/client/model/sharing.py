"""Virtual clusters, what they were promised, and how the queue is kept fair, as the server tells of them."""

from __future__ import annotations

from dataclasses import dataclass, field

from openpai.client.model.reading import Document, amount, number, text, texts


@dataclass(frozen=True, slots=True)
class Resources:
    """Processors, memory and GPUs."""

    cpus: int
    memory_mb: int
    gpus: int

    @classmethod
    def read(cls, document: Document | None) -> Resources:
        """Return resources; nothing said means none."""
        document = document or {}
        return cls(amount(document.get("cpu")), amount(document.get("memory")), amount(document.get("gpu")))


@dataclass(frozen=True, slots=True)
class VirtualCluster:
    """What a virtual cluster was promised, what of that is healthy, and what its jobs hold."""

    name: str
    total: Resources
    guaranteed: Resources
    used: Resources
    borrowed: Resources
    """Held by its opportunistic jobs beyond the promise."""
    skus: tuple[tuple[str, int], ...]
    running: int
    waiting: int
    document: Document = field(repr=False, compare=False)

    @classmethod
    def read(cls, name: str, document: Document) -> VirtualCluster:
        """Return one virtual cluster of the server's map."""
        return cls(
            name=name,
            total=Resources.read(document.get("resourcesTotal")),
            guaranteed=Resources.read(document.get("resourcesGuaranteed")),
            used=Resources.read(document.get("resourcesUsed")),
            borrowed=Resources.read(document.get("resourcesBorrowed")),
            skus=tuple((str(kind), amount(count)) for kind, count in (document.get("skus") or {}).items()),
            running=amount(document.get("runningGangs")),
            waiting=amount(document.get("waitingGangs")),
            document=document,
        )


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """What was promised to whom, as it was written and as the scheduler goes by it."""

    promises: str | None
    hived: str
    version: int
    problems: tuple[str, ...]
    """What of it cannot be kept at the moment."""
    demoted: tuple[str, ...]
    """Jobs that run on without their guarantee because of the last change."""
    document: Document = field(repr=False, compare=False)

    @classmethod
    def read(cls, document: Document) -> ClusterConfig:
        """Return the configuration; an answer to a change leaves HiveD's text out."""
        promises = document.get("promises")
        return cls(
            promises=None if promises is None else str(promises),
            hived=text(document.get("hived")),
            version=amount(document.get("version")),
            problems=texts(document.get("problems")),
            demoted=texts(document.get("demoted")),
            document=document,
        )


@dataclass(frozen=True, slots=True)
class Estimate:
    """When something may start: between these times, None where nobody can say, and what the guess rests on."""

    earliest_ms: int | None
    latest_ms: int | None
    basis: str

    @classmethod
    def read(cls, document: Document | None) -> Estimate | None:
        """Return an estimate, None when nobody worked one out."""
        if document is None:
            return None
        earliest, latest = number(document.get("earliestTime")), number(document.get("latestTime"))
        return cls(earliest, latest, text(document.get("basis")))
