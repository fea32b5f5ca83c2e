"""Translates reports of the backend to facts: a start, an end with its diagnosis, or an attempt to remove."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from openpai.lifecycle.actions import is_current
from openpai.lifecycle.diagnosis import TAIL_BYTES, TaskEnd, diagnose, find_end, needs_log, root_of
from openpai.lifecycle.facts import Fact, RootFound, TaskExited, TaskStarted
from openpai.lifecycle.model import (
    AttemptKey,
    Diagnosis,
    ExitReason,
    ExitReport,
    Job,
    Task,
    TaskId,
    TaskPhase,
    Tasks,
    Verdict,
)
from openpai.orchestrator.changes import JobUpdate
from openpai.orchestrator.leader import Leader
from openpai.orchestrator.node_sync import sync_nodes
from openpai.orchestrator.recording import batch
from openpai.orchestrator.search_time import SearchTime
from openpai.orchestrator.secrets import WITHHELD, without_secrets
from openpai.ports.backend import ForgetTask, KillTask, TaskSeen
from openpai.ports.logs import LogReader
from openpai.ports.store import Event, JobRecord
from openpai.protocol.errors import PaiError, Refused

HEARD_PER_PASS: Final = 500
"""Bound on the reports in one transaction: thousands of tasks may end at the same moment."""
GATHERED_S: Final = 0.05
"""How long reports by which nothing can be decided yet wait for others: nobody notices, and each turn has its cost."""
COMPARED_MAX: Final = 64
"""Bound on the tasks of an attempt whose logs are compared: those that failed by themselves, the first ones first."""
_READ_FOR_DIAGNOSIS: Final = ("stdout", "stderr")


@dataclass(slots=True)
class Observed:
    """Updates of active jobs that follow from reports, and task attempts that should not exist."""

    updates: dict[str, JobUpdate] = field(default_factory=dict)
    strangers: list[TaskSeen] = field(default_factory=list)


def waits_for_others(leader: Leader, seen: Iterable[TaskSeen]) -> bool:
    """Return whether these reports, just heard, may wait a moment for others.

    Members of a gang end together. What they hold is mostly taken by the next gang once the last of them has ended, so
    a report that some of them succeeded would only make turns before that one. A start does not wait: where the clock
    of a node is wrong, a task counts as started when that is heard.
    """
    heard = leader.active.heard
    if len(heard) >= HEARD_PER_PASS:
        return False
    if any(task.exit is None or _is_bad(task.exit) for task in seen):
        return False
    ended: Counter[str] | None = None
    for job in {task.key.job for task in seen}:
        found = leader.active.records.get(job)
        if found is None:
            continue
        if not found.job.plan.is_gang:
            return False
        ended = ended or Counter(key.job for key in {task.key for task in heard if task.exit is not None})
        tasks = Tasks.counted(found.job.tasks)
        if ended[job] >= tasks.count(TaskPhase.STARTING) + tasks.count(TaskPhase.RUNNING):
            return False
    return ended is None or not _frees_enough(leader, heard)[1]


def count_freed(leader: Leader, heard: Iterable[TaskSeen]) -> None:
    """Add up what ends free, from zero once it was enough for a gang that waits."""
    freed, is_enough = _frees_enough(leader, heard)
    leader.active.freed = 0 if is_enough else freed


def _frees_enough(leader: Leader, heard: Iterable[TaskSeen]) -> tuple[int, bool]:
    """Return how many devices these ends and those before free, and whether a waiting gang might start on them.

    It may take what was left by members of two gangs of which others still run.
    """
    freed = leader.active.freed
    for key in {task.key for task in heard if task.exit is not None}:
        found = leader.active.records.get(key.job)
        slot = found.slots.get(key.task) if found is not None else None
        if slot is not None:
            freed += max(len(slot.devices), 1)
    fewest = leader.scheduler.fewest_devices() if freed else None
    return freed, fewest is not None and freed >= fewest


async def understand(leader: Leader, seen: Iterable[TaskSeen]) -> Observed:
    """Translate reports of the backend to facts, with a diagnosis for each end."""
    seen = list(seen)
    if any(task.exit is not None and task.exit.reason is ExitReason.NODE_LOST for task in seen):
        # Or these tasks would be placed on the lost node again.
        await sync_nodes(leader)
    observed = Observed()
    facts: dict[str, list[Fact]] = {}
    notes: dict[str, list[Event]] = {}
    for number, task in enumerate(seen, start=1):
        if number % HEARD_PER_PASS == 0:
            # An audit looks at every task there is.
            await asyncio.sleep(0)
        found = leader.active.records.get(task.key.job)
        if found is None or not is_current(found.job, task.key):
            observed.strangers.append(task)
        elif not is_as_known(found, task):
            facts.setdefault(task.key.job, []).extend(await _facts(leader, found, task))
            notes.setdefault(task.key.job, []).extend(_notes(leader, found, task))
    for job, heard in facts.items():
        # Reading logs takes time, in which a job may be over.
        found = leader.active.records.get(job)
        root = await _root(leader, found, heard) if found is not None else None
        if root is not None:
            heard.insert(0, root)
        if found is not None:
            leader.lemons.add(found, heard, leader.clock.now_ms())
    observed.updates = {
        job: JobUpdate(tuple(found), notes=tuple(notes[job])) for job, found in facts.items() if found or notes[job]
    }
    return observed


def is_as_known(found: JobRecord, seen: TaskSeen) -> bool:
    """Return whether a report says no more than is recorded, as thousands do in each audit."""
    return seen.exit is None and not seen.step and found.job.tasks[seen.key.task].phase is TaskPhase.RUNNING


async def hear(leader: Leader, seen: Iterable[TaskSeen]) -> None:
    """Record reports of the backend, and remove the task attempts that should not exist."""
    observed = await understand(leader, seen)
    if observed.updates:
        async with batch(leader) as changes:
            # Hundreds of jobs may have ended while this waited for its turn, and need not be read again.
            known = leader.active.records
            await changes.add({job: update for job, update in observed.updates.items() if job in known})
            await changes.save()
    await remove(leader, observed.strangers)


async def _facts(leader: Leader, found: JobRecord, seen: TaskSeen) -> list[Fact]:
    facts: list[Fact] = []
    task = found.job.tasks[seen.key.task]
    started_at_ms, ended_at_ms = times_of(task, seen, leader.clock.now_ms())
    if started_at_ms is not None and task.phase is TaskPhase.STARTING:
        facts.append(TaskStarted(seen.key, started_at_ms))
    if seen.exit is not None:
        tail = await tail_of(leader.logs, seen.key) if needs_log(seen.exit) else ""
        diagnosis = _shown_diagnosis(leader, found, _diagnose(leader, found.job, seen.exit, tail))
        report = seen.exit
        if found.sealed is not None:
            report = replace(report, message=_shown(leader, found, report.message))
        if report.reason is not ExitReason.EXITED:
            report = replace(report, code=diagnosis.code)
        facts.append(TaskExited(seen.key, report, diagnosis, ended_at_ms))
    return facts


def _diagnose(leader: Leader, job: Job, report: ExitReport, tail: str) -> Diagnosis:
    return _searched(leader, job).measured(lambda may_go_on: diagnose(report, tail, leader.edited_rules, may_go_on))


def _searched(leader: Leader, job: Job) -> SearchTime:
    known = leader.active.searched.get(job.id)
    if known is None or known.attempt != job.attempt:
        known = leader.active.searched[job.id] = SearchTime(job.attempt)
    return known


def _notes(leader: Leader, found: JobRecord, seen: TaskSeen) -> Iterator[Event]:
    """Yield the step of a task, unless another task of the job has reported the same one."""
    if not seen.step:
        return
    job = found.job
    known = leader.active.steps.setdefault(job.id, set())
    this = (job.attempt, seen.key.task_attempt, seen.message)
    if this in known:
        return
    known.add(this)
    yield Event(
        job.id,
        leader.clock.now_ms(),
        seen.step.value,
        _shown(leader, found, seen.message),
        job.attempt,
        seen.key,
        slot.node if (slot := found.slots.get(seen.key.task)) else None,
        seen.step.is_warning,
    )


async def _root(leader: Leader, found: JobRecord, facts: Sequence[Fact]) -> RootFound | None:
    """Compare the ends of all tasks of an attempt that ends with these facts, if one of several failed."""
    job = found.job
    exits = {fact.key.task: fact for fact in facts if isinstance(fact, TaskExited)}
    is_failure = job.outcome is None or job.outcome.verdict is Verdict.FAILED
    if len(job.tasks) < 2 or not exits or not is_failure:
        return None
    # By their counts: of thousands of tasks that start one by one a few end each time.
    tasks = Tasks.counted(job.tasks)
    still_alive = tasks.count(TaskPhase.STARTING) + tasks.count(TaskPhase.RUNNING)
    if still_alive > sum(job.tasks[id_].is_alive for id_ in exits):
        return None
    has_failed = any(map(tasks.count, (TaskPhase.FAILED, TaskPhase.STOPPED, TaskPhase.BACKING_OFF)))
    if not has_failed and not any(_is_bad(fact.report) for fact in exits.values()):
        return None
    compared = _compared(job, exits)
    if len(compared) < 2:
        return None
    ends = [
        TaskEnd(report, await tail_of(leader.logs, job.key(task)), ended_at_ms, was_ended)
        for task, report, ended_at_ms, was_ended in compared
    ]
    findings = []
    searched = _searched(leader, job)
    for end in ends:
        findings.append(searched.measured(lambda may_go_on: find_end(end, leader.edited_rules, may_go_on)))  # noqa: B023
        await asyncio.sleep(0)  # others have their turn between the logs
    root = searched.measured(lambda may_go_on: root_of(ends, leader.edited_rules, findings, may_go_on))
    if root is None:
        return None
    at, diagnosis = root
    task, report, ended_at_ms, _ = compared[at]
    code = report.code if report.reason is ExitReason.EXITED else diagnosis.code
    return RootFound(job.attempt, task.id, code, _shown_diagnosis(leader, found, diagnosis), ended_at_ms)


class _End(NamedTuple):
    task: Task
    report: ExitReport
    ended_at_ms: int
    was_ended: bool


def _compared(job: Job, exits: Mapping[TaskId, TaskExited]) -> list[_End]:
    """Return the ends of the tasks that say most about a failure."""
    ends = []
    for id_, task in job.tasks.items():
        fact = exits.get(id_)
        report = fact.report if fact else task.report
        if report is None or not _is_bad(report):
            continue
        was_ended = task.phase is TaskPhase.STOPPED or (fact is not None and job.outcome is not None)
        ends.append(_End(task, report, (fact.at_ms if fact else task.ended_at_ms) or 0, was_ended))
    ends.sort(key=lambda end: (end.was_ended, end.ended_at_ms))
    return ends[:COMPARED_MAX]


def _is_bad(report: ExitReport) -> bool:
    return report.code != 0 or report.reason is not ExitReason.EXITED


def _shown_diagnosis(leader: Leader, found: JobRecord, diagnosis: Diagnosis) -> Diagnosis:
    if found.sealed is None:
        return diagnosis
    lines = _shown(leader, found, "\n".join(diagnosis.lines)).splitlines()
    return replace(diagnosis, matched=_shown(leader, found, diagnosis.matched), lines=tuple(lines))


def _shown(leader: Leader, found: JobRecord, text: str) -> str:
    if not text or found.sealed is None:
        return text
    try:
        return without_secrets(text, leader.secrets.open(found.sealed))
    except Refused:
        return WITHHELD


def times_of(task: Task, seen: TaskSeen, now_ms: int) -> tuple[int | None, int]:
    """Return when a task started, and when it ended if it has, in milliseconds of our clock.

    Reports carry the times of a node's clock, which may be hours ahead or behind: only the time between two of them is
    true. A task starts after its grant and does nothing later than now.
    """
    report = seen.exit
    by_node = seen.started_at_ms if report is None or seen.started_at_ms is not None else report.started_at_ms
    ended_at_ms = now_ms if report is None else report.ended_at_ms or now_ms
    if by_node is None:
        return None, min(ended_at_ms, now_ms)
    # An end without a start of its own is not of the node's clock.
    is_of_node = report is not None and report.started_at_ms is not None
    if task.phase is TaskPhase.STARTING:
        latest_ms = ended_at_ms if is_of_node else by_node
        started_at_ms = max(by_node - max(latest_ms - now_ms, 0), task.granted_at_ms or 0)
    else:
        started_at_ms = task.started_at_ms or by_node
    if is_of_node:
        ended_at_ms += started_at_ms - by_node
    return started_at_ms, max(min(ended_at_ms, now_ms), started_at_ms)


async def tail_of(logs: LogReader, key: AttemptKey) -> str:
    """Return the end of a task attempt's log, for a diagnosis; empty if it cannot be read."""
    tail = b""
    for stream in _READ_FOR_DIAGNOSIS:
        try:
            chunk = await logs.read(key, stream, -TAIL_BYTES, TAIL_BYTES)
        except (PaiError, OSError):
            continue  # a log that cannot be read must not keep a job from ending
        # A stream may end in the middle of a line.
        tail += chunk.data if chunk.data.endswith(b"\n") or not chunk.data else chunk.data + b"\n"
    return tail.decode(errors="replace")


async def remove(leader: Leader, strangers: Iterable[TaskSeen]) -> None:
    """Kill attempts that should not run; forget those whose end is saved."""
    running = [KillTask(task.key, 0.0) for task in strangers if task.exit is None and not _is_over(leader, task.key)]
    over = [ForgetTask(task.key) for task in strangers if task.exit is not None]
    if running or over:
        # A server that no longer leads does not know the attempts that its successor launched.
        await leader.store.check_lease(leader.epoch)
        await leader.backend.apply([*running, *over])


def _is_over(leader: Leader, key: AttemptKey) -> bool:
    # Its end was saved a moment ago, and this report is older.
    return key in leader.active.to_forget
