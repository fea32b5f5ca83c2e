"""Documents of job attempts, as older clients ask for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from openpai.wire.answers import ExitCode, JobId, JobName, Ms, NullableMs, UserName
from openpai.wire.doc import Doc, Document
from openpai.wire.exits import AttemptCause, RuntimeExit
from openpai.wire.states import State
from openpai.wire.tasks import RoleStatus


class ShortTask(Document):
    """A task in short."""

    taskIndex: Annotated[int, Doc(example=0)]
    taskState: State
    containerId: Annotated[str | None, Doc(example="0d7c2a52c1f64e2f8d1b6a1f6d8b3c11/0/worker/0/0")]
    containerIp: Annotated[str | None, Doc(example="10.0.0.17")]
    containerGpus: Annotated[str | None, Doc(example="0,1")]
    containerLog: Annotated[str | None, Doc(example=None)]
    containerExitCode: ExitCode


class ShortRole(Document):
    """A task role and its tasks, in short."""

    taskRoleStatus: RoleStatus
    taskStatuses: Sequence[ShortTask]


class ExitDiagnostics(Document):
    """How an attempt ended."""

    diagnosticsSummary: Annotated[str, Doc(example="1 task of role worker failed (minFailedInstances 1)")]
    runtime: RuntimeExit | None
    launcher: Annotated[str | None, Doc(example=None)]


class OldAttemptHead(AttemptCause):
    """An attempt of a job as older clients know it, without its tasks."""

    jobName: JobName
    frameworkName: JobId
    uid: Annotated[str, Doc(example="0_0d7c2a52c1f64e2f8d1b6a1f6d8b3c11")]
    userName: UserName
    state: State
    originState: Annotated[str, Doc(example="AttemptRunning")]
    attemptIndex: Annotated[int, Doc(example=0)]
    jobStartedTime: Ms
    attemptStartedTime: NullableMs
    attemptCompletedTime: NullableMs
    exitCode: ExitCode
    exitPhrase: Annotated[str | None, Doc(example=None)]
    exitType: Annotated[str | None, Doc(example=None)]
    exitDiagnostics: ExitDiagnostics | None
    totalGpuNumber: Annotated[int, Doc(example=8)]
    totalTaskNumber: Annotated[int, Doc(example=2)]
    totalTaskRoleNumber: Annotated[int, Doc(example=1)]
    jobPriority: Annotated[str | None, Doc(example="prod")]
    isLatest: Annotated[bool, Doc(example=True)]


class OldAttempt(OldAttemptHead):
    """An attempt of a job as older clients know it."""

    taskRoles: Mapping[str, ShortRole]
