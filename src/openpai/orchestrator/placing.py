"""Translates the scheduler's decisions to grants: allocates ports and prepares the updates to save.

The scheduler commits the placements that were saved and rejects the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from openpai.lifecycle.facts import Preempted, TasksGranted
from openpai.lifecycle.model import TaskId
from openpai.orchestrator import gangs
from openpai.orchestrator.changes import JobUpdate
from openpai.orchestrator.leader import Leader
from openpai.orchestrator.recording import TASKS_AT_ONCE
from openpai.ports.store import Event, JobRecord, Slot
from openpai.ports.usage import LentUse
from openpai.protocol.wording import duration, plural
from openpai.runtime.environment import port_labels
from openpai.scheduler.model import Place, Preempt

DECISIONS_MAX: Final = 256


@dataclass(slots=True)
class Proposal:
    """The placements of one turn, from the decision until they are saved."""

    placed: dict[str, Mapping[TaskId, Slot]] = field(default_factory=dict)
    """The placement of each gang."""
    leaving: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The jobs to preempt for each gang."""
    moved: dict[str, tuple[LentUse, ...]] = field(default_factory=dict)
    """The moves of jobs for each gang, for reports."""
    has_more: bool = False
    """Whether the scheduler has more to decide once this is saved."""

    async def propose(self, leader: Leader, busy: Collection[str]) -> Mapping[str, JobUpdate]:
        """Return the scheduler's decisions as updates. A job that is `busy` waits for the next turn."""
        now_ms = leader.clock.now_ms()
        decisions = leader.scheduler.decide(leader.steady.now_ms(), DECISIONS_MAX)
        self.has_more = len(decisions) == DECISIONS_MAX
        updates: dict[str, JobUpdate] = {}
        for decision in decisions:
            if isinstance(decision, Preempt):
                self._preempt(leader, decision, now_ms, busy, updates)
                continue
            job = gangs.job_of(decision.gang)
            is_busy = job in busy or any(job in jobs for jobs in self.leaving.values())
            slots = None if is_busy else await _slots(leader, decision)
            if slots is None:
                leader.scheduler.reject(decision.gang)
                self.has_more = self.has_more or is_busy
                continue
            self.placed[decision.gang] = slots
            grants = {id_: slot.grant for id_, slot in slots.items()}
            update = JobUpdate((TasksGranted(leader.active.records[job].job.attempt, grants, now_ms),), slots)
            updates[job] = _joined(updates[job], update) if job in updates else update
        return updates

    def _preempt(
        self, leader: Leader, decision: Preempt, now_ms: int, busy: Collection[str], updates: dict[str, JobUpdate]
    ) -> None:
        """Preempt the victims, unless one of them has another change to save first."""
        jobs = {gangs.job_of(victim): why for victim, why in zip(decision.victims, decision.whys, strict=True)}
        changing = {*jobs, gangs.job_of(decision.gang)} if decision.moved else jobs.keys()
        if any(job in busy or job in updates for job in changing):
            leader.scheduler.reject(decision.gang)
            self.has_more = True
            return
        self.leaving[decision.gang] = tuple(jobs)
        waiting = leader.active.records.get(gangs.job_of(decision.gang))
        lost_ms = {gangs.job_of(victim): lost for victim, lost in decision.moved.items()}
        names, uses = [], []
        for job, why in jobs.items():
            found = leader.active.records.get(job)
            if found is None:
                continue
            notes: tuple[Event, ...] = ()
            if job in lost_ms:
                names.append(found.full_name)
                notes = (_moved(found, waiting, lost_ms[job], now_ms),)
                uses.append(_move_of(found, lost_ms[job]))
            updates[job] = JobUpdate((Preempted(found.job.attempt, now_ms, why),), notes=notes)
        self.moved[decision.gang] = tuple(uses)
        if names and waiting is not None:
            message = f"resources are reserved for it: {', '.join(sorted(names))} moved to make room for it"
            event = Event(waiting.job.id, now_ms, "RoomMade", message, waiting.job.attempt)
            updates[waiting.job.id] = JobUpdate(notes=(event,))

    def settle(self, leader: Leader, changed: Mapping[str, JobRecord]) -> None:
        """Commit the saved placements in the scheduler; reject the others and release their ports."""
        for gang, slots in self.placed.items():
            job = gangs.job_of(gang)
            held = changed[job].slots if job in changed else {}
            if any(held.get(id_) == slot for id_, slot in slots.items()):
                leader.scheduler.commit(gang)
                continue
            leader.scheduler.reject(gang)
            _give_back(leader, slots.values())
            found = leader.active.records.get(job)
            if found is None or gangs.waiting_as(found.job, gang) is None:
                leader.scheduler.cancel(gang)
                leader.nudges.work.set()
        for gang, jobs in self.leaving.items():
            if any(_stays(leader, job) for job in jobs):
                leader.scheduler.reject(gang)
                leader.nudges.work.set()
            else:
                leader.uncounted += self.moved.get(gang, ())
        self.placed, self.leaving, self.moved = {}, {}, {}


def _moved(record: JobRecord, waiting: JobRecord | None, lost_ms: int, now_ms: int) -> Event:
    """Return the event of a job that leaves its devices for another one, with the work that it must do again."""
    lost = f"the last {duration(lost_ms / 1000)} of its work on {plural(record.spec.gpus_total, 'GPU')} are done again"
    message = f"it leaves its node for {waiting.full_name if waiting else 'another job'}; {lost}"
    return Event(record.job.id, now_ms, "Moved", message, record.job.attempt)


def _move_of(record: JobRecord, lost_ms: int) -> LentUse:
    """Return what a move adds to reports."""
    moved_ms = lost_ms * record.spec.gpus_total
    return LentUse(record.virtual_cluster, record.user, jobs_moved=1, moved_gpu_ms=moved_ms)


def _stays(leader: Leader, job: str) -> bool:
    found = leader.active.records.get(job)
    return found is not None and bool(found.slots) and found.job.outcome is None


def _joined(one: JobUpdate, other: JobUpdate) -> JobUpdate:
    slots = {**(one.slots or {}), **(other.slots or {})}
    return JobUpdate((*one.facts, *other.facts), slots, notes=(*one.notes, *other.notes))


async def _slots(leader: Leader, decision: Place) -> dict[TaskId, Slot] | None:
    """Return what each member gets, with its ports; None if the job is gone or ports are short."""
    found = leader.active.records.get(gangs.job_of(decision.gang))
    tasks = gangs.waiting_as(found.job, decision.gang) if found else None
    if found is None or tasks is None:
        return None
    needs = {role.name: role.resources for role in found.spec.task_roles}
    labels = {name: port_labels(need) for name, need in needs.items()}
    slots: dict[TaskId, Slot] = {}
    for number, (task, spot) in enumerate(zip(tasks, decision.spots, strict=True), 1):
        if number % TASKS_AT_ONCE == 0:
            # For a gang of thousands: serve other requests between its parts.
            await asyncio.sleep(0)
        address = leader.nodes[spot.node].address
        ports = leader.ports.take(address, labels[task.role])
        if ports is None:
            _give_back(leader, slots.values())
            return None
        need = needs[task.role]
        slots[task] = Slot(
            spot.node, address, spot.devices, ports, leader.next_grant(),
            spot.placement_hint, max(need.gpus, len(spot.devices)), need.cpus, need.memory_mb,
            gangs.is_alone(decision.gang),
        )  # fmt: skip
    return slots


def _give_back(leader: Leader, slots: Iterable[Slot]) -> None:
    for slot in slots:
        leader.ports.give_back(slot.address, [port for ports in slot.ports.values() for port in ports])
