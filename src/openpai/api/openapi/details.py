"""What is told of one job: its state, one of its attempts with every task, and how things ended."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from openpai.api.openapi.operations import Answer, JobId, JobName, Ms, NodeName, RoleName, UserName, VcName

State = Literal["RUNNING", "WAITING", "STOPPING", "SUCCEEDED", "FAILED", "STOPPED"]
ExitCode = Annotated[int | None, Field(description="see the exit-code table; null until it ended", examples=[0])]
NullableMs = Annotated[int | None, Field(description="milliseconds since 1970", examples=[1_767_225_600_000])]


class RetryDetails(Answer):
    """How often a job was tried again, by whose fault."""

    user: int = Field(examples=[1])
    platform: int = Field(examples=[0])
    resource: int = Field(examples=[0])


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
    name: Literal["app"]


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


class Restart(Answer):
    """An attempt that began because somebody wanted the job to run again."""

    attemptId: int = Field(ge=0, examples=[1])
    time: int = Field(description="milliseconds since 1970", examples=[1767225600000])
    message: str = Field(description="who wanted that, and why", examples=["ann restarted the job: new data"])


class Detail(Answer):
    """A job with one of its attempts and every task of that."""

    debugId: JobId
    name: JobName
    tags: list[str] = Field(examples=[["baseline"]])
    jobPriority: str | None = Field(examples=["prod"])
    rank: int = Field(examples=[0])
    private: bool = Field(examples=[False])
    archivedTime: int | None = Field(examples=[None])
    timeLimitMinutes: float | None = Field(description="after which an attempt is ended", examples=[120])
    restarts: list[Restart] = Field(description="attempts that people asked for; all others but the first are retries")
    jobStatus: AttemptStatus
    taskRoles: dict[str, Role]
