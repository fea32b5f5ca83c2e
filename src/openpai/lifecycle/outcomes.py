"""How a job attempt ended, for every end that is not the completion policy's."""

from __future__ import annotations

from dataclasses import replace

from openpai.lifecycle.diagnosis import (
    DEPENDENCY_MISSED,
    STOP_REQUESTED,
    TIME_LIMIT_REACHED,
    dependency_never_met,
    stop_requested,
    time_limit_reached,
    without_retry_advice,
)
from openpai.lifecycle.facts import DependencyMissed, Preempted, RootFound, StartRequested, StopRequested
from openpai.lifecycle.model import Behavior, EndReason, Job, Outcome, Verdict
from openpai.protocol.wording import exact


def request_message(fact: StopRequested | StartRequested, did: str) -> str:
    """Return who asked for something to be done to a job, and why."""
    return f"{fact.by} {did} the job" + (f": {fact.reason}" if fact.reason else "")


def stopped(message: str, *, is_restart: bool = False) -> Outcome:
    """Return the outcome of an attempt that a user stopped, or ended to start another one."""
    reason = EndReason.RESTARTED if is_restart else EndReason.STOPPED
    return Outcome(Verdict.STOPPED, STOP_REQUESTED, stop_requested(message), message=message, end_reason=reason)


def dependency_missed(fact: DependencyMissed) -> Outcome:
    """Return the outcome of a job that never ran, because what it waits for cannot happen any more."""
    return Outcome(Verdict.STOPPED, DEPENDENCY_MISSED, dependency_never_met(fact.why), message=fact.why)


def preempted(fact: Preempted) -> Outcome:
    """Return the outcome of an attempt whose grants were taken back."""
    reason = EndReason.DRAINED if fact.is_drain else EndReason.PREEMPTED
    return Outcome(Verdict.PREEMPTED, -101, message=fact.why, end_reason=reason)


def out_of_time(limit_ms: int) -> Outcome:
    """Return the outcome of an attempt that reached the time limit of its job."""
    limit, unit = (limit_ms / 60_000, "minute") if limit_ms >= 60_000 else (limit_ms / 1000, "second")
    message = f"it reached its time limit of {exact(limit)} {unit}{'' if limit == 1 else 's'}"
    diagnosis, reason = time_limit_reached(), EndReason.TIME_LIMIT
    return Outcome(Verdict.FAILED, TIME_LIMIT_REACHED, diagnosis, message=message, end_reason=reason)


def with_root(outcome: Outcome, found: RootFound, job: Job) -> Outcome:
    """Return the outcome with the root of a failure as its cause; the very same one if it has that already."""
    is_other = outcome.verdict is Verdict.FAILED and outcome.trigger not in (None, found.task)
    if not is_other or found.job_attempt != job.attempt:
        return outcome
    diagnosis = without_retry_advice(found.diagnosis) if job.plan.job_retry_count else found.diagnosis
    message = f"{found.task.role}-{found.task.index} failed first; {outcome.message}"
    return Outcome(outcome.verdict, found.code, diagnosis, found.task, message, found.at_ms)


def with_retries_used_up(outcome: Outcome, job: Job) -> Outcome:
    """Return how a job's last attempt ended, with its used-up retries if there were any."""
    is_counted = outcome.diagnosis is None or outcome.diagnosis.behavior is Behavior.UNKNOWN
    if not is_counted or job.retries.counted == 0:
        return outcome
    return replace(outcome, message=f"{outcome.message}; jobRetryCount {job.plan.job_retry_count} is used up")
