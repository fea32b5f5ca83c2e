"""The pass that tells the backend what ought to exist and what may be forgotten.

It remembers what it told, so that nothing is told twice without need; after a restart everything is told again,
which is harmless. An action that could not be told is told by the next pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import structlog

from openpai.lifecycle.actions import wanted
from openpai.lifecycle.model import AttemptKey, ExitReason, ExitReport, Task
from openpai.orchestrator.launching import launches
from openpai.orchestrator.mounting import known_storages
from openpai.orchestrator.observing import hear
from openpai.orchestrator.office import Office
from openpai.ports.backend import Action, ForgetTask, KillTask, LaunchTask, TaskSeen
from openpai.ports.storages import Storage
from openpai.ports.store import JobRecord
from openpai.protocol.errors import Broken, PaiError, Refused

JOBS_PER_PASS: Final = 256
GRACE_S: Final = 30.0
log: Final = structlog.get_logger(__name__)


async def act(office: Office) -> bool:
    """Tell the backend one bounded round of actions; return whether there may be more."""
    desk = office.desk
    jobs = [id_ for id_, _ in zip(list(desk.to_act), range(JOBS_PER_PASS), strict=False)]
    actions: list[Action] = [ForgetTask(key) for key in desk.to_forget]
    spoilt: list[TaskSeen] = []
    storages = await known_storages(office.storages, (desk.records[id_] for id_ in jobs if id_ in desk.records))
    for id_ in jobs:
        record = desk.records.get(id_)
        if record is not None:
            actions.extend(_actions(office, record, storages, spoilt))
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
    for id_ in jobs:
        if id_ not in desk.records or not _untold(office, desk.records[id_]):
            desk.to_act.pop(id_, None)
    if spoilt:
        await hear(office, spoilt)
    return bool(desk.to_act)


def _actions(
    office: Office, record: JobRecord, storages: Mapping[str, Storage], spoilt: list[TaskSeen]
) -> list[Action]:
    want = wanted(record.job)
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


def _untold(office: Office, record: JobRecord) -> bool:
    want = wanted(record.job)
    desk = office.desk
    return any(record.job.key(task) not in desk.launched for task in want.launch) or any(
        key not in desk.killed for key in want.kill
    )


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
