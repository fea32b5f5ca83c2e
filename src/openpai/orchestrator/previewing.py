"""Says whether a job that nobody has submitted would start now, and why not."""

from __future__ import annotations

from openpai.lifecycle.model import JobPhase
from openpai.orchestrator import gangs
from openpai.orchestrator.dependencies import waits_for
from openpai.orchestrator.leader import Leader
from openpai.ports.store import JobRecord
from openpai.scheduler.model import Wait


async def would_wait(leader: Leader | None, record: JobRecord) -> tuple[Wait, ...] | None:
    """Return why a job would wait, empty if it would start now; None where that is not known.

    Of a job whose tasks start one by one, that is why the first of them that finds no room waits.
    """
    if leader is None or leader.sharing.arrangement.config is None:
        return None
    if record.job.phase is JobPhase.HELD:
        return await waits_for(leader, record)
    now_ms = leader.steady.now_ms()
    is_interruptible = record.virtual_cluster in leader.sharing.interruptible
    members = gangs.waiting(record.job)
    found = leader.scheduler.preview(
        list(gangs.describe(record, members, now_ms, is_interruptible=is_interruptible)), now_ms
    )
    return () if found is None else (leader.steady.dated(found),)
