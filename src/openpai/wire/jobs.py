"""Documents of jobs: submitted, listed, and one attempt in detail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, NotRequired

from openpai.wire.answers import ExitCode, JobId, JobName, Ms, NullableMs, RoleName, Sentence, UserName, VcName
from openpai.wire.applications import JobApplication
from openpai.wire.doc import Doc, Document
from openpai.wire.exits import AttemptCause
from openpai.wire.job_events import Wait
from openpai.wire.states import State
from openpai.wire.tasks import Role, TaskProgress


class RetryDetails(Document):
    """The retries of a job, by the cause of the failure."""

    user: Annotated[int, Doc(example=1)]
    platform: Annotated[int, Doc(example=0)]
    resource: Annotated[int, Doc(example=0)]


class JobProgress(TaskProgress):
    """What a running job reported last about its progress: that of the task that is least far."""

    taskRoleName: RoleName
    taskIndex: Annotated[int, Doc(example=0)]


class JobStatus(Document):
    """The state of a job, in the list and in the detail."""

    username: UserName
    state: State
    subState: Annotated[str, Doc(example="AttemptRunning")]
    executionType: Literal["START", "STOP"]
    retries: Annotated[int, Doc(example=1)]
    retryDetails: RetryDetails
    retryDelayTime: Annotated[int | None, Doc("seconds until the next retry", example=None)]
    submissionTime: Ms
    createdTime: Ms
    launchedTime: NullableMs
    completedTime: NullableMs
    appExitCode: ExitCode
    virtualCluster: VcName
    progress: JobProgress | None


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
    checkpointTime: Annotated[
        int | None, Doc("when the job's newest checkpoint was written, in milliseconds since 1970", example=None)
    ]


class Restart(Document):
    """An attempt that began because a user restarted the job."""

    attemptId: Annotated[int, Doc(example=1, minimum=0)]
    time: Annotated[int, Doc("milliseconds since 1970", example=1767225600000)]
    message: Annotated[str, Doc("the user and the reason", example="ann restarted the job: new data")]


class JobHead(Document):
    """What the list and the detail both say of a job besides its state."""

    debugId: JobId
    name: JobName
    tags: Annotated[Sequence[str], Doc(example=["baseline"])]
    sweep: NotRequired[Annotated[str, Doc("the sweep that it is a job of, if it is of one", example="rates")]]
    jobPriority: Annotated[str | None, Doc(example="prod")]
    rank: Annotated[int, Doc("among jobs of equal priority, the higher rank goes first", example=0)]
    private: Annotated[bool, Doc(example=False)]
    archivedTime: Annotated[int | None, Doc("milliseconds since 1970; null outside the archive", example=None)]


class JobAfter(Document):
    """A job that has to end before another one is queued."""

    job: Annotated[str, Doc("user~name", example="ann~prepare")]
    until: Annotated[Literal["succeeded", "failed", "ended"], Doc("how it has to end", example="succeeded")]


class JobDetailHead(JobHead):
    """A job with one of its attempts, without the tasks of it."""

    timeLimitMinutes: Annotated[float | None, Doc("after which an attempt is ended", example=120)]
    interruptible: Annotated[
        bool, Doc("whether it may borrow idle resources, and be preempted there; false when it is finished")
    ]
    after: Annotated[Sequence[JobAfter], Doc("the jobs that had to end before it was queued")]
    applications: Annotated[Sequence[JobApplication], Doc("servers in its tasks that browsers reach")]
    restarts: Annotated[Sequence[Restart], Doc("attempts that users requested; all others but the first are retries")]
    jobStatus: AttemptStatus


class JobDetail(JobDetailHead):
    """A job with one of its attempts and every task of that attempt."""

    taskRoles: Mapping[str, Role]


class Submitted(Document):
    """A job that was accepted and stored durably."""

    status: Literal[202]
    message: Sentence
    user: UserName
    name: JobName
    id: JobId
    warnings: Annotated[Sequence[str], Doc("settings that do not have the expected effect", example=[])]


class CheckedJob(Document):
    """A job file that could be submitted."""

    name: JobName
    virtualCluster: VcName
    totalGpuNumber: Annotated[int, Doc(example=8)]
    warnings: Annotated[Sequence[str], Doc("settings that do not have the expected effect", example=[])]
    waits: Annotated[
        Sequence[Wait] | None,
        Doc("why it would wait if it were submitted now; empty if it would start, null where that is not known"),
    ]


class JobSummary(JobHead, JobStatus):
    """A job as an entry of the list."""

    totalGpuNumber: Annotated[int, Doc(example=8)]
    totalTaskNumber: Annotated[int, Doc(example=2)]
    totalTaskRoleNumber: Annotated[int, Doc(example=1)]
    appLaunchedTime: Annotated[int | None, Doc("when the newest attempt began to run", example=None)]
    appCompletedTime: Annotated[int | None, Doc("when the newest attempt ended", example=None)]


class JobPage(Document):
    """A page of the list, and how many jobs match in all."""

    totalCount: Annotated[int, Doc(example=1, minimum=0)]
    data: Sequence[JobSummary]


class BulkResult(Document):
    """The result for one job."""

    job: Annotated[str, Doc(example="ann~train")]
    id: JobId | None
    status: Annotated[int, Doc(example=200)]
    message: Sentence
    code: NotRequired[Annotated[str, Doc("of an error")]]
    advice: NotRequired[Annotated[str, Doc("of an error")]]


class BulkResults(Document):
    """The results for all jobs."""

    done: Annotated[int, Doc(example=1, minimum=0)]
    failed: Annotated[int, Doc(example=0, minimum=0)]
    more: Annotated[int, Doc("jobs that match after the first 1,000", example=0, minimum=0)]
    results: Sequence[BulkResult]
