"""Events of a job: what changed between two states, in sentences.

Reasons are CamelCase words for programs; messages are for people. Events follow from states, not from facts, so the
same change has the same events whatever caused it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from openpai.lifecycle.model import AttemptKey, ExitReason, Job, JobPhase, Stepped, Task, TaskPhase, Verdict
from openpai.protocol.wording import duration

NAMED_MAX: Final = 10
TOLD_MAX: Final = 400
"""Characters of a backend's message that an event repeats."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a job's history; `key` is the task attempt it is about, None for the job itself."""

    reason: str
    message: str
    job_attempt: int
    key: AttemptKey | None = None
    is_warning: bool = False


def narrate(before: Job, stepped: Stepped) -> tuple[Line, ...]:
    """Return what happened between `before` and `stepped.job`, in the order to read it."""
    last = stepped.last
    changed = [last.tasks[id_] for id_ in stepped.changed] if before.attempt == last.attempt else []
    return (
        *_beginnings(before, last, changed),
        *_retried(before, stepped.retried),
        *_task_ends(before, last, changed),
        *_attempt_end(before, stepped),
        *_root(stepped),
        *_job_moves(before, stepped),
    )


def _beginnings(before: Job, last: Job, changed: Sequence[Task]) -> Iterator[Line]:
    if before.attempt != last.attempt:
        return
    starting = [task for task in changed if task.grant is not None and _waited(before, task)]
    if starting:
        count = "its 1 task" if len(last.tasks) == 1 else f"{len(starting)} of its {len(last.tasks)} tasks"
        yield Line("Granted", f"resources were granted to {count}", last.attempt)
    if before.attempt_started_at_ms is None and last.attempt_started_at_ms is not None:
        yield Line("Running", f"attempt {_number(last)} runs", last.attempt)


def _retried(before: Job, retried: tuple[Task, ...]) -> Iterator[Line]:
    for task in retried:
        message = f"{_named(task)} failed and is tried again: {_cause(task)}"
        yield Line("TaskRetried", message, before.attempt, before.key(task), is_warning=True)


def _task_ends(before: Job, last: Job, changed: Sequence[Task]) -> Iterator[Line]:
    for task in changed:
        was = _was(before, task)
        if task.phase is was.phase or not was.is_alive:
            continue
        if task.phase is TaskPhase.SUCCEEDED:
            yield Line("TaskSucceeded", f"{_named(task)} exited with code 0", last.attempt, last.key(task))
        elif task.phase is TaskPhase.FAILED:
            message = f"{_named(task)} failed: {_cause(task)}"
            yield Line("TaskFailed", message, last.attempt, last.key(task), is_warning=True)
        elif task.phase is TaskPhase.STOPPED:
            yield Line("TaskStopped", f"{_named(task)} was stopped: {_cause(task)}", last.attempt, last.key(task))


def _attempt_end(before: Job, stepped: Stepped) -> Iterator[Line]:
    last = stepped.last
    outcome = last.outcome
    if outcome is None or (before.attempt == last.attempt and before.outcome is not None):
        return
    reason = {
        Verdict.SUCCEEDED: "AttemptSucceeded",
        Verdict.FAILED: "AttemptFailed",
        Verdict.STOPPED: "AttemptStopped",
        Verdict.PREEMPTED: "AttemptPreempted",
    }[outcome.verdict]
    is_warning = outcome.verdict in (Verdict.FAILED, Verdict.PREEMPTED)
    message = f"attempt {_number(last)}: {outcome.message}{_cut_short(last)}"
    yield Line(reason, message, last.attempt, is_warning=is_warning)


def _root(stepped: Stepped) -> Iterator[Line]:
    last = stepped.last
    if stepped.root is None or last.outcome is None or last.outcome.diagnosis is None:
        return
    task, found = last.tasks[stepped.root], last.outcome.diagnosis
    message = f"the failure began with {_named(task)}: {found.phrase}: {found.reason}"
    yield Line("RootCauseFound", message, last.attempt, last.key(task), is_warning=True)


def _cut_short(last: Job) -> str:
    """Return a clause that names the tasks that still ran or waited at the verdict; empty if there are none."""
    if last.outcome is None or last.outcome.verdict in (Verdict.STOPPED, Verdict.PREEMPTED):
        return ""
    alive = [_name(task) for task in last.tasks.values() if task.is_alive]
    named = ", ".join(alive[:NAMED_MAX]) + (f" and {len(alive) - NAMED_MAX} more" if len(alive) > NAMED_MAX else "")
    return f"; this ends the tasks that still run: {named}" if alive else ""


def _job_moves(before: Job, stepped: Stepped) -> Iterator[Line]:
    after = stepped.job
    if stepped.stopped:
        yield Line("StopRequested", stepped.stopped, after.attempt)
    if stepped.restarted and after.attempt > before.attempt:
        yield Line("Restarted", stepped.restarted, after.attempt)
    elif after.attempt > before.attempt:
        counted = f"{after.retries.counted} counted, {after.retries.free} free"
        message = f"attempt {_number(after)} waits for its turn (retries so far: {counted})"
        yield Line("Retried", message, after.attempt)
    if after.phase is before.phase:
        return
    if before.phase is JobPhase.HELD and after.phase is JobPhase.QUEUED:
        yield Line("Released", "everything that it waited for has happened", after.attempt)
    if before.phase is JobPhase.QUEUED and after.phase is JobPhase.HELD:
        yield Line("AdmissionLost", "the queue that had admitted it took that back", after.attempt)
    if after.phase is JobPhase.BACKING_OFF and after.retry_at_ms is not None:
        wait_s = (after.retry_at_ms - (after.attempt_ended_at_ms or after.retry_at_ms)) / 1000
        yield Line("BackingOff", f"it will be tried again in {duration(wait_s)}", after.attempt)
    elif after.is_final:
        is_bad = after.phase is JobPhase.FAILED
        yield Line(after.phase.capitalize(), f"the job {_ended(after)}", after.attempt, is_warning=is_bad)


def _waited(before: Job, task: Task) -> bool:
    was = before.tasks.get(task.id)
    return was is None or (was.attempt == task.attempt and was.grant is None)


def _was(before: Job, task: Task) -> Task:
    was = before.tasks.get(task.id)
    return was if was is not None and was.attempt == task.attempt else Task(task.id, attempt=task.attempt)


def _number(job: Job) -> int:
    """Return the number of the attempt for people, who count from 1; programs count from 0."""
    return job.attempt + 1


def _name(task: Task) -> str:
    return f"{task.id.role}-{task.id.index}"


def _named(task: Task) -> str:
    return f"task {_name(task)}"


def _cause(task: Task) -> str:
    if task.diagnosis is None:
        return "no cause is known"
    code = f" (exit code {task.report.code})" if task.report else ""
    message = f"{task.diagnosis.phrase}{code}: {task.diagnosis.reason}".rstrip(": ")
    if task.report is None or task.report.reason is ExitReason.EXITED or not task.report.message:
        return message
    # The backend's own message says why it did not run: which image, and what its registry answered.
    return f"{message} {_one_line(task.report.message)}"


def _one_line(message: str) -> str:
    line = " ".join(message.split())
    return line if len(line) <= TOLD_MAX else f"{line[:TOLD_MAX]} ..."


def _ended(job: Job) -> str:
    if job.phase is JobPhase.STOPPED:
        return f"was stopped: {job.outcome.message}" if job.outcome else "was stopped"
    why = f": {job.outcome.message}" if job.outcome else ""
    return f"{job.phase}{why}"
