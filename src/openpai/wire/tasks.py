"""Documents of tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from openpai.wire.answers import ExitCode, JobName, Ms, NodeName, NullableMs, RoleName, UserName
from openpai.wire.doc import Doc, Document
from openpai.wire.exits import Cause, ExitSpec
from openpai.wire.states import State


class RoleStatus(Document):
    """A task role."""

    name: RoleName


class Container(Document):
    """Where a task attempt ran, and how it ended."""

    containerId: Annotated[str | None, Doc(example="0d7c2a52c1f64e2f8d1b6a1f6d8b3c11/0/worker/0/0")]
    containerIp: Annotated[str | None, Doc(example="10.0.0.17")]
    containerNodeName: NodeName | None
    containerPorts: Annotated[Mapping[str, str], Doc(example={"ssh": "30022"})]
    containerGpus: Annotated[str | None, Doc(example="0,1")]
    containerLog: Annotated[str | None, Doc("path of its logs in the API", example=None)]
    containerExitCode: ExitCode
    containerExitSpec: ExitSpec | None
    containerExitDiagnostics: Annotated[str | None, Doc(example=None)]
    containerExitCause: Annotated[Cause | None, Doc("the cause of a failure; null for other ends")]


class AttemptTimes(Document):
    """When a task attempt was granted, started and ended."""

    currentAttemptCreatedTime: NullableMs
    currentAttemptLaunchedTime: NullableMs
    currentAttemptCompletedTime: NullableMs


class TaskHead(Document):
    """A task without its attempts, and when it was created, first started and ended."""

    taskIndex: Annotated[int, Doc(example=0)]
    taskUid: Annotated[str, Doc(example="0d7c2a52c1f64e2f8d1b6a1f6d8b3c11/0/worker/0")]
    taskState: State
    retries: Annotated[int, Doc(example=0)]
    accountableRetries: Annotated[int, Doc(example=0)]
    createdTime: NullableMs
    launchedTime: NullableMs
    completedTime: NullableMs


class TaskStatus(TaskHead, Container, AttemptTimes):
    """A task, with its newest attempt."""

    attemptId: Annotated[int | None, Doc(example=0)]
    attemptState: State
    isRemoved: Annotated[bool, Doc("whether its role became smaller and lost it; it ends, or has ended", example=False)]


class Role(Document):
    """A task role and its tasks."""

    taskRoleStatus: RoleStatus
    taskStatuses: Sequence[TaskStatus]


class TaskAttempt(AttemptTimes, Container):
    """One attempt of a task."""

    attemptId: Annotated[int, Doc(example=0)]
    attemptState: State


class TaskDetail(TaskHead):
    """A task with all of its attempts, newest first."""

    username: UserName
    jobName: JobName
    jobAttemptId: Annotated[int, Doc(example=0)]
    taskRoleName: RoleName
    attempts: Sequence[TaskAttempt]


class KeptTaskFiles(Document):
    """The files that one task attempt left in its working directory."""

    jobAttemptId: Annotated[int, Doc(example=0)]
    taskRoleName: RoleName
    taskIndex: Annotated[int, Doc(example=0)]
    attemptId: Annotated[int, Doc(example=0)]
    files: Annotated[int, Doc(example=3)]
    bytes: Annotated[int, Doc(example=104857600)]
    isCounted: Annotated[bool, Doc("false if there are more: very many files are not all counted")]
    keptUntil: Ms


class KeptFiles(Document):
    """The kept files of all tasks of a job."""

    kept: Sequence[KeptTaskFiles]


class LogLocation(Document):
    """A log and its address."""

    name: Annotated[str, Doc(example="stdout")]
    uri: Annotated[
        str,
        Doc(
            "works for two minutes without a login, with the rights of the user who requested it",
            example="/api/v2/jobs/ann~train/attempts/0/taskRoles/worker/taskIndex/0/attempts/0/logs/stdout?ticket=gAAA",
        ),
    ]


class LogLocations(Document):
    """The logs of a task attempt."""

    locations: Sequence[LogLocation]


class LogSearchHit(Document):
    """A line in which a text was found, or a part of a very long one."""

    stream: Annotated[str, Doc(example="stdout")]
    offset: Annotated[int, Doc("of the first byte in its stream", example=104857600)]
    time: Annotated[int, Doc("when it was seen in the log, in milliseconds", example=1735689600000)]
    text: Annotated[str, Doc("as a terminal would show it, without control sequences", example="loss=nan")]


class LogSearch(Document):
    """The lines in which a text was found."""

    hits: Sequence[LogSearchHit]
    next: Annotated[
        str | None, Doc("where the search goes on; null when all was searched", example="stdout=2147483648")
    ]


class GpuUse(Document):
    """What a GPU of a task does; null where that is not measured."""

    index: Annotated[int, Doc("its number on the node", example=0)]
    busyPercent: Annotated[
        float | None, Doc("share of the time in which a kernel ran; 100 also while it waits for others", example=98)
    ]
    tensorPercent: Annotated[float | None, Doc("how busy its tensor cores are, from Hopper on", example=61.5)]
    memoryBytes: Annotated[int | None, Doc(example=34359738368)]
    memoryTotalBytes: Annotated[int | None, Doc(example=85899345920)]
    powerWatts: Annotated[float | None, Doc(example=612.5)]
    powerLimitWatts: Annotated[float | None, Doc(example=700)]
    temperatureCelsius: Annotated[float | None, Doc(example=64)]


class TaskProgress(Document):
    """What a task reported last about its progress."""

    step: Annotated[float, Doc(example=1200)]
    total: Annotated[float | None, Doc(example=5000)]
    metrics: Annotated[Mapping[str, float], Doc(example={"loss": 0.31})]
    time: Ms
    stepsPerSecond: Annotated[float | None, Doc("over the last minutes", example=2.5)]
    secondsLeft: Annotated[float | None, Doc("for the remaining steps at this rate", example=1520)]


class TaskUse(Document):
    """What a running task uses, measured every few seconds; null where that is not measured."""

    taskRoleName: RoleName
    taskIndex: Annotated[int, Doc(example=0)]
    jobAttemptId: Annotated[int, Doc(example=0)]
    attemptId: Annotated[int, Doc(example=0)]
    time: Ms
    cpus: Annotated[float | None, Doc("processors used since the sample before; null for the first", example=3.5)]
    cpusRequested: Annotated[int, Doc(example=4)]
    cpuSeconds: Annotated[float, Doc("processor time since the task started", example=5123.4)]
    memoryBytes: Annotated[int, Doc("without the cache of files", example=2147483648)]
    memoryRequestedBytes: Annotated[int, Doc(example=8589934592)]
    diskReadBytes: Annotated[int | None, Doc("since the task started", example=1073741824)]
    diskWrittenBytes: Annotated[int | None, Doc("since the task started", example=1048576)]
    diskReadPerSecond: Annotated[float | None, Doc("bytes", example=52428800)]
    diskWrittenPerSecond: Annotated[float | None, Doc("bytes", example=1024)]
    networkReceivedBytes: Annotated[
        int | None, Doc("since the task started; null where tasks share the network of their node", example=None)
    ]
    networkSentBytes: Annotated[int | None, Doc("since the task started", example=None)]
    networkReceivedPerSecond: Annotated[float | None, Doc("bytes", example=None)]
    networkSentPerSecond: Annotated[float | None, Doc("bytes", example=None)]
    processes: Annotated[int, Doc(example=9)]
    stoppedProcesses: Annotated[int, Doc("how many of them are stopped, as by SIGSTOP", example=0)]
    gpus: Sequence[GpuUse]
    progress: TaskProgress | None


class JobUse(Document):
    """What the running tasks of a job use."""

    tasks: Sequence[TaskUse]
