"""The pass that gives the backend its actions: which attempts to launch, kill and forget.

It remembers which actions it sent. After a restart it sends all of them again, which is harmless. An action that failed
is sent by a later pass. A pass is bounded by tasks, and jobs share it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final

import structlog

from openpai.lifecycle.actions import end_notice, wanted
from openpai.lifecycle.model import AttemptKey, ExitReason, ExitReport, Task, TaskId
from openpai.orchestrator.job_storages import known_storages
from openpai.orchestrator.launching import launches
from openpai.orchestrator.leader import ActiveJobs, Leader
from openpai.orchestrator.observing import hear
from openpai.ports.backend import Action, ForgetTask, KillTask, LaunchTask, TaskSeen
from openpai.ports.storages import Storage
from openpai.ports.store import JobRecord
from openpai.protocol.errors import Broken, PaiError, Refused
from openpai.protocol.placement import grace_of
from openpai.system.tracing import span

TASKS_PER_PASS: Final = 1024
TASKS_OF_ONE_JOB: Final = 256
log: Final = structlog.get_logger(__name__)


async def act(leader: Leader) -> bool:
    """Send the backend one bounded round of actions; return whether there may be more."""
    active = leader.active
    taken = _take(active)
    try:
        await _send(leader, taken)
    except BaseException:
        for id_, tasks in taken.items():
            active.to_act[id_] = {**dict.fromkeys(tasks), **active.to_act.get(id_, {})}
        raise
    for id_ in [id_ for id_ in active.launchers if id_ not in active.to_act]:
        del active.launchers[id_]
    return bool(active.to_act or active.to_forget)


def _take(active: ActiveJobs) -> dict[str, list[TaskId]]:
    """Take the tasks of one round; a job with more of them queues behind the other jobs."""
    taken: dict[str, list[TaskId]] = {}
    left = TASKS_PER_PASS
    for id_ in list(islice(active.to_act, TASKS_PER_PASS)):
        waiting = active.to_act.pop(id_)
        taken[id_] = list(islice(waiting, min(left, TASKS_OF_ONE_JOB)))
        for task in taken[id_]:
            del waiting[task]
        if waiting:
            active.to_act[id_] = waiting
        left -= len(taken[id_])
        if not left:
            break
    return taken


async def _send(leader: Leader, taken: Mapping[str, Sequence[TaskId]]) -> None:
    active = leader.active
    actions: list[Action] = [ForgetTask(key) for key in islice(active.to_forget, TASKS_PER_PASS)]
    refused: list[TaskSeen] = []
    storages = await known_storages(leader.storages, (active.records[id_] for id_ in taken if id_ in active.records))
    for id_, tasks in taken.items():
        record = active.records.get(id_)
        if record is not None:
            actions.extend(_actions(leader, record, tasks, storages, refused))
    if actions:
        _remember(leader, actions)
        if any(isinstance(action, LaunchTask) for action in actions):
            leader.before_launch()
        try:
            with span("backend.apply", actions=len(actions)):
                await leader.backend.apply(actions)
        except BaseException:
            _unremember(leader, actions)
            raise
    for action in actions:
        if isinstance(action, ForgetTask):
            active.to_forget.pop(action.key, None)
    if refused:
        await hear(leader, refused)


def _actions(
    leader: Leader,
    record: JobRecord,
    among: Sequence[TaskId],
    storages: Mapping[str, Storage],
    refused: list[TaskSeen],
) -> list[Action]:
    want = wanted(record.job, among)
    tasks = [task for task in want.launch if record.job.key(task) not in leader.active.launched]
    grace_s, notice = grace_of(record.spec.extras), end_notice(record.job)
    kills: list[Action] = [KillTask(key, grace_s, notice) for key in want.kill if key not in leader.active.killed]
    if not tasks:
        return kills
    try:
        return [*kills, *launches(leader, record, tasks, storages)]
    except Refused as error:
        refusal: PaiError = error
    except PaiError:
        raise
    except Exception as error:
        # A job that meets a bug must not block the other jobs: it fails, and the log reports the bug.
        log.exception("a job cannot be launched; this is a bug, please report it", job=record.full_name)
        refusal = Broken(f"the task cannot be launched: {type(error).__name__}")
    refused.extend(_refused(leader, record, task, refusal) for task in tasks)
    return kills


def _refused(leader: Leader, record: JobRecord, task: Task, error: PaiError) -> TaskSeen:
    # The backend never saw this attempt, so it cannot report its end.
    log.error("a task cannot be launched", job=record.full_name, error=error.message)
    report = ExitReport(1, ExitReason.LAUNCH_REFUSED, error.message, ended_at_ms=leader.clock.now_ms())
    return TaskSeen(record.job.key(task), task.grant or 0, None, report)


def _remember(leader: Leader, actions: list[Action]) -> None:
    for action in actions:
        if (sent := _sent(leader, action)) is not None:
            sent.add(action.key)


def _unremember(leader: Leader, actions: list[Action]) -> None:
    for action in actions:
        if (sent := _sent(leader, action)) is not None:
            sent.discard(action.key)


def _sent(leader: Leader, action: Action) -> set[AttemptKey] | None:
    if isinstance(action, LaunchTask):
        return leader.active.launched
    return leader.active.killed if isinstance(action, KillTask) else None
