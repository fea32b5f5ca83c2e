"""The pass that tells the backend what ought to exist and what may be forgotten.

It remembers what it told, so that nothing is told twice without need; after a restart everything is told again,
which is harmless. An action that could not be told is told by a later pass. A pass is bounded by tasks, and a job with
thousands of them shares it with others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final

import structlog

from openpai.lifecycle.actions import wanted
from openpai.lifecycle.model import AttemptKey, ExitReason, ExitReport, Task, TaskId
from openpai.orchestrator.launching import launches
from openpai.orchestrator.mounting import known_storages
from openpai.orchestrator.observing import hear
from openpai.orchestrator.office import Desk, Office
from openpai.ports.backend import Action, ForgetTask, KillTask, LaunchTask, TaskSeen
from openpai.ports.storages import Storage
from openpai.ports.store import JobRecord
from openpai.protocol.errors import Broken, PaiError, Refused

TASKS_PER_PASS: Final = 1024
TASKS_OF_ONE_JOB: Final = 256
GRACE_S: Final = 30.0
log: Final = structlog.get_logger(__name__)


async def act(office: Office) -> bool:
    """Tell the backend one bounded round of actions; return whether there may be more."""
    desk = office.desk
    taken = _take(desk)
    try:
        await _tell(office, taken)
    except BaseException:
        for id_, tasks in taken.items():
            desk.to_act[id_] = {**dict.fromkeys(tasks), **desk.to_act.get(id_, {})}
        raise
    for id_ in [id_ for id_ in desk.launchers if id_ not in desk.to_act]:
        del desk.launchers[id_]
    return bool(desk.to_act or desk.to_forget)


def _take(desk: Desk) -> dict[str, list[TaskId]]:
    """Take the tasks of one round from the desk; a job with more of them goes behind the others."""
    taken: dict[str, list[TaskId]] = {}
    left = TASKS_PER_PASS
    for id_ in list(islice(desk.to_act, TASKS_PER_PASS)):
        waiting = desk.to_act.pop(id_)
        taken[id_] = list(islice(waiting, min(left, TASKS_OF_ONE_JOB)))
        for task in taken[id_]:
            del waiting[task]
        if waiting:
            desk.to_act[id_] = waiting
        left -= len(taken[id_])
        if not left:
            break
    return taken


async def _tell(office: Office, taken: Mapping[str, Sequence[TaskId]]) -> None:
    desk = office.desk
    actions: list[Action] = [ForgetTask(key) for key in islice(desk.to_forget, TASKS_PER_PASS)]
    spoilt: list[TaskSeen] = []
    storages = await known_storages(office.storages, (desk.records[id_] for id_ in taken if id_ in desk.records))
    for id_, tasks in taken.items():
        record = desk.records.get(id_)
        if record is not None:
            actions.extend(_actions(office, record, tasks, storages, spoilt))
    if actions:
        _remember(office, actions)
        try:
            await office.backend.apply(actions)
        except BaseException:
            _unremember(office, actions)
            raise
    for action in actions:
        if isinstance(action, ForgetTask):
            desk.to_forget.pop(action.key, None)
    if spoilt:
        await hear(office, spoilt)


def _actions(
    office: Office,
    record: JobRecord,
    among: Sequence[TaskId],
    storages: Mapping[str, Storage],
    spoilt: list[TaskSeen],
) -> list[Action]:
    want = wanted(record.job, among)
    tasks = [task for task in want.launch if record.job.key(task) not in office.desk.launched]
    kills: list[Action] = [KillTask(key, GRACE_S) for key in want.kill if key not in office.desk.killed]
    if not tasks:
        return kills
    try:
        return [*kills, *launches(office, record, tasks, storages)]
    except Refused as error:
        refusal: PaiError = error
    except PaiError:
        raise
    except Exception as error:
        # One sick job must not hold up everybody's: it fails, and the log says that the fault is ours.
        log.exception("a job cannot be launched; this is a bug, please report it", job=record.full_name)
        refusal = Broken(f"the task cannot be launched: {type(error).__name__}")
    spoilt.extend(_refused(office, record, task, refusal) for task in tasks)
    return kills


def _refused(office: Office, record: JobRecord, task: Task, error: PaiError) -> TaskSeen:
    # Nothing was told to the backend, so nobody but us can say that this attempt is over.
    log.error("a task cannot be launched", job=record.full_name, error=error.message)
    report = ExitReport(1, ExitReason.LAUNCH_REFUSED, error.message, ended_at_ms=office.clock.now_ms())
    return TaskSeen(record.job.key(task), task.grant or 0, None, report)


def _remember(office: Office, actions: list[Action]) -> None:
    for action in actions:
        if (told := _told(office, action)) is not None:
            told.add(action.key)


def _unremember(office: Office, actions: list[Action]) -> None:
    for action in actions:
        if (told := _told(office, action)) is not None:
            told.discard(action.key)


def _told(office: Office, action: Action) -> set[AttemptKey] | None:
    if isinstance(action, LaunchTask):
        return office.desk.launched
    return office.desk.killed if isinstance(action, KillTask) else None
