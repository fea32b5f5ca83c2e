"""The completion policy: when a job attempt is over, and with which outcome.

A task role fails the attempt when `min_failed` of its tasks failed, and lets it succeed when `min_succeeded` of them
succeeded; -1 switches a rule off. When every task is over and no rule applied, the attempt succeeded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from openpai.lifecycle.model import Outcome, Plan, RolePlan, Task, TaskId, TaskPhase, Tasks, Verdict
from openpai.protocol.admission import queue_of
from openpai.protocol.dependencies import is_held
from openpai.protocol.job import JobSpec
from openpai.protocol.wording import plural


def plan_of(spec: JobSpec) -> Plan:
    """Return the plan of a specification."""
    roles = tuple(
        RolePlan(
            name=role.name,
            instances=role.instances,
            min_failed=role.completion.min_failed,
            min_succeeded=role.completion.min_succeeded,
            task_retry_count=role.task_retry_count,
        )
        for role in spec.task_roles
    )
    is_held_again = bool(queue_of(spec.extras))
    return Plan(roles, spec.job_retry_count, spec.is_gang, is_held(spec.extras), is_held_again)


def verdict(plan: Plan, tasks: Mapping[TaskId, Task]) -> Outcome | None:
    """Return the outcome of an attempt whose tasks are in these phases, None while it is undecided.

    When several rules apply, the one that applied first wins; ties go to the role declared first.
    """
    if len(tasks) > plan.tasks_total:
        # Tasks that a smaller role has lost do not count.
        sizes = {role.name: role.instances for role in plan.roles}
        tasks = Tasks({id_: task for id_, task in tasks.items() if id_.index < sizes[id_.role]})
    if _is_undecided(plan, Tasks.counted(tasks)):
        return None
    over: dict[str, list[Task]] = {role.name: [] for role in plan.roles}
    for task in tasks.values():
        if task.phase in (TaskPhase.SUCCEEDED, TaskPhase.FAILED):
            over[task.id.role].append(task)
    fired = [
        (at_ms, order, outcome)
        for order, role in enumerate(plan.roles)
        for at_ms, outcome in _fired(role, over[role.name])
    ]
    if fired:
        return min(fired, key=lambda rule: rule[:2])[2]
    if sum(map(len, over.values())) == plan.tasks_total:
        last = max(tasks.values(), key=_ending)
        return Outcome(Verdict.SUCCEEDED, 0, trigger=last.id, message="every task ended and none failed the job")
    return None


def _is_undecided(plan: Plan, tasks: Tasks) -> bool:
    """Return whether no rule applies, by counts alone: this runs after each of thousands of ends."""
    over = 0
    for role in plan.roles:
        failed, succeeded = tasks.count(TaskPhase.FAILED, role.name), tasks.count(TaskPhase.SUCCEEDED, role.name)
        if 1 <= role.min_failed <= failed or 1 <= role.min_succeeded <= succeeded:
            return False
        over += failed + succeeded
    return over != plan.tasks_total


def _fired(role: RolePlan, over: Sequence[Task]) -> Iterator[tuple[int, Outcome]]:
    failed = [task for task in over if task.phase is TaskPhase.FAILED]
    succeeded = [task for task in over if task.phase is TaskPhase.SUCCEEDED]
    if 1 <= role.min_failed <= len(failed):
        trigger = sorted(failed, key=_ending)[role.min_failed - 1]
        message = f"{plural(role.min_failed, 'task')} of role {role.name} failed (minFailedInstances {role.min_failed})"
        code = trigger.report.code if trigger.report else 1
        at_ms = trigger.ended_at_ms
        yield at_ms or 0, Outcome(Verdict.FAILED, code, trigger.diagnosis, trigger.id, message, at_ms)
    if 1 <= role.min_succeeded <= len(succeeded):
        trigger = sorted(succeeded, key=_ending)[role.min_succeeded - 1]
        count = plural(role.min_succeeded, "task")
        message = f"{count} of role {role.name} succeeded (minSucceededInstances {role.min_succeeded})"
        yield trigger.ended_at_ms or 0, Outcome(Verdict.SUCCEEDED, 0, trigger.diagnosis, trigger.id, message)


def _ending(task: Task) -> tuple[int, TaskId]:
    return task.ended_at_ms or 0, task.id
