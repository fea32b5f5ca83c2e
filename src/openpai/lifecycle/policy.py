"""When a job attempt is over, and whether to try again.

Completion follows the protocol: a task role fails the attempt when `min_failed` of its tasks failed, makes it
succeed when `min_succeeded` succeeded, and -1 switches a rule off; when every task is over and no rule fired,
the attempt succeeded. Retries follow the diagnosed cause: what the platform did to a job is tried again without
being counted, with growing delays and up to a ceiling; what the user did is not tried again; what nobody can
tell is tried as often as the owner allowed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from zlib import crc32

from openpai.lifecycle.model import (
    Behavior,
    Diagnosis,
    Outcome,
    Plan,
    Retries,
    RolePlan,
    Task,
    TaskId,
    TaskPhase,
    Tasks,
    Verdict,
)
from openpai.protocol.wording import plural


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How patiently the platform repeats what was not the user's fault. Delays in milliseconds."""

    free_max: int = 10
    """Ceiling on uncounted retries of one job, and of one task of a job that is no gang."""
    delay_first_ms: int = 1_000
    delay_max_ms: int = 300_000
    conflict_delay_min_ms: int = 60_000
    conflict_delay_max_ms: int = 900_000


RETRY_POLICY: Final = RetryPolicy()


@dataclass(frozen=True, slots=True)
class Again:
    """Try again after `delay_ms`, with the retry counters as they are then."""

    delay_ms: int
    retries: Retries


def again(
    diagnosis: Diagnosis | None, made: Retries, counted_max: int, who: str, policy: RetryPolicy = RETRY_POLICY
) -> Again | None:
    """Return when to try again after a failure, or None when that was the last time.

    `who` spreads the delays of jobs that got into each other's way.
    """
    behavior = diagnosis.behavior if diagnosis else Behavior.UNKNOWN
    if behavior is Behavior.UNKNOWN and made.counted < counted_max:
        return Again(0, Retries(made.counted + 1, made.free))
    if behavior in (Behavior.TRANSIENT, Behavior.TRANSIENT_CONFLICT) and made.free < policy.free_max:
        delay_ms = min(policy.delay_first_ms << made.free, policy.delay_max_ms)
        if behavior is Behavior.TRANSIENT_CONFLICT:
            span_ms = policy.conflict_delay_max_ms - policy.conflict_delay_min_ms + 1
            delay_ms = policy.conflict_delay_min_ms + crc32(f"{who}/{made.free}".encode()) % span_ms
        return Again(delay_ms, Retries(made.counted, made.free + 1))
    return None


def verdict(plan: Plan, tasks: Mapping[TaskId, Task]) -> Outcome | None:
    """Return the outcome of an attempt whose tasks stand like this, or None while it is undecided.

    When several rules fired, the one whose last task ended first wins; ties go to the role declared first.
    """
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
        return Outcome(Verdict.SUCCEEDED, 0, trigger=last.id, message="every task is over and no rule says it failed")
    return None


def _is_undecided(plan: Plan, tasks: Tasks) -> bool:
    """Return whether the numbers of tasks that ended say that no rule fired: asked after each of thousands of ends."""
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
        yield trigger.ended_at_ms or 0, Outcome(Verdict.FAILED, code, trigger.diagnosis, trigger.id, message)
    if 1 <= role.min_succeeded <= len(succeeded):
        trigger = sorted(succeeded, key=_ending)[role.min_succeeded - 1]
        count = plural(role.min_succeeded, "task")
        message = f"{count} of role {role.name} succeeded (minSucceededInstances {role.min_succeeded})"
        yield trigger.ended_at_ms or 0, Outcome(Verdict.SUCCEEDED, 0, trigger.diagnosis, trigger.id, message)


def _ending(task: Task) -> tuple[int, TaskId]:
    return task.ended_at_ms or 0, task.id
