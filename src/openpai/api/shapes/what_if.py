"""Reports of the simulator as documents."""

from __future__ import annotations

from collections.abc import Collection

from openpai.simulator.report import Report, VcReport
from openpai.wire import what_if as wire


def replayed(report: Report, visible: Collection[str] | None) -> wire.Replayed:
    """Return one replay; of virtual clusters only the visible ones, or all."""
    return {
        "total": _vc(report.total),
        "virtualClusters": [_vc(vc) for vc in report.vcs if visible is None or vc.name in visible],
        "stepSeconds": report.span_s,
        "gpusUsed": report.used_series,
        "jobsWaiting": report.waiting_series,
    }


def _vc(found: VcReport) -> wire.ReplayedVc:
    return {
        "name": found.name,
        "gpus": found.gpus,
        "jobs": found.jobs,
        "refused": found.refused,
        "neverStarted": found.never_started,
        "waitMeanSeconds": found.delay_s.mean,
        "waitP50Seconds": found.delay_s.p50,
        "waitP95Seconds": found.delay_s.p95,
        "gpusUsed": found.gpus_used,
        "utilisation": found.utilisation,
        "jobsWaiting": found.waiting,
        "gpusStranded": found.stranded_gpus,
        "preemptions": found.preemptions,
        "gpuHoursLost": found.gpu_hours_lost,
    }
