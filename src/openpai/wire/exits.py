"""Documents of the exits of tasks and job attempts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from openpai.wire.doc import Doc, Document


class ExitSpec(Document):
    """A row of the exit-code table."""

    code: Annotated[int, Doc(example=137)]
    phrase: Annotated[str, Doc(example="ContainerOOMKilled")]
    issuer: Annotated[str, Doc(example="PAI_OS")]
    causer: Annotated[str, Doc(example="USER_CONTAINER")]
    type: Annotated[str, Doc(example="USER_FAILURE")]
    stage: Annotated[str, Doc(example="RUNNING")]
    behavior: Annotated[str, Doc(example="PERMANENT")]
    reaction: Annotated[str, Doc(example="NEVER_RETRY")]
    reason: Annotated[str, Doc(example="the container used more memory than it asked for")]
    repro: Annotated[Sequence[str], Doc(example=[])]
    solution: Annotated[Sequence[str], Doc(example=["ask for more memory"])]


class ErrorLogs(Document):
    """The lines that led to a diagnosis."""

    user: Annotated[str, Doc(example="")]
    platform: Annotated[str, Doc(example="")]


class RuntimeExit(Document):
    """The exit of a task, as its runtime reported it."""

    exitCode: Annotated[int, Doc(example=137)]
    originUserExitCode: Annotated[int, Doc(example=137)]
    reason: Annotated[str, Doc(example="the container used more memory than it asked for")]
    solution: Annotated[str, Doc(example="ask for more memory")]
    errorLogs: ErrorLogs
    name: Literal["app"]


class ExitMessages(Document):
    """The message of the task's exit, or else that of the platform."""

    container: None
    runtime: RuntimeExit | None
    launcher: Annotated[str | None, Doc(example=None)]


class AttemptCause(Document):
    """Why an attempt of a job ended, and the task that decided it; null before its end."""

    appExitSpec: ExitSpec | None
    appExitDiagnostics: Annotated[str | None, Doc(example=None)]
    appExitMessages: ExitMessages | None
    appExitTriggerMessage: Annotated[str | None, Doc(example=None)]
    appExitTriggerTaskRoleName: Annotated[str | None, Doc(example=None)]
    appExitTriggerTaskIndex: Annotated[int | None, Doc(example=None)]
