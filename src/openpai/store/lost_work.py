"""Counts work that is lost when an attempt ends, in the transaction that ends it.

Lost is the GPU time of a task attempt since its grant or, if that was later, since the newest checkpoint of its job. It
is lost by failure if the platform's fault ended the job attempt or let the task alone run again, and by preemption if
others took the resources of the job attempt. Earlier attempts of a task that failed by itself are its own doing.
Time in which the GPUs were idle was wasted already, by the job: it counts as that only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import sqlalchemy as sa

from openpai.lifecycle.model import Diagnosis, Job, Outcome, Task, TaskId, Verdict
from openpai.ports.store import Change
from openpai.ports.usage import LentUse
from openpai.store.schema import task_attempts

Times = Sequence[tuple[int, int]]
_FAILED: Final = "failed"
_PREEMPTED: Final = "preempted"


def lost_work(connection: sa.Connection, changes: Iterable[Change]) -> list[tuple[LentUse, int]]:
    """Return the work that these changes lose, each with the time of its loss; their task attempts are stored."""
    sums: defaultdict[tuple[str, str, str, int], int] = defaultdict(int)
    for change in changes:
        whose = change.after.virtual_cluster, change.after.user
        saved_ms = change.before.checkpoint_at_ms or 0
        current = change.ended.tasks if change.ended is not None else change.after.job.tasks
        for task, slot in change.tasks:
            if slot is not None and slot.gpus and _runs_again(task, current) and task.ended_at_ms is not None:
                lost_ms = _lost_ms(task.granted_at_ms, task.ended_at_ms, saved_ms, change.idle)
                sums[*whose, _FAILED, task.ended_at_ms] += slot.gpus * lost_ms
        if change.ended is not None and (kind := _kind(change.ended.outcome)):
            at_ms = change.ended.attempt_ended_at_ms or 0
            sums[*whose, kind, at_ms] += _lost_with_attempt(connection, change.ended, saved_ms, change.idle)
    return [
        (_as_use(virtual_cluster, user, kind, gpu_ms), at_ms)
        for (virtual_cluster, user, kind, at_ms), gpu_ms in sorted(sums.items())
        if gpu_ms
    ]


def _as_use(virtual_cluster: str, user: str, kind: str, gpu_ms: int) -> LentUse:
    if kind == _FAILED:
        return LentUse(virtual_cluster, user, failed_gpu_ms=gpu_ms)
    return LentUse(virtual_cluster, user, preempted_gpu_ms=gpu_ms)


def _kind(outcome: Outcome | None) -> str:
    if outcome is not None and outcome.verdict is Verdict.PREEMPTED:
        return _PREEMPTED
    is_ours = outcome is not None and outcome.verdict is Verdict.FAILED and _is_platforms(outcome.diagnosis)
    return _FAILED if is_ours else ""


def _is_platforms(diagnosis: Diagnosis | None) -> bool:
    return diagnosis is not None and diagnosis.type == "PLATFORM_FAILURE"


def _runs_again(task: Task, current: Mapping[TaskId, Task]) -> bool:
    """Return whether a task attempt that the platform failed is followed by another one of the same job attempt."""
    following = current.get(task.id)
    return _is_platforms(task.diagnosis) and following is not None and following.attempt > task.attempt


def _lost_with_attempt(connection: sa.Connection, ended: Job, saved_ms: int, idle: Times) -> int:
    """Return the GPU time of the last attempts of all tasks of a job attempt."""
    columns = task_attempts.c
    query = sa.select(
        columns.role, columns.task_index, columns.attempt, columns.granted_at_ms, columns.ended_at_ms, columns.gpus
    ).where(columns.job == ended.id, columns.job_attempt == ended.attempt, columns.gpus > 0)
    lost = 0
    for row in connection.execute(query):
        task = ended.tasks.get(TaskId(row.role, row.task_index))
        if task is not None and task.attempt == row.attempt:
            lost += row.gpus * _lost_ms(row.granted_at_ms, row.ended_at_ms, saved_ms, idle)
    return lost


def _lost_ms(granted_at_ms: int | None, ended_at_ms: int | None, saved_ms: int, idle: Times) -> int:
    if granted_at_ms is None or ended_at_ms is None:
        return 0
    began_ms = max(granted_at_ms, saved_ms)
    idle_ms = sum(max(0, min(end_ms, ended_at_ms) - max(from_ms, began_ms)) for from_ms, end_ms in idle)
    return max(0, ended_at_ms - began_ms - idle_ms)
