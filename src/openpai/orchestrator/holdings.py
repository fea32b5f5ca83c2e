"""Which jobs hold what, for people: on one node, or the room that another job waits for."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from openpai.orchestrator import gangs
from openpai.orchestrator.leader import Leader
from openpai.ports.platform import Holding
from openpai.ports.store import JobRecord, Slot


def held_on(leader: Leader, node: str) -> tuple[Holding, ...]:
    """Return what jobs hold on a node, the largest first."""
    return _sorted(_holdings(leader, lambda found, slot: slot.node == node))


def in_the_way(leader: Leader, waiting: JobRecord) -> tuple[Holding, ...]:
    """Return what jobs hold in the virtual cluster of a waiting job; where that is nothing, what others hold.

    An opportunistic job waits for room anywhere, so all jobs hold it. A job with a guarantee does not wait for those
    that must leave for it, less urgent ones and borrowers, unless they are leaving already.
    """
    if waiting.priority < 0:
        return _sorted(_holdings(leader, lambda found, slot: True))
    borrowers = leader.scheduler.borrowers()

    def is_in_the_way(found: JobRecord) -> bool:
        if found.job.outcome is not None:
            return True
        return found.priority >= waiting.priority and not any(one.gang in borrowers for one in gangs.holding(found))

    holders = {id_ for id_, found in leader.active.records.items() if found.slots and is_in_the_way(found)}
    own = {id_ for id_ in holders if leader.active.records[id_].virtual_cluster == waiting.virtual_cluster}
    return _sorted(_holdings(leader, lambda found, slot: found.job.id in (own or holders)))


def _sorted(found: Iterator[Holding]) -> tuple[Holding, ...]:
    return tuple(sorted(found, key=lambda one: (-one.gpus, -one.cpus, one.user, one.name)))


def _holdings(leader: Leader, is_meant: Callable[[JobRecord, Slot], bool]) -> Iterator[Holding]:
    for found in leader.active.records.values():
        slots = [slot for slot in found.slots.values() if is_meant(found, slot)]
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
