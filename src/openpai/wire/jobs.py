"""Documents of jobs: submitted, listed, one attempt in detail, events, and why a job waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, NotRequired

from openpai.wire.answers import ExitCode, JobId, JobName, Ms, NullableMs, RoleName, Sentence, State, UserName, VcName
from openpai.wire.doc import Doc, Document
from openpai.wire.exits import AttemptCause
from openpai.wire.nodes import Holdings
from openpai.wire.tasks import Role


class RetryDetails(Document):
    """How often a job was tried again, by whose fault."""

    user: Annotated[int, Doc(example=1)]
    platform: Annotated[int, Doc(example=0)]
    resource: Annotated[int, Doc(example=0)]


class JobStatus(Document):
    """The state of a job, as the list and the detail both have it."""

    username: UserName
    state: State
    subState: Annotated[str, Doc(example="AttemptRunning")]
    executionType: Literal["START", "STOP"]
    retries: Annotated[int, Doc(example=1)]
    retryDetails: RetryDetails
    retryDelayTime: Annotated[int | None, Doc("seconds until the next try", example=None)]
    submissionTime: Ms
    createdTime: Ms
    launchedTime: NullableMs
    completedTime: NullableMs
    appExitCode: ExitCode
    virtualCluster: VcName


class AttemptStatus(JobStatus, AttemptCause):
    """The state of a job and of one attempt of it."""

    attemptId: Annotated[int, Doc(example=0)]
    attemptState: State
    appId: Annotated[str, Doc(example="0_0d7c2a52c1f64e2f8d1b6a1f6d8b3c11")]
    appProgress: Annotated[int, Doc("1 once the attempt ended", example=0)]
    appTrackingUrl: Literal[""]
    appCreatedTime: NullableMs
    appLaunchedTime: NullableMs
    appCompletedTime: NullableMs
    appExitType: Annotated[str | None, Doc(example=None)]


class Restart(Document):
    """An attempt that began because a user restarted the job."""

    attemptId: Annotated[int, Doc(example=1, minimum=0)]
    time: Annotated[int, Doc("milliseconds since 1970", example=1767225600000)]
    message: Annotated[str, Doc("who wanted that, and why", example="ann restarted the job: new data")]


class JobDetailHead(Document):
    """A job with one of its attempts, without the tasks of it."""

    debugId: JobId
    name: JobName
    tags: Annotated[Sequence[str], Doc(example=["baseline"])]
    jobPriority: Annotated[str | None, Doc(example="prod")]
    rank: Annotated[int, Doc(example=0)]
    private: Annotated[bool, Doc(example=False)]
    archivedTime: Annotated[int | None, Doc(example=None)]
    timeLimitMinutes: Annotated[float | None, Doc("after which an attempt is ended", example=120)]
    restarts: Annotated[Sequence[Restart], Doc("attempts that people asked for; all others but the first are retries")]
    jobStatus: AttemptStatus


class JobDetail(JobDetailHead):
    """A job with one of its attempts and every task of that attempt."""

    taskRoles: Mapping[str, Role]


class Submitted(Document):
    """A job that is durable: it will run, or say why not."""

    status: Literal[202]
    message: Sentence
    user: UserName
    name: JobName
    id: JobId
    warnings: Annotated[Sequence[str], Doc("what was understood but has not the effect one may expect", example=[])]


class JobSummary(JobStatus):
    """A job as an entry of the list."""

    debugId: JobId
    name: JobName
    tags: Annotated[Sequence[str], Doc(example=["baseline"])]
    totalGpuNumber: Annotated[int, Doc(example=8)]
    totalTaskNumber: Annotated[int, Doc(example=2)]
    totalTaskRoleNumber: Annotated[int, Doc(example=1)]
    jobPriority: Annotated[str | None, Doc(example="prod")]
    rank: Annotated[int, Doc("among equal priorities the higher goes first", example=0)]
    private: Annotated[bool, Doc(example=False)]
    archivedTime: Annotated[int | None, Doc("milliseconds since 1970; null outside the archive", example=None)]
    appLaunchedTime: Annotated[int | None, Doc("when the newest attempt began to run", example=None)]
    appCompletedTime: Annotated[int | None, Doc("when the newest attempt ended", example=None)]


class JobPage(Document):
    """A page of the list, and how many jobs match in all."""

    totalCount: Annotated[int, Doc(example=1, minimum=0)]
    data: Sequence[JobSummary]


class Event(Document):
    """Something that happened to a job."""

    uid: Annotated[str, Doc(example="17")]
    frameworkName: JobId
    podUid: Annotated[str, Doc("empty for the job itself", example="0d7c2a52c1f64e2f8d1b6a1f6d8b3c11.0.w.0.0")]
    taskroleName: Annotated[str, Doc("empty for the job itself", example="worker")]
    taskName: Annotated[str, Doc("empty for the job itself", example="worker-0")]
    taskIndex: Annotated[int, Doc("-1 for the job itself", example=0)]
    type: Literal["Normal", "Warning"]
    reason: Annotated[str, Doc(example="TaskStarted")]
    message: Sentence
    firstTimestamp: Annotated[str, Doc(example="2026-01-31T12:00:00.000Z")]
    lastTimestamp: Annotated[str, Doc(example="2026-01-31T12:00:00.000Z")]
    count: Literal[1]
    sourceComponent: Literal["openpai"]
    sourceHost: Annotated[str, Doc(example="node-17")]


class EventList(Document):
    """A job's history."""

    totalCount: Annotated[int, Doc(example=1, minimum=0)]
    data: Sequence[Event]


