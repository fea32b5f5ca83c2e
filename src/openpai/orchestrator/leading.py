"""Taking over: everything a server must know before its passes may run, rebuilt from the store and the backend."""

from __future__ import annotations

from typing import Final

from openpai.orchestrator import gangs
from openpai.orchestrator.auditing import audit, look_at_nodes
from openpai.orchestrator.office import Desk, Office
from openpai.orchestrator.recording import reload
from openpai.ports.store import JobRecord
from openpai.protocol.errors import Unavailable
from openpai.scheduler.model import Spot

INBOX_PER_PASS: Final = 500


async def take_over(office: Office) -> None:
    """Fill an empty office: nodes, jobs, grants and ports, then compare it with what the backend sees."""
    office.desk = Desk()
    await look_at_nodes(office)
    for record in await office.store.active():
        adopt(office, record)
    await audit(office)


def adopt(office: Office, record: JobRecord) -> None:
    """Put a job on the desk with what it holds and what of it waits."""
    job = record.job
    office.desk.records[job.id] = record
    office.desk.to_act[job.id] = None
    office.nudges.work.set()
    for members in gangs.waiting(job):
        office.scheduler.add(gangs.describe(record, members))
    for gang, spots in _held(record).items():
        office.scheduler.restore(gangs.describe(record, gang), spots)
    for slot in record.slots.values():
        office.ports.mark(slot.address, [port for ports in slot.ports.values() for port in ports])
    if job.retry_at_ms or not job.plan.is_gang:
        office.nudges.timers.set()


def _held(record: JobRecord) -> dict[gangs.Members, list[Spot | None]]:
    """Return every gang that holds something, with a spot or None for each of its members."""
    job = record.job
    spots = {id_: Spot(slot.node, slot.devices) for id_, slot in record.slots.items()}
    if not spots:
        return {}
    if job.plan.is_gang:
        everyone = gangs.Members(f"{job.id}/{job.attempt}", tuple(job.tasks))
        return {everyone: [spots.get(id_) for id_ in everyone.tasks]}
    return {gangs.Members(gangs.gang_of(job, job.tasks[id_])[0], (id_,)): [spot] for id_, spot in spots.items()}


async def take_in(office: Office) -> bool:
    """Take jobs that other servers touched onto the desk; return whether there may be more."""
    try:
        touched = await office.store.take_inbox(INBOX_PER_PASS, office.epoch)
        async with office.gate:
            for id_ in touched:
                await reload(office, id_, set())
    except Unavailable:
        # The inbox may be empty by now and nobody knows what was in it.
        office.must_resync = True
        raise
    return len(touched) == INBOX_PER_PASS
