"""The jobs that a cluster has run, as a trace for the simulator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from typing import Final

from openpai.ports.queries import JobFilter, JobQueries, JobRow
from openpai.protocol.placement import CLASS_DEFAULT, PRIORITY_OF
from openpai.simulator.trace import Trace, TraceJob, in_order

JOBS_MAX: Final = 50_000
_PAGE: Final = 5_000


async def history(
    jobs: JobQueries, virtual_clusters: Collection[str], from_ms: int, now_ms: int
) -> tuple[Trace, dict[str, int]]:
    """Return the jobs with GPUs that were submitted since a time and have run, and how many were left out, by reason.

    A job runs in the trace from its first start to its end, or until now; of too many the newest are taken.
    """
    found: list[TraceJob] = []
    left_out: Counter[str] = Counter()
    for is_archived in (False, True):
        where = JobFilter(submitted_from_ms=from_ms, submitted_to_ms=now_ms, is_archived=is_archived, limit=_PAGE)
        while len(found) < JOBS_MAX:
            page = await jobs.jobs(where, count=False)
            for row in page.jobs:
                reason = _left_out(row, virtual_clusters)
                if reason:
                    left_out[reason] += 1
                else:
                    found.append(_traced(row, now_ms))
            if page.end is None or not page.jobs:
                break
            where = replace(where, after=page.end)
    if len(found) > JOBS_MAX:
        left_out["older than the newest 50,000"] = len(found) - JOBS_MAX
    return in_order(found[:JOBS_MAX], {}), dict(left_out)


def _left_out(row: JobRow, virtual_clusters: Collection[str]) -> str:
    if not row.gpus_total:
        return "without GPUs"
    if row.started_at_ms is None:
        return "never started"
    return "" if row.virtual_cluster in virtual_clusters else "their virtual cluster is gone"


def _traced(row: JobRow, now_ms: int) -> TraceJob:
    started_ms = row.started_at_ms or 0
    ended_ms = now_ms if row.ended_at_ms is None else row.ended_at_ms
    return TraceJob(
        id=row.id,
        virtual_cluster=row.virtual_cluster,
        submitted_ms=row.submitted_at_ms,
        run_ms=max(ended_ms - started_ms, 1000),
        gpus=row.gpus_total,
        user=row.user,
        tasks=row.tasks_total if 1 <= row.tasks_total <= row.gpus_total else None,
        priority=PRIORITY_OF[row.priority_class or CLASS_DEFAULT],
    )
