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
