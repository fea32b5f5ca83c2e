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
    flag,
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
    """The guaranteed, healthy and used resources of a virtual cluster."""

    name: str
    total: Resources = part(Resources, "resourcesTotal")
    guaranteed: Resources = part(Resources, "resourcesGuaranteed")
    used: Resources = part(Resources, "resourcesUsed")
    borrowed: Resources = part(Resources, "resourcesBorrowed")
    """Held by its opportunistic jobs, in addition to the guarantee."""
    lent: Resources = part(Resources, "resourcesLent")
    """Held by jobs of others out of its promise, until it needs that back."""
    skus: tuple[tuple[str, int], ...] = value("skus", convert=_counts)
    running: int = amount("runningGangs")
    waiting: int = amount("waitingGangs")
    order: str = text("order")
    """The order of its queue: `fair`, `fifo` or `shortest`."""
    is_interruptible: bool = flag("interruptible")
    """Whether its jobs may be interrupted unless they say otherwise."""
    document: Document = whole()


@dataclass(frozen=True, slots=True)
class ClusterConfig(Answer):
    """The guarantees of virtual clusters, as written and as the scheduler uses them."""

    promises: str | None = value("promises", convert=as_text_if_any)
    hived: str = text("hived")
    version: int = amount("version")
    problems: tuple[str, ...] = texts("problems")
    """Guarantees that cannot be kept at the moment."""
    demoted: tuple[str, ...] = texts("demoted")
    """Jobs that lost their guarantee in the last change; they continue to run."""
    document: Document = whole()
