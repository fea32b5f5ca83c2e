"""What the backend sees becomes facts: a start, an end with its diagnosis, or something that should not be there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from openpai.lifecycle.actions import is_current
from openpai.lifecycle.diagnosis import TAIL_BYTES, diagnose, needs_log
from openpai.lifecycle.model import AttemptKey, ExitReason, ExitReport, Fact, TaskExited, TaskPhase, TaskStarted
from openpai.orchestrator.hiding import WITHHELD, without_secrets
from openpai.orchestrator.office import Office
from openpai.orchestrator.recording import News, record
from openpai.ports.backend import ForgetTask, KillTask, TaskSeen
from openpai.ports.store import Event, JobRecord
from openpai.protocol.errors import PaiError, Refused

HEARD_PER_PASS: Final = 500
"""Thousands of tasks may end in the same moment: so many ends are recorded in one transaction."""
_READ_FOR_DIAGNOSIS: Final = ("stdout", "stderr")


@dataclass(slots=True)
class Heard:
    """What was seen, sorted: news of jobs at hand, and what has no right to be there."""

    news: dict[str, News] = field(default_factory=dict)
    strangers: list[TaskSeen] = field(default_factory=list)


async def understand(office: Office, seen: Iterable[TaskSeen]) -> Heard:
    """Return what was seen as facts, with a diagnosis for every end."""
    heard = Heard()
    facts: dict[str, list[Fact]] = {}
    notes: dict[str, list[Event]] = {}
    for task in seen:
        found = office.desk.records.get(task.key.job)
        if found is None or not is_current(found.job, task.key):
            heard.strangers.append(task)
        else:
            facts.setdefault(task.key.job, []).extend(await _facts(office, found, task))
            notes.setdefault(task.key.job, []).extend(_notes(office, found, task))
    heard.news = {job: News(tuple(told), notes=tuple(notes[job])) for job, told in facts.items() if told or notes[job]}
    return heard


async def hear(office: Office, seen: Iterable[TaskSeen]) -> None:
    """Record what was seen, and have what has no right to be there ended or forgotten."""
    heard = await understand(office, seen)
    if heard.news:
        await record(office, heard.news)
    await remove(office, heard.strangers)


async def _facts(office: Office, found: JobRecord, seen: TaskSeen) -> list[Fact]:
    facts: list[Fact] = []
    now_ms = office.clock.now_ms()
    started_at_ms = seen.started_at_ms
    if seen.exit is not None and started_at_ms is None:
        started_at_ms = seen.exit.started_at_ms
    if started_at_ms is not None and found.job.tasks[seen.key.task].phase is TaskPhase.STARTING:
        facts.append(TaskStarted(seen.key, started_at_ms))
    if seen.exit is not None:
        tail = await _tail(office, seen.key) if needs_log(seen.exit) else ""
        diagnosis = diagnose(seen.exit, tail)
        diagnosis = replace(diagnosis, matched=_shown(office, found, diagnosis.matched))
        report = replace(seen.exit, message=_shown(office, found, seen.exit.message))
        if report.reason is not ExitReason.EXITED:
            report = replace(report, code=diagnosis.code)
        facts.append(TaskExited(seen.key, report, diagnosis, _ended_at(report, started_at_ms, now_ms)))
    return facts


def _notes(office: Office, found: JobRecord, seen: TaskSeen) -> Iterator[Event]:
    """Yield the step on its way that a task has taken, unless another task of the job has told the same already."""
    if not seen.step or found.job.tasks[seen.key.task].phase is not TaskPhase.STARTING:
        return
    job = found.job
    known = office.desk.steps.setdefault(job.id, set())
    this = (job.attempt, seen.key.task_attempt, seen.told)
    if this in known:
        return
    known.add(this)
    yield Event(
        job.id,
        office.clock.now_ms(),
        seen.step,
        _shown(office, found, seen.told),
        job.attempt,
        seen.key,
        slot.node if (slot := found.slots.get(seen.key.task)) else None,
        seen.step.endswith("Failed"),
    )


def _shown(office: Office, found: JobRecord, text: str) -> str:
    if not text or found.sealed is None:
        return text
    try:
        return without_secrets(text, office.secrets.open(found.sealed))
    except Refused:
        return WITHHELD


def _ended_at(report: ExitReport, started_at_ms: int | None, now_ms: int) -> int:
    # A machine's clock may run ahead of ours; a task must not end in the future or before it began.
    ended_at_ms = min(report.ended_at_ms or now_ms, now_ms)
    return max(ended_at_ms, started_at_ms or ended_at_ms)


async def _tail(office: Office, key: AttemptKey) -> str:
    tail = b""
    for stream in _READ_FOR_DIAGNOSIS:
        try:
            chunk = await office.logs.read(key, stream, -TAIL_BYTES, TAIL_BYTES)
        except (PaiError, OSError):
            continue  # a log that cannot be read must not keep a job from ending
        # A stream may end in the middle of a line.
        tail += chunk.data if chunk.data.endswith(b"\n") or not chunk.data else chunk.data + b"\n"
    return tail.decode(errors="replace")


async def remove(office: Office, strangers: Iterable[TaskSeen]) -> None:
    """End what runs without a right to; forget what is over and recorded."""
    running = [KillTask(task.key, 0.0) for task in strangers if task.exit is None and not _is_over(office, task.key)]
    over = [ForgetTask(task.key) for task in strangers if task.exit is not None]
    if running or over:
        # To a server that leads no longer, everything its successor started is a stranger.
        await office.store.check_lease(office.epoch)
        await office.backend.apply([*running, *over])


def _is_over(office: Office, key: AttemptKey) -> bool:
    # Its end was recorded a moment ago and this is older news of it.
    return key in office.desk.to_forget
