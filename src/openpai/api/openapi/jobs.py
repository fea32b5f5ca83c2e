"""What is told of jobs: submitting, listing, looking at them, and what may be wished of them."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field

from openpai.api.openapi.cluster import Held
from openpai.api.openapi.details import Detail, ExitCode, NullableMs, RetryDetails, State
from openpai.api.openapi.operations import (
    Answer,
    Done,
    JobId,
    JobName,
    Ms,
    Operation,
    RoleName,
    Sentence,
    UserName,
    VcName,
)


class Submitted(Answer):
    """A job that is durable: it will run, or say why not."""

    status: Literal[202]
    message: Sentence
    user: UserName
    name: JobName
    id: JobId
    warnings: list[str] = Field(description="what was understood but has not the effect one may expect", examples=[[]])


class Summary(Answer):
    """A job as an entry of the list."""

    debugId: JobId
    name: JobName
    username: UserName
    state: State
    subState: str = Field(examples=["AttemptRunning"])
    executionType: Literal["START", "STOP"]
    retries: int = Field(examples=[1])
    retryDetails: RetryDetails
    retryDelayTime: int | None = Field(description="seconds until the next try", examples=[None])
    submissionTime: Ms
    createdTime: Ms
    launchedTime: NullableMs
    completedTime: NullableMs
    appExitCode: ExitCode
    virtualCluster: VcName
    tags: list[str] = Field(examples=[["baseline"]])
    totalGpuNumber: int = Field(examples=[8])
    totalTaskNumber: int = Field(examples=[2])
    totalTaskRoleNumber: int = Field(examples=[1])
    jobPriority: str | None = Field(examples=["prod"])
    rank: int = Field(description="among equal priorities the higher goes first", examples=[0])
    private: bool = Field(examples=[False])
    archivedTime: int | None = Field(description="milliseconds since 1970; null outside the archive", examples=[None])
    appLaunchedTime: int | None = Field(description="when the newest attempt began to run", examples=[None])
    appCompletedTime: int | None = Field(description="when the newest attempt ended", examples=[None])


class Counted(Answer):
    """A page of the list, and how many jobs match in all."""

    totalCount: int = Field(ge=0, examples=[1])
    data: list[Summary]


class Event(Answer):
    """Something that happened to a job."""

    uid: str = Field(examples=["17"])
    frameworkName: JobId
    podUid: str = Field(description="empty for the job itself", examples=["0d7c2a52c1f64e2f8d1b6a1f6d8b3c11.0.w.0.0"])
    taskroleName: str = Field(description="empty for the job itself", examples=["worker"])
    taskName: str = Field(description="empty for the job itself", examples=["worker-0"])
    taskIndex: int = Field(description="-1 for the job itself", examples=[0])
    type: Literal["Normal", "Warning"]
    reason: str = Field(examples=["TaskStarted"])
    message: Sentence
    firstTimestamp: str = Field(examples=["2026-01-31T12:00:00.000Z"])
    lastTimestamp: str = Field(examples=["2026-01-31T12:00:00.000Z"])
    count: Literal[1]
    sourceComponent: Literal["openpai"]
    sourceHost: str = Field(examples=["node-17"])


class Events(Answer):
    """A job's history."""

    totalCount: int = Field(ge=0, examples=[1])
    data: list[Event]


class Estimate(Answer):
    """When a gang may start."""

    earliestTime: NullableMs
    latestTime: NullableMs
    basis: str = Field(description="what the guess rests on", examples=["time limits of the jobs ahead"])


class Wait(Answer):
    """Why a gang waits."""

    code: str = Field(examples=["NOT_ENOUGH_FREE"])
    message: str = Field(examples=["virtual cluster vision uses 16 of its 16 GPUs"])
    unblock: str = Field(description="what would change that", examples=["wait for ann~first to end"])
    ahead: list[str] = Field(description="who goes first", examples=[["ann~first"]])
    position: int | None = Field(examples=[1])
    estimate: Estimate | None
    more: int = Field(description="how many further tasks of the job wait for the same, behind this one", examples=[0])


class Waits(Answer):
    """Why a job waits; nothing where it does not."""

    waits: list[Wait]
    held: Held = Field(description="which jobs hold the room, the largest first")


class SshDoor(Answer):
    """How to reach a task that runs."""

    id: str = Field(examples=["0d7c2a52c1f64e2f8d1b6a1f6d8b3c11/0/worker/0/0"])
    taskRoleName: RoleName
    taskIndex: int = Field(examples=[0])
    sshIp: str = Field(examples=["10.0.0.17"])
    sshPort: str = Field(examples=["30022"])
    command: str = Field(examples=["ssh -p 30022 root@10.0.0.17"])


