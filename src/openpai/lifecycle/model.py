"""The values of the lifecycle: phases, keys, and the job as this core sees it.

A task's grant is an opaque number here: which node and devices it stands for, only the scheduler and the orchestrator
know. Times are milliseconds since the epoch and always come from outside.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from sys import intern
from typing import NamedTuple

import msgspec


class JobPhase(StrEnum):
    """The phase of a job. The last three are final until the job is started again."""

    HELD = "held"
    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    ENDING = "ending"
    BACKING_OFF = "backing_off"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"


class TaskPhase(StrEnum):
    """The phase of a task of the current job attempt."""

    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    BACKING_OFF = "backing_off"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"


JOB_FINAL = frozenset({JobPhase.SUCCEEDED, JobPhase.FAILED, JobPhase.STOPPED})
TASK_FINAL = frozenset({TaskPhase.SUCCEEDED, TaskPhase.FAILED, TaskPhase.STOPPED})


# Keys are made, compared and looked up more often than anything else, and a cluster has tens of thousands of them: as
# msgspec's structs they are made in an eighteenth of the time of a dataclass, and no garbage collection visits them.
class TaskId(msgspec.Struct, frozen=True, order=True, gc=False):
    """Names a task within its job, the same for every attempt."""

    role: str
    index: int


class AttemptKey(msgspec.Struct, frozen=True, order=True, gc=False):
    """Names one attempt of one task, for backends and logs."""

    job: str
    job_attempt: int
    role: str
    index: int
    task_attempt: int

    @property
    def task(self) -> TaskId:
        """Return the task of which this is an attempt."""
        return TaskId(self.role, self.index)

    def path(self) -> str:
        """Return a name that is unique to this attempt and safe in a file system, without directories in it.

        Creating a directory for each level would be most of the cost of a short task.
        """
        return f"{self.job}.{self.job_attempt}.{self.role}.{self.index}.{self.task_attempt}"

    @classmethod
    def parse(cls, path: str) -> AttemptKey:
        """Return the key whose `path()` was given; raise ValueError for anything else."""
        job, job_attempt, role, index, task_attempt = path.split(".")
        # Thousands of keys name few jobs and roles.
        return cls(intern(job), int(job_attempt), intern(role), int(index), int(task_attempt))


class ExitReason(StrEnum):
    """How a task attempt ended, as a backend reports it, without a diagnosis."""

    EXITED = "exited"
    """The task's own process ended; `code` is its real exit code, 128+n when signal n ended it."""
    OOM_KILLED = "oom_killed"
    """The system killed it because it used more memory than its limit."""
    DISK_EXCEEDED = "disk_exceeded"
    """Its working directory grew beyond the limit, so it was killed."""
    LOST = "lost"
    """It vanished and left no report: the node failed, or it was removed from outside."""
    LAUNCH_FAILED = "launch_failed"
    """It never ran, and a retry may help (daemon busy, disk full, ...)."""
    LAUNCH_REFUSED = "launch_refused"
    """It never ran, and a retry will not help (the container cannot be created as requested)."""
    IMAGE_MISSING = "image_missing"
    """The image does not exist, or its registry refused to serve it."""
    PORT_TAKEN = "port_taken"
    """Another program uses a port that was allocated to it."""
    STALE_GRANT = "stale_grant"
    """A newer grant holds one of its devices, so it was not started."""
    ABSENT = "absent"
    """It was killed, but there was nothing to kill."""
    # Only clusters report these.
    EVICTED = "evicted"  # its node ran short of memory or disk, or was drained, and ended it
    NODE_LOST = "node_lost"  # its node is gone, or does not answer any more
    OUT_OF_RESOURCES = "out_of_resources"  # its node refused it, because it had less to give than was planned
    DISPLACED = "displaced"  # it was ended for a pod of higher priority
    DEADLINE_EXCEEDED = "deadline_exceeded"  # a time limit that the cluster puts on pods ended it
    NODE_FORBIDS = "node_forbids"  # its node does not allow what it asks for
    NODE_FAILED = "node_failed"  # its node had an unexpected error when it was to take it
    CREATION_FAILED = "creation_failed"  # its container could not be created
    START_FAILED = "start_failed"  # its container was created and could not be started
    NO_SHELL = "no_shell"  # its image has no /bin/sh


