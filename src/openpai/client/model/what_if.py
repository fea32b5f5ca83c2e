"""Replays of the past with other promises."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from openpai.client.model.reading import Answer, Document, amount, mapping, part, parts, real, text, texts, whole


@dataclass(frozen=True, slots=True)
class ReplayedVc(Answer):
    """What the replay says of one virtual cluster, or of all together."""

    name: str = text("name")
    gpus: int = amount("gpus")
    jobs: int = amount("jobs")
    refused: int = amount("refused")
    never_started: int = amount("neverStarted")
    wait_mean_s: float = real("waitMeanSeconds")
    wait_p50_s: float = real("waitP50Seconds")
    wait_p95_s: float = real("waitP95Seconds")
    gpus_used: float = real("gpusUsed")
    utilisation: float = real("utilisation")
    jobs_waiting: float = real("jobsWaiting")
    gpus_stranded: float = real("gpusStranded")
    preemptions: int = amount("preemptions")
    gpu_hours_lost: float = real("gpuHoursLost")


@dataclass(frozen=True, slots=True)
class Replayed(Answer):
    """One replay."""

    total: ReplayedVc = part(ReplayedVc, "total", is_needed=True)
    virtual_clusters: tuple[ReplayedVc, ...] = parts(ReplayedVc, "virtualClusters", is_needed=True)
    document: Document = whole()


@dataclass(frozen=True, slots=True)
class WhatIf(Answer):
    """The past with the promises of now and with others."""

    from_ms: int = amount("fromTime")
    to_ms: int = amount("toTime")
    jobs: int = amount("jobs")
    left_out: Mapping[str, Any] = mapping("leftOut")
    notes: tuple[str, ...] = texts("notes")
    now: Replayed = part(Replayed, "now", is_needed=True)
    then: Replayed = part(Replayed, "then", is_needed=True)
    document: Document = whole()
