"""The pass that compares everything with everything, now and then, and after every restart.

Edges can be missed, levels cannot: whatever the quick passes lost, this one finds.
"""

from __future__ import annotations

from openpai.lifecycle.model import ExitReason, ExitReport, TaskPhase
from openpai.orchestrator.observing import hear
from openpai.orchestrator.office import Office
from openpai.ports.backend import TaskSeen


async def audit(office: Office) -> None:
    """Hear everything the backend sees; launch again what is missing, and report as lost what vanished."""
    running = {
        found.job.key(task): task
        for found in office.desk.records.values()
        for task in found.job.tasks.values()
        if task.phase is TaskPhase.RUNNING
    }
    told = frozenset(office.desk.launched)
    seen = await office.backend.observe()
    there = {task.key for task in seen}
    # Only what was there before we looked can be missed: later launches may not be seen yet.
    now_ms = office.clock.now_ms()
    gone = ExitReport(1, ExitReason.LOST, "it vanished without a report", ended_at_ms=now_ms)
    lost = [
        TaskSeen(key, task.grant or 0, task.started_at_ms, gone) for key, task in running.items() if key not in there
    ]
    await hear(office, [*seen, *lost])
    for key in sorted(told - there):
        found = office.desk.records.get(key.job)
        if found is not None and found.job.tasks[key.task].phase is TaskPhase.STARTING:
            office.desk.launched.discard(key)
            office.desk.to_act[key.job] = None
            office.nudges.work.set()
    # A kill may have been lost on its way; telling it again is harmless.
    for found in office.desk.records.values():
        killed = [key for key in map(found.job.key, found.job.tasks.values()) if key in office.desk.killed]
        if killed:
            office.desk.killed.difference_update(killed)
            office.desk.to_act[found.job.id] = None
            office.nudges.work.set()
