"""Reports of the simulator as documents."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from openpai.wire import what_if as wire


def replayed(report: Mapping[str, Any], visible: Collection[str] | None) -> wire.Replayed:
    """Return one replay; of virtual clusters only the visible ones, or all."""
    return {
        "total": _vc(report["total"]),
        "virtualClusters": [_vc(vc) for vc in report["vcs"] if visible is None or vc["name"] in visible],
        "stepSeconds": report["span_s"],
        "gpusUsed": report["used_series"],
        "jobsWaiting": report["waiting_series"],
    }


def _vc(found: Mapping[str, Any]) -> wire.ReplayedVc:
    delay = found["delay_s"]
    return {
        "name": found["name"],
        "gpus": found["gpus"],
        "jobs": found["jobs"],
        "refused": found["refused"],
        "neverStarted": found["never_started"],
        "waitMeanSeconds": delay["mean"],
        "waitP50Seconds": delay["p50"],
        "waitP95Seconds": delay["p95"],
        "gpusUsed": found["gpus_used"],
        "utilisation": found["utilisation"],
        "jobsWaiting": found["waiting"],
        "gpusStranded": found["stranded_gpus"],
        "preemptions": found["preemptions"],
        "gpuHoursLost": found["gpu_hours_lost"],
    }
