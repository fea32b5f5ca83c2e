"""Small clusters, jobs and replays to try things on."""

from __future__ import annotations

from openpai.scheduler.config.model import HivedConfig
from openpai.simulator.cluster import generated
from openpai.simulator.trace import Trace, TraceJob, in_order

MINUTE = 60_000


def cluster(nodes: int, **shares: float) -> HivedConfig:
    """Return a cluster of nodes of eight GPUs, shared by virtual clusters in proportion."""
    return generated(nodes, shares or {"a": 1})


def job(
    name: str, at_min: float, run_min: float, gpus: int, vc: str = "a", priority: int = 0, tasks: int | None = None
) -> TraceJob:
    """Return a job with times in minutes."""
    times = round(at_min * MINUTE), round(run_min * MINUTE)
    return TraceJob(name, vc, *times, gpus, tasks=tasks, priority=priority)


def trace(*jobs: TraceJob) -> Trace:
    """Return a trace of these jobs."""
    return in_order(jobs, {})
