"""Translates jobs to the scheduler's gangs: which tasks are placed together, under which name.

All tasks of a gang job form one gang per job attempt; without gang allocation each task attempt is a gang of one.
Affinity groups of a gang job say which of its tasks need which hardware and are placed close together; all of them
still start together or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from openpai.lifecycle.model import Job, JobPhase, RolePlan, Task, TaskId, TaskPhase, Tasks
from openpai.ports.admission import AdmissionRequest, TasksAsked
from openpai.ports.store import JobRecord, Slot
from openpai.protocol.admission import queue_of
from openpai.protocol.placement import NO_PLACEMENT, Placement, RolePlacement, placement_of
from openpai.scheduler.model import Ask, Gang, Group, Spot, Topology

Members = Mapping[str, tuple[TaskId, ...]]
"""The tasks of each gang, by its name, in the order of its asks."""


def gang_of(job: Job, task: Task, slot: Slot | None = None) -> tuple[str, int]:
    """Return the name of the gang a task belongs to, and the task's index in it; `slot` is what the task holds."""
    if not job.plan.is_gang:
        return f"{job.id}/{job.attempt}/{task.id.role}/{task.id.index}/{task.attempt}", 0
    if slot is not None and slot.is_alone:
        return _alone(job, task.id), 0
    place = 0
    for role in job.plan.roles:
        if role.name == task.id.role:
            return f"{job.id}/{job.attempt}", place + task.id.index
        place += _together(role)
    raise KeyError(task.id.role)


def is_alone(gang: str) -> bool:
    """Return whether a gang is a single task that was added to a gang job after its start."""
    return gang.endswith("/added")


def _alone(job: Job, id_: TaskId) -> str:
    # The name has no task attempt: a retry in place keeps what the task holds.
    return f"{job.id}/{job.attempt}/{id_.role}/{id_.index}/added"


def _together(role: RolePlan) -> int:
    return role.instances if role.gang_instances is None else role.gang_instances


def _first_members(job: Job) -> tuple[TaskId, ...]:
    """Return the tasks that a gang job was placed with in this attempt."""
    return tuple([TaskId(role.name, index) for role in job.plan.roles for index in range(_together(role))])


def job_of(gang: str) -> str:
    """Return the id of the job a gang belongs to."""
    return gang.partition("/")[0]


def waiting(job: Job, among: Iterable[TaskId] | None = None) -> Members:
    """Return every gang of a job that waits for a placement; only those of these tasks if given."""
    if job.is_final or job.outcome is not None or job.phase is JobPhase.HELD:
        return {}
    tasks: Iterable[Task | None] = job.tasks.values() if among is None else map(job.tasks.get, among)
    if job.plan.is_gang:
        number = Tasks.counted(job.tasks).count(TaskPhase.WAITING)
        if job.phase is not JobPhase.QUEUED and number:
            # The others run: these were added to them.
            return {_alone(job, task.id): (task.id,) for task in tasks if task and task.phase is TaskPhase.WAITING}
        return {f"{job.id}/{job.attempt}": tuple(job.tasks)} if number == len(job.tasks) else {}
    return {gang_of(job, task)[0]: (task.id,) for task in tasks if task and task.phase is TaskPhase.WAITING}


def waiting_as(job: Job, gang: str) -> tuple[TaskId, ...] | None:
    """Return the tasks of a job that wait under this gang's name, None if there are none."""
    if job.plan.is_gang and not is_alone(gang):
        return waiting(job).get(gang)
    # The task follows from the name: a search could pass over thousands that wait.
    role, index, _ = gang.rsplit("/", 3)[-3:]
    return waiting(job, [TaskId(role, int(index))]).get(gang)


def holding(record: JobRecord) -> Members:
    """Return every gang that holds resources."""
    job = record.job
    if job.plan.is_gang:
        alone = {_alone(job, id_): (id_,) for id_, slot in record.slots.items() if slot.is_alone}
        first = {f"{job.id}/{job.attempt}": _first_members(job)} if len(record.slots) > len(alone) else {}
        return {**first, **alone}
    return {gang_of(job, job.tasks[id_])[0]: (id_,) for id_ in record.slots}