class SshDoors(Answer):
    """How to reach the tasks of a job."""

    containers: list[SshDoor]


class BulkResult(Answer):
    """What became of one job."""

    job: str = Field(examples=["ann~train"])
    id: JobId | None
    status: int = Field(examples=[200])
    message: Sentence
    code: str = Field("", description="of an error")
    advice: str = Field("", description="of an error")


class BulkResults(Answer):
    """What became of each job."""

    done: int = Field(ge=0, examples=[1])
    failed: int = Field(ge=0, examples=[0])
    more: int = Field(ge=0, description="jobs that match beyond the first 1,000", examples=[0])
    results: list[BulkResult]


_JOB: Final = "NoJobError"
_LINK: Final = {"Link": 'the next page, as `<address>; rel="next"`, while there are more'}
_FILE: Final = {
    "protocolVersion": 2,
    "name": "train",
    "type": "job",
    "prerequisites": [{"type": "dockerimage", "name": "image", "uri": "python"}],
    "taskRoles": {
        "worker": {
            "instances": 1,
            "dockerImage": "image",
            "resourcePerInstance": {"cpu": 1, "memoryMB": 64, "gpu": 0},
            "commands": ["true"],
        }
    },
}
_J: Final = "/api/v2/jobs"
OPERATIONS: Final[dict[str, Operation]] = {
    f"POST {_J}": Operation(
        "submitJob",
        "Submit a job",
        Submitted,
        "InvalidProtocolError ForbiddenUserError NoEnoughQuotaError NoVirtualClusterError NoStorageError "
        "ConflictJobError",
        request=_FILE,
    ),
    f"GET {_J}": Operation("listJobs", "List jobs", list[Summary] | Counted, "NoNodeError", headers=_LINK),
    f"POST {_J}/bulk": Operation(
        "changeJobs", "Act on many jobs", BulkResults, request={"action": "stop", "jobs": ["a"]}
    ),
    f"GET {_J}/{{job}}": Operation("getJob", "Show a job", Detail, _JOB),
    f"DELETE {_J}/{{job}}": Operation("deleteJob", "Delete a job", Done, f"{_JOB} ConflictJobError"),
    f"GET {_J}/{{job}}/attempts/{{number}}": Operation("getJobAttempt", "Show an attempt of a job", Detail, _JOB),
    f"PUT {_J}/{{job}}/executionType": Operation(
        "setJobExecution",
        "Stop, start or restart a job",
        Done,
        f"{_JOB} ReadOnlyJobError ConflictJobError NoEnoughQuotaError",
    ),
    f"GET {_J}/{{job}}/config": Operation(
        "getJobConfig", "Show a job's file", None, f"{_JOB} NoJobConfigError", media={"text/yaml": _FILE}
    ),
    f"GET {_J}/{{job}}/events": Operation("listJobEvents", "List what happened to a job", Events, _JOB),
    f"GET {_J}/{{job}}/why": Operation("explainJob", "Tell why a job waits", Waits, _JOB),
    f"GET {_J}/{{job}}/ssh": Operation(
        "getJobSsh", "Tell how to reach a job's tasks", SshDoors, f"{_JOB} NoJobConfigError NoJobSshInfoError"
    ),
    f"PUT {_J}/{{job}}/tag": Operation("tagJob", "Put a tag on a job", Done, _JOB, request={"value": "baseline"}),
    f"DELETE {_J}/{{job}}/tag": Operation(
        "untagJob", "Take a tag off a job", Done, f"{_JOB} NoTagError", request={"value": "baseline"}
    ),
    f"PUT {_J}/{{job}}/archive": Operation(
        "archiveJob", "Put a job into the archive", Done, f"{_JOB} ConflictJobError"
    ),
    f"DELETE {_J}/{{job}}/archive": Operation(
        "unarchiveJob", "Take a job out of the archive", Done, f"{_JOB} ConflictJobError"
    ),
    f"PUT {_J}/{{job}}/priority": Operation(
        "setJobPriority", "Change a job's priority", Done, f"{_JOB} ReadOnlyJobError FinishedJobError"
    ),
    f"PUT {_J}/{{job}}/rank": Operation(
        "setJobRank", "Move a job in its queue", Done, f"{_JOB} ReadOnlyJobError FinishedJobError"
    ),
    f"POST {_J}/{{job}}/checkpoint": Operation(
        "checkpointJob", "Tell that a job saved its work", Done, f"{_JOB} ReadOnlyJobError FinishedJobError"
    ),
}
