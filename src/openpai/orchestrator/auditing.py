"""The pass that compares everything with everything, now and then, and after every restart.

Edges can be missed, levels cannot: whatever the quick passes lost, this one finds.
"""

from __future__ import annotations

from openpai.lifecycle.actions import is_current
from openpai.lifecycle.model import AttemptKey, ExitReason, ExitReport, TaskPhase
from openpai.orchestrator.observing import HEARD_PER_PASS, hear
from openpai.orchestrator.office import Office
from openpai.ports.backend import TaskSeen
from openpai.ports.store import JobRecord


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
    everything = [*seen, *lost]
    for start in range(0, len(everything), HEARD_PER_PASS):
        await hear(office, everything[start : start + HEARD_PER_PASS])
    for key in sorted(told - there):
        found = office.desk.records.get(key.job)
        if found is not None and is_current(found.job, key) and found.job.tasks[key.task].phase is TaskPhase.STARTING:
            office.desk.launched.discard(key)
            _act_again(office, found, key)
    # A kill may have been lost on its way; telling it again is harmless.
    for key in list(office.desk.killed):
        found = office.desk.records.get(key.job)
        if found is not None and is_current(found.job, key):
            office.desk.killed.discard(key)
            _act_again(office, found, key)


def _act_again(office: Office, found: JobRecord, key: AttemptKey) -> None:
    if office.desk.act_on(found.job, (key.task,)):
        office.nudges.work.set()