def names_holding(record: JobRecord) -> tuple[str, ...]:
    """Return the names of the gangs that hold resources, without their members, which may be thousands."""
    job = record.job
    if not job.plan.is_gang:
        return tuple(holding(record))
    alone = tuple([_alone(job, id_) for id_, slot in record.slots.items() if slot.is_alone])
    return (f"{job.id}/{job.attempt}", *alone) if len(record.slots) > len(alone) else alone


def spots_of(record: JobRecord, gang: str, tasks: Iterable[TaskId]) -> list[Spot | None]:
    """Return where the tasks of a gang run, None for those that hold nothing."""
    slots = [record.slots.get(id_) for id_ in tasks]
    return [
        Spot(slot.node, slot.devices, slot.placement_hint) if slot and slot.is_alone is is_alone(gang) else None
        for slot in slots
    ]


def describe(
    record: JobRecord,
    members: Members,
    submitted_at_ms: int,
    *,
    is_interruptible: bool = False,
    excluded: tuple[str, ...] = (),
) -> Iterator[Gang]:
    """Yield gangs of a job as the scheduler knows them; `is_interruptible` applies to jobs that do not say.

    They must not use the nodes in `excluded`.
    """
    needs = {role.name: role.resources for role in record.spec.task_roles}
    asks = {name: Ask(need.cpus, need.memory_mb, need.gpus) for name, need in needs.items()}
    placement = placement_of(record.spec)
    topology = Topology(placement.cell_type, placement.is_cell_required) if placement.cell_type else None
    for name, tasks in members.items():
        groups = _groups(placement, tasks)
        alone = groups[0] if len(groups) == 1 else Group(())
        yield Gang(
            id=name,
            asks=tuple([asks[task.role] for task in tasks]),
            virtual_cluster=record.virtual_cluster,
            priority=record.priority,
            submitted_at_ms=submitted_at_ms,
            user=record.user,
            job=record.full_name,
            sku_type=alone.sku_type,
            pinned_cell=alone.pinned_cell,
            is_lazily_preemptible=placement.is_lazily_preemptible,
            is_interruptible=is_interruptible if placement.is_interruptible is None else placement.is_interruptible,
            groups=groups if len(groups) > 1 or alone.cell_type or alone.cell_types else (),
            topology=topology,
            rank=record.rank,
            time_limit_ms=record.time_limit_ms,
            checkpoint_every_ms=placement.checkpoint_every_ms,
            excluded_nodes=excluded,
            attempt=record.job.attempt,
        )


def admission_request(record: JobRecord) -> AdmissionRequest | None:
    """Return a job as the queue of the cluster knows it that admits it; None if none does."""
    if not (queue := queue_of(record.spec.extras)):
        return None
    instances = {role.name: role.instances for role in record.job.plan.roles}
    tasks = tuple(
        TasksAsked(role.name, instances[role.name], need.cpus, need.memory_mb, need.gpus)
        for role in record.spec.task_roles
        for need in (role.resources,)
    )
    return AdmissionRequest(record.job.id, record.full_name, queue, record.priority, tasks)


def has_changed(before: JobRecord, after: JobRecord) -> bool:
    """Return whether the gangs of a job changed for the scheduler."""
    was = before.priority, before.rank, before.virtual_cluster, before.time_limit_ms
    return was != (after.priority, after.rank, after.virtual_cluster, after.time_limit_ms)


def _groups(placement: Placement, tasks: tuple[TaskId, ...]) -> tuple[Group, ...]:
    """Return the groups of tasks that need the same hardware and are placed close together."""
    if not placement.roles:
        return ()
    members: dict[RolePlacement, list[int]] = {}
    for place, task in enumerate(tasks):
        wanted = placement.roles.get(task.role, NO_PLACEMENT)
        members.setdefault(replace(wanted, cell_type=None), []).append(place)
    types = {role: wanted.cell_type for role, wanted in placement.roles.items() if wanted.cell_type is not None}
    return tuple(
        Group(
            tuple(found), wanted.sku_type, wanted.pinned_cell, wanted.group,
            _cell_types([tasks[place].role for place in found], types), wanted.group_cell_type,
        )
        for wanted, found in members.items()
    )  # fmt: skip


def _cell_types(roles: Sequence[str], types: Mapping[str, str]) -> tuple[str | None, ...]:
    """Return the cell type that each member of a group must be inside of; empty if no role asks for one."""
    return tuple([types.get(role) for role in roles]) if any(role in types for role in roles) else ()
