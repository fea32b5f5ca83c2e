"""Short methods that report facts about a job in a test."""

from __future__ import annotations

from dataclasses import replace

from openpai.lifecycle.diagnosis import diagnose
from openpai.lifecycle.facts import Fact, TaskExited, TasksGranted, TaskStarted
from openpai.lifecycle.model import (
    AttemptKey,
    Behavior,
    Diagnosis,
    ExitReason,
    ExitReport,
    Job,
    Plan,
    RolePlan,
    Stepped,
    TaskId,
)
from openpai.lifecycle.stepping import new_job, step


class Story:
    """A job, a clock that ticks a second per fact, and what was said last."""

    def __init__(self, *roles: RolePlan, retries: int = 0, is_gang: bool = True, is_admitted: bool = False) -> None:
        """`is_admitted` for a job that waits in each attempt until a queue of the cluster admits it."""
        self.job: Job = new_job("j", Plan(roles, retries, is_gang, is_admitted, is_admitted), 0)
        self.last = Stepped(self.job)
        self.now_ms = 0
        self.grants = 0

    def report(self, *facts: Fact) -> Job:
        self.last = step(self.job, facts)
        self.job = self.last.job
        return self.job

    def tick(self) -> int:
        self.now_ms += 1000
        return self.now_ms

    def grant(self, *tasks: TaskId) -> Job:
        self.grants += 1
        ids = tasks or tuple(self.job.tasks)
        return self.report(TasksGranted(self.job.attempt, dict.fromkeys(ids, self.grants), self.tick()))

    def start(self, *tasks: TaskId) -> Job:
        return self.report(*(TaskStarted(self.key(task), self.tick()) for task in tasks or tuple(self.job.tasks)))

    def run(self) -> Job:
        self.grant()
        return self.start()

    def key(self, task: TaskId) -> AttemptKey:
        return self.job.key(self.job.tasks[task])

    def exited(self, task: TaskId, code: int = 0, behavior: Behavior | None = None) -> TaskExited:
        report = ExitReport(code)
        diagnosis = diagnose(report)
        if behavior is not None:
            diagnosis = replace(diagnosis, behavior=behavior)
        return TaskExited(self.key(task), report, diagnosis, self.tick())

    def exit(self, task: TaskId, code: int = 0, behavior: Behavior | None = None) -> Job:
        return self.report(self.exited(task, code, behavior))

    def lose(self, task: TaskId) -> Job:
        report = ExitReport(-101, ExitReason.LOST)
        return self.report(TaskExited(self.key(task), report, diagnose(report), self.tick()))


def role(
    name: str = "worker", instances: int = 1, failed: int = 1, succeeded: int | None = None, retry: int = 0
) -> RolePlan:
    return RolePlan(name, instances, failed, instances if succeeded is None else succeeded, retry)


def task(name: str = "worker", index: int = 0) -> TaskId:
    return TaskId(name, index)


USER = Behavior.PERMANENT
UNKNOWN = Behavior.UNKNOWN
__all__ = ["UNKNOWN", "USER", "Diagnosis", "Story", "role", "task"]
