"""The one gate through which every change of a job goes: step, save if nobody was faster, then tell the rooms.

Facts of many jobs are saved in one transaction. What follows from a saved step (devices back to the scheduler, a
new gang in the queue, something to tell the backend) happens after the commit and is lost, harmlessly, when the
server dies first: the next server derives it again from what was saved.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import structlog

from openpai.lifecycle.model import Fact, Job, JobPhase, TaskId, TaskPhase
from openpai.lifecycle.narration import narrate
from openpai.lifecycle.stepping import Stepped, step
from openpai.lifecycle.table import ImpossibleFact
from openpai.orchestrator import gangs
from openpai.orchestrator.leader import Leader
from openpai.ports.store import Change, Event, JobRecord, Saved, Slot
from openpai.ports.usage import Quota
from openpai.protocol.errors import Unavailable

RACES_MAX: Final = 5
TASKS_AT_ONCE: Final = 1000
"""After a step of more tasks of a job, requests have their turn."""
log: Final = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class News:
    """Facts about one job, in the order they happened, and the slots of tasks that they grant."""

    facts: tuple[Fact, ...]
    slots: Mapping[TaskId, Slot] | None = None
    remark: tuple[str, str] | None = None
    """What the history says before it tells what the facts changed: a reason and a sentence."""
    notes: tuple[Event, ...] = ()
    """What else the history says, also when nothing changes."""
    quotas: tuple[Quota, ...] = ()
    """What the store checks when the facts let a final job run again."""


Proposing = Callable[["Leader", Collection[str]], Awaitable[Mapping[str, News]]]
"""Returns grants to save with the rest; is told which jobs already have something to save."""


async def record(leader: Leader, news: Mapping[str, News], propose: Proposing | None = None) -> dict[str, JobRecord]:
    """Turn facts into saved changes; return each job that changed, as it is now.

    What the facts set free is free for `propose`, whose grants are saved in the same transaction. Old news changes
    nothing, impossible news is logged and dropped. Raises Unavailable when the store does not answer, and, having
    changed nothing, `LeaseLost` when another server leads and `BeyondQuota` when quotas forbid what the news wishes.
    """
    changed: dict[str, JobRecord] = {}
    freed: set[tuple[str, int]] = set()
    async with leader.gate:
        left = dict(news)
        for _ in range(RACES_MAX):
            try:
                left = await _record_once(leader, left, changed, freed, propose)
            except Unavailable:
                # Perhaps it was saved and only the answer was lost, or what follows from it was half done.
                leader.must_resync = True
                raise
            propose = None
            if not left:
                return changed
    raise Unavailable(f"jobs {', '.join(left)} changed {RACES_MAX} times while news of them was saved")


async def _record_once(
    leader: Leader,
    news: Mapping[str, News],
    changed: dict[str, JobRecord],
    freed: set[tuple[str, int]],
    propose: Proposing | None,
) -> dict[str, News]:
    """Save what can be saved; return the news of jobs that somebody else changed meanwhile."""
    changes = await _changes(leader, news)
    for change in changes:
        _let_go(leader, change.before, change.after, freed, _changed(change))
    if propose is not None:
        granted = await propose(leader, {change.after.job.id for change in changes})
        news = {**news, **granted}
        changes += await _changes(leader, granted)
    if not changes:
        return {}
    answers = await leader.store.save(changes, leader.epoch)
    stale: dict[str, News] = {}
    for change, saved in zip(changes, answers, strict=True):
        id_ = change.after.job.id
        if saved is Saved.YES:
            changed[id_] = change.after
            follow(leader, change.before, change.after, _changed(change))
        elif saved is Saved.STALE:
            stale[id_] = news[id_]
            await reload(leader, id_, freed)
        elif Saved.STALE not in answers:
            # With a stale change in the group, the device may be one that this change was about to free.
            log.error("a device was granted twice", job=id_, granted=change.granted)
            leader.must_resync = True
    return stale


async def _changes(leader: Leader, news: Mapping[str, News]) -> list[Change]:
    changes = []
    for id_, message in news.items():
        before = leader.active.records.get(id_) or await leader.store.load(id_)
        change = change_of(before, message, leader) if before else None
        if change is not None:
            changes.append(change)
            if len(change.tasks) > TASKS_AT_ONCE:
                await asyncio.sleep(0)
    return changes


async def reload(leader: Leader, id_: str, freed: set[tuple[str, int]]) -> None:
    """Replace a job on the desk by what the store holds, and tell the rooms what that changes."""
    before = leader.active.records.get(id_)
    after = await leader.store.load(id_)
    if after is None:
        return
    if before is None:
        before = replace(after, job=replace(after.job, phase=JobPhase.STOPPED, tasks={}), slots={})
    _let_go(leader, before, after, freed)
    follow(leader, before, after)


async def is_newest(leader: Leader, known: JobRecord) -> bool:
    """Return whether the store knows no later version of a job; if it does, so does the desk afterwards."""
    async with leader.gate:
        stored = await leader.store.load(known.job.id)
        if stored is None or stored.version == known.version:
            return True
        await reload(leader, known.job.id, set())
        return False


def _let_go(
    leader: Leader,
    before: JobRecord,
    after: JobRecord,
    freed: set[tuple[str, int]],
    changed: Collection[TaskId] | None = None,
) -> None:
    """Give back what a job holds no longer, once, however often the step that frees it has to be saved.

    What is over in the world is free in the world: no need to wait until that is written down. Only the tasks named
    in `changed` are looked at, all of them when it is None.
    """
    job_id = before.job.id
    leaving: dict[str, list[int]] = {}
    for id_ in before.slots if changed is None else changed:
        slot = before.slots.get(id_)
        if slot is None or after.slots.get(id_) == slot or (job_id, slot.grant) in freed:
            continue
        freed.add((job_id, slot.grant))
        gang, place = gangs.gang_of(before.job, before.job.tasks[id_])
        leaving.setdefault(gang, []).append(place)
        leader.ports.give_back(slot.address, [port for ports in slot.ports.values() for port in ports])
    for gang, places in leaving.items():
        # At once: members of a gang of thousands often end in the same moment.
        leader.scheduler.release(gang, places)
        leader.nudges.work.set()


def change_of(before: JobRecord, news: News, leader: Leader) -> Change | None:
    """Return what to save for some news, or None when it changes nothing."""
    try:
        stepped = step(before.job, news.facts, leader.policy)
    except ImpossibleFact as error:
        log.error("impossible news dropped", job=before.full_name, error=error.message)
        return None
    if stepped.job is before.job and not news.notes:
        return None
    change = build_change(before, stepped, news.slots or {}, leader.clock.now_ms())
    change = replace(change, quotas=news.quotas) if news.quotas else change
    change = replace(change, events=(*news.notes, *change.events))
    if news.remark is None:
        return change
    remark = Event(before.job.id, leader.clock.now_ms(), *news.remark, before.job.attempt, is_warning=True)
    return replace(change, events=(remark, *change.events))


def build_change(before: JobRecord, stepped: Stepped, granted: Mapping[TaskId, Slot], now_ms: int) -> Change:
    """Return the change that takes a record to its next state, with everything that has to be saved beside it."""
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
    after = replace(before, job=stepped.job, slots=slots, version=before.version + 1)
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


def _changed(change: Change) -> Collection[TaskId] | None:
    """Return which tasks a change is about; None when it leads to another attempt, and thus is about all."""
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


def follow(leader: Leader, before: JobRecord, after: JobRecord, changed: Collection[TaskId] | None = None) -> None:
    """Let the desk, the scheduler and the port book know that a job is now `after`.

    Only the tasks named in `changed` are looked at, all of them when it is None: a job may have thousands.
    """
    active = leader.active
    id_ = after.job.id
    _forget_over(leader, before, after, changed)
    _requeue(leader, before, after, changed)
    if after.job.is_final:
        active.records.pop(id_, None)
        active.to_act.pop(id_, None)
        active.steps.pop(id_, None)
    else:
        active.records[id_] = after
        # Once its attempt has its verdict, every task that is alive has to end.
        is_ending_now = after.job.phase is JobPhase.ENDING and before.job.phase is not JobPhase.ENDING
        if active.act_on(after.job, None if is_ending_now else changed):
            leader.nudges.work.set()
    if after.job.retry_at_ms or after.time_limit_ms or _backs_off(after.job, changed):
        leader.nudges.timers.set()


def _backs_off(job: Job, changed: Collection[TaskId] | None) -> bool:
    if job.plan.is_gang:
        return False
    tasks = job.tasks.values() if changed is None else [job.tasks[id_] for id_ in changed]
    return any(task.phase is TaskPhase.BACKING_OFF for task in tasks)


def _forget_over(leader: Leader, before: JobRecord, after: JobRecord, changed: Collection[TaskId] | None) -> None:
    active = leader.active
    for id_ in before.job.tasks if changed is None else changed:
        task = before.job.tasks[id_]
        if not task.is_alive:
            continue
        key = before.job.key(task)
        now = after.job.tasks.get(id_)
        if now is None or not now.is_alive or after.job.key(now) != key:
            active.to_forget[key] = None
            active.launched.discard(key)
            active.killed.discard(key)
            leader.nudges.work.set()


def _requeue(leader: Leader, before: JobRecord, after: JobRecord, changed: Collection[TaskId] | None) -> None:
    waited = {members.gang for members in gangs.waiting(before.job, changed)}
    if gangs.has_changed(before, after):
        _describe_anew(leader, after)
    if after.checkpoint_at_ms is not None and after.checkpoint_at_ms != before.checkpoint_at_ms:
        for members in gangs.holding(after):
            leader.scheduler.checkpointed(members.gang, after.checkpoint_at_ms)
    for members in gangs.waiting(after.job, changed):
        if members.gang in waited:
            waited.discard(members.gang)
            continue
        leader.scheduler.add(gangs.describe(after, members))
        leader.nudges.work.set()
    if not waited:
        return
    held = after.slots if changed is None else [id_ for id_ in changed if id_ in after.slots]
    is_granted = {gangs.gang_of(after.job, after.job.tasks[id_])[0] for id_ in held}
    for gang in sorted(waited - is_granted):
        leader.scheduler.cancel(gang)
        # Whoever waited behind it may be next.
        leader.nudges.work.set()


def _describe_anew(leader: Leader, record_: JobRecord) -> None:
    for members in (*gangs.waiting(record_.job), *gangs.holding(record_)):
        leader.scheduler.change(gangs.describe(record_, members))
    leader.nudges.work.set()
