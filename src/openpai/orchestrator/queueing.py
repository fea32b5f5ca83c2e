"""The queue of a virtual cluster: which jobs wait there and why, and a job's place before or after another one.

A place is kept as ranks of jobs, which are stored with them, so it survives a restart and a change of the order.
"""

from __future__ import annotations

from dataclasses import replace

from openpai.orchestrator import gangs
from openpai.orchestrator.changes import JobUpdate, Remark
from openpai.orchestrator.leader import Leader, LeaderCommands
from openpai.orchestrator.recording import change_jobs
from openpai.ports.queues import Beside, QueuedJob
from openpai.protocol.errors import Refused
from openpai.protocol.job import DEFAULT_VIRTUAL_CLUSTER
from openpai.scheduler.config.editing import no_virtual_cluster
from openpai.scheduler.model import Queued
from openpai.scheduler.queue.places import ranks_beside


class QueueCommands(LeaderCommands):
    """The part of `ports.platform.Platform` about the queues of virtual clusters."""

    async def queue(self, virtual_cluster: str, limit: int) -> tuple[tuple[QueuedJob, ...], int]:
        leader = await self._leading()
        if virtual_cluster not in leader.sharing.arrangement.virtual_clusters | {DEFAULT_VIRTUAL_CLUSTER}:
            raise no_virtual_cluster(virtual_cluster)
        found = leader.scheduler.queue(virtual_cluster, limit)
        shown = (_job(leader, place, each) for place, each in enumerate(found[:limit], 1))
        return tuple(each for each in shown if each is not None), len(found)

    async def move_beside(self, user: str, name: str, beside: Beside, by: str) -> None:
        async with self._as_leader() as leader:
            moved = f"{user}~{name}"
            waiting = [each for each in leader.active.records.values() if each.full_name == moved]
            if not waiting:
                raise Refused("ConflictJobError", f"job {moved} does not wait", "only jobs that wait have a place")
            queue = leader.scheduler.queue(waiting[0].virtual_cluster)
            ranks = ranks_beside(queue, moved, beside.job, is_before=beside.is_before)
            ids = {each.job: gangs.job_of(each.gang.id) for each in queue}
            where = f"{'before' if beside.is_before else 'after'} {beside.job}"
            own = Remark("Moved", f"{by} moved it {where} in the queue", is_warning=False)
            other = Remark("RankChanged", f"{by} moved {moved} in the queue; this job stays ahead", is_warning=False)
            await change_jobs(
                leader,
                {ids[job]: _with_rank(rank, own if job == moved else other) for job, rank in ranks.items()},
            )


def _with_rank(rank: int, remark: Remark) -> JobUpdate:
    return JobUpdate(amend=lambda found: replace(found, rank=rank), remark=remark)


def _job(leader: Leader, place: int, queued: Queued) -> QueuedJob | None:
    record = leader.active.records.get(gangs.job_of(queued.gang.id))
    if record is None:
        return None
    return QueuedJob(
        place=place,
        user=record.user,
        name=record.name,
        virtual_cluster=record.virtual_cluster,
        is_private=record.is_private,
        submitted_at_ms=record.job.submitted_at_ms,
        priority_class=record.priority_class,
        priority=record.priority,
        rank=record.rank,
        tasks=len(queued.gang.asks) * queued.gangs,
        gpus=sum(ask.gpus for ask in queued.gang.asks) * queued.gangs,
        cpus=sum(ask.cpus for ask in queued.gang.asks) * queued.gangs,
        is_movable=queued.is_movable,
        wait=queued.wait,
    )
