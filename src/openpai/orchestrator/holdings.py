"""Which jobs hold resources on a node, or hold the resources that a waiting job needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from openpai.orchestrator import gangs
from openpai.orchestrator.leader import Leader
from openpai.ports.platform import Holding
from openpai.ports.store import JobRecord, Slot
from openpai.scheduler.interface import Amount


def held_on(leader: Leader, node: str) -> tuple[Holding, ...]:
    """Return what jobs hold on a node, the largest first."""
    return _sorted(_holdings(leader, lambda found, slot: slot.node == node))


def in_the_way(leader: Leader, waiting: JobRecord) -> tuple[Holding, ...]:
    """Return what jobs hold in the virtual cluster of a waiting job, or in all of them if that is nothing.

    An opportunistic job waits for free devices anywhere, so every job is in its way. A job with a guarantee preempts
    less urgent jobs and borrowers, so only those of them that are ending already are in its way.
    """
    if waiting.priority < 0:
        return _sorted(_holdings(leader, lambda found, slot: True))
    borrowers = leader.scheduler.borrowers()

    def is_in_the_way(found: JobRecord) -> bool:
        if found.job.outcome is not None:
            return True
        return found.priority >= waiting.priority and not any(gang in borrowers for gang in gangs.names_holding(found))

    holders = {id_ for id_, found in leader.active.records.items() if found.slots and is_in_the_way(found)}
    own = {id_ for id_ in holders if leader.active.records[id_].virtual_cluster == waiting.virtual_cluster}
    return _sorted(_holdings(leader, lambda found, slot: found.job.id in (own or holders)))


def borrowed_by(leader: Leader, found: JobRecord) -> Amount:
    """Return what a job uses without a guarantee."""
    return leader.scheduler.borrowed_by(gangs.names_holding(found))


def _sorted(found: Iterator[Holding]) -> tuple[Holding, ...]:
    return tuple(sorted(found, key=lambda one: (-one.gpus, -one.cpus, one.user, one.name)))


def _holdings(leader: Leader, is_included: Callable[[JobRecord, Slot], bool]) -> Iterator[Holding]:
    for found in leader.active.records.values():
        slots = [slot for slot in found.slots.values() if is_included(found, slot)]
        if slots:
            yield _holding(found, slots)


def _holding(found: JobRecord, slots: list[Slot]) -> Holding:
    job = found.job
    since_ms = job.attempt_started_at_ms
    return Holding(
        job=job.id,
        user=found.user,
        name=found.name,
        virtual_cluster=found.virtual_cluster,
        is_private=found.is_private,
        submitted_at_ms=job.submitted_at_ms,
        tasks=len(slots),
        gpus=sum(slot.gpus for slot in slots),
        cpus=sum(slot.cpus for slot in slots),
        memory_mb=sum(slot.memory_mb for slot in slots),
        devices=tuple(sorted({device for slot in slots for device in slot.devices})),
        since_ms=since_ms,
        ends_ms=since_ms + found.time_limit_ms if since_ms is not None and found.time_limit_ms is not None else None,
        is_ending=job.outcome is not None,
    )
