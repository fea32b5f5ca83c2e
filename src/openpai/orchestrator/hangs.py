"""The pass that finds jobs that hang, names the task to blame, keeps evidence, and restarts them if they ask for it.

Watched are jobs with `extras.hangDetection`, and those of virtual clusters that have a default. What their tasks do
comes from `TaskUsage` and the lengths of their logs. A job that hangs gets one event, and the stacks of all its tasks
in their runtime logs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from openpai.lifecycle.facts import Fact, StartRequested, StopRequested
from openpai.lifecycle.hangs import Activity, Hang, Sign, find_hang, watched
from openpai.lifecycle.model import AttemptKey, TaskPhase
from openpai.orchestrator.changes import JobUpdate, Remark
from openpai.orchestrator.leader import Leader
from openpai.orchestrator.nccl_ras import ask_ras
from openpai.orchestrator.recording import change_jobs
from openpai.ports.shells import Shells
from openpai.ports.store import Event, JobRecord
from openpai.ports.task_usage import KeepsEvidence, TaskUse
from openpai.protocol.errors import PaiError
from openpai.protocol.placement import HangDetection, hang_detection

BY: Final = "openpai"
_NAMED_MAX: Final = 5


@dataclass(slots=True)
class HangWatch:
    """What the tasks of watched jobs did last, and which hangs were reported."""

    activities: dict[AttemptKey, Activity] = field(default_factory=dict)
    reported: set[AttemptKey] = field(default_factory=set)
    """The tasks of jobs that hang; one leaves it when it is active again."""


async def watch_hangs(leader: Leader, watch: HangWatch) -> None:
    """Look at the running tasks of all watched jobs once."""
    if leader.measures is None:
        return
    uses = leader.measures.newest()
    defaults = leader.sharing.hang_minutes
    asked = {
        id_: wanted
        for id_, record in leader.active.records.items()
        if (wanted := hang_detection(record.spec.extras, defaults.get(record.virtual_cluster, 0))) is not None
    }
    leader.measures.watch(asked)
    seen = {}
    for key, use in uses.items():
        if key.job in asked:
            seen[key] = watched(watch.activities.get(key), await _sign(leader, key, use))
    watch.activities = seen
    watch.reported &= {key for key, task in seen.items() if task.active_at_ms < task.last.at_ms}
    for id_, wanted in asked.items():
        record = leader.active.records.get(id_)
        if record is not None:
            await _look(leader, watch, record, wanted)


async def _look(leader: Leader, watch: HangWatch, record: JobRecord, wanted: HangDetection) -> None:
    job = record.job
    keys = {id_: job.key(task) for id_, task in job.tasks.items() if task.phase is TaskPhase.RUNNING}
    tasks = {id_: found for id_, key in keys.items() if (found := watch.activities.get(key)) is not None}
    if len(tasks) < len(keys) or any(keys[id_] in watch.reported for id_ in tasks):
        # One of them has not been measured yet, or the hang is known.
        return
    hang = find_hang(tasks, max((task.last.at_ms for task in tasks.values()), default=0), wanted.after_ms)
    if hang is None:
        return
    watch.reported |= set(keys.values())
    evidence: Mapping[AttemptKey, str] = {}
    if isinstance(leader.backend, KeepsEvidence):
        evidence = await leader.backend.keep_stacks(tuple(keys.values()))
    ras = ""
    uses = leader.measures.newest() if leader.measures is not None else {}
    # Where tasks share a network, the port of RAS may be another job's.
    apart = [key for key in keys.values() if key in uses and uses[key].sample.counters.network_sent_bytes is not None]
    if apart and isinstance(leader.backend, Shells):
        ras = await ask_ras(leader.backend, apart)
    await _report(leader, record, hang, evidence, ras, is_restarted=job.attempt < wanted.restarts)


async def _report(
    leader: Leader, record: JobRecord, hang: Hang, evidence: Mapping[AttemptKey, str], ras: str, *, is_restarted: bool
) -> None:
    job, now_ms = record.job, leader.clock.now_ms()
    message = describe(hang, len(job.tasks))
    first = hang.blamed[0] if hang.blamed else None
    key = job.key(job.tasks[first]) if first is not None else None
    if key is not None and (summary := evidence.get(key)):
        message += f"; {summary}"
    if evidence:
        message += "; the stacks of its tasks are in their runtime logs"
    if ras:
        message += f"; NCCL reports: {ras}"
    slot = record.slots.get(first) if first is not None else None
    event = Event(job.id, now_ms, "JobHangs", message, job.attempt, key, slot.node if slot else None, True)
    facts: tuple[Fact, ...] = ()
    remark = None
    if is_restarted:
        reason = f"it hung: {message}"
        facts = (StopRequested(now_ms, BY, reason, is_restart=True), StartRequested(now_ms, BY, reason))
        remark = Remark("RestartRequested", "the platform restarts the job because it hangs")
    await change_jobs(leader, {job.id: JobUpdate(facts, remark=remark, notes=(event,))})


def describe(hang: Hang, tasks: int) -> str:
    """Return a sentence about a hang."""
    quiet = f"for {hang.for_ms / 1000:.0f} s without output, progress, or use of a processor or GPU"
    if not hang.blamed:
        return f"all {tasks} tasks have run {quiet}; {hang.reason}"
    names = ", ".join(f"{id_.role}-{id_.index}" for id_ in hang.blamed[:_NAMED_MAX])
    more = f" and {len(hang.blamed) - _NAMED_MAX} more" if len(hang.blamed) > _NAMED_MAX else ""
    return f"task {names}{more} hangs, {quiet}: {hang.reason}"


async def _sign(leader: Leader, key: AttemptKey, use: TaskUse) -> Sign:
    sample = use.sample
    size = 0
    for stream in ("stdout", "stderr"):
        try:
            size += (await leader.logs.read(key, stream, 0, 0)).size
        except (PaiError, OSError):
            continue
    await asyncio.sleep(0)
    shares = [gpu.power_w / gpu.power_limit_w for gpu in sample.devices if gpu.power_w and gpu.power_limit_w]
    return Sign(
        sample.at_ms,
        sample.counters.cpu_s,
        size,
        sample.progress.step if sample.progress else None,
        sample.progress_at_ms,
        sample.stopped > 0,
        max(shares, default=0.0),
        max((gpu.tensor_percent for gpu in sample.devices if gpu.tensor_percent), default=0.0),
    )
