"""The deadlines of drained nodes: jobs that still run on a node when its deadline comes go back into the queue.

A drained node itself is a note with `is_drained`, which `nodes` sets and `node_sync` passes on to the scheduler. The
deadlines are a setting, so that the next leader keeps them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from openpai.lifecycle.facts import Preempted
from openpai.orchestrator.changes import JobUpdate
from openpai.orchestrator.leader import Leader
from openpai.ports.cluster_settings import DRAINS, NodeNote, Setting


def deadlines(setting: Setting | None, notes: Mapping[str, NodeNote]) -> dict[str, int]:
    """Return the deadline of each drained node that has one."""
    body = setting.body if setting is not None else {}
    known = body.get("deadlines")
    if not isinstance(known, Mapping):
        return {}
    return {name: int(at_ms) for name, at_ms in known.items() if (note := notes.get(name)) and note.is_drained}


async def set_deadline(leader: Leader, node: str, deadline_s: int | None, by: str) -> None:
    """Store how many seconds from now jobs may run on a drained node; None removes the deadline."""
    now_ms = leader.clock.now_ms()
    at_ms = None if deadline_s is None else now_ms + deadline_s * 1000
    setting = await leader.settings.setting(DRAINS)
    known: Any = setting.body.get("deadlines", {}) if setting is not None else {}
    if known.get(node) == at_ms:
        return
    times = {name: time for name, time in known.items() if name != node}
    if at_ms is not None:
        times[node] = at_ms
    version = setting.version if setting is not None else 0
    body = {"deadlines": times}
    await leader.settings.set_setting(DRAINS, body, by=by, at_ms=now_ms, version=version, epoch=leader.epoch)


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
            why = f"node {on[0]} is drained and its deadline has passed{': ' if reason else ''}{reason}"
            updates[id_] = JobUpdate((Preempted(found.job.attempt, now_ms, why, is_drain=True),))
    return updates
