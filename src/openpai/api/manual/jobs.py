"""What is told of jobs: submitting, listing, looking at them, and what may be wished of them."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from openpai.api.manual.telling import (
    Answer,
    Done,
    JobId,
    JobName,
    Ms,
    NodeName,
    RoleName,
    Sentence,
    Told,
    UserName,
    VcName,
)

State = Literal["RUNNING", "WAITING", "STOPPING", "SUCCEEDED", "FAILED", "STOPPED"]
ExitCode = Annotated[int | None, Field(description="see the exit-code table; null until it ended", examples=[0])]
NullableMs = Annotated[int | None, Field(description="milliseconds since 1970", examples=[1_767_225_600_000])]


class Submitted(Answer):
    """A job that is durable: it will run, or say why not."""

    status: Literal[202]
    message: Sentence
    user: UserName
    name: JobName
    id: JobId
    warnings: list[str] = Field(description="what was understood but has not the effect one may expect", examples=[[]])


class RetryDetails(Answer):
    """How often a job was tried again, by whose fault."""

    user: int = Field(examples=[1])
    platform: int = Field(examples=[0])
    resource: int = Field(examples=[0])


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


class Counted(Answer):
    """A page of the list, and how many jobs match in all."""

    totalCount: int = Field(ge=0, examples=[1])
    data: list[Summary]


class ExitSpec(Answer):
    """A row of the exit-code table."""

    code: int = Field(examples=[137])
    phrase: str = Field(examples=["ContainerOOMKilled"])
    issuer: str = Field(examples=["PAI_OS"])
    causer: str = Field(examples=["USER_CONTAINER"])
    type: str = Field(examples=["USER_FAILURE"])
    stage: str = Field(examples=["RUNNING"])
    behavior: str = Field(examples=["PERMANENT"])
    reaction: str = Field(examples=["NEVER_RETRY"])
    reason: str = Field(examples=["the container used more memory than it asked for"])
    repro: list[str] = Field(examples=[[]])
    solution: list[str] = Field(examples=[["ask for more memory"]])


class ErrorLogs(Answer):
    """The lines that led to a diagnosis."""

    user: str = Field(examples=[""])
    platform: str = Field(examples=[""])


class RuntimeExit(Answer):
    """How a task ended by itself."""

    exitCode: int = Field(examples=[137])
    originUserExitCode: int = Field(examples=[137])
    reason: str = Field(examples=["the container used more memory than it asked for"])
    solution: str = Field(examples=["ask for more memory"])
    errorLogs: ErrorLogs


class ExitMessages(Answer):
    """What the task says of its end, or else what the platform says."""

    container: None
    runtime: RuntimeExit | None
    launcher: str | None = Field(examples=[None])


class AttemptStatus(Answer):
    """How a job is and how one attempt of it is."""

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
    virtualCluster: VcName
    attemptId: int = Field(examples=[0])
    attemptState: State
    appId: str = Field(examples=["0_0d7c2a52c1f64e2f8d1b6a1f6d8b3c11"])
    appProgress: int = Field(description="1 once the attempt ended", examples=[0])
    appTrackingUrl: Literal[""]
    appCreatedTime: NullableMs
    appLaunchedTime: NullableMs
    appCompletedTime: NullableMs
    appExitCode: ExitCode
    appExitSpec: ExitSpec | None
    appExitDiagnostics: str | None = Field(examples=[None])
    appExitMessages: ExitMessages | None
    appExitTriggerMessage: str | None = Field(examples=[None])
    appExitTriggerTaskRoleName: str | None = Field(examples=[None])
    appExitTriggerTaskIndex: int | None = Field(examples=[None])
    appExitType: str | None = Field(examples=[None])


class RoleStatus(Answer):
    """A task role."""

    name: RoleName


class TaskStatus(Answer):
    """A task, with its newest attempt."""

    taskIndex: int = Field(examples=[0])
    taskUid: str = Field(examples=["0d7c2a52c1f64e2f8d1b6a1f6d8b3c11/0/worker/0"])
    taskState: State
    containerId: str | None = Field(examples=["0d7c2a52c1f64e2f8d1b6a1f6d8b3c11/0/worker/0/0"])
    containerIp: str | None = Field(examples=["10.0.0.17"])
    containerNodeName: NodeName | None
    containerPorts: dict[str, str] = Field(examples=[{"ssh": "30022"}])
    containerGpus: str | None = Field(examples=["0,1"])
    containerLog: str | None = Field(description="where in the API its logs are", examples=[None])
    containerExitCode: ExitCode
    containerExitSpec: ExitSpec | None
    containerExitDiagnostics: str | None = Field(examples=[None])
    createdTime: NullableMs
    launchedTime: NullableMs
    completedTime: NullableMs
    retries: int = Field(examples=[0])
    accountableRetries: int = Field(examples=[0])
    attemptId: int | None = Field(examples=[0])
    attemptState: State
    currentAttemptCreatedTime: NullableMs
    currentAttemptLaunchedTime: NullableMs
    currentAttemptCompletedTime: NullableMs


class Role(Answer):
    """A task role and its tasks."""

    taskRoleStatus: RoleStatus
    taskStatuses: list[TaskStatus]


class Detail(Answer):
    """A job with one of its attempts and every task of that."""

    debugId: JobId
    name: JobName
    tags: list[str] = Field(examples=[["baseline"]])
    jobPriority: str | None = Field(examples=["prod"])
    rank: int = Field(examples=[0])
    private: bool = Field(examples=[False])
    archivedTime: int | None = Field(examples=[None])
    jobStatus: AttemptStatus
    taskRoles: dict[str, Role]


class Event(Answer):
    """Something that happened to a job."""

    uid: str = Field(examples=["17"])
    frameworkName: JobId
    podUid: str | None = Field(examples=["0d7c2a52c1f64e2f8d1b6a1f6d8b3c11/0/worker/0/0"])
    taskroleName: RoleName | None
    taskName: str | None = Field(examples=["worker-0"])
    taskIndex: int | None = Field(examples=[0])
    type: Literal["Normal", "Warning"]
    reason: str = Field(examples=["TaskStarted"])
    message: Sentence
    firstTimestamp: Ms
    lastTimestamp: Ms
    count: Literal[1]
    sourceComponent: Literal["openpai"]
    sourceHost: str | None = Field(examples=["node-17"])


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
    told: str = Field(examples=["virtual cluster vision uses 16 of its 16 GPUs"])
    unblock: str = Field(description="what would change that", examples=["wait for ann~first to end"])
    ahead: list[str] = Field(description="who goes first", examples=[["ann~first"]])
    position: int | None = Field(examples=[1])
    estimate: Estimate | None


class Waits(Answer):
    """Why a job waits; nothing where it does not."""

    waits: list[Wait]


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
OPERATIONS: Final[dict[str, Told]] = {
    f"POST {_J}": Told(
        "submitJob",
        "Submit a job",
        Submitted,
        "InvalidProtocolError ForbiddenUserError NoEnoughQuotaError NoVirtualClusterError NoStorageError "
        "ConflictJobError",
        request=_FILE,
    ),
    f"GET {_J}": Told("listJobs", "List jobs", list[Summary] | Counted, headers=_LINK),
    f"POST {_J}/bulk": Told("changeJobs", "Act on many jobs", BulkResults, request={"action": "stop", "jobs": ["a"]}),
    f"GET {_J}/{{job}}": Told("getJob", "Show a job", Detail, _JOB),
    f"DELETE {_J}/{{job}}": Told("deleteJob", "Delete a job", Done, f"{_JOB} ConflictJobError"),
    f"GET {_J}/{{job}}/attempts/{{number}}": Told("getJobAttempt", "Show an attempt of a job", Detail, _JOB),
    f"PUT {_J}/{{job}}/executionType": Told(
        "setJobExecution", "Stop or start a job", Done, f"{_JOB} ReadOnlyJobError ConflictJobError NoEnoughQuotaError"
    ),
    f"GET {_J}/{{job}}/config": Told(
        "getJobConfig", "Show a job's file", None, f"{_JOB} NoJobConfigError", media={"text/yaml": _FILE}
    ),
    f"GET {_J}/{{job}}/events": Told("listJobEvents", "List what happened to a job", Events, _JOB),
    f"GET {_J}/{{job}}/why": Told("explainJob", "Tell why a job waits", Waits, _JOB),
    f"GET {_J}/{{job}}/ssh": Told(
        "getJobSsh", "Tell how to reach a job's tasks", SshDoors, f"{_JOB} NoJobConfigError NoJobSshInfoError"
    ),
    f"PUT {_J}/{{job}}/tag": Told("tagJob", "Put a tag on a job", Done, _JOB, request={"value": "baseline"}),
    f"DELETE {_J}/{{job}}/tag": Told(
        "untagJob", "Take a tag off a job", Done, f"{_JOB} NoTagError", request={"value": "baseline"}
    ),
    f"PUT {_J}/{{job}}/archive": Told("archiveJob", "Put a job into the archive", Done, f"{_JOB} ConflictJobError"),
    f"DELETE {_J}/{{job}}/archive": Told(
        "unarchiveJob", "Take a job out of the archive", Done, f"{_JOB} ConflictJobError"
    ),
    f"PUT {_J}/{{job}}/priority": Told(
        "setJobPriority", "Change a job's priority", Done, f"{_JOB} ReadOnlyJobError ConflictJobError"
    ),
    f"PUT {_J}/{{job}}/rank": Told(
        "setJobRank", "Move a job in its queue", Done, f"{_JOB} ReadOnlyJobError ConflictJobError"
    ),
    f"POST {_J}/{{job}}/checkpoint": Told(
        "checkpointJob", "Tell that a job saved its work", Done, f"{_JOB} ReadOnlyJobError ConflictJobError"
    ),
}
