"""Virtual clusters, and the configuration that guarantees cells to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from openpai.client.model.reading import (
    Answer,
    Document,
    amount,
    as_amount,
    as_text_if_any,
    part,
    text,
    texts,
    value,
    whole,
)


def _counts(found: Any) -> tuple[tuple[str, int], ...]:
    return tuple((str(kind), as_amount(count)) for kind, count in (found or {}).items())


@dataclass(frozen=True, slots=True)
class Resources(Answer):
    """Processors, memory and GPUs."""

    cpus: int = amount("cpu")
    memory_mb: int = amount("memory")
    gpus: int = amount("gpu")


@dataclass(frozen=True, slots=True)
class VirtualCluster(Answer):
    """What a virtual cluster was promised, what of that is healthy, and what its jobs hold."""

    name: str
    total: Resources = part(Resources, "resourcesTotal")
    guaranteed: Resources = part(Resources, "resourcesGuaranteed")
    used: Resources = part(Resources, "resourcesUsed")
    borrowed: Resources = part(Resources, "resourcesBorrowed")
    """Held by its opportunistic jobs over the promise."""
    skus: tuple[tuple[str, int], ...] = value("skus", convert=_counts)
    running: int = amount("runningGangs")
    waiting: int = amount("waitingGangs")
    document: Document = whole()


@dataclass(frozen=True, slots=True)
class ClusterConfig(Answer):
    """What was promised to whom, as it was written and as the scheduler goes by it."""

    promises: str | None = value("promises", convert=as_text_if_any)
    hived: str = text("hived")
    version: int = amount("version")
    problems: tuple[str, ...] = texts("problems")
    """What of it cannot be kept at the moment."""
    demoted: tuple[str, ...] = texts("demoted")
    """Jobs that run on without their guarantee because of the last change."""
    document: Document = whole()
