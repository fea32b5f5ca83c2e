"""Steps of the lifecycle: each test reports facts and checks the state that follows."""

from __future__ import annotations

import pytest

from openpai.lifecycle.actions import end_notice
from openpai.lifecycle.facts import (
    AdmissionLost,
    Fact,
    Preempted,
    Released,
    RetryDue,
    StartRequested,
    StopRequested,
    TasksGranted,
    TaskStarted,
    TimeLimitReached,
)
from openpai.lifecycle.model import JobPhase, TaskPhase, Verdict
from openpai.lifecycle.retries import RETRY_POLICY
from openpai.lifecycle.table import ImpossibleFact

from .stories import UNKNOWN, USER, Story, role, task


def test_tasks_of_jobs_that_wait_are_the_same_objects_until_they_are_placed() -> None:
    one, other = Story(role("worker", 2)), Story(role("worker", 2))
    second = task("worker", 1)
    assert one.job.tasks[second] is other.job.tasks[second]
    one.grant()
    assert one.job.tasks[second].grant == 1
    assert other.job.tasks[second].grant is None


def test_a_job_succeeds_with_its_only_task() -> None:
    story = Story(role())
    assert story.job.phase is JobPhase.QUEUED
    assert story.grant().phase is JobPhase.STARTING
    assert story.start().phase is JobPhase.RUNNING
    job = story.exit(task())
    assert job.phase is JobPhase.SUCCEEDED
    assert (job.started_at_ms, job.ended_at_ms) == (2000, 3000)
    assert story.last.ended is not None
    assert story.last.ended.tasks[task()].phase is TaskPhase.SUCCEEDED


def test_a_start_and_an_end_heard_together_are_both_recorded() -> None:
    story = Story(role())
    story.grant()
    job = story.report(TaskStarted(story.key(task()), 5), story.exited(task()))
    assert job.phase is JobPhase.SUCCEEDED
    assert job.started_at_ms == 5


def test_the_first_failure_ends_the_attempt_and_stops_the_others() -> None:
    story = Story(role(instances=3))
    story.run()
    assert story.exit(task(index=1), 1).phase is JobPhase.ENDING
    story.exit(task(index=0), 143)
    job = story.exit(task(index=2), 143)
    assert job.phase is JobPhase.FAILED
    assert job.outcome is not None
    assert (job.outcome.code, job.outcome.trigger) == (1, task(index=1))
    phases = [each.phase for each in job.tasks.values()]
    assert phases == [TaskPhase.STOPPED, TaskPhase.FAILED, TaskPhase.STOPPED]


def test_min_failed_of_two_lets_one_fail() -> None:
    story = Story(role(instances=3, failed=2, succeeded=-1))
    story.run()
    assert story.exit(task(index=0), 1).phase is JobPhase.RUNNING
    assert story.exit(task(index=1), 1).phase is JobPhase.ENDING


def test_min_failed_of_minus_one_never_fails_the_job() -> None:
    story = Story(role(instances=2, failed=-1, succeeded=-1))
    story.run()
    story.exit(task(index=0), 1)
    assert story.exit(task(index=1), 1).phase is JobPhase.SUCCEEDED


def test_min_succeeded_ends_the_job_and_stops_the_servers() -> None:
    story = Story(role("ps", 1, succeeded=-1), role("worker", 2))
    story.run()
    story.exit(task("worker", 0))
    assert story.exit(task("worker", 1)).phase is JobPhase.ENDING
    job = story.exit(task("ps"), 143)
    assert job.phase is JobPhase.SUCCEEDED
    assert job.tasks[task("ps")].phase is TaskPhase.STOPPED
    assert job.tasks[task("ps")].diagnosis is not None
    assert job.tasks[task("ps")].diagnosis.code == -220


def test_the_rule_that_is_met_by_the_earlier_exit_wins() -> None:
    story = Story(role("a", 1, succeeded=-1), role("b", 1))
    story.run()
    success, failure = story.exited(task("b")), story.exited(task("a"), 1)
    job = story.report(failure, success)
    assert job.outcome is not None
    assert job.outcome.verdict is Verdict.SUCCEEDED


def test_an_unknown_failure_is_retried_as_often_as_the_owner_allows() -> None:
    story = Story(role(), retries=2)
    for attempt in (1, 2):
        story.run()
        job = story.exit(task(), 1)
        assert (job.phase, job.attempt, job.retries.counted) == (JobPhase.QUEUED, attempt, attempt)
    story.run()
    assert story.exit(task(), 1).phase is JobPhase.FAILED


def test_a_users_error_is_not_retried() -> None:
    story = Story(role(), retries=5)
    story.run()
    assert story.exit(task(), 1, USER).phase is JobPhase.FAILED


