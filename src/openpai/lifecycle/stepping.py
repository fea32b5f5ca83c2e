"""Derives a job's next state from facts. The only code that changes a phase, always as the tables allow.

Facts name the attempt they are about. One about an earlier attempt, or one that is repeated, changes nothing. One about
something that was never granted cannot have happened and raises ImpossibleFact. Of several facts at once, each is
applied in order, and the verdict is taken after the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from openpai.lifecycle.completion import verdict
from openpai.lifecycle.diagnosis import ended_with_attempt, removed_by_rescale, without_retry_advice
from openpai.lifecycle.facts import (
    AdmissionLost,
    DependencyMissed,
    Fact,
    Preempted,
    Released,
    Rescaled,
    RetryDue,
    RootFound,
    StartRequested,
    StopRequested,
    TaskExited,
    TasksGranted,
    TaskStarted,
    TimeLimitReached,
)
from openpai.lifecycle.model import (
    NO_RETRIES,
    AttemptKey,
    Behavior,
    ExitReason,
    Job,
    JobPhase,
    Outcome,
    Plan,
    RolePlan,
    Stepped,
    Task,
    TaskId,
    TaskPhase,
    Tasks,
    Verdict,
)
from openpai.lifecycle.outcomes import (
    dependency_missed,
    out_of_time,
    preempted,
    request_message,
    stopped,
    with_retries_used_up,
    with_root,
)
from openpai.lifecycle.rescaling import added, fresh_tasks, is_removed, removed, rescaled_plan, whole_gang
from openpai.lifecycle.retries import RETRY_POLICY, RetryPolicy, again
from openpai.lifecycle.table import ImpossibleFact, JobEvent, TaskEvent, job_goal, task_goal


def new_job(id_: str, plan: Plan, at_ms: int) -> Job:
    """Return a job that was just submitted."""
    phase = JobPhase.HELD if plan.is_held_first else JobPhase.QUEUED
    job = Job(id=id_, plan=plan, phase=phase, submitted_at_ms=at_ms, attempt_at_ms=at_ms)
    return replace(job, tasks=fresh_tasks(plan))


def step(job: Job, facts: Sequence[Fact], policy: RetryPolicy = RETRY_POLICY) -> Stepped:
    """Return the job after `facts`; the very same object if they change nothing."""
    draft = _Draft(job, policy)
    for fact in facts:
        draft.hear(fact)
    draft.judge()
    return draft.stepped()


class _Draft:
    """A job during a step: copies the task map once, however many facts there are."""

    def __init__(self, job: Job, policy: RetryPolicy) -> None:
        self.job = job
        self.policy = policy
        self.tasks = job.tasks
        self.attempt = job.attempt
        self.changed: dict[TaskId, None] = {}
        self._own: Tasks | None = None
        self.ended: Job | None = None
        self.retried: list[Task] = []
        self.stopped = ""
        self.restarted = ""
        self.now_ms = 0
        self.may_be_decided = False
        self.found: RootFound | None = None
        self.root: TaskId | None = None

    def hear(self, fact: Fact) -> None:
        if isinstance(fact, RootFound):
            self.found = fact  # it is about an attempt that ends with the other facts
            return
        if not isinstance(fact, TaskExited):
            self.judge()
        self.now_ms = fact.at_ms
        match fact:
            case Released() | DependencyMissed() | AdmissionLost():
                self._judged(fact)
            case TasksGranted():
                self._granted(fact)
            case TaskStarted():
                self._started(fact)
            case TaskExited():
                self._exited(fact)
            case StopRequested():
                self._stop(fact)
            case StartRequested():
                self._start(fact)
            case Preempted() | TimeLimitReached():
                self._cut_short(fact)
            case RetryDue():
                self._retry_due(fact)
            case Rescaled():
                self._rescale(fact)

    def stepped(self) -> Stepped:
        if self.tasks is not self.job.tasks:
            self.job = replace(self.job, tasks=self.tasks)
        retried, changed = tuple(self.retried), tuple(self.changed)
        return Stepped(self.job, self.ended, retried, changed, self.stopped, self.restarted, self.root)

    # What each fact means.

    def _judged(self, fact: Released | DependencyMissed | AdmissionLost) -> None:
        if isinstance(fact, AdmissionLost):
            if self.job.phase is JobPhase.QUEUED:
                self._move(JobEvent.TAKEN_BACK, JobPhase.HELD)
            else:
                self._cut_short(Preempted(self.job.attempt, fact.at_ms, fact.why))
            return
        if self.job.phase is not JobPhase.HELD:
            return
        if isinstance(fact, DependencyMissed):
            self.job = replace(self.job, is_stop_requested=True)
            self._conclude(dependency_missed(fact))
        else:
            self._move(JobEvent.RELEASED, JobPhase.QUEUED)
            self.job = replace(self.job, attempt_at_ms=fact.at_ms)

    def _granted(self, fact: TasksGranted) -> None:
        if fact.job_attempt != self.job.attempt or self.job.outcome or self.job.is_final:
            return
        if self.job.phase is JobPhase.QUEUED and self.job.plan.is_gang and fact.grants.keys() != self.tasks.keys():
            return  # the gang was rescaled after it was placed, and is placed again
        heard = False
        for id_, grant in fact.grants.items():
            task = self.tasks[id_]
            if task.phase is TaskPhase.WAITING:
                phase = task_goal(task.phase, TaskEvent.GRANTED)
                self._put(replace(task, phase=phase, grant=grant, granted_at_ms=fact.at_ms))
                heard = True
        if heard:
            goal = JobPhase.STARTING if self.job.phase is JobPhase.QUEUED else self.job.phase
            self._move(JobEvent.GRANTED, goal)

    def _started(self, fact: TaskStarted) -> None:
        task = self._current(fact.key)
        if task is None or task.phase is not TaskPhase.STARTING:
            return
        self._put(replace(task, phase=task_goal(task.phase, TaskEvent.RAN), started_at_ms=fact.at_ms))
        if self.job.phase is JobPhase.STARTING:
            self._move(JobEvent.TASK_RAN, JobPhase.RUNNING)
        if not self.job.attempt_started_at_ms or not self.job.started_at_ms:
            self.job = replace(
                self.job,
                attempt_started_at_ms=self.job.attempt_started_at_ms or fact.at_ms,
                started_at_ms=self.job.started_at_ms or fact.at_ms,
            )

    def _exited(self, fact: TaskExited) -> None:
        task = self._current(fact.key)
        if task is None or not task.is_alive:
            return
        self.may_be_decided = True
        diagnosis = without_retry_advice(fact.diagnosis) if self._asks_for_retries(task) else fact.diagnosis
        task = replace(task, ended_at_ms=fact.at_ms, report=fact.report, diagnosis=diagnosis)
        if is_removed(self.job.plan, task.id):
            self._put(replace(task, phase=task_goal(task.phase, TaskEvent.STOPPED), diagnosis=removed_by_rescale()))
        elif fact.report.code == 0 and fact.report.reason is ExitReason.EXITED:
            self._put(replace(task, phase=task_goal(task.phase, TaskEvent.SUCCEEDED)))
        elif self.job.outcome:
            why = ended_with_attempt(self.job.outcome)
            self._put(replace(task, phase=task_goal(task.phase, TaskEvent.STOPPED), diagnosis=why))
        else:
            self._failed(task)

    def _role_of(self, task: Task) -> RolePlan:
        return next(role for role in self.job.plan.roles if role.name == task.id.role)

    def _asks_for_retries(self, task: Task) -> bool:
        return self.job.plan.job_retry_count != 0 or self._role_of(task).task_retry_count != 0

    def _failed(self, task: Task) -> None:
        role = self._role_of(task)
        is_unknown = task.diagnosis is None or task.diagnosis.behavior is Behavior.UNKNOWN
        # If the platform loses one task of a gang, the whole gang restarts: its peers know the address of that task.
        may_retry = is_unknown or not self.job.plan.is_gang
        who = f"{self.job.id}/{task.id.role}/{task.id.index}"
        retry = again(task.diagnosis, task.retries, role.task_retry_count, who, self.policy) if may_retry else None
        if retry is None:
            self._put(replace(task, phase=task_goal(task.phase, TaskEvent.FAILED)))
            return
        self.retried.append(replace(task, phase=task_goal(task.phase, TaskEvent.FAILED)))
        following = Task(task.id, attempt=task.attempt + 1, retries=retry.retries)
        if self.job.plan.is_gang:
            phase = task_goal(task.phase, TaskEvent.RETRIED_IN_PLACE)
            self._put(replace(following, phase=phase, grant=task.grant, granted_at_ms=self.now_ms))
        elif retry.delay_ms == 0:
            self._put(replace(following, phase=task_goal(task.phase, TaskEvent.RETRIED_ELSEWHERE)))
        else:
            phase = task_goal(task.phase, TaskEvent.RETRIED_LATER)
            self._put(replace(following, phase=phase, retry_at_ms=self.now_ms + retry.delay_ms))

    def _stop(self, fact: StopRequested) -> None:
        if self.job.is_final:
            return
        message = request_message(fact, "restarted" if fact.is_restart else "stopped")
        if not (self.job.is_stop_requested or fact.is_restart):
            self.stopped = message
        self.job = replace(self.job, is_stop_requested=True)
        if self.job.outcome is None or self.job.phase is JobPhase.BACKING_OFF:
            self._conclude(stopped(message, is_restart=fact.is_restart))

    def _start(self, fact: StartRequested) -> None:
        message = request_message(fact, "restarted")
        outcome = self.job.outcome
        if self.job.is_final:
            self.restarted = message
            self.job = replace(self.job, is_stop_requested=False, retries=NO_RETRIES, ended_at_ms=None)
            self._new_attempt(JobEvent.STARTED_AGAIN)
        elif self.job.is_stop_requested:
            # The attempt does not end because the job was stopped: it ends because the job starts again.
            if outcome is not None and outcome.verdict is Verdict.STOPPED:
                outcome = stopped(message, is_restart=True)
            self.job = replace(self.job, is_stop_requested=False, outcome=outcome)

    def _cut_short(self, fact: Preempted | TimeLimitReached) -> None:
        is_running = self.job.phase in (JobPhase.STARTING, JobPhase.RUNNING)
        if is_running and fact.job_attempt == self.job.attempt and self.job.outcome is None:
            self._conclude(preempted(fact) if isinstance(fact, Preempted) else out_of_time(fact.limit_ms))

    def _retry_due(self, fact: RetryDue) -> None:
        if self.job.phase is JobPhase.BACKING_OFF:
            if fact.is_for(self.job.retry_at_ms):
                self._new_attempt(JobEvent.RETRY_DUE)
            return
        for task in list(self.tasks.values()):
            if task.phase is TaskPhase.BACKING_OFF and fact.is_for(task.retry_at_ms):
                self._put(replace(task, phase=task_goal(task.phase, TaskEvent.RETRY_DUE), retry_at_ms=None))

    def _rescale(self, fact: Rescaled) -> None:
        before, plan = self.job.plan, rescaled_plan(self.job, fact.roles)
        if self.job.is_final or plan is before:
            return
        self.job = replace(self.job, plan=plan)
        if self.job.outcome is not None:
            return  # the next attempt has the new numbers
        if self.job.phase in (JobPhase.HELD, JobPhase.QUEUED):
            self.tasks = fresh_tasks(plan)
            self.job = replace(self.job, tasks=self.tasks)
            return
        for task in removed(replace(self.job, tasks=self.tasks)):
            self._remove(task)
        for task in added(before, plan, self.tasks):
            self._put(task)
        self.may_be_decided = True

    def _remove(self, task: Task) -> None:
        if task.phase in (TaskPhase.WAITING, TaskPhase.BACKING_OFF):
            goal = task_goal(task.phase, TaskEvent.STOPPED)
            why = removed_by_rescale()
            self._put(replace(task, phase=goal, ended_at_ms=self.now_ms, diagnosis=why, retry_at_ms=None))
        elif task.is_alive:
            self._put(task)  # it has to end, which is derived from the plan

    # What follows from them.

    def judge(self) -> None:
        """Take the verdict after all facts, and end the attempt when none of its tasks is alive."""
        if not self.may_be_decided or self.job.is_final:
            return
        self.may_be_decided = False
        if self.job.outcome is None:
            outcome = verdict(self.job.plan, self.tasks)
            if outcome is not None:
                self._conclude(outcome)
        elif self.job.phase is JobPhase.ENDING and not Tasks.counted(self.tasks).is_any_alive():
            self._close()

    def _conclude(self, outcome: Outcome) -> None:
        was = self.job.phase
        self.job = replace(self.job, outcome=outcome)
        why = ended_with_attempt(outcome)
        for task in list(self.tasks.values()):
            if task.phase in (TaskPhase.WAITING, TaskPhase.BACKING_OFF):
                phase = task_goal(task.phase, TaskEvent.STOPPED)
                self._put(replace(task, phase=phase, ended_at_ms=self.now_ms, diagnosis=why, retry_at_ms=None))
        if was is not JobPhase.ENDING and Tasks.counted(self.tasks).is_any_alive():
            self._move(JobEvent.VERDICT, JobPhase.ENDING)
        else:
            self._close()

    def _close(self) -> None:
        outcome = self.job.outcome
        if outcome is None:
            raise ImpossibleFact(f"job {self.job.id} ends without a verdict")
        found = outcome if self.found is None else with_root(outcome, self.found, self.job)
        self.root, outcome = None if found is outcome else found.trigger, found
        self.job = replace(self.job, tasks=self.tasks, attempt_ended_at_ms=self.now_ms, outcome=outcome)
        if self.job.phase is not JobPhase.BACKING_OFF:
            self.ended = self.job
        if outcome.verdict is Verdict.SUCCEEDED:
            self._finish(JobPhase.SUCCEEDED)
        elif self.job.is_stop_requested:
            self._finish(JobPhase.FAILED if self._is_last_failure(outcome) else JobPhase.STOPPED)
        elif outcome.verdict is Verdict.FAILED:
            self._retry_or_fail(outcome)
        else:
            if outcome.verdict is Verdict.STOPPED:
                self.restarted = outcome.message
            self._new_attempt(JobEvent.OVER)

    def _is_last_failure(self, outcome: Outcome) -> bool:
        plan = self.job.plan
        retry = again(outcome.diagnosis, self.job.retries, plan.job_retry_count, self.job.id, self.policy)
        return outcome.verdict is Verdict.FAILED and retry is None

    def _retry_or_fail(self, outcome: Outcome) -> None:
        plan = self.job.plan
        retry = again(outcome.diagnosis, self.job.retries, plan.job_retry_count, self.job.id, self.policy)
        if retry is None:
            self.job = replace(self.job, outcome=with_retries_used_up(outcome, self.job))
            self._finish(JobPhase.FAILED)
            return
        self.job = replace(self.job, retries=retry.retries)
        if retry.delay_ms == 0:
            self._new_attempt(JobEvent.OVER)
        else:
            self._move(JobEvent.OVER, JobPhase.BACKING_OFF)
            self.job = replace(self.job, retry_at_ms=self.now_ms + retry.delay_ms)

    def _finish(self, phase: JobPhase) -> None:
        outcome = self.job.outcome
        if phase is JobPhase.STOPPED and outcome and outcome.verdict is not Verdict.STOPPED:
            # The stop came after the attempt had failed, and only prevents a retry.
            outcome = stopped(f"a stop was requested while the attempt ended ({outcome.message})")
        self._move(JobEvent.OVER, phase)
        self.job = replace(self.job, ended_at_ms=self.now_ms, retry_at_ms=None, outcome=outcome)

    def _new_attempt(self, event: JobEvent) -> None:
        plan = self.job.plan
        is_held = plan.is_held_again or (event is JobEvent.STARTED_AGAIN and plan.is_held_first)
        self._move(event, JobPhase.HELD if is_held else JobPhase.QUEUED)
        plan = whole_gang(plan)
        self.tasks = fresh_tasks(plan)
        self.job = replace(
            self.job,
            plan=plan,
            attempt=self.job.attempt + 1,
            tasks=self.tasks,
            outcome=None,
            retry_at_ms=None,
            attempt_at_ms=self.now_ms,
            attempt_started_at_ms=None,
            attempt_ended_at_ms=None,
        )

    def _move(self, event: JobEvent, goal: JobPhase) -> None:
        self.job = replace(self.job, phase=job_goal(self.job.phase, event, goal))

    def _put(self, task: Task) -> None:
        if self._own is None or self.tasks is self.job.tasks:
            self.tasks = self._own = Tasks(self.tasks)
        self._own.put(task)
        if self.job.attempt == self.attempt:
            self.changed[task.id] = None

    def _current(self, key: AttemptKey) -> Task | None:
        """Return the task of a fact, None for an earlier attempt; raise ImpossibleFact if it was never started."""
        if key.job_attempt < self.job.attempt or self.job.is_final:
            return None
        task = self.tasks.get(key.task)
        if task is None or key.job_attempt > self.job.attempt or key.task_attempt > task.attempt:
            raise ImpossibleFact(f"news of {key.path()}, which was never started")
        if key.task_attempt < task.attempt:
            return None
        if task.phase in (TaskPhase.WAITING, TaskPhase.BACKING_OFF):
            raise ImpossibleFact(f"news of {key.path()}, which is {task.phase}")
        return task
