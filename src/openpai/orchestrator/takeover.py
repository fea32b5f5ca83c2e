"""Takes over the lead: rebuilds from store and backend everything that the passes need."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

import structlog

from openpai.lifecycle.model import JobPhase, TaskId
from openpai.orchestrator import gangs
from openpai.orchestrator.applying import adopt, change_admission
from openpai.orchestrator.fairness import learn_accuracy, learn_run_times, learn_use
from openpai.orchestrator.leader import ActiveJobs, Leader
from openpai.orchestrator.node_sync import forget_unneeded, sync_nodes
from openpai.orchestrator.placement_hints import learn_hints, with_hints
from openpai.orchestrator.reconciling import audit
from openpai.ports.store import JobRecord
from openpai.ports.usage import UseRow
from openpai.protocol.errors import Refused
from openpai.scheduler.model import Ask, Gang, Spot

log: Final = structlog.get_logger(__name__)


async def take_over(leader: Leader, records: Sequence[JobRecord], use: Iterable[UseRow]) -> None:
    """Load nodes, promises, grants and ports from the store, then compare them with what the backend sees.

    `records` are the active jobs, read since this server leads; `use` is what users used before.
    """
    leader.active = ActiveJobs()
    await sync_nodes(leader)
    await forget_unneeded(leader)
    learn_use(leader, use)
    await learn_hints(leader)
    await learn_run_times(leader)
    await learn_accuracy(leader)
    # Gangs that hold numbered devices come first; the scheduler then fits the others around them.
    has_none = {record.job.id: not any(slot.devices for slot in record.slots.values()) for record in records}
    for record in sorted(records, key=lambda record: (has_none[record.job.id], -record.priority)):
        _restore(leader, record)
    leader.scheduler.restored()
    for record in records:
        adopt(leader, record)
        if record.job.phase is not JobPhase.HELD:
            # Its priority may have changed, or its admission been lost, while no server ran.
            change_admission(leader, record)
    await audit(leader, at_once=True)


def _restore(leader: Leader, record: JobRecord) -> None:
    """Restore in the scheduler what a job holds."""
    holding = gangs.holding(record)
    for gang in leader.describe(record, holding):
        tasks = holding[gang.id]
        spots = gangs.spots_of(record, gang.id, tasks)
        try:
            leader.scheduler.restore(gang, with_hints(leader, gang.id, spots), _since_ms(record, tasks))
        except Refused as error:
            log.warning("a gang could not be restored exactly as it was", job=record.full_name, error=error.message)
            _restore_devices(leader, gang, spots)
        if record.checkpoint_at_ms is not None:
            leader.scheduler.checkpointed(gang.id, record.checkpoint_at_ms)


def _since_ms(record: JobRecord, ids: Iterable[TaskId]) -> int | None:
    """Return since when a gang holds its resources, as far as it was saved."""
    tasks = (record.job.tasks.get(id_) for id_ in ids)
    times = [task.granted_at_ms for task in tasks if task is not None and task.granted_at_ms is not None]
    return record.job.attempt_started_at_ms or min(times, default=None)


def _restore_devices(leader: Leader, gang: Gang, spots: Sequence[Spot | None]) -> None:
    """Restore a gang with its numbered devices only, which the store guards in any case."""
    bare = replace(gang, asks=tuple(Ask(0, 0, ask.gpus) for ask in gang.asks))
    try:
        leader.scheduler.restore(bare, [spot and spot._replace(placement_hint="") for spot in spots])
    except Refused as error:
        log.warning("a running gang could not be restored in the scheduler", job=gang.job, error=error.message)