def test_the_platforms_failures_are_free_wait_longer_each_time_and_end() -> None:
    story = Story(role())
    waits = []
    for _ in range(RETRY_POLICY.free_max):
        story.run()
        job = story.lose(task())
        assert job.phase is JobPhase.BACKING_OFF
        assert job.retry_at_ms is not None
        waits.append(job.retry_at_ms - story.now_ms)
        story.now_ms = job.retry_at_ms
        assert story.report(RetryDue(job.retry_at_ms - 1)).phase is JobPhase.BACKING_OFF
        assert story.report(RetryDue(job.retry_at_ms)).phase is JobPhase.QUEUED
    assert waits == sorted(waits)
    assert waits[0] < waits[-1] <= RETRY_POLICY.delay_max_ms
    assert story.job.retries == (0, RETRY_POLICY.free_max)
    story.run()
    assert story.lose(task()).phase is JobPhase.FAILED


def test_a_task_of_a_gang_is_retried_in_place_with_its_grant() -> None:
    story = Story(role(instances=2, retry=1))
    story.run()
    job = story.exit(task(index=0), 1, UNKNOWN)
    again = job.tasks[task(index=0)]
    assert (again.phase, again.attempt, again.grant) == (TaskPhase.STARTING, 1, 1)
    assert [each.attempt for each in story.last.retried] == [0]
    story.start(task(index=0))
    assert story.exit(task(index=0), 1, UNKNOWN).phase is JobPhase.ENDING


def test_without_a_gang_a_lost_task_waits_alone_and_the_others_run_on() -> None:
    story = Story(role(instances=2), is_gang=False)
    story.run()
    job = story.lose(task(index=0))
    lost = job.tasks[task(index=0)]
    assert (job.phase, lost.phase, lost.grant) == (JobPhase.RUNNING, TaskPhase.BACKING_OFF, None)
    assert lost.retry_at_ms is not None
    job = story.report(RetryDue(lost.retry_at_ms))
    assert job.tasks[task(index=0)].phase is TaskPhase.WAITING
    story.grant(task(index=0))
    story.start(task(index=0))
    story.exit(task(index=0))
    assert story.exit(task(index=1)).phase is JobPhase.SUCCEEDED


def test_stopping_lasts_until_nothing_is_left() -> None:
    story = Story(role(instances=2))
    story.run()
    assert story.report(StopRequested(story.tick(), "me")).phase is JobPhase.ENDING
    assert story.exit(task(index=0), 143).phase is JobPhase.ENDING
    job = story.exit(task(index=1), 137)
    assert job.phase is JobPhase.STOPPED
    assert job.outcome is not None
    assert job.outcome.code == -210


@pytest.mark.parametrize("phase", [JobPhase.QUEUED, JobPhase.BACKING_OFF])
def test_a_job_of_which_nothing_runs_stops_at_once(phase: JobPhase) -> None:
    story = Story(role())
    if phase is JobPhase.BACKING_OFF:
        story.run()
        story.lose(task())
    assert story.job.phase is phase
    assert story.report(StopRequested(story.tick(), "me")).phase is JobPhase.STOPPED


def test_a_stop_wins_over_a_retry() -> None:
    story = Story(role(instances=2), retries=3)
    story.run()
    story.exit(task(index=0), 1)
    story.report(StopRequested(story.tick(), "me"))
    assert story.exit(task(index=1), 143).phase is JobPhase.STOPPED


def test_a_success_that_was_heard_before_the_stop_stays_a_success() -> None:
    story = Story(role())
    story.run()
    assert story.report(story.exited(task()), StopRequested(story.tick(), "me")).phase is JobPhase.SUCCEEDED


@pytest.mark.parametrize("code", [0, 1])
def test_starting_a_finished_job_makes_a_new_attempt(code: int) -> None:
    story = Story(role())
    story.run()
    story.exit(task(), code)
    job = story.report(StartRequested(story.tick(), "me"))
    assert (job.phase, job.attempt, job.outcome) == (JobPhase.QUEUED, 1, None)
    story.run()
    assert story.exit(task()).phase is JobPhase.SUCCEEDED


def test_a_start_takes_back_a_stop_that_is_under_way() -> None:
    story = Story(role())
    story.run()
    story.report(StopRequested(story.tick(), "me"))
    assert story.report(StartRequested(story.tick(), "me")).phase is JobPhase.ENDING
    job = story.exit(task(), 143)
    assert (job.phase, job.attempt) == (JobPhase.QUEUED, 1)


def test_a_preempted_job_queues_again_for_free() -> None:
    story = Story(role())
    story.run()
    assert story.report(Preempted(0, story.tick(), "others have more right")).phase is JobPhase.ENDING
    job = story.exit(task(), 143)
    assert (job.phase, job.attempt, job.retries) == (JobPhase.QUEUED, 1, (0, 0))


