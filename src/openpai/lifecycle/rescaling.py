"""Changes the number of tasks of a job's task roles while it waits or runs.

A smaller role loses the tasks of its highest indices. They stay among the tasks of the attempt until it is over, since
their resources are free only when they have ended, but the completion policy does not count them. A larger role gets
new tasks. In a gang job that has begun, these are placed one by one: the others already run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from openpai.lifecycle.model import Job, JobPhase, Plan, RolePlan, Task, TaskId, Tasks
from openpai.protocol.job import JobSpec, TaskRole


@dataclass(frozen=True, slots=True)
class RoleScale:
    """The new number of tasks of a task role; None keeps a minimum of its completion policy."""

    instances: int
    min_failed: int | None = None
    min_succeeded: int | None = None

    def completion(self, instances: int, min_failed: int, min_succeeded: int) -> tuple[int, int]:
        """Return the new minima of a role that had these values."""
        if self.min_succeeded is not None:
            min_succeeded = self.min_succeeded
        elif min_succeeded == instances:
            # Every task had to succeed, which is the default.
            min_succeeded = self.instances
        return min_failed if self.min_failed is None else self.min_failed, min_succeeded


Scales = Mapping[str, RoleScale]
"""The new numbers of tasks, by task role; other roles stay as they are."""


def fresh_tasks(plan: Plan) -> Tasks:
    """Return the tasks of an attempt that begins."""
    fresh = [_fresh_task(role.name, index) for role in plan.roles for index in range(role.instances)]
    return Tasks({task.id: task for task in fresh})


# Thousands of jobs wait with the same few names of task roles, and a task that waits differs in nothing else.
@lru_cache(maxsize=4096)
def _fresh_task(role: str, index: int) -> Task:
    return Task(TaskId(role, index))


def whole_gang(plan: Plan) -> Plan:
    """Return the plan of a new attempt, whose tasks are all placed together if it is a gang job."""
    if all(role.gang_instances is None for role in plan.roles):
        return plan
    return replace(plan, roles=tuple(replace(role, gang_instances=None) for role in plan.roles))


def rescaled_plan(job: Job, scales: Scales) -> Plan:
    """Return the plan of a job with new numbers of tasks; the very same one if none changes."""
    has_begun = job.plan.is_gang and job.phase in (JobPhase.STARTING, JobPhase.RUNNING)
    roles = tuple(_rescaled_role(role, scales.get(role.name), has_begun=has_begun) for role in job.plan.roles)
    return job.plan if roles == job.plan.roles else replace(job.plan, roles=roles)


def _rescaled_role(role: RolePlan, scale: RoleScale | None, *, has_begun: bool) -> RolePlan:
    if scale is None:
        return role
    min_failed, min_succeeded = scale.completion(role.instances, role.min_failed, role.min_succeeded)
    together = role.gang_instances
    if has_begun and together is None and scale.instances != role.instances:
        together = role.instances
    return replace(
        role,
        instances=scale.instances,
        min_failed=min_failed,
        min_succeeded=min_succeeded,
        gang_instances=together,
    )


def rescaled_spec(spec: JobSpec, scales: Scales) -> JobSpec:
    """Return a job's specification with new numbers of tasks."""

    def changed(role: TaskRole) -> TaskRole:
        scale = scales.get(role.name)
        if scale is None:
            return role
        had = role.completion
        minima = scale.completion(role.instances, had.min_failed, had.min_succeeded)
        return replace(role, instances=scale.instances, completion=type(had)(*minima))

    return replace(spec, task_roles=tuple(map(changed, spec.task_roles)))


def is_removed(plan: Plan, id_: TaskId) -> bool:
    """Return whether a task is no longer wanted, because its role became smaller."""
    return any(role.name == id_.role and id_.index >= role.instances for role in plan.roles)


def removed(job: Job) -> list[Task]:
    """Return the tasks of a job that are no longer wanted."""
    if len(job.tasks) == job.plan.tasks_total:
        return []
    sizes = {role.name: role.instances for role in job.plan.roles}
    return [task for id_, task in job.tasks.items() if id_.index >= sizes[id_.role]]


def added(before: Plan, after: Plan, tasks: Mapping[TaskId, Task]) -> Iterator[Task]:
    """Yield the tasks that a larger role gets: those of new indices, and new attempts of those it had lost."""
    had = {role.name: role.instances for role in before.roles}
    for role in after.roles:
        for index in range(had[role.name], role.instances):
            id_ = TaskId(role.name, index)
            lost = tasks.get(id_)
            if lost is None or not lost.is_alive:
                yield Task(id_, attempt=0 if lost is None else lost.attempt + 1)
