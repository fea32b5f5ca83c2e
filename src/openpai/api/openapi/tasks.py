"""What is told of the tasks of jobs, of their logs, and of attempts as older clients ask for them."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from openpai.api.openapi.details import ExitCode, ExitMessages, ExitSpec, NullableMs, RoleStatus, RuntimeExit, State
from openpai.api.openapi.operations import Answer, JobId, JobName, Ms, NodeName, Operation, RoleName, UserName


class TaskAttempt(Answer):
    """One try at running a task."""

    attemptId: int = Field(examples=[0])
    attemptState: State
    currentAttemptCreatedTime: NullableMs
    currentAttemptLaunchedTime: NullableMs
    currentAttemptCompletedTime: NullableMs
    containerId: str | None = Field(examples=["0d7c2a52c1f64e2f8d1b6a1f6d8b3c11/0/worker/0/0"])
    containerIp: str | None = Field(examples=["10.0.0.17"])
    containerNodeName: NodeName | None
    containerPorts: dict[str, str] = Field(examples=[{"ssh": "30022"}])
    containerGpus: str | None = Field(examples=["0,1"])
    containerLog: str | None = Field(examples=[None])
    containerExitCode: ExitCode
    containerExitSpec: ExitSpec | None
    containerExitDiagnostics: str | None = Field(examples=[None])


class TaskDetail(Answer):
    """A task with every try, newest first."""

    username: UserName
    jobName: JobName
    jobAttemptId: int = Field(examples=[0])
    taskRoleName: RoleName
    taskIndex: int = Field(examples=[0])
    taskUid: str = Field(examples=["0d7c2a52c1f64e2f8d1b6a1f6d8b3c11/0/worker/0"])
    taskState: State
    retries: int = Field(examples=[0])
    accountableRetries: int = Field(examples=[0])
    createdTime: NullableMs
    launchedTime: NullableMs
    completedTime: NullableMs
    attempts: list[TaskAttempt]


class LogLocation(Answer):
    """A log, and where it is read."""

    name: str = Field(examples=["stdout"])
    uri: str = Field(
        description="opens without a login for two minutes, for the one who asked",
        examples=["/api/v2/jobs/ann~train/attempts/0/taskRoles/worker/taskIndex/0/attempts/0/logs/stdout?ticket=gAAA"],
    )


class LogLocations(Answer):
    """The logs of a task attempt."""

    locations: list[LogLocation]


class ShortTask(Answer):
    """A task in short."""

    taskIndex: int = Field(examples=[0])
    taskState: State
    containerId: str | None = Field(examples=["0d7c2a52c1f64e2f8d1b6a1f6d8b3c11/0/worker/0/0"])
    containerIp: str | None = Field(examples=["10.0.0.17"])
    containerGpus: str | None = Field(examples=["0,1"])
    containerLog: str | None = Field(examples=[None])
    containerExitCode: ExitCode


class ShortRole(Answer):
    """A task role and its tasks, in short."""

    taskRoleStatus: RoleStatus
    taskStatuses: list[ShortTask]


class ExitDiagnostics(Answer):
    """How an attempt ended."""

    diagnosticsSummary: str = Field(examples=["1 task of role worker failed (minFailedInstances 1)"])
    runtime: RuntimeExit | None
    launcher: str | None = Field(examples=[None])


class OldAttempt(Answer):
    """An attempt of a job as older clients know it."""

    jobName: JobName
    frameworkName: JobId
    uid: str = Field(examples=["0_0d7c2a52c1f64e2f8d1b6a1f6d8b3c11"])
    userName: UserName
    state: State
    originState: str = Field(examples=["AttemptRunning"])
    attemptIndex: int = Field(examples=[0])
    jobStartedTime: Ms
    attemptStartedTime: NullableMs
    attemptCompletedTime: NullableMs
    exitCode: ExitCode
    exitPhrase: str | None = Field(examples=[None])
    exitType: str | None = Field(examples=[None])
    exitDiagnostics: ExitDiagnostics | None
    appExitSpec: ExitSpec | None
    appExitDiagnostics: str | None = Field(examples=[None])
    appExitMessages: ExitMessages | None
    appExitTriggerMessage: str | None = Field(examples=[None])
    appExitTriggerTaskRoleName: str | None = Field(examples=[None])
    appExitTriggerTaskIndex: int | None = Field(examples=[None])
    totalGpuNumber: int = Field(examples=[8])
    totalTaskNumber: int = Field(examples=[2])
    totalTaskRoleNumber: int = Field(examples=[1])
    jobPriority: str | None = Field(examples=["prod"])
    taskRoles: dict[str, ShortRole]
    isLatest: bool = Field(examples=[True])


class WorkOfTask(Answer):
    """What one task attempt left in its working directory."""

    jobAttemptId: int = Field(examples=[0])
    taskRoleName: RoleName
    taskIndex: int = Field(examples=[0])
    attemptId: int = Field(examples=[0])
    files: int = Field(examples=[3])
    bytes: int = Field(examples=[104857600])
    isCounted: bool = Field(description="whether these are all: of very many files only a part is counted")
    keptUntil: Ms


class KeptWorks(Answer):
    """What is kept of the files that the tasks of a job left."""

    kept: list[WorkOfTask]


_NO_JOB: Final = "NoJobError"
_J: Final = "/api/v2/jobs/{job}"
_TASK: Final = f"{_J}/attempts/{{number}}/taskRoles/{{role}}/taskIndex/{{index}}/attempts"
_LOGS: Final = f"{_TASK}/{{attempt}}/logs"
_KEPT: Final = "NoJobError NoJobConfigError"
_EVENT: Final = (
    'id: stdout=3\nevent: log\ndata: {"stream":"stdout","offset":0,"text":"hi\\n"}\n\nevent: end\ndata: {}\n\n'
)
_HEADERS: Final = {
    "X-Log-Offset": "of one log that is read: the place of the answer's first byte",
    "X-Log-End": "of one log that is read: the place after the answer's last byte, where a part may have been cut out",
    "X-Log-Size": "of one log that is read: its bytes in all",
}
_TAR: Final = f"{_TASK}/{{attempt}}/work"
OPERATIONS: Final[dict[str, Operation]] = {
    f"GET {_TASK}": Operation("listTaskAttempts", "Show a task and its attempts", TaskDetail, _KEPT),
    f"GET {_LOGS}": Operation("listLogs", "List the logs of a task attempt", LogLocations, f"{_KEPT} NoTaskLogError"),
    f"GET {_LOGS}/{{name}}": Operation(
        "getLog",
        "Read or follow a log",
        None,
        f"{_KEPT} NoTaskLogError",
        media={"text/plain": "epoch 1 of 10\n", "text/event-stream": _EVENT},
        headers=_HEADERS,
    ),
    f"GET {_J}/work": Operation(
        "listKeptWork", "List what tasks left in their working directories", KeptWorks, _NO_JOB
    ),
    f"GET {_TAR}": Operation(
        "getKeptWork",
        "Fetch what a task left in its working directory",
        None,
        f"{_KEPT} NoTaskLogError NoFileError",
        media={"application/x-tar": "(a tar archive)"},
    ),
    f"GET {_J}/job-attempts/healthz": Operation(
        "checkOldAttempts", "Ask whether attempts are kept", media={"text/plain": "ok"}
    ),
    f"GET {_J}/job-attempts": Operation("listOldAttempts", "List attempts for older clients", list[OldAttempt], _KEPT),
    f"GET {_J}/job-attempts/{{number}}": Operation(
        "getOldAttempt", "Show an attempt for older clients", OldAttempt, _KEPT
    ),
}
