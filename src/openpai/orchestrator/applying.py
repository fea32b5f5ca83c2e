"""Applies saved changes of jobs to the leader's memory: active jobs, scheduler, port book, and work for the next turn.

All of this is derived from saved changes. If a server dies before it applies them, the next one derives it again.
"""

from __future__ import annotations

from collections.abc import Collection

from openpai.lifecycle.model import Job, JobPhase, TaskId, TaskPhase, Verdict
from openpai.orchestrator import gangs
from openpai.orchestrator.leader import DueOutputs, Leader
from openpai.orchestrator.sweeps import key_of, waiting_name
from openpai.ports.store import JobRecord
from openpai.protocol.outputs import outputs_of


def adopt(leader: Leader, record: JobRecord) -> None:
    """Add a job to the active jobs, its waiting gangs to the scheduler, and its ports to the port book."""
    job = record.job
    leader.active.records[job.id] = record
    leader.active.act_on(job)
    if job.phase is JobPhase.HELD:
        leader.active.hold(record)
    leader.nudges.work.set()
    for gang in leader.describe(record, gangs.waiting(job)):
        leader.scheduler.add(gang)
    for slot in record.slots.values():
        leader.ports.mark(slot.address, [port for ports in slot.ports.values() for port in ports])
    is_backing_off = any(task.phase is TaskPhase.BACKING_OFF for task in job.tasks.values())
    if job.retry_at_ms or is_backing_off or record.time_limit_ms:
        leader.nudges.timers.set()


def release(
    leader: Leader,
    before: JobRecord,
    after: JobRecord,
    freed: set[tuple[str, int]],
    changed: Collection[TaskId] | None = None,
) -> None:
    """Give back what a job no longer holds, once, even if the change that frees it is saved repeatedly.

    A task that has exited holds nothing, so this need not wait for the save. Checks only the tasks in `changed`, or all
    of them if it is None.
    """
    job_id = before.job.id
    leaving: dict[str, list[int]] = {}
    for id_ in before.slots if changed is None else changed:
        slot = before.slots.get(id_)
        if slot is None or after.slots.get(id_) == slot or (job_id, slot.grant) in freed:
            continue
        freed.add((job_id, slot.grant))
        gang, place = gangs.gang_of(before.job, before.job.tasks[id_], slot)
        leaving.setdefault(gang, []).append(place)
        leader.ports.give_back(slot.address, [port for ports in slot.ports.values() for port in ports])
    for gang, places in leaving.items():
        # In one call: members of a gang of thousands often end at the same moment.
        leader.scheduler.release(gang, places)
        leader.nudges.work.set()


def apply_saved(leader: Leader, before: JobRecord, after: JobRecord, changed: Collection[TaskId] | None = None) -> None:
    """Bring the active jobs and the scheduler up to date with a saved change.

    Checks only the tasks in `changed`, or all of them if it is None: a job may have thousands.
    """
    active = leader.active
    id_ = after.job.id
    if before.job.plan is not after.job.plan or JobPhase.HELD in (before.job.phase, after.job.phase):
        changed = None  # tasks that waited may be gone, or wait only now, as those of a job that was held
    _forget_over(leader, before, after, changed)
    _requeue(leader, before, after, changed)
    if after.job.is_final:
        active.records.pop(id_, None)
        active.ended(id_)
        outputs = outputs_of(after.spec.extras)
        if outputs and after.job.outcome is not None and after.job.outcome.verdict is Verdict.SUCCEEDED:
            active.outputs_due[id_] = DueOutputs(after.job.attempt, outputs, leader.clock.now_ms())
        leader.lemons.settle(before, after.job.outcome, leader.clock.now_ms())
        if (sweep := key_of(after)) is not None:
            active.ended(waiting_name(sweep))
        if active.held_to_check:
            leader.nudges.work.set()
        if leader.admits is not None and after.job.plan.is_held_again:
            leader.admits.withdraw_admission(id_)
        leader.steady.forget(id_)
        active.to_act.pop(id_, None)
        active.steps.pop(id_, None)
        active.searched.pop(id_, None)
    else:
        active.records[id_] = after
        if after.job.phase is JobPhase.HELD:
            if before.job.phase is not JobPhase.HELD or before.priority != after.priority:
                active.hold(after)
                leader.nudges.work.set()
        elif before.priority != after.priority:
            change_admission(leader, after)
        # The attempt has its verdict: every task that is alive has to end.
        is_ending_now = after.job.phase is JobPhase.ENDING and before.job.phase is not JobPhase.ENDING
        if active.act_on(after.job, None if is_ending_now else changed):
            leader.nudges.work.set()
    if after.job.retry_at_ms or after.time_limit_ms or _backs_off(after.job, changed):
        leader.nudges.timers.set()


def change_admission(leader: Leader, record: JobRecord) -> None:
    """Bring what a queue of the cluster knows of a job that is not held up to date, if one admits it."""
    if leader.admits is not None and (asked := gangs.admission_request(record)) is not None:
        leader.admits.change_admission(asked)


def _backs_off(job: Job, changed: Collection[TaskId] | None) -> bool:
    if job.plan.is_gang:
        return False
    tasks = job.tasks.values() if changed is None else [job.tasks[id_] for id_ in changed]
    return any(task.phase is TaskPhase.BACKING_OFF for task in tasks)


def _forget_over(leader: Leader, before: JobRecord, after: JobRecord, changed: Collection[TaskId] | None) -> None:
    active = leader.active
    for id_ in before.job.tasks if changed is None else changed:
        task = before.job.tasks[id_]
        if not task.is_alive:
            continue
        key = before.job.key(task)
        now = after.job.tasks.get(id_)
        if now is None or not now.is_alive or after.job.key(now) != key:
            active.to_forget[key] = None
            active.launched.discard(key)
            active.killed.discard(key)
            leader.nudges.work.set()


def _requeue(leader: Leader, before: JobRecord, after: JobRecord, changed: Collection[TaskId] | None) -> None:
    waited = gangs.waiting(before.job, changed)
    if gangs.has_changed(before, after):
        describe_again(leader, after)
    if after.checkpoint_at_ms is not None and after.checkpoint_at_ms != before.checkpoint_at_ms:
        age_ms = max(0, leader.clock.now_ms() - after.checkpoint_at_ms)
        for name in gangs.holding(after):
            leader.scheduler.checkpointed(name, leader.steady.now_ms() - age_ms)
    waits = gangs.waiting(after.job, changed)
    if before.job.plan is not after.job.plan:
        # A gang that waits with other members than before queues again, at its place.
        for name in [name for name in waited.keys() & waits.keys() if waited[name] != waits[name]]:
            leader.scheduler.cancel(name)
            waited = {other: tasks for other, tasks in waited.items() if other != name}
    for gang in leader.describe(after, {name: tasks for name, tasks in waits.items() if name not in waited}):
        leader.scheduler.add(gang)
        leader.nudges.work.set()
    over = waited.keys() - waits.keys()
    if not over:
        return
    held = after.slots if changed is None else [id_ for id_ in changed if id_ in after.slots]
    is_granted = {gangs.gang_of(after.job, after.job.tasks[id_], after.slots[id_])[0] for id_ in held}
    for name in sorted(over - is_granted):
        leader.scheduler.cancel(name)
        # A gang that waited behind it may be next.
        leader.nudges.work.set()


def describe_again(leader: Leader, record: JobRecord) -> None:
    for gang in leader.describe(record, {**gangs.waiting(record.job), **gangs.holding(record)}):
        leader.scheduler.change(gang)
    leader.nudges.work.set()
