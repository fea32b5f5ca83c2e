"""The pass that finds jobs which hold GPUs and do not use them.

It only says for how long, as the value `pai_job_idle_seconds`: rules of alerts show it, warn the owner, and stop the
job where the policy of its virtual cluster says so. A job that cannot go on hangs, and never counts as idle.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final

from openpai.lifecycle.idleness import Gpu, Rest, Sign, Verdict, judge, rested
from openpai.lifecycle.model import AttemptKey, TaskPhase
from openpai.orchestrator.leader import Leader
from openpai.ports.task_usage import TaskUse
from openpai.protocol.errors import PaiError

EVERY_S: Final = 15.0
SHOWN_S: Final = 60.0
"""A job that is idle for less is not shown."""


@dataclass(slots=True)
class IdleWatch:
    """What is known of the running tasks that have GPUs."""

    rests: dict[AttemptKey, Rest] = field(default_factory=dict)


async def watch_idle(leader: Leader, watch: IdleWatch) -> None:
    """Look at all running tasks with GPUs once."""
    if leader.measures is None:
        return
    uses = leader.measures.newest()
    rests: dict[AttemptKey, Rest] = {}
    for key, use in uses.items():
        if use.sample.devices:
            rests[key] = rested(watch.rests.get(key), await _sign(leader, key, use))
    watch.rests = rests
    idle: dict[str, float] = {}
    for id_, record in tuple(leader.active.records.items()):
        keys = [
            record.job.key(task)
            for task_id, task in record.job.tasks.items()
            if task.phase is TaskPhase.RUNNING and (slot := record.slots.get(task_id)) is not None and slot.gpus
        ]
        verdict, seconds = judge(rests, keys)
        if verdict is Verdict.IDLE and seconds >= SHOWN_S:
            idle[id_] = seconds
    leader.alerts.idle_s = idle


async def _sign(leader: Leader, key: AttemptKey, use: TaskUse) -> Sign:
    sample, counters = use.sample, use.sample.counters
    size = 0
    for stream in ("stdout", "stderr"):
        try:
            size += (await leader.logs.read(key, stream, 0, 0)).size
        except (PaiError, OSError):
            continue
    await asyncio.sleep(0)
    moved = (
        counters.disk_read_bytes, counters.disk_written_bytes,
        counters.network_received_bytes, counters.network_sent_bytes,
    )  # fmt: skip
    known = [each for each in moved if each is not None]
    return Sign(
        sample.at_ms,
        tuple(Gpu(each.busy_percent, each.tensor_percent, each.power_w, each.power_limit_w) for each in sample.devices),
        counters.cpu_s,
        sum(known) if known else None,
        sample.progress.step if sample.progress else None,
        sample.progress_at_ms,
        size,
    )