def test_each_attempt_of_a_job_that_a_queue_admits_begins_held() -> None:
    story = Story(role(), is_admitted=True, retries=1)
    assert story.job.phase is JobPhase.HELD
    assert story.report(Released(1)).phase is JobPhase.QUEUED
    story.run()
    job = story.exit(task(), 1, UNKNOWN)
    assert (job.phase, job.attempt) == (JobPhase.HELD, 1)


@pytest.mark.parametrize("runs", [False, True])
def test_what_a_queue_takes_back_leaves_and_is_held_again(runs: bool) -> None:
    story = Story(role(), is_admitted=True)
    story.report(Released(1))
    if runs:
        story.run()
        assert story.report(AdmissionLost(5, "others need it")).phase is JobPhase.ENDING
        story.exit(task(), 143)
        assert story.last.ended is not None
        assert story.last.ended.outcome is not None
        assert story.last.ended.outcome.verdict is Verdict.PREEMPTED
    else:
        story.report(AdmissionLost(5, "others need it"))
    assert (story.job.phase, story.job.attempt) == (JobPhase.HELD, int(runs))
    assert story.report(AdmissionLost(6, "again")) is story.job
    assert story.report(Released(7)).phase is JobPhase.QUEUED


def test_old_news_changes_nothing() -> None:
    story = Story(role(instances=2), retries=1)
    story.run()
    old = story.exited(task(index=0), 1)
    story.report(old)
    before = story.job
    assert story.report(old) is before
    story.exit(task(index=1), 143)
    before = story.job
    assert before.attempt == 1
    assert story.report(old) is before
    assert story.report(TasksGranted(0, {task(): 9}, story.tick())) is before


def test_a_grant_for_a_job_that_is_stopping_is_not_taken() -> None:
    story = Story(role())
    story.report(StopRequested(story.tick(), "me"))
    before = story.job
    assert story.grant() is before


def test_news_of_what_was_never_started_is_impossible() -> None:
    story = Story(role())
    with pytest.raises(ImpossibleFact):
        story.exit(task())


def test_a_stop_names_the_user_who_requested_it_and_the_reason() -> None:
    story = Story(role())
    story.run()
    story.report(StopRequested(story.tick(), "root", "wrong data"))
    assert story.last.stopped == "root stopped the job: wrong data"
    story.exit(task(), 143)
    outcome = story.job.outcome
    assert outcome is not None
    assert (story.job.phase, outcome.code) == (JobPhase.STOPPED, -210)
    assert outcome.message == "root stopped the job: wrong data"
    assert outcome.diagnosis is not None
    assert outcome.diagnosis.reason == "root stopped the job: wrong data."
    assert story.job.tasks[task()].diagnosis == outcome.diagnosis


def test_a_time_limit_fails_the_attempt_for_good() -> None:
    story = Story(role(), retries=5)
    story.run()
    assert story.report(TimeLimitReached(1, story.tick(), 60_000)).phase is JobPhase.RUNNING
    assert story.report(TimeLimitReached(0, story.tick(), 60_000)).phase is JobPhase.ENDING
    job = story.exit(task(), 143)
    assert (job.phase, job.attempt) == (JobPhase.FAILED, 0)
    assert job.outcome is not None
    assert (job.outcome.code, job.outcome.diagnosis and job.outcome.diagnosis.phrase) == (-1004, "PodDeadlineExceeded")
    assert "1 minutes" not in job.outcome.message
    assert job.tasks[task()].diagnosis == job.outcome.diagnosis


@pytest.mark.parametrize(
    ("fact", "reason"),
    [
        (Preempted(0, 9000, "job b goes first"), "preempted"),
        (Preempted(0, 9000, "node n is drained", is_drain=True), "drained"),
        (TimeLimitReached(0, 9000, 60_000), "time_limit"),
        (StopRequested(9000, "ann"), "stopped"),
        (StopRequested(9000, "ann", is_restart=True), "restarted"),
    ],
)
def test_tasks_that_still_run_read_why_they_have_to_end(fact: Fact, reason: str) -> None:
    story = Story(role(instances=2))
    story.run()
    assert end_notice(story.job) is None
    notice = end_notice(story.report(fact))
    assert notice is not None
    assert notice.reason == reason
    assert notice.message == story.job.outcome.message  # type: ignore[union-attr]


def test_a_task_reads_that_the_job_ended_when_its_peer_failed() -> None:
    story = Story(role(instances=2))
    story.run()
    story.exit(task(), 1)
    notice = end_notice(story.job)
    assert notice is not None
    assert notice.reason == "job_ended"