@dataclass(frozen=True, slots=True)
class ExitReport:
    """A backend's report of how a task attempt ended."""

    code: int
    reason: ExitReason = ExitReason.EXITED
    message: str = ""
    started_at_ms: int | None = None
    ended_at_ms: int | None = None

    @property
    def signal(self) -> int | None:
        """Return the signal that ended the process, or None."""
        return self.code - 128 if 128 < self.code <= 192 and self.reason is not ExitReason.LOST else None


class Behavior(StrEnum):
    """What a diagnosed cause means for retries."""

    TRANSIENT = "TRANSIENT"
    """The platform's fault, likely gone soon: retried without being counted, with back-off, up to a ceiling."""
    TRANSIENT_CONFLICT = "TRANSIENT_CONFLICT"
    """Like transient, but caused by a conflict between jobs: retried after a longer, spread-out delay."""
    PERMANENT = "PERMANENT"
    """Will happen again: not retried."""
    UNKNOWN = "UNKNOWN"
    """An unknown cause: retried while the owner's retry count lasts."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Why a task attempt ended, what caused it, and what to do about it."""

    code: int
    """Code of the row in the exit-code table; equals the task's own exit code only where the table says so."""
    phrase: str
    type: str
    """USER_SUCCESS, USER_STOP, USER_FAILURE, PLATFORM_FAILURE, RESOURCE_ALLOCATION_TIMEOUT or UNKNOWN_FAILURE."""
    behavior: Behavior
    reason: str = ""
    advice: tuple[str, ...] = ()
    matched: str = ""
    """The line of the log that a rule matched, if any."""
    cause: str = ""
    """The name of the cause that a rule found, such as cuda_oom; empty if none did."""
    domain: str = ""
    """The side that is responsible for the cause: user, platform, infrastructure or unknown."""
    lines: tuple[str, ...] = ()
    """`matched` with the lines around it in the log, if it has some."""
    retry: str = ""
    """Whether another attempt is likely to end better: helps, no or unknown."""
    excludes_node: bool = False
    """Whether the next attempt should avoid the node."""


class Retries(NamedTuple):
    """Retries so far: those counted against the owner's retry count, and free ones that the platform caused."""

    counted: int = 0
    free: int = 0


NO_RETRIES = Retries()


@dataclass(frozen=True, slots=True)
class RolePlan:
    """What the core needs to know of a task role. -1 in either minimum switches that rule off."""

    name: str
    instances: int
    min_failed: int
    min_succeeded: int
    task_retry_count: int
    gang_instances: int | None = None
    """How many tasks of a gang job were placed together, if the role was rescaled since; None means all."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What the core needs to know of a job's specification."""

    roles: tuple[RolePlan, ...]
    job_retry_count: int
    is_gang: bool
    is_held_first: bool = False
    """Whether each start by a user waits until something outside of the job has happened."""
    is_held_again: bool = False
    """Whether each attempt does."""

    @property
    def tasks_total(self) -> int:
        """Return the number of tasks."""
        return sum(role.instances for role in self.roles)


@dataclass(frozen=True, slots=True)
class Task:
    """One task of the current job attempt, in its current task attempt."""

    id: TaskId
    phase: TaskPhase = TaskPhase.WAITING
    attempt: int = 0
    grant: int | None = None
    """Number of the grant this attempt starts with; None while nothing is granted."""
    retries: Retries = NO_RETRIES
    granted_at_ms: int | None = None
    started_at_ms: int | None = None
    ended_at_ms: int | None = None
    retry_at_ms: int | None = None
    """When a task that backs off starts again."""
    report: ExitReport | None = None
    diagnosis: Diagnosis | None = None

    @property
    def is_alive(self) -> bool:
        """Return whether anything of this attempt may exist on a node."""
        return self.phase in (TaskPhase.STARTING, TaskPhase.RUNNING)


