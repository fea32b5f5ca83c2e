"""The one gate through which every change of a job goes: step, save if nobody was faster, then tell the rooms.

Facts of many jobs are saved in one transaction. What follows from a saved step (devices back to the scheduler, a
new gang in the queue, something to tell the backend) happens after the commit and is lost, harmlessly, when the
server dies first: the next server derives it again from what was saved.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import structlog

from openpai.lifecycle.actions import Wanted, wanted
from openpai.lifecycle.model import Fact, Job, JobPhase, Task, TaskId
from openpai.lifecycle.narration import narrate
from openpai.lifecycle.stepping import Stepped, step
from openpai.lifecycle.table import ImpossibleFact
from openpai.orchestrator import gangs
from openpai.orchestrator.office import Office
from openpai.ports.store import Change, Event, JobRecord, Saved, Slot
from openpai.ports.usage import Quota
from openpai.protocol.errors import Unavailable

RACES_MAX: Final = 5
log: Final = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class News:
    """Facts about one job, in the order they happened, and the slots of tasks that they grant."""

    facts: tuple[Fact, ...]
    slots: Mapping[TaskId, Slot] | None = None
    remark: tuple[str, str] | None = None
    """What the history says before it tells what the facts changed: a reason and a sentence."""
    quotas: tuple[Quota, ...] = ()
    """What the store checks when the facts let a final job run again."""


Proposing = Callable[["Office", Collection[str]], Mapping[str, News]]
"""Returns grants to save with the rest; is told which jobs already have something to save."""


async def record(office: Office, news: Mapping[str, News], propose: Proposing | None = None) -> dict[str, JobRecord]:
    """Turn facts into saved changes; return each job that changed, as it is now.

    What the facts set free is free for `propose`, whose grants are saved in the same transaction. Old news changes
    nothing, impossible news is logged and dropped. Raises Unavailable when the store does not answer, and, having
    changed nothing, `LeaseLost` when another server leads and `BeyondQuota` when quotas forbid what the news wishes.
    """
    changed: dict[str, JobRecord] = {}
    freed: set[tuple[str, int]] = set()
    async with office.gate:
        left = dict(news)
        for _ in range(RACES_MAX):
            try:
                left = await _record_once(office, left, changed, freed, propose)
            except Unavailable:
                # Perhaps it was saved and only the answer was lost, or what follows from it was half done.
                office.must_resync = True
                raise
            propose = None
            if not left:
                return changed
    raise Unavailable(f"jobs {', '.join(left)} changed {RACES_MAX} times while news of them was saved")


async def _record_once(
    office: Office,
    news: Mapping[str, News],
    changed: dict[str, JobRecord],
    freed: set[tuple[str, int]],
    propose: Proposing | None,
) -> dict[str, News]:
    """Save what can be saved; return the news of jobs that somebody else changed meanwhile."""
    changes = await _changes(office, news)
    for change in changes:
        _let_go(office, change.before, change.after, freed)
    if propose is not None:
        granted = propose(office, {change.after.job.id for change in changes})
        news = {**news, **granted}
        changes += await _changes(office, granted)
    if not changes:
        return {}
    answers = await office.store.save(changes, office.epoch)
    stale: dict[str, News] = {}
    for change, saved in zip(changes, answers, strict=True):
        id_ = change.after.job.id
        if saved is Saved.YES:
            changed[id_] = change.after
            follow(office, change.before, change.after)
        elif saved is Saved.STALE:
            stale[id_] = news[id_]
            await reload(office, id_, freed)
        elif Saved.STALE not in answers:
            # With a stale change in the group, the device may be one that this change was about to free.
            log.error("a device was granted twice", job=id_, granted=change.granted)
            office.must_resync = True
    return stale


async def _changes(office: Office, news: Mapping[str, News]) -> list[Change]:
    changes = []
    for id_, told in news.items():
        before = office.desk.records.get(id_) or await office.store.load(id_)
        change = change_of(before, told, office) if before else None
        if change is not None:
            changes.append(change)
    return changes


async def reload(office: Office, id_: str, freed: set[tuple[str, int]]) -> None:
    """Replace a job on the desk by what the store holds, and tell the rooms what that changes."""
    before = office.desk.records.get(id_)
    after = await office.store.load(id_)
    if after is None:
        return
    if before is None:
        before = replace(after, job=replace(after.job, phase=JobPhase.STOPPED, tasks={}), slots={})
    _let_go(office, before, after, freed)
    follow(office, before, after)


async def is_newest(office: Office, known: JobRecord) -> bool:
    """Return whether the store knows no later version of a job; if it does, so does the desk afterwards."""
    async with office.gate:
        stored = await office.store.load(known.job.id)
        if stored is None or stored.version == known.version:
            return True
        await reload(office, known.job.id, set())
        return False


def _let_go(office: Office, before: JobRecord, after: JobRecord, freed: set[tuple[str, int]]) -> None:
    """Give back what a job holds no longer, once, however often the step that frees it has to be saved.

    What is over in the world is free in the world: no need to wait until that is written down.
    """
    job_id = before.job.id
    leaving: dict[str, list[int]] = {}
    for id_, slot in before.slots.items():
        if after.slots.get(id_) is slot or after.slots.get(id_) == slot or (job_id, slot.grant) in freed:
            continue
        freed.add((job_id, slot.grant))
        gang, place = gangs.gang_of(before.job, before.job.tasks[id_])
        leaving.setdefault(gang, []).append(place)
        office.ports.give_back(slot.address, [port for ports in slot.ports.values() for port in ports])
    for gang, places in leaving.items():
        # At once: members of a gang of thousands often end in the same moment.
        office.scheduler.release(gang, places)
        office.nudges.work.set()


def change_of(before: JobRecord, news: News, office: Office) -> Change | None:
    """Return what to save for some news, or None when it changes nothing."""
    try:
        stepped = step(before.job, news.facts, office.policy)
    except ImpossibleFact as error:
        log.error("impossible news dropped", job=before.full_name, error=error.message)
        return None
    if stepped.job is before.job:
        return None
    change = build_change(before, stepped, news.slots or {}, office.clock.now_ms())
    change = replace(change, quotas=news.quotas) if news.quotas else change
    if news.remark is None:
        return change
    remark = Event(before.job.id, office.clock.now_ms(), *news.remark, before.job.attempt, is_warning=True)
    return replace(change, events=(remark, *change.events))


def build_change(before: JobRecord, stepped: Stepped, granted: Mapping[TaskId, Slot], now_ms: int) -> Change:
    """Return the change that takes a record to its next state, with everything that has to be saved beside it."""
    last = stepped.ended or stepped.job
    is_same_attempt = last.attempt == before.job.attempt
    tasks = _changed_tasks(before.job, last) if is_same_attempt else ()
    slots_known = {**before.slots, **{id_: slot for id_, slot in granted.items() if _holds(stepped.job, id_, slot)}}
    slots = {id_: slot for id_, slot in slots_known.items() if _holds(stepped.job, id_, slot)}
    after = replace(before, job=stepped.job, slots=slots, version=before.version + 1)
    return Change(
        before=before,
        after=after,
        tasks=tuple((task, slots_known.get(task.id)) for task in (*stepped.retried, *tasks)),
        job_attempt=before.job.attempt,
        ended=stepped.ended,
        granted=_devices(slots, before.slots),
        released=_devices(before.slots, slots),
        events=tuple(_events(before, stepped, slots_known, now_ms)),
    )


def _changed_tasks(before: Job, last: Job) -> tuple[Task, ...]:
    return tuple(task for id_, task in last.tasks.items() if before.tasks.get(id_) is not task)


def _holds(job: Job, id_: TaskId, slot: Slot) -> bool:
    task = job.tasks.get(id_)
    return task is not None and task.is_alive and task.grant == slot.grant


def _devices(these: Mapping[TaskId, Slot], without: Mapping[TaskId, Slot]) -> tuple[tuple[str, int, int], ...]:
    return tuple(
        (slot.node, device, slot.grant)
        for id_, slot in these.items()
        if without.get(id_) != slot
        for device in slot.devices
    )


def _events(before: JobRecord, stepped: Stepped, slots: Mapping[TaskId, Slot], now_ms: int) -> Sequence[Event]:
    events = []
    for line in narrate(before.job, stepped):
        slot = slots.get(line.key.task) if line.key else None
        node = slot.node if slot else None
        attempt = line.job_attempt
        events.append(Event(before.job.id, now_ms, line.reason, line.message, attempt, line.key, node, line.is_warning))
    return events


def follow(office: Office, before: JobRecord, after: JobRecord) -> None:
    """Let the desk, the scheduler and the port book know that a job is now `after`."""
    desk = office.desk
    id_ = after.job.id
    _forget_over(office, before, after)
    _requeue(office, before, after)
    if after.job.is_final:
        desk.records.pop(id_, None)
        desk.to_act.pop(id_, None)
    else:
        desk.records[id_] = after
        if wanted(after.job) != Wanted():
            desk.to_act[id_] = None
            office.nudges.work.set()
    if after.job.retry_at_ms or not after.job.plan.is_gang or after.time_limit_ms:
        office.nudges.timers.set()


def _forget_over(office: Office, before: JobRecord, after: JobRecord) -> None:
    desk = office.desk
    for task in before.job.tasks.values():
        if not task.is_alive:
            continue
        key = before.job.key(task)
        now = after.job.tasks.get(task.id)
        if now is None or not now.is_alive or after.job.key(now) != key:
            desk.to_forget[key] = None
            desk.launched.discard(key)
            desk.killed.discard(key)
            office.nudges.work.set()


def _requeue(office: Office, before: JobRecord, after: JobRecord) -> None:
    waited = {members.gang for members in gangs.waiting(before.job)}
    if gangs.has_changed(before, after):
        _describe_anew(office, after)
    if after.checkpoint_at_ms is not None and after.checkpoint_at_ms != before.checkpoint_at_ms:
        for members in gangs.holding(after):
            office.scheduler.checkpointed(members.gang, after.checkpoint_at_ms)
    for members in gangs.waiting(after.job):
        if members.gang in waited:
            waited.discard(members.gang)
            continue
        office.scheduler.add(gangs.describe(after, members))
        office.nudges.work.set()
    is_granted = {gangs.gang_of(after.job, after.job.tasks[id_])[0] for id_ in after.slots}
    for gang in sorted(waited - is_granted):
        office.scheduler.cancel(gang)
        # Whoever waited behind it may be next.
        office.nudges.work.set()


def _describe_anew(office: Office, record_: JobRecord) -> None:
    for members in (*gangs.waiting(record_.job), *gangs.holding(record_)):
        office.scheduler.change(gangs.describe(record_, members))
    office.nudges.work.set()
