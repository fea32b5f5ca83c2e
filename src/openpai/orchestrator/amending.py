"""Changes of a job that are no step of its life: how urgent it is, its rank, and that its work was saved.

They are saved through the same gate as steps. On a server that does not lead they reach the leader through the inbox.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from openpai.orchestrator.leader import Leader
from openpai.orchestrator.recording import RACES_MAX, follow, reload
from openpai.ports.store import Change, Event, JobRecord, JobStore, LeaseLost, Saved
from openpai.protocol.errors import Unavailable

Amend = Callable[[JobRecord], JobRecord]
"""Returns the job as it shall be; raises Refused for one that cannot be so."""


async def amend(store: JobStore, leader: Leader | None, id_: str, change: Amend, event: Event | None) -> None:
    """Save a change of a job and tell the rooms. Raises Unavailable when it changes too fast."""
    if leader is not None:
        try:
            return await _amend_leading(leader, id_, change, event)
        except LeaseLost:
            pass  # another server leads by now and hears of it in its inbox
    for _ in range(RACES_MAX):
        before = await store.load(id_)
        if before is None:
            break
        made = _change(before, change, event)
        if made is None or await store.save([made], None, notify=True) == (Saved.YES,):
            return None
    raise Unavailable(f"job {id_} changes too fast to be changed")


async def _amend_leading(leader: Leader, id_: str, change: Amend, event: Event | None) -> None:
    async with leader.gate:
        for _ in range(RACES_MAX):
            if id_ not in leader.active.records:
                # It is over, or another server was told of it and this one has not heard.
                await reload(leader, id_, set())
            before = leader.active.records.get(id_) or await leader.store.load(id_)
            made = _change(before, change, event) if before is not None else None
            if made is None:
                # The desk may not know yet what another server was told.
                stored = await leader.store.load(id_)
                if before is None or stored is None or stored.version == before.version:
                    return
                await reload(leader, id_, set())
                continue
            try:
                saved = await leader.store.save([made], leader.epoch)
            except Unavailable:
                # Perhaps it was saved and only the answer was lost.
                leader.must_resync = True
                raise
            if saved == (Saved.YES,):
                follow(leader, made.before, made.after)
                return
            await reload(leader, id_, set())
    raise Unavailable(f"job {id_} changes too fast to be changed")


def _change(before: JobRecord, change: Amend, event: Event | None) -> Change | None:
    after = change(before)
    if after == before:
        return None
    after = replace(after, version=before.version + 1)
    events = () if event is None else (replace(event, job_attempt=before.job.attempt),)
    return Change(before, after, (), before.job.attempt, events=events)
