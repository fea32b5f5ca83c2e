"""The root of a failed attempt, found when all of its tasks have ended, is its cause."""

from __future__ import annotations

from openpai.lifecycle.diagnosis import TaskEnd, diagnose, root_of
from openpai.lifecycle.facts import RootFound
from openpai.lifecycle.model import Behavior, Diagnosis, ExitReason, ExitReport, JobPhase
from openpai.lifecycle.narration import narrate
from tests.unit.lifecycle.stories import Story, role, task

ERROR = "Traceback (most recent call last):\n  File x\nModuleNotFoundError: No module named 'apex'\n"


def root_found(story: Story, index: int, behavior: Behavior = Behavior.PERMANENT) -> RootFound:
    why = Diagnosis(232, "ContainerImportError", "USER_FAILURE", behavior, "a module is missing")
    return RootFound(story.job.attempt, task(index=index), 1, why, 1)


def failed(retries: int = 0) -> Story:
    """Return a gang of two whose second task failed and whose first one is being ended."""
    story = Story(role(instances=2), retries=retries)
    story.run()
    story.exit(task(index=1), 1, Behavior.UNKNOWN)
    assert story.job.phase is JobPhase.ENDING
    return story


def test_another_task_is_the_root() -> None:
    story = failed()
    before = story.job
    story.report(root_found(story, 0), story.exited(task(), 143))
    outcome = story.job.outcome
    assert outcome is not None
    assert outcome.diagnosis is not None
    assert (outcome.trigger, outcome.code, outcome.diagnosis.code) == (task(), 1, 232)
    assert outcome.message == "worker-0 failed first; 1 task of role worker failed (minFailedInstances 1)"
    (line,) = [line for line in narrate(before, story.last) if line.reason == "RootCauseFound"]
    assert "began with task worker-0: ContainerImportError: a module is missing" in line.message


def test_its_behavior_decides_about_a_retry() -> None:
    story = failed(retries=3)
    story.report(root_found(story, 0), story.exited(task(), 143))
    assert story.job.phase is JobPhase.FAILED
    story = failed(retries=3)
    story.report(root_found(story, 0, Behavior.UNKNOWN), story.exited(task(), 143))
    assert (story.job.phase, story.job.attempt, story.job.retries.counted) == (JobPhase.QUEUED, 1, 1)


def test_the_task_that_decided_may_be_the_root() -> None:
    story = failed()
    before = story.job
    outcome = story.job.outcome
    story.report(root_found(story, 1), story.exited(task(), 143))
    assert story.job.outcome == outcome
    assert [line for line in narrate(before, story.last) if line.reason == "RootCauseFound"] == []


def test_a_root_of_another_attempt_or_of_no_failure_changes_nothing() -> None:
    story = Story(role(instances=2))
    story.run()
    story.report(root_found(story, 0), story.exited(task(), 0), story.exited(task(index=1), 0))
    assert story.job.phase is JobPhase.SUCCEEDED
    story = failed()
    late = root_found(story, 0)
    story.report(RootFound(7, late.task, 1, late.diagnosis, 1), story.exited(task(), 143))
    assert story.job.outcome is not None
    assert story.job.outcome.trigger == task(index=1)


def test_both_fail_at_once() -> None:
    story = Story(role(instances=2))
    story.run()
    exits = [story.exited(task(index=index), 1) for index in (1, 0)]
    story.report(root_found(story, 0), *exits)
    assert story.job.outcome is not None
    assert story.job.outcome.trigger == task()


def end(code: int, tail: str, at: int, *, was_ended: bool = False, reason: ExitReason = ExitReason.EXITED) -> TaskEnd:
    return TaskEnd(ExitReport(code, reason), tail, at, was_ended)


def test_the_root_of_ends() -> None:
    reset = "ConnectionResetError: [Errno 104] Connection reset by peer\n"
    found = root_of([end(1, reset, 1), end(143, ERROR, 2, was_ended=True)])
    assert found is not None
    assert (found[0], found[1].code, found[1].cause, found[1].domain) == (1, 232, "missing_module", "user")
    found = root_of([end(1, reset, 1), end(-101, "", 9, reason=ExitReason.NODE_LOST)])
    assert found is not None
    assert (found[0], found[1].code) == (1, -1001)
    assert root_of([end(0, "", 1), end(143, "", 2, was_ended=True)]) is None


def test_a_diagnosis_has_the_cause_its_domain_and_its_own_advice() -> None:
    found = diagnose(ExitReport(1), "OSError: [Errno 122] Disk quota exceeded: '/data/a'\n")
    assert (found.cause, found.domain, found.code) == ("quota_exceeded", "user", 237)
    assert found.reason == "A quota, or a limit on the size of files, refused the request."
    assert found.advice[0].startswith("Remove what is not needed any more")
    files = diagnose(ExitReport(1), "OSError: [Errno 24] Too many open files: '/data/a'\n")
    assert (files.cause, files.domain) == ("open_files", "user")
    assert files.advice[0].startswith("Close files")
    assert diagnose(ExitReport(1, ExitReason.IMAGE_MISSING, "manifest unknown")).cause == "image_not_found"