class Tasks(dict[TaskId, Task]):
    """The tasks of a job attempt, with counts of each role's tasks by phase.

    A job may have thousands of tasks, of which a step changes a few. Only the code that made a copy may change it.
    """

    __slots__ = ("counts",)

    def __init__(self, tasks: Mapping[TaskId, Task]) -> None:
        super().__init__(tasks)
        self.counts: Counter[tuple[str, TaskPhase]] = (
            tasks.counts.copy()
            if isinstance(tasks, Tasks)
            else Counter([(task.id.role, task.phase) for task in tasks.values()])
        )

    @classmethod
    def counted(cls, tasks: Mapping[TaskId, Task]) -> Tasks:
        """Return the same tasks with their counts."""
        return tasks if isinstance(tasks, Tasks) else cls(tasks)

    def put(self, task: Task) -> None:
        """Replace a task, and update the counts."""
        before = self.get(task.id)
        if before is not None:
            self.counts[task.id.role, before.phase] -= 1
        self.counts[task.id.role, task.phase] += 1
        self[task.id] = task

    def count(self, phase: TaskPhase, role: str | None = None) -> int:
        """Return how many tasks, of one role or of all, are in a phase."""
        if role is not None:
            return self.counts[role, phase]
        return sum(number for (_, at), number in self.counts.items() if at is phase)

    def is_any_alive(self) -> bool:
        """Return whether anything of the attempt may exist on a node."""
        return bool(self.count(TaskPhase.STARTING) or self.count(TaskPhase.RUNNING))


class Verdict(StrEnum):
    """How a job attempt ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    PREEMPTED = "preempted"


class EndReason(StrEnum):
    """Why a task that still runs has to end, as it reads it in the file that PAI_PREEMPTION_NOTICE names."""

    PREEMPTED = "preempted"
    """Another job takes its resources; this one waits for others and goes on from its last checkpoint."""
    DRAINED = "drained"
    """An administrator takes its node out of service; the job goes on elsewhere."""
    TIME_LIMIT = "time_limit"
    """The attempt reached the time limit of its job."""
    STOPPED = "stopped"
    """A user stopped the job."""
    RESTARTED = "restarted"
    """A user restarted the job, which runs again at once."""
    RESCALED = "rescaled"
    """The task role became smaller; the other tasks run on."""
    JOB_ENDED = "job_ended"
    """Other tasks decided how the job attempt ended."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The verdict on a job attempt, with its cause."""

    verdict: Verdict
    code: int
    diagnosis: Diagnosis | None = None
    trigger: TaskId | None = None
    message: str = ""
    at_ms: int | None = None
    """When the task of `trigger` ended, if it failed."""
    end_reason: EndReason = EndReason.JOB_ENDED


@dataclass(frozen=True, slots=True)
class Job:
    """A job as the lifecycle core sees it: its plan, its phase, and the tasks of its current attempt."""

    id: str
    plan: Plan
    phase: JobPhase
    submitted_at_ms: int
    attempt: int = 0
    is_stop_requested: bool = False
    tasks: Mapping[TaskId, Task] = field(default_factory=dict)
    retries: Retries = NO_RETRIES
    attempt_at_ms: int | None = None
    """When the current attempt was created."""
    attempt_started_at_ms: int | None = None
    """When the first task of the current attempt ran."""
    attempt_ended_at_ms: int | None = None
    started_at_ms: int | None = None
    """When the first task of any attempt ran."""
    ended_at_ms: int | None = None
    retry_at_ms: int | None = None
    outcome: Outcome | None = None
    """The outcome of the current attempt. Its verdict never changes; its cause does if another root is found."""

    @property
    def is_final(self) -> bool:
        """Return whether nothing more happens until the job is started again."""
        return self.phase in JOB_FINAL

    def key(self, task: Task) -> AttemptKey:
        """Return the name of a task's current attempt."""
        return AttemptKey(self.id, self.attempt, task.id.role, task.id.index, task.attempt)


@dataclass(frozen=True, slots=True)
class Stepped:
    """A job after some facts, and the job at the end of its attempt if they ended one."""

    job: Job
    ended: Job | None = None
    retried: tuple[Task, ...] = ()
    """Ended task attempts that another attempt of the task, within the same job attempt, replaced."""
    changed: tuple[TaskId, ...] = ()
    """Tasks that changed, of the attempt that the job was in before, in the order of the facts."""
    stopped: str = ""
    """The user who stopped the job and the reason, if these facts request a stop."""
    restarted: str = ""
    """The user who restarted the job and the reason, if these facts begin an attempt for that."""
    root: TaskId | None = None
    """The task that is the root of the attempt's failure, if that is another one than the one that decided it."""

    @property
    def last(self) -> Job:
        """Return the job at the end of the attempt it was in, or the current job if that attempt goes on."""
        return self.ended or self.job
