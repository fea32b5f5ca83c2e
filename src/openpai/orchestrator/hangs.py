"""The pass that finds jobs that hang, names the task to blame, keeps evidence, and restarts them if they ask for it.

Watched are jobs with `extras.hangDetection`, and those of virtual clusters that have a default. What their tasks do
comes from `TaskUsage` and the lengths of their logs. Where tasks are measured in turns, what a task did last is kept
until its next turn. A job that hangs gets one event, and the stacks of all its tasks in their runtime logs; one that
has tasks which cannot be measured gets an event that says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from openpai.lifecycle.facts import Fact, StartRequested, StopRequested
from openpai.lifecycle.hangs import Activity, Hang, Sign, find_hang, find_spinning, may_spin, watched
from openpai.lifecycle.model import AttemptKey, Job, JobPhase, TaskId, TaskPhase
from openpai.lifecycle.rescaling import is_removed
from openpai.orchestrator.changes import JobUpdate, Remark
from openpai.orchestrator.leader import Leader
from openpai.orchestrator.nccl_ras import ask_ras
from openpai.orchestrator.recording import change_jobs
from openpai.ports.shells import Shells
from openpai.ports.store import Event, JobRecord
from openpai.ports.task_usage import KeepsEvidence, TaskUse
from openpai.protocol.placement import HangDetection, hang_detection
from openpai.protocol.wording import duration
from openpai.runtime.inspecting import ProcessSummary
from openpai.system.pauses import let_others_go_first

BY: Final = "openpai"
LOOKS: Final = 3
"""How many looks, in as many rounds of measuring, have to agree that ranks wait for others."""
UNKNOWN_MS: Final = 900_000
"""A job with a task that was not measured for this long is reported as not watched."""
_NO_PROCESS: Final = ProcessSummary()
_NAMED_MAX: Final = 5
_JOBS_AT_ONCE: Final = 100
_TASKS_AT_ONCE: Final = 100


@dataclass(slots=True)
class HangWatch:
    """What the tasks of watched jobs did last, and which hangs were reported."""

    activities: dict[AttemptKey, Activity] = field(default_factory=dict)
    reported: set[AttemptKey] = field(default_factory=set)
    """The tasks of jobs that hang; one leaves it when it is active again."""
    spinning: set[AttemptKey] = field(default_factory=set)
    """Those of them that use processors; one leaves it when it writes or reports again."""
    since_ms: dict[AttemptKey, int] = field(default_factory=dict)
    """Since when tasks run that have not been measured."""
    suspects: dict[str, tuple[int, int, dict[TaskId, str]]] = field(default_factory=dict)
    """By job whose tasks may spin: when it was looked at, or is to be again; how often; and what the tasks wait in."""
    unwatched: set[tuple[str, int]] = field(default_factory=set)
    """The attempts of jobs that were reported as not watched."""


async def watch_hangs(leader: Leader, watch: HangWatch) -> None:
    """Look at the running tasks of all watched jobs once."""
    if leader.measures is None:
        return
    uses = leader.measures.newest()
    defaults = leader.sharing.hang_minutes
    wanted_by_job: dict[str, HangDetection] = {}
    running: dict[str, dict[TaskId, AttemptKey]] = {}
    for number, (id_, record) in enumerate(list(leader.active.records.items()), start=1):
        wanted = hang_detection(record.spec.extras, defaults.get(record.virtual_cluster, 0))
        if wanted is not None:
            wanted_by_job[id_], running[id_] = wanted, _running(record.job)
        if number % _JOBS_AT_ONCE == 0:
            # Thousands of jobs must not delay a decision.
            await let_others_go_first()
    leader.measures.watch(wanted_by_job)
    await _see(leader, watch, [key for keys in running.values() for key in keys.values()], uses)
    seen = watch.activities
    await _report_unwatched(leader, watch, running)
    watch.spinning &= {key for key, task in seen.items() if task.output_at_ms < task.last.at_ms}
    watch.reported &= {key for key, task in seen.items() if task.active_at_ms < task.last.at_ms} | watch.spinning
    for id_, wanted in wanted_by_job.items():
        left = leader.active.records.get(id_)
        if left is not None:
            await _look(leader, watch, left, wanted)


async def _see(
    leader: Leader, watch: HangWatch, running: Sequence[AttemptKey], uses: Mapping[AttemptKey, TaskUse]
) -> None:
    """Learn what was measured of these tasks since the last look; keep what is known of the others."""
    known = watch.activities
    seen = {key: known[key] for key in running if key in known}
    new = [key for key in running if key in uses and (key not in seen or uses[key].sample.at_ms > seen[key].last.at_ms)]
    for start in range(0, len(new), _TASKS_AT_ONCE):
        keys = new[start : start + _TASKS_AT_ONCE]
        for key, size in zip(keys, await leader.logs.sizes(keys), strict=True):
            seen[key] = watched(seen.get(key), _sign(uses[key], size))
    watch.activities = seen


def _running(job: Job) -> dict[TaskId, AttemptKey]:
    """Return the tasks that can hang. What is to end may be saving its work; a restart would undo that."""
    if job.phase is JobPhase.ENDING:
        return {}
    return {
        id_: job.key(task)
        for id_, task in job.tasks.items()
        if task.phase is TaskPhase.RUNNING and not is_removed(job.plan, id_)
    }


async def _report_unwatched(
    leader: Leader, watch: HangWatch, running: Mapping[str, Mapping[TaskId, AttemptKey]]
) -> None:
    """Say once of each job attempt that its hangs are not found, because some of its tasks cannot be measured."""
    now_ms = leader.clock.now_ms()
    unmeasured = [key for keys in running.values() for key in keys.values() if key not in watch.activities]
    watch.since_ms = {key: watch.since_ms.get(key, now_ms) for key in unmeasured}
    watch.unwatched = {one for one in watch.unwatched if one[0] in running}
    late: dict[str, list[AttemptKey]] = {}
    for key, since_ms in watch.since_ms.items():
        if now_ms - since_ms >= UNKNOWN_MS and (key.job, key.job_attempt) not in watch.unwatched:
            late.setdefault(key.job, []).append(key)
    for job, keys in late.items():
        watch.unwatched.add((job, keys[0].job_attempt))
        names = _named([key.task for key in keys])
        message = f"hangs of this job are not found now: task {names} could not be measured for 15 minutes"
        event = Event(job, now_ms, "HangsNotWatched", message, keys[0].job_attempt, None, None, True)
        await change_jobs(leader, {job: JobUpdate((), notes=(event,))})


async def _look(leader: Leader, watch: HangWatch, record: JobRecord, wanted: HangDetection) -> None:
    job = record.job
    keys = _running(job)
    tasks = {id_: found for id_, key in keys.items() if (found := watch.activities.get(key)) is not None}
    if len(tasks) < len(keys) or any(keys[id_] in watch.reported for id_ in tasks):
        # One of them has not been measured yet, or the hang is known.
        return
    hang = find_hang(tasks, wanted.after_ms)
    if hang is not None:
        watch.suspects.pop(job.id, None)
        evidence = await _stacks(leader, tuple(keys.values()))
        ras = await _ask_nccl(leader, keys.values())
    else:
        spinning = await _spinning(leader, watch, job.id, tasks, keys, wanted.after_ms)
        if spinning is None:
            return
        hang, evidence, ras = spinning
    watch.reported |= set(keys.values())
    if hang.spins:
        watch.spinning |= set(keys.values())
    await _report(leader, record, hang, evidence, ras, is_restarted=job.attempt < wanted.restarts)


async def _spinning(
    leader: Leader,
    watch: HangWatch,
    job: str,
    tasks: Mapping[TaskId, Activity],
    keys: Mapping[TaskId, AttemptKey],
    timeout_ms: int,
) -> tuple[Hang, Mapping[AttemptKey, ProcessSummary], str] | None:
    """Look at what the tasks of a job do that may spin; return its hang once several looks agree.

    A look that shows work ends the suspicion until the time has passed once more.
    """
    if not may_spin(tasks, timeout_ms):
        watch.suspects.pop(job, None)
        return None
    now_ms = max(task.last.at_ms for task in tasks.values())
    again_ms, looks, before = watch.suspects.get(job, (0, 0, {}))
    if now_ms <= again_ms:
        return None
    evidence = await _stacks(leader, tuple(keys.values()))
    waiting = {id_: name for id_, key in keys.items() if (name := evidence.get(key, _NO_PROCESS).collective)}
    if looks:
        waiting = {id_: name for id_, name in waiting.items() if before.get(id_) == name}
    ras = await _ask_nccl(leader, keys.values()) if looks + 1 >= LOOKS else ""
    hang = find_spinning(tasks, waiting, ras)
    if looks + 1 >= LOOKS and hang is not None:
        watch.suspects.pop(job, None)
        return hang, evidence, ras
    goes_on = looks + 1 < LOOKS
    watch.suspects[job] = (now_ms, looks + 1, waiting) if goes_on else (now_ms + timeout_ms, 0, {})
    return None


async def _stacks(leader: Leader, keys: tuple[AttemptKey, ...]) -> Mapping[AttemptKey, ProcessSummary]:
    return await leader.backend.keep_stacks(keys) if isinstance(leader.backend, KeepsEvidence) else {}


async def _ask_nccl(leader: Leader, keys: Iterable[AttemptKey]) -> str:
    uses = leader.measures.newest() if leader.measures is not None else {}
    # Where tasks share a network, the port of RAS may be another job's.
    apart = [key for key in keys if key in uses and uses[key].sample.counters.network_sent_bytes is not None]
    return await ask_ras(leader.backend, apart) if apart and isinstance(leader.backend, Shells) else ""


async def _report(
    leader: Leader,
    record: JobRecord,
    hang: Hang,
    evidence: Mapping[AttemptKey, ProcessSummary],
    ras: str,
    *,
    is_restarted: bool,
) -> None:
    job, now_ms = record.job, leader.clock.now_ms()
    message = describe(hang, job.plan.tasks_total)
    first = hang.blamed[0] if hang.blamed else None
    key = job.key(job.tasks[first]) if first is not None else None
    if key is not None and (text := evidence.get(key, _NO_PROCESS).text):
        message += f"; {text}"
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
    of_what = "output or progress" if hang.spins else "output, progress, or use of a processor or GPU"
    quiet = f"for {duration(hang.for_ms / 1000)} without {of_what}"
    if not hang.blamed:
        return f"all {tasks} tasks have run {quiet}; {hang.reason}"
    return f"task {_named(hang.blamed)} hangs, {quiet}: {hang.reason}"


def _named(tasks: Sequence[TaskId]) -> str:
    names = ", ".join(f"{id_.role}-{id_.index}" for id_ in tasks[:_NAMED_MAX])
    return f"{names} and {len(tasks) - _NAMED_MAX} more" if len(tasks) > _NAMED_MAX else names


def _sign(use: TaskUse, size: int) -> Sign:
    sample = use.sample
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
