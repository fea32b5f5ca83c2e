"""The pass that compares everything with everything, now and then, and after every restart.

Edges can be missed, levels cannot: whatever the quick passes lost, this one finds.
"""

from __future__ import annotations

from openpai.lifecycle.actions import is_current
from openpai.lifecycle.model import AttemptKey, ExitReason, ExitReport, TaskPhase
from openpai.orchestrator.leader import Leader
from openpai.orchestrator.observing import HEARD_PER_PASS, hear
from openpai.ports.backend import TaskSeen
from openpai.ports.store import JobRecord


async def audit(leader: Leader) -> None:
    """Hear everything the backend sees; launch again what is missing, and report as lost what vanished."""
    running = {
        found.job.key(task): task
        for found in leader.active.records.values()
        for task in found.job.tasks.values()
        if task.phase is TaskPhase.RUNNING
    }
    message = frozenset(leader.active.launched)
    seen = await leader.backend.observe()
    there = {task.key for task in seen}
    # Only what was there before we looked can be missed: later launches may not be seen yet.
    now_ms = leader.clock.now_ms()
    gone = ExitReport(1, ExitReason.LOST, "it vanished without a report", ended_at_ms=now_ms)
    lost = [
        TaskSeen(key, task.grant or 0, task.started_at_ms, gone) for key, task in running.items() if key not in there
    ]
    everything = [*seen, *lost]
    for start in range(0, len(everything), HEARD_PER_PASS):
        await hear(leader, everything[start : start + HEARD_PER_PASS])
    for key in sorted(message - there):
        found = leader.active.records.get(key.job)
        if found is not None and is_current(found.job, key) and found.job.tasks[key.task].phase is TaskPhase.STARTING:
            leader.active.launched.discard(key)
            _act_again(leader, found, key)
    # A kill may have been lost on its way; telling it again is harmless.
    for key in list(leader.active.killed):
        found = leader.active.records.get(key.job)
        if found is not None and is_current(found.job, key):
            leader.active.killed.discard(key)
            _act_again(leader, found, key)


def _act_again(leader: Leader, found: JobRecord, key: AttemptKey) -> None:
    if leader.active.act_on(found.job, (key.task,)):
        leader.nudges.work.set()
