"""The pass that compares every record with what the backend sees: every 30 s, and after every restart.

It finds what the other passes, which follow single reports, missed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from openpai.lifecycle.actions import is_current
from openpai.lifecycle.model import AttemptKey, ExitReason, ExitReport, Task, TaskPhase
from openpai.orchestrator.dependencies import look_again
from openpai.orchestrator.leader import Leader
from openpai.orchestrator.observing import HEARD_PER_PASS, hear, is_as_known
from openpai.ports.backend import TaskSeen
from openpai.ports.store import JobRecord
from openpai.system.pauses import let_others_go_first

LOOKED_AT_ONCE: Final = 200


async def audit(leader: Leader, *, at_once: bool = False) -> None:
    """Record everything the backend sees; launch missing attempts again, and record vanished ones as lost.

    `at_once` leaves the pauses out, for a server whose first decision waits for this.
    """
    look_again(leader)
    running = await _running(leader, at_once=at_once)
    missing = set(leader.active.launched)
    seen = await _observe(leader, running, missing, at_once=at_once)
    # Only attempts from before `observe` can be missing: later launches may not be visible yet.
    now_ms = leader.clock.now_ms()
    gone = ExitReport(1, ExitReason.LOST, "it vanished without a report", ended_at_ms=now_ms)
    lost = [TaskSeen(key, task.grant or 0, task.started_at_ms, gone) for key, task in running.items()]
    everything = [*seen, *lost]
    for start in range(0, len(everything), HEARD_PER_PASS):
        await hear(leader, everything[start : start + HEARD_PER_PASS])
    for key in sorted(missing):
        found = leader.active.records.get(key.job)
        if found is not None and is_current(found.job, key) and found.job.tasks[key.task].phase is TaskPhase.STARTING:
            leader.active.launched.discard(key)
            _act_again(leader, found, key)
    # A kill may have been lost; sending it again is harmless.
    for key in list(leader.active.killed):
        found = leader.active.records.get(key.job)
        if found is not None and is_current(found.job, key):
            leader.active.killed.discard(key)
            _act_again(leader, found, key)


async def _running(leader: Leader, *, at_once: bool) -> dict[AttemptKey, Task]:
    """Return the task attempts that are recorded as running."""
    running: dict[AttemptKey, Task] = {}
    looked_at = 0
    for found in list(leader.active.records.values()):
        running |= {found.job.key(task): task for task in found.job.tasks.values() if task.phase is TaskPhase.RUNNING}
        looked_at += len(found.job.tasks)
        if looked_at > LOOKED_AT_ONCE and not at_once:
            looked_at = 0
            await let_others_go_first()
    return running


async def _observe(
    leader: Leader, running: dict[AttemptKey, Task], missing: set[AttemptKey], *, at_once: bool
) -> Sequence[TaskSeen]:
    """Return those reports of the backend that say anything new; remove what it sees from `running` and `missing`."""
    new: set[AttemptKey] = set()
    for number, task in enumerate(await leader.backend.observe(), start=1):
        missing.discard(task.key)
        running.pop(task.key, None)
        found = leader.active.records.get(task.key.job)
        if found is None or not is_current(found.job, task.key) or not is_as_known(found, task):
            new.add(task.key)
        if number % LOOKED_AT_ONCE == 0 and not at_once:
            # Thousands of tasks that are as they were must not keep the loop from everything else.
            await let_others_go_first()
    # What was seen before a pause may be over and forgotten by now.
    return await leader.backend.observe(new) if new else ()


def _act_again(leader: Leader, found: JobRecord, key: AttemptKey) -> None:
    if leader.active.act_on(found.job, (key.task,)):
        leader.nudges.work.set()
