"""Derives from an update of a job the change that the store saves, without store, scheduler or backend."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import structlog

from openpai.access.quotas import Quota
from openpai.lifecycle.facts import Fact
from openpai.lifecycle.model import Job, Stepped, TaskId
from openpai.lifecycle.narration import narrate
from openpai.lifecycle.retries import RETRY_POLICY, RetryPolicy
from openpai.lifecycle.stepping import step
from openpai.lifecycle.table import ImpossibleFact
from openpai.ports.store import Change, Event, JobRecord, Slot

log: Final = structlog.get_logger(__name__)


class Remark(NamedTuple):
    """An event that precedes those of the facts and says who caused them, and why."""

    reason: str
    message: str
    is_warning: bool = True


@dataclass(frozen=True, slots=True)
class JobUpdate:
    """What to change about one job, and which events to write."""

    facts: tuple[Fact, ...] = ()
    """In the order in which they happened."""
    slots: Mapping[TaskId, Slot] | None = None
    """The slots of tasks that the facts grant."""
    amend: Callable[[JobRecord], JobRecord] | None = None
    """Changes something other than the phase, such as the priority; raises Refused where the job forbids it."""
    remark: Remark | None = None
    """Written only if the job changes."""
    notes: tuple[Event, ...] = ()
    """Written also if the job does not change."""
    quotas: tuple[Quota, ...] = ()
    """Quotas that the store checks when the facts start a finished job again."""


def change_of(before: JobRecord, update: JobUpdate, now_ms: int, policy: RetryPolicy = RETRY_POLICY) -> Change | None:
    """Return what to save for an update, or None when it changes nothing. Impossible facts are logged and dropped."""
    try:
        stepped = step(before.job, update.facts, policy)
    except ImpossibleFact as error:
        log.error("impossible facts were dropped", job=before.full_name, error=error.message)
        return None
    amended = update.amend(before) if update.amend is not None else before
    if stepped.job is before.job and amended == before and not update.notes:
        return None
    events = update.notes
    if update.remark is not None:
        reason, message, is_warning = update.remark
        remark = Event(before.job.id, now_ms, reason, message, before.job.attempt, is_warning=is_warning)
        events = (remark, *events)
    change = build_change(before, stepped, update.slots or {}, now_ms, amended)
    return (
        change
        if not (events or update.quotas)
        else replace(change, events=(*events, *change.events), quotas=update.quotas)
    )


def build_change(
    before: JobRecord, stepped: Stepped, granted: Mapping[TaskId, Slot], now_ms: int, amended: JobRecord | None = None
) -> Change:
    """Return the change that takes a record to its next state, with everything to save in the same transaction.

    The next state has what the step does not change from `amended`, or from `before`.
    """
    is_same_attempt = stepped.last.attempt == before.job.attempt
    changed = stepped.changed if is_same_attempt else ()
    last = stepped.last.tasks
    slots_known = {**before.slots, **{id_: slot for id_, slot in granted.items() if _holds(stepped.job, id_, slot)}}
    slots = dict(slots_known)
    is_in_it = stepped.job.attempt == before.job.attempt
    for id_ in changed if is_in_it else slots_known:
        slot = slots.get(id_)
        if slot is not None and not _holds(stepped.job, id_, slot):
            del slots[id_]
    after = replace(amended or before, job=stepped.job, slots=slots, version=before.version + 1)
    return Change(
        before=before,
        after=after,
        tasks=tuple([(task, slots_known.get(task.id)) for task in (*stepped.retried, *(last[id_] for id_ in changed))]),
        job_attempt=before.job.attempt,
        ended=stepped.ended,
        granted=_devices(granted, slots, before.slots),
        released=_devices(changed if is_in_it else before.slots, before.slots, slots),
        events=tuple(_events(before, stepped, slots_known, now_ms)),
    )


def tasks_of(change: Change) -> Collection[TaskId] | None:
    """Return the tasks of a change, or None for all when it starts another attempt."""
    if change.before.job.attempt != change.after.job.attempt:
        return None
    return dict.fromkeys(task.id for task, _ in change.tasks)


def _holds(job: Job, id_: TaskId, slot: Slot) -> bool:
    task = job.tasks.get(id_)
    return task is not None and task.is_alive and task.grant == slot.grant


def _devices(
    among: Iterable[TaskId], these: Mapping[TaskId, Slot], without: Mapping[TaskId, Slot]
) -> tuple[tuple[str, int, int], ...]:
    return tuple(
        [
            (slot.node, device, slot.grant)
            for id_ in among
            if (slot := these.get(id_)) is not None and without.get(id_) != slot
            for device in slot.devices
        ]
    )


def _events(before: JobRecord, stepped: Stepped, slots: Mapping[TaskId, Slot], now_ms: int) -> Sequence[Event]:
    events = []
    for line in narrate(before.job, stepped):
        slot = slots.get(line.key.task) if line.key else None
        node = slot.node if slot else None
        attempt = line.job_attempt
        events.append(Event(before.job.id, now_ms, line.reason, line.message, attempt, line.key, node, line.is_warning))
    return events
