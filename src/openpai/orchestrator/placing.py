"""The pass that turns the scheduler's decisions into grants: ports are allocated, the placement is saved, and only
then does the scheduler consider it done. A placement that the store or the job refuses goes back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from openpai.lifecycle.model import Preempted, TaskId, TasksGranted
from openpai.orchestrator import gangs
from openpai.orchestrator.office import Office
from openpai.orchestrator.recording import News, record
from openpai.orchestrator.specs import spec_of
from openpai.ports.store import JobRecord, Slot
from openpai.runtime.environment import port_labels
from openpai.scheduler.model import Place, Preempt

DECISIONS_PER_PASS: Final = 256


async def place(office: Office) -> bool:
    """Carry out one bounded round of decisions; return whether there may be more."""
    office.nudges.place.clear()
    now_ms = office.clock.now_ms()
    decisions = office.scheduler.decide(now_ms, DECISIONS_PER_PASS)
    news: dict[str, News] = {}
    placed: dict[str, str] = {}
    for decision in decisions:
        if isinstance(decision, Preempt):
            _preempt(office, decision, now_ms, news)
            continue
        job = gangs.job_of(decision.gang)
        told = _grant(office, decision, now_ms)
        if told is None:
            office.scheduler.reject(decision.gang)
            continue
        placed[decision.gang] = job
        before = news.get(job)
        news[job] = told if before is None else _joined(before, told)
    try:
        changed = await record(office, news)
    except BaseException:
        _take_back(office, placed, news, {})
        raise
    _take_back(office, placed, news, changed)
    return len(decisions) == DECISIONS_PER_PASS


def _joined(one: News, other: News) -> News:
    return News((*one.facts, *other.facts), {**(one.slots or {}), **(other.slots or {})})


def _preempt(office: Office, decision: Preempt, now_ms: int, news: dict[str, News]) -> None:
    for victim in decision.victims:
        id_ = gangs.job_of(victim)
        record_ = office.desk.records.get(id_)
        if record_ is not None:
            news[id_] = News((Preempted(record_.job.attempt, now_ms, decision.why),))


def _grant(office: Office, decision: Place, now_ms: int) -> News | None:
    """Return the grant as news, with ports set aside; None when the job or the ports are not there."""
    found = office.desk.records.get(gangs.job_of(decision.gang))
    members = next((m for m in gangs.waiting(found.job) if m.gang == decision.gang), None) if found else None
    if found is None or members is None:
        return None
    roles = {role.name: role for role in spec_of(found).task_roles}
    slots: dict[TaskId, Slot] = {}
    for task, spot in zip(members.tasks, decision.spots, strict=True):
        address = office.nodes[spot.node].address
        ports = office.ports.take(address, port_labels(roles[task.role].resources))
        if ports is None:
            _give_back(office, slots.values())
            return None
        slots[task] = Slot(spot.node, address, spot.devices, ports, office.next_grant())
    grants = {task: slot.grant for task, slot in slots.items()}
    return News((TasksGranted(found.job.attempt, grants, now_ms),), slots)


def _take_back(
    office: Office, placed: Mapping[str, str], news: Mapping[str, News], changed: Mapping[str, JobRecord]
) -> None:
    """Tell the scheduler which placements became facts, and take back the ports of those that did not."""
    for gang, job in placed.items():
        after = changed.get(job)
        held = after.slots if after else {}
        mine = {id_: slot for id_, slot in (news[job].slots or {}).items() if _is_of(gang, job, id_)}
        if any(held.get(id_) == slot for id_, slot in mine.items()):
            office.scheduler.commit(gang)
        else:
            office.scheduler.reject(gang)
            _give_back(office, mine.values())
            _drop_unwanted(office, gang, job)


def _is_of(gang: str, job: str, task: TaskId) -> bool:
    # The name of a gang of one is JOB/ATTEMPT/ROLE/INDEX/TASK_ATTEMPT, that of a whole job's gang JOB/ATTEMPT.
    parts = gang[len(job) + 1 :].split("/")
    return len(parts) == 1 or parts[1:3] == [task.role, str(task.index)]


def _drop_unwanted(office: Office, gang: str, job: str) -> None:
    found = office.desk.records.get(job)
    if found is None or all(members.gang != gang for members in gangs.waiting(found.job)):
        office.scheduler.cancel(gang)


def _give_back(office: Office, slots: Iterable[Slot]) -> None:
    for slot in slots:
        office.ports.give_back(slot.address, [port for ports in slot.ports.values() for port in ports])
