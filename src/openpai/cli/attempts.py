"""Attempts as people count them, from 1, where the API counts from 0 as OpenPAI does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from openpai.cli.words import plural
from openpai.protocol.errors import Refused

if TYPE_CHECKING:
    from openpai.client import Client, JobDetail, TaskView


def job_in(pai: Client, name: str, attempt: int | None) -> JobDetail:
    """Return a job in one of its attempts, the newest for None; raise Refused for one that it never had."""
    if attempt is None:
        return pai.job(name)
    newest = pai.job(name)
    _check(f"job {newest.full_name}", attempt, newest.attempt)
    return pai.job(name, attempt - 1)


def task_attempt(task: TaskView, attempt: int | None) -> int | None:
    """Return the API's number of a task's attempt, the newest for None; raise Refused for one that it never had."""
    if attempt is None:
        return task.attempt
    _check(f"task {task.name}", attempt, task.attempt)
    return attempt - 1


def _check(what: str, attempt: int, newest: int | None) -> None:
    made = 0 if newest is None else newest + 1
    if attempt > made:
        raise Refused("NoJobError", f"{what} has no attempt {attempt}", f"it has had {plural(made, 'attempt')} so far")
