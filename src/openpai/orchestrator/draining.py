"""Nodes that are drained until a time: when it has come, the jobs that still run there are put back into the queue.

The times stand in a setting, so that whichever server leads by then keeps them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from openpai.lifecycle.model import Preempted
from openpai.orchestrator.changes import JobUpdate
from openpai.orchestrator.leader import Leader
from openpai.ports.settings import DRAINS, NodeNote, Setting, SettingsStore


def deadlines(setting: Setting | None, notes: Mapping[str, NodeNote]) -> dict[str, int]:
    """Return until when each drained node lets its jobs run, for those that have such a time."""
    body = setting.body if setting is not None else {}
    known = body.get("deadlines")
    if not isinstance(known, Mapping):
        return {}
    return {name: int(at_ms) for name, at_ms in known.items() if (note := notes.get(name)) and note.is_drained}


async def set_deadline(settings: SettingsStore, node: str, at_ms: int | None, *, by: str, now_ms: int) -> None:
    """Remember until when jobs may run on a drained node; None for as long as they like."""
    setting = await settings.setting(DRAINS)
    known: Any = setting.body.get("deadlines", {}) if setting is not None else {}
    if known.get(node) == at_ms:
        return
    times = {name: time for name, time in known.items() if name != node}
    if at_ms is not None:
        times[node] = at_ms
    version = setting.version if setting is not None else 0
    await settings.set_setting(DRAINS, {"deadlines": times}, by=by, at_ms=now_ms, version=version)


def leaving(leader: Leader, now_ms: int) -> dict[str, JobUpdate]:
    """Return the updates that preempt jobs on nodes whose drain deadline has passed."""
    due = {name for name, at_ms in leader.sharing.deadlines.items() if at_ms <= now_ms}
    if not due:
        return {}
    updates: dict[str, JobUpdate] = {}
    for id_, found in leader.active.records.items():
        on = sorted({slot.node for slot in found.slots.values()} & due)
        if on and found.job.outcome is None:
            reason = leader.sharing.notes[on[0]].reason
            why = f"node {on[0]} is drained and its deadline has come{': ' if reason else ''}{reason}"
            updates[id_] = JobUpdate((Preempted(found.job.attempt, now_ms, why),))
    return updates
