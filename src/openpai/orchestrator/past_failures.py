"""Compares what two sets of rules find in the newest failed jobs, from their logs or from what is kept of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from openpai.diagnosis.rules import RuleSet
from openpai.lifecycle.diagnosis import TaskEnd, find_end, root_of
from openpai.lifecycle.model import Diagnosis, ExitReason, JobPhase, TaskPhase
from openpai.orchestrator.observing import COMPARED_MAX, tail_of
from openpai.orchestrator.search_time import SearchTime
from openpai.ports.logs import LogReader
from openpai.ports.queries import JobFilter, JobQueries, JobRow, TaskAttemptRow

JOBS_MAX: Final = 500
LOGS_MAX: Final = 2000
"""Logs that one comparison reads, 128 KiB each at most."""


@dataclass(frozen=True, slots=True)
class PastFailure:
    """A failed job whose cause differs between two sets of rules."""

    job: JobRow
    role: str
    index: int
    """The task with which the failure begins by the second set."""
    before: Diagnosis
    after: Diagnosis


@dataclass(frozen=True, slots=True)
class Comparison:
    """The failed jobs that were compared, and those whose cause differs."""

    compared: int
    changes: tuple[PastFailure, ...]
    is_cut: bool
    """Whether older failed jobs were left out, because too many logs would be read."""


class _Root(NamedTuple):
    row: TaskAttemptRow
    diagnosis: Diagnosis


async def compare(queries: JobQueries, logs: LogReader, rules: tuple[RuleSet, RuleSet], jobs_max: int) -> Comparison:
    """Return which of the newest failed jobs have another cause by the second set of rules than by the first."""
    where = JobFilter(phases=(JobPhase.FAILED.value,), limit=min(jobs_max, JOBS_MAX))
    changes: list[PastFailure] = []
    compared = logs_read = 0
    for job in (await queries.jobs(where, count=False)).jobs:
        rows = _failed(await queries.task_attempts(job.id, job.attempt))
        if logs_read + len(rows) > LOGS_MAX:
            return Comparison(compared, tuple(changes), is_cut=True)
        logs_read += len(rows)
        ends = [await _end(logs, row) for row in rows]
        before, after = await asyncio.to_thread(lambda: [_root(rows, ends, each) for each in rules])  # noqa: B023
        compared += 1
        if before is not None and after is not None and _differs(before, after):
            key = after.row.key
            changes.append(PastFailure(job, key.role, key.index, before.diagnosis, after.diagnosis))
    return Comparison(compared, tuple(changes), is_cut=False)


def _failed(rows: Sequence[TaskAttemptRow]) -> list[TaskAttemptRow]:
    """Return the last attempts of tasks that failed, those that failed by themselves and first before the others."""
    last = {(row.key.role, row.key.index): row for row in rows}
    failed = [
        row
        for row in last.values()
        if row.report is not None and (row.report.code != 0 or row.report.reason is not ExitReason.EXITED)
    ]
    failed.sort(key=lambda row: (row.phase == TaskPhase.STOPPED.value, row.ended_at_ms or 0))
    return failed[:COMPARED_MAX]


async def _end(logs: LogReader, row: TaskAttemptRow) -> TaskEnd:
    tail = await tail_of(logs, row.key)
    if not tail and row.diagnosis is not None:
        # The log was removed: what is kept of it is the line that showed the cause, with those around it.
        tail = "\n".join(row.diagnosis.lines or (row.diagnosis.matched,)) + "\n"
    report = row.report
    assert report is not None  # noqa: S101  # `_failed` leaves out the others
    return TaskEnd(report, tail, row.ended_at_ms or 0, row.phase == TaskPhase.STOPPED.value)


def _root(rows: Sequence[TaskAttemptRow], ends: Sequence[TaskEnd], rules: RuleSet) -> _Root | None:
    searched = SearchTime(0)
    findings = [searched.measured(lambda may_go_on: find_end(end, rules, may_go_on)) for end in ends]  # noqa: B023
    found = searched.measured(lambda may_go_on: root_of(ends, rules, findings, may_go_on))
    return None if found is None else _Root(rows[found[0]], found[1])


def _differs(before: _Root, after: _Root) -> bool:
    was, now = before.diagnosis, after.diagnosis
    return (was.cause, was.code, before.row.key) != (now.cause, now.code, after.row.key)
