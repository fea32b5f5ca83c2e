"""The pass that finds jobs which hold GPUs and do not use them.

It says for how long, as the value `pai_job_idle_seconds`: rules of alerts show it, warn the owner, and stop the
job where the policy of its virtual cluster says so. The idle GPU time counts in reports as wasted. A job that cannot go
on hangs, and never counts as idle.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from openpai.lifecycle.idleness import Gpu, Rest, Sign, Verdict, judge, rested
from openpai.lifecycle.model import AttemptKey, TaskPhase
from openpai.orchestrator.leader import Leader
from openpai.ports.task_usage import DeviceUse, TaskUse
from openpai.ports.usage import LentUse
from openpai.system.pauses import let_others_go_first

EVERY_S: Final = 15.0
SHOWN_S: Final = 60.0
"""A job that is idle for less is not shown."""
_JOBS_AT_ONCE: Final = 100
"""How many jobs are looked at before others have their turn."""
_TASKS_AT_ONCE: Final = 100
TOGETHER_MS: Final = 1000
TIMES_MAX: Final = 1000


@dataclass(slots=True)
class IdleWatch:
    """What is known of the running tasks that have GPUs."""

    rests: dict[AttemptKey, Rest] = field(default_factory=dict)
    counted_s: dict[str, float] = field(default_factory=dict)
    """By job that is idle, for how many seconds of it reports have its GPUs."""


async def watch_idle(leader: Leader, watch: IdleWatch) -> None:
    """Look at all running tasks with GPUs once."""
    if leader.measures is None:
        return
    uses = leader.measures.newest()
    rests: dict[AttemptKey, Rest] = {}
    with_gpus = [key for key, use in uses.items() if use.sample.devices]
    for start in range(0, len(with_gpus), _TASKS_AT_ONCE):
        keys = with_gpus[start : start + _TASKS_AT_ONCE]
        for key, size in zip(keys, await leader.logs.sizes(keys), strict=True):
            rests[key] = rested(watch.rests.get(key), _sign(uses[key], size))
    watch.rests = rests
    idle: dict[str, float] = {}
    counted_s, watch.counted_s = watch.counted_s, {}
    measured = {key.job for key in rests}
    for number, (id_, record) in enumerate(tuple(leader.active.records.items()), start=1):
        if number % _JOBS_AT_ONCE == 0:
            await let_others_go_first()
        if id_ not in measured:
            # It counts as one that works.
            continue
        keys = [
            record.job.key(task)
            for task_id, task in record.job.tasks.items()
            if task.phase is TaskPhase.RUNNING and (slot := record.slots.get(task_id)) is not None and slot.gpus
        ]
        verdict, seconds = judge(rests, keys)
        if verdict is Verdict.IDLE and seconds >= SHOWN_S:
            idle[id_] = seconds
            # Less than what was counted: it was at work in between.
            more_s = seconds - (known if (known := counted_s.get(id_, 0.0)) <= seconds else 0.0)
            gpus = sum(record.slots[key.task].gpus for key in keys)
            leader.uncounted.append(LentUse(record.virtual_cluster, record.user, idle_gpu_ms=gpus * more_s * 1000))
            watch.counted_s[id_] = seconds
            _note(leader, (id_, record.job.attempt), int(more_s * 1000))
    current = {(id_, record.job.attempt) for id_, record in leader.active.records.items()}
    leader.idle_times = {key: times for key, times in leader.idle_times.items() if key in current}
    leader.alerts.idle_s = idle


def _note(leader: Leader, attempt: tuple[str, int], past_ms: int) -> None:
    """Remember that an attempt was idle until now, in one piece with the last time if that ended then."""
    times, now_ms = leader.idle_times.setdefault(attempt, []), leader.clock.now_ms()
    began_ms = now_ms - past_ms
    if times and began_ms - times[-1][1] <= TOGETHER_MS:
        began_ms = times.pop()[0]
    times.append((began_ms, now_ms))
    del times[:-TIMES_MAX]


def _sign(use: TaskUse, size: int) -> Sign:
    sample, counters = use.sample, use.sample.counters
    moved = (
        counters.disk_read_bytes, counters.disk_written_bytes,
        counters.network_received_bytes, counters.network_sent_bytes,
    )  # fmt: skip
    known = [each for each in moved if each is not None]
    return Sign(
        sample.at_ms,
        tuple(_gpu(each) for each in sample.devices),
        counters.cpu_s,
        sum(known) if known else None,
        sample.progress.step if sample.progress else None,
        sample.progress_at_ms,
        size,
    )


def _gpu(use: DeviceUse) -> Gpu:
    return Gpu(
        use.busy_percent, use.tensor_percent, use.power_w, use.power_limit_w, use.memory_bytes, use.is_slice
    )  # fmt: skip