class Estimate(Document):
    """When a gang may start."""

    earliestTime: NullableMs
    latestTime: NullableMs
    basis: Annotated[str, Doc("what the guess rests on", example="time limits of the jobs ahead")]


class Wait(Document):
    """Why a gang waits."""

    code: Annotated[str, Doc(example="NOT_ENOUGH_FREE")]
    message: Annotated[str, Doc(example="virtual cluster vision uses 16 of its 16 GPUs")]
    unblock: Annotated[str, Doc("what would change that", example="wait for ann~first to end")]
    ahead: Annotated[Sequence[str], Doc("who goes first", example=["ann~first"])]
    position: Annotated[int | None, Doc(example=1)]
    estimate: Estimate | None
    more: Annotated[int, Doc("how many further tasks of the job wait for the same, behind this one", example=0)]


class JobWaits(Document):
    """Why a job waits; nothing where it does not."""

    waits: Sequence[Wait]
    held: Annotated[Holdings, Doc("which jobs hold the room, the largest first")]


class SshAddress(Document):
    """How to reach a task that runs."""

    id: Annotated[str, Doc(example="0d7c2a52c1f64e2f8d1b6a1f6d8b3c11/0/worker/0/0")]
    taskRoleName: RoleName
    taskIndex: Annotated[int, Doc(example=0)]
    sshIp: Annotated[str, Doc(example="10.0.0.17")]
    sshPort: Annotated[str, Doc(example="30022")]
    command: Annotated[str, Doc(example="ssh -p 30022 root@10.0.0.17")]


class SshAddresses(Document):
    """How to reach the tasks of a job."""

    containers: Sequence[SshAddress]


class BulkResult(Document):
    """What became of one job."""

    job: Annotated[str, Doc(example="ann~train")]
    id: JobId | None
    status: Annotated[int, Doc(example=200)]
    message: Sentence
    code: NotRequired[Annotated[str, Doc("of an error")]]
    advice: NotRequired[Annotated[str, Doc("of an error")]]


class BulkResults(Document):
    """What became of each job."""

    done: Annotated[int, Doc(example=1, minimum=0)]
    failed: Annotated[int, Doc(example=0, minimum=0)]
    more: Annotated[int, Doc("jobs that match after the first 1,000", example=0, minimum=0)]
    results: Sequence[BulkResult]
